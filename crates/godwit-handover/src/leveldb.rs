//! The interface to Bitcoin Core's own LevelDB; nothing else calls it.
//!
//! Core's databases have to be written by the LevelDB that reads them, with the options that Core gives
//! (`dbwrapper.cpp`). That library is inside the archive of `libbitcoinkernel-sys`, which links it statically
//! and exports it; a second copy from elsewhere would define the same symbols. `cpp/leveldb.cpp` wraps its
//! classes in C functions, which only this module calls.
//!
//! Why this is sound: a [`Database`] owns its handle, which nothing else has, and closes it when dropped. A
//! [`Cursor`] borrows its database, so that it is closed first. Slices passed in are copied; slices passed
//! out borrow the cursor, which cannot move while they live. LevelDB may be read from any number of threads
//! at once (`leveldb/db.h`); writing takes the database exclusively.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

// Links the archive that LevelDB is in.
use libbitcoinkernel_sys as _;

/// Bytes of records that are not in a table yet. Up to two such buffers are held, and each becomes one table.
const WRITE_BUFFER: usize = 32 << 20;
/// Bytes of cached table blocks: scans put none into the cache, and lookups are few.
const BLOCK_CACHE: usize = 4 << 20;
/// Tables that are open at once. Core's default is 1,000, for which some systems allow a process too few
/// descriptors.
const OPEN_FILES: c_int = 256;

/// Why an operation on a database failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelDbError {
    /// There is no database.
    Missing,
    /// Stored data is damaged.
    Corruption,
    /// A system call failed, with this error if LevelDB reports one.
    Io(Option<i32>),
    /// Another process has it open.
    Locked,
    DiskFull,
    /// A failure for which LevelDB has no kind of its own.
    Other,
}

impl fmt::Display for LevelDbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Missing => "there is no database",
            Self::Corruption => "the database is damaged",
            Self::Io(_) => "a file of the database cannot be read or written",
            Self::Locked => "another process has the database open",
            Self::DiskFull => "no space is left for the database",
            Self::Other => "LevelDB refuses the database",
        };
        match self {
            Self::Io(Some(code)) => write!(f, "{text}: {}", io::Error::from_raw_os_error(*code)),
            _ => f.write_str(text),
        }
    }
}

/// The offset that `cpp/leveldb.cpp` adds to the error number of a system call.
const SYSTEM_ERROR: c_int = 1000;

/// Converts a status of `cpp/leveldb.cpp`.
fn checked(status: c_int) -> Result<(), LevelDbError> {
    Err(match status {
        0 => return Ok(()),
        1 => LevelDbError::Missing,
        2 => LevelDbError::Corruption,
        3 => LevelDbError::Io(None),
        4 => LevelDbError::Locked,
        5 => LevelDbError::DiskFull,
        code if code > SYSTEM_ERROR => LevelDbError::Io(Some(code - SYSTEM_ERROR)),
        _ => LevelDbError::Other,
    })
}

#[repr(C)]
struct RawDatabase {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawCursor {
    _opaque: [u8; 0],
}

// SAFETY: the signatures are those of cpp/leveldb.cpp.
unsafe extern "C" {
    fn godwit_handover_open(
        path: *const c_char,
        create: c_int,
        write_buffer: usize,
        cache: usize,
        open_files: c_int,
        out: *mut *mut RawDatabase,
    ) -> c_int;
    fn godwit_handover_close(db: *mut RawDatabase);
    fn godwit_handover_put(
        db: *mut RawDatabase,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
    );
    fn godwit_handover_batch_size(db: *const RawDatabase) -> usize;
    fn godwit_handover_write(db: *mut RawDatabase, sync: c_int) -> c_int;
    fn godwit_handover_seek(
        db: *const RawDatabase,
        key: *const u8,
        key_len: usize,
    ) -> *mut RawCursor;
    fn godwit_handover_entry(
        cursor: *const RawCursor,
        key: *mut *const u8,
        key_len: *mut usize,
        value: *mut *const u8,
        value_len: *mut usize,
    ) -> c_int;
    fn godwit_handover_next(cursor: *mut RawCursor);
    fn godwit_handover_status(cursor: *const RawCursor) -> c_int;
    fn godwit_handover_cursor_close(cursor: *mut RawCursor);
}

/// An open database, and a batch of records to be written together.
pub(crate) struct Database(NonNull<RawDatabase>);

// SAFETY: no thread owns a database.
unsafe impl Send for Database {}
// SAFETY: methods with `&self` only read, which LevelDB allows on any thread without locks of the caller;
// only methods with `&mut self` change the batch.
unsafe impl Sync for Database {}

impl Database {
    /// Makes a database in a directory that is created if necessary and holds none yet.
    pub(crate) fn create(dir: &Path) -> Result<Self, LevelDbError> {
        Self::open_as(dir, true)
    }

    /// Opens a database as Core does at a start, which may move records from its log into a table.
    pub(crate) fn open(dir: &Path) -> Result<Self, LevelDbError> {
        // LevelDB would create the directory and its lock before finding that there is no database.
        match dir.join("CURRENT").exists() {
            true => Self::open_as(dir, false),
            false => Err(LevelDbError::Missing),
        }
    }

    fn open_as(dir: &Path, create: bool) -> Result<Self, LevelDbError> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|_| LevelDbError::Missing)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `path` ends with a zero byte and outlives the call; `handle` is written when the status
        // is 0, and then owned by the new `Database` alone.
        checked(unsafe {
            godwit_handover_open(
                path.as_ptr(),
                create.into(),
                WRITE_BUFFER,
                BLOCK_CACHE,
                OPEN_FILES,
                &mut handle,
            )
        })?;
        Ok(Self(NonNull::new(handle).expect("a status of 0 comes with a database")))
    }

    /// Adds a record to the batch.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: an open database; both slices are copied into the batch.
        unsafe {
            godwit_handover_put(
                self.0.as_ptr(),
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
            );
        }
    }

    /// Number of bytes in the batch.
    pub(crate) fn batch_size(&self) -> usize {
        // SAFETY: an open database.
        unsafe { godwit_handover_batch_size(self.0.as_ptr()) }
    }

    /// Writes the batch and empties it.
    pub(crate) fn write(&mut self, sync: bool) -> Result<(), LevelDbError> {
        // SAFETY: an open database, which nothing else uses meanwhile.
        checked(unsafe { godwit_handover_write(self.0.as_ptr(), sync.into()) })
    }

    /// A cursor at the first record whose key is not below `key`, in the order of keys.
    pub(crate) fn seek(&self, key: &[u8]) -> Cursor<'_> {
        // SAFETY: an open database; the key is read during the call. The cursor is owned by the new `Cursor`.
        let raw = unsafe { godwit_handover_seek(self.0.as_ptr(), key.as_ptr(), key.len()) };
        Cursor {
            raw: NonNull::new(raw).expect("a cursor is made or the process ends"),
            db: PhantomData,
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, LevelDbError> {
        let cursor = self.seek(key);
        let found = cursor.entry()?.filter(|(found, _)| *found == key);
        Ok(found.map(|(_, value)| value.to_vec()))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: opened by `open_as`, and used by nobody after this: cursors have borrowed it.
        unsafe { godwit_handover_close(self.0.as_ptr()) }
    }
}

/// Key and value, in the memory of LevelDB until the cursor moves.
pub(crate) type Record<'cursor> = (&'cursor [u8], &'cursor [u8]);

/// A position in a snapshot of the database, taken when the cursor was made. Stays on one thread.
pub(crate) struct Cursor<'db> {
    raw: NonNull<RawCursor>,
    db: PhantomData<&'db Database>,
}

impl Cursor<'_> {
    /// The key and value at this position; `None` behind the last record.
    pub(crate) fn entry(&self) -> Result<Option<Record<'_>>, LevelDbError> {
        let (mut key, mut key_len, mut value, mut value_len) =
            (std::ptr::null(), 0, std::ptr::null(), 0);
        // SAFETY: a cursor of an open database; the four places are written if there is an entry.
        let found = unsafe {
            godwit_handover_entry(
                self.raw.as_ptr(),
                &mut key,
                &mut key_len,
                &mut value,
                &mut value_len,
            )
        };
        if found == 0 {
            self.check()?;
            return Ok(None);
        }
        // SAFETY: LevelDB's slices, which stay until the cursor moves; it cannot while they are borrowed.
        Ok(Some(unsafe { (slice_of(key, key_len), slice_of(value, value_len)) }))
    }

    /// Fails if a damaged block was passed over on the way here: LevelDB skips it and continues.
    pub(crate) fn check(&self) -> Result<(), LevelDbError> {
        // SAFETY: a cursor of an open database.
        checked(unsafe { godwit_handover_status(self.raw.as_ptr()) })
    }

    /// Moves to the next record, if there is one here.
    pub(crate) fn step(&mut self) {
        if matches!(self.entry(), Ok(Some(_))) {
            // SAFETY: a cursor of an open database, at an entry.
            unsafe { godwit_handover_next(self.raw.as_ptr()) }
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `seek`, and used by nobody after this; its database is still open.
        unsafe { godwit_handover_cursor_close(self.raw.as_ptr()) }
    }
}

/// # Safety
///
/// `len` bytes have to be at `bytes`, unless `len` is 0, and stay valid as long as the slice lives.
unsafe fn slice_of<'a>(bytes: *const u8, len: usize) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: as above.
        len => unsafe { std::slice::from_raw_parts(bytes, len) },
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    fn number(n: u32) -> [u8; 4] {
        n.to_be_bytes()
    }

    /// Takes more than two write buffers, so that tables are made and read.
    #[test]
    fn what_was_written_is_read_in_order_by_several_threads() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("db");
        let value = |n: u32| vec![n as u8; n as usize % 200];
        const COUNT: u32 = 700_000;
        let mut db = Database::create(&dir).unwrap();
        for n in 0..COUNT {
            db.put(&number(n), &value(n));
            if db.batch_size() > 1 << 20 {
                db.write(false).unwrap();
            }
        }
        db.write(true).unwrap();
        assert_eq!(
            db.batch_size(),
            Database::create(&temp.path().join("empty")).unwrap().batch_size()
        );
        drop(db);

        let db = Database::open(&dir).unwrap();
        std::thread::scope(|scope| {
            for share in 0..4 {
                let db = &db;
                scope.spawn(move || {
                    let mut cursor = db.seek(&number(share * COUNT / 4));
                    for n in share * COUNT / 4..COUNT {
                        assert_eq!(
                            cursor.entry().unwrap(),
                            Some((&number(n)[..], &value(n)[..])),
                            "{n}"
                        );
                        cursor.step();
                    }
                    assert_eq!(cursor.entry(), Ok(None));
                    cursor.step();
                    assert_eq!(cursor.entry(), Ok(None));
                });
            }
        });
        assert_eq!(db.get(&number(77)), Ok(Some(value(77))));
        assert_eq!(db.get(&number(COUNT)), Ok(None));
        assert_eq!(db.get(&number(77)[..3]), Ok(None), "the beginning of a key is another key");
    }

    #[test]
    fn a_database_is_made_once_and_opened_by_one() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("db");
        assert_eq!(Database::open(&dir).err(), Some(LevelDbError::Missing));
        assert!(!dir.exists());
        let mut db = Database::create(&dir).unwrap();
        db.put(b"key", b"");
        db.write(true).unwrap();
        assert_eq!(Database::open(&dir).err(), Some(LevelDbError::Locked));
        drop(db);
        assert_eq!(Database::open(&dir).unwrap().get(b"key"), Ok(Some(Vec::new())));
        assert!(Database::create(&dir).is_err());
    }

    /// For example, a process without descriptors left.
    #[test]
    fn a_failed_system_call_is_told_with_its_cause() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("LOCK")).unwrap();
        let error = Database::create(temp.path()).err().unwrap();
        assert_eq!(error, LevelDbError::Io(Some(Errno::ISDIR.raw_os_error())));
        let text = LevelDbError::Io(Some(Errno::MFILE.raw_os_error())).to_string();
        assert!(text.ends_with("read or written: Too many open files (os error 24)"), "{text}");
    }

    #[test]
    fn damage_is_an_error_of_the_cursor() {
        let temp = tempfile::tempdir().unwrap();
        let mut db = Database::create(temp.path()).unwrap();
        for n in 0..600_000u32 {
            db.put(&number(n), &[7; 100]);
        }
        db.write(true).unwrap();
        // Opening the database once more moves the log's records into a table.
        drop(db);
        drop(Database::open(temp.path()).unwrap());
        let files = std::fs::read_dir(temp.path()).unwrap().map(|entry| entry.unwrap().path());
        let tables: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|end| end == "ldb")).collect();
        assert!(!tables.is_empty());
        for table in tables {
            let mut bytes = std::fs::read(&table).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&table, bytes).unwrap();
        }
        let db = Database::open(temp.path()).unwrap();
        let mut cursor = db.seek(&[]);
        let (mut read, mut gaps) = (0u32, 0);
        let error = loop {
            match cursor.entry() {
                Ok(Some((key, _))) => {
                    // The record behind a damaged block is returned as if there had been none before it.
                    if key != number(read + gaps) {
                        assert_eq!(cursor.check(), Err(LevelDbError::Corruption));
                        gaps = u32::from_be_bytes(key.try_into().unwrap()) - read;
                    }
                    assert_eq!(cursor.check().is_err(), gaps > 0);
                    read += 1;
                }
                Ok(None) => panic!("all {read} records were read"),
                Err(error) => break error,
            }
            cursor.step();
        };
        assert_eq!(error, LevelDbError::Corruption);
        assert!(gaps > 0, "the damage is in the middle");
    }
}
