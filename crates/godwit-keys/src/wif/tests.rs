use bitcoin::{NetworkKind, PrivateKey as Library};
use godwit_secret::Declassified;
use godwit_testdata::shared_file;
use serde_json::Value;

use super::*;

fn secret(plain: &str) -> SecretBytes {
    SecretBytes::from_plain_and_wipe(&mut plain.as_bytes().to_vec()).expect("memory")
}

fn parsed(text: &str) -> Result<(PrivateKey, NetworkKind, bool), KeyError> {
    parse_wif(SecretSlice::from(&secret(text)))
}

fn number(key: &PrivateKey) -> [u8; 32] {
    key.secret().expose_secret(|number| Declassified(*number)).0
}

#[test]
fn keys_of_core_make_the_round() {
    let Some(file) = shared_file("vectors/core/key_io_valid.json") else { return };
    let table: Vec<(String, String, Value)> = serde_json::from_slice(&file).expect("triples");
    let mut keys = 0;
    for (text, hex, facts) in table {
        if facts["isPrivkey"] == false {
            assert!(parsed(&text).is_err(), "an address is no key: {text}");
            continue;
        }
        keys += 1;
        let (key, network, compressed) = parsed(&text).expect("valid");
        assert_eq!(hex::encode(number(&key)), hex);
        assert_eq!(network.is_mainnet(), facts["chain"] == "main");
        assert_eq!(facts["isCompressed"], compressed);
        let again = to_wif(&key, network, compressed).expect("memory");
        assert_eq!(again.expose_secret(|text| Declassified(text.to_owned())).0, text);
    }
    assert!(keys > 10);
}

#[test]
fn texts_of_the_bitcoin_crate_are_read() {
    for last in 1..=20 {
        let mut number = [0x33; 32];
        number[31] = last;
        for network in [NetworkKind::Main, NetworkKind::Test] {
            let mut library = Library::from_slice(&number, network).expect("in range");
            for compressed in [true, false] {
                library.compressed = compressed;
                let (key, its_network, its_form) = parsed(&library.to_wif()).expect("valid");
                assert_eq!(self::number(&key), number);
                assert_eq!((its_network, its_form), (network, compressed));
            }
        }
    }
}

fn text_of(payload: &[u8]) -> String {
    bitcoin::base58::encode_check(payload)
}

#[test]
fn every_other_form_is_refused() {
    let with = |version: u8, behind: &[u8]| {
        let mut payload = vec![version];
        payload.extend([1; 32]);
        payload.extend(behind);
        parsed(&text_of(&payload)).map(|_| ())
    };
    assert_eq!(with(MAIN, &[1]), Ok(()));
    assert_eq!(with(MAIN, &[]), Ok(()));
    assert_eq!(with(MAIN, &[0]), Err(TextError::Compression.into()));
    assert_eq!(with(MAIN, &[2]), Err(TextError::Compression.into()));
    assert_eq!(with(TEST, &[1, 1]), Err(TextError::Length.into()));
    for version in [0, 127, 129, 238, 240, 255] {
        assert_eq!(with(version, &[1]), Err(TextError::Version.into()));
    }
    assert_eq!(parsed(&text_of(&[])).map(|_| ()), Err(TextError::Length.into()));
    assert_eq!(parsed(&text_of(&[MAIN; 32])).map(|_| ()), Err(TextError::Length.into()));
}

#[test]
fn numbers_out_of_range_are_no_keys() {
    let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    let last = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140";
    let read = |hex: &str| {
        let number = hex::decode(hex).expect("hex");
        parsed(&text_of(&[&[MAIN], number.as_slice(), &[1]].concat())).map(|_| ())
    };
    assert_eq!(read(&"0".repeat(64)), Err(KeyError::OutOfRange));
    assert_eq!(read(&format!("{}1", "0".repeat(63))), Ok(()));
    assert_eq!(read(last), Ok(()));
    assert_eq!(read(order), Err(KeyError::OutOfRange));
    assert_eq!(read(&"f".repeat(64)), Err(KeyError::OutOfRange));
}
