//! Files that are deleted when the operator says so, and blocks that are wanted again.

use std::path::Path;
use std::time::Duration;

use crossbeam_channel::never;
use godwit_chain::{
    Chain, ChainError, Event, NodeId, PRUNE_ON_REQUEST, StoredData, Verdict, is_below_lowest,
    is_pruning, keep_above, may_return, note_unreadable, prune_to, want_again, want_no_longer,
};
use godwit_fault_disk::FaultDisk;

use crate::datadir::{clock, submit};
use crate::pruning::{BLOCKS, ONE_BLOCK, STATS, check_kept, hash, open, submit_all};

fn settle(chain: &mut Chain) {
    chain.settle(clock()).expect("no local fault");
    chain.take_events();
}

/// The chain, its coins on disk.
fn synced(disk: &FaultDisk) -> Chain {
    let mut chain = open(disk, Some(PRUNE_ON_REQUEST), ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().expect("no local fault");
    settle(&mut chain);
    chain
}

/// Returns the lowest height that is left once the files are deleted, which is behind the commit: a chain
/// that has settled may still be in it.
pub(crate) fn prune(chain: &mut Chain, height: u32) -> Result<u32, ChainError> {
    prune_to(chain, height);
    while is_pruning(chain) {
        chain.settle(clock())?;
        chain.take_events();
        chain.wait_with(&never::<()>(), Duration::from_millis(5));
    }
    Ok(chain.prune_height())
}

#[test]
fn files_go_when_they_are_asked_for_and_not_before() {
    let disk = FaultDisk::new();
    let mut chain = synced(&disk);
    assert_eq!(chain.prune_height(), 0, "no target is exceeded");
    assert_eq!(prune(&mut chain, 0).unwrap(), 0);
    // Nearly every block has a file of its own.
    let some = prune(&mut chain, 20).unwrap();
    assert!((10..=21).contains(&some), "{some}");
    assert_eq!(prune(&mut chain, 20).unwrap(), some, "once");
    assert_eq!(prune(&mut chain, 5).unwrap(), some);
    // The last ones stay whatever is asked for.
    assert!(prune(&mut chain, u32::MAX).unwrap() > some);
    check_kept(&mut chain, &disk, Path::new("/node"));
    assert_eq!(chain.utxo_stats().expect("no fault"), *STATS);
    chain.close().expect("no fault");
    let mut chain = open(&disk, Some(PRUNE_ON_REQUEST), ONE_BLOCK);
    check_kept(&mut chain, &disk, Path::new("/node"));
    chain.close().expect("no fault");
}

#[test]
fn a_pruned_block_is_stored_again_when_it_is_wanted_and_only_then() {
    let disk = FaultDisk::new();
    let mut chain = synced(&disk);
    let lowest = prune(&mut chain, u32::MAX).unwrap();
    let (height, block) = (7, &BLOCKS[6]);
    let id = chain.tree().find(&hash(block)).expect("a known header");
    let before = chain.tree().node(id);
    assert!(before.position.is_none() && before.height == height && height < lowest);
    assert_eq!(submit(&mut chain, block), Verdict::Duplicate);
    want_again(&mut chain, id);
    submit(&mut chain, block);
    settle(&mut chain);
    let is_there = |chain: &Chain| {
        let node = chain.tree().node(id);
        assert_eq!((node.sequence, node.tx_count), (before.sequence, before.tx_count));
        node.position.is_some()
    };
    assert!(is_there(&chain) && chain.prune_height() == lowest);
    assert_eq!(submit(&mut chain, block), Verdict::Duplicate, "once");
    chain.close().expect("no fault");
    let mut chain = open(&disk, Some(PRUNE_ON_REQUEST), ONE_BLOCK);
    settle(&mut chain);
    assert!(is_there(&chain) && chain.prune_height() == lowest);
    assert_eq!(chain.utxo_stats().expect("no fault"), *STATS);
    chain.close().expect("no fault");
}

#[test]
fn a_pruned_block_may_return_when_it_is_handed_in_unless_it_is_next_to_those_that_are_stored() {
    let disk = FaultDisk::new();
    let mut chain = synced(&disk);
    let at = |chain: &Chain, height| -> NodeId {
        chain.tree().ancestor(chain.tip(), height).expect("not above the tip")
    };
    let tip = chain.tip_point().height;
    assert!((0..=tip).all(|height| !may_return(&chain, at(&chain, height))), "all are stored");
    let lowest = prune(&mut chain, u32::MAX).unwrap();
    for height in 0..=tip {
        let id = at(&chain, height);
        assert_eq!(may_return(&chain, id), height > 0 && height < lowest - 1, "height {height}");
        assert_eq!(is_below_lowest(&chain, id), height == lowest - 1, "height {height}");
    }
    // What was wanted for a caller, whose bytes were refused, is as it was.
    let id = at(&chain, 7);
    assert!(want_again(&mut chain, id));
    assert!(!want_again(&mut chain, id), "it is already");
    want_no_longer(&mut chain, id);
    assert_eq!(submit(&mut chain, &BLOCKS[6]), Verdict::Duplicate);
    assert!(want_again(&mut chain, id));
    assert_eq!(submit(&mut chain, &BLOCKS[6]), Verdict::Stored);
    assert!(chain.tree().node(id).position.is_some() && !may_return(&chain, id));
    chain.close().expect("no fault");
}

/// Its file is missing, too, but the chain has no place for it any more, or another one.
#[test]
fn a_block_that_is_pruned_before_it_is_read_is_not_lost() {
    let disk = FaultDisk::new();
    let mut chain = synced(&disk);
    chain.expect_copies();
    let id = chain.tree().ancestor(chain.tip(), 7).expect("not above the tip");
    let stored = StoredData::of(&chain).block(id).expect("it is stored");
    let reader = StoredData::of(&chain).reader();
    prune(&mut chain, u32::MAX).unwrap();
    let unreadable = reader.block(&stored).expect_err("its file is gone");
    for is_stored in [false, true] {
        if is_stored {
            want_again(&mut chain, id);
            assert_eq!(submit(&mut chain, &BLOCKS[6]), Verdict::Stored);
            settle(&mut chain);
        }
        note_unreadable(&mut chain, &unreadable);
        let events = chain.take_events();
        assert!(!events.iter().any(|event| matches!(event, Event::Lost { .. })));
        assert_eq!(StoredData::of(&chain).block(id).is_some(), is_stored);
    }
    chain.close().expect("no fault");
}

/// Whatever makes files go: a size or a request.
#[test]
fn blocks_that_an_index_has_not_read_are_kept_for_it() {
    for target in [1, PRUNE_ON_REQUEST] {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, Some(target), ONE_BLOCK);
        for reader in ["slow", "fast"] {
            keep_above(&mut chain, reader, Some(0));
        }
        submit_all(&mut chain, &BLOCKS);
        chain.flush().expect("no local fault");
        assert_eq!(prune(&mut chain, u32::MAX).unwrap(), 0);
        keep_above(&mut chain, "fast", Some(200));
        assert_eq!(prune(&mut chain, u32::MAX).unwrap(), 0, "the other one has read nothing");
        // Ten below what it has read, and not one file more.
        keep_above(&mut chain, "slow", Some(30));
        let lowest = prune(&mut chain, u32::MAX).unwrap();
        assert!((15..=20).contains(&lowest), "{lowest}");
        // One that stands behind what is deleted, or is gone, keeps nothing.
        keep_above(&mut chain, "late", Some(lowest - 2));
        keep_above(&mut chain, "slow", None);
        assert!(prune(&mut chain, u32::MAX).unwrap() > lowest);
        check_kept(&mut chain, &disk, Path::new("/node"));
        chain.close().expect("no fault");
    }
}
