//! The file of `-asmap`, which says how hosts are grouped (Core `init.cpp`, `DecodeAsmap`).

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use godwit_p2p::{Asmap, AsmapError, MAX_ASMAP_BYTES, NetGroups};

use crate::exit::Exit;
use crate::failure::Fatal;
use crate::process::open_file;

/// The file is not there, or is no map.
#[derive(Debug)]
pub(super) struct AsmapFileError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Missing,
    Unreadable(io::Error),
    Wrong(AsmapError),
}

impl fmt::Display for AsmapFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.why {
            Why::Missing => write!(f, "Could not find asmap file \"{path}\""),
            Why::Unreadable(error) => write!(f, "Could not read asmap file \"{path}\": {error}"),
            Why::Wrong(error) => write!(f, "Could not parse asmap file \"{path}\": {error}"),
        }
    }
}

impl Fatal for AsmapFileError {
    fn exit(&self) -> Exit {
        Exit::Configuration
    }
}

/// How hosts are grouped: by prefix without a file. A relative path is one in `network_dir`.
///
/// # Errors
///
/// The file cannot be read, or is no map. Nothing else would do what the operator counts on.
pub(super) fn groups(file: Option<&Path>, network_dir: &Path) -> Result<NetGroups, AsmapFileError> {
    let Some(file) = file else { return Ok(NetGroups::default()) };
    let path = network_dir.join(file);
    let bytes = match read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let why = if is_missing { Why::Missing } else { Why::Unreadable(error) };
            return Err(AsmapFileError { path, why });
        }
    };
    log::info!("Opened asmap file \"{}\" ({} bytes) from disk", path.display(), bytes.len());
    match Asmap::new(bytes) {
        Ok(map) => {
            log::info!("Using asmap version {} for IP bucketing", map.version());
            Ok(NetGroups::by_system(map))
        }
        Err(error) => Err(AsmapFileError { path, why: Why::Wrong(error) }),
    }
}

/// The content, up to one byte more than a map may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(MAX_ASMAP_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// One instruction: everything belongs to system 5.
    const ALL_OF_5: [u8; 3] = [0, 0x40, 0];

    #[test]
    fn a_map_is_read_from_the_networks_directory_or_by_its_whole_path() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let path = temp.path().join("a.map");
        fs::write(&path, ALL_OF_5).expect("the file");
        let elsewhere = Path::new("/nowhere");
        let version = |file: &Path, dir: &Path| groups(Some(file), dir).expect("a map").version();
        let map = Asmap::new(ALL_OF_5.to_vec()).expect("a map");
        assert_eq!(version(Path::new("a.map"), temp.path()), Some(map.version()));
        assert_eq!(version(&path, elsewhere), Some(map.version()));
        assert_eq!(groups(None, elsewhere).expect("none is wanted").version(), None);
    }

    #[test]
    fn a_file_that_is_missing_or_no_map_is_a_wrong_configuration() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let said = |name: &str| {
            let error = groups(Some(Path::new(name)), temp.path()).expect_err("no map");
            assert_eq!(error.exit(), Exit::Configuration);
            error.to_string().replace(&format!("{}", temp.path().display()), "DIR")
        };
        assert_eq!(said("a.map"), "Could not find asmap file \"DIR/a.map\"");
        fs::create_dir(temp.path().join("dir")).expect("a directory");
        assert!(said("dir").starts_with("Could not read asmap file \"DIR/dir\": "));
        let write = |bytes: &[u8]| fs::write(temp.path().join("a.map"), bytes).expect("the file");
        write(&[]);
        assert_eq!(
            said("a.map"),
            "Could not parse asmap file \"DIR/a.map\": it ends without telling a system"
        );
        write(&ALL_OF_5[..2]);
        assert_eq!(
            said("a.map"),
            "Could not parse asmap file \"DIR/a.map\": it ends within an instruction"
        );
        write(&vec![0; MAX_ASMAP_BYTES + 1]);
        assert_eq!(
            said("a.map"),
            "Could not parse asmap file \"DIR/a.map\": it has more than 8 MiB"
        );
    }
}
