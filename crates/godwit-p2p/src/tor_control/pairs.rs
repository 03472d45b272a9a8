//! `KEY=VALUE` in a line of Tor, where a value may be a string in quotes (`control-spec` 2.1.1, 2.3).

/// A value as it stands in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Bare(&'a [u8]),
    /// Between its quotes, with backslashes.
    Quoted(&'a [u8]),
}

impl Value<'_> {
    /// What it means: backslashes are read as in C, as the specification advises (Core
    /// `ParseTorReplyMapping`).
    pub(super) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Bare(bytes) => bytes.to_vec(),
            Self::Quoted(bytes) => unescape(bytes),
        }
    }
}

/// The value of a key, of several the last one; `None` if there is none, or if the text is malformed
/// anywhere. What follows the pairs, words without `=`, is left out.
pub(super) fn value_of<'a>(text: &'a [u8], key: &[u8]) -> Option<Value<'a>> {
    let (mut rest, mut found) = (text, None);
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b'=' | b' '))?;
        let (name, behind) = (&rest[..end], &rest[end + 1..]);
        if rest[end] == b' ' {
            break;
        }
        let (value, behind) = match behind.strip_prefix(b"\"") {
            Some(quoted) => {
                let end = closing_quote(quoted)?;
                (Value::Quoted(&quoted[..end]), &quoted[end + 1..])
            }
            None => {
                let end = behind.iter().position(|byte| *byte == b' ').unwrap_or(behind.len());
                (Value::Bare(&behind[..end]), &behind[end..])
            }
        };
        rest = behind.strip_prefix(b" ").unwrap_or(behind);
        if name == key {
            found = Some(value);
        }
    }
    found
}

/// Where a string ends that began before `text`.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut is_escaped = false;
    text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    })
}

fn unescape(mut text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        let (byte, length) = match (first, rest) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'0'..=b'7', ..]) => {
                let (byte, digits) = octal(rest);
                (byte, 1 + digits)
            }
            (b'\\', [other, ..]) => (*other, 2),
            _ => (first, 1),
        };
        bytes.push(byte);
        text = &text[length..];
    }
    bytes
}

/// Up to three digits, as many as a byte has room for.
fn octal(text: &[u8]) -> (u8, usize) {
    let most = if text[0] <= b'3' { 3 } else { 2 };
    let digits = text.iter().take(most).take_while(|byte| matches!(byte, b'0'..=b'7'));
    digits.fold((0, 0), |(value, count), digit| (value * 8 + (digit - b'0'), count + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str, key: &str) -> Option<Vec<u8>> {
        value_of(text.as_bytes(), key.as_bytes()).map(Value::bytes)
    }

    /// Core `torcontrol_tests.cpp`, `util_ParseTorReplyMapping`, without its copies of the same.
    #[test]
    fn pairs_are_read_as_in_core() {
        let cookie = r#"METHODS=COOKIE,SAFECOOKIE COOKIEFILE="/home/x/.tor/control_auth_cookie""#;
        for (text, key, expected) in [
            (cookie, "METHODS", Some("COOKIE,SAFECOOKIE")),
            (cookie, "COOKIEFILE", Some("/home/x/.tor/control_auth_cookie")),
            ("METHODS=NULL", "METHODS", Some("NULL")),
            (
                r#"Tor="0.2.9.8 (git-a0df013ea241b026)""#,
                "Tor",
                Some("0.2.9.8 (git-a0df013ea241b026)"),
            ),
            ("ServiceID=exampleonion1234", "ServiceID", Some("exampleonion1234")),
            ("ClientAuth=bob:BOB", "ClientAuth", Some("bob:BOB")),
            ("Foo=Bar=Baz Spam=Eggs", "Foo", Some("Bar=Baz")),
            (r#"Foo="Bar=Baz""#, "Foo", Some("Bar=Baz")),
            (r#"Foo="Bar Baz""#, "Foo", Some("Bar Baz")),
            (r#"Foo="Bar\ Baz""#, "Foo", Some("Bar Baz")),
            (r#"Foo="Bar\Baz""#, "Foo", Some("BarBaz")),
            (r#"Foo="Bar\@Baz""#, "Foo", Some("Bar@Baz")),
            (r#"Foo="Bar\"Baz" Spam="\"Eggs\"""#, "Spam", Some("\"Eggs\"")),
            (r#"Foo="Bar\\Baz""#, "Foo", Some("Bar\\Baz")),
            (r#"Foo="Bar\nBaz\t" Spam="\rEggs""#, "Foo", Some("Bar\nBaz\t")),
            (r#"Foo="Bar\nBaz\t" Spam="\rEggs""#, "Spam", Some("\rEggs")),
            (r#"Foo="Bar\1a\11\17\18\81""#, "Foo", Some("Bar\u{1}a\t\u{f}\u{1}881")),
            (r#"Foo="Bar\0\0\0""#, "Foo", Some("Bar\0\0\0")),
            (r#"Foo=Bar\ Baz"#, "Foo", None),
            ("Foo=Bar Foo=Baz", "Foo", Some("Baz")),
            ("Foo=", "Foo", Some("")),
            (r#"Foo="""#, "Foo", Some("")),
            ("SOME=args,here MORE optional=arguments  here", "SOME", Some("args,here")),
            ("SOME=args,here MORE optional=arguments  here", "optional", None),
            ("ARGS", "ARGS", None),
            ("MORE ARGS", "MORE", None),
            ("MORE  ARGS", "MORE", None),
            ("EVEN more=ARGS", "more", None),
            ("EVEN+more ARGS", "EVEN+more", None),
            ("Foo=Bar Spam", "Foo", None),
            (r#"Foo="Bar"#, "Foo", None),
            (r#"Foo="Bar\""#, "Foo", None),
        ] {
            assert_eq!(value(text, key), expected.map(|text| text.as_bytes().to_vec()), "{text}");
        }
        let octal = r#"Foo="\378\400\777Bar""#;
        assert_eq!(value(octal, "Foo"), Some(b"\x1f8\x200\x3f7Bar".to_vec()));
        assert_eq!(value(r#"Foo="\377\37""#, "Foo"), Some(vec![0xff, 0x1f]));
    }

    /// A string as a server would write it, each byte in one of the ways that there are.
    fn quoted(bytes: &[(u8, bool)]) -> Vec<u8> {
        let mut text = vec![b'"'];
        for (byte, in_octal) in bytes {
            match byte {
                _ if *in_octal => text.extend(format!("\\{byte:03o}").bytes()),
                b'"' | b'\\' => text.extend([b'\\', *byte]),
                byte => text.push(*byte),
            }
        }
        text.push(b'"');
        text
    }

    proptest! {
        #[test]
        fn what_was_put_between_quotes_comes_back(
            first in prop::collection::vec(any::<(u8, bool)>(), 0..20),
            second in "[!-<>-~]{0,9}",
        ) {
            let mut text = b"A=".to_vec();
            text.extend(quoted(&first));
            text.extend(b" B=");
            text.extend(second.bytes().filter(|byte| *byte != b'"'));
            let plain: Vec<u8> = first.iter().map(|(byte, _)| *byte).collect();
            prop_assert_eq!(value_of(&text, b"A").map(Value::bytes), Some(plain));
            let rest: Vec<u8> = second.bytes().filter(|byte| *byte != b'"').collect();
            prop_assert_eq!(value_of(&text, b"B"), Some(Value::Bare(&rest)));
        }

        #[test]
        fn nothing_panics(text in prop::collection::vec(any::<u8>(), 0..60), key in ".{0,2}") {
            let found = value_of(&text, key.as_bytes()).map(Value::bytes);
            prop_assert!(found.is_none_or(|value| value.len() <= text.len()));
        }
    }
}
