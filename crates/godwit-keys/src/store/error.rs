//! Why an operation of the key store failed.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::entry::{KeyId, MAX_LABEL};
use crate::error::KeyError;
use crate::export::ExportError;
use crate::key_file::KeyFileError;

/// The action on a file that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAction {
    /// Opening and reading it.
    Read,
    /// Writing it and putting it in the place of the old one.
    Write,
    /// Locking it against other writers.
    Lock,
}

/// Why an operation of the key store failed. Except after [`NotDurable`](Self::NotDurable), the
/// file holds what it held before.
#[derive(Debug)]
pub enum StoreError {
    File {
        action: FileAction,
        path: PathBuf,
        error: io::Error,
    },
    /// The file was replaced, but a sync failed: after a power cut, either version may be there.
    NotDurable(PathBuf, io::Error),
    /// A key file must not have this name: writing another one would remove it.
    ReservedName(PathBuf),
    /// What was written beside the file does not open to what it should hold.
    NotReadBack(PathBuf),
    /// The content cannot be decoded or encoded.
    Content(PathBuf, KeyFileError),
    /// Users other than the owner may read or write the file; its mode.
    Permissions(PathBuf, u32),
    /// The file belongs to another user, who could read and replace it; the user's id.
    Owner(PathBuf, u32),
    /// A file of this name exists already.
    Exists(PathBuf),
    /// An empty passphrase.
    EmptyPassphrase,
    /// Another process has changed the passphrase meanwhile.
    PassphraseChanged(PathBuf),
    /// The label is too long, or a character of it is a control character.
    Label,
    /// An entry without descriptors.
    NoDescriptors,
    /// There is an entry with the same descriptors, and it lacks nothing.
    Duplicate(KeyId),
    /// An entry with other descriptors has the same id, by chance or by intent.
    NameTaken(KeyId),
    /// There is no such entry.
    Unknown(KeyId),
    /// The entry has no secrets, so that there are none to write out.
    NoSecrets(KeyId),
    /// The entry is another one meanwhile.
    Changed(KeyId),
    /// A key cannot be used.
    Key(KeyError),
    /// A secret cannot be written out.
    Export(ExportError),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { action, path, error } => {
                let action = match action {
                    FileAction::Read => "read",
                    FileAction::Write => "written",
                    FileAction::Lock => "locked",
                };
                write!(f, "the key file {} cannot be {action}: {error}", path.display())
            }
            Self::ReservedName(path) => write!(
                f,
                "{} is no name for a key file: its ending is that of files beside one",
                path.display()
            ),
            Self::NotDurable(path, error) => write!(
                f,
                "the key file {} was changed as asked for, but the change may not outlast a power \
                 cut: the folder cannot be written to the disk ({error})",
                path.display()
            ),
            Self::NotReadBack(path) => write!(
                f,
                "the key file {} stays as it was: what was to take its place could not be opened again, \
                 which is the fault of this machine or of this program",
                path.display()
            ),
            Self::Content(path, error) => write!(f, "key file {}: {error}", path.display()),
            Self::Permissions(path, mode) => write!(
                f,
                "others may open the key file {} (mode {mode:04o}): run `chmod 600` on it",
                path.display()
            ),
            Self::Owner(path, user) => write!(
                f,
                "the key file {} belongs to user {user}: run as that user, or make it your own",
                path.display()
            ),
            Self::Exists(path) => write!(f, "there is a key file {} already", path.display()),
            Self::EmptyPassphrase => f.write_str("the passphrase is empty"),
            Self::PassphraseChanged(path) => {
                write!(f, "the passphrase of {} was changed meanwhile", path.display())
            }
            Self::Label => {
                write!(f, "a label has at most {MAX_LABEL} characters, and no control characters")
            }
            Self::NoDescriptors => f.write_str("there are no descriptors that the keys belong to"),
            Self::Duplicate(id) => write!(f, "the key file has these keys already, as {id}"),
            Self::NameTaken(id) => {
                write!(
                    f,
                    "the key file has an entry {id} of other descriptors, and names are unique"
                )
            }
            Self::Unknown(id) => write!(f, "the key file has no entry {id}"),
            Self::NoSecrets(id) => {
                write!(f, "the entry {id} has no secrets: its descriptors are watched")
            }
            Self::Changed(id) => write!(f, "the entry {id} was changed meanwhile"),
            Self::Key(error) => error.fmt(f),
            Self::Export(error) => error.fmt(f),
        }
    }
}

impl Error for StoreError {}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<ExportError> for StoreError {
    fn from(error: ExportError) -> Self {
        Self::Export(error)
    }
}
