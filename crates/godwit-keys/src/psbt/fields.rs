//! Rules about single fields that `bitcoin`'s decoder does not hold: the keys of MuSig2 (BIP373), which
//! it does not know, as Core checks them.

use bitcoin::secp256k1::PublicKey;

use super::error::{FormatError, PsbtMap};
use super::limits::{MAX_ALL_PAIRS, MAX_DERIVATIONS, MAX_PAIRS, MAX_SIGNATURES};
use super::pairs::{Maps, Pairs};

const INPUT_MUSIG2_PARTICIPANTS: u8 = 0x1a;
const INPUT_MUSIG2_NONCE: u8 = 0x1b;
const INPUT_MUSIG2_SIGNATURE: u8 = 0x1c;
const OUTPUT_MUSIG2_PARTICIPANTS: u8 = 0x08;

/// `PSBT_IN_PARTIAL_SIG`, `PSBT_IN_TAP_SCRIPT_SIG`.
const INPUT_SIGNATURES: [u8; 2] = [0x02, 0x14];
/// `PSBT_IN_BIP32_DERIVATION`, `PSBT_IN_TAP_BIP32_DERIVATION`.
const INPUT_DERIVATIONS: [u8; 2] = [0x06, 0x16];
/// `PSBT_OUT_BIP32_DERIVATION`, `PSBT_OUT_TAP_BIP32_DERIVATION`.
const OUTPUT_DERIVATIONS: [u8; 2] = [0x02, 0x07];

/// A compressed public key.
const KEY_BYTES: usize = 33;
const LEAF_HASH_BYTES: usize = 32;
const NONCE_BYTES: usize = 66;
const SIGNATURE_BYTES: usize = 32;

/// Keys are looked for in scripts and signatures verified one by one: neither may be many.
fn check_counts(map: PsbtMap, pairs: &Pairs) -> Result<(), FormatError> {
    let count = |types: [u8; 2]| pairs.keys().filter(|key| types.contains(&key[0])).count();
    let too_many = pairs.len() > MAX_PAIRS
        || match map {
            PsbtMap::Global => false,
            PsbtMap::Input(_) => {
                count(INPUT_SIGNATURES) > MAX_SIGNATURES
                    || count(INPUT_DERIVATIONS) > MAX_DERIVATIONS
            }
            PsbtMap::Output(_) => count(OUTPUT_DERIVATIONS) > MAX_DERIVATIONS,
        };
    if too_many { Err(FormatError::TooManyPairs(map)) } else { Ok(()) }
}

/// Checks the fields of all maps.
pub(super) fn check(maps: &Maps) -> Result<(), FormatError> {
    let mut left = MAX_ALL_PAIRS;
    for (map, pairs) in maps.named() {
        check_counts(map, pairs)?;
        left = left.checked_sub(pairs.len()).ok_or(FormatError::TooManyPairs(map))?;
        let participants = match map {
            PsbtMap::Global => continue,
            PsbtMap::Input(_) => INPUT_MUSIG2_PARTICIPANTS,
            PsbtMap::Output(_) => OUTPUT_MUSIG2_PARTICIPANTS,
        };
        for (key, value) in of_type(pairs, participants) {
            check_key(map, key, key.len() == 1 + KEY_BYTES)?;
            let whole = value.len().is_multiple_of(KEY_BYTES) && are_public_keys(value);
            check_value(map, key, whole)?;
        }
        if let PsbtMap::Input(_) = map {
            for (kind, bytes) in
                [(INPUT_MUSIG2_NONCE, NONCE_BYTES), (INPUT_MUSIG2_SIGNATURE, SIGNATURE_BYTES)]
            {
                for (key, value) in of_type(pairs, kind) {
                    let short = 1 + 2 * KEY_BYTES;
                    check_key(map, key, [short, short + LEAF_HASH_BYTES].contains(&key.len()))?;
                    check_value(map, key, value.len() == bytes)?;
                }
            }
        }
    }
    Ok(())
}

fn of_type(pairs: &Pairs, kind: u8) -> impl Iterator<Item = (&Vec<u8>, &Vec<u8>)> {
    pairs.range(vec![kind]..vec![kind + 1])
}

/// All keys of these types begin with public keys.
fn check_key(map: PsbtMap, key: &[u8], has_length: bool) -> Result<(), FormatError> {
    let keys = &key[1..key.len() - (key.len() - 1) % KEY_BYTES];
    match has_length && are_public_keys(keys) {
        true => Ok(()),
        false => Err(FormatError::InvalidKey { map, key: key.to_vec() }),
    }
}

fn check_value(map: PsbtMap, key: &[u8], valid: bool) -> Result<(), FormatError> {
    match valid {
        true => Ok(()),
        false => Err(FormatError::InvalidValue { map, key: key[0] }),
    }
}

fn are_public_keys(bytes: &[u8]) -> bool {
    bytes.chunks(KEY_BYTES).all(|key| PublicKey::from_slice(key).is_ok())
}
