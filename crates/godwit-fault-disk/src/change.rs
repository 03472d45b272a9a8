//! Changes of files and of directories.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::random::SplitMix;

/// Granularity at which an unsynced write may be torn.
const SECTOR: usize = 512;

#[derive(Clone)]
pub(crate) enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Clone)]
pub(crate) enum NameChange {
    Link(PathBuf, usize),
    Unlink(PathBuf),
    /// Both names are in one directory.
    Rename(PathBuf, PathBuf),
}

impl NameChange {
    pub(crate) fn dir(&self) -> Option<&Path> {
        let (NameChange::Link(path, _) | NameChange::Unlink(path) | NameChange::Rename(path, _)) =
            self;
        path.parent()
    }

    /// The names that the change affects.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let (first, second) = match self {
            NameChange::Link(path, _) | NameChange::Unlink(path) => (path, None),
            NameChange::Rename(from, to) => (from, Some(to)),
        };
        std::iter::once(first).chain(second).map(PathBuf::as_path)
    }

    pub(crate) fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Unlink(path) => {
                names.remove(path);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

impl Change {
    /// Bytes that may differ after the change.
    pub(crate) fn range(&self) -> Range<u64> {
        match self {
            Change::Write(offset, data) => *offset..offset + data.len() as u64,
            Change::SetLen(len) => *len..u64::MAX,
        }
    }

    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, data) => {
                let (start, end) = (*offset as usize, *offset as usize + data.len());
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[start..end].copy_from_slice(data);
            }
            Change::SetLen(len) => bytes.resize(*len as usize, 0),
        }
    }

    pub(crate) fn apply_part(&self, bytes: &mut Vec<u8>, random: &mut SplitMix) {
        let Change::Write(offset, data) = self else {
            if random.coin() {
                self.apply(bytes);
            }
            return;
        };
        // The length may reach the disk without the data: a file system without data journalling
        // shows zeros there.
        if random.coin() {
            let end = *offset as usize + data.len();
            bytes.resize(bytes.len().max(end), 0);
        }
        for (index, sector) in data.chunks(SECTOR).enumerate() {
            if random.coin() {
                let at = offset + (index * SECTOR) as u64;
                Change::Write(at, sector.to_vec()).apply(bytes);
            }
        }
    }
}
