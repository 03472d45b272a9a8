//! Text from outside on its way to a terminal or a log.

use std::fmt;

/// Letters of a text that a message repeats.
const REPEATED: usize = 200;

/// Shows a text with its control characters, except line feeds, as `\x1b`: bytes from outside must
/// not steer a terminal (Core `LogEscapeMessage`).
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, |c| c.is_ascii_control() && c != '\n')
    }
}

/// The same with line feeds too: one line, whatever the text is.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, |c| c.is_ascii_control())
    }
}

fn write_escaped(
    f: &mut fmt::Formatter<'_>,
    text: &str,
    is_escaped: fn(char) -> bool,
) -> fmt::Result {
    for part in text.split_inclusive(is_escaped) {
        match part.chars().next_back() {
            // It is of ASCII, and so one byte.
            Some(last) if is_escaped(last) => {
                let text = &part[..part.len() - 1];
                write!(f, "{text}\\x{:02x}", u32::from(last))?;
            }
            _ => f.write_str(part)?,
        }
    }
    Ok(())
}

/// What a user wrote, as a message repeats it: its beginning, where it is very long.
pub(crate) struct Repeated<'a>(pub(crate) &'a str);

impl fmt::Display for Repeated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(REPEATED) {
            Some((end, _)) => write!(f, "{}…", &self.0[..end]),
            None => f.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stays_one() {
        assert_eq!(OneLine("a\n\x1b[31mé\r\n").to_string(), "a\\x0a\\x1b[31mé\\x0d\\x0a");
        assert_eq!(Escaped("a\n\x1b[31mé\r\n").to_string(), "a\n\\x1b[31mé\\x0d\n");
    }

    #[test]
    fn only_the_beginning_of_a_long_text_is_repeated() {
        let shown = |length: usize| Repeated(&"é".repeat(length)).to_string();
        assert_eq!([shown(0), shown(200)], [String::new(), "é".repeat(200)]);
        assert_eq!(shown(201), format!("{}…", "é".repeat(200)));
    }
}
