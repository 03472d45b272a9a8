//! The file with the private key of the onion service, under the same name and in the same format as Bitcoin
//! Core's.
//!
//! It is written beside its place and renamed, and is read into locked memory.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use godwit_p2p::{BadOnionKey, MAX_ONION_KEY, OnionKey};
use godwit_secret::{LockError, ReadError, SecretBytes};
use rustix::fs::{Mode, OFlags};

use crate::process::open_file;

/// Its name in the network's data directory (Core `GetPrivateKeyFile`).
pub(super) const KEY_FILE: &str = "onion_v3_private_key";

/// See the module's documentation.
pub(super) struct KeyFile {
    path: PathBuf,
}

/// Why the file cannot be used.
#[derive(Debug)]
pub(super) enum KeyFileError {
    Io(PathBuf, io::Error),
    /// Its content is not a key, and is left as it is.
    Content(PathBuf, BadOnionKey),
    Memory(LockError),
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Content(path, error) => {
                write!(
                    f,
                    "{}: {error}; remove it for a service with another address",
                    path.display()
                )
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl KeyFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self { path: dir.join(KEY_FILE) }
    }

    fn failed(&self, error: impl Into<io::Error>) -> KeyFileError {
        KeyFileError::Io(self.path.clone(), error.into())
    }

    /// The key of earlier runs, if there were any.
    pub(super) fn read(&self) -> Result<Option<OnionKey>, KeyFileError> {
        let mut file = match open_file(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        let mut text = SecretBytes::new();
        // With an end of a line, and one byte too many.
        while text.len() <= MAX_ONION_KEY + 2 {
            match text.read_from(&mut file, MAX_ONION_KEY + 3 - text.len()) {
                Ok(0) => break,
                Ok(_) => {}
                Err(ReadError::Source(error)) => return Err(self.failed(error)),
                Err(ReadError::Memory(error)) => return Err(KeyFileError::Memory(error)),
            }
        }
        let key = OnionKey::parse(text);
        key.map(Some).map_err(|error| KeyFileError::Content(self.path.clone(), error))
    }

    /// Keeps a key: after a crash the file has all of it or is not there.
    pub(super) fn keep(&self, key: &OnionKey) -> Result<(), KeyFileError> {
        let beside = self.path.with_extension("tmp");
        // What an earlier run has left, or a link that another user put there.
        match fs::remove_file(&beside) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.failed(error)),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&beside, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| self.failed(errno))?;
        let file = File::from(file);
        let written = key
            .secret()
            .expose_secret(|key| (&file).write_all(key).map_err(|error| error.kind()))
            .map_err(io::Error::from)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&beside, &self.path))
            .and_then(|()| File::open(self.path.parent().unwrap_or(Path::new("."))))
            .and_then(|dir| dir.sync_all());
        written.map_err(|error| self.failed(error))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const KEY: &str = "ED25519-V3:yLSDc8b11PaIHTtNtvi9lNW99IME2mdrO4k381zDkHv+a\
    WRUGrkBALBQ9MbHy2SLA/NmfS7YxmcR/FY8ppRfIA==";

    fn key() -> OnionKey {
        let text = SecretBytes::from_plain_and_wipe(&mut KEY.as_bytes().to_vec()).expect("memory");
        OnionKey::parse(text).expect("a key")
    }

    #[test]
    fn a_key_is_kept_for_its_owner_alone_and_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = KeyFile::new(dir.path());
        assert!(file.read().expect("nothing is wrong").is_none());
        file.keep(&key()).expect("there is room");
        let path = dir.path().join(KEY_FILE);
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).expect("text"), KEY, "as Bitcoin Core writes it");
        let read = file.read().expect("nothing is wrong").expect("a key");
        assert_eq!(read.secret(), key().secret());
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1);
        // An editor ends the line.
        fs::write(&path, format!("{KEY}\n")).expect("there is room");
        assert_eq!(file.read().expect("a key").expect("a key").secret(), key().secret());
    }

    #[test]
    fn what_is_no_key_stays_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = KeyFile::new(dir.path());
        let path = dir.path().join(KEY_FILE);
        let long = format!("ED25519-V3:{}", "a".repeat(1_000));
        for content in ["", "RSA1024:abc", "ED25519-V3:abc\r\nSIGNAL HALT\r\n", &long] {
            fs::write(&path, content).expect("there is room");
            let error = file.read().expect_err(content);
            assert!(matches!(error, KeyFileError::Content(..)), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("text"), content);
        }
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").expect("there is room");
        symlink(&victim, dir.path().join("onion_v3_private_key.tmp")).expect("a link");
        file.keep(&key()).expect("there is room");
        assert_eq!(fs::read_to_string(&victim).expect("text"), "precious");
        assert!(file.read().expect("a key").is_some());
    }
}
