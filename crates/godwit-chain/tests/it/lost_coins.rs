//! Coins that no parity brings back, in datadirs of chains that are not as simple as most.

use godwit_store::error::Remedy;

use crate::datadir::{clock, submit};
use crate::inspect::{Notes, flushed, has_all_of, lose_coins, run_within, verify};
use crate::pruned_branches::branch;
use crate::pruning::{BLOCKS, hash, open};
use crate::reindex::FILE_SIZE;

/// Blocks that the chain has left and blocks that never were of it are stored between the others: the coins
/// are those of the chain alone.
#[test]
fn blocks_of_other_branches_add_nothing_to_coins_that_are_made_again() {
    let (disk, _) = flushed();
    let mut chain = open(&disk, None, FILE_SIZE);
    let height = chain.tip_point().height;
    // A shorter branch that was never connected, then one to which the chain changes.
    for (fork, count) in [(height - 12, 3), (height - 10, 20)] {
        for block in branch(&BLOCKS, fork, count) {
            submit(&mut chain, &block);
        }
    }
    chain.settle(clock()).expect("no local fault");
    assert_eq!(chain.tip_point().height, height + 10);
    let left = chain.tree().find(&hash(&BLOCKS[height as usize - 1])).expect("it was connected");
    assert!(chain.tree().node(left).position.is_some());
    assert!(!chain.tree().is_ancestor(left, chain.tip()), "the chain has changed to the branch");
    chain.flush().expect("no local fault");
    let stats = chain.utxo_stats().expect("no local fault");
    chain.close().expect("no local fault");
    for how in 0..8 {
        let disk = disk.copy();
        lose_coins(&disk, how);
        let memory = if how < 4 { 4 << 20 } else { 60_000 };
        let mut notes = Notes::default();
        let inspected = run_within(memory, &disk, true, &mut notes).expect("no local fault");
        let found = notes.found;
        assert!(found.iter().all(|found| found.remedy == Remedy::Done), "{how}: {found:?}");
        assert!(has_all_of(&inspected, &stats), "{how}");
        assert_eq!(verify(&disk, false).1, [], "{how}");
    }
}
