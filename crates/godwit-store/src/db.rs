//! The typed database: `redb` behind keys and values that are encoded with [`DataStream`].
//!
//! Each value carries a CRC-32C over its key and itself. `redb` verifies its own page checksums
//! only when told to (at open, here), and meets assertions, also in destructors, where a page is read
//! wrong later. So memory keeps a checksum of each page as it was then, or was written since ([`PageSums`]).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use godwit_stream::{DataStream, Decode, Encode, SpanReader};
use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, WriteTransaction,
};

use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, StoreError};

/// Memory of `redb`'s page cache in bytes. The database is read once, at open, and written in
/// batches; a larger cache would only compete with the UTXO store.
pub const DATABASE_CACHE_BYTES: usize = 16 << 20;

const CHECKSUM_SIZE: usize = 4;

thread_local! {
    static EXPECTS_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would say that the database is damaged, and is turned into that error:
/// for a panic hook, which must not take it for a bug.
pub fn expects_panic() -> bool {
    EXPECTS_PANIC.get()
}

/// A table with keys of type `K` and values of type `V`, in the order of the encoded keys.
pub(crate) struct Table<K, V> {
    name: &'static str,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Encode + Decode, V: Encode + Decode> Table<K, V> {
    pub(crate) const fn new(name: &'static str) -> Self {
        Table { name, types: PhantomData }
    }

    fn definition(&self) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
        TableDefinition::new(self.name)
    }
}

pub(crate) struct Db {
    disk: StoreDisk,
    redb: Database,
    path: PathBuf,
    failure: Arc<OnceLock<StoreError>>,
}

/// Changes that become durable together or not at all.
pub(crate) struct Batch<'a> {
    db: &'a Db,
    transaction: WriteTransaction,
}

impl Db {
    /// Opens the database at `path`, which must exist, and verifies all its checksums.
    pub(crate) fn open(disk: &StoreDisk, path: &Path) -> Result<Self, StoreError> {
        let open = || Self::open_file(disk, disk.open(path, OpenMode::ReadWrite)?, Writes::ToFile);
        match open() {
            // A bit that flipped once on its way from the medium is not worth an index made again.
            Err(error @ StoreError::Damaged { .. }) => {
                log::warn!("{error}: it is read once more.");
                open()
            }
            opened => opened,
        }
    }

    /// The same without a change of the file: what `redb` writes when it is opened stays in memory.
    pub(crate) fn open_unchanged(disk: &StoreDisk, path: &Path) -> Result<Self, StoreError> {
        let file = disk.open(path, OpenMode::Read)?;
        let len = file.file_len()?;
        Self::open_file(disk, file, Writes::ToMemory(Mutex::new(Overlay::new(len))))
    }

    /// The same of a database that another instance has open and does not change meanwhile. All its
    /// checksums are verified; `stop` ends that with [`StoreError::Stopped`].
    pub(crate) fn open_beside(
        disk: &StoreDisk,
        path: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        let file = disk.open(path, OpenMode::Read)?;
        let mut overlay = Overlay::new(file.file_len()?);
        overlay.stop = Some(Arc::clone(stop));
        Self::open_file(disk, file, Writes::ToMemory(Mutex::new(overlay)))
    }

    fn open_file(disk: &StoreDisk, file: StoreFile, writes: Writes) -> Result<Self, StoreError> {
        let path = &file.path().to_owned();
        let damaged = || StoreError::damaged(path, 0, Damage::Database);
        if file.file_len()? == 0 {
            return Err(damaged());
        }
        // Some damage (in the saved state of its allocator, for one) meets an assertion in `redb`
        // instead of an error. Nothing of the half-opened database outlives the call.
        EXPECTS_PANIC.set(true);
        let opened = panic::catch_unwind(AssertUnwindSafe(|| Self::verified(disk, file, writes)));
        EXPECTS_PANIC.set(false);
        match opened {
            // A page that the medium does not give back is damaged: all of them were read.
            Ok(Err(error)) if error.is_unreadable() => {
                log::error!("{error}");
                Err(damaged())
            }
            Ok(opened) => opened,
            Err(_) => Err(damaged()),
        }
    }

    fn verified(disk: &StoreDisk, file: StoreFile, writes: Writes) -> Result<Self, StoreError> {
        let mut db = Self::attach(disk, file, writes)?;
        let intact = db.redb.check_integrity();
        // A database that needed repair went back to an earlier commit, whose files may be gone.
        if !db.answer(intact)? {
            return Err(StoreError::damaged(&db.path, 0, Damage::Database));
        }
        Ok(db)
    }

    /// Creates the database at `path` with what `fill` puts into it. It appears under its name
    /// complete and durable, or not at all.
    pub(crate) fn create(
        disk: &StoreDisk,
        path: &Path,
        fill: impl FnOnce(&Self) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let unfinished = path.with_extension("new");
        let file = disk.open(&unfinished, OpenMode::Truncate)?;
        let db = Self::attach(disk, file, Writes::ToFile)?;
        fill(&db)?;
        drop(db);
        disk.rename(&unfinished, path)?;
        disk.sync_dir(path.parent().expect("a database lies in a directory"))?;
        Self::open(disk, path)
    }

    fn attach(disk: &StoreDisk, file: StoreFile, writes: Writes) -> Result<Self, StoreError> {
        let path = file.path().to_owned();
        let failure = Arc::new(OnceLock::new());
        let sums = Mutex::default();
        let backend = Backend { file, writes, sums, failure: Arc::clone(&failure) };
        let opened = Builder::new()
            .set_cache_size(DATABASE_CACHE_BYTES)
            .create_with_backend(backend)
            .map_err(|error| database_error(&path, &failure, error.into()))?;
        Ok(Db { disk: disk.clone(), redb: opened, path, failure })
    }

    /// What `redb` answered; its error as one of the store.
    fn answer<T>(&self, result: Result<T, impl Into<redb::Error>>) -> Result<T, StoreError> {
        result.map_err(|error| database_error(&self.path, &self.failure, error.into()))
    }

    /// The value of `key`, if there is one.
    pub(crate) fn get<K: Encode + Decode, V: Encode + Decode>(
        &self,
        table: &Table<K, V>,
        key: &K,
    ) -> Result<Option<V>, StoreError> {
        self.disk.check()?;
        let reading = self.answer(self.redb.begin_read())?;
        let table = self.answer(reading.open_table(table.definition()))?;
        let mut bytes = DataStream::new();
        bytes.put(key);
        let value = self.answer(table.get(bytes.as_slice()))?;
        value.map(|value| self.decode(bytes.as_slice(), value.value())).transpose()
    }

    /// The value of `key` in a table that a database need not have.
    pub(crate) fn find<K: Encode + Decode, V: Encode + Decode>(
        &self,
        table: &Table<K, V>,
        key: &K,
    ) -> Result<Option<V>, StoreError> {
        let reading = self.answer(self.redb.begin_read())?;
        match reading.open_table(table.definition()) {
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => self.answer(Err(error)),
            Ok(_) => self.get(table, key),
        }
    }

    /// Calls `visit` with each entry, in the order of the encoded keys.
    pub(crate) fn for_each<K: Encode + Decode, V: Encode + Decode>(
        &self,
        table: &Table<K, V>,
        mut visit: impl FnMut(K, V) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.disk.check()?;
        let reading = self.answer(self.redb.begin_read())?;
        let table = self.answer(reading.open_table(table.definition()))?;
        for entry in self.answer(table.iter())? {
            let (key, value) = self.answer(entry)?;
            let decoded = self.decode(key.value(), value.value())?;
            visit(self.decode_all(key.value())?, decoded)?;
        }
        Ok(())
    }

    /// Starts a batch; waits for a running one.
    pub(crate) fn batch(&self) -> Result<Batch<'_>, StoreError> {
        self.disk.check()?;
        let mut transaction = self.answer(self.redb.begin_write())?;
        self.answer(transaction.set_durability(Durability::Immediate))?;
        // Two-phase commit with the allocator's state inside: opening after a crash repairs
        // nothing, and which commit is valid never hangs on a non-cryptographic checksum over
        // bytes that peers have chosen.
        transaction.set_quick_repair(true);
        Ok(Batch { db: self, transaction })
    }

    fn decode<V: Decode>(&self, key: &[u8], bytes: &[u8]) -> Result<V, StoreError> {
        let damaged = || StoreError::damaged(&self.path, 0, Damage::Checksum);
        let (value, checksum) = bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or_else(damaged)?;
        if u32::from_le_bytes(*checksum) != entry_checksum(key, value) {
            return Err(damaged());
        }
        self.decode_all(value)
    }

    fn decode_all<V: Decode>(&self, bytes: &[u8]) -> Result<V, StoreError> {
        let damaged = |damage| StoreError::damaged(&self.path, 0, damage);
        let mut reader = SpanReader::new(bytes);
        let value = reader.get().map_err(|error| damaged(Damage::Decode(error)))?;
        if !reader.is_empty() {
            return Err(damaged(Damage::TrailingBytes));
        }
        Ok(value)
    }
}

fn entry_checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

impl Batch<'_> {
    /// Makes sure that a table exists.
    pub(crate) fn create<K: Encode + Decode, V: Encode + Decode>(
        &mut self,
        table: &Table<K, V>,
    ) -> Result<(), StoreError> {
        self.db.answer(self.transaction.open_table(table.definition())).map(drop)
    }

    /// Sets the values of keys.
    pub(crate) fn put_all<'e, K: Encode + Decode + 'e, V: Encode + Decode + 'e>(
        &mut self,
        table: &Table<K, V>,
        entries: impl IntoIterator<Item = (K, &'e V)>,
    ) -> Result<(), StoreError> {
        let mut table = self.db.answer(self.transaction.open_table(table.definition()))?;
        let (mut key_bytes, mut bytes) = (DataStream::new(), DataStream::new());
        for (key, value) in entries {
            key_bytes.clear();
            key_bytes.put(&key);
            bytes.clear();
            bytes.put(value);
            bytes.write_u32(entry_checksum(key_bytes.as_slice(), bytes.as_slice()));
            self.db.answer(table.insert(key_bytes.as_slice(), bytes.as_slice()))?;
        }
        Ok(())
    }

    /// Sets the value of a key.
    pub(crate) fn put<K: Encode + Decode, V: Encode + Decode>(
        &mut self,
        table: &Table<K, V>,
        key: K,
        value: &V,
    ) -> Result<(), StoreError> {
        self.put_all(table, [(key, value)])
    }

    /// Removes a key, if it is there.
    pub(crate) fn remove<K: Encode + Decode, V: Encode + Decode>(
        &mut self,
        table: &Table<K, V>,
        key: K,
    ) -> Result<(), StoreError> {
        let mut table = self.db.answer(self.transaction.open_table(table.definition()))?;
        let mut bytes = DataStream::new();
        bytes.put(&key);
        self.db.answer(table.remove(bytes.as_slice())).map(drop)
    }

    /// Makes the changes durable.
    pub(crate) fn commit(self) -> Result<(), StoreError> {
        self.db.answer(self.transaction.commit())
    }
}

/// What a `redb` error means here. `redb` refuses everything after a failed read or write, so the
/// first failure is the one to tell.
fn database_error(path: &Path, failure: &OnceLock<StoreError>, error: redb::Error) -> StoreError {
    if let Some(first) = failure.get() {
        return first.clone();
    }
    log::error!("{}: {error}", path.display());
    let missing = matches!(error, redb::Error::TableDoesNotExist(_));
    let damage = if missing { Damage::MissingEntry } else { Damage::Database };
    StoreError::damaged(path, 0, damage)
}

/// `redb`'s storage on the store's disk.
struct Backend {
    file: StoreFile,
    writes: Writes,
    sums: Mutex<PageSums>,
    failure: Arc<OnceLock<StoreError>>,
}

/// Where writes go.
enum Writes {
    ToFile,
    ToMemory(Mutex<Overlay>),
}

const PAGE: u64 = 4096;

/// What was written over a file that stays as it is.
struct Overlay {
    len: u64,
    /// Of the file, how much was never cut off.
    kept: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    /// Ends all reading.
    stop: Option<Arc<AtomicBool>>,
}

impl Overlay {
    fn new(len: u64) -> Self {
        Self { len, kept: len, pages: BTreeMap::new(), stop: None }
    }

    /// A page as it is now.
    fn page(&self, file: &StoreFile, number: u64) -> Result<Box<[u8; PAGE as usize]>, StoreError> {
        if let Some(page) = self.pages.get(&number) {
            return Ok(page.clone());
        }
        let (mut page, start) = (Box::new([0; PAGE as usize]), number * PAGE);
        let there = self.kept.saturating_sub(start).min(PAGE) as usize;
        if there > 0 {
            file.read_exact_at(start, &mut page[..there])?;
        }
        Ok(page)
    }

    /// The parts of `len` bytes from `offset`, one for each page: its number, the range within the page, the
    /// range within the bytes.
    fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
        let end = offset + len as u64;
        (offset / PAGE..end.div_ceil(PAGE)).map(move |number| {
            let (first, last) = (offset.max(number * PAGE), end.min((number + 1) * PAGE));
            let within = |start: u64| (first - start) as usize..(last - start) as usize;
            (number, within(number * PAGE), within(offset))
        })
    }

    fn read(&self, file: &StoreFile, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(StoreError::Stopped);
        }
        if offset + out.len() as u64 > self.len {
            return Err(StoreError::damaged(file.path(), 0, Damage::Short));
        }
        for (number, within, place) in Self::parts(offset, out.len()) {
            out[place].copy_from_slice(&self.page(file, number)?[within]);
        }
        Ok(())
    }

    fn write(&mut self, file: &StoreFile, offset: u64, data: &[u8]) -> Result<(), StoreError> {
        for (number, within, place) in Self::parts(offset, data.len()) {
            let mut page = self.page(file, number)?;
            page[within].copy_from_slice(&data[place]);
            self.pages.insert(number, page);
        }
        self.len = self.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn set_len(&mut self, len: u64) {
        (self.len, self.kept) = (len, self.kept.min(len));
        self.pages.retain(|number, _| number * PAGE < len);
        if let Some(page) = self.pages.get_mut(&(len / PAGE)) {
            page[(len % PAGE) as usize..].fill(0);
        }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("path", &self.file.path()).finish_non_exhaustive()
    }
}

impl Backend {
    fn keep<T>(&self, result: Result<T, StoreError>) -> io::Result<T> {
        result.map_err(|error| {
            let error = match error {
                // Pages that the file ends before are damage, not a failing disk.
                StoreError::Io(failure) if failure.kind == io::ErrorKind::UnexpectedEof => {
                    StoreError::damaged(self.file.path(), 0, Damage::Short)
                }
                other => other,
            };
            io::Error::other(self.failure.get_or_init(|| error).clone())
        })
    }
}

impl Backend {
    fn read_bytes(&self, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        match &self.writes {
            Writes::ToFile => self.file.read_exact_at(offset, out),
            Writes::ToMemory(overlay) => lock(overlay).read(&self.file, offset, out),
        }
    }

    /// Reads what was there before, or was written since.
    fn read_checked(&self, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        self.read_bytes(offset, out)?;
        if lock(&self.sums).agree(offset, out) {
            return Ok(());
        }
        let path = self.file.path();
        log::warn!("{} at byte {offset}: read wrong, and read again.", path.display());
        self.read_bytes(offset, out)?;
        match lock(&self.sums).agree(offset, out) {
            true => Ok(()),
            false => Err(StoreError::damaged(path, offset, Damage::Checksum)),
        }
    }
}

/// Checksums of the pages of a database as they were first read or last written, as far as they were: 8 bytes
/// for 4 KiB, twice that while the list grows. The first page is not among them: `redb` never reads it whole.
#[derive(Debug, Default)]
struct PageSums(Vec<Option<u32>>);

impl PageSums {
    /// The whole pages of some bytes, with their numbers.
    fn pages(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
        let first = offset.div_ceil(PAGE);
        let skipped = ((first * PAGE - offset) as usize).min(bytes.len());
        (first as usize..)
            .zip(bytes[skipped..].as_chunks::<{ PAGE as usize }>().0)
            .map(|(number, page)| (number, &page[..]))
    }

    fn place(&mut self, number: usize) -> &mut Option<u32> {
        if self.0.len() <= number {
            self.0.resize(number + 1, None);
        }
        &mut self.0[number]
    }

    /// Whether what was read is what is known; what is not known is believed.
    fn agree(&mut self, offset: u64, read: &[u8]) -> bool {
        Self::pages(offset, read).all(|(number, page)| {
            let sum = crc32c::crc32c(page);
            *self.place(number).get_or_insert(sum) == sum
        })
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        // Of pages that are written in part nothing is known.
        let touched =
            (offset / PAGE) as usize..(offset + data.len() as u64).div_ceil(PAGE) as usize;
        touched.for_each(|number| *self.place(number) = None);
        for (number, page) in Self::pages(offset, data) {
            *self.place(number) = Some(crc32c::crc32c(page));
        }
    }

    fn set_len(&mut self, len: u64) {
        self.0.truncate((len / PAGE) as usize);
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.keep(match &self.writes {
            Writes::ToFile => self.file.file_len(),
            Writes::ToMemory(overlay) => Ok(lock(overlay).len),
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.keep(self.read_checked(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        lock(&self.sums).set_len(len);
        self.keep(match &self.writes {
            Writes::ToFile => self.file.set_len(len),
            Writes::ToMemory(overlay) => {
                lock(overlay).set_len(len);
                Ok(())
            }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.keep(match &self.writes {
            Writes::ToFile => self.file.sync(),
            Writes::ToMemory(_) => Ok(()),
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        lock(&self.sums).write(offset, data);
        self.keep(match &self.writes {
            Writes::ToFile => self.file.write_all_at(offset, data),
            Writes::ToMemory(overlay) => lock(overlay).write(&self.file, offset, data),
        })
    }
}

fn lock<T>(pages: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held leaves pages of before.
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
