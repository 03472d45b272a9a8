//! Rebuilds in memory the filter and block index of a segment whose file has lost them: both follow from the
//! entries.
//!
//! Nothing is written. A later merge writes sound ones, and so does `verify -repair`.

use std::sync::Arc;

use super::inspect::segments::{Filters, SegmentCheck};
use super::layers::UtxoContext;
use super::run::file::{Blocks, RunFile};
use super::run::format::SegmentMeta;
use super::run::parity::STRIPES;
use super::run::segment::{BlockIndex, SealRange, Segment};
use crate::error::StoreError;

/// Loads what is kept in memory of a segment that the footer of `run` describes.
///
/// # Errors
///
/// A failed read; damage of the entries too.
pub(super) fn load(
    context: &UtxoContext,
    run: &Arc<RunFile>,
    meta: &SegmentMeta,
    seals: SealRange,
) -> Result<Segment, StoreError> {
    match Segment::load(run, meta, seals, context.partition_bits) {
        Err(error @ StoreError::Damaged { .. }) => {
            let segment = from_entries(context, run, meta, seals)?.ok_or_else(|| error.clone())?;
            log::warn!(
                "{error}, in the filter or the block index of partition {}: made again from the coins, in memory. \
                 `godwit verify -repair` writes them again.",
                meta.partition
            );
            Ok(segment)
        }
        loaded => loaded,
    }
}

/// `None`: the entries are not those that the footer describes.
fn from_entries(
    context: &UtxoContext,
    run: &Arc<RunFile>,
    meta: &SegmentMeta,
    seals: SealRange,
) -> Result<Option<Segment>, StoreError> {
    let mut check = SegmentCheck::new(meta.clone(), context, Filters::Compared);
    let (file, mut blocks) = (run.open()?, Blocks::default());
    let end = meta.filter_block();
    for first in (meta.first_block..end).step_by(STRIPES as usize) {
        run.read(&file, first..end.min(first + STRIPES), &mut blocks)?;
        blocks.iter().for_each(|(number, block)| check.take(number, Some(block)));
    }
    Ok(check.into_derived().map(|(index, filter)| Segment {
        run: Arc::clone(run),
        meta: meta.clone(),
        seals,
        filter: filter.map(Arc::new),
        index: Arc::new(BlockIndex::new(index)),
    }))
}
