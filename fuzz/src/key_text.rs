//! Keys in base58, `xprv` and WIF: what is taken for one, and its public key, as rust-bitcoin has them.

use std::str::FromStr;

use bitcoin::base58;
use bitcoin::bip32::{ChildNumber, Xpriv, Xpub};
use bitcoin::secp256k1::{All, Secp256k1};
use godwit_keys::{ExtendedPrivateKey, KeyError, TextError, parse_wif};
use godwit_secret::{SecretBytes, SecretSlice};

use crate::input::Input;

/// Bit 0 of the first byte: the harness writes the rest in base58 with a checksum; else it is the text.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.u8();
    match flags & 1 {
        0 => check_text(input.rest()),
        _ => check_text(base58::encode_check(input.rest()).as_bytes()),
    }
}

fn check_text(text: &[u8]) {
    let secret = SecretBytes::from_plain_and_wipe(&mut text.to_vec()).expect("locked memory");
    let curve = Secp256k1::new();
    let text = std::str::from_utf8(text).ok();
    check_extended(SecretSlice::from(&secret), text, &curve);
    check_wif(SecretSlice::from(&secret), text, &curve);
}

fn check_extended(secret: SecretSlice<'_>, text: Option<&str>, curve: &Secp256k1<All>) {
    let theirs = text.and_then(|text| Xpriv::from_str(text).ok());
    match (ExtendedPrivateKey::parse(secret), theirs) {
        (Ok(ours), Some(theirs)) => {
            let path = [ChildNumber::from(7), ChildNumber::from(1 << 31)];
            assert_eq!(ours.xpub().expect("locked memory"), Xpub::from_priv(curve, &theirs));
            // They do not count past the deepest level; neither do we.
            if theirs.depth < 254 {
                let ours = ours.derive(&path).expect("deep enough");
                let theirs = theirs.derive_priv(curve, &path).expect("deep enough");
                assert_eq!(ours.xpub().expect("memory"), Xpub::from_priv(curve, &theirs));
            } else {
                assert!(matches!(ours.derive(&path), Err(KeyError::TooDeep)));
            }
        }
        (Ok(_), None) => panic!("they do not take it"),
        (Err(error), Some(_)) => {
            let stricter = [KeyError::Text(TextError::Root), KeyError::Text(TextError::KeyPrefix)];
            assert!(stricter.contains(&error), "we do not take it: {error}");
        }
        (Err(_), None) => {}
    }
}

fn check_wif(secret: SecretSlice<'_>, text: Option<&str>, curve: &Secp256k1<All>) {
    let theirs = text.and_then(|text| bitcoin::PrivateKey::from_wif(text).ok());
    match (parse_wif(secret), theirs) {
        (Ok((ours, network, compressed)), Some(theirs)) => {
            assert_eq!((network, compressed), (theirs.network, theirs.compressed));
            let public = ours.public_key().expect("locked memory");
            assert_eq!(public, theirs.public_key(curve).inner);
        }
        (Ok(_), None) => panic!("they do not take it"),
        (Err(error), Some(theirs)) => {
            // They do not look at the byte that says "compressed".
            let stricter = error == KeyError::Text(TextError::Compression) && theirs.compressed;
            assert!(stricter, "we do not take it: {error}");
        }
        (Err(_), None) => {}
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let root = Xpriv::new_master(bitcoin::Network::Regtest, &[7; 32]).expect("a key");
    let main = Xpriv::new_master(bitcoin::Network::Bitcoin, &[8; 32]).expect("a key");
    let mut wif = root.to_priv();
    let compressed = wif.to_wif();
    wif.compressed = false;
    let texts = [root.to_string(), main.to_string(), compressed, wif.to_wif()];
    texts
        .iter()
        .flat_map(|text| {
            let payload = base58::decode_check(text).expect("it was just written");
            [[&[0][..], text.as_bytes()].concat(), [&[1][..], &payload].concat()]
        })
        .collect()
}
