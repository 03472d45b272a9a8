//! Inspects the file that keeps the headers of pruned blocks.

use std::sync::atomic::AtomicBool;

use super::{Found, Inspection, Watch};
use crate::error::{Damage, Remedy, StoreError};
use crate::store::ONLY;
use crate::store::pruned_blocks::{self, PRUNED_END, PrunedBlock, PrunedEnd};

/// Whether what is known of pruned blocks is kept beside the database: it is from the first start on of a
/// version that does so.
///
/// # Errors
///
/// A failed system call.
pub fn keeps_pruned(inspection: &Inspection) -> Result<bool, StoreError> {
    Ok(pruned_end(inspection)?.is_some())
}

/// Hands `visit` what is kept. Returns the first damage of the file.
///
/// # Errors
///
/// A failed system call.
pub fn read_pruned(
    inspection: &Inspection,
    visit: &mut dyn FnMut(PrunedBlock),
) -> Result<Option<StoreError>, StoreError> {
    let Some(PrunedEnd { end, .. }) = pruned_end(inspection)? else { return Ok(None) };
    let Inspection { disk, dir, .. } = inspection;
    let read = pruned_blocks::read(disk, dir, &AtomicBool::new(false), visit)?;
    // What a crash has left behind the end is cut off at the next start.
    Ok(read.damage.filter(|_| read.damage_at < end))
}

/// The damage of the file where all of it is whole and a pruned block is not among them.
pub fn lacks_pruned(inspection: &Inspection) -> StoreError {
    let what = Damage::Disagreement("it lacks blocks that were pruned");
    StoreError::damaged(&pruned_blocks::path(&inspection.dir), 0, what)
}

/// Tells of damage of the file; with a repair it is written again from the database.
///
/// # Errors
///
/// A failed system call.
pub fn tell_pruned(
    inspection: &Inspection,
    damage: StoreError,
    watch: &mut dyn Watch,
) -> Result<(), StoreError> {
    let mut found = Found::of(damage, Remedy::Repair)?;
    if inspection.repair
        && let Some(db) = &inspection.committed().db
    {
        pruned_blocks::rewrite(&inspection.disk, &inspection.dir, db)?;
        found.remedy = Remedy::Done;
    }
    watch.found(found);
    Ok(())
}

fn pruned_end(inspection: &Inspection) -> Result<Option<PrunedEnd>, StoreError> {
    match &inspection.committed().db {
        Some(db) => db.find(&PRUNED_END, &ONLY),
        None => Ok(None),
    }
}
