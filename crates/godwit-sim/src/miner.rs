//! Regtest block assembly and mining.
//!
//! The steps of making a block are separate functions over `bitcoin::Block`, so that a test can
//! break the block between any two of them.

use std::io::{self, Write};

use bitcoin::block::{Header, Version};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::hashes::Hash;
use bitcoin::script::Builder;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, Network, OutPoint, ScriptBuf, Sequence, Target,
    Transaction, TxIn, TxMerkleNode, TxOut, Witness, WitnessCommitment, WitnessMerkleNode,
    absolute, transaction,
};

/// Network magic of regtest, as it stands before every record of a block file.
pub const REGTEST_MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
/// The one target of regtest, in compact form; every second hash meets it.
pub const REGTEST_BITS: u32 = 0x207f_ffff;
/// Blocks between two halvings of the subsidy on regtest.
pub const HALVING_INTERVAL: u32 = 150;
/// Confirmations that a coinbase output needs before it can be spent.
pub const COINBASE_MATURITY: u32 = 100;
/// Version of mined blocks: BIP9 with no deployment signalled.
pub const BLOCK_VERSION: i32 = 0x2000_0000;
/// Distance of timestamps, and regtest's target spacing.
pub const BLOCK_SPACING: u32 = 600;
/// Largest block weight (BIP141).
pub const MAX_BLOCK_WEIGHT: u64 = 4_000_000;

/// The block that the next one builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    pub hash: BlockHash,
    /// Its height; genesis has 0.
    pub height: u32,
    /// Its timestamp, seconds since 1970.
    pub time: u32,
}

impl Tip {
    /// The tip after `block` was added on top of this one.
    pub fn extended_by(&self, block: &Block) -> Tip {
        Tip { hash: block.block_hash(), height: self.height + 1, time: block.header.time }
    }
}

/// The regtest genesis block.
pub fn genesis() -> Block {
    genesis_block(Network::Regtest)
}

/// The tip of a chain that has the genesis block alone.
pub fn genesis_tip() -> Tip {
    let block = genesis();
    Tip { hash: block.block_hash(), height: 0, time: block.header.time }
}

/// Newly created satoshi of the block at `height`.
pub fn subsidy(height: u32) -> u64 {
    (50 * 100_000_000u64).checked_shr(height / HALVING_INTERVAL).unwrap_or(0)
}

/// A coinbase with the height of BIP34, an extra push that makes it unique, and one output.
pub fn coinbase(
    height: u32,
    extra_nonce: u64,
    value: u64,
    script_pubkey: ScriptBuf,
) -> Transaction {
    // The push of the extra nonce also lifts the script over the lower limit of two bytes.
    let script_sig = Builder::new()
        .push_int(i64::from(height))
        .push_slice(extra_nonce.to_le_bytes())
        .into_script();
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig,
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: vec![TxOut { value: Amount::from_sat(value), script_pubkey }],
    }
}

/// An unmined block on `tip` whose first transaction is the coinbase; commits to nothing yet.
pub fn draft(tip: &Tip, transactions: Vec<Transaction>) -> Block {
    Block {
        header: Header {
            version: Version::from_consensus(BLOCK_VERSION),
            prev_blockhash: tip.hash,
            merkle_root: TxMerkleNode::all_zeros(),
            time: tip.time + BLOCK_SPACING,
            bits: CompactTarget::from_consensus(REGTEST_BITS),
            nonce: 0,
        },
        txdata: transactions,
    }
}

/// Commits to the witnesses where there are any, sets the merkle root and mines.
pub fn seal(block: &mut Block) {
    if block.txdata.iter().any(has_witness) {
        commit_witness(block);
    }
    set_merkle_root(block);
    mine(&mut block.header);
}

/// Adds BIP141's commitment output and reserved value to the coinbase.
pub fn commit_witness(block: &mut Block) {
    let reserved = [0u8; 32];
    block.txdata[0].input[0].witness = Witness::from_slice(&[reserved]);
    let root = block.witness_root().expect("the block has a coinbase");
    let output = commitment_output(root, &reserved);
    block.txdata[0].output.push(output);
}

/// The output that commits to a witness merkle root under a reserved value (BIP141).
pub fn commitment_output(root: WitnessMerkleNode, reserved: &[u8]) -> TxOut {
    let commitment = Block::compute_witness_commitment(&root, reserved);
    TxOut { value: Amount::ZERO, script_pubkey: commitment_script(commitment) }
}

fn commitment_script(commitment: WitnessCommitment) -> ScriptBuf {
    let mut push = [0u8; 36];
    push[..4].copy_from_slice(&[0xaa, 0x21, 0xa9, 0xed]);
    push[4..].copy_from_slice(commitment.as_byte_array());
    ScriptBuf::new_op_return(push)
}

/// Sets the header's merkle root to that of the block's transactions.
pub fn set_merkle_root(block: &mut Block) {
    block.header.merkle_root = block.compute_merkle_root().expect("the block has a transaction");
}

/// Counts the nonce up from its value until the hash meets the regtest target.
pub fn mine(header: &mut Header) {
    seek_nonce(header, true);
}

/// Counts the nonce up until the hash misses the regtest target.
pub fn mine_above_target(header: &mut Header) {
    seek_nonce(header, false);
}

fn seek_nonce(header: &mut Header, meets: bool) {
    let target = Target::from_compact(CompactTarget::from_consensus(REGTEST_BITS));
    while target.is_met_by(header.block_hash()) != meets {
        header.nonce = header.nonce.wrapping_add(1);
    }
}

/// Whether any input carries a witness.
pub fn has_witness(tx: &Transaction) -> bool {
    tx.input.iter().any(|input| !input.witness.is_empty())
}

/// Writes one record of a block file: magic, length (little-endian), block.
///
/// Bitcoin Core: `BlockManager::WriteBlock`, `LoadExternalBlockFile`.
pub fn write_record(out: &mut impl Write, block: &[u8]) -> io::Result<()> {
    let length = u32::try_from(block.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "block over 4 GiB"))?;
    out.write_all(&REGTEST_MAGIC)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(block)
}

#[cfg(test)]
mod tests {
    use bitcoin::hex::FromHex;

    use super::*;

    #[test]
    fn subsidy_halves_every_150_blocks_and_ends() {
        assert_eq!(subsidy(0), 5_000_000_000);
        assert_eq!(subsidy(149), 5_000_000_000);
        assert_eq!(subsidy(150), 2_500_000_000);
        assert_eq!(subsidy(150 * 32), 1);
        assert_eq!(subsidy(150 * 33), 0);
        assert_eq!(subsidy(150 * 64), 0);
    }

    #[test]
    fn genesis_is_cores() {
        let expected = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206";
        assert_eq!(genesis_tip().hash.to_string(), expected);
    }

    #[test]
    fn a_sealed_block_commits_to_its_contents() {
        let mut block = draft(&genesis_tip(), vec![coinbase(1, 0, subsidy(1), ScriptBuf::new())]);
        block.txdata[0].input[0].witness = Witness::from_slice(&[[0u8; 32]]);
        seal(&mut block);
        assert!(block.check_merkle_root() && block.check_witness_commitment());
        let target = Target::from_compact(CompactTarget::from_consensus(REGTEST_BITS));
        assert!(target.is_met_by(block.block_hash()));
        mine_above_target(&mut block.header);
        assert!(!target.is_met_by(block.block_hash()));
    }

    #[test]
    fn heights_are_pushed_as_bip34_compares_them() {
        let script_start = |height| {
            coinbase(height, 0, 1, ScriptBuf::new()).input[0].script_sig.to_bytes()[..2].to_vec()
        };
        assert_eq!(script_start(1)[0], 0x51);
        assert_eq!(script_start(16)[0], 0x60);
        assert_eq!(script_start(17), Vec::from_hex("0111").expect("hex"));
        assert_eq!(script_start(128), Vec::from_hex("0280").expect("hex"));
    }

    #[test]
    fn records_are_magic_length_block() {
        let mut out = Vec::new();
        write_record(&mut out, &[1, 2, 3]).expect("a vector takes every write");
        assert_eq!(out, [0xfa, 0xbf, 0xb5, 0xda, 3, 0, 0, 0, 1, 2, 3]);
    }
}
