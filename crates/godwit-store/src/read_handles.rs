//! A few open files for reading, so that thousands of block files need few descriptors.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::disk::StoreFile;
use crate::error::StoreError;

/// Files kept open for reading, per kind of file.
const MAX_READ_HANDLES: usize = 16;

/// The most recently used read handles by file number.
#[derive(Default)]
pub(crate) struct ReadHandles(Mutex<VecDeque<(u32, StoreFile)>>);

impl ReadHandles {
    /// The handle of file `number`, opened by `open` when it is not kept.
    pub(crate) fn get(
        &self,
        number: u32,
        open: impl FnOnce() -> Result<StoreFile, StoreError>,
    ) -> Result<StoreFile, StoreError> {
        // The queue is consistent between any two operations on it, so a panicked holder leaves
        // nothing half done.
        let mut handles = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let handle = match handles.iter().position(|(kept, _)| *kept == number) {
            Some(index) => handles.remove(index).expect("position is inside the queue").1,
            None => open()?,
        };
        handles.truncate(MAX_READ_HANDLES - 1);
        handles.push_front((number, handle.clone()));
        Ok(handle)
    }

    /// Lets go of a file that was removed, so that its space is free. To be called behind the
    /// removal: until then the file may be opened anew.
    pub(crate) fn forget(&self, number: u32) {
        let mut handles = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        handles.retain(|(kept, _)| *kept != number);
    }
}
