//! Words of BIP39: what is taken for a mnemonic, as the `bip39` crate has it, and the root of the tree
//! that it stands for, as rust-bitcoin makes it of that crate's seed.

use bip39::Language;
use bitcoin::bip32::{Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use godwit_keys::{ExtendedPrivateKey, KeyError, Mnemonic, MnemonicError, NetworkKind};
use godwit_secret::{SecretBytes, SecretSlice, SecretString};

use crate::input::Input;

/// Bit 0 of the first byte: the rest is entropy, of which the harness makes words; else it is text.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 {
        return check_text(input.rest());
    }
    let size = 16 + usize::from(input.u8() % 5) * 4;
    let (spaces, capital) = (usize::from(input.u8()) % 3 + 1, usize::from(input.u8()));
    let mut entropy = input.bytes(size).to_vec();
    entropy.resize(size, 0);
    let words = bip39::Mnemonic::from_entropy(&entropy).expect("a size of entropy");
    let words: Vec<String> = words.words().map(str::to_owned).collect();
    let mut text = words.join(&" ".repeat(spaces)).into_bytes();
    if let Some(letter) = text.get_mut(capital) {
        letter.make_ascii_uppercase();
    }
    assert!(parse(&text).is_ok(), "words with their checksum");
    check_text(&text);
}

fn parse(text: &[u8]) -> Result<Mnemonic, KeyError> {
    let secret = SecretBytes::from_plain_and_wipe(&mut text.to_vec()).expect("locked memory");
    Mnemonic::parse(SecretSlice::from(&secret))
}

fn check_text(text: &[u8]) {
    let ours = parse(text);
    let words: Vec<Vec<u8>> = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| word.to_ascii_lowercase())
        .collect();
    let text = words.join(&b' ');
    // For them a word also ends at white space beyond `is_ascii_whitespace`, a vertical tab for one.
    let same_words = |text: &&str| text.split_whitespace().count() == words.len();
    let theirs = std::str::from_utf8(&text).ok().filter(same_words);
    let theirs = theirs.map(|text| bip39::Mnemonic::parse_in_normalized(Language::English, text));
    match (ours, theirs) {
        (Ok(ours), Some(Ok(theirs))) => {
            let passphrase = "TREZOR";
            let secret = SecretString::from_plain_and_wipe(&mut passphrase.to_owned());
            let secret = secret.expect("locked memory");
            let root = ExtendedPrivateKey::from_mnemonic(&ours, &secret, NetworkKind::Main);
            let seed = theirs.to_seed_normalized(passphrase);
            // Both have the same seed, or their chain codes would differ.
            let expected = Xpriv::new_master(NetworkKind::Main, &seed).expect("a root");
            let expected = Xpub::from_priv(&Secp256k1::new(), &expected);
            assert_eq!(root.and_then(|root| root.xpub()), Ok(expected));
        }
        (Ok(_), other) => panic!("they do not take it: {other:?}"),
        (Err(error), Some(Ok(_))) => panic!("we do not take it: {error}"),
        (Err(error), _) => match error {
            KeyError::Mnemonic(MnemonicError::WordCount(count)) => assert_eq!(count, words.len()),
            KeyError::Mnemonic(MnemonicError::Word(place)) => {
                let word = std::str::from_utf8(&words[place - 1]).ok();
                assert!(word.and_then(|word| Language::English.find_word(word)).is_none());
            }
            KeyError::Mnemonic(MnemonicError::Checksum) => {}
            other => panic!("{other}"),
        },
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let zeros = format!("{}about", "abandon ".repeat(11));
    let most = format!("{}wrong", "zoo ".repeat(11));
    let long = format!("{}vote", "zoo ".repeat(23));
    let texts = [zeros.clone(), most, long, zeros.to_uppercase().replace(' ', "\t\n")];
    let mut seeds: Vec<Vec<u8>> =
        texts.iter().map(|text| [&[0][..], text.as_bytes()].concat()).collect();
    seeds.push([&[1, 0, 0, 3][..], &[0x55; 16]].concat());
    seeds.push([&[1, 4, 2, 80][..], &[0xa7; 32]].concat());
    seeds
}
