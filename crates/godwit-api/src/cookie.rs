//! The file with a password for programs that may read it (`.cookie`).
//!
//! It is written beside its place and renamed, so that a reader finds all of it or nothing. A symbolic link
//! at that place is not followed.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use godwit_http::{RpcAuth, with_random_password};
use godwit_secret::Declassified;
use rustix::fs::{Mode, OFlags};

/// The user of the file (Core `COOKIEAUTH_USER`).
const USER: &str = "__cookie__";

/// Who may read the file (`-rpccookieperms`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookiePermissions {
    #[default]
    Owner,
    Group,
    All,
}

impl FromStr for CookiePermissions {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "owner" => Self::Owner,
            "group" => Self::Group,
            "all" => Self::All,
            _ => return Err(()),
        })
    }
}

impl CookiePermissions {
    fn mode(self) -> Mode {
        Mode::from_raw_mode(match self {
            Self::Owner => 0o600,
            Self::Group => 0o640,
            Self::All => 0o644,
        })
    }
}

/// Where the password goes.
#[derive(Clone, Debug)]
pub struct CookieFile {
    pub path: PathBuf,
    pub permissions: CookiePermissions,
    /// The directory whose nodes write this file: one of them at a time.
    pub of: PathBuf,
}

/// Why there is no cookie.
#[derive(Debug)]
pub enum CookieError {
    /// No random bytes.
    Random(io::Error),
    File(PathBuf, io::Error),
    /// Another node with this directory has written one.
    InUse(PathBuf),
}

impl fmt::Display for CookieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random(error) => write!(f, "the system gives no random bytes: {error}"),
            Self::InUse(dir) => {
                write!(f, "another godwit has just been started with {}", dir.display())
            }
            Self::File(path, error) => {
                write!(
                    f,
                    "the file {} with the RPC password cannot be written: {error}",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for CookieError {}

/// The file, which is removed at the end.
pub(crate) struct Cookie {
    path: PathBuf,
    /// Device and number of the file: another one in its place is not ours.
    file: (u64, u64),
    /// Two nodes that start together find the store unused, but only one gets it: the other one must not
    /// replace and then remove this one's file.
    _lock: File,
}

impl Drop for Cookie {
    fn drop(&mut self) {
        let is_ours = |found: std::fs::Metadata| (found.dev(), found.ino()) == self.file;
        let removed = match self.path.symlink_metadata().map(is_ours) {
            Ok(true) => std::fs::remove_file(&self.path),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            log::warn!("Unable to remove {}: {error}", self.path.display());
        }
    }
}

/// Takes the directory for the node that writes its cookie.
fn lock(dir: &Path) -> Result<File, CookieError> {
    let failed = |error| CookieError::File(dir.to_owned(), error);
    let file = File::open(dir).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(CookieError::InUse(dir.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Writes a new password, and returns its hash.
pub(crate) fn write(cookie: &CookieFile) -> Result<(Cookie, RpcAuth), CookieError> {
    let lock = lock(&cookie.of)?;
    let written = with_random_password(|password| {
        let auth = RpcAuth::of_password(USER, password).map_err(CookieError::Random);
        Declassified(auth.and_then(|auth| Ok((write_password(cookie, password)?, auth))))
    });
    let (file, auth) = written.map_err(CookieError::Random)?.0?;
    log::info!("Generated RPC authentication cookie {}", cookie.path.display());
    Ok((Cookie { path: cookie.path.clone(), file, _lock: lock }, auth))
}

/// Writes the file. Returns its device and number.
fn write_password(cookie: &CookieFile, password: &str) -> Result<(u64, u64), CookieError> {
    let CookieFile { path, permissions, .. } = cookie;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    let beside = PathBuf::from(beside);
    let failed = |error: io::Error| CookieError::File(path.to_owned(), error);
    // The rename would replace a device, which nobody wants: `-rpccookiefile=/dev/null`, say.
    if let Ok(there) = std::fs::symlink_metadata(path)
        && !there.is_file()
        && !there.is_symlink()
    {
        return Err(failed(io::Error::other("it exists and is no regular file")));
    }
    // What an earlier run has left, or a link that another user put there.
    match std::fs::remove_file(&beside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&beside, flags, Mode::from_raw_mode(0o600))
        .map_err(|errno| failed(errno.into()))?;
    rustix::fs::fchmod(&file, permissions.mode()).map_err(|errno| failed(errno.into()))?;
    let mut file = std::fs::File::from(file);
    let written = file
        .write_all(USER.as_bytes())
        .and_then(|()| file.write_all(b":"))
        .and_then(|()| file.write_all(password.as_bytes()))
        .and_then(|()| file.metadata())
        .and_then(|written| std::fs::rename(&beside, path).map(|()| written));
    let written = written.map_err(|error| {
        if let Err(left) = std::fs::remove_file(&beside) {
            log::warn!("Unable to remove {}: {left}", beside.display());
        }
        failed(error)
    })?;
    Ok((written.dev(), written.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use godwit_http::Credentials;

    fn cookie_in(dir: &Path, permissions: CookiePermissions) -> CookieFile {
        CookieFile { path: dir.join(".cookie"), permissions, of: dir.to_owned() }
    }

    #[test]
    fn the_file_holds_what_lets_in_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().expect("a directory");
        let wanted = cookie_in(dir.path(), CookiePermissions::Group);
        let (cookie, auth) = write(&wanted).expect("it is written");
        let path = &wanted.path;
        let text = std::fs::read_to_string(path).expect("it is there");
        assert!(text.starts_with("__cookie__:") && text.len() == 11 + 64, "{text}");
        let mode = std::fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let header = format!("Basic {}", data_encoding::BASE64.encode(text.as_bytes()));
        assert!(Credentials(vec![auth]).user(header.as_bytes()).is_some());
        drop(cookie);
        assert!(!path.exists());
    }

    #[test]
    fn links_in_the_way_are_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, victim) = (dir.path().join(".cookie"), dir.path().join("victim"));
        std::fs::write(&victim, "precious").expect("a file");
        for name in [".cookie", ".cookie.tmp"] {
            symlink(&victim, dir.path().join(name)).expect("a link");
        }
        let wanted = cookie_in(dir.path(), CookiePermissions::Owner);
        let (_cookie, _) = write(&wanted).expect("it is written");
        assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "precious");
        assert!(path.symlink_metadata().expect("it is there").is_file());
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let wanted = cookie_in(dir.path(), CookiePermissions::Owner);
        let socket = std::os::unix::net::UnixListener::bind(&wanted.path).expect("a socket");
        let error = write(&wanted).err().expect("it would be gone").to_string();
        assert!(error.contains("no regular file"), "{error}");
        assert!(!wanted.path.symlink_metadata().expect("it is there").is_file());
        assert!(!dir.path().join(".cookie.tmp").exists());
        drop(socket);
    }

    #[test]
    fn of_two_nodes_that_start_together_the_second_leaves_the_first_one_s_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let wanted = cookie_in(dir.path(), CookiePermissions::Owner);
        let (first, _) = write(&wanted).expect("it is written");
        let text = std::fs::read_to_string(&wanted.path).expect("it is there");
        assert!(matches!(write(&wanted), Err(CookieError::InUse(_))));
        assert_eq!(std::fs::read_to_string(&wanted.path).expect("it is there"), text);
        drop(first);
        assert!(write(&wanted).is_ok(), "the first one has ended");
    }

    #[test]
    fn a_file_that_another_node_put_there_stays() {
        let (dir, other) = (tempfile::tempdir(), tempfile::tempdir());
        let (dir, other) = (dir.expect("a directory"), other.expect("a directory"));
        let wanted = cookie_in(dir.path(), CookiePermissions::Owner);
        let (ours, _) = write(&wanted).expect("it is written");
        let (theirs, _) = write(&CookieFile { of: other.path().to_owned(), ..wanted.clone() })
            .expect("it is written");
        drop(ours);
        assert!(wanted.path.exists());
        drop(theirs);
        assert!(!wanted.path.exists());
    }
}
