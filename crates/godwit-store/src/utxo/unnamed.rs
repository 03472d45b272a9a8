//! Removes files of runs that no manifest names, and runs whose coins were given up.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layers::UtxoContext;
use super::manifest::Manifest;
use super::run::file::RunFile;
use super::run::format::{BLOCK, RunId};
use crate::disk::{OpenMode, StoreDisk};
use crate::error::StoreError;

/// Files of runs that a manifest does not name.
pub(super) struct Unnamed {
    /// Those that are of no use if all runs that the manifest names are there.
    obsolete: Vec<PathBuf>,
    /// The lowest run id above all that were seen.
    pub(super) next_run: u64,
}

pub(super) fn unnamed_files(
    context: &UtxoContext,
    manifest: &Manifest,
) -> Result<Unnamed, StoreError> {
    let (mut obsolete, mut kept, mut next_run) = (Vec::new(), 0, 0);
    for path in context.disk.list(&context.dir)? {
        let Some(run) = RunId::of_path(&path) else { continue };
        if !run.is_scratch() {
            next_run = next_run.max(run.0 + 1);
        }
        let is_named = manifest.runs.iter().any(|named| named.id == run);
        if run.is_scratch() || !manifest.is_empty() && !is_named {
            obsolete.push(path);
        } else if manifest.is_empty() {
            kept += 1;
        }
    }
    if kept > 0 {
        let dir = context.dir.display();
        log::warn!("{dir} has {kept} files that no commit names; they are kept for now.");
    }
    Ok(Unnamed { obsolete, next_run })
}

impl Unnamed {
    /// Removes scratch files, and runs that were not written to their end: no commit can have named them. A
    /// repair that is killed leaves some, which would take the room of the next one, and no start that finds
    /// coins damaged removes anything.
    pub(super) fn remove_unfinished(&self, context: &UtxoContext) -> Result<(), StoreError> {
        for path in &self.obsolete {
            let run = RunId::of_path(path).expect("no other is noted");
            if !is_finished(context, run)? {
                log::info!("Removing {}, which was not written to its end.", path.display());
                context.disk.remove(path)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove(self, context: &UtxoContext) -> Result<(), StoreError> {
        for path in self.obsolete {
            log::info!("Removing {}, which no commit names.", path.display());
            context.disk.remove(&path)?;
        }
        Ok(())
    }
}

/// Whether a run has its footer, which is written last.
fn is_finished(context: &UtxoContext, id: RunId) -> Result<bool, StoreError> {
    let (disk, path, repairs) = (context.disk.clone(), id.path(&context.dir), Arc::default());
    if id.is_scratch() || disk.is_missing(&path)? {
        return Ok(false);
    }
    let bytes = disk.open(&path, OpenMode::Read)?.file_len()?;
    let blocks = u32::try_from(bytes / BLOCK as u64).unwrap_or(u32::MAX);
    match (RunFile { id, disk, path, blocks, repairs }).read_footer() {
        Err(error) if error.is_rotten() => Ok(false),
        footer => footer.map(|_| true),
    }
}

/// Removes all runs of a directory, whose coins were given up.
pub(crate) fn remove_runs(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    let paths = runs_in(disk, dir)?;
    if !paths.is_empty() {
        log::info!("{}: removing {} files of coins.", dir.display(), paths.len());
    }
    paths.iter().try_for_each(|path| disk.remove(path))
}

/// Fails where [`remove_runs`] would, before their coins are given up.
pub(crate) fn check_removable(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    let paths = runs_in(disk, dir)?;
    if !paths.is_empty() {
        disk.check_writable(dir)?;
    }
    paths.iter().try_for_each(|path| match disk.open(path, OpenMode::Read) {
        Err(StoreError::Io(failure)) if failure.kind == ErrorKind::IsADirectory => {
            Err(StoreError::Io(failure))
        }
        // Whatever else has the name can be removed.
        Ok(_) | Err(_) => Ok(()),
    })
}

fn runs_in(disk: &StoreDisk, dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let is_run = |path: &PathBuf| RunId::of_path(path).is_some();
    Ok(disk.list_if_there(dir)?.into_iter().filter(is_run).collect())
}
