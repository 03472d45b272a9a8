use godwit_secret::Declassified;
use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use super::*;

fn ours(text: &str) -> String {
    nfkd(text).expect("memory").expose_secret(|text| Declassified(text.to_owned())).0
}

#[test]
fn every_character_decomposes_as_in_the_library() {
    for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
        // A mark on each side, so that orders change.
        let text = format!("a\u{345}{character}\u{316}");
        assert_eq!(ours(&text), text.nfkd().collect::<String>(), "{character:?}");
    }
}

#[test]
fn marks_take_their_order() {
    assert_eq!(ours("\u{e4}\u{323}"), "a\u{323}\u{308}");
    assert_eq!(ours("\u{308}\u{301}"), "\u{308}\u{301}", "of one class: as they came");
    assert_eq!(ours("ﬁ㍍ Å"), "fiメートル A\u{30a}");
    assert_eq!(ours(""), "");
}

#[test]
fn characters_that_are_not_assigned_yet_do_not_last() {
    let lasts = |text: &str| {
        let text = SecretString::from_plain_and_wipe(&mut text.to_owned()).expect("memory");
        normalizes_for_good(&text).expect("memory")
    };
    for text in ["", "correct horse", "é漢字😄", "ﬁ㍍ Å", "\u{e000}\u{f8ff}\u{10fffd}", "\u{1f}"]
    {
        assert!(lasts(text), "{text:?}");
    }
    // Beside letters that are, in blocks without any, and what will never be a character.
    for text in ["\u{378}", "a\u{530}b", "\u{ab70}\u{ab6f}", "\u{c0000}", "\u{ffff}", "\u{fdd0}"] {
        assert!(!lasts(text), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_as_in_the_library(
        text in "([a-zé가\u{1e9b}]|[\u{300}-\u{345}\u{591}-\u{5c7}\u{1d165}]|\\PC){0,40}"
    ) {
        prop_assert_eq!(ours(&text), text.nfkd().collect::<String>());
    }
}
