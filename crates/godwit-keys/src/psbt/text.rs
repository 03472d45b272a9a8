//! Base64, the form in which PSBTs are handed around, or the binary form: whichever it is.

use data_encoding::{BASE64, DecodeKind};

use super::Psbt;
use super::error::FormatError;
use super::limits::MAX_PSBT_BYTES;
use super::pairs::MAGIC;

/// Longest input: base64 of the longest PSBT, with a line break after every 64 characters.
pub const MAX_INPUT_BYTES: usize = MAX_PSBT_BYTES / 3 * 4 + MAX_PSBT_BYTES / 3 * 4 / 64 + 8;

/// Reads the content of a file or a pipe: the binary form, or base64 with white space anywhere.
///
/// # Errors
///
/// As [`Psbt::decode`]; positions in base64 do not count white space.
pub fn read(content: &[u8]) -> Result<Psbt, FormatError> {
    if content.starts_with(&MAGIC) {
        return Psbt::decode(content);
    }
    if content.len() > MAX_INPUT_BYTES {
        return Err(FormatError::TooLong(content.len()));
    }
    let text: Vec<u8> =
        content.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !text.starts_with(b"cHNidP") {
        return Err(FormatError::NoPsbt);
    }
    let bytes = BASE64.decode(&text).map_err(|error| match error.kind {
        DecodeKind::Length => FormatError::Base64(text.len()),
        _ => FormatError::Base64(error.position),
    })?;
    Psbt::decode(&bytes)
}

/// Base64 of the binary form, without line breaks.
pub fn write(psbt: &Psbt) -> String {
    BASE64.encode(&psbt.encode())
}
