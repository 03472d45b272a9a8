//! The one way out: a secret's text goes to a file descriptor, straight from locked memory.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use bitcoin::NetworkKind;
use godwit_secret::SecretString;
use rustix::io::Errno;

use crate::error::KeyError;
use crate::mnemonic::Mnemonic;
use crate::stored_key::StoredKey;
use crate::wif::to_wif;

/// Why a secret was not written, or not all of it.
#[derive(Debug)]
pub enum ExportError {
    /// Its text could not be made; nothing was written.
    Key(KeyError),
    /// The descriptor took no more.
    Write(io::Error),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Write(error) => write!(f, "the secret cannot be written out: {error}"),
        }
    }
}

impl Error for ExportError {}

impl From<KeyError> for ExportError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl Mnemonic {
    /// Writes the words and the end of the line to `out`. What becomes of them there is no longer
    /// protected.
    pub fn write_secret_to(&self, out: BorrowedFd<'_>) -> Result<(), ExportError> {
        write_line(self.text(), out)
    }
}

impl StoredKey {
    /// Writes the key as `xprv`, `tprv` or WIF and the end of the line to `out`; `network` is the one of
    /// a WIF. What becomes of it there is no longer protected.
    pub fn write_secret_to(
        &self,
        network: NetworkKind,
        out: BorrowedFd<'_>,
    ) -> Result<(), ExportError> {
        let text = match self {
            Self::Extended { key, .. } => key.to_base58()?,
            Self::Single { key, compressed } => to_wif(key, network, *compressed)?,
        };
        write_line(&text, out)
    }
}

fn write_line(text: &SecretString, out: BorrowedFd<'_>) -> Result<(), ExportError> {
    text.expose_secret(|text| write_all(text.as_bytes(), out))?;
    write_all(b"\n", out)
}

/// Without a buffer on the way.
fn write_all(mut bytes: &[u8], out: BorrowedFd<'_>) -> Result<(), ExportError> {
    while !bytes.is_empty() {
        match rustix::io::write(out, bytes) {
            Ok(0) => return Err(ExportError::Write(io::ErrorKind::WriteZero.into())),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(ExportError::Write(error.into())),
        }
    }
    Ok(())
}
