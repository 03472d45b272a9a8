//! Block and undo files that are missing or too short.

use std::collections::BTreeMap;
use std::path::PathBuf;

use godwit_store::UndoPosition;
use godwit_store::error::{Damage, Remedy};
use godwit_store::inspect::{Found, NamedFile};

/// Such files, by number, with the bytes that are there.
pub(super) type Shortened = BTreeMap<u32, u64>;

pub(super) fn is_short(file: &NamedFile) -> bool {
    file.there() < file.committed
}

pub(super) fn is_cut_off(short: &Shortened, undo: UndoPosition) -> bool {
    let end = undo.offset + u64::from(undo.len) + UNDO_CHECKSUM;
    short.get(&undo.file).is_some_and(|there| end > *there)
}

/// Bytes behind undo data (Core: `UNDO_DATA_DISK_OVERHEAD`).
const UNDO_CHECKSUM: u64 = 32;

pub(super) fn shortened(file: &NamedFile, remedy: Remedy) -> Found {
    let (path, there): (PathBuf, u64) = (file.path.clone(), file.there());
    match file.len {
        None => Found { path, offset: 0, bytes: 0, damage: Damage::MissingFile, remedy },
        Some(_) => {
            let bytes = file.committed - there;
            Found { path, offset: there, bytes, damage: Damage::Short, remedy }
        }
    }
}
