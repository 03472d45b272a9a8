//! The inspection of what is kept of pruned blocks beside the database.

use std::sync::atomic::AtomicBool;

use super::{Found, Inspection, Watch};
use crate::error::{Damage, Remedy, StoreError};
use crate::pruned_blocks::{self, PRUNED_END, PrunedBlock, PrunedEnd};
use crate::store::ONLY;

impl Inspection {
    /// Hands `visit` what is kept of pruned blocks beside the database. Returns the first damage of the
    /// file; `None` where there is none, or nothing was ever kept.
    ///
    /// # Errors
    ///
    /// A failed system call.
    pub fn read_pruned(
        &self,
        visit: &mut dyn FnMut(PrunedBlock),
    ) -> Result<Option<StoreError>, StoreError> {
        let Some(PrunedEnd { end, .. }) = self.pruned_end()? else { return Ok(None) };
        let read = pruned_blocks::read(&self.disk, &self.dir, &AtomicBool::new(false), visit)?;
        // What a crash has left behind the end is cut off at the next start.
        Ok(read.damage.filter(|_| read.damage_at < end))
    }

    /// Whether what is known of pruned blocks is kept beside the database: it is from the first start on of
    /// a version that does so.
    pub fn keeps_pruned(&self) -> Result<bool, StoreError> {
        Ok(self.pruned_end()?.is_some())
    }

    fn pruned_end(&self) -> Result<Option<PrunedEnd>, StoreError> {
        match &self.committed().db {
            Some(db) => db.find(&PRUNED_END, &ONLY),
            None => Ok(None),
        }
    }

    /// Tells of damage of that file; with a repair it is written again from the database.
    ///
    /// # Errors
    ///
    /// A failed system call.
    pub fn check_pruned(&self, error: StoreError, watch: &mut dyn Watch) -> Result<(), StoreError> {
        let mut found = Found::of(error, Remedy::Repair)?;
        if self.repair
            && let Some(db) = &self.committed().db
        {
            pruned_blocks::rewrite(&self.disk, &self.dir, db)?;
            found.remedy = Remedy::Done;
        }
        watch.found(found);
        Ok(())
    }

    /// The damage of that file where all of it is whole and a pruned block is not among them.
    pub fn lacks_pruned(&self) -> StoreError {
        let what = Damage::Disagreement("it lacks blocks that were pruned");
        StoreError::damaged(&pruned_blocks::path(&self.dir), 0, what)
    }
}
