//! Outpoints and coins for tests: the script mix of mainnet's UTXO set, from a seed.

use godwit_primitives::{Coin, OutPoint, ScriptBytes, Txid};

use super::key::{HashedOutPoint, UtxoHasher};

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

pub(super) fn hasher() -> UtxoHasher {
    UtxoHasher::new(*b"sixteen byte key")
}

/// Outpoint `n`: two outputs a transaction.
pub(super) fn outpoint(n: u64) -> HashedOutPoint {
    let mut txid = [0; 32];
    Random(n / 2).fill(&mut txid);
    hasher().hash(OutPoint { txid: Txid::from_bytes(txid), vout: (n % 2) as u32 })
}

/// Coin `n`, its script one of the usual kinds in about the shares of today's UTXO set.
pub(super) fn coin(n: u64) -> Coin {
    let mut random = Random(!n);
    let mut hash = [0; 32];
    random.fill(&mut hash);
    let script: Vec<u8> = match random.below(100) {
        0..30 => [&[0x76, 0xa9, 20], &hash[..20], &[0x88, 0xac]].concat(),
        30..40 => [&[0xa9, 20], &hash[..20], &[0x87]].concat(),
        40..70 => [&[0x00, 20], &hash[..20]].concat(),
        70..97 => [&[0x51, 32], &hash[..]].concat(),
        _ => [&[0x00, 32], &hash[..]].concat(),
    };
    let value = match random.below(4) {
        0 => 546,
        1 => random.below(100) as i64 * 10_000,
        _ => random.below(1 << 32) as i64,
    };
    let height = (500_000 + random.below(400_000)) as u32;
    Coin { value, script_pubkey: ScriptBytes::from_vec(script), height, coinbase: false }
}

/// A coin whose script is `len` bytes long.
pub(super) fn long_coin(n: u64, len: usize) -> Coin {
    let mut script = vec![0x51; len];
    Random(n).fill(&mut script[1..]);
    Coin { script_pubkey: ScriptBytes::from_vec(script), ..coin(n) }
}
