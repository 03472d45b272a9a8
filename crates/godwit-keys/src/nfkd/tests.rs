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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_as_in_the_library(
        text in "([a-zé가\u{1e9b}]|[\u{300}-\u{345}\u{591}-\u{5c7}\u{1d165}]|\\PC){0,40}"
    ) {
        prop_assert_eq!(ours(&text), text.nfkd().collect::<String>());
    }
}
