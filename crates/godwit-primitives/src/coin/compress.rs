//! Short forms of amounts and output scripts (Bitcoin Core's `compressor.cpp`).

use godwit_stream::{Allocator, DataStream, DecodeError, SpanReader};
use secp256k1::PublicKey;

use super::{Lock, MAX_SCRIPT_SIZE, OP_RETURN, ScriptBytes};

const OP_DUP: u8 = 0x76;
const OP_EQUAL: u8 = 0x87;
const OP_EQUALVERIFY: u8 = 0x88;
const OP_HASH160: u8 = 0xa9;
const OP_CHECKSIG: u8 = 0xac;

/// Forms below this number are the short ones: 0 is P2PKH and 1 is P2SH, each followed by the hash; 2
/// and 3 are P2PK with a compressed key, 4 and 5 with an uncompressed one of even or odd y, each
/// followed by x. Any other script has its length plus this in front.
const SPECIAL_SCRIPTS: u32 = 6;

/// Makes amounts with many trailing decimal zeros small. Injective up to the supply of coins; beyond,
/// it wraps as Core's does.
pub(super) fn compress_amount(amount: u64) -> u64 {
    if amount == 0 {
        return 0;
    }
    let (mut rest, mut exponent) = (amount, 0);
    while exponent < 9 && rest % 10 == 0 {
        rest /= 10;
        exponent += 1;
    }
    if exponent == 9 {
        return (rest - 1).wrapping_mul(10).wrapping_add(10);
    }
    let (rest, last_digit) = (rest / 10, rest % 10);
    (rest.wrapping_mul(9).wrapping_add(last_digit - 1)).wrapping_mul(10).wrapping_add(exponent + 1)
}

/// The inverse of [`compress_amount`]; for numbers that it does not give, what Core makes of them.
pub(super) fn decompress_amount(compressed: u64) -> u64 {
    let Some(packed) = compressed.checked_sub(1) else {
        return 0;
    };
    let (exponent, packed) = (packed % 10, packed / 10);
    let significant = if exponent < 9 { packed / 9 * 10 + packed % 9 + 1 } else { packed + 1 };
    significant.wrapping_mul(10u64.pow(exponent as u32))
}

pub(super) fn encode_script<A: Allocator>(script: &[u8], out: &mut DataStream<A>) {
    match *script {
        [OP_DUP, OP_HASH160, 20, ref hash @ .., OP_EQUALVERIFY, OP_CHECKSIG]
            if hash.len() == 20 =>
        {
            write_special::<21>(0, hash, out)
        }
        [OP_HASH160, 20, ref hash @ .., OP_EQUAL] if hash.len() == 20 => {
            write_special::<21>(1, hash, out)
        }
        [33, form @ (2 | 3), ref x @ .., OP_CHECKSIG] if x.len() == 32 => {
            write_special::<33>(form, x, out)
        }
        [65, ref key @ .., OP_CHECKSIG] if is_valid_uncompressed_key(key) => {
            write_special::<33>(4 | key[64] & 1, &key[1..33], out)
        }
        _ => {
            out.write_var_int(script.len() as u64 + u64::from(SPECIAL_SCRIPTS));
            out.write(script);
        }
    }
}

/// A key that is not on the curve could not be restored from its x.
fn is_valid_uncompressed_key(key: &[u8]) -> bool {
    key.len() == 65 && key[0] == 4 && PublicKey::from_slice(key).is_ok()
}

fn write_special<const N: usize>(form: u8, payload: &[u8], out: &mut DataStream<impl Allocator>) {
    let mut bytes = [form; N];
    bytes[1..].copy_from_slice(payload);
    out.write(&bytes);
}

pub(super) fn decode_script(reader: &mut SpanReader<'_>) -> Result<ScriptBytes, DecodeError> {
    let form = reader.var_int_u32()?;
    match form {
        0 => {
            let mut script = [0; 25];
            script[..3].copy_from_slice(&[OP_DUP, OP_HASH160, 20]);
            script[3..23].copy_from_slice(&reader.array::<20>()?);
            script[23..].copy_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
            Ok(ScriptBytes::from_slice(&script))
        }
        1 => {
            let mut script = [0; 23];
            script[..2].copy_from_slice(&[OP_HASH160, 20]);
            script[2..22].copy_from_slice(&reader.array::<20>()?);
            script[22] = OP_EQUAL;
            Ok(ScriptBytes::from_slice(&script))
        }
        2 | 3 => {
            let mut script = [0; 35];
            script[..2].copy_from_slice(&[33, form as u8]);
            script[2..34].copy_from_slice(&reader.array::<32>()?);
            script[34] = OP_CHECKSIG;
            Ok(ScriptBytes::from_slice(&script))
        }
        4 | 5 => Ok(uncompressed_key_script(form as u8 - 2, reader.array()?)),
        _ => {
            let len = (form - SPECIAL_SCRIPTS) as usize;
            let script = reader.bytes(len)?;
            if len > MAX_SCRIPT_SIZE {
                return Ok(ScriptBytes::from_slice(&[OP_RETURN]));
            }
            Ok(ScriptBytes::from_slice(script))
        }
    }
}

/// As [`decode_script`], of which it puts nothing together.
pub(super) fn read_lock<'a>(reader: &mut SpanReader<'a>) -> Result<Lock<'a>, DecodeError> {
    const TOO_LONG: &[u8] = &[OP_RETURN];
    let form = reader.var_int_u32()?;
    match form {
        0 => reader.skip(20).map(|()| Lock::Key),
        1 => reader.skip(20).map(|()| Lock::ScriptHash),
        2..SPECIAL_SCRIPTS => reader.skip(32).map(|()| Lock::Key),
        _ => {
            let script = reader.bytes((form - SPECIAL_SCRIPTS) as usize)?;
            Ok(Lock::Script(if script.len() > MAX_SCRIPT_SIZE { TOO_LONG } else { script }))
        }
    }
}

fn uncompressed_key_script(parity: u8, x: [u8; 32]) -> ScriptBytes {
    let mut compressed = [parity; 33];
    compressed[1..].copy_from_slice(&x);
    let Ok(key) = PublicKey::from_slice(&compressed) else {
        return ScriptBytes::new();
    };
    let mut script = [65; 67];
    script[1..66].copy_from_slice(&key.serialize_uncompressed());
    script[66] = OP_CHECKSIG;
    ScriptBytes::from_slice(&script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{COIN, MAX_MONEY};

    const UNIT: u64 = COIN as u64;

    /// Bitcoin Core, `src/test/compress_tests.cpp`, `compress_amounts`.
    #[test]
    fn core_pairs_of_amounts() {
        let pairs = [
            (0, 0),
            (1, 1),
            (UNIT / 100, 0x7),
            (UNIT, 0x9),
            (50 * UNIT, 0x32),
            (21_000_000 * UNIT, 0x140_6f40),
        ];
        for (amount, compressed) in pairs {
            assert_eq!(compress_amount(amount), compressed);
            assert_eq!(decompress_amount(compressed), amount);
        }
    }

    /// Bitcoin Core, `src/test/compress_tests.cpp`, `compress_amounts`.
    #[test]
    fn core_ranges_of_amounts() {
        let satoshis = 1..=100_000;
        let cents = (1..=10_000).map(|n| n * UNIT / 100);
        let coins = (1..=10_000).map(|n| n * UNIT);
        let fifties = (1..=420_000).map(|n| n * 50 * UNIT);
        for amount in satoshis.chain(cents).chain(coins).chain(fifties) {
            assert_eq!(decompress_amount(compress_amount(amount)), amount);
        }
        for compressed in 0..100_000 {
            assert_eq!(compress_amount(decompress_amount(compressed)), compressed);
        }
    }

    #[test]
    fn amounts_at_the_ends_of_the_range() {
        for amount in [MAX_MONEY as u64 - 1, MAX_MONEY as u64] {
            assert_eq!(decompress_amount(compress_amount(amount)), amount);
        }
        // Out of range, so only that nothing panics.
        for n in [u64::MAX, u64::MAX - 5, i64::MAX as u64 + 1, 10u64.pow(19)] {
            decompress_amount(compress_amount(n));
            decompress_amount(n);
        }
    }
}
