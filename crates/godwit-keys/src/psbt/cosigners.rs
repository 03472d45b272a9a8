//! Tells which keys of a public descriptor are ours.

use bitcoin::NetworkKind;
use bitcoin::bip32::{DerivationPath, KeySource};
use bitcoin::secp256k1::Secp256k1;
use miniscript::descriptor::{DefiniteDescriptorKey, DescriptorPublicKey};
use miniscript::{Descriptor, MiniscriptKey, ToPublicKey};

use super::keys_of_input::SigningKey;
use super::lookup::{Found, look_up_in};
use crate::error::KeyError;
use crate::store::KeyStore;

/// Whose a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Ours,
    Cosigner,
    /// It says that it comes from a key of ours, and does not.
    Misplaced,
}

/// A key of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStanding {
    /// As it stands in the descriptor.
    pub key: String,
    pub standing: Standing,
}

/// Where a key comes from, and its public key.
pub(crate) fn source_of(key: &DefiniteDescriptorKey) -> (KeySource, bitcoin::PublicKey) {
    let path = key.full_derivation_path().unwrap_or_else(DerivationPath::master);
    let public = key.derive_public_key(&Secp256k1::verification_only());
    ((key.master_fingerprint(), path), public)
}

/// The keys of a public descriptor, each by the private key at its first index. Of text that is no
/// descriptor, and behind a hardened wildcard, there are none.
///
/// # Errors
///
/// If there is no memory to compute with.
pub fn standings(
    store: &KeyStore,
    network: NetworkKind,
    descriptor: &str,
) -> Result<Vec<KeyStanding>, KeyError> {
    let Ok(descriptor) = descriptor.parse::<Descriptor<DescriptorPublicKey>>() else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for key in descriptor.iter_pk() {
        let Ok(first) = key.clone().at_derivation_index(0) else { continue };
        let (source, public) = source_of(&first);
        let wanted = match key.is_x_only_key() {
            true => SigningKey::Internal(public.to_x_only_pubkey()),
            false => SigningKey::Ecdsa(public),
        };
        let standing = match look_up_in(store, network, &source, &wanted)? {
            Found::Ours(_) => Standing::Ours,
            Found::NotOurs => Standing::Cosigner,
            Found::OtherKey => Standing::Misplaced,
        };
        found.push(KeyStanding { key: key.to_string().replace('\'', "h"), standing });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
