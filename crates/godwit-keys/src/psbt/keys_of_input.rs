//! Which of the keys that a PSBT names take part in an input's script.

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
    /// The internal key of a taproot output: the key path.
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
    /// The key.
    pub key: SigningKey,
    /// Fingerprint of the master key and the path from there.
    pub source: KeySource,
}

/// The named keys that the script of an input really asks for.
pub(super) fn keys_of_input(input: &Input, spent: &Spent) -> Vec<KeyOfInput> {
    match spent.kind {
        SpendKind::Tr => taproot_keys(input),
        kind => {
            let in_script = |key| key_in_script(&spent.script, key, kind.is_legacy());
            let keys = input.bip32_derivation.iter();
            keys.filter_map(|(key, source)| Some((in_script(key)?, source)))
                .map(|(key, source)| KeyOfInput {
                    key: SigningKey::Ecdsa(key),
                    source: source.clone(),
                })
                .collect()
        }
    }
}

fn taproot_keys(input: &Input) -> Vec<KeyOfInput> {
    let mut keys = Vec::new();
    for (key, (leaves, source)) in &input.tap_key_origins {
        if input.tap_internal_key == Some(*key) {
            keys.push(KeyOfInput { key: SigningKey::Internal(*key), source: source.clone() });
        }
        for (leaf, version) in input.tap_scripts.values() {
            let hash = TapLeafHash::from_script(leaf, *version);
            let takes_part = *version == LeafVersion::TapScript
                && leaves.contains(&hash)
                && names_x_only(leaf, key);
            if takes_part {
                let key = SigningKey::Leaf(*key, hash);
                keys.push(KeyOfInput { key, source: source.clone() });
            }
        }
    }
    keys
}

/// The key in the form in which a script pushes it, or the hash of it.
fn key_in_script(
    script: &Script,
    key: &secp256k1::PublicKey,
    uncompressed_too: bool,
) -> Option<PublicKey> {
    let forms = [PublicKey::new(*key), PublicKey::new_uncompressed(*key)];
    let forms = &forms[..if uncompressed_too { 2 } else { 1 }];
    let bytes: Vec<_> = forms.iter().map(|form| (form, form.to_bytes())).collect();
    pushes(script).find_map(|push| {
        let is = |bytes: &[u8]| push == bytes || push == hash160::Hash::hash(bytes).as_byte_array();
        bytes.iter().find(|(_, bytes)| is(bytes)).map(|(form, _)| **form)
    })
}

fn names_x_only(script: &Script, key: &XOnlyPublicKey) -> bool {
    let bytes = key.serialize();
    let hash = hash160::Hash::hash(&bytes);
    pushes(script).any(|push| push == bytes || push == hash.as_byte_array())
}

fn pushes(script: &Script) -> impl Iterator<Item = &[u8]> {
    script.instructions().map_while(Result::ok).filter_map(|instruction| match instruction {
        Instruction::PushBytes(bytes) => Some(bytes.as_bytes()),
        Instruction::Op(_) => None,
    })
}
