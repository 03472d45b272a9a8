//! Text from outside on its way to a terminal or a log.

use std::fmt;

/// Shows a text with its control characters, except line feeds, as `\x1b`: bytes from outside must
/// not steer a terminal (Core `LogEscapeMessage`).
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(|c: char| c.is_ascii_control() && c != '\n') {
            match part.chars().next_back() {
                Some(last) if last.is_ascii_control() && last != '\n' => {
                    let text = &part[..part.len() - 1];
                    write!(f, "{text}\\x{:02x}", u32::from(last))?;
                }
                _ => f.write_str(part)?,
            }
        }
        Ok(())
    }
}
