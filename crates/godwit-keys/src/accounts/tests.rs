use std::collections::BTreeSet;
use std::str::FromStr;

use bitcoin::bip32::DerivationPath;
use godwit_secret::{SecretArray, SecretBytes, SecretSlice};
use godwit_testdata::shared_file;
use miniscript::{Descriptor, DescriptorPublicKey};
use serde_json::Value;

use super::*;

fn parsed(text: &str) -> ExtendedPrivateKey {
    let text = SecretBytes::from_plain_and_wipe(&mut text.as_bytes().to_vec()).expect("memory");
    ExtendedPrivateKey::parse(SecretSlice::from(&text)).expect("valid")
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("text")).collect()
}

#[test]
fn a_root_has_the_descriptors_of_cores_wallet() {
    let Some(file) = shared_file("wallets/wallets.json") else { return };
    let wallets: Value = serde_json::from_slice(&file).expect("JSON");
    for wallet in ["plain", "born-encrypted"] {
        let wallet = &wallets["wallets"][wallet];
        let private = texts(&wallet["descriptors_private"]);
        let (_, key) = private[0].split_once('(').expect("a descriptor");
        let (key, _) = key.split_once('/').expect("a path");
        let ours = account_descriptors(&parsed(key)).expect("memory");
        let cores: BTreeSet<&str> = texts(&wallet["descriptors_public"]).into_iter().collect();
        assert_eq!(ours.iter().map(String::as_str).collect::<BTreeSet<_>>(), cores);
        assert_eq!(ours.len(), 8);
    }
}

fn root(network: NetworkKind) -> ExtendedPrivateKey {
    let seed = SecretBytes::from_plain_and_wipe(&mut [9; 32]).expect("memory");
    ExtendedPrivateKey::from_seed(&seed, network).expect("valid")
}

#[test]
fn every_descriptor_is_one() {
    let single = root(NetworkKind::Main).private_key().expect("memory");
    let account = DerivationPath::from_str("m/84h/0h/3h").expect("a path");
    let account = root(NetworkKind::Main).derive(account.as_ref()).expect("a key");
    let all = [
        account_descriptors(&root(NetworkKind::Main)),
        account_descriptors(&root(NetworkKind::Test)),
        account_descriptors(&account),
        single_descriptors(&single, true),
        single_descriptors(&single, false),
    ];
    for (descriptors, count) in all.into_iter().zip([8, 8, 8, 4, 1]) {
        let descriptors = descriptors.expect("memory");
        assert_eq!(descriptors.len(), count);
        for text in descriptors {
            let descriptor: Descriptor<DescriptorPublicKey> = text.parse().expect("valid");
            assert!(descriptor.sanity_check().is_ok(), "{text}");
        }
    }
}

#[test]
fn coins_of_other_networks_have_their_own_accounts() {
    let first = |network| account_descriptors(&root(network)).expect("memory").remove(0);
    assert!(first(NetworkKind::Main).contains("/44h/0h/0h]xpub"));
    assert!(first(NetworkKind::Test).contains("/44h/1h/0h]tpub"));
}

/// The key 1, whose addresses everybody knows.
#[test]
fn a_single_key_receives_in_four_ways() {
    let one = SecretArray::from_fn_in_place(|number: &mut [u8; 32]| number[31] = 1);
    let key = PrivateKey::from_secret(one.expect("memory")).expect("in range");
    let generator = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    let expected = [
        format!("pkh(02{generator})"),
        format!("sh(wpkh(02{generator}))"),
        format!("wpkh(02{generator})"),
        format!("tr({generator})"),
    ];
    let ours = single_descriptors(&key, true).expect("memory");
    assert!(ours.iter().zip(&expected).all(|(ours, text)| ours.starts_with(text)), "{ours:?}");
    let plain = single_descriptors(&key, false).expect("memory");
    assert!(plain[0].starts_with(&format!("pkh(04{generator}")), "{plain:?}");
}

#[test]
fn an_account_with_an_origin_is_of_one_kind_and_names_its_root() {
    let root = root(NetworkKind::Test);
    let fingerprint = root.fingerprint().expect("memory");
    let all = account_descriptors(&root).expect("memory");
    for (place, purpose) in [44, 49, 84, 86].into_iter().enumerate() {
        let path = DerivationPath::from_str(&format!("{purpose}h/1h/0h")).expect("a path");
        let account = root.derive(path.as_ref()).expect("a key");
        let of_account = account_descriptors_of(&account, &(fingerprint, path)).expect("memory");
        assert_eq!(of_account, all[2 * place..][..2], "as of the root");
    }
    let path = DerivationPath::from_str("48h/1h/0h/2h").expect("a path");
    let account = root.derive(path.as_ref()).expect("a key");
    let all = account_descriptors_of(&account, &(fingerprint, path)).expect("memory");
    assert_eq!(all.len(), 8, "a purpose without a kind of its own");
    assert!(all.iter().all(|text| text.contains(&format!("[{fingerprint}/48h/1h/0h/2h]tpub"))));
}
