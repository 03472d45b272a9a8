//! The file that says what of the directory counts: replaced as a whole, so that a kill leaves the one
//! before or the one after. Little-endian:
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | magic `gdwttxix` |
//! | 4 | version, 2 |
//! | 32 | hash of the genesis block |
//! | 16 | secret key of the hash of txids, which the checksums of runs begin with |
//! | 8 | a number above those of all runs |
//! | compact size + 36 each | the last blocks in the runs: hash and height, the newest first |
//! | compact size + 36 each | blocks that were left in reorganisations, the oldest first |
//! | compact size + 16 each | runs, the oldest first: number and entries |
//! | 32 | SHA-256d of all before |

use std::path::Path;

use godwit_primitives::BlockHash;
use godwit_primitives::sha256::sha256d;
use godwit_store::disk::{OpenMode, StoreDisk};
use godwit_store::{ChainPoint, StoreError};
use godwit_stream::{DataStream, DecodeError, SpanReader};

use super::run::RunFacts;
use crate::error::IndexError;
use crate::position::Position;

const MAGIC: [u8; 8] = *b"gdwttxix";
/// 1: checksums of runs did not depend on the key.
const VERSION: u32 = 2;
const HASH_SIZE: usize = 32;
pub(super) const FILE: &str = "manifest";
const UNFINISHED: &str = "manifest.new";
/// Longer than any.
const MAX_SIZE: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) genesis: BlockHash,
    pub(super) secret: [u8; 16],
    pub(super) next_id: u64,
    pub(super) position: Position,
    /// See [`super::State::stale`].
    pub(super) stale: Vec<ChainPoint>,
    pub(super) runs: Vec<RunFacts>,
}

fn put_points<'a>(out: &mut DataStream, points: impl ExactSizeIterator<Item = &'a ChainPoint>) {
    out.write_compact_size(points.len() as u64);
    for point in points {
        out.put(&point.hash);
        out.put(&point.height);
    }
}

fn points(reader: &mut SpanReader<'_>) -> Result<Vec<ChainPoint>, DecodeError> {
    let count = reader.compact_size()?;
    (0..count).map(|_| Ok(ChainPoint { hash: reader.get()?, height: reader.u32()? })).collect()
}

/// The version of what begins as a manifest.
fn version(content: &[u8]) -> Option<u32> {
    let mut reader = SpanReader::new(content);
    let is_manifest = reader.array().is_ok_and(|magic: [u8; 8]| magic == MAGIC);
    is_manifest.then(|| reader.u32().ok()).flatten()
}

impl Manifest {
    fn encode(&self) -> DataStream {
        let mut out = DataStream::new();
        out.write(&MAGIC);
        out.write(&VERSION.to_le_bytes());
        out.put(&self.genesis);
        out.write(&self.secret);
        out.write_u64(self.next_id);
        put_points(&mut out, self.position.points().iter());
        put_points(&mut out, self.stale.iter());
        out.write_compact_size(self.runs.len() as u64);
        for run in &self.runs {
            out.write_u64(run.id);
            out.write_u64(run.entries);
        }
        let hash = sha256d(out.as_slice());
        out.write(&hash);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = SpanReader::new(bytes);
        if reader.array()? != MAGIC || reader.u32()? != VERSION {
            return Err(DecodeError::UnexpectedEnd);
        }
        let (genesis, secret, next_id) = (reader.get()?, reader.array()?, reader.u64()?);
        let position = Position::from_points(points(&mut reader)?);
        let stale = points(&mut reader)?;
        let mut runs = Vec::new();
        for _ in 0..reader.compact_size()? {
            runs.push(RunFacts { id: reader.u64()?, entries: reader.u64()? });
        }
        Ok(Self { genesis, secret, next_id, position, stale, runs })
    }

    /// The one of a directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// A failed call, or other bytes than were written.
    pub(super) fn read(disk: &StoreDisk, dir: &Path) -> Result<Option<Self>, IndexError> {
        let path = dir.join(FILE);
        let file = match disk.open(&path, OpenMode::Read) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => file?,
        };
        let len = file.file_len()?;
        let damaged = || IndexError::damaged(&path, 0);
        if !(HASH_SIZE as u64..=MAX_SIZE).contains(&len) {
            return Err(damaged());
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(0, &mut bytes)?;
        let (content, hash) = bytes.split_at(bytes.len() - HASH_SIZE);
        if sha256d(content) != *hash {
            return Err(damaged());
        }
        match version(content) {
            Some(version) if version != VERSION => {
                Err(IndexError::OtherVersion { path, version, known: VERSION })
            }
            _ => Self::decode(content).map(Some).map_err(|_| damaged()),
        }
    }

    /// Puts it in the place of the one before. What it names has to be durable, but for the names of files.
    pub(super) fn write(&self, disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
        let unfinished = dir.join(UNFINISHED);
        let file = disk.open(&unfinished, OpenMode::Truncate)?;
        file.write_all_at(0, self.encode().as_slice())?;
        file.sync()?;
        disk.sync_dir(dir)?;
        disk.rename(&unfinished, &dir.join(FILE))?;
        disk.sync_dir(dir)
    }

    /// Removes what it does not name.
    pub(super) fn sweep(&self, disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
        let named: Vec<_> = self.runs.iter().map(|run| run.path(dir)).collect();
        for path in disk.list(dir)? {
            if path != dir.join(FILE) && !named.contains(&path) {
                disk.remove(&path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_not_otherwise() {
        let point =
            |byte| ChainPoint { hash: BlockHash::from_bytes([byte; 32]), height: byte.into() };
        let manifest = Manifest {
            genesis: BlockHash::from_bytes([3; 32]),
            secret: [4; 16],
            next_id: 9,
            position: Position::from_points(vec![point(8), point(7)]),
            stale: vec![point(6)],
            runs: vec![RunFacts { id: 1, entries: 500 }, RunFacts { id: 8, entries: 1 }],
        };
        let bytes = manifest.encode();
        let content = &bytes.as_slice()[..bytes.as_slice().len() - HASH_SIZE];
        assert_eq!(Manifest::decode(content).expect("it decodes"), manifest);
        for end in 0..content.len() {
            assert!(Manifest::decode(&content[..end]).is_err());
        }
    }
}
