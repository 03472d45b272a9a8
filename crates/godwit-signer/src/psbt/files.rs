//! PSBTs from files and standard input, results to files and standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use godwit_keys::psbt::{MAX_PSBT_BYTES, Psbt, text};
use godwit_program::{Exit, print_text};
use rustix::io::Errno;

use super::failure::PsbtFailure;

/// The operand that stands for standard input.
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

/// Reads at most one byte more than is accepted, to tell a file that is too long from one that just
/// fits.
fn read_limited(source: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    source.take(text::MAX_INPUT_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Writes a PSBT: base64 to standard output, the binary form to a file.
pub(crate) fn write_psbt(psbt: &Psbt, out: Option<&Path>) -> Result<Exit, PsbtFailure> {
    let bytes = psbt.encode();
    if bytes.len() > MAX_PSBT_BYTES {
        return Err(PsbtFailure::TooLong(bytes.len()));
    }
    match out {
        Some(path) => create(path, &bytes),
        None => Ok(print_text(&text::write(psbt))?),
    }
}

pub(super) fn write_text(line: &str, out: Option<&Path>) -> Result<Exit, PsbtFailure> {
    match out {
        Some(path) => create(path, format!("{line}\n").as_bytes()),
        None => Ok(print_text(line)?),
    }
}

/// Reports a file that exists already, before any work is done for it.
pub(crate) fn check_out(out: Option<&Path>) -> Result<(), PsbtFailure> {
    match out.filter(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(PsbtFailure::Write(path.to_owned(), Errno::EXIST.into())),
        None => Ok(()),
    }
}

/// Creates a file that only the owner can read; never overwrites one. An incomplete file is
/// removed.
fn create(path: &Path, content: &[u8]) -> Result<Exit, PsbtFailure> {
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).and_then(
        |mut file| {
            let written = file.write_all(content).and_then(|()| file.sync_all());
            // The failed write is what the user has to know about, not a failure to remove what
            // this command created.
            if written.is_err() {
                drop(fs::remove_file(path));
            }
            written
        },
    );
    written.map_err(|error| PsbtFailure::Write(path.to_owned(), error))?;
    Ok(Exit::Success)
}
