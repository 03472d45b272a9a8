use bitcoin::base58 as library;
use godwit_secret::Declassified;
use godwit_testdata::shared_file;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn encoded(payload: &[u8]) -> String {
    let payload = SecretBytes::copy_of(&secret(payload)).expect("memory");
    let text = encode_check(SecretSlice::from(&payload)).expect("short enough");
    text.expose_secret(|text| Declassified(text.to_owned())).0
}

fn decoded(text: &str) -> Result<Vec<u8>, KeyError> {
    let text = secret(text.as_bytes());
    decode_check(SecretSlice::from(&text))
        .map(|bytes| bytes.expose_secret(|bytes| Declassified(bytes.to_vec())).0)
}

fn secret(plain: &[u8]) -> SecretBytes {
    SecretBytes::from_plain_and_wipe(&mut plain.to_vec()).expect("memory")
}

#[test]
fn the_table_of_the_bitcoin_crate_is_the_same() {
    for size in 0..=78 {
        for fill in [0, 1, 0x80, 0xff] {
            let mut payload = vec![fill; size];
            assert_eq!(encoded(&payload), library::encode_check(&payload));
            assert_eq!(decoded(&encoded(&payload)), Ok(payload.clone()));
            if let Some(first) = payload.first_mut() {
                *first = 0;
                assert_eq!(decoded(&library::encode_check(&payload)), Ok(payload));
            }
        }
    }
}

/// Core's table is of bare base58; its bytes serve as payloads.
#[test]
fn bytes_of_cores_table_make_the_round() {
    let Some(file) = shared_file("vectors/core/base58_encode_decode.json") else { return };
    let table: Vec<(String, String)> = serde_json::from_slice(&file).expect("pairs");
    assert!(table.len() > 10);
    for (hex, _) in table {
        let bytes = hex::decode(hex).expect("hex");
        if bytes.len() <= 78 {
            assert_eq!(encoded(&bytes), library::encode_check(&bytes));
            assert_eq!(decoded(&encoded(&bytes)), Ok(bytes));
        }
    }
}

#[test]
fn too_long_is_refused_on_both_sides() {
    let long = secret(&[0xff; 79]);
    assert_eq!(encode_check(SecretSlice::from(&long)), Err(TextError::Length.into()));
    assert_eq!(decoded(&library::encode_check(&[0xff; 79])), Err(TextError::Length.into()));
    assert_eq!(decoded(&library::encode_check(&[0; 79])), Err(TextError::Length.into()));
    assert_eq!(decoded(&"z".repeat(112)), Err(TextError::Length.into()));
    assert_eq!(decoded(&"z".repeat(113)), Err(TextError::Length.into()));
    for text in ["", "1", "111", "zzz"] {
        assert_eq!(decoded(text), Err(TextError::Length.into()), "{text:?}");
    }
}

#[test]
fn what_is_wrong_is_told_by_its_place() {
    let text = encoded(b"payload");
    for (at, wrong) in [(0, '0'), (3, 'l'), (text.len() - 1, ' ')] {
        let mut mistyped: Vec<char> = text.chars().collect();
        mistyped[at] = wrong;
        let mistyped: String = mistyped.into_iter().collect();
        assert_eq!(decoded(&mistyped), Err(TextError::Character(at).into()));
    }
    assert_eq!(decoded(&format!(" {text}")), Err(TextError::Character(0).into()));
}

#[test]
fn invalid_texts_of_core_are_no_payload_of_a_wif() {
    let Some(file) = shared_file("vectors/core/key_io_invalid.json") else { return };
    let table: Vec<Vec<Value>> = serde_json::from_slice(&file).expect("lists");
    let texts: Vec<&str> = table.iter().filter_map(|entry| entry[0].as_str()).collect();
    assert!(texts.len() > 30);
    for text in texts {
        assert!(crate::parse_wif(SecretSlice::from(&secret(text.as_bytes()))).is_err(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_payload_makes_the_round(payload in prop::collection::vec(any::<u8>(), 0..=78)) {
        let text = encoded(&payload);
        prop_assert_eq!(&text, &library::encode_check(&payload));
        prop_assert_eq!(decoded(&text), Ok(payload));
    }

    #[test]
    fn any_text_is_judged_as_by_the_bitcoin_crate(text in "[1-9A-HJ-NP-Za-km-z]{0,111}") {
        prop_assert_eq!(decoded(&text).ok(), library::decode_check(&text).ok());
    }

    #[test]
    fn a_changed_character_is_noticed(size in 0usize..78, at in any::<prop::sample::Index>()) {
        let text = encoded(&vec![0x5a; size]);
        let at = at.index(text.len());
        let other = if &text[at..=at] == "2" { "3" } else { "2" };
        let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        prop_assert!(decoded(&changed).is_err());
    }
}
