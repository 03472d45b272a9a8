//! What a start reads before the chain answers.

use std::sync::Arc;

use godwit_chain::{Chain, ChainOptions, Verdict};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::BlockHeader;
use godwit_primitives::network::{Network, Params};
use godwit_store::disk::Disk;
use godwit_stream::SpanReader;

use crate::counting_disk::CountingDisk;
use crate::datadir::{clock, options, small_chain, submit};

const DIR: &str = "/node";

/// Bytes of a start for each header: its record in the database of 150 bytes with its key, in pages that
/// are part empty, read once for their checksums and once for what they say.
const BYTES_A_HEADER: u64 = 450;

/// Whatever there is: the database's own pages, `xor.dat`, footers of runs.
const BYTES_BESIDES: u64 = 1 << 20;

/// Bytes of a start for each coin: its share of filter and block index, and the blocks that these end in.
const BYTES_A_COIN: u64 = 4;

fn open_on(disk: impl Disk + 'static) -> Chain {
    let options: ChainOptions = options(Params::new(Network::Regtest));
    Chain::open(Arc::new(disk), DIR.into(), options, [7; 16], clock()).expect("a datadir")
}

/// Bytes that a start reads before the chain answers.
fn bytes_of_a_start(disk: &FaultDisk) -> (u64, Chain) {
    let counting = CountingDisk::new(disk, |_| true);
    let chain = open_on(counting.clone());
    (counting.read(), chain)
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
