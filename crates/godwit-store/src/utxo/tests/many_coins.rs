//! As many coins as main has, of which only what memory holds is there: filters, block indexes, a footer.
//! Their entries are a hole in the file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use godwit_stream::DataStream;

use super::super::entry_sum::EntrySum;
use super::super::filter::Filter;
use super::super::fixtures::{coin, hasher, outpoint};
use super::super::manifest::ManifestRun;
use super::super::run::format::{
    BLOCK, BLOCK_HEADER, BlockKind, Footer, PAYLOAD, RunId, SegmentMeta, seal_block,
};
use super::super::run::segment::SealRange;
use super::*;
use crate::disk::RealDisk;

const COINS: u64 = 170_000_000;
/// That of a chain's store.
const PARTITION_BITS: u8 = 4;
/// Of 47 bytes each.
const COINS_PER_BLOCK: u64 = PAYLOAD as u64 / 47;
const MIB: u64 = 1 << 20;

struct Writer {
    file: File,
    run: RunId,
    next: u32,
}

impl Writer {
    fn write(&mut self, kind: BlockKind, bytes: &[u8]) {
        for payload in bytes.chunks(PAYLOAD) {
            let mut block = [0; BLOCK];
            block[BLOCK_HEADER..][..payload.len()].copy_from_slice(payload);
            seal_block(&mut block, self.run, self.next, kind, 1, payload.len());
            self.file.write_all_at(&block, u64::from(self.next) * BLOCK as u64).unwrap();
            self.next += 1;
        }
    }

    /// A segment with so many entries, none of which is written.
    fn segment(&mut self, partition: u8, entries: u64) -> SegmentMeta {
        let first = u64::from(partition) << (64 - PARTITION_BITS);
        let last = first | u64::MAX >> PARTITION_BITS;
        let (blocks, filter_bytes) =
            (entries.div_ceil(COINS_PER_BLOCK), Filter::full_bytes(entries));
        let meta = SegmentMeta {
            partition,
            first_block: self.next,
            blocks: blocks as u32,
            filter_bytes: filter_bytes as u32,
            entries,
            tombstones: 0,
            min_key: first,
            max_key: last,
            sum: Some(EntrySum::default()),
        };
        self.next = meta.filter_block();
        // Half of its bits.
        let word = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).to_le_bytes();
        let filter: Vec<u8> = (0..filter_bytes / 8).flat_map(word).collect();
        self.write(BlockKind::Filter, &filter);
        let key = |n: u64| ((first + (last - first) / blocks * n) >> 32) as u32;
        let index: Vec<u8> = (0..blocks).flat_map(|n| key(n).to_le_bytes()).collect();
        self.write(BlockKind::Index, &index);
        assert_eq!(self.next, meta.end_block());
        meta
    }
}

/// One run with all coins.
fn coins_of_main(dir: &Path) -> Manifest {
    let run = RunId(0);
    let mut writer = Writer { file: File::create(run.path(dir)).unwrap(), run, next: 0 };
    let partitions = 0..1 << PARTITION_BITS;
    let segments = partitions.map(|partition| writer.segment(partition, COINS >> PARTITION_BITS));
    let footer = Footer {
        run,
        fingerprint: hasher().fingerprint(),
        partition_bits: PARTITION_BITS,
        segments: segments.collect(),
    };
    let mut out = DataStream::new();
    out.put(&footer);
    writer.write(BlockKind::Footer, out.as_slice());
    let (blocks, seals) = (writer.next, SealRange { oldest: 1, newest: 1 });
    let partitions = (1 << (1 << PARTITION_BITS)) - 1;
    Manifest {
        seal: 1,
        next_run: 1,
        runs: vec![ManifestRun { id: run, blocks, seals, partitions }],
        ..Manifest::empty(PARTITION_BITS, &hasher())
    }
}

#[test]
fn filters_and_indexes_of_170_million_coins_keep_within_any_budget() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = coins_of_main(dir.path());
    let disk = StoreDisk::new(Arc::new(RealDisk));
    // The least of all, what -memory=448 and 512 leave beside main's headers, Core's -dbcache, the most of a
    // default.
    for mib in [4, 17, 66, 450, 3295] {
        let config = UtxoConfig { budget: mib * MIB, minima: CacheMinima::PRODUCT };
        let mut store =
            UtxoStore::open(&disk, dir.path(), hasher(), &manifest, config, &executor()).unwrap();
        assert_eq!(store.shape().entries, COINS);
        let used = store.memory_used();
        println!("{mib} MiB: {used:?}");
        let (all, filters) = (mib * MIB, used.filters as u64);
        assert!(filters <= all / 4 && used.indexes as u64 <= all / 8, "{used:?}");
        // No more is given up than has to be: a filter is halved until it is too small, and then dropped.
        let full = Filter::full_bytes(COINS >> PARTITION_BITS) << PARTITION_BITS;
        assert!(filters == full || filters > all / 16 || mib < 66, "{used:?}");
        // With coins in memory and their flush, too.
        for n in 0..30_000 {
            add(&mut store, &outpoint(n), &coin(n), true);
            assert!(
                store.memory_used().total() as u64 <= all,
                "{:?} after {n}",
                store.memory_used()
            );
            store.poll().unwrap();
            if store.wants_rotation() {
                store.rotate_blocking().unwrap();
            }
        }
        let used = store.memory_used();
        assert!(used.total() as u64 <= all, "{used:?}");
    }
}
