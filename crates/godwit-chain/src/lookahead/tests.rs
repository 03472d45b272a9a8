use std::io;
use std::path::Path;

use godwit_fault_disk::FaultDisk;
use godwit_primitives::{Network, Params};
use godwit_store::error::{IoFailure, Operation};
use godwit_store::exec::Threads;
use godwit_store::utxo::CacheMinima;

use super::*;
use crate::chain::{BlockMemory, ChainOptions};

fn chain() -> Chain {
    let options = ChainOptions {
        params: Arc::new(Params::new(Network::Regtest)),
        assume_valid: None,
        executor: Arc::new(Threads::default()),
        workers: 1,
        cache_bytes: 4 << 20,
        cache_minima: CacheMinima::PRODUCT,
        stop_at_height: None,
        prune_bytes: None,
        block_memory: BlockMemory::default(),
        clock: || 2_000_000_000,
    };
    Chain::open(Arc::new(FaultDisk::new()), "/node".into(), options, [7; 16]).expect("a datadir")
}

fn not_found() -> IoFailure {
    let error = io::Error::from(io::ErrorKind::NotFound);
    IoFailure::new(Path::new("/node/blocks/blk00000.dat"), Operation::Open, &error)
}

/// Both reports of a job, with this error.
fn reports(token: u64, error: &StoreError) -> [Message; 2] {
    [
        Message::Loaded { token, block: Err(error.clone()) },
        Message::Fetched { token, prefetched: Err(error.clone()) },
    ]
}

#[test]
fn an_error_about_a_block_that_is_not_in_line_any_more_is_fatal_only_when_the_store_is_closed() {
    let mut chain = chain();
    let (open, closed) = (StoreError::Io(not_found()), StoreError::Closed(not_found()));
    let (token, id) = (chain.token(), chain.tree.genesis());
    let in_line = || Ahead { id, token, stage: Stage::Loading };
    for message in reports(token, &open) {
        chain.ahead.push_back(in_line());
        let result = chain.receive(message);
        assert!(matches!(result, Err(ChainError::Store(StoreError::Io(_)))), "{result:?}");
        chain.ahead.clear();
    }
    for message in reports(token, &open) {
        chain.receive(message).expect("nobody waits for it");
    }
    for message in reports(token, &closed) {
        let result = chain.receive(message);
        assert!(matches!(result, Err(ChainError::Store(StoreError::Closed(_)))), "{result:?}");
    }
}

#[test]
fn a_candidate_that_the_index_knows_no_place_of_is_an_error() {
    let mut chain = chain();
    let genesis = chain.tree.node(chain.tree.genesis()).header;
    let mut header = genesis;
    header.prev_blockhash = genesis.block_hash();
    let hash = header.block_hash();
    let id = chain.tree.insert(header, hash, chain.tree.genesis());
    // As a damaged index has it: the block was received, and never pruned.
    chain.tree.node_mut(id).tx_count = 1;
    chain.candidates.add(&chain.tree, id, chain.tip);
    let result = chain.settle();
    assert!(matches!(result, Err(ChainError::DamagedIndex(h)) if h == hash), "{result:?}");
}
