//! Coins that no parity brings back, in datadirs of chains that are not as simple as most.

use godwit_fault_disk::FaultDisk;
use godwit_sim::rng::Rng;
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;

use crate::damage::files;
use crate::datadir::{clock, submit};
use crate::inspect::{Notes, flushed, has_all_of, run_within, verify};
use crate::pruned_branches::branch;
use crate::pruning::{BLOCKS, hash, open};
use crate::reindex::FILE_SIZE;

/// Damage that parity does not repair, of runs of a datadir: what is left of each of them.
pub(crate) fn lose_coins(disk: &FaultDisk, how: u64) {
    let mut runs = files(disk).remove(".run").unwrap();
    runs.sort();
    let rng = &mut Rng::new(how);
    let some = rng.below(runs.len() as u64) as usize;
    match how % 4 {
        // One, all, one that is short, some blocks of each.
        0 => disk.remove(&runs[some]).unwrap(),
        1 => runs.iter().for_each(|run| disk.remove(run).unwrap()),
        2 => {
            let mut bytes = disk.contents(&runs[some]).unwrap();
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
            disk.overwrite(&runs[some], bytes);
            disk.remove(&runs[some].with_extension("parity")).unwrap();
        }
        _ => {
            for run in &runs {
                let mut bytes = disk.contents(run).unwrap();
                let page = rng.below(bytes.len() as u64 / 4096) as usize * 4096;
                bytes[page..page + 4096].fill(0);
                disk.overwrite(run, bytes);
                disk.remove(&run.with_extension("parity")).unwrap();
            }
        }
    }
}

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
