//! Writes JSON as text, with UniValue's layout and digits.

use std::fmt::Write;

use super::Json;

/// Significant digits of a number (UniValue: `std::setprecision(16)`).
const DIGITS: i32 = 16;

/// Takes the written text. A counter is one too, so that the room for an answer is known before it is
/// written.
trait Sink {
    fn text(&mut self, text: &str);
}

impl Sink for String {
    fn text(&mut self, text: &str) {
        self.push_str(text);
    }
}

struct Length(usize);

impl Sink for Length {
    fn text(&mut self, text: &str) {
        self.0 += text.len();
    }
}

pub(super) fn compact(value: &Json, out: &mut String) {
    write(value, out);
}

pub(super) fn compact_len(value: &Json) -> usize {
    let mut length = Length(0);
    write(value, &mut length);
    length.0
}

fn write(value: &Json, out: &mut impl Sink) {
    match value {
        Json::List(items) => {
            out.text("[");
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.text(",");
                }
                write(item, out);
            }
            out.text("]");
        }
        Json::Object(members) => {
            out.text("{");
            for (n, (name, value)) in members.iter().enumerate() {
                if n > 0 {
                    out.text(",");
                }
                quoted(name, out);
                out.text(":");
                write(value, out);
            }
            out.text("}");
        }
        scalar => write_scalar(scalar, out),
    }
}

fn write_scalar(value: &Json, out: &mut impl Sink) {
    match value {
        Json::Null => out.text("null"),
        Json::Bool(true) => out.text("true"),
        Json::Bool(false) => out.text("false"),
        Json::Number(text) => out.text(text),
        Json::Text(text) => quoted(text, out),
        Json::List(_) | Json::Object(_) => unreachable!("written member by member"),
    }
}

/// Writes on several lines. An empty list or object takes two lines, as in UniValue.
pub(super) fn indented(value: &Json, indent: usize, level: usize, out: &mut String) {
    let margin =
        |out: &mut String, level: usize| out.extend(std::iter::repeat_n(' ', indent * level));
    match value {
        Json::List(items) => {
            out.push_str("[\n");
            for (n, item) in items.iter().enumerate() {
                margin(out, level);
                indented(item, indent, level + 1, out);
                out.push_str(if n + 1 < items.len() { ",\n" } else { "\n" });
            }
            margin(out, level - 1);
            out.push(']');
        }
        Json::Object(members) => {
            out.push_str("{\n");
            for (n, (name, value)) in members.iter().enumerate() {
                margin(out, level);
                quoted(name, out);
                out.push_str(": ");
                indented(value, indent, level + 1, out);
                out.push_str(if n + 1 < members.len() { ",\n" } else { "\n" });
            }
            margin(out, level - 1);
            out.push('}');
        }
        scalar => write_scalar(scalar, out),
    }
}

fn quoted(text: &str, out: &mut impl Sink) {
    out.text("\"");
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\' | '\u{7f}') || c < ' ') {
        out.text(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.text("\\\""),
            b'\\' => out.text("\\\\"),
            0x8 => out.text("\\b"),
            0xc => out.text("\\f"),
            b'\n' => out.text("\\n"),
            b'\r' => out.text("\\r"),
            b'\t' => out.text("\\t"),
            other => out.text(&format!("\\u{other:04x}")),
        }
        rest = &rest[at + 1..];
    }
    out.text(rest);
    out.text("\"");
}

/// A number as C++ prints it with sixteen significant digits, but never with an exponent.
pub(super) fn real(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    // The scientific form comes first: it tells where the digits begin after rounding.
    let mut scientific = String::new();
    write!(scientific, "{value:.*e}", (DIGITS - 1) as usize).expect("a string takes all");
    let exponent: i32 =
        scientific.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let decimals = (DIGITS - 1 - exponent).max(0) as usize;
    let mut text = format!("{value:.decimals$}");
    if exponent >= DIGITS {
        // Digits after the sixteenth would claim more precision than is meant.
        let rounded: f64 = scientific.parse().unwrap_or(value);
        text = format!("{rounded:.0}");
    }
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text
}
