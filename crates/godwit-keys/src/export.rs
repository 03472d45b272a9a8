//! The one way out: a secret's text goes to a file descriptor, straight from locked memory.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use bitcoin::NetworkKind;
use godwit_secret::{Releasable, SecretSlice, between_steps};
use rustix::io::Errno;

use crate::accounts::{account_descriptors, account_descriptors_of, single_descriptors};
use crate::descriptors::join::join;
use crate::descriptors::key_expression::{Origin, Wildcard, public_text};
use crate::entry::Entry;
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

impl Releasable for ExportError {}

impl From<KeyError> for ExportError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl Mnemonic {
    /// Writes the words and the end of the line to `out`. What becomes of them there is no longer
    /// protected.
    pub fn write_secret_to(&self, out: BorrowedFd<'_>) -> Result<(), ExportError> {
        write_line(SecretSlice::from(self.text()), out)
    }
}

impl StoredKey {
    /// Writes the key as `xprv` or `tprv`, behind its origin if it has one, or as WIF, and the end of the
    /// line to `out`; `network` is the one of a WIF. What becomes of it there is no longer protected.
    pub fn write_secret_to(
        &self,
        network: NetworkKind,
        out: BorrowedFd<'_>,
    ) -> Result<(), ExportError> {
        let text = match self {
            Self::Extended { key, origin } => {
                let text = key.to_base58()?;
                if let Some(origin) = origin {
                    let origin = Origin::from_source(origin);
                    let origin = public_text(Some(&origin), "", &[], Wildcard::None, 'h');
                    write_all(origin.as_bytes(), out)?;
                }
                text
            }
            Self::Single { key, compressed } => to_wif(key, network, *compressed)?,
        };
        write_line(SecretSlice::from(&text), out)
    }
}

/// See [`KeyStore::write_secrets_to`](crate::KeyStore::write_secrets_to).
pub(crate) fn write_entry(entry: &Entry, out: BorrowedFd<'_>) -> Result<(), ExportError> {
    if let Some(words) = &entry.words {
        words.mnemonic.write_secret_to(out)?;
        if !words.with_passphrase && entry.keys.len() == 1 {
            return Ok(());
        }
    }
    let mut written = Vec::new();
    if !has_usual_descriptors(entry)? {
        for public in entry.texts() {
            if let Some((private, keys)) = join(public, &entry.keys, entry.network)? {
                write_line(SecretSlice::from(&private), out)?;
                for key in keys {
                    written.push(key.identity()?);
                }
            }
        }
    }
    for key in &entry.keys {
        if !written.contains(&key.identity()?) {
            key.write_secret_to(entry.network, out)?;
        }
    }
    Ok(())
}

/// Whether the descriptors are those that an import of the key alone makes.
fn has_usual_descriptors(entry: &Entry) -> Result<bool, KeyError> {
    let usual = match &entry.keys[..] {
        [StoredKey::Extended { key, origin: None }] => account_descriptors(key)?,
        [StoredKey::Extended { key, origin: Some(origin) }] => account_descriptors_of(key, origin)?,
        [StoredKey::Single { key, compressed }] => single_descriptors(key, *compressed)?,
        _ => return Ok(false),
    };
    Ok(entry.texts().eq(usual.iter().map(String::as_str)))
}

fn write_line(text: SecretSlice<'_>, out: BorrowedFd<'_>) -> Result<(), ExportError> {
    text.expose_secret(|text| write_all(text, out))?;
    between_steps("a secret is written out");
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
