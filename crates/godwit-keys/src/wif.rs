//! The text of a single key: wallet import format.
//!
//! Source: Bitcoin Core `key_io.cpp`, `DecodeSecret`.

use bitcoin::NetworkKind;
use godwit_secret::{Releasable, SecretArray, SecretBytes, SecretSlice, SecretString};

use crate::base58;
use crate::error::{KeyError, TextError};
use crate::guarded::guarded;
use crate::private_key::PrivateKey;

const MAIN: u8 = 128;
const TEST: u8 = 239;
/// Behind a key whose public key is written in 33 bytes.
const COMPRESSED: u8 = 1;

/// What a WIF says.
struct Wif {
    key: PrivateKey,
    network: NetworkKind,
    compressed: bool,
}

impl Releasable for Wif {}

/// The key, its network, and whether its public key is written in 33 bytes or in 65.
///
/// # Errors
///
/// When `text` is not exactly a WIF; of white space around it as well.
pub fn parse_wif(text: SecretSlice<'_>) -> Result<(PrivateKey, NetworkKind, bool), KeyError> {
    let Wif { key, network, compressed } = guarded(|| {
        base58::decode_check(text)?.expose_secret(|bytes| {
            let (version, rest) = bytes.split_first().ok_or(TextError::Length)?;
            let network = match *version {
                MAIN => NetworkKind::Main,
                TEST => NetworkKind::Test,
                _ => return Err(TextError::Version.into()),
            };
            let (number, rest) = rest.split_first_chunk::<32>().ok_or(TextError::Length)?;
            let compressed = match rest {
                [] => false,
                [COMPRESSED] => true,
                [_] => return Err(TextError::Compression.into()),
                _ => return Err(TextError::Length.into()),
            };
            let number = SecretArray::from_fn_in_place(|secret| *secret = *number)?;
            Ok(Wif { key: PrivateKey::from_secret(number)?, network, compressed })
        })
    })?;
    Ok((key, network, compressed))
}

/// The text of a key.
pub(crate) fn to_wif(
    key: &PrivateKey,
    network: NetworkKind,
    compressed: bool,
) -> Result<SecretString, KeyError> {
    let mut bytes = SecretBytes::with_capacity(34)?;
    bytes.push(if network.is_mainnet() { MAIN } else { TEST })?;
    bytes.extend_from_secret(key.secret())?;
    if compressed {
        bytes.push(COMPRESSED)?;
    }
    base58::encode_check(SecretSlice::from(&bytes))
}

#[cfg(test)]
mod tests;
