//! Writes the files of reports, with the directories that they belong into.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Writes a file of JSON, and its directory.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Json(path.to_owned(), error))?;
    text.push('\n');
    write_text(path, &text)
}

/// Writes a file of text, and its directory.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|error| Failure::File(dir.to_owned(), error))?;
    fs::write(path, text).map_err(|error| Failure::File(path.to_owned(), error))
}
