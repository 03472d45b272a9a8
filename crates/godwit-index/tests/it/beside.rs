//! A chain, and blocks for it.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use godwit_chain::{
    BlockMemory, Chain, ChainOptions, CoinWriting, CoinsMemory, PUSH_BYTES, ScriptOptions,
    StartOptions, Verdict, structure,
};
use godwit_fault_disk::FaultDisk;
use godwit_index::{Follower, Index, IndexError, Outcome, next};
use godwit_primitives::{
    BlockHash, BlockHeader, MerkleRoot, Network, OutPoint, Params, Transaction, TxIn, TxOut, work,
};
use godwit_sim::chain::generate;
use godwit_sim::plan::ChainPlan;
use godwit_store::exec::Threads;
use godwit_store::utxo::CacheMinima;
use godwit_stream::{DataStream, SpanReader};

pub(crate) const DIR: &str = "/node";

/// After every block.
const NOW: i64 = 2_000_000_000;

pub(crate) static BLOCKS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut blocks = Vec::new();
    generate(&ChainPlan { block_weight: 40_000, ..ChainPlan::small(5) }, |block| {
        blocks.push(block.bytes.to_vec());
        Ok(())
    })
    .expect("the plan is sound");
    blocks
});

pub(crate) fn open(disk: &FaultDisk) -> Chain {
    open_on(disk, Network::Regtest)
}

pub(crate) fn open_on(disk: &FaultDisk, network: Network) -> Chain {
    let options = ChainOptions {
        params: Arc::new(Params::new(network)),
        assume_valid: None,
        executor: Arc::new(Threads::default()),
        workers: 2,
        scripts: ScriptOptions::default(),
        coins_memory: CoinsMemory::Fixed(4 << 20),
        cache_minima: CacheMinima::PRODUCT,
        stop_at_height: None,
        prune_bytes: None,
        block_memory: BlockMemory::default(),
        coin_writing: CoinWriting::PRODUCT,
        scrub: None,
        push_bytes: PUSH_BYTES,
        start: StartOptions::default(),
    };
    Chain::open(Arc::new(disk.clone()), Path::new(DIR).to_path_buf(), options, [7; 16], NOW)
        .expect("datadir opens")
}

pub(crate) fn submit(chain: &mut Chain, block: &[u8]) -> Verdict {
    let received =
        structure(DataStream::from(block), &Arc::clone(chain.params()), &chain.hasher(), None);
    let verdict = chain.submit(received, NOW).expect("no local fault");
    chain.take_events();
    verdict
}

/// The blocks of a file in Core's framing.
pub(crate) fn records(file: &[u8]) -> Vec<&[u8]> {
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

fn header(block: &[u8]) -> BlockHeader {
    SpanReader::new(block).get().expect("a block starts with a header")
}

pub(crate) fn hash(block: &[u8]) -> BlockHash {
    header(block).block_hash()
}

/// A block of a coinbase alone, on another one.
fn empty_block(prev: BlockHash, height: u32, time: u32) -> Vec<u8> {
    let [low, high, ..] = height.to_le_bytes();
    let script_sig = [&[2, low, high, 4][..], &time.to_le_bytes()].concat();
    let input =
        TxIn { prevout: OutPoint::NULL, script_sig, sequence: u32::MAX, witness: Vec::new() };
    let output = TxOut { value: 0, script_pubkey: vec![0x51] };
    let coinbase =
        Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 };
    let mut header = BlockHeader {
        version: 0x2000_0000,
        prev_blockhash: prev,
        merkle_root: MerkleRoot::from_bytes(coinbase.txid().to_bytes()),
        time,
        bits: 0x207f_ffff,
        nonce: 0,
    };
    let target = work::expand_target(header.bits).target;
    while work::hash_value(&header.block_hash()) > target {
        header.nonce += 1;
    }
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&header);
    bytes.write_compact_size(1);
    bytes.put(&coinbase);
    bytes.as_slice().to_vec()
}

/// `count` empty blocks on block `fork` of a chain; `seed` makes them others.
pub(crate) fn branch(base: &[Vec<u8>], fork: usize, count: usize, seed: u32) -> Vec<Vec<u8>> {
    assert!(fork >= 128, "two bytes of a script's number");
    let mut parent = base[fork - 1].clone();
    (fork + 1..)
        .take(count)
        .map(|height| {
            let before = header(&parent);
            parent = empty_block(before.block_hash(), height as u32, before.time + 1 + seed);
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
        let step = next(chain, &follower.position());
        if follower.take(step, &|| false)? != Outcome::GoesOn {
            return Ok(());
        }
    }
}
