//! Undo records of blocks for which the index names none: a repair appends them and enters them into the
//! index.

use std::collections::BTreeMap;

use super::Inspection;
use crate::error::StoreError;
use crate::record::{BlockRecord, ChainPoint, FileEnds, UndoPosition};
use crate::store::{
    BLOCK_INDEX, BlockKey, COMMIT_NUMBER, FILE_ENDS, ONLY, OpenedDatabase, open_current,
};
use crate::undo::{UndoRecord, end_of};

/// An undo record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedUndo {
    /// Whose it is.
    pub block: ChainPoint,
    pub at: UndoPosition,
}

impl Inspection {
    /// Appends the undo record of a block in the block file of this number. It is durable, and nothing names
    /// it before [`Self::commit_undo`].
    ///
    /// # Errors
    ///
    /// A failed system call.
    pub fn append_undo(&self, file: u32, record: &UndoRecord) -> Result<UndoPosition, StoreError> {
        self.undo.append(file, record)
    }

    /// Has the index name undo records that were appended, in one transaction.
    ///
    /// # Errors
    ///
    /// A failed system call, after which it may name them or not.
    pub fn commit_undo(&self, added: &[AddedUndo]) -> Result<(), StoreError> {
        if added.is_empty() {
            return Ok(());
        }
        self.commit(|controls| {
            let OpenedDatabase { db, mut control, .. } =
                open_current(&self.disk, &self.dir, controls, self.network)?;
            let (mut blocks, mut ends) = (Vec::new(), BTreeMap::new());
            for AddedUndo { block, at } in added {
                let key = BlockKey { height: block.height, hash: block.hash };
                let record = db.get(&BLOCK_INDEX, &key)?;
                blocks
                    .extend(record.map(|record| (key, BlockRecord { undo: Some(*at), ..record })));
                // They were appended in this order.
                let of_file = db.get(&FILE_ENDS, &at.file)?.unwrap_or_default();
                ends.insert(at.file, FileEnds { undo: end_of(*at), ..of_file });
            }
            control.commit += 1;
            let mut batch = db.batch()?;
            batch.put(&COMMIT_NUMBER, ONLY, &control.commit)?;
            batch.put_all(&FILE_ENDS, ends.iter().map(|(file, ends)| (*file, ends)))?;
            batch.put_all(&BLOCK_INDEX, blocks.iter().map(|(key, record)| (*key, record)))?;
            batch.commit()?;
            control.write(&self.disk, &self.dir)?;
            Ok(control)
        })
    }
}
