use std::io;
use std::path::Path;

use godwit_fault_disk::FaultDisk;
use godwit_store::error::{IoFailure, Operation};

use super::*;
use crate::chain::tests::chain;

fn denied() -> IoFailure {
    let error = io::Error::from(io::ErrorKind::PermissionDenied);
    IoFailure::new(Path::new("/node/blocks/blk00000.dat"), Operation::Open, &error)
}

/// Both answers of a job, with this error.
fn answers(token: u64, error: &StoreError) -> [Answer; 2] {
    [
        Answer { tokens: vec![token], found: Found::Block(Err(error.clone())) },
        Answer { tokens: vec![token], found: Found::Coins(Err(error.clone())) },
    ]
}

#[test]
fn an_error_about_a_block_that_is_not_queued_any_more_is_fatal_only_when_the_store_is_closed() {
    let mut chain = chain(&FaultDisk::new());
    let (open, closed) = (StoreError::Io(denied()), StoreError::Closed(denied()));
    let (token, id) = (1, chain.index.tree().genesis());
    // That many answers follow.
    chain.lookahead.jobs = 6;
    let queued = || Ahead { id, token, again: false, stage: Stage::Loading };
    for answer in answers(token, &open) {
        chain.lookahead.queue.push_back(queued());
        let result = chain.lookahead.answered(&chain.index, &chain.coins, answer);
        assert!(matches!(result, Err(LookaheadError::Store(StoreError::Io(_)))), "{result:?}");
        chain.lookahead.clear_queue();
    }
    for answer in answers(token, &open) {
        let result = chain.lookahead.answered(&chain.index, &chain.coins, answer);
        result.expect("nobody waits for it");
    }
    for answer in answers(token, &closed) {
        let result = chain.lookahead.answered(&chain.index, &chain.coins, answer);
        assert!(matches!(result, Err(LookaheadError::Store(StoreError::Closed(_)))), "{result:?}");
    }
}
