//! `verify` on datadirs that are as they were written, and on damaged ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::{
    Chain, ChainError, CoinsMemory, InspectOptions, Inspected, RepairPace, StartOptions, UtxoStats,
    inspect,
};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::network::{Network, Params};
use godwit_sim::rng::Rng;
use godwit_store::StoreError;
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;
use godwit_store::exec::Threads;
use godwit_store::inspect::{Found, Stage, Watch};

use crate::damage::{HARMS, Harm, files, harmed};
use crate::datadir::clock;
use crate::lost_coins::lose_coins;
use crate::pruning::{BLOCKS, DIR, ONE_BLOCK, open, stats_of, submit_all};
use crate::reindex::{FILE_SIZE, datadir};
use crate::schemas::schema_1;

const PLACES: usize = 4;

const MEMORY: u64 = 4 << 20;

#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) found: Vec<Found>,
    pub(crate) notes: Vec<String>,
    pub(crate) steps: u32,
    /// How often all blocks were read for coins.
    pub(crate) passes: u32,
    /// After so many steps it is to end.
    pub(crate) stop_after: Option<u32>,
}

impl Watch for Notes {
    fn found(&mut self, found: Found) {
        self.found.push(found);
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.to_owned());
    }

    fn progress(&mut self, stage: Stage, done: u64, total: u64) {
        assert!(done <= total, "{done} of {total}");
        self.passes += u32::from(stage == Stage::LostCoins && done == 0);
        self.steps += 1;
    }

    fn is_stopped(&self) -> bool {
        self.stop_after.is_some_and(|after| self.steps >= after)
    }
}

fn run(disk: &FaultDisk, repair: bool, notes: &mut Notes) -> Result<Inspected, ChainError> {
    run_within(MEMORY, disk, repair, notes)
}

pub(crate) fn run_within(
    memory: u64,
    disk: &FaultDisk,
    repair: bool,
    notes: &mut Notes,
) -> Result<Inspected, ChainError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = InspectOptions { repair, ..options_within(memory) };
    inspect(&disk, Path::new(DIR), options, notes)
}

/// To repair with so much memory, at any pace.
pub(crate) fn options_within(memory: u64) -> InspectOptions {
    InspectOptions {
        params: Arc::new(Params::new(Network::Regtest)),
        executor: Arc::new(Threads::default()),
        threads: 2,
        repair: true,
        memory: CoinsMemory::Fixed(memory),
        pace: RepairPace::default(),
        start: StartOptions::default(),
        audit: None,
    }
}

pub(crate) fn verify(disk: &FaultDisk, repair: bool) -> (Inspected, Vec<Found>) {
    let mut notes = Notes::default();
    let inspected = run(disk, repair, &mut notes).unwrap();
    (inspected, notes.found)
}

/// Why a repair does not come to its end.
pub(crate) fn refusal(disk: &FaultDisk) -> ChainError {
    run(disk, true, &mut Notes::default()).expect_err("it does not")
}

pub(crate) fn contents(disk: &FaultDisk) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let paths = files(disk).into_values().flatten();
    paths.map(|path| (path.clone(), disk.contents(&path))).collect()
}

/// A datadir whose coins are all written, and what its chain says of them.
pub(crate) fn flushed() -> (FaultDisk, UtxoStats) {
    let disk = datadir(false);
    let mut chain: Chain = open(&disk, None, FILE_SIZE);
    chain.settle(clock()).unwrap();
    let stats = chain.utxo_stats().unwrap();
    chain.close().unwrap();
    (disk, stats)
}

#[test]
fn an_undamaged_datadir_is_called_so_and_its_coins_are_those_of_the_chain() {
    let (disk, stats) = flushed();
    let before = contents(&disk);
    for repair in [false, true] {
        let (inspected, found) = verify(&disk, repair);
        assert_eq!(found, []);
        let coins = inspected.coins.unwrap();
        assert_eq!((coins.tip, coins.totals), (Some(stats.tip), stats.totals));
        assert_eq!(coins.muhash, stats.muhash);
        assert_eq!(inspected.blocks, u64::from(stats.tip.height));
        assert_eq!(inspected.undo_records, inspected.blocks);
        assert!(inspected.runs > 0);
        assert!(contents(&disk) == before, "nothing is changed");
    }
    // Nothing at all, and what pruning leaves, are in order too.
    let empty = FaultDisk::new();
    empty.create_dir_all(Path::new(DIR)).unwrap();
    let (inspected, found) = verify(&empty, false);
    assert_eq!((inspected.blocks, found), (0, Vec::new()));
    let pruned = FaultDisk::new();
    let mut chain = open(&pruned, Some(1), ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    let stats = chain.utxo_stats().unwrap();
    chain.close().unwrap();
    let (inspected, found) = verify(&pruned, false);
    assert_eq!((inspected.coins.unwrap().muhash, found), (stats.muhash, Vec::new()));
    assert!(inspected.blocks < u64::from(stats.tip.height));
}

/// Without parity, sums and checksums, and without a control file: what schema 1 has is looked at.
#[test]
fn a_datadir_of_schema_1_is_in_order_and_its_damage_is_named() {
    let (disk, height) = schema_1();
    let before = contents(&disk);
    let (inspected, found) = verify(&disk, false);
    assert_eq!((found, inspected.blocks), (Vec::new(), u64::from(height)));
    assert!(contents(&disk) == before, "it is not upgraded");
    let muhash = inspected.coins.unwrap().muhash;
    for (kind, at, is_repaired) in [("blk.dat", 9000, false), ("rev.dat", 900, true)] {
        let path = &files(&disk)[kind][0];
        let bad = disk.copy();
        let mut bytes = disk.contents(path).unwrap();
        bytes[at] ^= 1;
        bad.overwrite(path, bytes);
        let (_, found) = verify(&bad, false);
        assert_eq!(found.iter().map(|found| &found.path).collect::<Vec<_>>(), [path], "{found:?}");
        let (inspected, found) = verify(&bad, true);
        assert_eq!(found[0].remedy == Remedy::Done, is_repaired, "{found:?}");
        assert_eq!(bad.contents(path) == disk.contents(path), is_repaired);
        assert_eq!(inspected.coins.unwrap().muhash, muhash);
    }
}

#[derive(Default)]
struct Tally {
    damaged: usize,
    told: usize,
    repaired: usize,
}

/// Every kind of file is damaged in every way; what verify says is true, and what it repairs is as it was.
#[test]
fn each_damage_is_named_and_what_is_repaired_is_as_it_was() {
    let (disk, stats) = flushed();
    let old = datadir(true);
    let before = contents(&disk);
    let rng = &mut Rng::new(77);
    let mut tally: BTreeMap<String, Tally> = BTreeMap::new();
    for (kind, paths) in files(&disk) {
        for (harm, path) in HARMS
            .iter()
            .flat_map(|harm| std::iter::repeat_n(harm, PLACES).zip(paths.iter().cycle()))
        {
            let good = disk.contents(path).unwrap();
            let earlier = old.contents(path).unwrap_or_default();
            let bad = harmed(&good, &earlier, *harm, rng);
            if bad.as_ref() == Some(&good) {
                continue;
            }
            let harmed = disk.copy();
            match bad {
                Some(bytes) => harmed.overwrite(path, bytes),
                None => harmed.remove(path).unwrap(),
            }
            check(&harmed, path, *harm, &before, &stats, tally.entry(kind.clone()).or_default());
        }
    }
    for (kind, Tally { damaged, told, repaired }) in &tally {
        println!("{kind}: of {damaged} damages {told} told, {repaired} repaired");
        // A free page of the database means nothing, nor does a control file of one commit before.
        let may_pass = ["godwit.redb", "godwit.control"].contains(&kind.as_str());
        assert!(told == damaged || may_pass, "{kind}");
        match kind.as_str() {
            // A frame alone, which is seldom hit.
            "blk.dat" => assert!(repaired * 10 < *damaged, "{kind}"),
            _ => assert_eq!(repaired, told, "{kind}"),
        }
    }
    let kinds =
        ["blk.dat", "rev.dat", "xor.dat", "godwit.redb", "godwit.control", ".run", ".parity"];
    assert!(kinds.iter().all(|kind| tally[*kind].told > 0));
}

fn check(
    disk: &FaultDisk,
    path: &Path,
    harm: Harm,
    good: &BTreeMap<PathBuf, Option<Vec<u8>>>,
    stats: &UtxoStats,
    tally: &mut Tally,
) {
    let what = format!("{}, {harm:?}", path.display());
    tally.damaged += 1;
    let harmed = contents(disk);
    let (inspected, found) = verify(disk, false);
    assert!(contents(disk) == harmed, "{what}: it changed something");
    let named = found.iter().any(|found| found.path == path);
    assert_eq!(named, !found.is_empty(), "{what}: {found:?}");
    assert!(found.iter().all(|found| found.remedy != Remedy::Done), "{what}: {found:?}");
    if let Some(coins) = inspected.coins {
        assert_eq!(coins.muhash, stats.muhash, "{what}");
    }
    if !named {
        let (_, found) = verify(disk, true);
        assert_eq!(found, [], "{what}");
        return;
    }
    tally.told += 1;
    let (_, found) = verify(disk, true);
    let left = found.iter().filter(|found| found.remedy != Remedy::Done).count();
    let (inspected, again) = verify(disk, true);
    assert_eq!(again.len(), left, "{what}: {found:?}, then {again:?}");
    if left > 0 {
        return;
    }
    tally.repaired += 1;
    assert_eq!(inspected.coins.unwrap().muhash, stats.muhash, "{what}");
    // A run that parity does not repair is written anew.
    let is_replaced = path.extension().is_some_and(|extension| extension == "run")
        && disk.contents(path).is_none();
    let is_same = path.extension().is_some_and(|extension| extension != "redb") && !is_replaced;
    if is_same && !path.ends_with("godwit.control0") && !path.ends_with("godwit.control1") {
        assert!(disk.contents(path) == good[path], "{what}: it is not what it was");
    }
}

#[test]
fn it_ends_when_it_is_told_to() {
    let (disk, _) = flushed();
    let mut whole = Notes::default();
    run(&disk, false, &mut whole).unwrap();
    assert!(whole.steps > 4, "{}", whole.steps);
    let mut stopped = 0;
    for after in 0..whole.steps - 1 {
        let mut notes = Notes { stop_after: Some(after), ..Notes::default() };
        match run(&disk, false, &mut notes) {
            Err(ChainError::Store(StoreError::Stopped)) => stopped += 1,
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
        assert!(notes.steps <= after + 3, "{} steps, not {after}", notes.steps);
    }
    assert!(stopped > 2, "{stopped}");
}

/// A repair of the index that fails at any operation is not called one.
#[test]
fn an_index_is_called_repaired_when_it_is() {
    let (disk, stats) = flushed();
    let database = Path::new(DIR).join("godwit.redb");
    let zeroed = vec![0; disk.contents(&database).unwrap().len()];
    disk.overwrite(&database, zeroed);
    let (mut failures, mut behind) = (0, 0);
    for n in (1..).step_by(3) {
        let disk = disk.copy();
        disk.fail_change(n);
        let mut notes = Notes::default();
        let inspected = run(&disk, true, &mut notes);
        if !disk.has_failed() {
            assert_eq!(inspected.unwrap().coins.unwrap().muhash, stats.muhash);
            assert!(notes.found.iter().all(|found| found.remedy == Remedy::Done));
            break;
        }
        if inspected.is_err() {
            failures += 1;
            let of_index = notes.found.iter().find(|found| found.path == database).unwrap();
            if of_index.remedy == Remedy::Done {
                // What failed came behind it, and a power cut does not undo it.
                let (after, mut again) = (disk.copy(), Notes::default());
                after.crash(Survival::Nothing);
                run(&after, false, &mut again).unwrap();
                assert!(again.found.iter().all(|found| found.path != database), "operation {n}");
                behind += 1;
            } else {
                assert_eq!(of_index.remedy, Remedy::Repair, "operation {n}");
            }
        }
    }
    assert!(failures - behind > 2, "{failures}, {behind}");
}

#[test]
fn a_directory_without_database_is_not_new_and_one_of_core_is_refused() {
    let (disk, _) = flushed();
    for name in ["godwit.redb", "godwit.control0", "godwit.control1"] {
        disk.remove(&Path::new(DIR).join(name)).unwrap();
    }
    for path in files(&disk).remove("blk.dat").unwrap() {
        let bad = disk.copy();
        bad.remove(&path).unwrap();
        let (_, found) = verify(&bad, false);
        assert_eq!(found.len(), 1, "{found:?}");
    }
    let of_core = FaultDisk::new();
    of_core.create_dir_all(&Path::new(DIR).join("chainstate")).unwrap();
    match run(&of_core, false, &mut Notes::default()) {
        Err(ChainError::Store(StoreError::CoreDirectory { .. })) => {}
        other => panic!("{other:?}"),
    }
}

/// The node starts without the end of a block file, the last one's too, and fetches what they lack; without
/// any file it does not.
#[test]
fn a_short_block_file_has_the_remedy_that_the_node_has() {
    let (disk, _) = flushed();
    let mut paths = files(&disk).remove("blk.dat").unwrap();
    paths.sort();
    for path in [&paths[0], paths.last().unwrap()] {
        for is_there in [true, false] {
            let bad = disk.copy();
            let bytes = disk.contents(path).unwrap();
            match is_there {
                true => bad.overwrite(path, bytes[..bytes.len() - 9].to_vec()),
                false => bad.remove(path).unwrap(),
            }
            let (_, found) = verify(&bad, false);
            let remedies: Vec<Remedy> = found.iter().map(|found| found.remedy).collect();
            assert_eq!(remedies, [Remedy::Peers], "{found:?}");
            open(&bad, None, FILE_SIZE).close().unwrap();
        }
    }
    paths.extend(files(&disk).remove("rev.dat").unwrap());
    paths.iter().for_each(|path| disk.remove(path).unwrap());
    let (_, found) = verify(&disk, false);
    assert_eq!(found[0].remedy, Remedy::Reindex, "{found:?}");
    assert!(crate::pruning::try_open(&disk, None, FILE_SIZE).is_err());
}

/// Index and network say what the eight bytes before a block are.
#[test]
fn a_frame_that_alone_is_damaged_is_repaired() {
    let (disk, _) = flushed();
    for path in files(&disk).remove("blk.dat").unwrap() {
        let good = disk.contents(&path).unwrap();
        let first = 8 + u32::from_le_bytes(good[4..8].try_into().unwrap()) as usize;
        for at in [0, 5, first, first + 7] {
            let bad = disk.copy();
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            bad.overwrite(&path, bytes);
            let (_, found) = verify(&bad, false);
            let place = (at / first * first) as u64;
            assert_eq!((found.len(), found[0].offset, found[0].bytes), (1, place, 8), "{found:?}");
            assert_eq!(found[0].remedy, Remedy::Repair);
            let (_, found) = verify(&bad, true);
            assert_eq!(found[0].remedy, Remedy::Done);
            assert!(bad.contents(&path).unwrap() == good);
        }
        // With the block it is the block that is damaged.
        let mut bytes = good.clone();
        (bytes[0], bytes[100]) = (!bytes[0], !bytes[100]);
        disk.overwrite(&path, bytes);
        let (_, found) = verify(&disk, true);
        assert_eq!((found.len(), found[0].remedy), (1, Remedy::Peers), "{found:?}");
        disk.overwrite(&path, good);
    }
}

/// An index that was made again while undo records were damaged lacks them.
#[test]
fn connected_blocks_without_undo_records_are_told() {
    let (disk, _) = flushed();
    let path = files(&disk).remove("rev.dat").unwrap()[0].clone();
    disk.remove(&path).unwrap();
    disk.remove(&Path::new(DIR).join("godwit.redb")).unwrap();
    open(&disk, None, FILE_SIZE).close().unwrap();
    let (_, found) = verify(&disk, false);
    let remedies: Vec<Remedy> = found.iter().map(|found| found.remedy).collect();
    assert_eq!(remedies, [Remedy::Repair]);
    // The node does without, too.
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.settle(clock()).unwrap();
    let height = chain.tip_point().height;
    let last = chain.tree().node(chain.tip()).hash;
    chain.invalidate_block(&last).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().height, height - 1);
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..height as usize - 1]));
}

/// The last record of the last undo file.
pub(crate) fn cut_last_undo(disk: &FaultDisk) -> PathBuf {
    let mut paths = files(disk).remove("rev.dat").unwrap();
    paths.sort();
    let path = paths.pop().unwrap();
    let bytes = disk.contents(&path).unwrap();
    disk.overwrite(&path, bytes[..bytes.len() - 5].to_vec());
    path
}

/// A block that is damaged too says nothing of its undo record.
#[test]
fn a_short_undo_file_is_called_repaired_only_where_it_is() {
    let (disk, _) = flushed();
    let path = cut_last_undo(&disk);
    let mut blocks = files(&disk).remove("blk.dat").unwrap();
    blocks.sort();
    let last = blocks.last().unwrap();
    let mut bytes = disk.contents(last).unwrap();
    let end = bytes.len() - 9;
    bytes[end] ^= 1;
    disk.overwrite(last, bytes);
    for round in 0..2 {
        let (_, found) = verify(&disk, true);
        let of_file: Vec<&Found> = found.iter().filter(|found| found.path == path).collect();
        assert_eq!(of_file.len(), 1, "round {round}: {found:?}");
        // To have all indexed and verified again would take hours.
        assert_eq!(of_file[0].remedy, Remedy::RepairOnceFetched, "round {round}");
    }
}

#[test]
fn undo_records_of_blocks_that_were_left_are_repaired() {
    let (disk, _) = flushed();
    let mut chain = open(&disk, None, FILE_SIZE);
    let height = chain.tip_point().height;
    let first = chain.tree().ancestor(chain.tip(), height - 15).unwrap();
    let first = chain.tree().node(first).hash;
    chain.invalidate_block(&first).unwrap();
    chain.settle(clock()).unwrap();
    chain.flush().unwrap();
    chain.close().unwrap();
    let good = contents(&disk);
    for path in files(&disk).remove("rev.dat").unwrap() {
        disk.remove(&path).unwrap();
    }
    let (_, found) = verify(&disk, false);
    assert!(found.iter().all(|found| found.remedy == Remedy::Repair), "{found:?}");
    let (_, found) = verify(&disk, true);
    assert!(found.iter().all(|found| found.remedy == Remedy::Done), "{found:?}");
    assert_eq!(verify(&disk, false).1, []);
    assert!(contents(&disk) == good);
}

pub(crate) fn has_all_of(inspected: &Inspected, stats: &UtxoStats) -> bool {
    let coins = inspected.coins.as_ref();
    coins.is_some_and(|coins| (coins.muhash, coins.totals) == (stats.muhash, stats.totals))
}

#[test]
fn coins_beyond_parity_are_made_again_from_the_blocks() {
    let (disk, stats) = flushed();
    let mut several = 0;
    for how in 0..12 {
        let (disk, rotten_undo) = (disk.copy(), how % 3 == 0);
        lose_coins(&disk, how);
        if rotten_undo {
            cut_last_undo(&disk);
        }
        // Where only some blocks are lost, it may be that a start reads none of them.
        let opened = crate::pruning::try_open(&disk, None, FILE_SIZE).is_ok();
        assert!(!opened || how % 4 == 3, "{how}");
        let (inspected, found) = verify(&disk, false);
        assert_eq!(inspected.coins, None, "{how}");
        // Of filters and block indexes alone the entries tell.
        let is_named = |found: &Found| [Remedy::FromBlocks, Remedy::Repair].contains(&found.remedy);
        assert!(found.iter().all(is_named), "{how}: {found:?}");
        let from_blocks = found.iter().any(|found| found.remedy == Remedy::FromBlocks);
        assert!(from_blocks || how % 4 == 3, "{how}: {found:?}");
        let memory = if how < 8 { MEMORY } else { 40_000 };
        let mut notes = Notes::default();
        let inspected = run_within(memory, &disk, true, &mut notes).unwrap();
        let found = notes.found;
        assert!(found.iter().all(|found| found.remedy == Remedy::Done), "{how}: {found:?}");
        assert!(has_all_of(&inspected, &stats), "{how}");
        assert!(memory < MEMORY || notes.passes == 0, "{how}: one reading is enough");
        several += u32::from(notes.passes > 1);
        assert_eq!(verify(&disk, false).1, [], "{how}");
        // It goes on from there.
        let mut chain = open(&disk, None, FILE_SIZE);
        chain.settle(clock()).unwrap();
        let height = chain.tip_point().height as usize;
        submit_all(&mut chain, &BLOCKS[height..height + 20]);
        assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..height + 20]), "{how}");
    }
    assert!(several > 1, "{several}");
}

/// A run is lost, and the disk fails at any change while it is made again.
#[test]
fn coins_that_are_made_again_are_there_or_lost_as_before_whatever_fails() {
    let (disk, stats) = flushed();
    lose_coins(&disk, 1);
    let mut failures = 0;
    for n in (1..).step_by(4) {
        let disk = disk.copy();
        disk.fail_change(n);
        let ended = run_within(60_000, &disk, true, &mut Notes::default());
        let failed = disk.has_failed();
        disk.fail_nothing();
        if !failed {
            assert!(has_all_of(&ended.unwrap(), &stats));
            break;
        }
        failures += 1;
        disk.crash([Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3]);
        match crate::pruning::try_open(&disk, None, FILE_SIZE) {
            Ok(mut chain) => assert_eq!(chain.utxo_stats().unwrap(), stats, "change {n}"),
            Err(ChainError::Store(StoreError::Damaged { .. })) => {
                let (inspected, found) = verify(&disk, true);
                assert!(has_all_of(&inspected, &stats), "change {n}: {found:?}");
            }
            Err(error) => panic!("change {n}: {error}"),
        }
        assert_eq!(verify(&disk, false).1, [], "change {n}");
    }
    assert!(failures > 5, "{failures}");
}

/// What is needed for it is lost too: then the ways are those that there were before.
#[test]
fn coins_beyond_parity_without_all_blocks_have_one_way_out() {
    let (disk, _) = flushed();
    lose_coins(&disk, 0);
    let blocks = files(&disk).remove("blk.dat").unwrap();
    let mut bytes = disk.contents(&blocks[0]).unwrap();
    bytes[5000] ^= 1;
    disk.overwrite(&blocks[0], bytes);
    let (inspected, found) = verify(&disk, true);
    assert_eq!(inspected.coins, None);
    let remedies: Vec<Remedy> = found.iter().map(|found| found.remedy).collect();
    assert!(remedies.contains(&Remedy::Peers), "{found:?}");
    assert!(remedies.contains(&Remedy::ReindexChainstate), "{found:?}");
    let pruned = FaultDisk::new();
    let mut chain = open(&pruned, Some(1), ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    chain.close().unwrap();
    lose_coins(&pruned, 0);
    let before = contents(&pruned);
    for repair in [false, true] {
        let (_, found) = verify(&pruned, repair);
        assert_eq!(found.iter().map(|found| found.remedy).collect::<Vec<_>>(), [Remedy::Download]);
        assert!(contents(&pruned) == before);
    }
}

/// The last pass is not begun, or not ended.
#[test]
fn a_repair_of_coins_that_is_stopped_goes_on() {
    let (disk, stats) = flushed();
    lose_coins(&disk, 1);
    let mut whole = Notes::default();
    run_within(40_000, &disk.copy(), true, &mut whole).unwrap();
    assert!(whole.passes > 2, "{}", whole.passes);
    for after in (1..whole.steps - 2).step_by(5) {
        let disk = disk.copy();
        let mut notes = Notes { stop_after: Some(after), ..Notes::default() };
        match run_within(40_000, &disk, true, &mut notes) {
            Err(ChainError::Store(StoreError::Stopped)) => {}
            other => panic!("{after}: {other:?}"),
        }
        let mut rest = Notes::default();
        let inspected = run_within(40_000, &disk, true, &mut rest).unwrap();
        assert!(has_all_of(&inspected, &stats) && rest.passes <= whole.passes, "{after}");
        assert_eq!(verify(&disk, false).1, [], "{after}");
    }
}
