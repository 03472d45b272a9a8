//! The directories that are damaged, and how one is as it was again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::node::Node;

/// What kind of file it is: its name without numbers.
pub(super) fn kind(file: &Path) -> String {
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// All files of a directory and those below it, by their paths in it.
pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => left.push(path),
                false => found.push(path.strip_prefix(dir).expect("in it").to_owned()),
            }
        }
    }
    found.sort();
    found
}

/// The network's directory of a node is that of another one from here on. Copies what is not the same by
/// length and time, so that a large one is there again at once.
pub(super) fn restore(node: &Node, from: &Path) {
    let to = node.network_dir();
    fs::create_dir_all(&to).expect("a directory");
    let wanted = files(from);
    for file in files(&to).iter().filter(|file| !wanted.contains(file)) {
        fs::remove_file(to.join(file)).expect("it is there");
    }
    let said = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.len(), metadata.modified().expect("files have a time")))
    };
    for file in wanted {
        let (source, target) = (from.join(&file), to.join(&file));
        if said(&source) == said(&target) {
            continue;
        }
        fs::create_dir_all(target.parent().expect("in a directory")).expect("a directory");
        fs::copy(&source, &target).expect("there is room");
        let (_, time) = said(&source).expect("it is there");
        let copy = File::options().write(true).open(&target).expect("a file");
        copy.set_modified(time).expect("it is ours");
    }
}
