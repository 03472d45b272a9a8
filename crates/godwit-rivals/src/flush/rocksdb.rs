//! RocksDB: coins sorted in memory, written as one table file, ingested.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use super::sorted::SortedCoins;
use super::{CoinKey, CoinRecord, CoinSink, FlushError, checked, is_found, sync_tree, wiped};

const TIP_KEY: &[u8] = b"B";

pub(super) struct RocksDb;

impl CoinSink for RocksDb {
    fn name(&self) -> &str {
        "RocksDB, sorted table ingested"
    }

    fn flush(
        &self,
        dir: &Path,
        coins: &mut dyn Iterator<Item = CoinRecord<'_>>,
        tip: [u8; 32],
    ) -> Result<(), FlushError> {
        wiped(dir)?;
        let mut db = Database::open(dir)?;
        for (key, value) in SortedCoins::new(coins).iter() {
            db.add(key, value)?;
        }
        db.finish(TIP_KEY, &tip)?;
        drop(db);
        sync_tree(dir)
    }

    fn count(&self, dir: &Path) -> Result<u64, FlushError> {
        Database::open(dir)?.count(CoinKey::PREFIX)
    }

    fn tip(&self, dir: &Path) -> Result<Option<[u8; 32]>, FlushError> {
        let mut tip = [0; 32];
        Ok(Database::open(dir)?.get(TIP_KEY, &mut tip)?.then_some(tip))
    }
}

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

// SAFETY: the signatures are those of cpp/rocksdb.cpp.
unsafe extern "C" {
    fn godwit_rocksdb_open(path: *const c_char, out: *mut *mut Handle) -> c_int;
    fn godwit_rocksdb_add(
        db: *mut Handle,
        key: *const u8,
        n: usize,
        value: *const u8,
        m: usize,
    ) -> c_int;
    fn godwit_rocksdb_finish(
        db: *mut Handle,
        key: *const u8,
        n: usize,
        value: *const u8,
        m: usize,
    ) -> c_int;
    fn godwit_rocksdb_get(
        db: *const Handle,
        key: *const u8,
        n: usize,
        value: *mut u8,
        m: usize,
    ) -> c_int;
    fn godwit_rocksdb_count(db: *const Handle, prefix: c_char, out: *mut u64) -> c_int;
    fn godwit_rocksdb_close(db: *mut Handle);
}

/// An open database and the table that is being written. Closed when dropped.
struct Database(NonNull<Handle>);

impl Database {
    fn open(dir: &Path) -> Result<Self, FlushError> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|_| FlushError::Path)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `path` ends with a zero byte and outlives the call; `handle` is written when the
        // status is 0, and then owned by the new `Database` alone.
        checked(unsafe { godwit_rocksdb_open(path.as_ptr(), &mut handle) })?;
        Ok(Self(NonNull::new(handle).expect("a status of 0 comes with a database")))
    }

    /// Keys in ascending order.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), FlushError> {
        let (key, n, value, m) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        // SAFETY: an open database; both slices are copied.
        checked(unsafe { godwit_rocksdb_add(self.0.as_ptr(), key, n, value, m) })
    }

    fn finish(&mut self, key: &[u8], value: &[u8]) -> Result<(), FlushError> {
        let (key, n, value, m) = (key.as_ptr(), key.len(), value.as_ptr(), value.len());
        // SAFETY: an open database; both slices are copied.
        checked(unsafe { godwit_rocksdb_finish(self.0.as_ptr(), key, n, value, m) })
    }

    /// Whether the key is there; its value has `value`'s length.
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool, FlushError> {
        let (key, n, value, m) = (key.as_ptr(), key.len(), value.as_mut_ptr(), value.len());
        // SAFETY: an open database; no more than `m` bytes are written to `value`.
        is_found(unsafe { godwit_rocksdb_get(self.0.as_ptr(), key, n, value, m) })
    }

    fn count(&self, prefix: u8) -> Result<u64, FlushError> {
        let mut count = 0;
        // SAFETY: an open database; `count` is written.
        checked(unsafe { godwit_rocksdb_count(self.0.as_ptr(), prefix as c_char, &mut count) })?;
        Ok(count)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and used by nobody after this.
        unsafe { godwit_rocksdb_close(self.0.as_ptr()) }
    }
}
