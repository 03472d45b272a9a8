//! Repairs that are interrupted go on from what they have written down: they end as one that was not
//! interrupted does, and read no block twice but those at which damage was found.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use godwit_chain::{
    Chain, ChainError, ChainOptions, CoinsMemory, InspectOptions, Inspected, RepairPace,
    StartOptions, UtxoStats, inspect,
};
use godwit_fault_disk::{Counted, DiskError, Fault, FaultDisk, Lasting, Survival};
use godwit_primitives::network::{Network, Params};
use godwit_sim::rng::Rng;
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;
use godwit_store::inspect::{Found, Stage, Watch};
use godwit_store::{Rebuild, StoreError};

use crate::counting_disk::CountingDisk;
use crate::damage::files;
use crate::datadir::{clock, options};
use crate::inspect::{Notes, flushed, has_all_of, options_within, verify};
use crate::lost_coins::lose_coins;
use crate::pruning::{BLOCKS, DIR, open, submit_all};
use crate::reindex::{CONNECTED, FILE_SIZE};

/// A checkpoint between any two batches.
const EAGER: RepairPace =
    RepairPace { interval: Duration::ZERO, reading: 0, batch: BATCH as usize, undo_round: 300_000 };
const BATCH: u64 = 8;

const LARGE: u64 = 4 << 20;

fn checkpoint() -> PathBuf {
    Path::new(DIR).join("repair.checkpoint")
}

pub(crate) fn is_block_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("blk")
}

fn counting(disk: &FaultDisk) -> CountingDisk {
    CountingDisk::new(disk, is_block_file)
}

fn repair(
    disk: &CountingDisk,
    memory: u64,
    pace: RepairPace,
    notes: &mut Notes,
) -> Result<Inspected, ChainError> {
    let options = InspectOptions { pace, ..options_within(memory) };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    inspect(&disk, Path::new(DIR), options, notes)
}

/// Bytes of the longest block, with its frame.
fn longest() -> u64 {
    BLOCKS.iter().map(Vec::len).max().unwrap() as u64 + 8
}

/// Flips a bit of some undo records.
fn rot_undo(disk: &FaultDisk, seed: u64) {
    let rng = &mut Rng::new(seed);
    for path in files(disk).remove("rev.dat").unwrap() {
        let mut bytes = disk.contents(&path).unwrap();
        for _ in 0..3 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1;
        }
        disk.overwrite(&path, bytes);
    }
}

/// What is damaged, the directory, and the memory to repair it with.
struct Case {
    name: String,
    disk: FaultDisk,
    memory: u64,
    stats: UtxoStats,
}

fn cases() -> Vec<Case> {
    let (whole, stats) = flushed();
    let mut cases = Vec::new();
    for how in 0..10 {
        let disk = whole.copy();
        let (coins, undo) = (how < 8, how % 2 == 1 || how == 8);
        if coins {
            lose_coins(&disk, how / 2);
        }
        if undo {
            rot_undo(&disk, how);
        }
        let memory = if how % 3 == 2 { 60_000 } else { LARGE };
        let name = format!("coins {coins}, undo records {undo}, {how}, {memory} bytes");
        if coins || undo {
            cases.push(Case { name, disk, memory, stats });
        }
    }
    cases
}

/// What a repair in one go reads, the steps that it takes, and the damages that it finds.
struct Twin {
    read: u64,
    steps: u32,
    found: BTreeSet<(PathBuf, Option<u64>)>,
    damaged_blocks: u64,
}

/// Damages that are repaired. An interrupted repair of a run leaves fewer places of it.
fn repaired(notes: &Notes) -> BTreeSet<(PathBuf, Option<u64>)> {
    let done = notes.found.iter().filter(|found| found.remedy == Remedy::Done);
    done.map(|found| (found.path.clone(), Some(found.offset).filter(|_| is_of_undo(found))))
        .collect()
}

fn is_of_undo(found: &Found) -> bool {
    found.path.file_name().unwrap().to_string_lossy().starts_with("rev")
}

impl Case {
    fn ends_whole(&self, disk: &FaultDisk, inspected: &Inspected, what: &str) {
        let what = format!("{}, {what}", self.name);
        assert!(has_all_of(inspected, &self.stats), "{what}");
        assert_eq!(verify(disk, false).1, [], "{what}");
        assert_eq!(disk.contents(&checkpoint()), None, "{what}: nothing is left of it");
        assert_eq!(inspected.blocks, u64::from(self.stats.tip.height), "{what}");
        assert_eq!(inspected.undo_records, inspected.blocks, "{what}");
    }

    /// Repairs it in one go, and never writes down anything.
    fn twin(&self) -> Twin {
        let (disk, mut notes) = (counting(&self.disk.copy()), Notes::default());
        let never = RepairPace { interval: Duration::MAX, ..EAGER };
        let inspected = repair(&disk, self.memory, never, &mut notes).unwrap();
        assert!(notes.found.iter().all(|found| found.remedy == Remedy::Done), "{}", self.name);
        assert!(has_all_of(&inspected, &self.stats), "{}", self.name);
        assert_eq!(inspected.blocks_before, 0, "{}", self.name);
        let damaged_blocks = notes.found.iter().filter(|found| is_of_undo(found)).count() as u64;
        let (read, steps, found) = (disk.read(), notes.steps, repaired(&notes));
        Twin { read, steps, found, damaged_blocks }
    }
}

#[test]
fn a_repair_that_is_stopped_anywhere_goes_on_where_it_was() {
    let (mut stopped, mut kept) = (0, 0);
    for case in cases() {
        let twin = case.twin();
        // Damaged blocks are read again to look at their undo records, and to make these again.
        let again = 2 * twin.damaged_blocks * longest();
        for after in (0..twin.steps).step_by(twin.steps as usize / 30 + 1) {
            let disk = case.disk.copy();
            let (first, rest) = (counting(&disk), counting(&disk));
            let mut notes = Notes { stop_after: Some(after), ..Notes::default() };
            let what = format!("after {after} of {}", twin.steps);
            match repair(&first, case.memory, EAGER, &mut notes) {
                Err(ChainError::Store(StoreError::Stopped)) => {}
                // Nothing is asked behind the blocks.
                Ok(inspected) => {
                    case.ends_whole(&disk, &inspected, &what);
                    continue;
                }
                Err(error) => panic!("{}, {what}: {error}", case.name),
            }
            stopped += 1;
            let is_kept = disk.contents(&checkpoint()).is_some();
            kept += u32::from(is_kept);
            let mut told = repaired(&notes);
            let mut notes = Notes::default();
            let inspected = repair(&rest, case.memory, EAGER, &mut notes).unwrap();
            assert!(notes.found.iter().all(|found| found.remedy == Remedy::Done), "{what}");
            case.ends_whole(&disk, &inspected, &what);
            told.append(&mut repaired(&notes));
            assert!(told.is_superset(&twin.found), "{}, {what}: {told:?}", case.name);
            let goes_on = |line: &&String| line.starts_with("Repair: goes on");
            let went_on = notes.notes.iter().filter(goes_on).count();
            assert_eq!(went_on, usize::from(is_kept), "{}, {what}", case.name);
            let has_read = is_kept && first.read() > 0;
            assert_eq!(inspected.blocks_before > 0, has_read, "{}, {what}", case.name);
            let read = first.read() + rest.read();
            if is_kept {
                assert!(read <= twin.read + again, "{}, {what}: {read}", case.name);
            }
            assert!(read >= twin.read, "{}, {what}: {read}", case.name);
        }
    }
    assert!(stopped > 100 && kept * 10 > stopped * 9, "{kept} of {stopped}");
}

/// Stopped once between any two batches.
#[test]
fn a_repair_that_is_stopped_between_any_two_batches_reads_as_much_as_one_in_one_go() {
    for case in cases() {
        let (twin, disk) = (case.twin(), case.disk.copy());
        let (mut read, mut stops) = (0, 0);
        let inspected = loop {
            let disk = counting(&disk);
            let ended = repair_to_first_batch(&disk, case.memory);
            read += disk.read();
            match ended {
                Some(inspected) => break inspected,
                None => stops += 1,
            }
            assert!(stops < 10_000, "{}: it does not advance", case.name);
        };
        case.ends_whole(&disk, &inspected, "stopped again and again");
        // Each time, damaged blocks are read again.
        let again = 2 * stops * twin.damaged_blocks * longest();
        let most = twin.read + again;
        assert!((twin.read..=most).contains(&read), "{}: {read}, not {most}", case.name);
        assert!(stops >= CONNECTED as u64 / BATCH, "{}: {stops} stops", case.name);
    }
}

/// Repairs until one batch of blocks was read, or to the end.
fn repair_to_first_batch(disk: &CountingDisk, memory: u64) -> Option<Inspected> {
    // Behind the steps of the runs it is asked before each batch.
    for after in 0.. {
        let before = disk.read();
        let mut notes = Notes { stop_after: Some(after), ..Notes::default() };
        match repair(disk, memory, EAGER, &mut notes) {
            Ok(inspected) => return Some(inspected),
            Err(ChainError::Store(StoreError::Stopped)) if disk.read() == before => {}
            Err(ChainError::Store(StoreError::Stopped)) => return None,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("it ends")
}

/// The disk fails at a change, and what was not durable is lost.
fn cut_at_every(step: usize) {
    let (mut cuts, mut went_on) = (0, 0);
    for case in cases() {
        let twin = case.twin();
        let again = 2 * twin.damaged_blocks * longest();
        for n in (1..).step_by(step) {
            let disk = case.disk.copy();
            let (first, rest) = (counting(&disk), counting(&disk));
            disk.fail_change(n);
            let ended = repair(&first, case.memory, EAGER, &mut Notes::default());
            let failed = disk.has_failed();
            disk.fail_nothing();
            if !failed {
                case.ends_whole(&disk, &ended.unwrap(), "not cut");
                break;
            }
            cuts += 1;
            disk.crash([Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3]);
            let what = format!("change {n}");
            let (is_kept, mut notes) = (disk.contents(&checkpoint()).is_some(), Notes::default());
            let inspected = repair(&rest, case.memory, EAGER, &mut notes)
                .unwrap_or_else(|error| panic!("{}, {what}: {error}", case.name));
            assert!(notes.found.iter().all(|found| found.remedy == Remedy::Done), "{what}");
            let checkpoints = first.checkpoints();
            if is_kept {
                went_on += 1;
                let left = twin.read - checkpoints.read + again;
                assert!(rest.read() <= left, "{}, {what}: {}, not {left}", case.name, rest.read());
            } else if checkpoints.durable > 0 {
                // It was removed, since all was done.
                assert_eq!(notes.found, [], "{}, {what}", case.name);
            }
            case.ends_whole(&disk, &inspected, &what);
        }
    }
    println!("{cuts} cuts, {went_on} went on");
    assert!(cuts > 500 / step && went_on * 3 > cuts, "{went_on} of {cuts}");
}

#[test]
fn a_cut_at_some_changes_costs_a_repair_what_it_read_since_it_was_written_down() {
    cut_at_every(29);
}

#[test]
#[ignore = "every change"]
fn a_cut_at_any_change_costs_a_repair_what_it_read_since_it_was_written_down() {
    cut_at_every(1);
}

/// A repair that was stopped in the middle.
struct Stopped {
    disk: FaultDisk,
    /// Its checkpoint.
    left: Vec<u8>,
    /// Bytes of blocks that it had not read.
    unread: u64,
}

impl Stopped {
    fn new(case: &Case, twin: &Twin) -> Self {
        let disk = counting(&case.disk.copy());
        let mut notes = Notes { stop_after: Some(twin.steps / 2), ..Notes::default() };
        repair(&disk, case.memory, EAGER, &mut notes).unwrap_err();
        let left = disk.disk().contents(&checkpoint()).expect("it was written down");
        let unread = twin.read - disk.read();
        assert!(unread > 0 && disk.read() > 0);
        Self { disk: disk.disk().clone(), left, unread }
    }
}

/// Repairs, and returns the bytes of blocks that are read.
fn rest_of(case: &Case, disk: &FaultDisk, what: &str) -> u64 {
    let rest = counting(disk);
    let inspected = repair(&rest, case.memory, EAGER, &mut Notes::default()).unwrap();
    case.ends_whole(disk, &inspected, what);
    rest.read()
}

#[test]
fn what_is_damaged_of_another_directory_or_of_other_damage_is_not_gone_on_from() {
    let mut cases = cases();
    let mut case = cases.remove(0);
    case.name = "one run".to_owned();
    let twin = case.twin();
    let Stopped { disk, left, unread } = Stopped::new(&case, &twin);
    assert_eq!(rest_of(&case, &disk.copy(), "as it is"), unread);
    // Any byte, and any end.
    for at in (0..left.len()).step_by(left.len() / 40).chain([left.len() - 1]) {
        for cut in [false, true] {
            let (disk, mut bytes) = (disk.copy(), left.clone());
            match cut {
                true => bytes.truncate(at),
                false => bytes[at] ^= 1 << (at % 8),
            }
            disk.overwrite(&checkpoint(), bytes);
            assert_eq!(rest_of(&case, &disk, "damaged"), twin.read, "byte {at}, {cut}");
        }
    }
    // What is left of one that could not be written does not matter.
    let unfinished = disk.copy();
    unfinished.overwrite(&Path::new(DIR).join("repair.checkpoint.new"), left[..9].to_vec());
    assert_eq!(rest_of(&case, &unfinished, "unfinished"), unread);
    assert_eq!(unfinished.contents(&Path::new(DIR).join("repair.checkpoint.new")), None);
    // The sectors cannot be read.
    let unreadable = disk.copy();
    unreadable.lose_sectors(&checkpoint(), 0..512);
    assert_eq!(rest_of(&case, &unreadable, "unreadable"), twin.read);
    // More is lost than was gathered.
    let more = disk.copy();
    for run in files(&more).remove(".run").unwrap() {
        more.remove(&run).unwrap();
    }
    assert_eq!(rest_of(&case, &more, "more is lost"), twin.read);
    // Of the same blocks under another key, and of more blocks.
    for (key, blocks) in [([8; 16], CONNECTED), ([7; 16], CONNECTED + 5)] {
        let other = FaultDisk::new();
        let mut options = options(Params::new(Network::Regtest));
        options.coins_memory = CoinsMemory::Fixed(LARGE);
        let disk: Arc<dyn Disk> = Arc::new(other.clone());
        let mut chain =
            Chain::open_with_file_size(disk, DIR.into(), options, key, clock(), FILE_SIZE).unwrap();
        submit_all(&mut chain, &BLOCKS[..blocks]);
        chain.flush().unwrap();
        let stats = chain.utxo_stats().unwrap();
        chain.close().unwrap();
        lose_coins(&other, 1);
        let case = Case { name: "other".to_owned(), disk: other, memory: LARGE, stats };
        let (twin, disk) = (case.twin(), case.disk.copy());
        disk.overwrite(&checkpoint(), left.clone());
        assert_eq!(rest_of(&case, &disk, "of another"), twin.read, "{blocks}");
    }
}

/// `verify` alone neither reads nor writes a checkpoint; a repair of what is not damaged does.
#[test]
fn a_checkpoint_stays_until_the_repair_is_done() {
    let case = cases().remove(1);
    let Stopped { disk, left, .. } = Stopped::new(&case, &case.twin());
    verify(&disk, false);
    assert_eq!(disk.contents(&checkpoint()), Some(left));
    let (whole, stats) = flushed();
    let case = Case { name: "nothing is damaged".to_owned(), disk: whole, memory: LARGE, stats };
    let Stopped { disk, unread, .. } = Stopped::new(&case, &case.twin());
    assert_eq!(rest_of(&case, &disk, "goes on"), unread);
}

/// Ends a repair when it has read all blocks.
struct UntilCoins(Arc<AtomicBool>, Notes);

impl Watch for UntilCoins {
    fn found(&mut self, found: Found) {
        self.1.found(found);
    }

    fn progress(&mut self, stage: Stage, _: u64, _: u64) {
        self.0.fetch_or(stage == Stage::Coins, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The coins are hashed last: whoever interrupts that has not to read all blocks again.
#[test]
fn a_repair_that_is_stopped_while_the_coins_are_hashed_reads_no_block_again() {
    for case in [cases().remove(0), cases().pop().expect("undo records alone")] {
        let disk = case.disk.copy();
        let stop = Arc::new(AtomicBool::new(false));
        let mut options = InspectOptions { pace: EAGER, ..options_within(case.memory) };
        options.start.stop = Arc::clone(&stop);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut watch = UntilCoins(stop, Notes::default());
        let ended = inspect(&shared, Path::new(DIR), options, &mut watch);
        assert!(matches!(ended, Err(ChainError::Store(StoreError::Stopped))), "{}", case.name);
        assert!(!watch.1.found.is_empty(), "{}: all was told", case.name);
        let rest = counting(&disk);
        let inspected = repair(&rest, case.memory, EAGER, &mut Notes::default()).unwrap();
        let damaged = case.twin().damaged_blocks * longest();
        assert!(rest.read() <= damaged, "{}: {} bytes", case.name, rest.read());
        assert_eq!(inspected.blocks_before, inspected.blocks, "{}", case.name);
        case.ends_whole(&disk, &inspected, "its coins are hashed");
    }
}

/// A node has run between the two, and connected blocks: they are read, and what was read is not read again.
#[test]
fn a_repair_goes_on_although_blocks_were_connected_meanwhile() {
    const MORE: usize = 20;
    let bytes = |blocks: &[Vec<u8>]| blocks.iter().map(|block| block.len() as u64 + 8).sum::<u64>();
    let (all, new) = (bytes(&BLOCKS[..CONNECTED]), bytes(&BLOCKS[CONNECTED..CONNECTED + MORE]));
    let first = cases().pop().expect("undo records alone");
    let twin = first.twin();
    for stop_after in [twin.steps / 4, twin.steps / 2, twin.steps * 3 / 4] {
        let before = counting(&first.disk.copy());
        let mut notes = Notes { stop_after: Some(stop_after), ..Notes::default() };
        repair(&before, first.memory, EAGER, &mut notes).unwrap_err();
        let mut chain = open(before.disk(), None, FILE_SIZE);
        submit_all(&mut chain, &BLOCKS[CONNECTED..CONNECTED + MORE]);
        chain.flush().unwrap();
        let stats = chain.utxo_stats().unwrap();
        chain.close().unwrap();
        let (disk, name) = (before.disk().clone(), format!("{MORE} blocks more"));
        let case = Case { name, disk: disk.clone(), memory: LARGE, stats };
        let rest = counting(&disk);
        let mut notes = Notes::default();
        let inspected = repair(&rest, case.memory, EAGER, &mut notes).unwrap();
        let what = format!("stopped after {stop_after} of {}", twin.steps);
        case.ends_whole(&disk, &inspected, &what);
        assert!(
            inspected.blocks_before > 0 && inspected.blocks_before <= CONNECTED as u64,
            "{what}"
        );
        assert!(notes.found.iter().all(|found| found.remedy == Remedy::Done), "{what}");
        // Undo records are looked for in all blocks, and damaged ones looked at again.
        let readings = twin.read / all + 1;
        let again = 2 * twin.damaged_blocks * longest();
        let most = twin.read - before.read().min(all) + readings * new + again;
        assert!(rest.read() <= most, "{what}: {}, not {most}", rest.read());
    }
}

/// A node that makes its coins again in another way leaves nothing of it.
#[test]
fn a_checkpoint_goes_with_the_coins_that_a_rebuild_gives_up() {
    let case = cases().remove(1);
    let Stopped { disk, .. } = Stopped::new(&case, &case.twin());
    let options = ChainOptions {
        start: StartOptions { rebuild: Rebuild::Coins, ..StartOptions::default() },
        ..options(Params::new(Network::Regtest))
    };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut chain =
        Chain::open_with_file_size(shared, DIR.into(), options, [7; 16], clock(), FILE_SIZE)
            .unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), case.stats);
    chain.close().unwrap();
    assert_eq!(disk.contents(&checkpoint()), None);
}

/// One change of the disk fails: if it is one of a checkpoint, the repair goes on without.
#[test]
fn a_checkpoint_that_cannot_be_written_harms_no_repair() {
    let case = cases().remove(0);
    let (mut unharmed, mut failed) = (0, 0);
    for nth in 1.. {
        let disk = case.disk.copy();
        disk.plan(Fault {
            counted: Counted::Changes,
            nth,
            error: DiskError::Full,
            lasting: Lasting::Once,
            forgets: false,
        });
        let ended = repair(&counting(&disk), case.memory, EAGER, &mut Notes::default());
        match ended {
            // Its removal alone has failed: the next repair goes on from the end.
            Ok(_) if disk.contents(&checkpoint()).is_some() => {
                assert_eq!(rest_of(&case, &disk, "it was not removed"), 0);
            }
            Ok(inspected) => case.ends_whole(&disk, &inspected, &format!("change {nth}")),
            Err(_) => failed += 1,
        }
        if !disk.has_failed() {
            break;
        }
        let unfinished = Path::new(DIR).join("repair.checkpoint.new");
        assert_eq!(disk.contents(&unfinished), None, "change {nth}");
        unharmed += u32::from(disk.contents(&checkpoint()).is_none());
    }
    println!("{unharmed} unharmed, {failed} failed");
    assert!(unharmed > CONNECTED as u32 / BATCH as u32 && failed > 3, "{unharmed}, {failed}");
}

/// As often as it is due, and not more: a minute, and so many bytes for each that was written.
#[test]
fn checkpoints_keep_their_pace() {
    let case = cases().remove(0);
    let count = |pace: RepairPace| {
        let disk = counting(&case.disk.copy());
        repair(&disk, case.memory, pace, &mut Notes::default()).unwrap();
        disk.checkpoints().durable
    };
    let batches = CONNECTED as u32 / BATCH as u32;
    assert!(count(EAGER) > batches);
    // At the end of the reading, and behind the commit of what it gathered.
    assert_eq!(count(RepairPace { interval: Duration::MAX, ..EAGER }), 2);
    assert!(count(RepairPace { reading: 1, ..EAGER }) < batches);
    assert_eq!(count(RepairPace { batch: EAGER.batch, ..RepairPace::default() }), 2);
}
