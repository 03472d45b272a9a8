//! Reads all runs that the manifest names.

use std::path::{Path, PathBuf};

use godwit_primitives::BlockHash;
use godwit_store::StoreError;
use godwit_store::disk::StoreDisk;

use super::manifest::{self, Manifest};
use super::run::{EXTENSION, Run};
use crate::error::IndexError;
use crate::reading::Reading;

/// Tells what of the index in a directory is damaged: of each file the first place. What the manifest does
/// not name, a crash has left.
pub(crate) fn inspect(
    dir: &Path,
    genesis: BlockHash,
    reading: &mut Reading<'_>,
) -> Result<(), StoreError> {
    let disk = reading.disk.clone();
    let manifest = read_manifest(&disk, dir, genesis);
    let Some(Some(Manifest { secret, runs, .. })) = reading.note(manifest)? else {
        return Ok(());
    };
    for facts in runs {
        let run = Run::open(&disk, dir, secret, facts);
        let checked = run.and_then(|run| run.check(&mut |bytes| reading.add(bytes)));
        reading.note(checked)?;
    }
    Ok(())
}

/// `None` where neither it nor runs are there yet.
fn read_manifest(
    disk: &StoreDisk,
    dir: &Path,
    genesis: BlockHash,
) -> Result<Option<Manifest>, IndexError> {
    let damaged = || Err(IndexError::damaged(&dir.join(manifest::FILE), 0));
    let is_run = |path: &PathBuf| path.extension().is_some_and(|name| name == EXTENSION);
    match Manifest::read(disk, dir)? {
        Some(manifest) if manifest.genesis != genesis => damaged(),
        None if disk.list(dir)?.iter().any(is_run) => damaged(),
        read => Ok(read),
    }
}
