//! Files for what opens a path.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, process};

/// One for each process, in memory where the system has such files.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    let folder = parent.join(format!("godwit-fuzz-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
});

/// The path of a file of this name.
pub(crate) fn path(name: &str) -> PathBuf {
    FOLDER.join(name)
}

/// The path of a file with this content, which nobody else may read.
pub(crate) fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = path(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let written = options.open(&path).and_then(|mut file| file.write_all(content));
    written.expect("room for a temporary file");
    path
}
