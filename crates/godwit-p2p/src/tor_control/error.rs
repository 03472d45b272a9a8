//! Reasons for which there is no onion service.

use std::error::Error;
use std::fmt;

use godwit_secret::{LockError, Releasable};

use super::reply::{MAX_TOR_LINE, MAX_TOR_LINES};
use super::safe_cookie::TOR_COOKIE_SIZE;

/// Why a connection to Tor's control port is given up. Nothing of what Tor said is in it but its codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TorError {
    LongLine,
    LongReply,
    /// Lines that Tor does not write.
    Malformed,
    /// Tor does not say how to authenticate, with this code.
    NoProtocolInfo(u16),
    /// It knows no way to authenticate that this node has.
    NoMethod,
    /// It wants a password, and there is none.
    PasswordWanted,
    /// There is a password, and it takes none.
    PasswordNotTaken,
    CookieLength,
    NoChallenge(u16),
    /// Who answers does not know the cookie that it says to have written.
    WrongCookie,
    NotAuthenticated(u16),
    NoService(u16),
    Memory(LockError),
}

impl Releasable for TorError {}

impl From<LockError> for TorError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for TorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LongLine => write!(f, "a line of more than {MAX_TOR_LINE} bytes"),
            Self::LongReply => write!(f, "a reply of more than {MAX_TOR_LINES} lines"),
            Self::Malformed => f.write_str("it does not answer as Tor does"),
            Self::NoProtocolInfo(code) => {
                write!(f, "it does not say how to authenticate (code {code})")
            }
            Self::NoMethod => f.write_str("it takes neither a cookie nor a password"),
            Self::PasswordWanted => {
                f.write_str("it takes only a password; give it by -torpassword")
            }
            Self::PasswordNotTaken => f.write_str(
                "it takes no password; leave -torpassword away, or set HashedControlPassword",
            ),
            Self::CookieLength => {
                write!(f, "its cookie file has not {TOR_COOKIE_SIZE} bytes")
            }
            Self::NoChallenge(code) => write!(f, "it gives no challenge (code {code})"),
            Self::WrongCookie => f.write_str("it does not know its own cookie"),
            Self::NotAuthenticated(code) => {
                write!(f, "it refuses the password or the cookie (code {code})")
            }
            Self::NoService(code) => write!(f, "it makes no onion service (code {code})"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl Error for TorError {}
