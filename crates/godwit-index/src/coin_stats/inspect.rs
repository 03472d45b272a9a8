//! Reads all records.

use std::path::Path;

use godwit_primitives::BlockHash;
use godwit_store::StoreError;

use super::layout;
use crate::reading::Reading;
use crate::records;

/// Tells what of the index in a directory is damaged.
pub(crate) fn inspect(
    dir: &Path,
    genesis: BlockHash,
    reading: &mut Reading<'_>,
) -> Result<(), StoreError> {
    records::inspect(dir, &layout(genesis), reading, &mut |_, _, _| Ok(()))
}
