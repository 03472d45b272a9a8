//! LevelDB as Bitcoin Core uses it for its chainstate.
//!
//! The engine is the one inside `libbitcoinkernel.a`. What is done with it follows `CDBWrapper` and
//! `CCoinsViewDB::BatchWrite`: destroy and open, write the obfuscation key, ask for the tip; then
//! batches of up to 32 MiB, obfuscated, the first marking the store as in transition, the last naming
//! the tip. Two things are added so that the end is durable, which Core's is not: the last batch is
//! written with `sync`, and all files are synced after closing (a batch whose memtable is not yet a
//! table lies in an older log, which the last `sync` does not reach).
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use super::{CoinKey, CoinRecord, CoinSink, FlushError, checked, is_found, sync_tree};
use crate::scrambled;

/// Key of Core's best block record.
const BEST_BLOCK: &[u8] = b"B";
/// Key of the record that says a flush is under way.
const HEAD_BLOCKS: &[u8] = b"H";
/// Key of the obfuscation key, and its value's length as Core writes it.
const OBFUSCATION_KEY: &[u8] = b"\0obfuscate_key";
/// Any fixed key costs what a random one does.
const OBFUSCATION: [u8; 8] = scrambled(3);

/// LevelDB with Core's settings.
pub struct LevelDb {
    /// `DBParams::cache_bytes`; a quarter of it is LevelDB's write buffer, half its block cache.
    pub cache_bytes: usize,
    /// `CoinsViewOptions::batch_write_bytes`.
    pub batch_bytes: usize,
    /// `DBParams::max_file_size`.
    pub max_file_size: usize,
}

impl Default for LevelDb {
    /// As in the pull request's benchmark: a fifth of the 8 MiB that a default `-dbcache` leaves for
    /// the coins database; Core's defaults for the rest.
    fn default() -> Self {
        Self { cache_bytes: 1_677_721, batch_bytes: 32 << 20, max_file_size: 32 << 20 }
    }
}

impl CoinSink for LevelDb {
    fn name(&self) -> &str {
        "LevelDB, Core's settings"
    }

    fn flush(
        &self,
        dir: &Path,
        coins: &mut dyn Iterator<Item = CoinRecord<'_>>,
        tip: [u8; 32],
    ) -> Result<(), FlushError> {
        fs::create_dir_all(dir)?;
        let mut db = Database::open(self, dir, true)?;
        db.put(OBFUSCATION_KEY, &prefixed(&OBFUSCATION));
        db.write(false)?;
        // A wiped store has neither.
        let mut old = [0; 32];
        if !db.get(BEST_BLOCK, &mut old)? {
            db.get(HEAD_BLOCKS, &mut [0; 65])?;
        }
        db.erase(BEST_BLOCK);
        let heads: Vec<u8> = [&[2][..], &tip, &old].concat();
        let mut scratch = Vec::with_capacity(1024);
        db.put(HEAD_BLOCKS, obfuscated(&mut scratch, &heads));
        for record in coins {
            let key = CoinKey::new(&record.outpoint);
            db.put(key.as_bytes(), obfuscated(&mut scratch, record.coin));
            if db.batch_size() > self.batch_bytes {
                db.write(false)?;
            }
        }
        db.erase(HEAD_BLOCKS);
        db.put(BEST_BLOCK, obfuscated(&mut scratch, &tip));
        db.write(true)?;
        drop(db);
        sync_tree(dir)
    }

    fn count(&self, dir: &Path) -> Result<u64, FlushError> {
        Database::open(self, dir, false)?.count(CoinKey::PREFIX)
    }

    fn tip(&self, dir: &Path) -> Result<Option<[u8; 32]>, FlushError> {
        let mut value = [0; 32];
        let found = Database::open(self, dir, false)?.get(BEST_BLOCK, &mut value)?;
        apply_obfuscation(&mut value);
        Ok(found.then_some(value))
    }
}

/// With a compact size in front, as Core serialises a vector.
fn prefixed(key: &[u8; 8]) -> [u8; 9] {
    let mut value = [8; 9];
    value[1..].copy_from_slice(key);
    value
}

fn obfuscated<'a>(scratch: &'a mut Vec<u8>, value: &[u8]) -> &'a [u8] {
    scratch.clear();
    scratch.extend_from_slice(value);
    apply_obfuscation(scratch);
    scratch
}

fn apply_obfuscation(bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(OBFUSCATION)).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(OBFUSCATION) {
        *byte ^= key;
    }
}

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

// SAFETY: the signatures are those of cpp/leveldb.cpp.
unsafe extern "C" {
    fn godwit_leveldb_open(
        path: *const c_char,
        cache_bytes: usize,
        max_file_size: usize,
        wipe: c_int,
        out: *mut *mut Handle,
    ) -> c_int;
    fn godwit_leveldb_put(db: *mut Handle, key: *const u8, n: usize, value: *const u8, m: usize);
    fn godwit_leveldb_erase(db: *mut Handle, key: *const u8, n: usize);
    fn godwit_leveldb_batch_size(db: *const Handle) -> usize;
    fn godwit_leveldb_write(db: *mut Handle, sync: c_int) -> c_int;
    fn godwit_leveldb_get(
        db: *const Handle,
        key: *const u8,
        n: usize,
        value: *mut u8,
        m: usize,
    ) -> c_int;
    fn godwit_leveldb_count(db: *const Handle, prefix: c_char, out: *mut u64) -> c_int;
    fn godwit_leveldb_close(db: *mut Handle);
}

/// An open database and the batch that is being filled. Closed when dropped.
struct Database(NonNull<Handle>);

impl Database {
    fn open(settings: &LevelDb, dir: &Path, wipe: bool) -> Result<Self, FlushError> {
        let path = CString::new(dir.as_os_str().as_bytes()).map_err(|_| FlushError::Path)?;
        let (cache, file) = (settings.cache_bytes, settings.max_file_size);
        let mut handle = std::ptr::null_mut();
        // SAFETY: `path` ends with a zero byte and outlives the call; `handle` is written when the
        // status is 0, and then owned by the new `Database` alone.
        checked(unsafe {
            godwit_leveldb_open(path.as_ptr(), cache, file, wipe.into(), &mut handle)
        })?;
        Ok(Self(NonNull::new(handle).expect("a status of 0 comes with a database")))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: an open database; both slices are copied into the batch.
        unsafe {
            godwit_leveldb_put(
                self.0.as_ptr(),
                key.as_ptr(),
                key.len(),
                value.as_ptr(),
                value.len(),
            );
        }
    }

    fn erase(&mut self, key: &[u8]) {
        // SAFETY: an open database; the slice is copied into the batch.
        unsafe { godwit_leveldb_erase(self.0.as_ptr(), key.as_ptr(), key.len()) }
    }

    fn batch_size(&self) -> usize {
        // SAFETY: an open database.
        unsafe { godwit_leveldb_batch_size(self.0.as_ptr()) }
    }

    /// Writes the batch and empties it.
    fn write(&mut self, sync: bool) -> Result<(), FlushError> {
        // SAFETY: an open database.
        checked(unsafe { godwit_leveldb_write(self.0.as_ptr(), sync.into()) })
    }

    /// Whether the key is there; its value has `value`'s length.
    fn get(&self, key: &[u8], value: &mut [u8]) -> Result<bool, FlushError> {
        // SAFETY: an open database; no more than `value.len()` bytes are written to `value`.
        is_found(unsafe {
            godwit_leveldb_get(
                self.0.as_ptr(),
                key.as_ptr(),
                key.len(),
                value.as_mut_ptr(),
                value.len(),
            )
        })
    }

    fn count(&self, prefix: u8) -> Result<u64, FlushError> {
        let mut count = 0;
        // SAFETY: an open database; `count` is written.
        checked(unsafe { godwit_leveldb_count(self.0.as_ptr(), prefix as c_char, &mut count) })?;
        Ok(count)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and used by nobody after this.
        unsafe { godwit_leveldb_close(self.0.as_ptr()) }
    }
}
