//! The bytes of a key file: a header in the clear, the sealed content, a checksum.
//!
//! `docs/formats.md` describes them. The checksum tells damage from a wrong passphrase and needs no
//! secret; that nobody has changed the file is what the seal says.

pub(crate) mod disk;

use std::error::Error;
use std::fmt;

use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305};
use godwit_secret::{
    Declassified, LockError, RandomError, Releasable, SecretArray, SecretBytes, SecretSlice,
    SecretString, between_steps, run_on_secret_stack,
};
use godwit_stream::{DecodeError, SpanReader};
use sha2::{Digest, Sha256};

use crate::entry::Form;
use crate::kdf::{KdfError, KdfParameters, derive_key};

const MAGIC: &[u8; 8] = b"godwkeys";
/// The version that is written.
const VERSION: u32 = 3;
const SALT_SIZE: usize = 16;
const NONCE_SIZE: usize = 24;
const HEADER_SIZE: usize = 8 + 4 + 3 * 4 + SALT_SIZE + NONCE_SIZE + 4;
const TAG_SIZE: usize = 16;
const CHECKSUM_SIZE: usize = 32;
/// What surrounds the content.
const FRAME_SIZE: usize = HEADER_SIZE + TAG_SIZE + CHECKSUM_SIZE;

/// Largest key file, in bytes. While it is open, its content lies in locked memory, of which systems
/// give 8 MiB.
pub const MAX_KEY_FILE: usize = 2 << 20;

/// Why bytes are no key file that can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFileError {
    /// Something else.
    NotAKeyFile,
    /// Of a version that this program does not know.
    Version(u32),
    /// Cut short, or bytes have changed.
    Damaged,
    /// What it asks Argon2 for lies outside of the limits of [`KdfParameters`].
    Parameters,
    /// Not the passphrase that it was sealed with, or somebody has tampered with it.
    WrongPassphrase,
    /// The content is sealed, but not in the form of this version.
    Content,
    /// The content would be larger than [`MAX_KEY_FILE`].
    TooLarge,
    /// There is no key of the passphrase.
    Kdf(KdfError),
    /// There is no salt or nonce.
    Random(RandomError),
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAKeyFile => f.write_str("it is no key file of godwit"),
            Self::Version(version) => {
                write!(f, "it has version {version}, this program knows version {VERSION}")
            }
            Self::Damaged => f.write_str("it is damaged or cut short; restore it from a backup"),
            Self::Parameters => f.write_str("it asks for more memory or work than any godwit does"),
            Self::WrongPassphrase => f.write_str("the passphrase is wrong"),
            Self::Content => f.write_str("its content is not in the form of this version"),
            Self::TooLarge => {
                write!(f, "it would become larger than {} KiB", MAX_KEY_FILE / 1024)
            }
            Self::Kdf(error) => error.fmt(f),
            Self::Random(error) => error.fmt(f),
        }
    }
}

impl Error for KeyFileError {}

impl Releasable for KeyFileError {}

impl From<KdfError> for KeyFileError {
    fn from(error: KdfError) -> Self {
        Self::Kdf(error)
    }
}

impl From<LockError> for KeyFileError {
    fn from(error: LockError) -> Self {
        Self::Kdf(KdfError::Lock(error))
    }
}

impl From<RandomError> for KeyFileError {
    fn from(error: RandomError) -> Self {
        match error {
            RandomError::Memory(error) => error.into(),
            error => Self::Random(error),
        }
    }
}

/// What stands before the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of the content.
    pub(crate) form: Form,
    parameters: KdfParameters,
    salt: [u8; SALT_SIZE],
    /// Random in each version of the file, so it names the version.
    pub(crate) nonce: [u8; NONCE_SIZE],
}

impl Header {
    /// The header of a file that is whole.
    pub(crate) fn read(file: &[u8]) -> Result<Self, KeyFileError> {
        let mut reader = SpanReader::new(file);
        if reader.bytes(MAGIC.len()) != Ok(MAGIC) {
            return Err(KeyFileError::NotAKeyFile);
        }
        let cut = |_: DecodeError| KeyFileError::Damaged;
        let version = reader.u32().map_err(cut)?;
        let form = match version {
            1 => Form::WithoutMark,
            2 => Form::WithMark,
            VERSION => Form::WithUses,
            other => return Err(KeyFileError::Version(other)),
        };
        let numbers = [reader.u32(), reader.u32(), reader.u32()];
        let salt = reader.array().map_err(cut)?;
        let nonce = reader.array().map_err(cut)?;
        let size = reader.u32().map_err(cut)?;
        if file.len().checked_sub(FRAME_SIZE) != usize::try_from(size).ok() {
            return Err(KeyFileError::Damaged);
        }
        let (all, sum) = file.split_at(file.len() - CHECKSUM_SIZE);
        if Sha256::digest(all).as_slice() != sum {
            return Err(KeyFileError::Damaged);
        }
        let [memory_kib, passes, lanes] = numbers;
        let parameters =
            KdfParameters::new(memory_kib.map_err(cut)?, passes.map_err(cut)?, lanes.map_err(cut)?);
        let parameters = parameters.ok_or(KeyFileError::Parameters)?;
        Ok(Self { form, parameters, salt, nonce })
    }

    /// Of a file that is written now.
    fn to_bytes(self, size: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_SIZE);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        for number in self.parameters.numbers() {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.salt);
        bytes.extend(self.nonce);
        bytes.extend(size.to_le_bytes());
        bytes
    }
}

/// What seals and opens the file of one passphrase.
pub(crate) struct FileKey {
    parameters: KdfParameters,
    salt: [u8; SALT_SIZE],
    key: SecretArray<32>,
}

impl FileKey {
    /// For a new passphrase.
    pub(crate) fn new(
        passphrase: &SecretString,
        parameters: KdfParameters,
    ) -> Result<Self, KeyFileError> {
        let salt = random()?;
        Ok(Self { parameters, salt, key: derive_key(passphrase, &salt, parameters)? })
    }

    /// For the passphrase of a file.
    pub(crate) fn of(passphrase: &SecretString, header: &Header) -> Result<Self, KeyFileError> {
        let Header { parameters, salt, .. } = *header;
        Ok(Self { parameters, salt, key: derive_key(passphrase, &salt, parameters)? })
    }

    #[cfg(any(test, feature = "residue"))]
    pub(crate) fn secret(&self) -> &SecretArray<32> {
        &self.key
    }

    /// The work that the passphrase costs.
    pub(crate) fn parameters(&self) -> KdfParameters {
        self.parameters
    }

    #[cfg(any(test, feature = "residue"))]
    pub(crate) fn kdf(&self) -> (KdfParameters, &[u8; SALT_SIZE]) {
        (self.parameters, &self.salt)
    }

    /// Whether a file has the salt of this key, so that its passphrase has not been changed.
    pub(crate) fn fits(&self, header: &Header) -> bool {
        (self.parameters, self.salt) == (header.parameters, header.salt)
    }

    /// A file with this content, under a fresh nonce, and its header.
    pub(crate) fn seal(&self, content: SecretSlice<'_>) -> Result<(Header, Vec<u8>), KeyFileError> {
        if content.len() > MAX_KEY_FILE - FRAME_SIZE {
            return Err(KeyFileError::TooLarge);
        }
        let size = u32::try_from(content.len()).map_err(|_| KeyFileError::TooLarge)?;
        let Self { parameters, salt, .. } = *self;
        let header = Header { form: Form::WithUses, parameters, salt, nonce: random()? };
        let mut file = header.to_bytes(size);
        let mut sealed = SecretBytes::copy_of(content)?;
        let tag = run_on_secret_stack(|| {
            self.key.expose_secret_into(&mut sealed, |key, sealed| {
                sealed.expose_secret_mut(|bytes| {
                    let tag = XChaCha20Poly1305::new(key.into())
                        .encrypt_inout_detached(&header.nonce.into(), &file, bytes.into())
                        .expect("far shorter than the cipher's limit");
                    Declassified(tag)
                })
            })
        })?;
        between_steps("the content is encrypted");
        file.extend(sealed.expose_secret(|sealed| Declassified(sealed.to_vec())).0);
        file.extend(tag.0);
        file.extend(Sha256::digest(&file));
        Ok((header, file))
    }

    /// The content of a file that has this header.
    pub(crate) fn open(&self, header: &Header, file: &[u8]) -> Result<SecretBytes, KeyFileError> {
        let (head, rest) = file.split_at_checked(HEADER_SIZE).ok_or(KeyFileError::Damaged)?;
        let size = rest.len().checked_sub(TAG_SIZE + CHECKSUM_SIZE).ok_or(KeyFileError::Damaged)?;
        let (sealed, rest) = rest.split_at(size);
        let tag: [u8; TAG_SIZE] = rest[..TAG_SIZE].try_into().expect("as long as it is");
        let mut content = SecretBytes::with_capacity(size)?;
        content.extend_from_slice(sealed)?;
        run_on_secret_stack(|| {
            self.key.expose_secret_into(&mut content, |key, content| {
                content.expose_secret_mut(|bytes| {
                    XChaCha20Poly1305::new(key.into())
                        .decrypt_inout_detached(
                            &header.nonce.into(),
                            head,
                            bytes.into(),
                            &tag.into(),
                        )
                        .map_err(|_| KeyFileError::WrongPassphrase)
                })
            })
        })??;
        between_steps("the content is decrypted");
        Ok(content)
    }
}

/// Random bytes that are no secret.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], RandomError> {
    Ok(SecretArray::random()?.expose_secret(|bytes| Declassified(*bytes)).0)
}

#[cfg(test)]
mod tests;
