//! Why the check says nothing, or what it says.

use std::error::Error;
use std::fmt;
use std::io;

use godwit_keys::psbt::{FormatError, SignError};
use godwit_keys::{CoreWalletError, ExportError, KeyError, StoreError};
use godwit_p2p::{TransportError, V2Error};
use godwit_program::Exit;
use godwit_secret::residue::{NeedleError, ScanError};
use godwit_secret::{LockError, RandomError};

use crate::keys::{self, KeysFailure};

/// Why the check did not come to its end.
#[derive(Debug)]
pub enum CheckError {
    /// Memory cannot be searched.
    Scan(ScanError),
    /// A leak was wiped and is found all the same.
    LeakStays,
    /// A leak was not found: its place.
    LeakNotFound(&'static str),
    /// There is no locked memory.
    Lock(LockError),
    /// The system gives no random bytes.
    Random(RandomError),
    /// There is nothing to search for.
    Needle(NeedleError),
    Io(io::Error),
    /// A use of keys failed.
    Key(KeyError),
    /// A key file failed.
    Store(StoreError),
    /// What a command does with keys, too, failed.
    Command(CommandError),
    /// A wallet was refused.
    Wallet(CoreWalletError),
    /// A PSBT was refused.
    Psbt(FormatError),
    /// A PSBT was not signed.
    Sign(SignError),
    /// A connection has no keys.
    Keys(V2Error),
    /// A connection failed.
    Connection(TransportError),
    /// A use of keys did not do what it does.
    Unexpected(&'static str),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scan(error) => error.fmt(f),
            Self::LeakStays => f.write_str("the search finds a secret that was wiped"),
            Self::LeakNotFound(place) => {
                write!(f, "the search does not find a secret that was left on purpose: {place}")
            }
            Self::Lock(error) => error.fmt(f),
            Self::Random(error) => error.fmt(f),
            Self::Needle(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Command(error) => error.fmt(f),
            Self::Wallet(error) => error.fmt(f),
            Self::Psbt(error) => error.fmt(f),
            Self::Sign(error) => error.fmt(f),
            Self::Keys(error) => error.fmt(f),
            Self::Connection(error) => error.fmt(f),
            Self::Unexpected(name) => write!(f, "{name}: the outcome is not what it should be"),
        }
    }
}

impl Error for CheckError {}

impl CheckError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => keys::exit_of_store(error),
            Self::Command(CommandError(failure)) => failure.exit(),
            _ => Exit::Failure,
        }
    }
}

/// Why a command of `keys` does not do its work.
#[derive(Debug)]
pub struct CommandError(KeysFailure);

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `From` for what is passed on as it is.
macro_rules! passed_on {
    ($($variant:ident($error:ty)),* $(,)?) => {
        $(impl From<$error> for CheckError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

passed_on!(
    Scan(ScanError),
    Lock(LockError),
    Random(RandomError),
    Needle(NeedleError),
    Io(io::Error),
    Key(KeyError),
    Store(StoreError),
    Wallet(CoreWalletError),
    Psbt(FormatError),
    Sign(SignError),
    Keys(V2Error),
    Connection(TransportError),
);

impl From<KeysFailure> for CheckError {
    fn from(error: KeysFailure) -> Self {
        Self::Command(CommandError(error))
    }
}

impl From<ExportError> for CheckError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Key(error) => Self::Key(error),
            ExportError::Write(error) => Self::Io(error),
        }
    }
}
