use super::*;

#[test]
fn what_moves_the_cursor_is_shown_by_its_number() {
    let all = |text: &str| -> String { text.chars().flat_map(shown).collect() };
    assert_eq!(all("pay 5 € to 'Zoë' \\o/ \"ok\" 漢字 😄"), "pay 5 € to 'Zoë' \\o/ \"ok\" 漢字 😄");
    assert_eq!(all("a\u{1b}[2Jb\tc\rd"), "a\\u{1b}[2Jb\\u{9}c\\u{d}d");
    // Right-to-left override, a joiner, a space that is none.
    assert_eq!(all("\u{202e}\u{200d}\u{a0}"), "\\u{202e}\\u{200d}\\u{a0}");
}
