use std::collections::BTreeMap;

use bitcoin::NetworkKind;
use godwit_secret::Declassified;
use godwit_testdata::shared_file;
use proptest::prelude::*;

use super::*;
use crate::extended_key::ExtendedPrivateKey;

fn secret(plain: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut plain.to_owned()).expect("memory")
}

fn parsed(text: &str) -> Result<Mnemonic, KeyError> {
    Mnemonic::parse(SecretSlice::from(&secret(text)))
}

fn words(mnemonic: &Mnemonic) -> String {
    mnemonic.text().expose_secret(|text| Declassified(text.to_owned())).0
}

fn from_entropy(entropy: &[u8]) -> Mnemonic {
    let entropy = SecretBytes::from_plain_and_wipe(&mut entropy.to_vec()).expect("memory");
    Mnemonic::from_entropy(SecretSlice::from(&entropy)).expect("memory")
}

fn seed(mnemonic: &Mnemonic, passphrase: &str) -> Vec<u8> {
    mnemonic
        .seed(&secret(passphrase))
        .expect("memory")
        .expose_secret(|bytes| Declassified(bytes.to_vec()))
        .0
}

#[test]
fn vectors_of_bip39_give_their_seeds() {
    let Some(file) = shared_file("vectors/wallet/bip39_trezor_vectors.json") else { return };
    let vectors: BTreeMap<String, Vec<[String; 4]>> =
        serde_json::from_slice(&file).expect("vectors by language");
    assert_eq!(vectors["english"].len(), 24);
    for [entropy, text, seed_hex, xprv] in &vectors["english"] {
        let mnemonic = parsed(text).expect("valid");
        assert_eq!(words(&from_entropy(&hex::decode(entropy).expect("hex"))), *text);
        assert_eq!(words(&mnemonic), *text);
        let seed = mnemonic.seed(&secret("TREZOR")).expect("memory");
        assert_eq!(seed.expose_secret(|seed| Declassified(hex::encode(seed))).0, *seed_hex);
        let root =
            ExtendedPrivateKey::from_mnemonic(&mnemonic, &secret("TREZOR"), NetworkKind::Main)
                .expect("valid");
        let root_text = root.to_base58().expect("memory");
        assert_eq!(root_text.expose_secret(|text| Declassified(text.to_owned())).0, *xprv);
    }
    for [_, text, ..] in vectors["french"].iter().chain(&vectors["japanese"]) {
        assert!(parsed(text).is_err(), "only the English list is known");
    }
}

#[test]
fn the_list_is_bip39s() {
    let Some(file) = shared_file("vectors/wallet/bip39_english.txt") else { return };
    let list = String::from_utf8(file).expect("text");
    assert_eq!(list.lines().collect::<Vec<_>>(), Language::English.word_list());
    for (place, word) in list.lines().enumerate() {
        assert_eq!(find(word.as_bytes()), Some(place));
        assert_eq!(find(word.to_uppercase().as_bytes()), Some(place));
    }
}

const ABOUT: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                     abandon abandon about";

#[test]
fn white_space_and_case_do_not_matter() {
    let untidy = format!("  {}\n", ABOUT.to_uppercase().replace(' ', " \t"));
    let mnemonic = parsed(&untidy).expect("valid");
    assert_eq!(words(&mnemonic), ABOUT);
    assert_eq!(seed(&mnemonic, ""), seed(&parsed(ABOUT).expect("valid"), ""));
}

#[test]
fn what_is_wrong_is_told() {
    let error = |text: &str| parsed(text).map(|_| ()).expect_err("wrong");
    assert_eq!(error(""), MnemonicError::WordCount(0).into());
    assert_eq!(error(&ABOUT.replacen("abandon ", "", 1)), MnemonicError::WordCount(11).into());
    assert_eq!(error(&format!("{ABOUT} {ABOUT} about")), MnemonicError::WordCount(25).into());
    assert_eq!(error(&ABOUT.replace("about", "abandon")), MnemonicError::Checksum.into());
    assert_eq!(error(&ABOUT.replace("about", "abot")), MnemonicError::Word(12).into());
    assert_eq!(error(&ABOUT.replacen("abandon", "abandön", 1)), MnemonicError::Word(1).into());
    assert!(Mnemonic::generate(13).is_err() && Mnemonic::generate(0).is_err());
}

#[test]
fn new_ones_are_valid_and_differ() {
    for count in [12, 15, 18, 21, 24] {
        let (a, b) = (Mnemonic::generate(count), Mnemonic::generate(count));
        let (a, b) = (words(&a.expect("memory")), words(&b.expect("memory")));
        assert_ne!(a, b);
        for text in [a, b] {
            assert_eq!(text.split(' ').count(), count);
            assert_eq!(parsed(&text).map(|mnemonic| words(&mnemonic)), Ok(text));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_entropy_gives_the_words_of_the_bip39_crate(
        size in prop::sample::select(vec![16usize, 20, 24, 28, 32]),
        filler in any::<[u8; 32]>(),
    ) {
        let library = bip39::Mnemonic::from_entropy(&filler[..size]).expect("a size");
        let expected: Vec<&str> = library.words().collect();
        prop_assert_eq!(words(&from_entropy(&filler[..size])), expected.join(" "));
    }

    #[test]
    fn any_words_are_judged_as_by_the_bip39_crate(
        places in prop::collection::vec(0..2048usize, 12),
    ) {
        let list = Language::English.word_list();
        let text = places.iter().map(|place| list[*place]).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(parsed(&text).is_ok(), bip39::Mnemonic::parse_normalized(&text).is_ok());
    }

    #[test]
    fn any_passphrase_salts_as_in_the_bip39_crate(passphrase in "\\PC{0,20}") {
        use unicode_normalization::UnicodeNormalization;
        let normal: String = passphrase.nfkd().collect();
        let library = bip39::Mnemonic::parse_normalized(ABOUT).expect("valid");
        let expected = library.to_seed_normalized(&normal);
        prop_assert_eq!(seed(&parsed(ABOUT).expect("valid"), &passphrase), expected);
    }
}
