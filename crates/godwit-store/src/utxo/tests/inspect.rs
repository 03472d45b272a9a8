//! Inspection of runs: damage of every block, and blocks that are whole and say what is not so.

use godwit_fault_disk::{
    Anomaly, Counted, DiskError, Fault, Lasting, PlannedAnomaly, Seen, Survival,
};

use super::super::fixtures::{coin, hasher, long_coin, outpoint};
use super::super::run::format::{BLOCK, BLOCK_HEADER, BlockKind, RunId, open_block, seal_block};
use super::super::run::parity::STRIPES;
use super::damage::run_paths;
use super::*;
use crate::disk::Disk;
use crate::error::{Damage, Remedy};
use crate::inspect::{Found, Stage, Watch};

#[derive(Default)]
struct Notes(Vec<Found>);

impl Watch for Notes {
    fn found(&mut self, found: Found) {
        self.0.push(found);
    }

    fn progress(&mut self, stage: Stage, done: u64, total: u64) {
        assert!(stage == Stage::Runs && done <= total);
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

const COINS: u64 = 4000;

/// A run of one partition with entries, long ones among them, filter, index and footer.
fn one_run() -> (FaultDisk, Manifest) {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(0, &hasher())).unwrap();
    for n in 0..COINS {
        let coin = if n % 500 == 0 { long_coin(n, 9000) } else { coin(n) };
        add(&mut store, &outpoint(n), &coin, false);
    }
    (disk, commit(&mut store))
}

fn inspect(disk: &FaultDisk, manifest: &Manifest, repair: bool) -> (bool, Vec<Found>) {
    let disk = StoreDisk::new(Arc::new(disk.clone()));
    let mode = RepairMode { writes: repair, beyond_parity: Remedy::FromBlocks };
    let manifest = manifest.clone();
    let dir = Path::new(DIR);
    let runs = CoinsInspection::open(&disk, dir, hasher(), manifest, &executor(), mode).unwrap();
    let mut notes = Notes::default();
    let found = runs.inspect_runs(&mut notes).unwrap();
    let intact = found.lost.is_empty();
    notes.0.extend(found.untold);
    notes.0.sort_by_key(|found| (found.path.clone(), found.offset));
    let coins = runs.layers().and_then(|layers| {
        let (mut scan, mut coins) = (layers.scan()?, 0);
        while scan.next()?.is_some() {
            coins += 1;
        }
        Ok(coins)
    });
    assert_eq!(coins.ok(), intact.then_some(COINS), "{:?}", notes.0);
    (intact, notes.0)
}

#[test]
fn each_block_of_a_run_and_of_its_parity_is_looked_at() {
    let (good, manifest) = one_run();
    assert_eq!(inspect(&good, &manifest, false), (true, Vec::new()));
    let run = run_paths(&good).remove(0);
    for (path, is_run) in [(run.clone(), true), (run.with_extension("parity"), false)] {
        let bytes = good.contents(&path).unwrap();
        for number in 0..bytes.len() / BLOCK {
            let disk = good.copy();
            let mut bad = bytes.clone();
            bad[number * BLOCK + number * 37 % BLOCK] ^= 4;
            disk.overwrite(&path, bad.clone());
            for (repair, remedy) in [(false, Remedy::Repair), (true, Remedy::Done)] {
                let (intact, found) = inspect(&disk, &manifest, repair);
                assert!(intact && found.len() == 1, "block {number}: {found:?}");
                let Found { offset, bytes, damage, .. } = &found[0];
                assert_eq!((&found[0].path, found[0].remedy), (&path, remedy));
                assert_eq!((*offset, *bytes), ((number * BLOCK) as u64, BLOCK as u64));
                assert_eq!(*damage == Damage::Checksum, is_run, "{damage:?}");
                assert_eq!(disk.contents(&path).unwrap() == bytes_of(&good, &path), repair);
            }
            assert_eq!(inspect(&disk, &manifest, false), (true, Vec::new()));
        }
    }
}

fn bytes_of(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    disk.contents(path).unwrap()
}

#[test]
fn damage_beyond_parity_is_one_line_and_names_what_makes_the_coins_again() {
    let (good, manifest) = one_run();
    let run = run_paths(&good).remove(0);
    let bytes = bytes_of(&good, &run);
    assert!(bytes.len() > 70 * BLOCK, "{} blocks", bytes.len() / BLOCK);
    for repair in [false, true] {
        let disk = good.copy();
        let mut bad = bytes.clone();
        bad[2 * BLOCK..67 * BLOCK].fill(0);
        disk.overwrite(&run, bad);
        let (intact, found) = inspect(&disk, &manifest, repair);
        assert!(!intact);
        let lost: Vec<&Found> =
            found.iter().filter(|found| found.remedy == Remedy::FromBlocks).collect();
        // The first and the last of them share a stripe.
        assert_eq!(lost.len(), 2, "{found:?}");
        assert_eq!([lost[0].offset, lost[1].offset], [2, 66].map(|n| n * BLOCK as u64));
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[1].bytes, 63 * BLOCK as u64);
        disk.remove(&run).unwrap();
        let (intact, found) = inspect(&disk, &manifest, repair);
        assert!(!intact && found.len() == 1 && found[0].damage == Damage::MissingFile, "{found:?}");
    }
}

#[test]
fn a_run_of_another_length_and_missing_parity_are_told_and_repaired() {
    let (good, manifest) = one_run();
    let run = run_paths(&good).remove(0);
    let parity = run.with_extension("parity");
    let bytes = bytes_of(&good, &run);
    type Change<'a> = &'a dyn Fn(&FaultDisk);
    let changes: [(Change<'_>, &Path, Damage); 4] = [
        (&|disk| disk.overwrite(&run, bytes[..bytes.len() - 100].to_vec()), &run, Damage::Short),
        (&|disk| disk.overwrite(&run, [&bytes[..], b"more"].concat()), &run, Damage::TrailingBytes),
        (&|disk| disk.remove(&parity).unwrap(), &parity, Damage::MissingFile),
        (&|disk| disk.overwrite(&parity, vec![0; 100]), &parity, Damage::Short),
    ];
    for (change, path, damage) in changes {
        let disk = good.copy();
        change(&disk);
        let (intact, found) = inspect(&disk, &manifest, false);
        assert!(intact && found.len() == 1, "{found:?}");
        assert_eq!((found[0].path.as_path(), &found[0].damage), (path, &damage));
        assert_eq!(inspect(&disk, &manifest, true).1[0].remedy, Remedy::Done);
        assert_eq!(inspect(&disk, &manifest, false), (true, Vec::new()), "{damage:?}");
        assert!(bytes_of(&disk, path) == bytes_of(&good, path), "{damage:?}");
    }
}

#[test]
fn what_is_cut_off_a_run_is_so_after_a_power_cut() {
    let (disk, manifest) = one_run();
    let run = run_paths(&disk).remove(0);
    let bytes = bytes_of(&disk, &run);
    disk.overwrite(&run, [&bytes[..], b"more"].concat());
    assert_eq!(inspect(&disk, &manifest, true).1[0].remedy, Remedy::Done);
    disk.crash(Survival::Nothing);
    assert!(bytes_of(&disk, &run) == bytes);
}

/// Two runs may have changed places, and one of the names is a hard link perhaps: what looks like bytes left
/// over is the end of the other one, and may be all that is left of its coins.
#[test]
fn c6_nothing_is_cut_off_a_longer_run_of_another_number() {
    let (good, manifest) = one_run();
    let run = run_paths(&good).remove(0);
    let other = [&vec![0x5a; 3 * BLOCK][..], &bytes_of(&good, &run)].concat();
    for repair in [false, true] {
        let disk = good.copy();
        disk.overwrite(&run, other.clone());
        let (intact, found) = inspect(&disk, &manifest, repair);
        assert!(!intact && found.len() == 1 && found[0].damage == Damage::Format, "{found:?}");
        assert!(bytes_of(&disk, &run) == other);
    }
}

/// What a disk gives back that lost a write over a block of a run with the same number.
#[test]
fn c6_parity_is_not_made_of_a_block_of_another_time() {
    let (good, manifest) = one_run();
    let run = run_paths(&good).remove(0);
    let parity = run.with_extension("parity");
    let id = RunId::of_path(&run).unwrap();
    let bytes = bytes_of(&good, &run);
    // The first block of entries says another thing of its last coin, under a checksum that holds.
    let mut block: [u8; BLOCK] = bytes.as_chunks().0[1];
    let view = open_block(&block, id, 1).unwrap();
    let (kind, span, used) = (view.kind, view.span, view.payload.len());
    assert_eq!((kind, span), (BlockKind::Entries, 1));
    block[BLOCK_HEADER + used - 1] ^= 1;
    seal_block(&mut block, id, 1, kind, span, used);
    let disk = good.copy();
    let mut stale = bytes.clone();
    stale[BLOCK..2 * BLOCK].copy_from_slice(&block);
    disk.overwrite(&run, stale);
    for parity_now in [Some(bytes_of(&good, &parity)), None] {
        match &parity_now {
            Some(bytes) => disk.overwrite(&parity, bytes.clone()),
            None => disk.remove(&parity).unwrap(),
        }
        for repair in [false, true] {
            let runs = StoreDisk::new(Arc::new(disk.clone()));
            let mode = RepairMode { writes: repair, beyond_parity: Remedy::FromBlocks };
            let (dir, manifest) = (Path::new(DIR), manifest.clone());
            let runs =
                CoinsInspection::open(&runs, dir, hasher(), manifest, &executor(), mode).unwrap();
            let mut notes = Notes::default();
            let found = runs.inspect_runs(&mut notes).unwrap();
            assert!(!found.lost.is_empty());
            notes.0.extend(found.untold);
            let remedies: Vec<Remedy> = notes.0.iter().map(|found| found.remedy).collect();
            assert_eq!(remedies, [Remedy::FromBlocks; 2], "{:?}", notes.0);
            assert_eq!(disk.contents(&parity), parity_now, "it may be all that knows the block");
        }
    }
}

/// Blocks with right checksums that no writer would have written.
#[test]
fn parts_of_a_run_that_do_not_agree_are_told() {
    let (good, manifest) = one_run();
    let run = run_paths(&good).remove(0);
    let bytes = bytes_of(&good, &run);
    let id = RunId::of_path(&run).unwrap();
    let mut seen = Vec::new();
    for number in 0..(bytes.len() / BLOCK) as u32 {
        let mut block: [u8; BLOCK] = bytes.as_chunks().0[number as usize];
        let view = open_block(&block, id, number).unwrap();
        let (kind, span, used) = (view.kind, view.span, view.payload.len());
        if seen.contains(&(kind, span)) {
            continue;
        }
        seen.push((kind, span));
        // The last byte of a coin's script, a bit of the filter, a key, a count of the footer.
        let place = if kind == BlockKind::Footer { 30 + 13 } else { used - 1 };
        block[BLOCK_HEADER + place] ^= 1;
        seal_block(&mut block, id, number, kind, span, used);
        let disk = good.copy();
        let mut bad = bytes.clone();
        bad[number as usize * BLOCK..][..BLOCK].copy_from_slice(&block);
        disk.overwrite(&run, bad);
        let runs = StoreDisk::new(Arc::new(disk.clone()));
        let mode = RepairMode { writes: false, beyond_parity: Remedy::FromBlocks };
        let dir = Path::new(DIR);
        let runs = CoinsInspection::open(&runs, dir, hasher(), manifest.clone(), &executor(), mode)
            .unwrap();
        let mut notes = Notes::default();
        assert!(!runs.inspect_runs(&mut notes).unwrap().lost.is_empty(), "{kind:?}");
        let of_run = notes.0.iter().filter(|found| found.path == run);
        assert!(
            of_run.into_iter().any(|found| matches!(found.damage, Damage::Disagreement(_))),
            "{kind:?}: {:?}",
            notes.0
        );
        // Parity was not written with it.
        assert!(notes.0.iter().any(|found| found.path != run), "{kind:?}: {:?}", notes.0);
    }
    assert!(seen.len() >= 5, "{seen:?}");
}

/// Each read in turn fails once, or gives another bit.
#[test]
fn what_is_misread_once_is_no_damage() {
    let (good, manifest) = one_run();
    let counted = Counted::Reads;
    let state = |disk: &FaultDisk| -> Vec<_> {
        disk.paths().into_iter().map(|path| (disk.contents(&path), path)).collect()
    };
    let before = state(&good);
    let mut disturbed = 0;
    for (nth, repair) in (1..1000).flat_map(|nth| [(nth, false), (nth, true)]) {
        let (fails, flips) = (good.copy(), good.copy());
        let (error, lasting) = (DiskError::Device, Lasting::Once);
        fails.plan(Fault { counted, nth, error, lasting, forgets: false });
        let (anomaly, seen, seed) = (Anomaly::FlippedBit, Seen::AtOnce, nth);
        flips.plan_anomaly(PlannedAnomaly { counted, nth, anomaly, seen, seed });
        for disk in [&fails, &flips] {
            let found = inspect(disk, &manifest, repair);
            assert_eq!(found, (true, Vec::new()), "read {nth}, repair: {repair}");
            assert!(state(disk) == before, "read {nth}, repair: {repair}");
        }
        if !fails.has_failed() && flips.awaits_anomaly() {
            break;
        }
        disturbed = nth;
    }
    // All parity among them.
    assert!((STRIPES as u64..999).contains(&disturbed), "{disturbed} reads");
}
