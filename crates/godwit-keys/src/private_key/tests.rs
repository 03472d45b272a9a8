use bitcoin::secp256k1::{Secp256k1, XOnlyPublicKey};
use godwit_testdata::shared_file;
use proptest::prelude::*;

use super::*;

fn key(number: [u8; 32]) -> PrivateKey {
    let number = SecretArray::from_plain_and_wipe(&mut { number }).expect("memory");
    PrivateKey::from_secret(number).expect("in range")
}

fn small(number: u8) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[31] = number;
    bytes
}

#[test]
fn numbers_out_of_range_are_refused() {
    let read = |number: [u8; 32]| {
        let number = SecretArray::from_plain_and_wipe(&mut { number }).expect("memory");
        PrivateKey::from_secret(number).map(|_| ())
    };
    let mut order = bitcoin::secp256k1::constants::CURVE_ORDER;
    assert_eq!(read([0; 32]), Err(KeyError::OutOfRange));
    assert_eq!(read(small(1)), Ok(()));
    assert_eq!(read(order), Err(KeyError::OutOfRange));
    order[31] -= 1;
    assert_eq!(read(order), Ok(()));
    assert_eq!(read([0xff; 32]), Err(KeyError::OutOfRange));
}

/// The oracle is libsecp256k1's plain signature, with the counter that Core's `CKey::Sign` grinds with.
#[test]
fn signatures_are_ground_as_by_core() {
    let curve = Secp256k1::new();
    let mut ground = 0;
    for number in 1..=64 {
        let (key, secret) = (key(small(number)), SecretKey::from_slice(&small(number)));
        let secret = secret.expect("in range");
        let digest = [number; 32];
        let message = Message::from_digest(digest);
        let mut expected = curve.sign_ecdsa(&message, &secret);
        let mut counter = 0u32;
        while expected.serialize_compact()[0] >= 0x80 {
            counter += 1;
            let mut extra = [0; 32];
            extra[..4].copy_from_slice(&counter.to_le_bytes());
            expected = curve.sign_ecdsa_with_noncedata(&message, &secret, &extra);
        }
        ground += usize::from(counter > 0);
        let signature = key.sign_ecdsa(&digest).expect("memory");
        assert_eq!(signature, expected);
        assert!(signature.serialize_der().len() <= 70);
    }
    assert!((10..54).contains(&ground), "{ground} of 64 needed another nonce");
}

/// A signature that many implementations are tested with; its R needs no other nonce.
#[test]
fn a_nonce_is_rfc_6979s() {
    use sha2::{Digest, Sha256};
    let number = "f8b8af8ce3c7cca5e300d33939540c10d45ce001b8f252bfbc57ba0342904181";
    let key = key(hex::decode(number).expect("hex").try_into().expect("32 bytes"));
    let signature = key.sign_ecdsa(&Sha256::digest(b"Alan Turing").into()).expect("memory");
    let expected = "7063ae83e7f62bbb171798131b4a0564b956930092b33b07b395615d9ec7e15c\
                    58dfcc1e00a35e1572f366ffe34ba0fc47db1e7189759b9fb233c5b05ab388ea";
    assert_eq!(hex::encode(signature.serialize_compact()), expected);
}

/// The signature is ours where the vector has auxiliary randomness of zeros and a message as long as a
/// hash. `psbt/tests/vectors/taproot.rs` verifies them all.
#[test]
fn vectors_of_bip340() {
    let Some(file) = shared_file("vectors/crypto/bip340_test_vectors.csv") else { return };
    let table = String::from_utf8(file).expect("text");
    let (mut signed, mut keys) = (0, 0);
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, secret, public, aux, message, signature, ..] = fields[..] else {
            panic!("a short line: {line}")
        };
        if secret.is_empty() {
            continue;
        }
        let bytes = |hex: &str| <[u8; 32]>::try_from(hex::decode(hex).expect("hex")).expect("32");
        let key = key(bytes(secret));
        let point = key.public_key().expect("memory").x_only_public_key().0;
        assert_eq!(point.to_string(), public.to_lowercase());
        keys += 1;
        if aux == "0".repeat(64) && message.len() == 64 {
            let made = key.sign_schnorr(&bytes(message), None).expect("memory");
            assert_eq!(made.to_string(), signature.to_lowercase());
            signed += 1;
        }
    }
    assert_eq!((signed, keys), (1, 8));
}

#[test]
fn tweaks_that_make_no_key_are_refused() {
    let order = bitcoin::secp256k1::constants::CURVE_ORDER;
    assert_eq!(key(small(1)).sign_schnorr(&[1; 32], Some(&order)), Err(KeyError::OutOfRange));
    // The point of 1 is even, so -1 makes it nothing.
    let mut minus_one = order;
    minus_one[31] -= 1;
    assert_eq!(key(small(1)).sign_schnorr(&[1; 32], Some(&minus_one)), Err(KeyError::OutOfRange));
    assert!(key(small(2)).sign_schnorr(&[1; 32], Some(&minus_one)).is_ok());
}

#[test]
fn keys_compare_and_print_nothing() {
    assert_eq!(key(small(3)), key(small(3)).try_clone().expect("memory"));
    assert_ne!(key(small(3)), key(small(4)));
    assert_eq!(format!("{:?}", key(small(3))), "PrivateKey([redacted])");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_tweaked_signature_is_valid_for_the_output_key(
        number in any::<[u8; 32]>(),
        digest in any::<[u8; 32]>(),
        tweak in prop::option::of(any::<[u8; 32]>()),
    ) {
        let secret = SecretKey::from_slice(&number);
        let scalar = tweak.map(Scalar::from_be_bytes).transpose();
        prop_assume!(secret.is_ok() && scalar.is_ok());
        let key = key(number);
        let internal: XOnlyPublicKey = key.public_key().expect("memory").x_only_public_key().0;
        let output = match scalar.expect("assumed") {
            Some(scalar) => internal.add_tweak(curve(), &scalar).expect("a key").0,
            None => internal,
        };
        let signature = key.sign_schnorr(&digest, tweak.as_ref()).expect("memory");
        let message = Message::from_digest(digest);
        prop_assert!(curve().verify_schnorr(&signature, &message, &output).is_ok());
    }
}
