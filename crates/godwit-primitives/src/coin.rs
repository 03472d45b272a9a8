//! The unspent output and its stored forms (Bitcoin Core's `coins.h`, `undo.h`, `compressor.cpp`,
//! `kernel/coinstats.cpp`).

mod compress;
#[cfg(test)]
mod tests;

use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};
use smallvec::SmallVec;

use crate::{Amount, OutPoint};
use compress::{compress_amount, decode_script, decompress_amount, encode_script, read_lock};

/// An output script. Every standard form but uncompressed P2PK and bare multisig fits without an
/// allocation.
pub type ScriptBytes = SmallVec<[u8; 36]>;

/// Longest script that can be spent, in bytes (Core's `MAX_SCRIPT_SIZE`).
pub const MAX_SCRIPT_SIZE: usize = 10_000;

const OP_RETURN: u8 = 0x6a;

/// A transaction output that can be spent, and what spending it depends on.
///
/// Its encoding is Core's compressed form: VarInt of twice the height plus the coinbase bit, VarInt of
/// the compressed amount, compressed script. Decoding agrees with Core on every input, odd ones
/// included: a script above [`MAX_SCRIPT_SIZE`] becomes a single OP_RETURN, a compressed public key
/// that is not on the curve an empty script, and an amount is whatever the number says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coin {
    /// Value in satoshi.
    pub value: Amount,
    /// The script that must be satisfied.
    pub script_pubkey: ScriptBytes,
    /// Height of the block that created it; below 2^31.
    pub height: u32,
    /// Whether a coinbase created it.
    pub coinbase: bool,
}

impl Coin {
    /// Appends the form of undo records: as the compressed form, but with a zero byte after the first
    /// VarInt unless the height is zero (Core's `TxInUndoFormatter`).
    pub fn encode_undo<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_var_int(u64::from(code(self.height, self.coinbase)));
        if self.height > 0 {
            out.write_u8(0);
        }
        encode_output(self.value, &self.script_pubkey, out);
    }

    /// Reads the form that [`Coin::encode_undo`] writes. In the place of the zero byte, any VarInt of
    /// 32 bits is accepted: old versions of Core stored the transaction's version there.
    pub fn decode_undo(reader: &mut SpanReader<'_>) -> Result<Coin, DecodeError> {
        let code = reader.var_int_u32()?;
        if code >> 1 > 0 {
            reader.var_int_u32()?;
        }
        decode_output(code, reader)
    }

    /// The coin that `bytes` are the compressed form of, all of them: as a database holds it, which knows
    /// where it ends.
    pub fn from_compressed(bytes: &[u8]) -> Result<Coin, DecodeError> {
        let mut reader = SpanReader::new(bytes);
        let coin = Coin::decode(&mut reader)?;
        if reader.is_empty() { Ok(coin) } else { Err(DecodeError::TrailingBytes) }
    }
}

/// A coin where it lies, in either of its forms: what the rules about amounts, lock times and signature
/// operations ask of it, for which no script has to be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinView<'a> {
    /// Value in satoshi.
    pub value: Amount,
    /// Height of the block that created it.
    pub height: u32,
    /// Whether a coinbase created it.
    pub coinbase: bool,
    /// What must be satisfied.
    pub lock: Lock<'a>,
}

/// The script of a coin, as far as it is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock<'a> {
    /// This script.
    Script(&'a [u8]),
    /// That of P2SH, of some hash.
    ScriptHash,
    /// That of P2PKH or P2PK, of some key, or an empty one.
    Key,
}

impl<'a> CoinView<'a> {
    /// As [`Coin::from_compressed`].
    ///
    /// # Errors
    ///
    /// As [`Coin::from_compressed`].
    pub fn from_compressed(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = SpanReader::new(bytes);
        let code = reader.var_int_u32()?;
        let value = decompress_amount(reader.var_int()?) as Amount;
        let lock = read_lock(&mut reader)?;
        if !reader.is_empty() {
            return Err(DecodeError::TrailingBytes);
        }
        Ok(Self { value, height: code >> 1, coinbase: code & 1 == 1, lock })
    }
}

impl<'a> From<&'a Coin> for CoinView<'a> {
    fn from(coin: &'a Coin) -> Self {
        let Coin { value, height, coinbase, .. } = *coin;
        Self { value, height, coinbase, lock: Lock::Script(&coin.script_pubkey) }
    }
}

impl Encode for Coin {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        encode_compressed(self.value, &self.script_pubkey, self.height, self.coinbase, out);
    }
}

impl Decode for Coin {
    const MIN_ENCODED_LEN: usize = 3;

    fn decode(reader: &mut SpanReader<'_>) -> Result<Coin, DecodeError> {
        let code = reader.var_int_u32()?;
        decode_output(code, reader)
    }
}

/// Appends the encoding of the [`Coin`] with these fields, without one having to be made.
pub fn encode_compressed<A: Allocator>(
    value: Amount,
    script_pubkey: &[u8],
    height: u32,
    coinbase: bool,
    out: &mut DataStream<A>,
) {
    out.write_var_int(u64::from(code(height, coinbase)));
    encode_output(value, script_pubkey, out);
}

/// Appends the form of undo records of a coin whose compressed form is at hand; as [`Coin::encode_undo`].
pub fn compressed_to_undo<A: Allocator>(compressed: &[u8], out: &mut DataStream<A>) {
    let in_code = compressed.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    let (code, output) = compressed.split_at(in_code.min(compressed.len()));
    out.write(code);
    if !matches!(code, [0 | 1]) {
        out.write_u8(0);
    }
    out.write(output);
}

/// The compressed form of a coin, in two parts, of its form in undo records. `None` where the byte between
/// them is not the zero that is written now: old versions of Core had the transaction's version there.
pub fn undo_to_compressed(undo: &[u8]) -> Option<[&[u8]; 2]> {
    let in_code = undo.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    match undo.split_at_checked(in_code)? {
        (code @ [0 | 1], output) | (code, [0, output @ ..]) => Some([code, output]),
        _ => None,
    }
}

/// Whether no input can ever spend an output with this script, so that it never becomes a coin
/// (Core's `CScript::IsUnspendable`).
pub fn is_unspendable(script_pubkey: &[u8]) -> bool {
    script_pubkey.first() == Some(&OP_RETURN) || script_pubkey.len() > MAX_SCRIPT_SIZE
}

/// What an output with a script of this length adds to Core's measure of the UTXO set's size, which
/// does not depend on the database (`GetBogoSize`).
pub fn bogo_size(script_len: usize) -> u64 {
    // txid, vout, height and coinbase, amount, length of the script
    32 + 4 + 4 + 8 + 2 + script_len as u64
}

/// Appends the form of a coin that the hashes of the UTXO set are made of: outpoint, 32-bit
/// little-endian of twice the height plus the coinbase bit, output as on the wire (Core's `TxOutSer`).
pub fn txout_ser<A: Allocator>(outpoint: &OutPoint, coin: &Coin, out: &mut DataStream<A>) {
    out.put(outpoint);
    out.write_u32(code(coin.height, coin.coinbase));
    out.write_i64(coin.value);
    out.write_compact_size(coin.script_pubkey.len() as u64);
    out.write(&coin.script_pubkey);
}

fn code(height: u32, coinbase: bool) -> u32 {
    height << 1 | u32::from(coinbase)
}

/// Appends what follows height and coinbase bit in the encoding of a [`Coin`].
pub fn encode_output<A: Allocator>(value: Amount, script_pubkey: &[u8], out: &mut DataStream<A>) {
    out.write_var_int(compress_amount(value as u64));
    encode_script(script_pubkey, out);
}

fn decode_output(code: u32, reader: &mut SpanReader<'_>) -> Result<Coin, DecodeError> {
    Ok(Coin {
        value: decompress_amount(reader.var_int()?) as Amount,
        script_pubkey: decode_script(reader)?,
        height: code >> 1,
        coinbase: code & 1 == 1,
    })
}
