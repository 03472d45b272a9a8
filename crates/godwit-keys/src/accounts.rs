//! What a key is used for when nothing more is said: the descriptors of a new wallet of Bitcoin Core.

use bitcoin::NetworkKind;
use bitcoin::bip32::ChildNumber;

use crate::descriptors::checksum::checksum;
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
    let mut descriptors = Vec::new();
    for (purpose, before, behind) in ACCOUNTS {
        let account = match key.depth() {
            0 => root_account(key, purpose)?,
            _ => key.xpub()?.to_string(),
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

fn with_checksum(descriptor: String) -> String {
    let sum = checksum(descriptor.as_bytes()).expect("it has only characters of descriptors");
    let sum = std::str::from_utf8(&sum).expect("a checksum is ASCII");
    format!("{descriptor}#{sum}")
}

#[cfg(test)]
mod tests;
