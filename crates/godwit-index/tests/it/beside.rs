//! A chain, and blocks for it.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use godwit_chain::{Chain, ChainOptions, CoinsMemory, Verdict, structure};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_index::{Follower, Index, IndexError, Outcome, next};
use godwit_primitives::{
    BlockHash, BlockHeader, Network, OutPoint, Params, Transaction, TxIn, TxOut, TxView,
};
use godwit_sim::blocks::mined;
use godwit_sim::chain::generated;
use godwit_sim::plan::ChainPlan;
use godwit_store::exec::Threads;
use godwit_store::{ChainPoint, MAX_BLOCK_FILE_SIZE};
use godwit_stream::{DataStream, SpanReader};
use godwit_testdata::read;
use serde_json::Value;

pub(crate) const DIR: &str = "/node";

/// After every block.
pub(crate) const NOW: i64 = 2_000_000_000;

pub(crate) static BLOCKS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| generated(&ChainPlan { block_weight: 40_000, ..ChainPlan::small(5) }));

pub(crate) fn open(disk: &FaultDisk) -> Chain {
    open_on(disk, Network::Regtest)
}

fn open_on(disk: &FaultDisk, network: Network) -> Chain {
    open_with(disk, options(network), MAX_BLOCK_FILE_SIZE)
}

/// With block files of this size.
pub(crate) fn open_with(disk: &FaultDisk, options: ChainOptions, file_size: u32) -> Chain {
    let (disk, dir) = (Arc::new(disk.clone()), Path::new(DIR).to_path_buf());
    Chain::open_with_file_size(disk, dir, options, [7; 16], NOW, file_size).expect("datadir opens")
}

pub(crate) fn options(network: Network) -> ChainOptions {
    let (params, executor) = (Arc::new(Params::new(network)), Arc::new(Threads::default()));
    ChainOptions::new(params, executor, 2, CoinsMemory::Fixed(4 << 20))
}

pub(crate) fn submit(chain: &mut Chain, block: &[u8]) -> Verdict {
    let received =
        structure(DataStream::from(block), &Arc::clone(chain.params()), &chain.hasher(), None);
    let verdict = chain.submit(received, NOW).expect("no local fault");
    chain.take_events();
    verdict
}

/// A chain of these blocks.
pub(crate) fn chain_of(disk: &FaultDisk, blocks: &[Vec<u8>]) -> Chain {
    let mut chain = open(disk);
    blocks.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    chain
}

/// Where blocks of a chain are, from a height on.
pub(crate) fn points(first: u32, blocks: &[Vec<u8>]) -> impl Iterator<Item = ChainPoint> {
    (first..).zip(blocks).map(|(height, block)| ChainPoint { hash: hash(block), height })
}

/// The blocks of a file in Core's framing.
fn records(file: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut blocks) = (file, Vec::new());
    while let Some((len, after)) = rest.get(4..).and_then(<[u8]>::split_first_chunk::<4>) {
        let (block, others) = after.split_at(u32::from_le_bytes(*len) as usize);
        blocks.push(block);
        rest = others;
    }
    blocks
}

/// The chain goes where it has to go.
pub(crate) fn settle(chain: &mut Chain) {
    chain.settle(NOW).expect("no local fault");
    chain.take_events();
}

/// A chain of the shared data, and what Bitcoin Core said of each of its blocks.
pub(crate) fn real_chain(
    data: &Path,
    network: Network,
    blocks: &str,
    golden: &str,
) -> (Chain, Vec<(ChainPoint, Value)>) {
    let chains = data.join("chains");
    let mut chain = open_on(&FaultDisk::new(), network);
    for block in records(&read(chains.join(blocks))) {
        submit(&mut chain, block);
    }
    settle(&mut chain);
    let golden = String::from_utf8(read(chains.join(golden))).expect("UTF-8");
    let of_line = |line: &str| {
        let said: Value = serde_json::from_str(line).expect("JSON");
        let hash: BlockHash = said["hash"].as_str().expect("a text").parse().expect("a hash");
        let height = said["height"].as_u64().expect("a number") as u32;
        (ChainPoint { hash, height }, said)
    };
    let said: Vec<_> = golden.lines().map(of_line).collect();
    assert_eq!(said.len(), chain.tip_point().height as usize + 1);
    (chain, said)
}

pub(crate) fn header(block: &[u8]) -> BlockHeader {
    SpanReader::new(block).get().expect("a block starts with a header")
}

pub(crate) fn hash(block: &[u8]) -> BlockHash {
    header(block).block_hash()
}

/// A block of a coinbase and perhaps one transaction more, which has no witness, on another block.
pub(crate) fn small_block(
    parent: &[u8],
    height: u32,
    seed: u32,
    other: Option<TxView<'_>>,
) -> Vec<u8> {
    let parent = header(parent);
    let (prev, time) = (parent.block_hash(), parent.time + 1 + seed);
    let [low, high, ..] = height.to_le_bytes();
    let script_sig = [&[2, low, high, 4][..], &time.to_le_bytes()].concat();
    let input =
        TxIn { prevout: OutPoint::NULL, script_sig, sequence: u32::MAX, witness: Vec::new() };
    let output = TxOut { value: 0, script_pubkey: vec![0x51] };
    let coinbase =
        Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 };
    let transactions: Vec<_> = [coinbase].into_iter().chain(other.map(TxView::to_owned)).collect();
    mined(prev, time, &transactions)
}

/// `count` empty blocks on block `fork` of a chain; `seed` makes them others.
pub(crate) fn branch(base: &[Vec<u8>], fork: usize, count: usize, seed: u32) -> Vec<Vec<u8>> {
    assert!(fork >= 128, "two bytes of a script's number");
    let mut parent = base[fork - 1].clone();
    (fork + 1..)
        .take(count)
        .map(|height| {
            parent = small_block(&parent, height as u32, seed, None);
            parent.clone()
        })
        .collect()
}

/// Lets an index go as far as it can.
pub(crate) fn follow<I: Index>(
    chain: &Chain,
    follower: &mut Follower<I>,
) -> Result<(), IndexError> {
    loop {
        let step = next(chain, &follower.state());
        if follower.take(step, &|| false)? != Outcome::GoesOn {
            return Ok(());
        }
    }
}

/// Each operation of an index's disk fails, from what `start` has on, and then the process dies or the power
/// goes. The index follows one chain after the other, as one that goes on; `is_whole` opens what is left and
/// lets it follow the chain. Returns how many operations failed.
pub(crate) fn kill_at_any_operation<I: Index>(
    start: &FaultDisk,
    chains: &[&Chain],
    index: impl Fn(&FaultDisk) -> Result<I, IndexError>,
    is_whole: impl Fn(&FaultDisk, &str),
) -> u64 {
    for n in 1.. {
        let disk = start.copy();
        disk.fail_change(n);
        let taken = index(&disk).and_then(|writer| {
            let mut follower = Follower::new(writer);
            chains.iter().try_for_each(|chain| follow(chain, &mut follower))?;
            follower.close()
        });
        let finished = !disk.has_failed();
        assert_eq!(taken.is_ok(), finished, "operation {n}: {taken:?}");
        for survival in [Survival::All, Survival::Nothing, Survival::Part(n), Survival::Part(!n)] {
            let disk = disk.copy();
            disk.crash(survival);
            is_whole(&disk, &format!("operation {n}, {survival:?}"));
        }
        if finished {
            println!("{} operations failed", n - 1);
            return n - 1;
        }
    }
    unreachable!("an index has an end")
}

/// A bit flips at the beginning, in the middle or at the end of each of the index's `files` files.
pub(crate) fn flip_in_each_file(start: &FaultDisk, files: usize, check: impl Fn(&FaultDisk, &str)) {
    let is_file = |path: &std::path::PathBuf| start.contents(path).is_some();
    let paths: Vec<_> = start.paths().into_iter().filter(is_file).collect();
    assert_eq!(paths.len(), files, "{paths:?}");
    for path in &paths {
        let bytes = start.contents(path).expect("a file");
        for at in [0, bytes.len() / 3, bytes.len() - 1] {
            let disk = start.copy();
            let mut harmed = bytes.clone();
            harmed[at] ^= 4;
            disk.overwrite(path, harmed);
            check(&disk, &format!("{} at {at}", path.display()));
        }
    }
}
