//! Reads the tables of an SQLite database, page by page, into locked memory.
//!
//! SQLite itself would keep rows with clear keys in its page cache, which nobody wipes. This reads what
//! Bitcoin Core writes and no more: tables with row numbers, no write-ahead log, no journal to roll back.
//! Nothing that the file claims is believed: numbers of pages, offsets and lengths are checked against the
//! file, a page belongs to one place, and a tree has at most [`MAX_DEPTH`](tree::MAX_DEPTH) levels.
//!
//! Source: <https://www.sqlite.org/fileformat2.html>

mod error;
mod record;
mod tree;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use godwit_secret::SecretBytes;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

pub use error::DatabaseError;
pub(crate) use record::{Column, columns};
use tree::MAX_ROW_SIZE;

/// What an SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Bytes before the first page's tree.
const HEADER_SIZE: usize = 100;

/// Of Berkeley DB's b-tree files, at byte 12 in the order of the machine that wrote it.
const BERKELEY_DB_MAGIC: u32 = 0x0005_3162;

/// The fewest bytes of a page that may be used.
const MIN_USABLE: usize = 480;

/// Where a table and its index begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roots {
    table: u32,
    index: u32,
}

/// An open database. While it is open, other programs cannot write it.
pub(crate) struct Database {
    file: File,
    page_size: usize,
    /// Bytes of a page that are not reserved.
    usable: usize,
    pages: u32,
    /// Pages that a walk may still read: as many as there are, since each belongs to one place.
    unread: u32,
    application_id: u32,
}

impl Database {
    /// Opens a file, refuses what is not a database at rest.
    pub(crate) fn open(path: &Path) -> Result<Self, DatabaseError> {
        let mut file = File::open(path).map_err(DatabaseError::Read)?;
        // Other errors come from file systems that know no locks.
        let lock = fcntl_lock(&file, FlockOperation::NonBlockingLockShared);
        if let Err(Errno::AGAIN | Errno::ACCESS) = lock {
            return Err(DatabaseError::InUse);
        }
        let mut header = [0; HEADER_SIZE];
        let mut length = 0;
        while length < HEADER_SIZE {
            match file.read(&mut header[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DatabaseError::Read(error)),
            }
        }
        let magic: [u8; 4] = header[12..16].try_into().expect("four bytes");
        if [u32::from_le_bytes(magic), u32::from_be_bytes(magic)].contains(&BERKELEY_DB_MAGIC) {
            return Err(DatabaseError::BerkeleyDb);
        }
        if !header.starts_with(MAGIC) {
            return Err(DatabaseError::NotSqlite);
        }
        if length < HEADER_SIZE {
            return Err(DatabaseError::Truncated);
        }
        let size = file.seek(SeekFrom::End(0)).map_err(DatabaseError::Read)?;
        let database = Self::with_header(file, &header, size)?;
        refuse_leftovers(path)?;
        Ok(database)
    }

    fn with_header(
        file: File,
        header: &[u8; HEADER_SIZE],
        size: u64,
    ) -> Result<Self, DatabaseError> {
        let damaged = |what| DatabaseError::Damaged { page: 1, what };
        let number = |at: usize| {
            u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes of the header"))
        };
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size if size >= 512 && size.is_power_of_two() => usize::from(size),
            _ => return Err(damaged("page size")),
        };
        let usable = page_size - usize::from(header[20]);
        if usable < MIN_USABLE || header[21..24] != [64, 32, 32] {
            return Err(damaged("payload fractions"));
        }
        if header[18] == 2 || header[19] == 2 {
            return Err(DatabaseError::WriteAheadLog);
        }
        if header[18..20] != [1, 1] || !(1..=4).contains(&number(44)) || number(56) != 1 {
            return Err(damaged("format version"));
        }
        let there = u32::try_from(size / page_size as u64).map_err(|_| damaged("file size"))?;
        // Core's SQLite always writes the number of pages, and the change counter that vouches for it.
        let pages = number(28);
        if pages == 0 || number(24) != number(92) {
            return Err(damaged("number of pages"));
        }
        if pages > there {
            return Err(DatabaseError::Truncated);
        }
        let application_id = number(68);
        Ok(Self { file, page_size, usable, pages, unread: 0, application_id })
    }

    /// What the program that made the file wrote into its header.
    pub(crate) fn application_id(&self) -> u32 {
        self.application_id
    }

    /// A page; an error when the walk has read as many as there are.
    fn page(&mut self, number: u32) -> Result<SecretBytes, DatabaseError> {
        if number == 0 || number > self.pages {
            return Err(DatabaseError::Damaged { page: number, what: "page number" });
        }
        self.unread = self
            .unread
            .checked_sub(1)
            .ok_or(DatabaseError::Damaged { page: number, what: "page in two places" })?;
        let offset = u64::from(number - 1) * self.page_size as u64;
        let mut page = SecretBytes::from_fn_in_place(self.page_size, |_| {})?;
        page.expose_secret_mut(|bytes| match self.file.read_exact_at(bytes, offset) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(DatabaseError::Truncated)
            }
            Err(error) => Err(DatabaseError::Read(error)),
        })?;
        Ok(page)
    }
}

/// Refuses a database whose last transaction was not finished: its pages are not what they should be
/// until SQLite has rolled it back.
fn refuse_leftovers(path: &Path) -> Result<(), DatabaseError> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    match File::open(beside("-journal")) {
        Ok(mut journal) => {
            let mut first = [0];
            // A journal that is kept after its transaction begins with zeros.
            let count = journal.read(&mut first).map_err(DatabaseError::Read)?;
            if count == 1 && first != [0] {
                return Err(DatabaseError::Journal);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(DatabaseError::Read(error)),
    }
    match std::fs::metadata(beside("-wal")) {
        Ok(log) if log.len() > 0 => Err(DatabaseError::WriteAheadLog),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DatabaseError::Read(error)),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
