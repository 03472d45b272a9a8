//! Why the check has no result.

use std::error::Error;
use std::fmt;
use std::io;

use godwit_keys::psbt::{FormatError, SignError};
use godwit_keys::{CoreWalletError, ExportError, KeyError, StoreError};
use godwit_p2p::{TransportError, V2Error};
use godwit_program::Exit;
use godwit_secret::residue::{NeedleError, ScanError};
use godwit_secret::{LockError, RandomError, Releasable};

use crate::keys::{self, KeysFailure};

/// Why the check was not completed.
#[derive(Debug)]
pub enum CheckError {
    /// Memory cannot be searched.
    Scan(ScanError),
    /// A leaked copy was found although it had been wiped.
    LeakStays,
    /// A leaked copy was not found in this place.
    LeakNotFound(&'static str),
    /// No memory could be locked.
    Lock(LockError),
    /// The system gave no random bytes.
    Random(RandomError),
    /// No needle could be made of a secret.
    Needle(NeedleError),
    Io(io::Error),
    /// A use of keys failed.
    Key(KeyError),
    /// A key file failed.
    Store(StoreError),
    /// Code shared with the commands of `keys` failed.
    Command(CommandError),
    /// A wallet was refused.
    Wallet(CoreWalletError),
    /// A PSBT was refused.
    Psbt(FormatError),
    /// A PSBT was not signed.
    Sign(SignError),
    /// A connection's handshake failed.
    Keys(V2Error),
    /// A connection failed.
    Connection(TransportError),
    /// A use of keys had the wrong result.
    Unexpected(&'static str),
}

impl Releasable for CheckError {}

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

/// Why a command of `keys` failed, without a type of that module.
#[derive(Debug)]
pub struct CommandError(KeysFailure);

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `From` for errors that are wrapped as they are.
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
