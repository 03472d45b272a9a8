//! Blocks from files that another program wrote.
//!
//! The records of a `.dat` file are found as Bitcoin Core finds them (`validation.cpp`,
//! `LoadExternalBlockFile`): search for the magic byte by byte, take the length when it is that of
//! a possible block, go on behind the record. Bodies are seeked over; [`BlockFileScanner::read`]
//! fetches them. Core goes on behind the block instead where it decodes one, which may end before its
//! record does: [`BlockFileScanner::scan_behind`] finds what lies there.

use std::path::{Path, PathBuf};

use godwit_primitives::{BlockHeader, HEADER_SIZE};
use godwit_stream::{BufferPool, DataStream, Obfuscation, PooledStream, SpanReader};

use crate::block_files::{FRAME_SIZE, MAX_BLOCK_SERIALIZED_SIZE, block_file_number};
use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, StoreError};
use crate::names::XOR_FILE;

/// Bytes read at once while scanning: small beside a block that is seeked over, large beside the
/// small blocks of the first years.
const WINDOW: usize = 16 * 1024;

/// A record that a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScannedBlock {
    pub place: RecordPlace,
    pub header: BlockHeader,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// Index into [`BlockFileScanner::files`].
    pub file: u32,
    /// Offset of the block's first byte, behind magic and length.
    pub offset: u64,
    /// Length that the record claims: the block and what may follow it inside the record.
    pub len: u32,
}

/// Why bytes were passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// No record starts there. Runs of zeros are not reported: Core preallocates its files.
    NotARecord,
    /// A record claims more bytes than the file has.
    Truncated,
}

/// Bytes of a file that belong to no complete record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedBytes {
    /// Index into [`BlockFileScanner::files`].
    pub file: u32,
    /// Offset of the first byte passed over.
    pub offset: u64,
    /// How many bytes were passed over.
    pub len: u64,
    pub reason: SkipReason,
}

/// What a scan comes across, in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// A complete record.
    Block(ScannedBlock),
    /// Something else.
    Skipped(SkippedBytes),
}

/// A file to scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedFile {
    pub path: PathBuf,
    /// Its length in bytes when the scanner was opened.
    pub len: u64,
}

/// Reads block files of another program: one file, or all `blk*.dat` of a directory.
pub struct BlockFileScanner {
    disk: StoreDisk,
    magic: [u8; 4],
    obfuscation: Obfuscation,
    files: Vec<ScannedFile>,
}

impl BlockFileScanner {
    /// Opens `path`: a directory with `blk*.dat` files, in the order of their numbers, or a single
    /// file in the same framing. The key in an `xor.dat` of the directory applies; to a single file
    /// only when it is named as one of Core's own (`blkNNNNN.dat`).
    ///
    /// # Errors
    ///
    /// [`StoreError::NoBlockFiles`] for a directory without block files, [`StoreError::Damaged`]
    /// for an `xor.dat` of another length than 8 bytes, else [`StoreError::Io`].
    pub fn open(disk: &StoreDisk, path: &Path, magic: [u8; 4]) -> Result<Self, StoreError> {
        // A path that cannot be listed is a file, or opening it tells why not.
        let (mut paths, dir) = match disk.list(path) {
            Ok(entries) => (entries, Some(path)),
            Err(_) => {
                let named_by_core = block_file_number(path).is_some();
                (vec![path.to_owned()], named_by_core.then(|| path.parent()).flatten())
            }
        };
        if dir == Some(path) {
            paths.retain(|entry| block_file_number(entry).is_some());
            paths.sort_by_key(|entry| block_file_number(entry));
            if paths.is_empty() {
                return Err(StoreError::NoBlockFiles { path: path.to_owned() });
            }
        }
        let obfuscation = match dir {
            Some(dir) => read_obfuscation(disk, dir)?.unwrap_or(Obfuscation::NONE),
            None => Obfuscation::NONE,
        };
        let with_len = |path: PathBuf| {
            let len = disk.open(&path, OpenMode::Read)?.file_len()?;
            Ok(ScannedFile { path, len })
        };
        let files = paths.into_iter().map(with_len).collect::<Result<_, StoreError>>()?;
        Ok(BlockFileScanner { disk: disk.clone(), magic, obfuscation, files })
    }

    /// The files, in the order in which they are scanned.
    pub fn files(&self) -> &[ScannedFile] {
        &self.files
    }

    /// Length of all files together, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Scans from the first file to the last, reading the headers and seeking over the bodies. A
    /// read error ends the scan.
    pub fn scan(&self) -> Scan<'_> {
        self.scan_from(0, 0)
    }

    fn scan_from(&self, file: u32, offset: u64) -> Scan<'_> {
        let window = Window::default();
        Scan { scanner: self, file, offset, passed_files: 0, skipped: None, window }
    }

    /// The records behind a block of `block_len` bytes that ends before its record at `place` does: from
    /// there on, up to the first one that a scan comes to as well that goes on behind the record.
    pub fn scan_behind(
        &self,
        place: RecordPlace,
        block_len: u32,
    ) -> impl Iterator<Item = Result<ScannedBlock, StoreError>> + '_ {
        let (start, end) =
            (place.offset + u64::from(block_len), place.offset + u64::from(place.len));
        let (mut found, mut known) = (self.blocks_from(place.file, start), None);
        let mut knowing = self.blocks_from(place.file, end);
        std::iter::from_fn(move || {
            let block = match found.next()? {
                Ok(block) => block,
                error => return Some(error),
            };
            let is_before = |known: &ScannedBlock| known.place.offset < block.place.offset;
            while block.place.offset >= end && known.as_ref().is_none_or(is_before) {
                match knowing.next() {
                    Some(Ok(next)) => known = Some(next),
                    Some(error) => return Some(error),
                    None => break,
                }
            }
            (known != Some(block)).then_some(Ok(block))
        })
    }

    /// The records of a file from an offset on.
    fn blocks_from(
        &self,
        file: u32,
        offset: u64,
    ) -> impl Iterator<Item = Result<ScannedBlock, StoreError>> + '_ {
        let of_file = move |block: &ScannedBlock| block.place.file == file;
        self.scan_from(file, offset)
            .filter_map(|found| match found {
                Ok(Scanned::Block(block)) => Some(Ok(block)),
                Ok(Scanned::Skipped(_)) => None,
                Err(error) => Some(Err(error)),
            })
            .take_while(move |found| found.as_ref().map_or(true, of_file))
    }

    /// The bytes of a record, in a buffer of `pool`: the block, and what may follow it inside the
    /// record.
    pub fn read(&self, place: &RecordPlace, pool: &BufferPool) -> Result<PooledStream, StoreError> {
        let RecordPlace { file, offset, len } = *place;
        let mut bytes = pool.take_for(len as usize);
        self.file(file)?.read_stream_at(offset, len as usize, &mut bytes)?;
        self.obfuscation.apply(bytes.as_mut_slice(), offset);
        Ok(bytes)
    }

    fn file(&self, index: u32) -> Result<StoreFile, StoreError> {
        self.disk.open_cached(&self.files[index as usize].path)
    }
}

/// The key in the `xor.dat` of a directory, if there is one.
pub(crate) fn read_obfuscation(
    disk: &StoreDisk,
    dir: &Path,
) -> Result<Option<Obfuscation>, StoreError> {
    let path = dir.join(XOR_FILE);
    let file = match disk.open(&path, OpenMode::Read) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let mut key = [0; 8];
    if file.file_len()? != key.len() as u64 {
        return Err(StoreError::damaged(&path, 0, Damage::Format));
    }
    file.read_exact_at(0, &mut key)?;
    Ok(Some(Obfuscation::new(key)))
}

/// Bytes of the file being scanned, in the clear.
#[derive(Default)]
struct Window {
    bytes: DataStream,
    start: u64,
}

/// A running scan. See [`BlockFileScanner::scan`].
pub struct Scan<'a> {
    scanner: &'a BlockFileScanner,
    file: u32,
    offset: u64,
    passed_files: u64,
    skipped: Option<SkippedBytes>,
    window: Window,
}

impl Scan<'_> {
    /// How far the scan is, of [`BlockFileScanner::total_bytes`].
    pub fn bytes_passed(&self) -> u64 {
        self.passed_files + self.offset
    }

    /// Up to [`WINDOW`] bytes from the scan's offset on; `wanted` of them unless the file ends.
    fn look(&mut self, wanted: usize) -> Result<&[u8], StoreError> {
        let len = self.scanner.files[self.file as usize].len;
        let window = &mut self.window;
        let held = window.start + window.bytes.as_slice().len() as u64;
        let needed = (self.offset + wanted as u64).min(len);
        if held < needed {
            let count = WINDOW.min(usize::try_from(len - self.offset).unwrap_or(WINDOW));
            window.bytes.clear();
            window.start = self.offset;
            let file = self.scanner.file(self.file)?;
            file.read_stream_at(self.offset, count, &mut window.bytes)?;
            self.scanner.obfuscation.apply(window.bytes.as_mut_slice(), self.offset);
        }
        Ok(&window.bytes.as_slice()[(self.offset - window.start) as usize..])
    }

    /// The record that starts at the scan's offset, as far as the file says.
    fn record(&mut self) -> Result<Candidate, StoreError> {
        const PREFIX: usize = FRAME_SIZE as usize + HEADER_SIZE;
        let (file, magic) = (self.file, self.scanner.magic);
        let remaining = self.scanner.files[file as usize].len - self.offset;
        let offset = self.offset + u64::from(FRAME_SIZE);
        let mut reader = SpanReader::new(self.look(PREFIX)?);
        if reader.array() != Ok(magic) {
            return Ok(Candidate::None);
        }
        let Ok(len) = reader.u32() else { return Ok(Candidate::None) };
        if !(HEADER_SIZE as u32..=MAX_BLOCK_SERIALIZED_SIZE).contains(&len) {
            return Ok(Candidate::None);
        }
        match reader.get::<BlockHeader>() {
            Ok(header) if u64::from(FRAME_SIZE + len) <= remaining => {
                let place = RecordPlace { file, offset, len };
                Ok(Candidate::Block(ScannedBlock { place, header }))
            }
            // As in Core, the scan of this file ends: the length may be a torn one.
            _ => Ok(Candidate::Truncated(remaining)),
        }
    }

    /// Whether the bytes at the scan's offset are zeros in the file itself, as Core preallocates
    /// them with any key, or in the clear.
    fn is_never_written(&self, mut bytes: DataStream) -> bool {
        let is_zero = |bytes: &DataStream| bytes.as_slice().iter().all(|byte| *byte == 0);
        if is_zero(&bytes) {
            return true;
        }
        self.scanner.obfuscation.apply(bytes.as_mut_slice(), self.offset);
        is_zero(&bytes)
    }

    /// Passes over the bytes before the next possible magic.
    fn pass_over(&mut self) -> Result<(), StoreError> {
        let first = self.scanner.magic[0];
        let bytes = self.look(1)?;
        // The byte at the offset itself starts no record.
        let count = bytes.iter().skip(1).position(|byte| *byte == first);
        let count = count.map_or(bytes.len(), |index| index + 1);
        let cleartext = DataStream::from(&bytes[..count]);
        let never_written = self.is_never_written(cleartext);
        let (file, offset, len) = (self.file, self.offset, count as u64);
        self.offset += len;
        match &mut self.skipped {
            Some(skipped) => skipped.len += len,
            None if never_written => {}
            none => {
                let reason = SkipReason::NotARecord;
                *none = Some(SkippedBytes { file, offset, len, reason });
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Scanned>, StoreError> {
        loop {
            let Some(file) = self.scanner.files.get(self.file as usize) else {
                return Ok(None);
            };
            let at_end = self.offset >= file.len;
            let candidate = if at_end { Candidate::None } else { self.record()? };
            let between = at_end || !matches!(candidate, Candidate::None);
            if between && let Some(skipped) = self.skipped.take() {
                return Ok(Some(Scanned::Skipped(skipped)));
            }
            match candidate {
                Candidate::Block(block) => {
                    self.offset = block.place.offset + u64::from(block.place.len);
                    return Ok(Some(Scanned::Block(block)));
                }
                Candidate::Truncated(len) => {
                    let (file, offset) = (self.file, self.offset);
                    self.offset += len;
                    let reason = SkipReason::Truncated;
                    return Ok(Some(Scanned::Skipped(SkippedBytes { file, offset, len, reason })));
                }
                Candidate::None if at_end => {
                    self.passed_files += file.len;
                    (self.file, self.offset) = (self.file + 1, 0);
                    self.window = Window::default();
                }
                Candidate::None => self.pass_over()?,
            }
        }
    }
}

/// What starts at an offset.
enum Candidate {
    None,
    Block(ScannedBlock),
    Truncated(u64),
}

impl Iterator for Scan<'_> {
    type Item = Result<Scanned, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step().transpose();
        if let Some(Err(_)) = item {
            self.file = u32::MAX;
        }
        item
    }
}

#[cfg(test)]
mod tests;
