//! What a start reads before the chain answers.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use godwit_chain::{Chain, ChainOptions, Verdict};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::BlockHeader;
use godwit_primitives::network::{Network, Params};
use godwit_store::disk::{Disk, DiskFile, DiskLock, OpenMode};
use godwit_stream::{DataStream, SpanReader};

use crate::datadir::{clock, options, small_chain, submit};

const DIR: &str = "/node";

/// Bytes of a start for each header: its record in the database of 150 bytes with its key, in pages that
/// are part empty, read once for their checksums and once for what they say.
const BYTES_A_HEADER: u64 = 450;

/// Whatever there is: the database's own pages, `xor.dat`, footers of runs.
const BYTES_BESIDES: u64 = 1 << 20;

/// Bytes of a start for each coin: its share of filter and block index, and the blocks that these end in.
const BYTES_A_COIN: u64 = 4;

/// Counts the bytes that are read.
#[derive(Clone)]
struct CountingDisk {
    disk: FaultDisk,
    read: Arc<AtomicU64>,
}

impl CountingDisk {
    fn new(disk: &FaultDisk) -> Self {
        Self { disk: disk.clone(), read: Arc::default() }
    }
}

struct CountingFile {
    file: Arc<dyn DiskFile>,
    read: Arc<AtomicU64>,
}

impl Disk for CountingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(CountingFile { file, read: Arc::clone(&self.read) }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.disk.list(path)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskLock>>> {
        self.disk.try_lock(path)
    }
}

impl DiskFile for CountingFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.file.read_exact_at(offset, out)
    }

    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.file.read_or_fetch_at(offset, out)
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        self.file.read_stream_at(offset, len, out)
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn file_len(&self) -> io::Result<u64> {
        self.file.file_len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}

fn open_on(disk: impl Disk + 'static) -> Chain {
    let options: ChainOptions = options(Params::new(Network::Regtest));
    Chain::open(Arc::new(disk), DIR.into(), options, [7; 16], clock()).expect("a datadir")
}

/// Bytes that a start reads before the chain answers.
fn bytes_of_a_start(disk: &FaultDisk) -> (u64, Chain) {
    let counting = CountingDisk::new(disk);
    let read = Arc::clone(&counting.read);
    let chain = open_on(counting);
    (read.load(Ordering::Relaxed), chain)
}

fn submit_all(chain: &mut Chain, blocks: &[Vec<u8>]) {
    for block in blocks {
        assert_eq!(submit(chain, block), Verdict::Connected);
    }
}

fn header(block: &[u8]) -> BlockHeader {
    SpanReader::new(block).get().expect("a block starts with a header")
}

/// Headers on top of `tip`, with the work that regtest asks for.
fn headers_above(tip: BlockHeader, count: u64) -> Vec<BlockHeader> {
    let mut headers: Vec<BlockHeader> = Vec::new();
    let mut last = tip;
    for _ in 0..count {
        let mut next =
            BlockHeader { prev_blockhash: last.block_hash(), time: last.time + 1, ..last };
        while next.block_hash().to_bytes()[31] >= 0x7f {
            next.nonce = next.nonce.wrapping_add(1);
        }
        headers.push(next);
        last = next;
    }
    headers
}

#[test]
fn a_start_reads_so_many_bytes_for_each_header_and_none_of_the_blocks() {
    let blocks = small_chain();
    for count in [0, 4_000, 20_000] {
        let disk = FaultDisk::new();
        let mut chain = open_on(disk.clone());
        submit_all(&mut chain, &blocks);
        let tip = header(blocks.last().expect("blocks"));
        for header in headers_above(tip, count) {
            chain.accept_header(&header, header.block_hash(), clock()).expect("a good header");
        }
        let coins = chain.utxo_stats().expect("no fault").totals.txouts;
        chain.close().expect("no fault");
        let (read, chain) = bytes_of_a_start(&disk);
        let headers = chain.tree().len() as u64;
        assert!(headers > count);
        eprintln!("{headers} headers and {coins} coins: {read} bytes");
        let most = BYTES_BESIDES + BYTES_A_HEADER * headers + BYTES_A_COIN * coins;
        assert!(read <= most, "{read} bytes, at most {most}");
    }
}

/// The frames that a start finds behind the last commit are read, and not what is in them.
#[test]
fn a_start_does_not_wait_for_what_had_arrived_or_is_to_be_applied_again() {
    let blocks = small_chain();
    let disk = FaultDisk::new();
    let mut chain = open_on(disk.clone());
    submit_all(&mut chain, &blocks);
    let tip = chain.tip_point();
    drop(chain);
    let stored: usize = blocks.iter().map(Vec::len).sum();
    let (read, mut chain) = bytes_of_a_start(&disk);
    eprintln!("{stored} bytes of blocks, {read} read");
    assert_eq!(chain.tip_point().height, 0, "nothing is applied yet");
    assert!(read < stored as u64 / 4, "{read} of {stored}");
    chain.settle(clock()).expect("no fault");
    assert_eq!(chain.tip_point(), tip);
}
