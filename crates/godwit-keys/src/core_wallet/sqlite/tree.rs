//! The trees of pages that tables and indexes are.

use std::hash::{DefaultHasher, Hash, Hasher};

use godwit_secret::{Declassified, Releasable, SecretBytes, Unprotected};

use super::record::{first_bytes, varint};
use super::{Column, Database, DatabaseError, HEADER_SIZE, Roots, columns};

/// The most levels of a tree; SQLite itself goes no deeper.
pub(crate) const MAX_DEPTH: usize = 20;

/// The most bytes of a row that is read: a descriptor of the largest size, and more than its frame.
pub(crate) const MAX_ROW_SIZE: usize = crate::descriptors::MAX_DESCRIPTOR_SIZE + 1024;

/// How much of a key is compared between a table and its index: that stands in one page, whatever its
/// size, and it tells what kind of record it is.
const COMPARED: usize = 24;

/// Kinds of pages.
const INDEX_INTERIOR: u8 = 2;
const TABLE_INTERIOR: u8 = 5;
const INDEX_LEAF: u8 = 10;
const TABLE_LEAF: u8 = 13;

/// A page's header and the places of its cells.
struct Layout<'a> {
    bytes: &'a [u8],
    kind: u8,
    /// Last child of an interior page.
    right: u32,
    /// Two bytes a cell.
    pointers: &'a [u8],
    /// Where the pointers end.
    content: usize,
}

impl<'a> Layout<'a> {
    fn parse(page: &'a [u8], usable: usize, number: u32) -> Option<Self> {
        let start = if number == 1 { HEADER_SIZE } else { 0 };
        let bytes = page.get(..usable)?;
        let header = bytes.get(start..start + 12)?;
        let kind = header[0];
        let size = if matches!(kind, INDEX_INTERIOR | TABLE_INTERIOR) { 12 } else { 8 };
        let cells = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let content = start + size + 2 * cells;
        let pointers = bytes.get(start + size..content)?;
        let right = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        Some(Self { bytes, kind, right, pointers, content })
    }

    /// From the beginning of each cell to the end of the page.
    fn cells(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        self.pointers.chunks(2).map(|pointer| {
            let offset = usize::from(u16::from_be_bytes([pointer[0], pointer[1]]));
            self.bytes.get(offset..).filter(|cell| offset >= self.content && !cell.is_empty())
        })
    }
}

/// Reads a row, and puts what it says into the `S`.
type ReadRow<'a, S, E> = dyn Fn(&[u8], &mut S) -> Result<(), E> + 'a;

/// What a walk through a table does with its rows.
struct Walk<'a, S, E> {
    /// Whether a row is read, by the beginning of its first column.
    wanted: &'a dyn Fn(&[u8]) -> bool,
    /// What is done with a row that is.
    row: &'a ReadRow<'a, S, E>,
    /// Where that is put.
    rows: &'a mut S,
    /// Rows are ordered by their numbers.
    last: Option<i64>,
    keys: Keys,
}

impl<S: Releasable, E> Releasable for Walk<'_, S, E> {}

impl Releasable for Database {}

/// How many keys a tree has, and the sum of their hashes, which does not depend on their order.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Keys {
    count: u64,
    sum: u64,
}

impl Keys {
    /// Counts a row or entry of which the beginning is at hand.
    fn add(&mut self, beginning: &[u8]) {
        let key = first_bytes(beginning).unwrap_or(&[]);
        let mut hasher = DefaultHasher::new();
        key[..key.len().min(COMPARED)].hash(&mut hasher);
        self.count += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}

impl Database {
    /// Where a table, and the index of its primary key, begin.
    pub(crate) fn roots(&mut self, table: &str) -> Result<Roots, DatabaseError> {
        let index = format!("sqlite_autoindex_{table}_1");
        let mut roots = Unprotected((None, None));
        self.table(1, &|_| true, &mut roots, &|row, Unprotected((table_root, index_root))| {
            let columns = columns(row).ok_or(damaged(1, "schema"))?;
            if let [Column::Bytes(kind), Column::Bytes(name), _, Column::Integer(root), _] =
                columns[..]
            {
                if kind == b"table" && name == table.as_bytes() {
                    *table_root = u32::try_from(root).ok();
                } else if kind == b"index" && name == index.as_bytes() {
                    *index_root = u32::try_from(root).ok();
                }
            }
            Ok::<(), DatabaseError>(())
        })?;
        match roots.0 {
            (Some(table), Some(index)) => Ok(Roots { table, index }),
            _ => Err(DatabaseError::NoTable),
        }
    }

    /// Calls `row` with each row whose first column begins as `wanted`, in locked memory. The index must
    /// have the same keys as the table, so that no row is missing because of a damaged page.
    pub(crate) fn rows<S: Releasable, E: From<DatabaseError> + Releasable>(
        &mut self,
        roots: Roots,
        wanted: &dyn Fn(&[u8]) -> bool,
        rows: &mut S,
        row: &ReadRow<'_, S, E>,
    ) -> Result<(), E> {
        let keys = self.table(roots.table, wanted, rows, row)?;
        let mut entries = Keys::default();
        self.unread = self.pages;
        self.index(roots.index, 0, &mut entries)?;
        if entries != keys {
            return Err(damaged(roots.index, "index").into());
        }
        Ok(())
    }

    fn table<S: Releasable, E: From<DatabaseError> + Releasable>(
        &mut self,
        root: u32,
        wanted: &dyn Fn(&[u8]) -> bool,
        rows: &mut S,
        row: &ReadRow<'_, S, E>,
    ) -> Result<Keys, E> {
        self.unread = self.pages;
        let mut walk = Walk { wanted, row, rows, last: None, keys: Keys::default() };
        self.table_page(root, 0, &mut walk)?;
        Ok(walk.keys)
    }

    fn table_page<S: Releasable, E: From<DatabaseError> + Releasable>(
        &mut self,
        number: u32,
        depth: usize,
        walk: &mut Walk<'_, S, E>,
    ) -> Result<(), E> {
        let page = self.tree_page(number, depth)?;
        page.expose_secret_into((self, walk), |bytes, (database, walk)| {
            let layout = Layout::parse(bytes, database.usable, number);
            let layout = layout.ok_or(damaged(number, "header"))?;
            for cell in layout.cells() {
                let cell = cell.ok_or(damaged(number, "cell"))?;
                match layout.kind {
                    TABLE_LEAF => database.table_cell(number, cell, walk)?,
                    TABLE_INTERIOR => {
                        let child = cell.first_chunk().ok_or(damaged(number, "cell"))?;
                        database.table_page(u32::from_be_bytes(*child), depth + 1, walk)?;
                    }
                    _ => break,
                }
            }
            match layout.kind {
                TABLE_LEAF => Ok(()),
                TABLE_INTERIOR => database.table_page(layout.right, depth + 1, walk),
                _ => Err(damaged(number, "kind").into()),
            }
        })
    }

    fn table_cell<S: Releasable, E: From<DatabaseError> + Releasable>(
        &mut self,
        number: u32,
        cell: &[u8],
        walk: &mut Walk<'_, S, E>,
    ) -> Result<(), E> {
        let wrong = || damaged(number, "cell");
        let (size, rest) = varint(cell).ok_or_else(wrong)?;
        let (row_number, rest) = varint(rest).ok_or_else(wrong)?;
        let row_number = row_number as i64;
        if walk.last.is_some_and(|last| last >= row_number) {
            return Err(damaged(number, "row number").into());
        }
        walk.last = Some(row_number);
        let local = local_size(size, self.usable, self.usable - 35);
        let (beginning, rest) = rest.split_at_checked(local).ok_or_else(wrong)?;
        walk.keys.add(beginning);
        if !first_bytes(beginning).is_some_and(walk.wanted) {
            return Ok(());
        }
        if size == local as u64 {
            return (walk.row)(beginning, walk.rows);
        }
        if size > MAX_ROW_SIZE as u64 {
            return Err(DatabaseError::RowSize { size }.into());
        }
        let next = rest.first_chunk().ok_or_else(wrong)?;
        let row = self.overflow(beginning, size as usize, u32::from_be_bytes(*next))?;
        row.expose_secret_into(walk, |row, walk| (walk.row)(row, walk.rows))
    }

    /// A row of `size` bytes that goes on in a chain of pages.
    fn overflow(
        &mut self,
        beginning: &[u8],
        size: usize,
        first: u32,
    ) -> Result<SecretBytes, DatabaseError> {
        let mut row = SecretBytes::with_capacity(size).map_err(DatabaseError::Memory)?;
        row.extend_from_slice(beginning)?;
        let mut next = first;
        while row.len() < size {
            let number = next;
            let count = (size - row.len()).min(self.usable - 4);
            let page = self.page(number)?;
            let pointer = page.expose_secret_into(&mut row, |page, row| {
                row.extend_from_slice(&page[4..4 + count])?;
                let pointer = page.first_chunk().expect("a page has 512 bytes or more");
                Ok::<_, DatabaseError>(Declassified(u32::from_be_bytes(*pointer)))
            })?;
            next = pointer.0;
        }
        if next != 0 { Err(damaged(next, "place in a chain")) } else { Ok(row) }
    }

    /// Counts the entries of an index.
    fn index(
        &mut self,
        number: u32,
        depth: usize,
        entries: &mut Keys,
    ) -> Result<(), DatabaseError> {
        let page = self.tree_page(number, depth)?;
        page.expose_secret_into((self, Unprotected(entries)), |bytes, (database, entries)| {
            let Unprotected(entries) = entries;
            let layout = Layout::parse(bytes, database.usable, number);
            let layout = layout.ok_or(damaged(number, "header"))?;
            let interior = match layout.kind {
                INDEX_LEAF => false,
                INDEX_INTERIOR => true,
                _ => return Err(damaged(number, "kind")),
            };
            for cell in layout.cells() {
                let wrong = damaged(number, "cell");
                let Some(mut cell) = cell else { return Err(wrong) };
                if interior {
                    let Some((child, entry)) = cell.split_first_chunk() else { return Err(wrong) };
                    database.index(u32::from_be_bytes(*child), depth + 1, entries)?;
                    cell = entry;
                }
                let Some((size, rest)) = varint(cell) else { return Err(wrong) };
                let most = (database.usable - 12) * 64 / 255 - 23;
                let Some(beginning) = rest.get(..local_size(size, database.usable, most)) else {
                    return Err(wrong);
                };
                entries.add(beginning);
            }
            if interior { database.index(layout.right, depth + 1, entries) } else { Ok(()) }
        })
    }

    fn tree_page(&mut self, number: u32, depth: usize) -> Result<SecretBytes, DatabaseError> {
        if depth >= MAX_DEPTH {
            return Err(damaged(number, "depth"));
        }
        self.page(number)
    }
}

fn damaged(page: u32, what: &'static str) -> DatabaseError {
    DatabaseError::Damaged { page, what }
}

/// How many bytes of `size` stand in the page of a tree that lets `most` stand there.
fn local_size(size: u64, usable: usize, most: usize) -> usize {
    if size <= most as u64 {
        return size as usize;
    }
    let fewest = (usable - 12) * 32 / 255 - 23;
    let filling = fewest + ((size - fewest as u64) % (usable as u64 - 4)) as usize;
    if filling <= most { filling } else { fewest }
}
