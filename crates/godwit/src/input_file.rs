//! Input files of which several places are read: blocks and snapshots.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::Exit;
use crate::failure::Fatal;

/// A pipe, a FIFO, a device or a socket. Its length is 0 for the system, so that a read at places would find
/// nothing in it.
#[derive(Debug)]
pub(crate) struct NotRegular(PathBuf);

impl fmt::Display for NotRegular {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is a pipe or a device, which cannot be read at several places: write what comes from it to a \
             file first",
            self.0.display()
        )
    }
}

impl Fatal for NotRegular {
    fn exit(&self) -> Exit {
        Exit::InputRefused
    }
}

/// Refuses what is there and neither a file nor a directory. Standard input may be a file.
pub(crate) fn check_regular(path: &Path) -> Result<(), NotRegular> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(NotRegular(path.to_owned())),
        // What is not there, or not to be seen, is told by who opens it.
        _ => Ok(()),
    }
}
