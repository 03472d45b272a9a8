use std::hint::black_box;

use bitcoin::NetworkKind;
use bitcoin::secp256k1::Secp256k1;
use godwit_secret::residue::scan;
use godwit_secret::{Declassified, SecretSlice, SecretString};

use super::*;

fn private_key() -> PrivateKey {
    PrivateKey::from_secret(SecretArray::random().expect("memory")).expect("nearly every number")
}

/// The forms of `needle` that a search finds at `leak`.
fn forms_at(needle: &Needle, leak: &[u8]) -> Vec<String> {
    let report = scan(std::slice::from_ref(needle)).expect("a scan");
    let start = black_box(leak).as_ptr().addr() as u64;
    let range = start..start + leak.len() as u64;
    let inside = report.findings.iter().filter(|finding| range.contains(&finding.address));
    inside.map(|finding| finding.form.clone()).collect()
}

#[test]
fn a_key_is_found_as_signing_and_exports_have_it() {
    let key = private_key();
    let needle = key.needle("key").expect("memory");
    let raw = key.secret().expose_secret(|key| Declassified(key.to_vec())).0;
    assert_eq!(forms_at(&needle, &raw), ["raw"]);
    let wif = to_wif(&key, NetworkKind::Main, false).expect("memory");
    let wif = wif.expose_secret(|text| Declassified(text.to_owned())).0;
    assert_eq!(forms_at(&needle, wif.as_bytes()), ["WIF"]);
    let negated = SecretKey::from_slice(&raw).expect("a key").negate().secret_bytes();
    assert_eq!(forms_at(&needle, &negated), ["negated"]);
    let pair = Keypair::from_seckey_slice(&Secp256k1::new(), &raw).expect("a key");
    let output = bitcoin::key::TapTweak::tap_tweak(pair, &Secp256k1::new(), None).to_keypair();
    assert_eq!(forms_at(&needle, &output.secret_bytes()), ["tweaked"]);
}

#[test]
fn an_extended_key_is_found_in_its_text() {
    let seed = SecretBytes::random(32).expect("memory");
    let key = ExtendedPrivateKey::from_seed(&seed, NetworkKind::Test).expect("a key");
    let needle = key.needle("key").expect("memory");
    let text =
        key.to_base58().expect("memory").expose_secret(|text| Declassified(text.to_owned())).0;
    assert_eq!(forms_at(&needle, text.as_bytes()), ["extended key"]);
    let stored = StoredKey::Extended { key, origin: None };
    let needle = stored.needle("key").expect("memory");
    assert_eq!(forms_at(&needle, text.as_bytes()), ["extended key"]);
}

#[test]
fn words_are_found_in_text_and_numbers() {
    let mut text = SecretString::new();
    text.push_str(&"abandon ".repeat(11)).expect("memory");
    text.push_str("about").expect("memory");
    let mnemonic = Mnemonic::parse(SecretSlice::from(&text)).expect("words");
    let [words, _] = mnemonic.needles("wallet").expect("memory");
    let lines = text.expose_secret(|text| Declassified(text.replace(' ', "\n"))).0;
    assert_eq!(forms_at(&words, lines.as_bytes()), ["words"]);

    let fresh = Mnemonic::generate(24).expect("memory");
    let numbers = fresh.numbers().expect("memory");
    let wide: Vec<u8> = numbers
        .expose_secret(|numbers| {
            Declassified({
                numbers.chunks(2).flat_map(|number| [number[0], number[1], 0, 0]).collect()
            })
        })
        .0;
    let [words, entropy] = fresh.needles("wallet").expect("memory");
    assert_eq!(forms_at(&words, &wide), ["numbers of 4"]);
    let leak =
        fresh.entropy().expect("memory").expose_secret(|bytes| Declassified(bytes.to_vec())).0;
    assert_eq!(leak.len(), 32);
    assert_eq!(forms_at(&entropy, &leak), ["raw"]);
    let seed = fresh.seed_needle("seed", &text).expect("memory");
    let leak =
        fresh.seed(&text).expect("memory").expose_secret(|bytes| Declassified(bytes.to_vec())).0;
    assert_eq!(leak.len(), 64);
    assert_eq!(forms_at(&seed, &leak), ["raw"]);
}

#[test]
fn the_nonce_of_a_signature_is_the_one_that_made_it() {
    let (key, digest) = (private_key(), [7; 32]);
    let signature = key.sign_ecdsa(&digest).expect("a signature");
    // That its point is R is checked inside.
    key.ecdsa_nonce_needle("nonce", &signature, &digest).expect("the nonce");
    let other = key.ecdsa_nonce_needle("nonce", &signature, &[8; 32]);
    assert_eq!(other.map(|_| ()), Err(KeyError::BadSignature));
    for tweak in [None, Some(&[9; 32])] {
        let signature = key.sign_schnorr(&digest, tweak).expect("a signature");
        key.schnorr_nonce_needle("nonce", &signature, &digest, tweak).expect("the nonce");
        let other = private_key().schnorr_nonce_needle("nonce", &signature, &digest, tweak);
        assert_eq!(other.map(|_| ()), Err(KeyError::BadSignature));
    }
}
