//! Finds the keys of a PSBT that take part in an input's script.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

use bitcoin::bip32::KeySource;
use bitcoin::hashes::{Hash, hash160};
use bitcoin::psbt::Input;
use bitcoin::script::{Instruction, Script};
use bitcoin::secp256k1;
use bitcoin::taproot::LeafVersion;
use bitcoin::{PublicKey, TapLeafHash, XOnlyPublicKey};

use super::spent::{SpendKind, Spent};

/// A key in the role in which it signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningKey {
    /// ECDSA, with the key in the form that the script has it in.
    Ecdsa(PublicKey),
    /// The internal key of a taproot output: the key path. Of a signature beside which no internal key is
    /// named, the output's own key.
    Internal(XOnlyPublicKey),
    /// A key in a leaf script of a taproot output.
    Leaf(XOnlyPublicKey, TapLeafHash),
}

impl fmt::Display for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ecdsa(key) => key.fmt(f),
            Self::Internal(key) => write!(f, "{key} (key path)"),
            Self::Leaf(key, leaf) => write!(f, "{key} (leaf {leaf})"),
        }
    }
}

/// A key and where it is derived from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOfInput {
    pub key: SigningKey,
    /// Fingerprint of the master key and the path from there.
    pub source: KeySource,
}

/// The named keys that the script of an input really asks for.
pub(super) fn keys_of_input(input: &Input, spent: &Spent) -> Vec<KeyOfInput> {
    if spent.kind == SpendKind::Tr {
        return taproot_keys(input);
    }
    let pushed = pushes(&spent.script);
    let keys = input.bip32_derivation.iter();
    keys.filter_map(|(key, source)| {
        let key = SigningKey::Ecdsa(pushed_form(&pushed, key, spent.kind.is_legacy())?);
        Some(KeyOfInput { key, source: source.clone() })
    })
    .collect()
}

fn taproot_keys(input: &Input) -> Vec<KeyOfInput> {
    let scripts = input.tap_scripts.values();
    let leaves: BTreeMap<TapLeafHash, HashSet<&[u8]>> = scripts
        .filter(|(_, version)| *version == LeafVersion::TapScript)
        .map(|(leaf, version)| (TapLeafHash::from_script(leaf, *version), pushes(leaf)))
        .collect();
    let mut keys = Vec::new();
    for (key, (named, source)) in &input.tap_key_origins {
        if input.tap_internal_key == Some(*key) {
            keys.push(KeyOfInput { key: SigningKey::Internal(*key), source: source.clone() });
        }
        let bytes = key.serialize();
        let hash = hash160::Hash::hash(&bytes);
        for leaf in named.iter().collect::<BTreeSet<_>>() {
            let takes_part = leaves.get(leaf).is_some_and(|pushed| {
                pushed.contains(&bytes[..]) || pushed.contains(&hash.as_byte_array()[..])
            });
            if takes_part {
                let key = SigningKey::Leaf(*key, *leaf);
                keys.push(KeyOfInput { key, source: source.clone() });
            }
        }
    }
    keys
}

/// The key in the form in which a script pushes it, or the hash of it.
fn pushed_form(
    pushed: &HashSet<&[u8]>,
    key: &secp256k1::PublicKey,
    uncompressed_too: bool,
) -> Option<PublicKey> {
    let forms = [PublicKey::new(*key), PublicKey::new_uncompressed(*key)];
    let forms = forms.into_iter().take(if uncompressed_too { 2 } else { 1 });
    forms.into_iter().find(|form| {
        let bytes = form.to_bytes();
        let hash = hash160::Hash::hash(&bytes);
        pushed.contains(&bytes[..]) || pushed.contains(&hash.as_byte_array()[..])
    })
}

/// What a script pushes, as far as it can be read.
fn pushes(script: &Script) -> HashSet<&[u8]> {
    let instructions = script.instructions().map_while(Result::ok);
    let pushed = instructions.filter_map(|instruction| match instruction {
        Instruction::PushBytes(bytes) => Some(bytes.as_bytes()),
        Instruction::Op(_) => None,
    });
    pushed.collect()
}
