//! The private key to a public one that a PSBT names, among the keys of a store.

use bitcoin::NetworkKind;
use bitcoin::bip32::KeySource;

use super::keys_of_input::SigningKey;
use crate::error::KeyError;
use crate::private_key::PrivateKey;
use crate::store::KeyStore;
use crate::stored_key::StoredKey;

/// What is known of a key that a PSBT names.
#[derive(Debug)]
pub enum Found {
    NotOurs,
    Ours(PrivateKey),
    /// The source is one of ours, but the key there is another one.
    OtherKey,
}

/// Looks up a key by its source; the key that it gives is the one that was asked for.
pub type KeyLookup<'a> = dyn FnMut(&KeySource, &SigningKey) -> Result<Found, KeyError> + 'a;

/// Looks for a key of a network in an open key store. A key of another network has the same public key
/// and would sign as well, for coins that the user does not mean.
///
/// # Errors
///
/// If there is no memory to compute with.
pub fn look_up_in(
    store: &KeyStore,
    network: NetworkKind,
    source: &KeySource,
    key: &SigningKey,
) -> Result<Found, KeyError> {
    look_up(store.entries_of(network).flat_map(|entry| &entry.keys), source, key)
}

/// Looks for a key among stored ones. A key that is not at the place where one of them should have it
/// is told from one that is somebody else's: it was moved or made up.
pub(super) fn look_up<'a>(
    stored: impl IntoIterator<Item = &'a StoredKey>,
    source: &KeySource,
    key: &SigningKey,
) -> Result<Found, KeyError> {
    let mut found = Found::NotOurs;
    for stored in stored {
        let private = match key {
            SigningKey::Ecdsa(key) => stored.find(source, &key.inner)?,
            SigningKey::Internal(key) | SigningKey::Leaf(key, _) => {
                stored.find_x_only(source, key)?
            }
        };
        if let Some(private) = private {
            return Ok(Found::Ours(private));
        }
        if stored.path_to(source)?.is_some() {
            found = Found::OtherKey;
        }
    }
    Ok(found)
}
