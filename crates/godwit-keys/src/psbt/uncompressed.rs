//! Derivations of keys in 65 bytes.
//!
//! BIP174 names a key in the form in which the script has it, and Core writes it so; `bitcoin` reads both
//! forms and keeps the point alone. So a derivation comes to `bitcoin` under the shorter form, and is written
//! under the one that it had.
//!
//! Source: Bitcoin Core, `psbt.h` (`DeserializeHDKeypaths`).

use std::collections::BTreeSet;

use bitcoin::secp256k1::PublicKey;

use super::error::{FormatError, PsbtMap};
use super::pairs::{Maps, Pairs};

/// `PSBT_IN_BIP32_DERIVATION`.
const INPUT_DERIVATION: u8 = 0x06;
/// `PSBT_OUT_BIP32_DERIVATION`.
const OUTPUT_DERIVATION: u8 = 0x02;

/// Bytes of a pair's key: its type and a public key of either form.
const SHORT: usize = 1 + 33;
const LONG: usize = 1 + 65;
/// What an uncompressed public key begins with. (The hybrid forms, 6 and 7, are in no script that is signed.)
const UNCOMPRESSED: u8 = 0x04;

/// The derivations of a PSBT whose keys were written uncompressed, by the pair's key in the shorter form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uncompressed {
    inputs: Vec<BTreeSet<Vec<u8>>>,
    outputs: Vec<BTreeSet<Vec<u8>>>,
}

impl Uncompressed {
    /// Brings all derivations to the shorter form.
    ///
    /// # Errors
    ///
    /// If a map has one point in both forms: `bitcoin` would keep one of them.
    pub(super) fn take(maps: &mut Maps) -> Result<Self, FormatError> {
        let mut taken = Self::default();
        for (index, pairs) in maps.inputs.iter_mut().enumerate() {
            taken.inputs.push(compress(pairs, INPUT_DERIVATION, PsbtMap::Input(index))?);
        }
        for (index, pairs) in maps.outputs.iter_mut().enumerate() {
            taken.outputs.push(compress(pairs, OUTPUT_DERIVATION, PsbtMap::Output(index))?);
        }
        Ok(taken)
    }

    /// Brings those that are still there back to the form that they had.
    pub(super) fn restore(&self, maps: &mut Maps) {
        let inputs = maps.inputs.iter_mut().zip(&self.inputs);
        for (pairs, keys) in inputs.chain(maps.outputs.iter_mut().zip(&self.outputs)) {
            for key in keys {
                if let (Some(value), Some(long)) = (pairs.remove(key), other_form(key)) {
                    pairs.insert(long, value);
                }
            }
        }
    }

    /// The input has no derivations any more.
    pub(super) fn forget_input(&mut self, index: usize) {
        self.inputs[index].clear();
    }
}

/// Takes what names a key that `ours` names in another form out of `theirs`: programs that write one form
/// alone make such copies. `is_input`: whether both are maps of an input.
pub(super) fn drop_other_forms(ours: &Pairs, theirs: &mut Pairs, is_input: bool) {
    let kind = if is_input { INPUT_DERIVATION } else { OUTPUT_DERIVATION };
    let has_long = |pairs: &Pairs| derivations(pairs, kind).any(|key| key.len() == LONG);
    if !has_long(ours) && !has_long(theirs) {
        return;
    }
    let doubled = derivations(theirs, kind)
        .filter(|key| other_form(key).is_some_and(|other| ours.contains_key(&other)));
    let doubled: Vec<Vec<u8>> = doubled.cloned().collect();
    for key in doubled {
        theirs.remove(&key);
    }
}

fn derivations(pairs: &Pairs, kind: u8) -> impl Iterator<Item = &Vec<u8>> {
    pairs.range(vec![kind]..vec![kind + 1]).map(|(key, _)| key)
}

fn compress(pairs: &mut Pairs, kind: u8, map: PsbtMap) -> Result<BTreeSet<Vec<u8>>, FormatError> {
    let long = derivations(pairs, kind).filter(|key| key.len() == LONG && key[1] == UNCOMPRESSED);
    let long: Vec<Vec<u8>> = long.cloned().collect();
    let mut compressed = BTreeSet::new();
    for key in long {
        // What is no point is left to `bitcoin`, which refuses it.
        let Some(short) = other_form(&key) else { continue };
        let value = pairs.remove(&key).expect("it was found there");
        if pairs.insert(short.clone(), value).is_some() {
            return Err(FormatError::DuplicateKey { map, key });
        }
        compressed.insert(short);
    }
    Ok(compressed)
}

/// A pair's key with the public key in it written in the other form.
fn other_form(key: &[u8]) -> Option<Vec<u8>> {
    let public = PublicKey::from_slice(key.get(1..)?).ok()?;
    match key.len() {
        SHORT => Some([&key[..1], &public.serialize_uncompressed()].concat()),
        LONG => Some([&key[..1], &public.serialize()].concat()),
        _ => None,
    }
}
