use std::sync::Arc;

use godwit_fault_disk::FaultDisk;

use super::super::tests::{DIR, at, filled, open, options};
use super::super::{Rebuild, Store, StoreOptions};
use super::*;
use crate::commit::Commit;
use crate::disk::Disk;
use crate::fixtures::{MAGIC, append_block, block, framed, header};
use crate::inspect::{Found, Inspection, Stage, Watch};

const KEY: [u8; 8] = [0x5a, 1, 2, 3, 0xff, 5, 6, 7];

const REBUILDS: [Rebuild; 4] =
    [Rebuild::Nothing, Rebuild::Coins, Rebuild::Index, Rebuild::IndexAlone];

const BLOCKS: [&str; 2] = ["blocks/blk00000.dat", "blocks/blk00001.dat"];

/// A directory with these files and nothing else.
fn directory(files: &[(&str, Vec<u8>)]) -> FaultDisk {
    let fault = FaultDisk::new();
    fault.create_dir_all(&at("blocks")).unwrap();
    for (name, bytes) in files {
        fault.overwrite(&at(name), bytes.clone());
    }
    fault
}

fn rebuild(fault: &FaultDisk, rebuild: Rebuild) -> Result<Store, StoreError> {
    let options = StoreOptions { rebuild, ..options(Path::new(DIR)) };
    Store::open(Arc::new(fault.clone()), options).map(|(store, _)| store)
}

fn records() -> Vec<u8> {
    [framed(&block(1, 300)), framed(&block(2, 5_000)), vec![0; 10_000]].concat()
}

fn obfuscated() -> Vec<u8> {
    let mut bytes = records();
    Obfuscation::new(KEY).apply(&mut bytes, 0);
    bytes
}

fn of_another_network() -> Vec<u8> {
    [[1, 2, 3, 4].to_vec(), records()[4..308].to_vec(), [1, 2, 3, 4].to_vec(), vec![9; 700]]
        .concat()
}

/// However it is started, and as often as it is started.
fn assert_refused(files: &[(&str, Vec<u8>)], error: &StoreError) {
    for how in REBUILDS {
        let fault = directory(files);
        for _ in 0..2 {
            assert_eq!(rebuild(&fault, how).err().as_ref(), Some(error), "{how:?}");
            for (name, bytes) in files {
                assert!(fault.contents(&at(name)).as_ref() == Some(bytes), "{how:?}: {name}");
            }
            for name in ["godwit.redb", "godwit.control0", "godwit.control1"] {
                assert_eq!(fault.contents(&at(name)), None, "{how:?}");
            }
        }
    }
}

#[test]
fn block_files_of_core_or_another_network_are_refused_and_lose_nothing() {
    let xor = "blocks/xor.dat";
    for bytes in [obfuscated(), of_another_network(), vec![7], vec![0xff; 200_000]] {
        let all = [
            (BLOCKS[0], bytes.clone()),
            (BLOCKS[1], bytes.clone()),
            ("blocks/rev00000.dat", bytes.clone()),
        ];
        let foreign = |name| StoreError::ForeignFile { path: at(name) };
        assert_refused(&all, &foreign(BLOCKS[0]));
        for key in [KEY.to_vec(), KEY[..7].to_vec(), vec![]] {
            assert_refused(&[&all[..], &[(xor, key)]].concat(), &foreign(BLOCKS[0]));
        }
        // Of several files, one is enough.
        assert_refused(&[(BLOCKS[0], records()), all[1].clone()], &foreign(BLOCKS[1]));
        let undo = "blocks/rev00000.dat";
        assert_refused(&[(BLOCKS[0], records()), (undo, bytes)], &foreign(undo));
    }
}

/// Its other records tell.
#[test]
fn c5_an_undo_file_whose_first_records_are_damaged_is_still_one_s_own() {
    let record = [&MAGIC[..], &u32::to_le_bytes(100), &[7; 132]].concat();
    let undo = "blocks/rev00000.dat";
    let refused = |bytes: &[u8]| {
        let fault = directory(&[(BLOCKS[0], records()), (undo, bytes.to_vec())]);
        let refused = open(&fault).err();
        let foreign = StoreError::ForeignFile { path: at(undo) };
        assert!(refused.as_ref().is_none_or(|error| *error == foreign), "{refused:?}");
        refused.is_some()
    };
    for damaged in 1..=4 {
        let mut bytes = record.repeat(4);
        bytes[..damaged * record.len() - 132].fill(0x5a);
        assert_eq!(refused(&bytes), damaged == 4, "{damaged}");
        // The frame of the last one leads nowhere.
        bytes[3 * record.len() + 5] ^= 0x40;
        assert_eq!(refused(&bytes), damaged >= 3, "{damaged}");
    }
}

/// Both sides of what a crash can leave of the first record.
#[test]
fn what_a_crash_leaves_of_the_first_record_is_cut_off_and_nothing_else() {
    let record = framed(&block(1, 300));
    let torn = (0..record.len()).map(|len| record[..len].to_vec());
    let zeros = [1, 8, 70_000].map(|len| vec![0; len]);
    for left in torn.chain(zeros) {
        let fault = directory(&[(BLOCKS[0], left.clone())]);
        let (store, recovered) = open(&fault).unwrap();
        assert_eq!(recovered, []);
        assert_eq!(fault.contents(&at(BLOCKS[0])).unwrap(), []);
        let position = append_block(&store, &block(2, 90)).unwrap();
        assert_eq!((position.file, position.offset), (0, 8));
        drop(store);
        if left.iter().any(|byte| *byte != 0) {
            for at in 0..left.len().min(4) {
                let mut other = left.clone();
                other[at] ^= 1;
                let path = self::at(BLOCKS[0]);
                let fault = directory(&[(BLOCKS[0], other)]);
                assert_eq!(open(&fault).err(), Some(StoreError::ForeignFile { path }));
            }
        }
    }
    for (len, is_torn) in [(79, false), (80, true), (4_000_000, true), (4_000_001, false)] {
        let bytes = [&MAGIC[..], &u32::to_le_bytes(len), &[5; 70]].concat();
        let fault = directory(&[(BLOCKS[0], bytes)]);
        assert_eq!(open(&fault).is_ok(), is_torn, "{len}");
    }
}

/// Where Core's `-blocksdir` names the directory, neither of its databases is there.
#[test]
fn a_directory_of_blocks_that_core_has_locked_is_left_alone() {
    let lock = ("blocks/.lock", vec![]);
    let core = StoreError::CoreDirectory { path: at(lock.0) };
    assert_refused(&[(BLOCKS[0], records()), lock.clone()], &core);
    // Without block files there is nothing to be lost, and else it is known whose they are.
    drop(open(&directory(std::slice::from_ref(&lock))).unwrap());
    for kept in ["godwit.redb", "godwit.control0"] {
        let fault = filled();
        fault.overwrite(&at(lock.0), vec![]);
        for name in ["godwit.redb", "godwit.control0", "godwit.control1"] {
            if name != kept && fault.contents(&at(name)).is_some() {
                StoreDisk::new(Arc::new(fault.clone())).remove(&at(name)).unwrap();
            }
        }
        drop(open(&fault).unwrap());
    }
}

/// Its own data are there: they must not be given up for a directory of its own.
#[test]
fn a_directory_on_which_core_was_started_is_refused_with_what_is_to_be_deleted() {
    let owned = ["godwit.redb", "godwit.control0", "godwit.control1"];
    for made in ["chainstate", "blocks/index"] {
        for kept in &owned[..2] {
            let fault = filled();
            for name in owned.iter().filter(|name| *name != kept) {
                if fault.contents(&at(name)).is_some() {
                    StoreDisk::new(Arc::new(fault.clone())).remove(&at(name)).unwrap();
                }
            }
            fault.create_dir_all(&at(made)).unwrap();
            let blocks = fault.contents(&at(BLOCKS[0]));
            let error = StoreError::CoreStarted { path: at(made), dir: DIR.into() };
            for how in REBUILDS {
                assert_eq!(rebuild(&fault, how).err().as_ref(), Some(&error), "{how:?}, {kept}");
            }
            assert!(fault.contents(&at(BLOCKS[0])) == blocks);
            let text = error.to_string();
            let told =
                format!("delete chainstate, blocks/index and blocks/.lock in {DIR}, and start");
            assert!(text.contains(&told) && !text.contains("of its own"), "{text}");
        }
    }
}

/// Nothing is known of a directory whose database is damaged, without control files.
#[test]
fn a_reindex_that_knows_nothing_refuses_foreign_files() {
    for (bytes, is_refused) in [(records(), false), (obfuscated(), true)] {
        let fault = directory(&[(BLOCKS[0], bytes.clone()), ("godwit.redb", vec![3; 5_000])]);
        let path = at(BLOCKS[0]);
        let error = is_refused.then_some(StoreError::ForeignFile { path: path.clone() });
        assert_eq!(rebuild(&fault, Rebuild::Index).err(), error);
        if is_refused {
            assert!(fault.contents(&path) == Some(bytes));
        }
    }
}

/// What comes last in a file may be there of what a power cut was in, and what comes first not.
#[test]
fn of_a_known_directory_a_file_without_its_beginning_is_left_by_a_power_cut() {
    for (zeros, is_cut) in [(7, false), (8, true), (512, true), (3_000, true)] {
        let mut left = vec![7; 3_000];
        left[..zeros].fill(0);
        let fault = filled();
        fault.overwrite(&at(BLOCKS[1]), left.clone());
        let (store, _) = open(&fault).unwrap();
        let position = append_block(&store, &block(7, 200)).unwrap();
        assert_eq!(position.file, if is_cut { 1 } else { 2 }, "{zeros}");
        if !is_cut {
            assert!(fault.contents(&at(BLOCKS[1])) == Some(left.clone()));
        }
        // Nothing is known of this one.
        let opened = open(&directory(&[(BLOCKS[0], left)]));
        assert_eq!(opened.is_ok(), zeros == 3_000, "{zeros}");
    }
}

/// It may be anything, and a directory of godwit's has to start.
#[test]
fn a_foreign_file_behind_those_of_a_known_directory_stays_and_blocks_go_behind_it() {
    for how in [Rebuild::Nothing, Rebuild::Index] {
        let (fault, foreign) = (filled(), obfuscated());
        fault.overwrite(&at(BLOCKS[1]), foreign.clone());
        for start in 0..3_u32 {
            let store = rebuild(&fault, how).unwrap();
            let position = append_block(&store, &block(7 + start, 200)).unwrap();
            assert_eq!((position.file, position.offset), (2, 8 + 208 * start));
            store.commit(Commit { appended: store.take_appended(), ..Commit::default() }).unwrap();
            assert!(fault.contents(&at(BLOCKS[1])).as_ref() == Some(&foreign), "{start}");
            assert_eq!(
                store.read_block(position).unwrap().as_slice()[..80],
                header(7 + start).to_bytes()
            );
        }
    }
}

/// As users of Core move its files, and then have all indexed again: coins and undo records are those of
/// blocks that are somewhere.
#[test]
fn files_of_core_in_place_of_those_of_a_known_directory_are_refused_before_anything_is_given_up() {
    let (intact, xor) = (filled(), at("blocks/xor.dat"));
    intact.overwrite(&at(BLOCKS[0]), obfuscated());
    intact.overwrite(&xor, KEY.to_vec());
    let run = at("utxo/0000000000.run");
    for name in [&at("blocks/rev00000.dat"), &run] {
        intact.overwrite(name, vec![7; 500]);
    }
    let owned =
        ["godwit.control0", "godwit.control1", "blocks/rev00000.dat", "blocks/blk00000.dat"];
    let error = StoreError::ObfuscatedFiles { key: xor };
    for (how, has_database) in REBUILDS.into_iter().flat_map(|how| [(how, true), (how, false)]) {
        let fault = intact.copy();
        if !has_database {
            StoreDisk::new(Arc::new(fault.clone())).remove(&at("godwit.redb")).unwrap();
            StoreDisk::new(Arc::new(fault.clone())).remove(&run).unwrap();
        }
        let contents = || {
            let files = owned.iter().map(|name| at(name)).chain([run.clone()]);
            files.map(|path| fault.contents(&path)).collect::<Vec<_>>()
        };
        let before = contents();
        assert_eq!(rebuild(&fault, how).err().as_ref(), Some(&error), "{how:?}, {has_database}");
        assert!(contents() == before, "{how:?}, {has_database}");
    }
    let network = options(Path::new(DIR)).network;
    for repair in [false, true] {
        let disk = Arc::new(intact.copy());
        let opened = Inspection::open(disk, Path::new(DIR), network, repair, &mut Nobody);
        assert_eq!(opened.err().as_ref(), Some(&error));
    }
}

struct Nobody;

impl Watch for Nobody {
    fn found(&mut self, found: Found) {
        panic!("{found}");
    }

    fn progress(&mut self, _: Stage, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// A key of a wrong length says no more than a wrong one.
#[test]
fn a_torn_key_is_refused_where_blocks_may_be_obfuscated() {
    let (path, intact) = (at("blocks/xor.dat"), filled());
    for key in [vec![], vec![0; 3], vec![9; 9]] {
        let fault = intact.copy();
        fault.overwrite(&path, key.clone());
        let blocks = fault.contents(&at(BLOCKS[0])).unwrap();
        fault.overwrite(&at(BLOCKS[0]), blocks.iter().map(|byte| byte ^ 9).collect());
        let obfuscated = StoreError::ObfuscatedFiles { key: path.clone() };
        assert_eq!(open(&fault).err(), Some(obfuscated));
        assert_eq!(fault.contents(&path), Some(key.clone()));
        // A directory without blocks, whose creation a crash has ended.
        fault.overwrite(&at(BLOCKS[0]), vec![]);
        drop(open(&fault).unwrap());
        assert_eq!(fault.contents(&path), Some(vec![0; 8]));
    }
}

/// Start after start, also when a commit has named later files.
#[test]
fn a_file_that_was_left_as_it_is_stays_and_an_empty_one_goes() {
    let torn = framed(&block(9, 9_000))[..8_800].to_vec();
    for (left, lost, stays) in
        [(torn.clone(), 4096..4608, true), (obfuscated(), 0..0, true), (vec![], 0..0, false)]
    {
        let (fault, path) = (filled(), at(BLOCKS[1]));
        fault.overwrite(&path, left.clone());
        let undo = at("blocks/rev00001.dat");
        fault.overwrite(&undo, framed(&[5; 90]));
        fault.overwrite(&at("blocks/blk00002.dat"), framed(&block(3, 200)));
        if !lost.is_empty() {
            fault.lose_sectors(&path, lost);
        }
        for start in 0..3 {
            let (store, recovered) = open(&fault).unwrap();
            assert_eq!(recovered.len(), usize::from(start == 0));
            let appended = store.take_appended();
            store.commit(Commit { appended, ..Commit::default() }).unwrap();
            let there = fault.contents(&path);
            let expected = (stays || start == 0).then_some(&left);
            assert!(there.as_ref() == expected, "{start}, {stays}");
            let has_undo = fault.contents(&undo).is_some();
            assert_eq!(has_undo, stays || start == 0, "whichever of the two is removed first");
        }
    }
}

/// Bitcoin Core has them under names of its own where a directory was handed over.
#[test]
fn undo_files_that_are_made_anew_get_new_names_and_others_stay() {
    let (path, bytes) = (at("blocks/rev00000.dat"), framed(&[5; 90]));
    for (how, has_database, stays) in [
        (Rebuild::Nothing, true, true),
        (Rebuild::Nothing, false, true),
        (Rebuild::Coins, true, true),
        (Rebuild::Coins, false, true),
        (Rebuild::IndexAlone, true, true),
        (Rebuild::Index, true, false),
        (Rebuild::Index, false, false),
    ] {
        let fault = filled();
        fault.overwrite(&path, bytes.clone());
        if !has_database {
            StoreDisk::new(Arc::new(fault.clone())).remove(&at("godwit.redb")).unwrap();
        }
        drop(rebuild(&fault, how).unwrap());
        fault.crash(godwit_fault_disk::Survival::Nothing);
        let expected = stays.then(|| bytes.clone());
        assert_eq!(fault.contents(&path), expected, "{how:?}, {has_database}");
    }
}
