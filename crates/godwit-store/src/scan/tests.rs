use std::sync::Arc;

use godwit_fault_disk::FaultDisk;
use proptest::prelude::*;

use super::*;
use crate::fixtures::{MAGIC, block, framed, header};

const DIR: &str = "/core/blocks";

fn fresh() -> (FaultDisk, StoreDisk) {
    let fault = FaultDisk::new();
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    disk.create_dir_all(Path::new(DIR)).unwrap();
    (fault, disk)
}

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// What a scan finds, with the bytes of the records.
fn scan(disk: &StoreDisk, path: &Path) -> (Vec<Vec<u8>>, Vec<SkippedBytes>) {
    let scanner = BlockFileScanner::open(disk, path, MAGIC).unwrap();
    let pool = BufferPool::new(crate::BLOCK_BUFFERS);
    let (mut blocks, mut skipped) = (Vec::new(), Vec::new());
    let mut scan = scanner.scan();
    for found in &mut scan {
        match found.unwrap() {
            Scanned::Block(found) => {
                let bytes = scanner.read(&found.place, &pool).unwrap().as_slice().to_vec();
                assert_eq!(bytes[..HEADER_SIZE], found.header.to_bytes());
                blocks.push(bytes);
            }
            Scanned::Skipped(bytes) => skipped.push(bytes),
        }
    }
    assert_eq!(scan.bytes_passed(), scanner.total_bytes());
    (blocks, skipped)
}

/// A block of whose bytes a decoder takes all, or with `len` the first so many. The nonce says it.
fn decoded_len(record: &[u8]) -> Option<usize> {
    let nonce = u32::from_le_bytes(record[HEADER_SIZE - 4..HEADER_SIZE].try_into().unwrap());
    Some(nonce as usize).filter(|len| (HEADER_SIZE..=record.len()).contains(len))
}

/// Where the blocks of one file are by Core's algorithm, over bytes that lie in memory. `decode` tells how
/// long the block of a record is that Core decodes, as it does where the parent is known and the block not.
fn naive(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<usize>) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut rewind = 0;
    while let Some(at) = (rewind..bytes.len()).find(|at| bytes[*at] == MAGIC[0]) {
        rewind = at + 1;
        let Some(frame) = bytes.get(at..at + 8) else { break };
        let len = u32::from_le_bytes(frame[4..].try_into().unwrap()) as usize;
        if frame[..4] != MAGIC || !(80..=4_000_000).contains(&len) {
            continue;
        }
        let Some(record) = bytes.get(at + 8..at + 8 + len) else { break };
        found.push(at + 8..at + 8 + len);
        rewind = at + 8 + decode(record).unwrap_or(len);
    }
    found
}

/// All that is found where each block is decoded.
fn scan_all(disk: &StoreDisk, path: &Path) -> Vec<usize> {
    let scanner = BlockFileScanner::open(disk, path, MAGIC).unwrap();
    let pool = BufferPool::new(crate::BLOCK_BUFFERS);
    let found = scanner.scan().filter_map(|found| match found.unwrap() {
        Scanned::Block(block) => Some(block),
        Scanned::Skipped(_) => None,
    });
    let (mut waiting, mut all) = (Vec::from_iter(found), std::collections::BTreeSet::new());
    while let Some(ScannedBlock { place, .. }) = waiting.pop() {
        let is_new = all.insert(place.offset as usize);
        let bytes = scanner.read(&place, &pool).unwrap();
        let len = decoded_len(bytes.as_slice()).filter(|len| *len < place.len as usize);
        if let Some(len) = len.filter(|_| is_new) {
            waiting.extend(scanner.scan_behind(place, len as u32).map(Result::unwrap));
        }
    }
    Vec::from_iter(all)
}

fn skipped(file: u32, offset: u64, len: u64, reason: SkipReason) -> SkippedBytes {
    SkippedBytes { file, offset, len, reason }
}

#[test]
fn records_are_found_through_garbage() {
    let (fault, disk) = fresh();
    let blocks = [block(1, 80), block(2, 40_000), block(3, 300)];
    let garbage = [&MAGIC[..3], b"noise", &MAGIC, &79u32.to_le_bytes(), &MAGIC].concat();
    let mut bytes = framed(&blocks[0]);
    bytes.extend(&garbage);
    bytes.extend(framed(&blocks[1]));
    bytes.extend(framed(&blocks[2]));
    bytes.extend(b"tail");
    let end = bytes.len() as u64;
    fault.overwrite(&at("any.dat"), bytes);
    let (found, passed) = scan(&disk, &at("any.dat"));
    assert_eq!(found, blocks);
    let expected = [
        skipped(0, 88, garbage.len() as u64, SkipReason::NotARecord),
        skipped(0, end - 4, 4, SkipReason::NotARecord),
    ];
    assert_eq!(passed, expected);
}

#[test]
fn zeros_between_records_are_passed_over_silently() {
    let (fault, disk) = fresh();
    let gap = vec![0; 3 * WINDOW + 5];
    let bytes = [framed(&block(1, 500)), gap.clone(), framed(&block(2, 90)), gap].concat();
    fault.overwrite(&at("any.dat"), bytes);
    assert_eq!(scan(&disk, &at("any.dat")), (vec![block(1, 500), block(2, 90)], vec![]));
}

#[test]
fn a_last_record_cut_at_any_byte_is_reported_and_the_others_found() {
    let (fault, disk) = fresh();
    let first = framed(&block(1, 200));
    let last = framed(&block(2, 100));
    for cut in 0..last.len() {
        fault.overwrite(&at("any.dat"), [&first[..], &last[..cut]].concat());
        let reason = if cut < 8 { SkipReason::NotARecord } else { SkipReason::Truncated };
        let expected = (cut > 0).then_some(skipped(0, first.len() as u64, cut as u64, reason));
        let (found, passed) = scan(&disk, &at("any.dat"));
        assert_eq!(found, [block(1, 200)], "cut at {cut}");
        assert_eq!(passed, Vec::from_iter(expected), "cut at {cut}");
    }
}

#[test]
fn both_sides_of_the_length_limits() {
    let (fault, disk) = fresh();
    for (len, found) in [(79, 0), (80, 1), (4_000_000, 1), (4_000_001, 0)] {
        let mut bytes = [&MAGIC[..], &(len as u32).to_le_bytes(), &header(1).to_bytes()].concat();
        bytes.resize(8 + len, 0);
        fault.overwrite(&at("any.dat"), bytes);
        assert_eq!(scan(&disk, &at("any.dat")).0.len(), found, "{len}");
    }
}

#[test]
fn a_directory_is_read_in_the_order_of_numbers_with_its_key() {
    let (fault, disk) = fresh();
    let key = Obfuscation::new([0x5a, 1, 2, 3, 0xff, 5, 6, 7]);
    let mut expected = Vec::new();
    for (index, number) in [0, 1, 2, 10, 99_999, 100_000].into_iter().enumerate() {
        let blocks = [block(number, 100 + index), block(number + 1, 20_001)];
        let mut bytes = blocks.each_ref().map(|block| framed(block)).concat();
        key.apply(&mut bytes, 0);
        // Core preallocates past its obfuscation.
        bytes.resize(bytes.len() + 1000, 0);
        fault.overwrite(&at(&format!("blk{number:05}.dat")), bytes);
        expected.extend(blocks);
    }
    fault.overwrite(&at("rev00000.dat"), framed(&block(77, 100)));
    fault.overwrite(&at("xor.dat"), key.key().to_vec());
    assert_eq!(scan(&disk, Path::new(DIR)), (expected.clone(), vec![]));
    // One of Core's files alone, and a file of another name beside the key.
    assert_eq!(scan(&disk, &at("blk00001.dat")).0, expected[2..4]);
    fault.overwrite(&at("plain.dat"), framed(&block(5, 90)));
    assert_eq!(scan(&disk, &at("plain.dat")).0, [block(5, 90)]);
}

#[test]
fn what_is_no_source_of_blocks_is_an_error() {
    let (fault, disk) = fresh();
    let open = |path: &Path| BlockFileScanner::open(&disk, path, MAGIC).err();
    let empty = StoreError::NoBlockFiles { path: PathBuf::from(DIR) };
    assert_eq!(open(Path::new(DIR)), Some(empty));
    assert!(open(&at("absent.dat")).unwrap().is_not_found());
    fault.overwrite(&at("blk00000.dat"), vec![]);
    assert_eq!(open(Path::new(DIR)), None);
    for len in [0, 7, 9] {
        fault.overwrite(&at("xor.dat"), vec![0; len]);
        let damaged = StoreError::damaged(&at("xor.dat"), 0, Damage::Format);
        assert_eq!(open(Path::new(DIR)), Some(damaged));
    }
}

#[test]
fn a_read_error_ends_the_scan() {
    let (fault, disk) = fresh();
    fault.overwrite(&at("blk00000.dat"), framed(&block(1, 100)));
    fault.overwrite(&at("blk00001.dat"), framed(&block(2, 100)));
    let scanner = BlockFileScanner::open(&disk, Path::new(DIR), MAGIC).unwrap();
    fault.overwrite(&at("blk00000.dat"), vec![1; 3]);
    let mut scan = scanner.scan();
    assert!(scan.next().unwrap().is_err());
    assert!(scan.next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Pieces of everything that can confuse a scan, against Core's algorithm byte by byte.
    #[test]
    fn finds_what_core_finds(
        pieces in prop::collection::vec(
            prop_oneof![
                (80usize..200, any::<u32>()).prop_map(|(len, nonce)| framed(&block(nonce, len))),
                (80usize..200, 80u32..200).prop_map(|(len, nonce)| framed(&block(nonce, len))),
                (80u32..200, 0u32..400).prop_map(|(len, more)| {
                    let mut record = framed(&block(len, len as usize));
                    record[4..8].copy_from_slice(&(len + more).to_le_bytes());
                    record
                }),
                (17_000usize..40_000).prop_map(|len| framed(&block(1, len))),
                prop::collection::vec(any::<u8>(), 0..30),
                (0usize..4).prop_map(|len| MAGIC[..len].to_vec()),
                prop::sample::select(vec![0u32, 79, 80, 120, 4_000_000, 4_000_001, u32::MAX])
                    .prop_map(|len| [&MAGIC[..], &len.to_le_bytes()].concat()),
                (0usize..20_000).prop_map(|len| vec![0; len]),
                (1usize..50).prop_map(|len| vec![MAGIC[0]; len]),
            ],
            0..12,
        ),
        cut in 0usize..50,
    ) {
        let mut bytes = pieces.concat();
        bytes.truncate(bytes.len().saturating_sub(cut));
        let (fault, disk) = fresh();
        let expected: Vec<_> =
            naive(&bytes, |_| None).into_iter().map(|place| bytes[place].to_vec()).collect();
        let total = bytes.len() as u64;
        fault.overwrite(&at("any.dat"), bytes.clone());
        let (found, passed) = scan(&disk, &at("any.dat"));
        let framed: u64 = found.iter().map(|block| block.len() as u64 + 8).sum();
        let skipped: u64 = passed.iter().map(|skipped| skipped.len).sum();
        prop_assert!(framed + skipped <= total);
        prop_assert_eq!(found, expected);
        // Where blocks are decoded, at least what Core finds: it passes over what lies inside the last block
        // of a record that claims too much.
        let all = scan_all(&disk, &at("any.dat"));
        for place in naive(&bytes, decoded_len) {
            prop_assert!(all.contains(&place.start), "{place:?} is not in {all:?}");
        }
    }
}

/// A record that claims more than its block hides those behind it from no one who decodes it.
#[test]
fn blocks_that_a_record_claims_are_found() {
    let (fault, disk) = fresh();
    let path = at("any.dat");
    let whole = |len: usize| framed(&block(len as u32, len));
    let claiming = |len: usize, more: usize| {
        let mut bytes = whole(len);
        bytes[4..8].copy_from_slice(&((len + more) as u32).to_le_bytes());
        bytes
    };
    let start = |bytes: &[Vec<u8>], n: usize| bytes[..n].concat().len() + 8;
    // All of the next record, a part of it, two, to the end; records within the record that is claimed.
    for more in [1, 8, 87, 88, 107, 108, 109, 300, 316, 317, 600, 711, 712] {
        let records =
            [whole(90), claiming(120, more), whole(100), claiming(200, 50), whole(300), whole(80)];
        fault.overwrite(&path, records.concat());
        let expected: Vec<usize> = (0..records.len()).map(|n| start(&records, n)).collect();
        assert_eq!(scan_all(&disk, &path), expected, "{more}");
        assert_eq!(naive(&records.concat(), decoded_len).len(), records.len());
    }
    // The scan behind ends where the other one has been.
    let records = [claiming(120, 108), whole(100), whole(300), whole(80)];
    fault.overwrite(&path, records.concat());
    let scanner = BlockFileScanner::open(&disk, &path, MAGIC).unwrap();
    let place = RecordPlace { file: 0, offset: 8, len: 228 };
    let behind: Vec<_> =
        scanner.scan_behind(place, 120).map(|found| found.unwrap().place).collect();
    assert_eq!(behind, [RecordPlace { file: 0, offset: start(&records, 1) as u64, len: 100 }]);
}
