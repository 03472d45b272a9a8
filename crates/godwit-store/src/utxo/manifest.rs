//! The manifest: which runs make up the coins at one seal.

use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

use super::key::UtxoHasher;
use super::run::format::{MAX_PARTITION_BITS, RunId};
use super::run::segment::SealRange;

/// The runs of a store at a seal; what a commit records and [`super::UtxoStore::open`] takes.
///
/// Little-endian:
///
/// | bytes | content |
/// | --- | --- |
/// | 1 | version, 1 |
/// | 1 | partition bits |
/// | 8 | keyed hash of the null outpoint |
/// | 8 | number of the seal |
/// | 8 | lowest run id not used yet |
/// | compact size | number of runs |
/// | 36 each | run id (8), file blocks (4), oldest and newest seal (8, 8), bits of partitions in use (8) |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub(super) version: u8,
    pub(super) partition_bits: u8,
    pub(super) fingerprint: u64,
    pub(super) seal: u64,
    pub(super) next_run: u64,
    pub(super) runs: Vec<ManifestRun>,
}

/// A run that a manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManifestRun {
    pub(super) id: RunId,
    pub(super) blocks: u32,
    pub(super) seals: SealRange,
    pub(super) partitions: u64,
}

/// Version of this encoding.
pub(super) const VERSION: u8 = 1;

impl Manifest {
    /// The manifest of a store without coins. `2^partition_bits` parts of it will merge
    /// independently: more bits mean smaller merges and more files.
    ///
    /// # Panics
    ///
    /// If `partition_bits` exceeds 6.
    pub fn empty(partition_bits: u8, hasher: &UtxoHasher) -> Self {
        assert!(u32::from(partition_bits) <= MAX_PARTITION_BITS, "at most 64 partitions");
        let fingerprint = hasher.fingerprint();
        let (version, runs) = (VERSION, Vec::new());
        Self { version, partition_bits, fingerprint, seal: 0, next_run: 0, runs }
    }

    /// The runs that it names, with their lengths in blocks.
    pub(crate) fn files(&self) -> impl Iterator<Item = (RunId, u32)> {
        self.runs.iter().map(|run| (run.id, run.blocks))
    }

    /// Whether this is a manifest that this program understands, made under this key.
    pub(crate) fn is_readable(&self, hasher: &UtxoHasher) -> bool {
        let in_partitions = |run: &ManifestRun| {
            run.partitions.checked_shr(1 << self.partition_bits).unwrap_or(0) == 0
        };
        self.version == VERSION
            && u32::from(self.partition_bits) <= MAX_PARTITION_BITS
            && self.fingerprint == hasher.fingerprint()
            && self.runs.iter().all(in_partitions)
    }

    /// Whether no run is named.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

impl Encode for Manifest {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u8(self.version);
        out.write_u8(self.partition_bits);
        out.write_u64(self.fingerprint);
        out.write_u64(self.seal);
        out.write_u64(self.next_run);
        self.runs.encode(out);
    }
}

impl Decode for Manifest {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            version: reader.u8()?,
            partition_bits: reader.u8()?,
            fingerprint: reader.u64()?,
            seal: reader.u64()?,
            next_run: reader.u64()?,
            runs: Vec::decode(reader)?,
        })
    }
}

impl Encode for ManifestRun {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u64(self.id.0);
        out.write_u32(self.blocks);
        out.write_u64(self.seals.oldest);
        out.write_u64(self.seals.newest);
        out.write_u64(self.partitions);
    }
}

impl Decode for ManifestRun {
    const MIN_ENCODED_LEN: usize = 36;

    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let id = RunId(reader.u64()?);
        let blocks = reader.u32()?;
        let seals = SealRange { oldest: reader.u64()?, newest: reader.u64()? };
        Ok(Self { id, blocks, seals, partitions: reader.u64()? })
    }
}
