//! Repairs of lost coins that are interrupted at any block, and go on from what was written down.

use godwit_fault_disk::Survival;

use super::super::fixtures::Random;
use super::super::run::format::{BLOCK, BlockKind, RunId, open_block};
use super::beyond_parity::{
    History, LARGE, MOST_BLOCKS, Notes, check, hand_over_from, harm, history, inspection,
    with_a_block_of_another_time, without_the_last, zero_beyond_parity,
};
use super::damage::run_paths;
use super::*;
use crate::checkpoint::{Checkpoints, Work};
use crate::disk::Disk;

/// Beside the directory of the coins.
const ABOVE: &str = "/data";

/// Bytes before what the repair writes.
const HEADER: usize = 56;

fn checkpoints(disk: &FaultDisk) -> Checkpoints {
    let disk = StoreDisk::new(Arc::new(disk.clone()));
    let (dir, fingerprint) = (Path::new(ABOVE), hasher().fingerprint());
    Checkpoints::new(&disk, dir, Work::Repair, [0; 4], fingerprint, None)
}

fn save(repair: &CoinsRepair, disk: &FaultDisk) -> u64 {
    let mut out = checkpoints(disk).begin().unwrap();
    repair.save(&mut out).unwrap();
    out.finish().unwrap()
}

/// Whether a repair goes on from what is written down.
fn goes_on(repair: &mut CoinsRepair, disk: &FaultDisk) -> bool {
    let Some(mut from) = checkpoints(disk).open() else { return false };
    let saved = repair.load(&mut from).unwrap().filter(|_| from.finish().is_some());
    saved.is_some_and(|saved| {
        repair.go_on(saved);
        true
    })
}

fn begin(disk: &FaultDisk, manifest: &mut Manifest, memory: u64) -> CoinsRepair {
    let inspection = inspection(disk, manifest);
    let runs = inspection.inspect_runs(&mut Notes::default()).unwrap();
    let mut repair = CoinsRepair::begin(&inspection, &runs.lost, memory, &Arc::default()).unwrap();
    repair
        .copy_intact(&mut |named| {
            *manifest = named.clone();
            Ok(())
        })
        .unwrap();
    repair
}

/// What interrupts a repair.
#[derive(Clone, Copy)]
enum Interruption {
    /// Behind a block.
    Block(usize),
    /// Behind the commit at the end of a pass, while what is written down is of the time before.
    Commit,
    Nothing,
}

/// Repairs what is lost with an interruption in each pass, and `memory` for each time in turn. Returns the
/// passes.
fn repair(
    history: &History,
    disk: &FaultDisk,
    manifest: &mut Manifest,
    memory: [u64; 2],
    mut interruption: impl FnMut() -> Interruption,
) -> u32 {
    let (blocks, mut passes, mut begun) = (&history.blocks, 0, 0);
    let mut again = |manifest: &mut Manifest| {
        begun += 1;
        begin(disk, manifest, memory[begun % 2])
    };
    let mut repair = again(manifest);
    while repair.wants_blocks() {
        let how = interruption();
        let at = if let Interruption::Block(n) = how { n } else { blocks.len() };
        hand_over_from(&mut repair, &blocks[..at], 1);
        if !matches!(how, Interruption::Nothing) {
            save(&repair, disk);
        }
        if let Interruption::Block(_) = how {
            drop(repair);
            repair = again(manifest);
            assert!(goes_on(&mut repair, disk));
            hand_over_from(&mut repair, &blocks[at..], at as u32 + 1);
        }
        assert_eq!(repair.counted(), history.coins.len() as u64);
        let end = |repair: &mut CoinsRepair, manifest: &mut Manifest| {
            let commit = &mut |named: &Manifest| {
                *manifest = named.clone();
                Ok(())
            };
            repair.end_pass(commit).unwrap();
        };
        end(&mut repair, manifest);
        passes += 1;
        if let Interruption::Commit = how {
            drop(repair);
            repair = again(manifest);
            if repair.wants_blocks() {
                // What it commits now was not complete before.
                assert!(goes_on(&mut repair, disk));
                end(&mut repair, manifest);
            }
        }
    }
    assert!(!repair.has_failed());
    passes
}

/// The same coins as of one that is never interrupted, in as many readings of the blocks.
#[test]
fn a_repair_that_goes_on_at_any_block_ends_as_one_that_was_not_interrupted() {
    let (mut several, mut kinds) = (0, [0; 3]);
    for seed in 0..4 {
        let history = history(seed, seed as u8 % 3);
        let random = &mut Random(!seed ^ 77);
        for trial in 0..6 {
            let harmed = history.disk.copy();
            let what = format!("{seed}, {trial}: {}", harm(&harmed, random));
            let memory = [[LARGE; 2], [40_000; 2], [6000; 2]][trial % 3];
            let (disk, mut manifest) = (harmed.copy(), history.manifest.clone());
            let twin = repair(&history, &disk, &mut manifest, memory, || Interruption::Nothing);
            check(&history, &disk, &manifest, &what);
            let (disk, mut manifest) = (harmed, history.manifest.clone());
            let passes = repair(&history, &disk, &mut manifest, memory, || {
                let kind = random.below(4) as usize;
                kinds[kind / 2] += 1;
                match kind {
                    0 | 1 => Interruption::Block(random.below(61) as usize),
                    2 => Interruption::Commit,
                    _ => Interruption::Nothing,
                }
            });
            assert_eq!(passes, twin, "{what}");
            several += u32::from(passes > 3);
            check(&history, &disk, &manifest, &what);
        }
    }
    assert!(several > 3 && kinds[0] > 20 && kinds[1] > 20, "{several}, {kinds:?}");
}

/// What could be read of a partition was refuted by a first pass: the damage that is found once more does not
/// say so, what was written down does.
#[test]
fn a_repair_that_gathers_all_of_a_partition_goes_on() {
    let mut refuted = 0;
    for (partition_bits, memory, trials) in [(0, LARGE, 4), (1, LARGE, 2), (0, 40_000, 1)] {
        let history = history(13, partition_bits);
        let damaged = (2..MOST_BLOCKS).filter_map(|n| {
            let disk = with_a_block_of_another_time(&history, n, true, without_the_last)?;
            Some((n, disk))
        });
        for (n, disk) in damaged.take(trials) {
            let what = format!("block {n}, {partition_bits}, {memory} bytes");
            let (one_go, mut manifest) = (disk.copy(), history.manifest.clone());
            let twin =
                repair(&history, &one_go, &mut manifest, [memory; 2], || Interruption::Nothing);
            check(&history, &one_go, &manifest, &what);
            for at in [0, 30, 60] {
                let (disk, mut manifest) = (disk.copy(), history.manifest.clone());
                let mut pass = 0;
                let passes = repair(&history, &disk, &mut manifest, [memory; 2], || {
                    pass += 1;
                    if pass > 1 { Interruption::Block(at) } else { Interruption::Nothing }
                });
                assert_eq!(passes, twin, "{what}, interrupted at block {at}");
                check(&history, &disk, &manifest, &what);
                refuted += u32::from(passes > 1 && memory == LARGE);
            }
        }
    }
    assert!(refuted > 6, "{refuted}");
}

/// Less memory than before, or more.
#[test]
fn a_repair_goes_on_with_other_memory() {
    let history = history(7, 1);
    let gone = history.disk.copy();
    run_paths(&gone).iter().for_each(|path| gone.remove(path).unwrap());
    for memory in [[LARGE, 40_000], [40_000, LARGE], [200_000, 6000]] {
        let (disk, mut manifest) = (gone.copy(), history.manifest.clone());
        let mut at = [20, 60, 1, 0, 59].into_iter();
        let passes = repair(&history, &disk, &mut manifest, memory, || match at.next() {
            Some(at) => Interruption::Block(at),
            None => Interruption::Nothing,
        });
        assert!(passes > 1, "{memory:?}");
        for path in disk.list(Path::new(DIR)).unwrap() {
            let path = Path::new(DIR).join(path);
            let id = RunId::of_path(&path);
            if manifest.runs.iter().all(|run| Some(run.id) != id) {
                disk.remove(&path).unwrap();
            }
        }
        check(&history, &disk, &manifest, &format!("{memory:?}"));
    }
}

/// Whether a run has its last block, which is its footer.
fn is_finished(disk: &FaultDisk, path: &Path) -> bool {
    let (id, bytes) = (RunId::of_path(path).unwrap(), disk.contents(path).unwrap());
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let is_footer = |block| {
        let opened = open_block(block, id, blocks.len() as u32 - 1);
        opened.is_some_and(|block| block.kind == BlockKind::Footer)
    };
    rest.is_empty() && blocks.last().is_some_and(is_footer)
}

/// What is left of the runs that a killed repair was writing would take the room of the next one.
#[test]
fn a_repair_removes_the_runs_that_one_before_did_not_write_to_their_end() {
    let history = history(7, 1);
    let gone = history.disk.copy();
    run_paths(&gone).iter().for_each(|path| gone.remove(path).unwrap());
    let mut unfinished = 0;
    for n in (1..).step_by(3) {
        let (disk, mut manifest) = (gone.copy(), history.manifest.clone());
        disk.fail_change(n);
        let ended = super::beyond_parity::repair(&history, &disk, &mut manifest, 60_000, None);
        let is_cut = disk.has_failed();
        disk.fail_nothing();
        if !is_cut {
            ended.unwrap();
            break;
        }
        disk.crash(Survival::All);
        let before = run_paths(&disk);
        unfinished += before.iter().filter(|path| !is_finished(&disk, path)).count();
        drop(begin(&disk, &mut manifest, 60_000));
        for path in run_paths(&disk) {
            let is_named = manifest.runs.iter().any(|run| Some(run.id) == RunId::of_path(&path));
            assert!(is_named || is_finished(&disk, &path), "change {n}: {}", path.display());
        }
        super::beyond_parity::repair(&history, &disk, &mut manifest, LARGE, None).unwrap();
    }
    assert!(unfinished > 10, "{unfinished}");
}

/// Damage that was not there, and any byte that is not what was written.
#[test]
fn a_repair_does_not_go_on_from_what_is_not_its_own() {
    let history = history(11, 2);
    let (disk, runs) = (history.disk.copy(), run_paths(&history.disk));
    let largest = runs.iter().max_by_key(|path| disk.contents(path).unwrap().len()).unwrap();
    zero_beyond_parity(&disk, largest, vec![1]);
    let mut manifest = history.manifest.clone();
    let mut first = begin(&disk, &mut manifest, LARGE);
    hand_over_from(&mut first, &history.blocks[..40], 1);
    let len = save(&first, &disk);
    drop(first);
    let path = Path::new(ABOVE).join("repair.checkpoint");
    let whole = disk.contents(&path).unwrap();
    assert_eq!(whole.len() as u64, len);
    let mut again = begin(&disk, &mut manifest, LARGE);
    for at in (0..whole.len()).step_by(997).chain([HEADER, whole.len() - 1]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        disk.overwrite(&path, bytes);
        assert!(!goes_on(&mut again, &disk), "byte {at}");
        disk.overwrite(&path, whole[..at].to_vec());
        assert!(!goes_on(&mut again, &disk), "{at} bytes");
    }
    disk.overwrite(&path, whole);
    assert!(goes_on(&mut again, &disk));
    drop(again);
    // A block more of the same run is lost.
    zero_beyond_parity(&disk, largest, vec![4]);
    let mut more = begin(&disk, &mut manifest, LARGE);
    assert!(
        !goes_on(&mut more, &disk),
        "a range that was whole is gathered from the first block on"
    );
}
