//! A run: entries in order, in pages with a checksum each, written once.
//!
//! Keys are evenly spread, so the page of a key is found by interpolation, in about three reads however long
//! the run is, and without anything of it in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_store::StoreError;
use godwit_store::disk::{OpenMode, StoreDisk, StoreFile};

use super::entry::{ENTRY_SIZE, Entry, KEY_BITS, Key};
use crate::error::IndexError;

/// Of the names of runs.
pub(super) const EXTENSION: &str = "txs";
pub(super) const PAGE: usize = 4096;
const CHECKSUM: usize = 4;
/// Entries of a page; they fill it.
pub(super) const PER_PAGE: u64 = ((PAGE - CHECKSUM) / ENTRY_SIZE) as u64;
/// Pages that are written, or read by a merge, at once.
const PAGES_AT_ONCE: usize = 64;
/// Beyond so many guesses the page is found by halving: no key of a sound run needs as many.
const GUESSES: u32 = 16;

/// What the manifest says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunFacts {
    pub(super) id: u64,
    pub(super) entries: u64,
}

impl RunFacts {
    fn pages(self) -> u64 {
        self.entries.div_ceil(PER_PAGE)
    }

    pub(super) fn bytes(self) -> u64 {
        self.pages() * PAGE as u64
    }

    pub(super) fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:010}.{EXTENSION}", self.id))
    }
}

/// Begins with the index's key: numbers of runs begin at zero in every index, and a run of another one has
/// entries that nobody finds.
fn checksum(secret: &[u8; 16], id: u64, page: u64, payload: &[u8]) -> [u8; CHECKSUM] {
    let run = crc32c::crc32c_append(crc32c::crc32c(secret), &id.to_le_bytes());
    let place = crc32c::crc32c_append(run, &page.to_le_bytes());
    crc32c::crc32c_append(place, payload).to_le_bytes()
}

/// A run that can be read.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) facts: RunFacts,
    /// The key of its index.
    secret: [u8; 16],
    file: StoreFile,
}

impl Run {
    /// Opens one of the index with this key.
    ///
    /// # Errors
    ///
    /// A failed call, or another length than it has to have.
    pub(super) fn open(
        disk: &StoreDisk,
        dir: &Path,
        secret: [u8; 16],
        facts: RunFacts,
    ) -> Result<Self, IndexError> {
        let file = disk.open(&facts.path(dir), OpenMode::Read)?;
        let (len, expected) = (file.file_len()?, facts.pages() * PAGE as u64);
        if len != expected {
            return Err(IndexError::damaged(file.path(), len.min(expected)));
        }
        Ok(Self { facts, secret, file })
    }

    /// Entries of pages that follow one another, checked.
    fn read(&self, first: u64, count: usize) -> Result<Vec<Entry>, IndexError> {
        let mut bytes = vec![0; count * PAGE];
        self.file.read_exact_at(first * PAGE as u64, &mut bytes)?;
        let mut entries = Vec::with_capacity(count * PER_PAGE as usize);
        for (page, bytes) in (first..).zip(bytes.chunks_exact(PAGE)) {
            let (stored, payload) = bytes.split_at(CHECKSUM);
            if stored != checksum(&self.secret, self.facts.id, page, payload) {
                return Err(IndexError::damaged(self.file.path(), page * PAGE as u64));
            }
            let used = (self.facts.entries - page * PER_PAGE).min(PER_PAGE) as usize;
            let (parts, _) = payload.as_chunks::<ENTRY_SIZE>();
            entries.extend(parts[..used].iter().map(Entry::from_bytes));
        }
        Ok(entries)
    }

    /// Reads all of it, and tells `read` after each part how many bytes that were.
    ///
    /// # Errors
    ///
    /// A failed call, a page that is not what was written, or what `read` says.
    pub(super) fn check(
        &self,
        read: &mut dyn FnMut(u64) -> Result<(), StoreError>,
    ) -> Result<(), IndexError> {
        let (mut page, pages) = (0, self.facts.pages());
        while page < pages {
            let count = (pages - page).min(PAGES_AT_ONCE as u64);
            self.read(page, count as usize)?;
            page += count;
            read(count * PAGE as u64)?;
        }
        Ok(())
    }

    /// Adds the entries with this key to `found`.
    pub(super) fn find(&self, key: Key, found: &mut Vec<Entry>) -> Result<(), IndexError> {
        // The first page whose last key is not below `key` is in `low..=high`, where `high` may be one
        // behind the last page; `below` and `above` are keys around what these hold.
        let (mut low, mut high) = (0, self.facts.pages());
        let (mut below, mut above) = (0, 1u64 << KEY_BITS);
        let mut guesses = 0;
        while low < high {
            let pages = high - low;
            let guess = match guesses < GUESSES {
                true => {
                    let share = u128::from(key.0.saturating_sub(below)) * u128::from(pages);
                    let guess = share / u128::from((above - below).max(1));
                    low + (guess as u64).min(pages - 1)
                }
                false => low + pages / 2,
            };
            guesses += 1;
            let entries = self.read(guess, 1)?;
            let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
                return Err(IndexError::damaged(self.file.path(), guess * PAGE as u64));
            };
            if last.key < key {
                (low, below) = (guess + 1, last.key.0);
            } else if first.key >= key {
                // Pages before it may end with the key too.
                (high, above) = (guess, first.key.0.max(below + 1));
            } else {
                (low, high) = (guess, guess);
            }
        }
        for page in low..self.facts.pages() {
            let entries = self.read(page, 1)?;
            let start = entries.partition_point(|entry| entry.key < key);
            let equal = entries[start..].iter().take_while(|entry| entry.key == key);
            found.extend(equal);
            if entries.last().is_some_and(|last| last.key > key) {
                break;
            }
        }
        Ok(())
    }
}

/// Writes a run. It is in use when a manifest names it.
pub(super) struct RunWriter {
    facts: RunFacts,
    secret: [u8; 16],
    file: StoreFile,
    page: Vec<u8>,
    buffer: Vec<u8>,
    pages: u64,
}

impl RunWriter {
    pub(super) fn create(
        disk: &StoreDisk,
        dir: &Path,
        secret: [u8; 16],
        id: u64,
    ) -> Result<Self, StoreError> {
        let facts = RunFacts { id, entries: 0 };
        let file = disk.open(&facts.path(dir), OpenMode::Truncate)?;
        let buffer = Vec::with_capacity(PAGES_AT_ONCE * PAGE);
        Ok(Self { facts, secret, file, page: Vec::with_capacity(PAGE), buffer, pages: 0 })
    }

    /// The next entry in order.
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), StoreError> {
        self.page.extend_from_slice(&entry.to_bytes());
        self.facts.entries += 1;
        match self.page.len() == PER_PAGE as usize * ENTRY_SIZE {
            true => self.end_page(),
            false => Ok(()),
        }
    }

    fn end_page(&mut self) -> Result<(), StoreError> {
        self.page.resize(PAGE - CHECKSUM, 0);
        let checksum = checksum(&self.secret, self.facts.id, self.pages, &self.page);
        self.buffer.extend_from_slice(&checksum);
        self.buffer.extend_from_slice(&self.page);
        self.page.clear();
        self.pages += 1;
        if self.buffer.len() == PAGES_AT_ONCE * PAGE { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), StoreError> {
        let offset = self.pages * PAGE as u64 - self.buffer.len() as u64;
        self.file.write_all_at(offset, &self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Its bytes are durable when this returns; its name is not.
    pub(super) fn finish(mut self) -> Result<RunFacts, StoreError> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        self.write()?;
        self.file.sync()?;
        Ok(self.facts)
    }

    /// Removes what was written.
    pub(super) fn give_up(self, disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
        let path = self.facts.path(dir);
        drop(self);
        disk.remove(&path)
    }
}

/// Reads a run from its beginning to its end.
pub(super) struct RunReader {
    run: Arc<Run>,
    next_page: u64,
    /// In reverse, so that the next one is the last.
    entries: Vec<Entry>,
}

impl RunReader {
    pub(super) fn new(run: Arc<Run>) -> Self {
        Self { run, next_page: 0, entries: Vec::new() }
    }

    /// The next entry, which stays.
    pub(super) fn peek(&mut self) -> Result<Option<Entry>, IndexError> {
        let left = self.run.facts.pages() - self.next_page;
        if self.entries.is_empty() && left > 0 {
            let count = left.min(PAGES_AT_ONCE as u64);
            self.entries = self.run.read(self.next_page, count as usize)?;
            self.entries.reverse();
            self.next_page += count;
        }
        Ok(self.entries.last().copied())
    }

    pub(super) fn advance(&mut self) {
        self.entries.pop();
    }
}

#[cfg(test)]
mod tests;
