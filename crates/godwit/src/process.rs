//! What the operating system provides: clock, random bytes, memory use.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::rand::{GetRandomFlags, getrandom};

pub(crate) use godwit_program::{StopFlag, seconds_since_1970};

/// The system gave no random bytes.
#[derive(Debug)]
pub(crate) struct EntropyError(io::Error);

impl fmt::Display for EntropyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system gives no random bytes: {}", self.0)
    }
}

/// So many bytes from the operating system, at most 256.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], EntropyError> {
    let mut bytes = [0; N];
    // Up to 256 bytes, the kernel never returns fewer than asked for once it is seeded.
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|errno| EntropyError(errno.into()))?;
    Ok(bytes)
}

/// Opens a file to read it; nothing that would have to be waited for, as a named pipe.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")),
    }
}

/// Peak resident memory of the process, in bytes; `None` where the system does not tell.
pub(crate) fn peak_memory() -> Option<u64> {
    memory("VmHWM:")
}

/// Resident memory of the process, in bytes; `None` where the system does not tell.
pub(crate) fn resident_memory() -> Option<u64> {
    memory("VmRSS:")
}

/// Bytes by the name that Linux gives them.
fn memory(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_of_a_process_is_told() {
        for told in [peak_memory(), resident_memory()] {
            assert!(told.is_some_and(|bytes| bytes > 100_000), "{told:?}");
        }
    }

    #[test]
    fn a_file_is_opened_and_nothing_that_waits_is() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let (file, pipe) = (temp.path().join("file"), temp.path().join("pipe"));
        std::fs::write(&file, "text").expect("a file");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let mut text = String::new();
        open_file(&file).expect("it is there").read_to_string(&mut text).expect("text");
        assert_eq!(text, "text");
        for other in [&pipe, temp.path()] {
            let error = open_file(other).expect_err("it is no file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", other.display());
        }
        let missing = open_file(&temp.path().join("missing")).expect_err("there is none");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
