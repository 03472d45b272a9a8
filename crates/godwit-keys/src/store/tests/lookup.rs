//! Keys of a store by what a PSBT says of them.

use bitcoin::bip32::KeySource;
use bitcoin::hashes::Hash;
use bitcoin::secp256k1::PublicKey;
use bitcoin::taproot::TapLeafHash;

use super::*;
use crate::guarded::curve;
use crate::psbt::{Found, SigningKey, look_up_in};

fn look_up(store: &KeyStore, source: &KeySource, key: SigningKey) -> Found {
    look_up_in(store, NetworkKind::Test, source, &key).expect("memory")
}

fn look_up_ecdsa(store: &KeyStore, source: &KeySource, public: PublicKey) -> Found {
    look_up(store, source, SigningKey::Ecdsa(public.into()))
}

#[track_caller]
fn is_ours(found: Found, public: PublicKey) {
    let Found::Ours(private) = found else { panic!("{found:?}") };
    assert_eq!(private.public_key(), Ok(public));
}

fn public_key(number: u8, steps: &str) -> PublicKey {
    let key = root(number).derive(path(steps).as_ref()).expect("a key");
    key.private_key().and_then(|key| key.public_key()).expect("memory")
}

/// A store with the root 1, and of the root 2 an account.
fn root_and_account() -> (Place, KeyStore) {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("written");
    let account = root(2).derive(path(TPRV_ACCOUNT).as_ref()).expect("a key");
    let master = root(2).fingerprint().expect("memory");
    let key = StoredKey::Extended { key: account, origin: Some((master, path(TPRV_ACCOUNT))) };
    store.insert(Entry { keys: vec![key], ..entry(2) }).expect("written");
    (place, store)
}

#[test]
fn keys_are_found_by_their_source_and_checked() {
    let (_place, store) = root_and_account();
    let steps = "m/84h/1h/0h/1/5";
    for number in [1, 2] {
        let source = (root(number).fingerprint().expect("memory"), path(steps));
        let public = public_key(number, steps);
        is_ours(look_up_ecdsa(&store, &source, public), public);
        let x_only = public.x_only_public_key().0;
        is_ours(look_up(&store, &source, SigningKey::Internal(x_only)), public);
        let leaf = SigningKey::Leaf(x_only, TapLeafHash::all_zeros());
        is_ours(look_up(&store, &source, leaf), public);
        for other in [public_key(number, "m/84h/1h/0h/1/6"), public.negate(curve())] {
            assert!(matches!(look_up_ecdsa(&store, &source, other), Found::OtherKey));
        }
    }
    let outside = (root(2).fingerprint().expect("memory"), path("m/86h/1h/0h/1/5"));
    let public = public_key(2, "m/86h/1h/0h/1/5");
    let found = look_up_ecdsa(&store, &outside, public);
    assert!(matches!(found, Found::NotOurs), "not below the account");
    let deep = (root(1).fingerprint().expect("memory"), path(&format!("m{}", "/0".repeat(299))));
    let found = look_up_ecdsa(&store, &deep, public);
    assert!(matches!(found, Found::OtherKey), "deeper than keys lie");
}

#[test]
fn the_account_itself_is_found_by_its_origin_and_by_its_own_fingerprint() {
    let (_place, store) = root_and_account();
    let account = root(2).derive(path(TPRV_ACCOUNT).as_ref()).expect("a key");
    let own = account.fingerprint().expect("memory");
    for (fingerprint, at_account, below) in [
        (root(2).fingerprint().expect("memory"), TPRV_ACCOUNT, "m/84h/1h/0h/1/5"),
        (own, "m", "m/1/5"),
    ] {
        let public = public_key(2, TPRV_ACCOUNT);
        is_ours(look_up_ecdsa(&store, &(fingerprint, path(at_account)), public), public);
        let public = public_key(2, "m/84h/1h/0h/1/5");
        is_ours(look_up_ecdsa(&store, &(fingerprint, path(below)), public), public);
    }
    let above = (root(2).fingerprint().expect("memory"), path("m/84h/1h"));
    let found = look_up_ecdsa(&store, &above, public_key(2, "m/84h/1h"));
    assert!(matches!(found, Found::NotOurs), "above the account");
}

#[test]
fn single_keys_are_found_by_their_public_key() {
    let (place, mut store) = created();
    let key = root(3).private_key().expect("memory");
    let public = key.public_key().expect("memory");
    let key = StoredKey::Single { key, compressed: true };
    store.insert(Entry { keys: vec![key], ..entry(3) }).expect("written");
    let store = reopened(&place);
    let source = (Fingerprint::default(), DerivationPath::default());
    is_ours(look_up_ecdsa(&store, &source, public), public);
    let other = root(4).private_key().and_then(|key| key.public_key()).expect("memory");
    assert!(matches!(look_up_ecdsa(&store, &source, other), Found::NotOurs));
}

#[test]
fn keys_of_another_network_are_not_ours() {
    let (_place, mut store) = created();
    store.insert(Entry { network: NetworkKind::Main, ..entry(1) }).expect("written");
    let source = (root(1).fingerprint().expect("memory"), path("m/0"));
    let public = public_key(1, "m/0");
    assert!(matches!(look_up_ecdsa(&store, &source, public), Found::NotOurs));
    let key = SigningKey::Ecdsa(public.into());
    is_ours(look_up_in(&store, NetworkKind::Main, &source, &key).expect("memory"), public);
}
