//! Block files of another program: a scan finds the records that a naive one finds, tells of every
//! other byte that was written, and reads what it found.
//!
//! The framing of an import is in `godwit-store` as a whole; `godwit-chain` sees headers and blocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_fault_disk::FaultDisk;
use godwit_primitives::{BlockHeader, HEADER_SIZE, Network, Params};
use godwit_store::MAX_BLOCK_SERIALIZED_SIZE;
use godwit_store::disk::{Disk, StoreDisk};
use godwit_store::scan::{
    BlockFileScanner, RecordPlace, Scanned, ScannedBlock, SkipReason, SkippedBytes,
};
use godwit_stream::{BufferPool, Decode, Obfuscation, PoolLimits, SpanReader};

use crate::input::Input;
use crate::memory::within;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const DIR: &str = "/core/blocks";

/// A file as a naive scan sees it: its bytes in the clear and as they lie there.
struct Naive {
    clear: Vec<u8>,
    raw: Vec<u8>,
}

impl Naive {
    /// Offset and length of each block, and where a torn record starts.
    fn records(&self) -> (Vec<(usize, usize)>, Option<usize>) {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < self.clear.len() {
            let rest = &self.clear[at..];
            let length = rest.strip_prefix(&MAGIC).and_then(|rest| rest.first_chunk());
            let length = length
                .map(|bytes| u32::from_le_bytes(*bytes))
                .filter(|length| (HEADER_SIZE as u32..=MAX_BLOCK_SERIALIZED_SIZE).contains(length));
            match length.map(|length| length as usize) {
                None => at += 1,
                Some(length) if 8 + length <= rest.len() => {
                    found.push((at + 8, length));
                    at += 8 + length;
                }
                Some(_) => return (found, Some(at)),
            }
        }
        (found, None)
    }
}

/// Whether there is a key, of the right length, and a single file; the key; the length of the first of
/// two files; then their bytes, in the clear.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.u8();
    let key: [u8; 8] = input.array();
    let first = usize::from(input.u16());
    let (has_key, short_key, single) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    let key = if has_key { key } else { [0; 8] };
    let mut files = vec![input.bytes(if single { usize::MAX } else { first }).to_vec()];
    if !single {
        files.push(input.rest().to_vec());
    }
    let files: Vec<Naive> = files.into_iter().map(|clear| obfuscated(clear, key)).collect();
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new(DIR)).expect("an empty disk");
    let path = |index: usize| PathBuf::from(format!("{DIR}/blk{index:05}.dat"));
    for (index, file) in files.iter().enumerate() {
        disk.overwrite(&path(index), file.raw.clone());
    }
    let key_file = if short_key { key[..7].to_vec() } else { key.to_vec() };
    if has_key {
        disk.overwrite(&Path::new(DIR).join("xor.dat"), key_file);
    }
    let source = if single { path(0) } else { PathBuf::from(DIR) };
    let scanner = BlockFileScanner::open(&StoreDisk::new(Arc::new(disk)), &source, MAGIC);
    let Ok(scanner) = scanner else {
        assert!(has_key && short_key);
        return;
    };
    assert!(!(has_key && short_key));
    check_scan(&scanner, &files);
}

fn obfuscated(clear: Vec<u8>, key: [u8; 8]) -> Naive {
    let mut raw = clear.clone();
    Obfuscation::new(key).apply(&mut raw, 0);
    Naive { clear, raw }
}

fn check_scan(scanner: &BlockFileScanner, files: &[Naive]) {
    let total: usize = files.iter().map(|file| file.clear.len()).sum();
    let mut blocks: Vec<Vec<(usize, usize)>> = vec![Vec::new(); files.len()];
    let mut torn = vec![None; files.len()];
    let mut told: Vec<Vec<bool>> = files.iter().map(|file| vec![false; file.clear.len()]).collect();
    let mut tell = |file: u32, start: usize, len: usize| {
        let bytes = &mut told[file as usize][start..start + len];
        assert!(!bytes.contains(&true), "told twice");
        bytes.fill(true);
    };
    let mut scan = scanner.scan();
    // A window of the file, and nothing that grows.
    while let Some(found) = within(64 << 10, || scan.next()) {
        match found.expect("the disk does not fail") {
            Scanned::Block(ScannedBlock { place: RecordPlace { file, offset, len }, header }) => {
                let (start, len) = (offset as usize, len as usize);
                tell(file, start - 8, 8 + len);
                let bytes = &files[file as usize].clear[start..start + len];
                assert_eq!(BlockHeader::decode(&mut SpanReader::new(bytes)), Ok(header));
                blocks[file as usize].push((start, len));
            }
            Scanned::Skipped(SkippedBytes { file, offset, len, reason }) => {
                tell(file, offset as usize, len as usize);
                if reason == SkipReason::Truncated {
                    torn[file as usize] = Some(offset as usize);
                }
            }
        }
    }
    assert_eq!(scan.bytes_passed(), total as u64);
    assert_eq!(scanner.total_bytes(), total as u64);
    for (index, file) in files.iter().enumerate() {
        assert_eq!((&blocks[index], torn[index]), (&file.records().0, file.records().1));
        let never_written =
            |(at, told): (usize, &bool)| *told || file.clear[at] == 0 || file.raw[at] == 0;
        assert!(told[index].iter().enumerate().all(never_written), "bytes that nobody told of");
    }
    read_all(scanner, files);
}

fn read_all(scanner: &BlockFileScanner, files: &[Naive]) {
    let pool = BufferPool::new(PoolLimits { buffers: 0, buffer_bytes: 0, total_bytes: 0 });
    for found in scanner.scan() {
        let Ok(Scanned::Block(ScannedBlock { place, .. })) = found else { continue };
        let start = place.offset as usize;
        let read = scanner.read(&place, &pool).expect("the disk does not fail");
        let clear = &files[place.file as usize].clear;
        assert_eq!(read.as_slice(), &clear[start..start + place.len as usize]);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let genesis = Params::new(Network::Regtest).genesis_block();
    let record = |len: u32| [&MAGIC[..], &len.to_le_bytes(), &genesis].concat();
    let whole = record(genesis.len() as u32);
    let longer = [record(genesis.len() as u32 + 5), vec![9; 5]].concat();
    let file = [
        &whole[..],
        &[0; 40],
        &whole,
        b"junk\xfa\xbf\xfa",
        &record(79),
        &longer,
        &MAGIC,
        &whole,
        &record(4_000_001),
        &vec![0; 17_000],
        &whole,
        &record(1_000),
    ]
    .concat();
    let settings = |flags: u8, first: u16| {
        [&[flags, 1, 2, 0xfa, 4, 0xbf, 6, 7, 0xda][..], &first.to_le_bytes()].concat()
    };
    let whole_file = [(4, 0), (5, 0), (0, 700), (1, 20), (3, 0)]
        .map(|(flags, first)| [settings(flags, first), file.clone()].concat());
    let mut seeds = whole_file.to_vec();
    if let Some(chain) = godwit_testdata::shared_file("chains/regtest_0_150.dat.zst") {
        seeds.push([&settings(1, 900)[..], &chain[..4_000.min(chain.len())]].concat());
    }
    seeds
}
