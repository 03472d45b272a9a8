//! PSBTs from files and standard input, results to files and standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use godwit_keys::psbt::{Psbt, text};

use super::failure::PsbtFailure;
use crate::exit::Exit;
use crate::failure::Failure;

/// Standard input, as an operand.
const STANDARD_INPUT: &str = "-";

/// Reads every operand.
pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<Psbt>, PsbtFailure> {
    if files.iter().filter(|file| file.as_os_str() == STANDARD_INPUT).count() > 1 {
        return Err(PsbtFailure::StandardInputTwice);
    }
    files.iter().map(|file| read(file)).collect()
}

fn read(path: &Path) -> Result<Psbt, PsbtFailure> {
    let content = match path.as_os_str() == STANDARD_INPUT {
        true => read_limited(io::stdin().lock()),
        false => File::open(path).and_then(read_limited),
    };
    let content = content.map_err(|error| PsbtFailure::Read(path.to_owned(), error))?;
    text::read(&content).map_err(|error| PsbtFailure::Format(path.to_owned(), error))
}

/// One byte more than there may be, so that too long a file is told from one that just fits.
fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    source.take(text::MAX_INPUT_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// A PSBT: base64 on standard output, the binary form in a file.
pub(super) fn write_psbt(psbt: &Psbt, out: Option<&Path>) -> Result<Exit, Failure> {
    match out {
        Some(path) => create(path, &psbt.encode()),
        None => print(&text::write(psbt)),
    }
}

/// A line of text.
pub(super) fn write_text(line: &str, out: Option<&Path>) -> Result<Exit, Failure> {
    match out {
        Some(path) => create(path, format!("{line}\n").as_bytes()),
        None => print(line),
    }
}

/// Never over another file, and for the owner alone.
fn create(path: &Path, content: &[u8]) -> Result<Exit, Failure> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()));
    written.map_err(|error| PsbtFailure::Write(path.to_owned(), error))?;
    Ok(Exit::Success)
}

pub(super) fn print(text: &str) -> Result<Exit, Failure> {
    writeln!(io::stdout(), "{}", text.trim_end()).map_err(Failure::Output)?;
    Ok(Exit::Success)
}
