//! An entry: one outpoint with its coin, or the mark that it is spent. Memtables and run files hold
//! the same bytes.
//!
//! | bytes | content |
//! | --- | --- |
//! | 2 | little-endian: length of what follows; in memory bit 14 is FRESH and bit 15 the arena's |
//! | 32 | txid |
//! | 1-5 | vout as a VarInt |
//! | rest | the coin as Bitcoin Core serializes it (`coins.h`); nothing for a tombstone |

use godwit_primitives::coin::MAX_SCRIPT_SIZE;
use godwit_primitives::{Amount, Coin, OutPoint, Txid};
use godwit_stream::{Decode, DecodeError, SpanReader};

const LEN_MASK: u16 = (1 << 14) - 1;
const FRESH: u16 = 1 << 14;
/// Bytes before the name.
pub(super) const HEADER: usize = 2;
/// VarInt of a 32-bit number.
const MAX_VOUT_LEN: usize = 5;
/// Height with the coinbase bit, compressed amount, script length.
const MAX_COIN_OVERHEAD: usize = 5 + 10 + 3;
/// Longest entry in bytes.
pub(super) const MAX_ENTRY: usize =
    HEADER + 32 + MAX_VOUT_LEN + MAX_COIN_OVERHEAD + MAX_SCRIPT_SIZE;
/// Shortest entry in bytes: a tombstone.
pub(super) const MIN_ENTRY: usize = HEADER + 32 + 1;

const _: () = assert!(MAX_ENTRY - HEADER <= LEN_MASK as usize);
const _: () = assert!(MAX_ENTRY <= super::arena::MAX_LEN);

/// An outpoint as entries spell it.
pub(super) struct Name {
    bytes: [u8; 32 + MAX_VOUT_LEN],
    len: u8,
}

impl Name {
    #[inline]
    pub(super) fn new(outpoint: &OutPoint) -> Self {
        let mut bytes = [0; 32 + MAX_VOUT_LEN];
        bytes[..32].copy_from_slice(outpoint.txid.as_bytes());
        let len = 32 + write_var_int(outpoint.vout, &mut bytes[32..]);
        Self { bytes, len: len as u8 }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether `bytes` begin with an entry of this name, or with a part of one.
    pub(super) fn begins_entry(&self, bytes: &[u8]) -> bool {
        bytes.get(HEADER..).is_some_and(|body| body.starts_with(self.as_slice()))
    }
}

/// Writes Core's VarInt of `n` and returns its length.
#[inline]
pub(super) fn write_var_int(n: u32, out: &mut [u8]) -> usize {
    if n < 0x80 {
        out[0] = n as u8;
        return 1;
    }
    let mut groups = [0; MAX_VOUT_LEN];
    let mut first = MAX_VOUT_LEN - 1;
    groups[first] = (n & 0x7f) as u8;
    let mut rest = n;
    while rest > 0x7f {
        rest = (rest >> 7) - 1;
        first -= 1;
        groups[first] = (rest & 0x7f) as u8 | 0x80;
    }
    out[..MAX_VOUT_LEN - first].copy_from_slice(&groups[first..]);
    MAX_VOUT_LEN - first
}

/// A view of one entry.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry that `bytes` begin with; `None` when they are too short for it.
    #[inline]
    pub(super) fn first_of(bytes: &'a [u8]) -> Option<Self> {
        let len = length(*bytes.first_chunk()?);
        if len < MIN_ENTRY {
            return None;
        }
        Some(Self { bytes: bytes.get(..len)? })
    }

    /// All bytes, the header included.
    #[inline]
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    fn header(&self) -> u16 {
        u16::from_le_bytes([self.bytes[0], self.bytes[1]])
    }

    #[inline]
    pub(super) fn is_tombstone(&self) -> bool {
        let vout_and_coin = &self.body()[32..];
        let vout_end = vout_and_coin.iter().position(|byte| byte & 0x80 == 0);
        vout_end == Some(vout_and_coin.len() - 1)
    }

    /// Whether nothing below the active memtable needs to hear of this coin's end.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.header() & FRESH != 0
    }

    /// What follows the header: name and coin.
    #[inline]
    pub(super) fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER..]
    }

    #[inline]
    pub(super) fn is_named(&self, name: &Name) -> bool {
        // The shortest VarInt makes no name the beginning of another. Nearly all others differ in the first
        // bytes, for which no comparison of slices is called.
        self.body().first_chunk::<8>() == name.bytes.first_chunk()
            && self.body().starts_with(name.as_slice())
    }

    /// The coin of an entry of this name, as Bitcoin Core serializes it; empty for a tombstone.
    #[inline]
    pub(super) fn coin_named(&self, name: &Name) -> &'a [u8] {
        &self.body()[name.as_slice().len()..]
    }

    #[inline]
    fn split(&self) -> Result<(OutPoint, &'a [u8]), DecodeError> {
        let mut reader = SpanReader::new(self.body());
        let txid = Txid::decode(&mut reader)?;
        let vout = reader.var_int_u32()?;
        Ok((OutPoint { txid, vout }, reader.rest()))
    }

    pub(super) fn outpoint(&self) -> Result<OutPoint, DecodeError> {
        self.split().map(|(outpoint, _)| outpoint)
    }

    /// The coin as Bitcoin Core serializes it; empty for a tombstone.
    pub(super) fn coin_bytes(&self) -> &'a [u8] {
        self.split().map_or(&[], |(_, coin)| coin)
    }

    /// The coin; `None` for a tombstone.
    #[inline]
    pub(super) fn coin(&self) -> Result<Option<Coin>, DecodeError> {
        if self.is_tombstone() {
            return Ok(None);
        }
        let (_, coin) = self.split()?;
        Coin::from_compressed(coin).map(Some)
    }

    /// The header as files hold it: the length alone.
    #[inline]
    pub(super) fn file_header(&self) -> [u8; HEADER] {
        (self.header() & LEN_MASK).to_le_bytes()
    }
}

/// What an entry with so many bytes of name and coin begins with in memory.
#[inline]
pub(super) fn header(body: usize, fresh: bool) -> [u8; HEADER] {
    debug_assert!(body <= usize::from(LEN_MASK));
    (body as u16 | if fresh { FRESH } else { 0 }).to_le_bytes()
}

/// Bytes of the entry that begins so, the header included.
#[inline]
pub(super) fn length(header: [u8; HEADER]) -> usize {
    HEADER + usize::from(u16::from_le_bytes(header) & LEN_MASK)
}

/// A coin before it is compressed.
#[derive(Clone, Copy)]
pub(super) struct CoinParts<'a> {
    pub(super) value: Amount,
    pub(super) script: &'a [u8],
    pub(super) height: u32,
    pub(super) coinbase: bool,
}

/// Entries in one piece, as tests compare them.
#[cfg(test)]
pub(super) mod whole {
    use godwit_primitives::coin::encode_compressed;
    use godwit_stream::DataStream;

    use super::*;

    pub(in crate::utxo) fn coin(outpoint: &OutPoint, fresh: bool, coin: CoinParts<'_>) -> Vec<u8> {
        let mut encoded = DataStream::new();
        encode_compressed(coin.value, coin.script, coin.height, coin.coinbase, &mut encoded);
        entry(outpoint, fresh, encoded.as_slice())
    }

    pub(in crate::utxo) fn tombstone(outpoint: &OutPoint) -> Vec<u8> {
        entry(outpoint, false, &[])
    }

    fn entry(outpoint: &OutPoint, fresh: bool, coin: &[u8]) -> Vec<u8> {
        let name = Name::new(outpoint);
        let body = [name.as_slice(), coin].concat();
        [&header(body.len(), fresh)[..], &body].concat()
    }
}
