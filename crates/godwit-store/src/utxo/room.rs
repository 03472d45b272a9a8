//! Checks that the disk has room for a run before the run is begun.
//!
//! A merge or repair writes its input once more, and the old files go only after the commit that names the
//! new run. A disk that fills up on the way ends the node, and the part of the run that was written is lost:
//! the next start would do the same again. So a merge without room is put off, unless there are too many
//! segments to read; a repair is not begun.

use std::sync::Arc;
use std::time::Duration;

use super::layers::UtxoContext;
use super::lost_coins::LostCoins;
use super::manifest::{Manifest, ManifestRun};
use super::run::format::BLOCK;
use super::run::segment::Segment;
use crate::error::StoreError;

/// Bytes that a merge leaves to all else that is written meanwhile, as long as it can be put off: blocks,
/// undo records, flushes, the database.
pub(super) const LEFT_FREE: u64 = 128 << 20;

/// How long the answer that a merge has no room is kept: the connector's thread would ask the system for
/// each block otherwise.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a run takes beside its entries, whatever their number is.
const BESIDE: u64 = 1 << 20;

/// Bytes that have to be free for a run with the entries of so many bytes of others. A sixteenth is
/// enough for its parity, its filters and its indexes.
pub(super) fn needed(entries: u64) -> u64 {
    entries + entries / 16 + BESIDE
}

/// Whether there is room for a run with the entries of so many bytes of others, and `left` bytes beside it.
pub(super) fn require(context: &UtxoContext, entries: u64, left: u64) -> Result<(), StoreError> {
    let (needed, free) = (needed(entries) + left, context.disk.free_bytes(&context.dir));
    match free >= needed {
        true => Ok(()),
        false => Err(StoreError::LacksRoom { dir: context.dir.clone(), needed, free }),
    }
}

/// Bytes that a repair may have to write anew.
pub(super) struct OfRepair {
    /// Of damaged runs what the manifest still names, of others the partitions that are lost.
    entries: u64,
    /// What is left of damaged segments, which is written once more before it is written to its end.
    salvaged: u64,
}

impl OfRepair {
    /// Bytes that have to be free behind the salvage.
    pub(super) fn needed(&self) -> u64 {
        needed(self.entries)
    }

    pub(super) fn require(&self, context: &UtxoContext) -> Result<(), StoreError> {
        require(context, self.entries, self.salvaged)
    }
}

/// What a repair may have to write. `segments` are those of a damaged run that are in use, as far as its
/// footer names them.
pub(super) fn of_repair(
    manifest: &Manifest,
    lost: &LostCoins,
    segments: impl Fn(&ManifestRun) -> Result<Vec<Arc<Segment>>, StoreError>,
) -> Result<OfRepair, StoreError> {
    let (mut entries, mut salvaged) = (0, 0);
    for run in &manifest.runs {
        let bytes = u64::from(run.blocks) * BLOCK as u64;
        if !lost.runs.contains(&run.id) {
            let is_lost = |n: &&u8| run.partitions >> **n & 1 == 1;
            let partitions = u64::from(run.partitions.count_ones()).max(1);
            entries += bytes / partitions * lost.partitions.keys().filter(is_lost).count() as u64;
            continue;
        }
        let in_use = segments(run)?;
        // Its footer is lost, or says less than the manifest.
        if in_use.len() < run.partitions.count_ones() as usize {
            entries += bytes;
            continue;
        }
        for segment in in_use {
            entries += segment.bytes();
            if lost.is_salvaged(run.id, segment.meta.partition) {
                salvaged += segment.bytes();
            }
        }
    }
    Ok(OfRepair { entries, salvaged })
}
