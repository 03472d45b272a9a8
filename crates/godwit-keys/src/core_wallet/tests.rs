//! Wallets that Bitcoin Core made (shared data), and wallets written here with SQLite.

mod damage;
mod synthetic;

use std::path::PathBuf;

use bitcoin::NetworkKind;
use godwit_secret::{Declassified, SecretSlice};
use godwit_testdata::shared_data;
use serde_json::Value;

use super::*;
use crate::descriptors::scan::scan;
use crate::wif::to_wif;

/// What Core says of one of its wallets.
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) passphrase: Option<SecretString>,
    pub(crate) private: Vec<String>,
    pub(crate) public: Vec<String>,
}

/// The wallets of the shared data.
pub(crate) fn expected_wallets() -> Option<Vec<Expected>> {
    let folder = shared_data()?.join("wallets");
    let file = godwit_testdata::read(folder.join("wallets.json"));
    let json: Value = serde_json::from_slice(&file).expect("JSON");
    let texts = |value: &Value| -> Vec<String> {
        let texts = value.as_array().expect("a list").iter();
        texts.map(|text| text.as_str().expect("text").to_owned()).collect()
    };
    let wallets =
        json["wallets"].as_object().expect("wallets").iter().map(|(name, wallet)| Expected {
            name: name.clone(),
            path: folder.join(format!("{name}.wallet.dat")),
            passphrase: wallet["passphrase"].as_str().map(secret),
            private: texts(&wallet["descriptors_private"]),
            public: texts(&wallet["descriptors_public"]),
        });
    let wallets: Vec<Expected> = wallets.collect();
    assert_eq!(wallets.len(), 4);
    Some(wallets)
}

pub(crate) fn secret(text: &str) -> SecretString {
    let mut secret = SecretString::new();
    secret.push_str(text).expect("memory");
    secret
}

pub(crate) fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.into_iter().collect();
    texts.sort();
    texts
}

/// The private descriptors of a wallet as Core would print them.
fn private_texts(path: &Path, passphrase: Option<&SecretString>) -> Vec<String> {
    let (network, mut records) = read(path).expect("a wallet");
    assemble::unlock(&mut records, passphrase).expect("keys");
    let texts = records.descriptors.iter().map(|record| {
        let scan = scan(&record.text).expect("a descriptor");
        let (text, _) = assemble::private_text(&record.text, &scan, &records.plain, network.into())
            .expect("memory");
        text.expose_secret(|text| Declassified(String::from_utf8(text.to_vec()).expect("text"))).0
    });
    sorted(texts)
}

/// Extended private keys in the text of descriptors.
fn extended_keys(texts: &[String]) -> Vec<String> {
    let mut keys: Vec<String> = texts
        .iter()
        .flat_map(|text| text.match_indices("tprv").map(|(at, _)| text[at..at + 111].to_owned()))
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The text of private keys of a test network.
pub(crate) fn exported(keys: &[StoredKey]) -> Vec<String> {
    let texts = keys.iter().map(|key| match key {
        StoredKey::Extended { key, .. } => key.to_base58(),
        StoredKey::Single { key, compressed } => to_wif(key, NetworkKind::Test, *compressed),
    });
    sorted(
        texts.map(|text| {
            text.expect("memory").expose_secret(|text| Declassified(text.to_owned())).0
        }),
    )
}

#[test]
fn wallets_of_core_are_imported() {
    let Some(wallets) = expected_wallets() else { return };
    for expected in wallets {
        let wallet = import_core_wallet(&expected.path, expected.passphrase.as_ref())
            .unwrap_or_else(|error| panic!("{}: {error}", expected.name));
        assert_eq!(wallet.network, Network::Regtest);
        assert!(wallet.left_out.is_empty());
        let texts = wallet.descriptors.iter().map(|d| d.descriptor.text.clone());
        assert_eq!(sorted(texts), sorted(expected.public), "{}", expected.name);
        let private = private_texts(&expected.path, expected.passphrase.as_ref());
        assert_eq!(private, sorted(expected.private), "{}", expected.name);
        assert_eq!(exported(&wallet.keys), extended_keys(&private), "{}", expected.name);
        let active =
            |purpose| wallet.descriptors.iter().filter(|d| d.active == Some(purpose)).count();
        let each = if expected.name == "blank-imported" { 0 } else { 4 };
        assert_eq!((active(Purpose::Receiving), active(Purpose::Change)), (each, each));
        for descriptor in &wallet.descriptors {
            assert!(descriptor.created > 1_231_006_505 && descriptor.range.end > 0);
            assert!(descriptor.range.contains(&descriptor.next));
            assert_eq!(descriptor.active == Some(Purpose::Change), {
                descriptor.active.is_some() && descriptor.descriptor.text.contains("/1/*")
            });
        }
    }
}

#[test]
fn the_passphrase_must_be_the_right_one() {
    let Some(wallets) = expected_wallets() else { return };
    let mut encrypted = 0;
    for expected in wallets {
        let Some(passphrase) = &expected.passphrase else {
            // Nobody looks at it.
            assert!(import_core_wallet(&expected.path, Some(&secret("x"))).is_ok());
            continue;
        };
        encrypted += 1;
        let error = import_core_wallet(&expected.path, None).err();
        assert!(matches!(error, Some(CoreWalletError::PassphraseNeeded)));
        let right = passphrase.expose_secret(|text| Declassified(text.to_owned())).0;
        for wrong in [String::new(), format!("{right} "), right.to_uppercase()] {
            let error = import_core_wallet(&expected.path, Some(&secret(&wrong))).err();
            assert!(matches!(error, Some(CoreWalletError::WrongPassphrase)), "{wrong:?}");
        }
    }
    assert_eq!(encrypted, 2);
}
