//! The size of a pruned directory while the history below its snapshot is validated.

use std::path::Path;

use godwit_chain::{Chain, ChainError, ChainOptions, CoinWriting, NodeId, may_return};
use godwit_fault_disk::{FaultDisk, Survival};

use crate::history::{give_all, loaded, opening, run_until, try_open, validated};
use crate::pruning::{BLOCKS, DIR, bytes_on, stats_of};
use crate::snapshots::Snapshot;

/// Bytes of a block file: two or three blocks with transactions.
const FILE: u32 = 24 << 10;

fn options() -> ChainOptions {
    let mut options = opening();
    options.prune_bytes = Some(1);
    options.coin_writing = CoinWriting { interval: Some(0), ..CoinWriting::PRODUCT };
    options
}

/// Blocks of the history up to a height are validated, and their coins on disk.
fn validate_up_to(chain: &mut Chain, height: usize) -> Result<(), ChainError> {
    run_until(chain, |chain| validated(chain).is_none_or(|validated| validated >= height))?;
    // A commit that names them, and one that prunes behind it.
    (0..3).try_for_each(|_| chain.flush())
}

/// A new block comes with every second one of the history that has transactions; none of the new ones can be
/// deleted.
#[test]
fn a_pruned_directory_stays_small_while_new_blocks_come_in_between_those_of_the_history() {
    // So high that all blocks with transactions can be deleted.
    let base = BLOCKS.len() - 24;
    let snapshot = Snapshot::of(&BLOCKS[..base]);
    let disk = loaded(&snapshot, &BLOCKS);
    let mut chain = try_open(&disk, options(), FILE).expect("a datadir");
    let (mut new, mut large, mut largest) = (BLOCKS[base..].iter(), 0, 0);
    let (mut others, mut history, mut deleted) = (0, 0, 0);
    for (height, block) in (1..).zip(&BLOCKS[..base]) {
        let is_large = block.len() > 1_000;
        large += u32::from(is_large);
        if is_large && large % 2 == 0 {
            let new = new.next().expect("enough of them");
            give_all(&mut chain, std::slice::from_ref(new)).expect("no local fault");
            others += new.len() as u64 + 200;
        }
        give_all(&mut chain, std::slice::from_ref(block)).expect("no local fault");
        history += block.len() as u64;
        if !is_large && height % 20 != 0 {
            continue;
        }
        validate_up_to(&mut chain, height).expect("the snapshot is right");
        let stored = bytes_on(&disk, Path::new(DIR));
        // Files of new blocks have as much of the history at most; of the history one file is being
        // written to, and one may hold the last block that is not on disk as coins. None of the small
        // blocks can be deleted.
        let bound = 2 * others + 3 * u64::from(FILE) + 700 * height as u64;
        assert!(stored <= bound, "{stored} bytes at height {height}, more than {bound}");
        largest = largest.max(stored);
        if height % 60 == 0 {
            drop(chain);
            disk.crash(Survival::All);
            chain = try_open(&disk, options(), FILE).expect("a datadir");
            // Which of them are stored when the history ends is not known yet.
            let below = (1..=height as u32).map(|at| chain.tree().ancestor(chain.tip(), at));
            let below: Vec<NodeId> = below.map(|id| id.expect("below the tip")).collect();
            let is_deleted = |id: &&NodeId| chain.tree().node(**id).position.is_none();
            deleted += below.iter().filter(is_deleted).count();
            assert!(!below.iter().any(|id| may_return(&chain, *id)), "height {height}");
        }
    }
    assert!(deleted > 0, "none was deleted at any of these heights");
    println!("{largest} bytes at most, of {history} of the history and {others} of other blocks");
    assert!(history > 2 * largest, "{largest} of {history}: the test says nothing");
    run_until(&mut chain, |chain| chain.assumed().is_none()).expect("the snapshot is right");
    let top = BLOCKS.len() - new.len();
    assert_eq!(chain.utxo_stats().expect("no local fault"), stats_of(&BLOCKS[..top]));
    chain.close().expect("no local fault");
}

/// Operations of such a validation fail once, and then the process dies or the power goes.
#[test]
fn files_that_are_left_early_are_found_again_behind_a_crash() {
    const BASE: usize = 24;
    let snapshot = Snapshot::of(&BLOCKS[..BASE]);
    let top = BASE + 8;
    let start = loaded(&snapshot, &BLOCKS[..top]);
    let node = |disk: &FaultDisk| -> Result<(), ChainError> {
        let mut chain = try_open(disk, options(), FILE)?;
        for part in 0..8 {
            give_all(&mut chain, &BLOCKS[BASE + part..BASE + part + 1])?;
            give_all(&mut chain, &BLOCKS[part * 3..part * 3 + 3])?;
        }
        run_until(&mut chain, |chain| chain.assumed().is_none())?;
        chain.close()
    };
    for n in (1..).step_by(61) {
        let disk = start.copy();
        disk.fail_change(n);
        let result = node(&disk);
        let has_failed = disk.has_failed();
        disk.crash([Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3]);
        if has_failed {
            node(&disk).unwrap_or_else(|error| panic!("operation {n}: {error}"));
        } else {
            result.expect("no local fault");
        }
        let mut chain = try_open(&disk, options(), FILE).expect("a datadir");
        chain.settle(crate::datadir::clock()).expect("no local fault");
        assert_eq!(chain.tip_point().height as usize, top, "operation {n}");
        assert_eq!(chain.utxo_stats().expect("no local fault"), stats_of(&BLOCKS[..top]));
        if !has_failed {
            assert!(n > 50, "{n} operations");
            return;
        }
    }
}
