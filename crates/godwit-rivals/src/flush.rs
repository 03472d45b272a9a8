//! Other stores for the flush of a coins cache: open a wiped store, write every coin and the tip,
//! make it durable, close.
//!
//! Keys and values are Core's: `'C' txid VARINT(vout)`, and the coin in Core's compressed form. What
//! ends a flush is the same for all: every file of the store and its folder are synced, so that none
//! is fast because it leaves its bytes in the page cache.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;

#[cfg(feature = "rivals")]
mod fjall;
pub mod leveldb;
#[cfg(feature = "rivals")]
mod lmdb;
#[cfg(feature = "rivals")]
mod redb;
#[cfg(feature = "rivals")]
mod rocksdb;
#[cfg(feature = "rivals")]
mod sorted;

/// One unspent output.
#[derive(Clone, Copy, Debug)]
pub struct CoinRecord<'a> {
    /// Txid as hashed, then `vout` in little-endian.
    pub outpoint: [u8; 36],
    /// Core's compressed form of the coin (`Coin::Serialize`).
    pub coin: &'a [u8],
}

/// A store that takes a whole cache of coins at once.
pub trait CoinSink {
    /// What the report calls it.
    fn name(&self) -> &str;

    /// Wipes the store in `dir` or makes one, writes every coin in as many batches as its settings
    /// say and `tip` as the block they describe, syncs everything to the disk and closes.
    ///
    /// No two of the coins have the same outpoint.
    fn flush(
        &self,
        dir: &Path,
        coins: &mut dyn Iterator<Item = CoinRecord<'_>>,
        tip: [u8; 32],
    ) -> Result<(), FlushError>;

    /// Reopens the store and counts its coins.
    fn count(&self, dir: &Path) -> Result<u64, FlushError>;

    /// The block that the coins describe, as the last [`flush`](Self::flush) said.
    fn tip(&self, dir: &Path) -> Result<Option<[u8; 32]>, FlushError>;
}

/// LevelDB; with the feature `rivals` also RocksDB, LMDB, redb and fjall.
pub fn coin_sinks() -> Vec<Box<dyn CoinSink>> {
    vec![
        Box::new(leveldb::LevelDb::default()),
        #[cfg(feature = "rivals")]
        Box::new(rocksdb::RocksDb),
        #[cfg(feature = "rivals")]
        Box::new(lmdb::Lmdb),
        #[cfg(feature = "rivals")]
        Box::new(redb::Redb),
        #[cfg(feature = "rivals")]
        Box::new(fjall::Fjall),
    ]
}

/// Why a store did not take the coins, or did not give them back.
#[derive(Debug)]
pub enum FlushError {
    /// The system's own calls.
    Io(io::Error),
    /// LevelDB or RocksDB.
    Status(StatusCode),
    /// A path with a zero byte.
    Path,
    /// An engine written in Rust, or with a Rust wrapper.
    Engine(Box<dyn Error + Send + Sync>),
}

/// What LevelDB's and RocksDB's `Status` say, less their text, and what the wrappers say of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusCode {
    /// A file or key that should be there.
    NotFound,
    /// Wrong checksums, a manifest that does not fit.
    Corruption,
    /// A system call.
    IoError,
    /// Anything else.
    Other,
    /// A value that is there, with another length than was asked for.
    WrongLength,
}

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Status(code) => write!(f, "the engine's status is {code:?}"),
            Self::Path => f.write_str("the path contains a zero byte"),
            Self::Engine(error) => write!(f, "{error}"),
        }
    }
}

impl Error for FlushError {}

impl From<io::Error> for FlushError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The status codes of cpp/leveldb.cpp and cpp/rocksdb.cpp.
fn checked(status: i32) -> Result<(), FlushError> {
    let code = match status {
        0 => return Ok(()),
        1 => StatusCode::NotFound,
        2 => StatusCode::Corruption,
        3 => StatusCode::IoError,
        5 => StatusCode::WrongLength,
        _ => StatusCode::Other,
    };
    Err(FlushError::Status(code))
}

/// The status of a look-up: whether the key is there.
fn is_found(status: i32) -> Result<bool, FlushError> {
    match checked(status) {
        Ok(()) => Ok(true),
        Err(FlushError::Status(StatusCode::NotFound)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Key of a coin in Core's chainstate.
#[derive(Clone, Copy)]
struct CoinKey {
    bytes: [u8; CoinKey::MAX],
    len: usize,
}

impl CoinKey {
    const PREFIX: u8 = b'C';
    const MAX: usize = 1 + 32 + 5;

    fn new(outpoint: &[u8; 36]) -> Self {
        let mut bytes = [0; Self::MAX];
        bytes[0] = Self::PREFIX;
        bytes[1..33].copy_from_slice(&outpoint[..32]);
        let vout = outpoint.last_chunk().expect("36 bytes have a last 4");
        let len = 33 + write_var_int(u32::from_le_bytes(*vout), &mut bytes[33..]);
        Self { bytes, len }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Core's VARINT (serialize.h): base 128, most significant group first, one less per group but the
/// last. Returns how many bytes it took.
fn write_var_int(mut n: u32, out: &mut [u8]) -> usize {
    let mut reversed = [0; 5];
    let mut len = 0;
    loop {
        reversed[len] = (n & 0x7f) as u8 | if len == 0 { 0 } else { 0x80 };
        len += 1;
        if n <= 0x7f {
            break;
        }
        n = (n >> 7) - 1;
    }
    for (to, from) in out.iter_mut().zip(reversed[..len].iter().rev()) {
        *to = *from;
    }
    len
}

/// An empty folder, whatever was there.
#[cfg(feature = "rivals")]
fn wiped(dir: &Path) -> Result<(), FlushError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    Ok(fs::create_dir_all(dir)?)
}

/// Syncs every file and folder below `dir`, and `dir`.
fn sync_tree(dir: &Path) -> Result<(), FlushError> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_tree(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    Ok(File::open(dir)?.sync_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vouts_are_written_as_core_does() {
        // The examples in Core's serialize.h, and the ends of each length.
        let examples: [(u32, &[u8]); 9] = [
            (0, &[0x00]),
            (1, &[0x01]),
            (127, &[0x7f]),
            (128, &[0x80, 0x00]),
            (255, &[0x80, 0x7f]),
            (16_511, &[0xff, 0x7f]),
            (16_512, &[0x80, 0x80, 0x00]),
            (65_535, &[0x82, 0xfe, 0x7f]),
            (u32::MAX, &[0x8e, 0xfe, 0xfe, 0xfe, 0x7f]),
        ];
        for (n, expected) in examples {
            let mut out = [0; 5];
            let len = write_var_int(n, &mut out);
            assert_eq!(&out[..len], expected, "{n}");
        }
    }

    #[test]
    fn a_failed_look_up_keeps_its_status() {
        assert!(is_found(0).unwrap() && !is_found(1).unwrap());
        let expected = [
            (2, StatusCode::Corruption),
            (3, StatusCode::IoError),
            (4, StatusCode::Other),
            (5, StatusCode::WrongLength),
        ];
        for (status, code) in expected {
            let error = is_found(status).unwrap_err();
            assert!(matches!(error, FlushError::Status(found) if found == code), "{error}");
        }
    }

    #[test]
    fn a_key_is_prefix_txid_and_vout() {
        let mut outpoint = [7; 36];
        outpoint[32..].copy_from_slice(&300u32.to_le_bytes());
        let key = CoinKey::new(&outpoint);
        assert_eq!(key.as_bytes()[0], b'C');
        assert_eq!(key.as_bytes()[1..33], [7; 32]);
        assert_eq!(key.as_bytes()[33..], [0x81, 0x2c]);
    }
}
