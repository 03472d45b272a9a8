//! A private key as the key file keeps it.

use std::fmt;

use bitcoin::bip32::{ChildNumber, KeySource};
use bitcoin::secp256k1::{PublicKey, XOnlyPublicKey};
use godwit_secret::LockError;

use crate::error::KeyError;
use crate::extended_key::ExtendedPrivateKey;
use crate::private_key::PrivateKey;

/// A private key, and where others say that it lies.
pub enum StoredKey {
    /// A key with children.
    Extended {
        key: ExtendedPrivateKey,
        /// Root and path of the key, where it is not a root itself and its descriptor tells.
        origin: Option<KeySource>,
    },
    /// A key without.
    Single {
        key: PrivateKey,
        /// Whether its public key is written in 33 bytes.
        compressed: bool,
    },
}

impl StoredKey {
    /// A second key of the same content.
    pub fn try_clone(&self) -> Result<Self, LockError> {
        Ok(match self {
            Self::Extended { key, origin } => {
                Self::Extended { key: key.try_clone()?, origin: origin.clone() }
            }
            Self::Single { key, compressed } => {
                Self::Single { key: key.try_clone()?, compressed: *compressed }
            }
        })
    }

    /// Whether two are the same, to the last byte.
    pub(crate) fn is_same(&self, other: &Self) -> Result<bool, KeyError> {
        Ok(match (self, other) {
            (
                Self::Extended { key: one, origin },
                Self::Extended { key: other, origin: other_origin },
            ) => origin == other_origin && one.to_bytes()? == other.to_bytes()?,
            (
                Self::Single { key: one, compressed },
                Self::Single { key: other, compressed: other_compressed },
            ) => compressed == other_compressed && one == other,
            _ => false,
        })
    }

    /// What tells it from other keys: its public key, for one with children a hash of its chain code as well,
    /// and the origin that it is stored with.
    pub(crate) fn identity(&self) -> Result<(String, Option<KeySource>), KeyError> {
        Ok(match self {
            Self::Extended { key, origin } => (key.identity()?, origin.clone()),
            Self::Single { key, compressed: true } => (key.public_key()?.to_string(), None),
            Self::Single { key, compressed: false } => {
                (bitcoin::PublicKey::new_uncompressed(key.public_key()?).to_string(), None)
            }
        })
    }

    /// The path from this key to `source`, if that says that it lies below: it begins with the root and
    /// path of the key's origin, or counts from the key itself.
    pub(crate) fn path_to<'a>(
        &self,
        source: &'a KeySource,
    ) -> Result<Option<&'a [ChildNumber]>, KeyError> {
        let Self::Extended { key, origin } = self else { return Ok(None) };
        let (fingerprint, path) = (source.0, source.1.as_ref());
        if let Some((root, to_key)) = origin
            && *root == fingerprint
            && let Some(rest) = path.strip_prefix(to_key.as_ref())
        {
            return Ok(Some(rest));
        }
        Ok((key.fingerprint()? == fingerprint).then_some(path))
    }

    /// The key at `source` if its public key is `wanted`. A key without children has no path: it is
    /// found by `wanted` alone.
    pub fn find(
        &self,
        source: &KeySource,
        wanted: &PublicKey,
    ) -> Result<Option<PrivateKey>, KeyError> {
        self.find_where(source, |public| public == *wanted)
    }

    /// As [`find`](Self::find), for taproot, where the sign of the point is not said.
    pub fn find_x_only(
        &self,
        source: &KeySource,
        wanted: &XOnlyPublicKey,
    ) -> Result<Option<PrivateKey>, KeyError> {
        self.find_where(source, |public| public.x_only_public_key().0 == *wanted)
    }

    fn find_where(
        &self,
        source: &KeySource,
        is_wanted: impl FnOnce(PublicKey) -> bool,
    ) -> Result<Option<PrivateKey>, KeyError> {
        let key = match self {
            Self::Single { key, .. } => key.try_clone()?,
            Self::Extended { key, .. } => match self.path_to(source)? {
                Some(path) => match key.derive(path) {
                    Ok(child) => child.private_key()?,
                    // A path that the key cannot have was made up, or is of another key.
                    Err(KeyError::TooDeep | KeyError::NoSuchChild) => return Ok(None),
                    Err(error) => return Err(error),
                },
                None => return Ok(None),
            },
        };
        Ok(is_wanted(key.public_key()?).then_some(key))
    }
}

impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredKey([redacted])")
    }
}
