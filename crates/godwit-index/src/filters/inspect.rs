//! Reads all filters, and compares them with their records.

use std::collections::BTreeSet;
use std::path::Path;

use godwit_primitives::BlockHash;
use godwit_primitives::sha256::sha256d;
use godwit_store::StoreError;
use godwit_store::disk::{OpenMode, StoreDisk, StoreFile};

use super::{Record, file_path, layout};
use crate::error::IndexError;
use crate::reading::Reading;
use crate::records;

/// Tells what of the index in a directory is damaged: records that do not hold or do not follow one another,
/// and of each file the first filter that is another one.
pub(crate) fn inspect(
    dir: &Path,
    genesis: BlockHash,
    reading: &mut Reading<'_>,
) -> Result<(), StoreError> {
    let mut filters = Filters { dir, open: None, damaged: BTreeSet::new(), before: None };
    let layout = layout(genesis);
    records::inspect(dir, &layout, reading, &mut |reading, height, bytes| {
        let damaged = || records::damaged(dir, &layout, height);
        let record = filters.follow(height, bytes).ok_or_else(damaged);
        match reading.note(record)? {
            Some(record) => filters.check(&record, reading),
            None => Ok(()),
        }
    })
}

struct Filters<'a> {
    dir: &'a Path,
    /// The file that was read last.
    open: Option<(u32, StoreFile)>,
    /// Files that were found damaged.
    damaged: BTreeSet<u32>,
    /// Height and header of the filter before, of the index's chain.
    before: Option<(u32, [u8; 32])>,
}

impl Filters<'_> {
    /// The record, if it is one, and its header the one that follows.
    fn follow(&mut self, height: Option<u32>, bytes: &[u8]) -> Option<Record> {
        let record = Record::decode(bytes).ok().filter(|record| record.end().is_some())?;
        let Some(height) = height else { return Some(record) };
        let before = match self.before.replace((height, record.header)) {
            _ if height == 0 => Some([0; 32]),
            Some((below, header)) if below + 1 == height => Some(header),
            _ => None,
        };
        let follows = |before: [u8; 32]| sha256d(&[record.hash, before].concat()) == record.header;
        before.is_none_or(follows).then_some(record)
    }

    /// Tells whether the filter is the one of the record, unless its file is damaged anyway.
    fn check(&mut self, record: &Record, reading: &mut Reading<'_>) -> Result<(), StoreError> {
        if self.damaged.contains(&record.file) {
            return Ok(());
        }
        let read = self.read(record, &reading.disk);
        if reading.note(read)?.is_none() {
            self.damaged.insert(record.file);
        }
        reading.add(record.len.into())
    }

    fn read(&mut self, record: &Record, disk: &StoreDisk) -> Result<(), IndexError> {
        let path = file_path(self.dir, record.file);
        let file = match self.open.take() {
            Some((number, file)) if number == record.file => file,
            _ => disk.open(&path, OpenMode::Read)?,
        };
        let mut bytes = vec![0; record.len as usize];
        file.read_exact_at(record.offset.into(), &mut bytes)?;
        self.open = Some((record.file, file));
        match sha256d(&bytes) == record.hash {
            true => Ok(()),
            false => Err(IndexError::damaged(&path, record.offset.into())),
        }
    }
}
