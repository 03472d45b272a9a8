//! Failures of commands on keys. No message repeats any part of a secret.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use godwit_keys::{CoreWalletError, DescriptorError, ExportError, KeyFileError, StoreError};
use godwit_program::{Exit, OutputError};
use godwit_secret::{HardeningError, LockError, NotUtf8, ReadError, Releasable};

use crate::agree::disagreement::Disagreement;
use crate::options::Descriptor;

/// Why a command of `keys` failed.
#[derive(Debug)]
pub(crate) enum KeysFailure {
    Store(StoreError),
    /// There is no key file.
    NoKeyFile(PathBuf),
    /// The process could not be hardened, so it must not hold keys.
    Hardening(HardeningError),
    /// No memory could be locked for what is read.
    Lock(LockError),
    /// A file descriptor named on the command line is not open, or not in the right direction.
    Descriptor(Descriptor, io::Error),
    /// Reading a secret failed.
    Read(io::Error),
    /// A file descriptor ended before a secret began.
    NothingRead,
    /// A secret is longer than any line that is accepted.
    TooLong,
    /// A secret is longer than what a terminal hands over.
    TooLongForTerminal,
    /// A secret is not text.
    NotText(NotUtf8),
    /// There is no terminal on which to ask for a secret.
    NoTerminal(io::Error),
    /// The user interrupted a prompt.
    Aborted,
    /// The user pressed a key that stands for no character.
    NoCharacter,
    /// A new passphrase was typed differently the second time.
    Differs,
    /// The new words were not typed as they were shown.
    OtherWords,
    /// There is no terminal to show new words at, and no option says where else they go.
    NobodySees,
    /// `-kdfmemory` or `-kdfpasses` was given for an existing key file.
    CostOfOldFile,
    /// The change is to an older copy of the key file: its number, and that of the last version.
    OlderCopy(u64, u64),
    /// The change is to a key file that may be an older copy, because the record of versions cannot be read.
    UnknownAge(PathBuf, io::Error),
    /// The file with what is to be watched cannot be read.
    Source(PathBuf, io::Error),
    /// The user has not agreed to what is to be watched.
    NotWatched(Disagreement),
    /// The user has not agreed to the removal of an entry.
    NotRemoved(Disagreement),
    /// The key is for the main network and the chosen network is not, or the other way round.
    OtherNetwork,
    /// A descriptor cannot be imported.
    Descriptors(DescriptorError),
    /// A wallet cannot be imported.
    CoreWallet(PathBuf, CoreWalletError),
    /// A wallet has no private keys that godwit can use.
    WalletWithoutKeys,
    /// A descriptor has public keys only.
    NoPrivateKey,
    /// A new passphrase has a character that Unicode has not assigned yet.
    Unassigned,
    /// A BIP39 passphrase was given, but the secret is no mnemonic.
    NoMnemonic,
    /// Standard output failed.
    Output(OutputError),
}

impl KeysFailure {
    pub(super) fn of_wallet(path: &Path, error: CoreWalletError) -> Self {
        match error {
            CoreWalletError::Memory(error) => Self::Lock(error),
            error => Self::CoreWallet(path.to_owned(), error),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => exit_of_store(error),
            Self::Output(error) => error.exit(),
            Self::Descriptor(..) => Exit::Configuration,
            Self::Aborted => Exit::Interrupted,
            _ => Exit::Failure,
        }
    }
}

pub(crate) fn exit_of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Content(_, KeyFileError::Damaged | KeyFileError::Content) => Exit::Damaged,
        StoreError::ReservedName(_) => Exit::Configuration,
        StoreError::File { error, .. } | StoreError::Export(ExportError::Write(error)) => {
            Exit::of_write(error, Exit::Failure)
        }
        _ => Exit::Failure,
    }
}

impl Releasable for KeysFailure {}

impl fmt::Display for KeysFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::NoKeyFile(path) => write!(
                f,
                "there is no key file {}; keys create, keys import, keys import-core-wallet or keys \
                 watch makes it",
                path.display()
            ),
            Self::Hardening(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
            Self::Descriptor(Descriptor(number), error) => {
                write!(f, "file descriptor {number} cannot be used: {error}")
            }
            Self::Read(error) => write!(f, "the secret cannot be read: {error}"),
            Self::NothingRead => f.write_str(
                "the file descriptor ends before the secret; for an empty one, give it an empty line",
            ),
            Self::TooLong => f.write_str("the secret is too long"),
            Self::TooLongForTerminal => f.write_str(
                "a terminal cannot pass such a long line; give it through a file descriptor, with \
                 -secret-fd",
            ),
            Self::NotText(error) => write!(f, "the secret is {error}"),
            Self::NoTerminal(error) => write!(
                f,
                "there is no terminal to ask for the secret ({error}); give it through a file \
                 descriptor, with -passphrase-fd and its like"
            ),
            Self::Aborted => f.write_str("aborted; nothing was done"),
            Self::NoCharacter => {
                f.write_str("a key was pressed that stands for no character; nothing was done")
            }
            Self::Differs => f.write_str("the two entries differ; nothing was done"),
            Self::OtherWords => {
                f.write_str("the words that were typed are not those that were shown")
            }
            Self::NobodySees => f.write_str(
                "there is no terminal to show the new words at; write them with -mnemonic-fd, or keep them \
                 in the key file alone with -unseenwords",
            ),
            Self::CostOfOldFile => f.write_str(
                "-kdfmemory and -kdfpasses are for a new key file, and this one is there; keys \
                 change-passphrase changes its costs",
            ),
            Self::OlderCopy(number, newer) => older_copy(f, *number, *newer),
            Self::UnknownAge(record, error) => write!(
                f,
                "{} cannot be read ({error}), and nothing tells whether this key file is an older copy; \
                 -oldercopy changes it all the same",
                record.display()
            ),
            Self::Source(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::NotWatched(why) => not_watched(f, *why),
            Self::NotRemoved(why) => write!(f, "nothing was removed: {why}"),
            Self::OtherNetwork => {
                f.write_str("the key is of another network; choose its network with -chain")
            }
            Self::Descriptors(error) => error.fmt(f),
            Self::CoreWallet(path, error) => write!(f, "{}: {error}", path.display()),
            Self::WalletWithoutKeys => {
                f.write_str("the wallet has no private keys that godwit can use")
            }
            Self::NoPrivateKey => f.write_str("the descriptor has no private key"),
            Self::Output(error) => error.fmt(f),
            Self::Unassigned => f.write_str(UNASSIGNED),
            Self::NoMnemonic => f.write_str("there is a passphrase of a mnemonic, but no mnemonic"),
        }
    }
}

const UNASSIGNED: &str = "the passphrase has a character that is not assigned in Unicode yet; a later version \
                          may read it in another way, and not open the file";

fn older_copy(f: &mut fmt::Formatter<'_>, number: u64, newer: u64) -> fmt::Result {
    write!(
        f,
        "this key file is an older copy, number {number}: number {newer} was here before, and may have had \
         more keys or another passphrase; -oldercopy changes it all the same"
    )
}

fn not_watched(f: &mut fmt::Formatter<'_>, why: Disagreement) -> fmt::Result {
    match why {
        Disagreement::NobodyToAsk => f.write_str(
            "nothing was changed: there is no terminal to ask at; look at what is shown, and give what it says \
             with -yes",
        ),
        why => write!(f, "nothing was changed: {why}"),
    }
}

impl From<StoreError> for KeysFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<OutputError> for KeysFailure {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

impl From<HardeningError> for KeysFailure {
    fn from(error: HardeningError) -> Self {
        Self::Hardening(error)
    }
}

impl From<LockError> for KeysFailure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<ReadError> for KeysFailure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Memory(error) => Self::Lock(error),
            ReadError::Source(error) => Self::Read(error),
        }
    }
}

impl From<DescriptorError> for KeysFailure {
    fn from(error: DescriptorError) -> Self {
        Self::Descriptors(error)
    }
}
