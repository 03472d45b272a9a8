use super::*;

#[test]
fn what_moves_the_cursor_is_shown_by_its_number() {
    let all = |text: &str| -> String { text.chars().flat_map(shown).collect() };
    assert_eq!(all("pay 5 € to 'Zoë' \"ok\" 漢字 😄"), "pay 5 € to 'Zoë' \"ok\" 漢字 😄");
    assert_eq!(all("a\u{1b}[2Jb\tc\rd"), "a\\u{1b}[2Jb\\u{9}c\\u{d}d");
    // Right-to-left override, a joiner, a space that is none.
    assert_eq!(all("\u{202e}\u{200d}\u{a0}"), "\\u{202e}\\u{200d}\\u{a0}");
}

#[test]
fn no_two_messages_are_shown_alike() {
    let long = "a".repeat(WIDTH);
    let messages = [
        "\u{202e}",
        "\\u{202e}",
        "\\u{5c}u{202e}",
        "a\nb",
        "a\n  | b",
        "a\\nb",
        &long,
        &format!("{long}a"),
        &format!("{long}\na"),
        &format!("{long}\n  + a"),
        &format!("{long}  | a"),
        "漢",
        &"漢".repeat(WIDTH / 2),
        &"漢".repeat(WIDTH / 2 + 1),
    ];
    for (number, message) in messages.iter().enumerate() {
        let shown = lines(message);
        assert!(messages[..number].iter().all(|other| lines(other) != shown), "{shown}");
        for line in shown.split('\n').skip(1) {
            assert!(line.starts_with("  | ") || line.starts_with("  + "), "{shown}");
            assert!(line.chars().count() <= WIDTH + 4, "{shown}");
        }
    }
    assert_eq!(lines(&format!("{long}b\nc")), format!("\n  | {long}\n  + b\n  | c"));
}
