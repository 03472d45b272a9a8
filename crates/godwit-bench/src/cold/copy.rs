//! Copies of data directories that cost hardly anything: files that are never written again get a second
//! name.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::failure::Failure;

/// Files of these endings are written once: runs and their parity, and LevelDB's tables.
const WRITTEN_ONCE: [&str; 3] = ["run", "parity", "ldb"];

/// Makes `to` a copy of the data directory `from`.
pub(super) fn copy_datadir(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| Failure::File(path, error)
    };
    fs::create_dir(to).map_err(failed(to))?;
    let entries = fs::read_dir(from).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(failed(from))?;
    let names: Vec<_> = entries.iter().map(|entry| entry.file_name()).collect();
    let last = names.iter().filter_map(|name| number(name)).max();
    for (entry, name) in entries.iter().zip(&names) {
        let (source, target) = (entry.path(), to.join(name));
        let once = source.extension().and_then(OsStr::to_str);
        let is_full = number(name).is_some_and(|number| Some(number) < last);
        let copied = if source.is_dir() {
            copy_datadir(&source, &target)?;
            Ok(())
        } else if is_full || once.is_some_and(|ending| WRITTEN_ONCE.contains(&ending)) {
            fs::hard_link(&source, &target)
        } else {
            fs::copy(&source, &target).map(drop)
        };
        copied.map_err(failed(&source))?;
    }
    Ok(())
}

/// That of a block or undo file: both programs append to the last one alone.
fn number(name: &OsStr) -> Option<u32> {
    let name = name.to_str()?.strip_suffix(".dat")?;
    name.strip_prefix("blk").or_else(|| name.strip_prefix("rev"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_may_be_written_again_is_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(from.join("blocks")).unwrap();
        let files = [
            ("blocks/blk00000.dat", true),
            ("blocks/rev00000.dat", true),
            ("blocks/blk00001.dat", false),
            ("blocks/rev00001.dat", false),
            ("blocks/xor.dat", false),
            ("000123.ldb", true),
            ("0000000123.run", true),
            ("0000000123.parity", true),
            ("000124.log", false),
            ("godwit.redb", false),
        ];
        files.iter().for_each(|(name, _)| fs::write(from.join(name), name).unwrap());
        copy_datadir(&from, &to).unwrap();
        for (name, is_shared) in files {
            assert_eq!(fs::read_to_string(to.join(name)).unwrap(), name);
            let inode = |dir: &Path| fs::metadata(dir.join(name)).unwrap().ino();
            assert_eq!(inode(&from) == inode(&to), is_shared, "{name}");
        }
        assert!(copy_datadir(&from, &to).is_err(), "it is there already");
    }
}
