//! The default descriptors of a key: those of a new wallet of Bitcoin Core.

use bitcoin::NetworkKind;
use bitcoin::bip32::{ChildNumber, KeySource};

use crate::descriptors::checksum::checksum;
use crate::descriptors::key_expression::{Origin, Wildcard, public_text};
use crate::error::KeyError;
use crate::extended_key::ExtendedPrivateKey;
use crate::private_key::PrivateKey;

/// First step of the path (BIP44, 49, 84, 86), and what stands around the public key.
const ACCOUNTS: [(u32, &str, &str); 4] =
    [(44, "pkh(", ")"), (49, "sh(wpkh(", "))"), (84, "wpkh(", ")"), (86, "tr(", ")")];

/// Public descriptors of the first account of each kind, to be paid to and for change, where `key` is
/// the root of a tree; where it is not, it is taken for an account of each kind itself.
///
/// Source: Bitcoin Core `wallet/walletutil.cpp`, `GenerateWalletDescriptor`.
pub fn account_descriptors(key: &ExtendedPrivateKey) -> Result<Vec<String>, KeyError> {
    descriptors_of(key, None)
}

/// The same of an account whose origin is known: of the kind alone that its purpose says, if it says one, and
/// with the origin, so that PSBTs of other wallets name its keys as these do.
pub fn account_descriptors_of(
    key: &ExtendedPrivateKey,
    origin: &KeySource,
) -> Result<Vec<String>, KeyError> {
    descriptors_of(key, Some(origin))
}

fn descriptors_of(
    key: &ExtendedPrivateKey,
    origin: Option<&KeySource>,
) -> Result<Vec<String>, KeyError> {
    let purpose = |(_, path): &KeySource| match path.as_ref().first() {
        Some(ChildNumber::Hardened { index }) => Some(*index),
        _ => None,
    };
    let purpose = origin.and_then(purpose);
    let known = |wanted: u32| ACCOUNTS.iter().any(|(kind, ..)| *kind == wanted);
    let only = purpose.filter(|purpose| known(*purpose));
    let kinds = ACCOUNTS.into_iter().filter(|(kind, ..)| only.is_none_or(|only| only == *kind));
    let mut descriptors = Vec::new();
    for (purpose, before, behind) in kinds {
        let account = match (key.depth(), origin) {
            (0, _) => root_account(key, purpose)?,
            (_, None) => key.xpub()?.to_string(),
            (_, Some(origin)) => {
                let origin = Origin::from_source(origin);
                let xpub = key.xpub()?.to_string();
                public_text(Some(&origin), &xpub, &[], Wildcard::None, 'h')
            }
        };
        for change in [0, 1] {
            descriptors.push(with_checksum(format!("{before}{account}/{change}/*{behind}")));
        }
    }
    Ok(descriptors)
}

fn root_account(root: &ExtendedPrivateKey, purpose: u32) -> Result<String, KeyError> {
    let coin = u32::from(root.network() == NetworkKind::Test);
    let steps = [purpose, coin, 0].map(|index| ChildNumber::Hardened { index });
    let xpub = root.derive(&steps)?.xpub()?;
    Ok(format!("[{}/{purpose}h/{coin}h/0h]{xpub}", root.fingerprint()?))
}

/// Public descriptors of what a single key can receive; only the first kind takes keys that are not
/// compressed.
pub fn single_descriptors(key: &PrivateKey, compressed: bool) -> Result<Vec<String>, KeyError> {
    let public = key.public_key()?;
    if !compressed {
        let public = bitcoin::PublicKey::new_uncompressed(public);
        return Ok(vec![with_checksum(format!("pkh({public})"))]);
    }
    let descriptor = |(_, before, behind)| match before {
        "tr(" => format!("{before}{}{behind}", public.x_only_public_key().0),
        _ => format!("{before}{public}{behind}"),
    };
    Ok(ACCOUNTS.map(descriptor).map(with_checksum).to_vec())
}

/// Kinds of scripts that several keys sign for, by the last step of a cosigner's path (BIP48).
const SHARED: [(u32, &str); 2] = [(2, "wsh"), (1, "sh(wsh)")];

/// An account's public key as others want it, and what they may watch with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountKey {
    /// The first step of its path, if it is known.
    pub purpose: Option<u32>,
    /// The kind of scripts that it is for, where its path says one, in the words of descriptors.
    pub script: Option<&'static str>,
    /// Behind its origin, if that is known.
    pub key: String,
    /// Of both branches, where the key alone makes one.
    pub descriptor: Option<String>,
}

/// The accounts of each purpose with this number, and of cosigners, where `key` is the root of a tree;
/// where it is not, it is an account itself.
///
/// Sources: BIP44, 49, 84, 86; BIP48 for the keys of cosigners.
pub fn account_keys(
    key: &ExtendedPrivateKey,
    origin: Option<&KeySource>,
    number: u32,
) -> Result<Vec<AccountKey>, KeyError> {
    if key.depth() > 0 {
        return Ok(vec![account_key(key, origin.cloned())?]);
    }
    let coin = u32::from(key.network() == NetworkKind::Test);
    let alone = ACCOUNTS.map(|(purpose, ..)| vec![purpose, coin, number]);
    let shared = SHARED.map(|(last, _)| vec![BIP48, coin, number, last]);
    let fingerprint = key.fingerprint()?;
    let paths = alone.into_iter().chain(shared).map(|path| {
        let path = path.into_iter().map(|index| ChildNumber::Hardened { index });
        let path: Vec<_> = path.collect();
        account_key(&key.derive(&path)?, Some((fingerprint, path.into())))
    });
    paths.collect()
}

/// Purpose of the keys of cosigners.
const BIP48: u32 = 48;

fn account_key(
    account: &ExtendedPrivateKey,
    origin: Option<KeySource>,
) -> Result<AccountKey, KeyError> {
    let path = origin.as_ref().map_or(&[][..], |(_, path)| path.as_ref());
    let hardened = |step: &ChildNumber| match *step {
        ChildNumber::Hardened { index } => Some(index),
        ChildNumber::Normal { .. } => None,
    };
    let purpose = path.first().and_then(hardened);
    let steps: Option<Vec<u32>> = path.iter().map(hardened).collect();
    // At other depths is no account: what others derive below it is not what this purpose means.
    let (account_of, cosigner_of) = match steps.as_deref() {
        Some([purpose, _, _]) => (Some(*purpose), None),
        Some([BIP48, _, _, script]) => (None, Some(*script)),
        _ => (None, None),
    };
    let origin = origin.as_ref().map(Origin::from_source);
    let key = public_text(origin.as_ref(), &account.xpub()?.to_string(), &[], Wildcard::None, 'h');
    let alone = ACCOUNTS.iter().find(|(kind, ..)| Some(*kind) == account_of);
    let shared = SHARED.iter().find(|(step, _)| Some(*step) == cosigner_of);
    let descriptor =
        alone.map(|(_, before, behind)| with_checksum(format!("{before}{key}/<0;1>/*{behind}")));
    let script = match (alone, shared) {
        (Some((_, before, _)), _) => Some(match *before {
            "sh(wpkh(" => "sh(wpkh)",
            before => before.trim_end_matches('('),
        }),
        (None, shared) => shared.map(|(_, script)| *script),
    };
    Ok(AccountKey { purpose, script, key, descriptor })
}

fn with_checksum(descriptor: String) -> String {
    let sum = checksum(descriptor.as_bytes()).expect("it has only characters of descriptors");
    let sum = std::str::from_utf8(&sum).expect("a checksum is ASCII");
    format!("{descriptor}#{sum}")
}

#[cfg(test)]
mod tests;
