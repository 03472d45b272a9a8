//! The sources and targets of secrets: the terminal, and file descriptors that the process was started with.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Stderr, Stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use godwit_keys::normalizes_for_good;
use godwit_secret::{Declassified, SecretBytes, SecretString, between_steps, run_on_secret_stack};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::failure::KeysFailure;
use super::strength::bits_at_best;
use super::terminal::Terminal;
use crate::options::Descriptor;

/// Longest secret, in bytes: a descriptor of several keys.
const MAX_LINE: usize = 64 << 10;

/// Bits that nobody can guess, at the Argon2 cost that every file has.
const ENOUGH_BITS: u32 = 60;

/// The descriptors to read from, by number. One descriptor can give several secrets, a line each.
pub(crate) struct Input {
    files: BTreeMap<u16, File>,
}

impl Input {
    /// Opens the descriptors. Must run before the process is hardened: a hardened process can no
    /// longer look up its own descriptors.
    pub(crate) fn open(
        descriptors: impl IntoIterator<Item = Descriptor>,
    ) -> Result<Self, KeysFailure> {
        let mut files = BTreeMap::new();
        for descriptor in descriptors {
            let file = open(descriptor);
            let file = file.map_err(|error| KeysFailure::Descriptor(descriptor, error))?;
            files.entry(descriptor.0).or_insert(file);
        }
        Ok(Self { files })
    }

    /// Input from one open file, under the number of `descriptor`.
    pub(crate) fn of_file(file: File, descriptor: Descriptor) -> Self {
        Self { files: BTreeMap::from([(descriptor.0, file)]) }
    }

    /// Reads the next line of a descriptor; without one, what the user types at the terminal.
    pub(crate) fn secret(
        &self,
        from: Option<Descriptor>,
        what: &str,
    ) -> Result<SecretString, KeysFailure> {
        let file = from.map(|Descriptor(number)| &self.files[&number]);
        let line = match file {
            Some(file) => run_on_secret_stack(|| line_of(file))??,
            None => Terminal::open()?.ask(what)?,
        };
        SecretString::from_utf8(line).map_err(KeysFailure::NotText)
    }

    /// The passphrase that a key file gets. Every later version has to be able to open the file with it, too.
    pub(super) fn file_passphrase(
        &self,
        from: Option<Descriptor>,
        what: &str,
    ) -> Result<SecretString, KeysFailure> {
        let passphrase = self.new_passphrase(from, what)?;
        match normalizes_for_good(&passphrase)? {
            true => Ok(passphrase),
            false => Err(KeysFailure::Unassigned),
        }
    }

    /// As [`secret`](Self::secret), but the terminal asks twice.
    pub(super) fn new_passphrase(
        &self,
        from: Option<Descriptor>,
        what: &str,
    ) -> Result<SecretString, KeysFailure> {
        let first = self.secret(from, what)?;
        if from.is_none() && self.secret(None, &format!("{what} again"))? != first {
            return Err(KeysFailure::Differs);
        }
        if from.is_none() {
            let bits = |text: &str| Declassified(bits_at_best(text));
            let bits = run_on_secret_stack(|| first.expose_secret(bits))?.0;
            Terminal::open()?.say(&format!(
                "It has {bits} bits at best, if every character was chosen at random; with fewer than \
                 {ENOUGH_BITS} it can be guessed by whoever has the file."
            ))?;
        }
        Ok(first)
    }
}

/// Reads a file that should be public, though nobody has checked that yet.
pub(super) fn read_file(path: &Path) -> Result<SecretBytes, KeysFailure> {
    let failed = |error| KeysFailure::Source(path.to_owned(), error);
    let mut file = File::open(path).map_err(failed)?;
    let mut text = SecretBytes::new();
    while text.len() <= MAX_LINE {
        if text.read_from(&mut file, MAX_LINE + 1 - text.len())? == 0 {
            break;
        }
    }
    Ok(text)
}

/// Reads a line byte by byte, straight into locked memory, and leaves what follows for the next
/// call. A line may be empty, and the last one may lack its line feed; but a descriptor that gives
/// no byte at all gives no secret. It must not pass for an empty passphrase: a mnemonic has
/// different keys with each passphrase.
fn line_of(mut file: &File) -> Result<SecretBytes, KeysFailure> {
    let mut line = SecretBytes::new();
    loop {
        if line.read_from(&mut file, 1)? == 0 {
            return if line.is_empty() { Err(KeysFailure::NothingRead) } else { Ok(line) };
        }
        let end = line.len() - 1;
        if line.expose_secret(|line| line[end] == b'\n') {
            line.truncate(end);
            if line.expose_secret(|line| line.ends_with(b"\r")) {
                line.truncate(end - 1);
            }
            between_steps("a line is read");
            return Ok(line);
        }
        if end == MAX_LINE {
            return Err(KeysFailure::TooLong);
        }
    }
}

/// A descriptor to write to.
pub(super) enum Output {
    Standard(Stdout),
    Error(Stderr),
    Other(File),
}

impl Output {
    /// Must run before the process is hardened, like [`Input::open`].
    pub(super) fn open(descriptor: Descriptor) -> Result<Self, KeysFailure> {
        match descriptor {
            Descriptor(1) => Ok(Self::Standard(io::stdout())),
            Descriptor(2) => Ok(Self::Error(io::stderr())),
            other => open_anew(other, OpenOptions::new().append(true))
                .map(Self::Other)
                .map_err(|error| KeysFailure::Descriptor(other, error)),
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Standard(stream) => stream.as_fd(),
            Self::Error(stream) => stream.as_fd(),
            Self::Other(file) => file.as_fd(),
        }
    }
}

/// Opens a descriptor anew. Standard input is duplicated instead: with `sudo -u` it can be another
/// user's pipe, which cannot be opened again.
fn open(descriptor: Descriptor) -> io::Result<File> {
    match descriptor {
        Descriptor(0) => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        other => open_anew(other, OpenOptions::new().read(true)),
    }
}

/// Opens a descriptor by its path in `/proc`. Without `O_NONBLOCK` this would wait for ever for another
/// writer if it is a named pipe whose writer has already closed it, as programs do that have written their
/// secret.
fn open_anew(Descriptor(number): Descriptor, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = options.custom_flags(flags).open(format!("/proc/self/fd/{number}"))?;
    // From here on, reading waits for bytes, as the descriptor does.
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}
