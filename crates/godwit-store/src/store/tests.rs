use std::path::Path;

use godwit_fault_disk::{FaultDisk, Survival};
use godwit_stream::SerializeData;

use super::database::IDENTITY;
use super::*;
use crate::commit::{Commit, UtxoCommit};
use crate::disk::RealDisk;
use crate::fixtures::{MAGIC, append_block, block, header, point, record};
use crate::inspect::{Found, Inspection, Stage, Watch};
use crate::record::{AssumedSnapshot, Identity};

pub(super) const DIR: &str = "/node/regtest";
pub(super) const NETWORK: NetworkId = NetworkId { magic: MAGIC, genesis: [9; 32] };

pub(super) fn options(dir: &Path) -> StoreOptions {
    StoreOptions {
        dir: dir.to_owned(),
        network: NETWORK,
        new_hash_key: [3; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    }
}

pub(super) fn open(fault: &FaultDisk) -> Result<(Store, Vec<RecoveredBlock>), StoreError> {
    Store::open(Arc::new(fault.clone()), options(Path::new(DIR)))
}

pub(super) fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// A store with two committed blocks.
pub(super) fn filled() -> FaultDisk {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let blocks = [1, 2].map(|n| {
        let mut record = record(n, n);
        record.position = Some(append_block(&store, &block(n, 200)).unwrap());
        (record.header.block_hash(), record)
    });
    let blocks = blocks.to_vec();
    store
        .commit(Commit {
            appended: store.take_appended(),
            blocks,
            pruned: Vec::new(),
            verified_tip: Some(point(2, 2)),
            utxo: None,
            history: None,
            scrub: None,
        })
        .unwrap();
    fault
}

#[test]
fn a_new_directory_is_empty_and_keeps_its_hash_key() {
    let fault = FaultDisk::new();
    let (store, recovered) = open(&fault).unwrap();
    assert_eq!(recovered, []);
    assert_eq!(store.state().unwrap(), CommittedState::default());
    assert_eq!(store.utxo_hash_key(), [3; 16]);
    store.for_each_block(|_, _| panic!("no block yet")).unwrap();
    assert_eq!(fault.contents(&at("blocks/xor.dat")).unwrap(), [0; 8]);
    drop(store);
    let other_key = StoreOptions { new_hash_key: [4; 16], ..options(Path::new(DIR)) };
    let (store, _) = Store::open(Arc::new(fault), other_key).unwrap();
    assert_eq!(store.utxo_hash_key(), [3; 16]);
}

#[test]
fn what_was_committed_is_there_again_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("a/regtest");
    let (store, _) = Store::open(Arc::new(RealDisk), options(&dir)).unwrap();
    let mut first = record(1, 1);
    first.position = Some(append_block(&store, &block(1, 500)).unwrap());
    let second = record(2, 2);
    let hashes = [first, second].map(|record| record.header.block_hash());
    let assumed = AssumedSnapshot { base: point(1, 1), utxo_hash: [8; 32] };
    let manifest = SerializeData::from_iter([1, 2, 3]);
    let utxo = UtxoCommit { tip: point(1, 1), manifest: manifest.clone(), assumed: Some(assumed) };
    let blocks = vec![(hashes[1], second), (hashes[0], first)];
    let commit = Commit {
        appended: store.take_appended(),
        blocks,
        pruned: Vec::new(),
        verified_tip: Some(point(2, 2)),
        utxo: Some(utxo),
        history: None,
        scrub: None,
    };
    store.commit(commit).unwrap();
    // Leaves everything but the entry it names.
    let second = BlockRecord { tx_count: 5, ..second };
    store
        .commit(Commit {
            appended: store.take_appended(),
            blocks: vec![(hashes[1], second)],
            ..Commit::default()
        })
        .unwrap();
    drop(store);

    let (store, recovered) = Store::open(Arc::new(RealDisk), options(&dir)).unwrap();
    assert_eq!(recovered, []);
    let expected = CommittedState {
        utxo_tip: Some(point(1, 1)),
        utxo_manifest: Some(manifest),
        verified_tip: Some(point(2, 2)),
        assumed: Some(assumed),
        ..CommittedState::default()
    };
    assert_eq!(store.state().unwrap(), expected);
    let mut found = Vec::new();
    store
        .for_each_block(|hash, record| {
            found.push((hash, record));
            Ok(())
        })
        .unwrap();
    assert_eq!(found, [(hashes[0], first), (hashes[1], second)]);
    assert_eq!(store.read_block(first.position.unwrap()).unwrap().as_slice(), block(1, 500));
}

#[test]
fn the_block_index_is_visited_by_height() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let heights = [70_000, 3, 256, 255, 1, 65_536, 3];
    let blocks = heights.iter().zip(0..).map(|(height, nonce)| {
        let record = record(nonce, *height);
        (record.header.block_hash(), record)
    });
    store
        .commit(Commit {
            appended: store.take_appended(),
            blocks: blocks.collect(),
            ..Commit::default()
        })
        .unwrap();
    let mut found = Vec::new();
    store
        .for_each_block(|_, record| {
            found.push(record.height);
            Ok(())
        })
        .unwrap();
    assert_eq!(found, [1, 3, 3, 255, 256, 65_536, 70_000]);
}

#[test]
fn a_second_process_is_locked_out() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    assert_eq!(open(&fault).err(), Some(StoreError::Locked { path: at(".lock") }));
    drop(store);
    open(&fault).unwrap();
}

#[test]
fn another_network_is_refused() {
    let fault = filled();
    for expected in
        [NetworkId { magic: [1; 4], ..NETWORK }, NetworkId { genesis: [1; 32], ..NETWORK }]
    {
        let other = StoreOptions { network: expected, ..options(Path::new(DIR)) };
        let error = Store::open(Arc::new(fault.clone()), other).err();
        let path = at("godwit.redb");
        assert_eq!(error, Some(StoreError::OtherNetwork { path, found: NETWORK, expected }));
    }
}

#[test]
fn a_newer_schema_is_refused_and_this_one_accepted() {
    let fault = filled();
    for (schema, accepted) in [(SCHEMA_VERSION, true), (SCHEMA_VERSION + 1, false)] {
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        let db = Db::open(&disk, &at("godwit.redb")).unwrap();
        let mut batch = db.batch().unwrap();
        let identity = Identity { schema, network: NETWORK, utxo_hash_key: [0; 16] };
        batch.put(&IDENTITY, ONLY, &identity).unwrap();
        batch.commit().unwrap();
        drop(db);
        let newer = StoreError::NewerSchema {
            path: at("godwit.redb"),
            found: schema,
            supported: SCHEMA_VERSION,
        };
        assert_eq!(open(&fault).err(), (!accepted).then_some(newer));
    }
}

#[test]
fn a_directory_of_core_is_left_alone() {
    for database in ["chainstate", "blocks/index"] {
        let fault = FaultDisk::new();
        fault.create_dir_all(&at(database)).unwrap();
        assert_eq!(open(&fault).err(), Some(StoreError::CoreDirectory { path: at(database) }));
        assert!(fault.contents(&at("godwit.redb")).is_none());
    }
}

/// What the block files say goes for more than what the file with the key says.
#[test]
fn a_key_that_is_not_zero_is_refused_where_blocks_may_be_obfuscated_and_else_replaced() {
    let fault = filled();
    let intact = fault.contents(&at("blocks/blk00000.dat")).unwrap();
    for key in [vec![0, 0, 0, 0, 0, 0, 0, 1], vec![9; 8], vec![], vec![0; 3]] {
        fault.overwrite(&at("blocks/xor.dat"), key);
        open(&fault).unwrap();
        assert_eq!(fault.contents(&at("blocks/xor.dat")).unwrap(), [0; 8]);
    }
    fault.overwrite(&at("blocks/xor.dat"), vec![9; 8]);
    fault.overwrite(&at("blocks/blk00000.dat"), intact.iter().map(|byte| byte ^ 9).collect());
    let obfuscated = StoreError::ObfuscatedFiles { key: at("blocks/xor.dat") };
    assert_eq!(open(&fault).err(), Some(obfuscated));
}

#[test]
fn without_its_database_a_directory_gives_all_blocks_back() {
    let fault = filled();
    StoreDisk::new(Arc::new(fault.clone())).remove(&at("godwit.redb")).unwrap();
    let (store, recovered) = open(&fault).unwrap();
    let headers: Vec<_> = recovered.iter().map(|block| block.header).collect();
    assert_eq!(headers, [header(1), header(2)]);
    assert_eq!(store.state().unwrap(), CommittedState::default());
    assert_eq!(store.lost().unwrap().verified_tip, Some(point(2, 2)));
}

#[test]
fn recovered_blocks_become_durable_with_the_commit_that_names_them() {
    let fault = filled();
    let (store, _) = open(&fault).unwrap();
    let position = append_block(&store, &block(3, 300)).unwrap();
    drop(store);
    fault.crash(Survival::All);
    let (store, recovered) = open(&fault).unwrap();
    assert_eq!(recovered, [RecoveredBlock { position, header: header(3) }]);
    let record = BlockRecord { position: Some(position), ..record(3, 3) };
    let blocks = vec![(record.header.block_hash(), record)];
    store.commit(Commit { appended: store.take_appended(), blocks, ..Commit::default() }).unwrap();
    drop(store);
    fault.crash(Survival::Nothing);
    let (store, recovered) = open(&fault).unwrap();
    assert_eq!(recovered, []);
    assert_eq!(store.read_block(position).unwrap().as_slice(), block(3, 300));
}

/// Opens a directory whose database is to be given up: what was committed is known, and all blocks are
/// handed back; of its index nothing is there, or headers alone.
fn check_lost(fault: &FaultDisk, expected: &CommittedState, what: &str) -> usize {
    let (store, recovered) = open(fault).unwrap();
    assert_eq!(store.lost(), Some(expected), "{what}");
    assert_eq!(store.utxo_hash_key(), [3; 16]);
    let headers: Vec<_> = recovered.iter().map(|block| block.header).collect();
    assert_eq!(headers, [header(1), header(2)]);
    let mut kept = 0;
    let visited = store.for_each_block(|_, record| {
        kept += 1;
        assert_eq!((record.position, record.undo, record.tx_count), (None, None, 0), "{what}");
        Ok(())
    });
    visited.unwrap();
    kept
}

/// Every way to damage the database is without effect on what is read, or the database is begun again.
#[test]
fn a_damaged_database_is_told_apart() {
    let fault = filled();
    let path = at("godwit.redb");
    let intact = fault.contents(&path).unwrap();
    let contents = |fault: &FaultDisk| -> Result<_, StoreError> {
        let (store, _) = open(fault)?;
        if store.lost().is_some() {
            return Ok(None);
        }
        let mut found = Vec::new();
        store.for_each_block(|hash, record| {
            found.push((hash, record));
            Ok(())
        })?;
        Ok(Some((store.state()?, found, store.utxo_hash_key())))
    };
    let expected = contents(&fault).unwrap();
    let state = expected.clone().unwrap().0;
    let is_damage = |error: &StoreError| matches!(error, StoreError::Damaged { .. });

    for len in [0, 1, 100, 4095, 4096, intact.len() / 2, intact.len() - 4096, intact.len() - 1] {
        fault.overwrite(&path, intact[..len].to_vec());
        assert_eq!(check_lost(&fault, &state, &format!("cut to {len}")), 0);
    }
    let mut lost = 0;
    for at in (0..intact.len()).step_by(31).filter(|at| *at < 4096 || intact[*at] != 0) {
        let mut bytes = intact.clone();
        bytes[at] ^= 0x41;
        fault.overwrite(&path, bytes);
        match contents(&fault) {
            Ok(None) => {
                lost += 1;
                assert_eq!(check_lost(&fault, &state, &format!("byte {at}")), 0);
            }
            Ok(found) => assert_eq!(found, expected, "byte {at}"),
            Err(error) => assert!(is_damage(&error), "byte {at}: {error}"),
        }
    }
    assert!(lost > 0);
}

/// By its own repair, or by a copy of another time: at every start, not at the first alone.
#[test]
fn a_database_that_went_back_in_time_is_not_believed() {
    let path = at("godwit.redb");
    for pruned in [false, true] {
        let fault = filled();
        let before = fault.contents(&path).unwrap();
        let (store, _) = open(&fault).unwrap();
        for _ in 0..3 {
            append_block(&store, &block(3, 200)).unwrap();
        }
        let appended = store.take_appended();
        let commit = Commit { appended, verified_tip: Some(point(1, 1)), ..Commit::default() };
        store.commit(commit).unwrap();
        if pruned {
            store.commit(Commit { pruned: vec![7], ..Commit::default() }).unwrap();
        }
        drop(store);
        let now = fault.contents(&path).unwrap();
        fault.overwrite(&path, before.clone());
        let mut aside = None;
        for start in 0..3 {
            if pruned {
                let error = StoreError::damaged(&path, 0, Damage::RolledBack);
                assert_eq!(open(&fault).err(), Some(error), "start {start}");
                continue;
            }
            let (store, recovered) = open(&fault).unwrap();
            let lost = store.lost().unwrap();
            assert_eq!((lost.verified_tip, recovered.len()), (Some(point(1, 1)), 5));
            let first = aside.get_or_insert_with(|| fault.contents(&at("godwit.damaged")));
            assert!(first.is_some() && *first == fault.contents(&at("godwit.damaged")));
        }
        fault.overwrite(&path, now);
        let (store, _) = open(&fault).unwrap();
        assert_eq!((store.lost(), store.state().unwrap().verified_tip), (None, Some(point(1, 1))));
    }
}

/// The control file is one commit behind after a crash between the two, and may be lost.
#[test]
fn a_control_file_that_is_behind_or_lost_is_written_again() {
    let fault = filled();
    let files = [at("godwit.control0"), at("godwit.control1")];
    let read = |path: &PathBuf| fault.contents(path).unwrap();
    let intact = files.each_ref().map(read);
    assert_ne!(intact[0], intact[1]);
    fault.overwrite(&files[1], vec![1; 10]);
    drop(open(&fault).unwrap());
    assert_eq!(files.each_ref().map(read), intact, "commit 1 goes to the second one");
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    files.iter().for_each(|path| disk.remove(path).unwrap());
    drop(open(&fault).unwrap());
    assert_eq!(fault.contents(&files[1]).as_ref(), Some(&intact[1]));
}

/// What was repaired until then is told; the rest is read at another time.
#[test]
fn the_database_is_read_no_further_when_a_commit_is_due() {
    let fault = filled();
    let (store, _) = open(&fault).unwrap();
    store.commit(Commit { appended: store.take_appended(), ..Commit::default() }).unwrap();
    let damaged = at("godwit.control0");
    let good = fault.contents(&damaged).unwrap();
    fault.overwrite(&damaged, vec![7; good.len()]);
    for (stop, found) in [(true, 1), (false, 0)] {
        let files = store.scrub_files(&Arc::new(AtomicBool::new(stop))).unwrap();
        assert_eq!((files.is_done, files.found.len()), (!stop, found), "{:?}", files.found);
        assert_eq!(files.bytes > 0, !stop);
    }
    assert!(fault.contents(&damaged).unwrap() == good);
}

/// `redb` finds its own checksums right there.
#[test]
fn an_index_with_a_wrong_entry_is_begun_again_for_a_repair() {
    let fault = filled();
    let (store, _) = open(&fault).unwrap();
    let state = store.state().unwrap();
    let mut batch = store.db.batch().unwrap();
    let hash = header(7).block_hash();
    batch.put(&BLOCK_INDEX, BlockKey { height: 2, hash }, &record(2, 2)).unwrap();
    batch.commit().unwrap();
    drop(store);
    let (store, _) = open(&fault).unwrap();
    assert_eq!(store.lost(), None);
    let visited = store.for_each_block(|_, _| Ok(()));
    assert!(matches!(visited, Err(StoreError::Damaged { .. })), "{visited:?}");
    drop(store);
    let repair = StoreOptions { rebuild: Rebuild::IndexAlone, ..options(Path::new(DIR)) };
    drop(Store::open(Arc::new(fault.clone()), repair).unwrap());
    // The headers before the wrong one.
    let kept = 1 + usize::from(header(2).block_hash().to_bytes() < hash.to_bytes());
    assert_eq!(check_lost(&fault, &state, "begun again"), kept);
}

/// The key tells which of the files are of one directory.
#[test]
fn c6_a_control_file_or_database_of_another_directory_is_not_believed() {
    let fault = filled();
    let (store, _) = open(&fault).unwrap();
    let state = store.state().unwrap();
    drop(store);
    let files = ["godwit.control0", "godwit.control1", "godwit.redb"].map(at);
    let own = files.each_ref().map(|path| fault.contents(path).unwrap());
    // One with more commits, and another key.
    let other = FaultDisk::new();
    let foreign = StoreOptions { new_hash_key: [4; 16], ..options(Path::new(DIR)) };
    let (store, _) = Store::open(Arc::new(other.clone()), foreign).unwrap();
    for _ in 0..5 {
        store.commit(Commit::default()).unwrap();
    }
    drop(store);
    for path in &files[..2] {
        let fault = fault.copy();
        fault.overwrite(path, other.contents(path).unwrap());
        for start in 0..2 {
            let (store, _) = open(&fault).unwrap();
            assert_eq!((store.lost(), store.state().unwrap()), (None, state.clone()), "{start}");
            assert_eq!(store.utxo_hash_key(), [3; 16]);
        }
        let (store, _) = open(&fault).unwrap();
        store.commit(Commit::default()).unwrap();
        store.commit(Commit::default()).unwrap();
        drop(store);
        let disk = StoreDisk::new(Arc::new(fault));
        let keys: Vec<[u8; 16]> = Control::intact(&disk, Path::new(DIR))
            .unwrap()
            .iter()
            .map(|control| control.identity.utxo_hash_key)
            .collect();
        assert_eq!(keys, [[3; 16]; 2], "both are written again");
    }
    fault.overwrite(&files[2], other.contents(&files[2]).unwrap());
    assert_eq!(check_lost(&fault, &state, "of another directory"), 0);
    fault.overwrite(&files[2], own[2].clone());
    let (store, _) = open(&fault).unwrap();
    assert_eq!((store.lost(), store.state().unwrap()), (None, state));
}

/// A directory of this network, with so many commits and another key.
fn foreign(network: NetworkId) -> FaultDisk {
    let other = FaultDisk::new();
    let options = StoreOptions { network, new_hash_key: [4; 16], ..options(Path::new(DIR)) };
    let (store, _) = Store::open(Arc::new(other.clone()), options).unwrap();
    for _ in 0..5 {
        store.commit(Commit::default()).unwrap();
    }
    drop(store);
    other
}

pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn found(&mut self, _: Found) {}

    fn progress(&mut self, _: Stage, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// No command would help if they were believed, while everything else is there.
#[test]
fn c6_files_of_another_network_cost_nothing_that_is_of_this_one() {
    let fault = filled();
    let (store, _) = open(&fault).unwrap();
    let state = store.state().unwrap();
    // Both control files say the same.
    store.commit(Commit::default()).unwrap();
    drop(store);
    let files = ["godwit.control0", "godwit.control1", "godwit.redb"].map(at);
    let other_network = NetworkId { magic: [1; 4], ..NETWORK };
    let other = foreign(other_network);
    let copy = |fault: &FaultDisk, path: &PathBuf| {
        fault.overwrite(path, other.contents(path).unwrap());
    };
    let inspected = |fault: &FaultDisk| {
        let disk = Arc::new(fault.clone());
        Inspection::open(disk, Path::new(DIR), NETWORK, false, &mut Unwatched).map(drop)
    };
    for controls in [&files[..1], &files[1..2], &files[..2]] {
        let fault = fault.copy();
        controls.iter().for_each(|path| copy(&fault, path));
        assert_eq!(inspected(&fault), Ok(()));
        let without_database = fault.copy();
        StoreDisk::new(Arc::new(without_database.clone())).remove(&files[2]).unwrap();
        match controls.len() {
            1 => {
                assert_eq!(inspected(&without_database), Ok(()));
                assert_eq!(
                    check_lost(
                        &without_database,
                        &state,
                        "the other control file is of this network"
                    ),
                    0
                );
            }
            _ => {
                let refused = open(&without_database).err();
                assert!(matches!(refused, Some(StoreError::OtherNetwork { .. })), "{refused:?}");
                assert_eq!(inspected(&without_database).err(), refused);
            }
        }
        for start in 0..2 {
            let (store, _) = open(&fault).unwrap();
            assert_eq!((store.lost(), store.state().unwrap()), (None, state.clone()), "{start}");
        }
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        let intact = Control::intact(&disk, Path::new(DIR)).unwrap();
        let keys = intact.iter().map(|control| control.identity.utxo_hash_key);
        assert_eq!(keys.collect::<Vec<_>>(), [[3; 16]; 2], "they are written again");
    }
    let with_database = fault.copy();
    copy(&with_database, &files[2]);
    assert_eq!(inspected(&with_database), Ok(()));
    assert_eq!(check_lost(&with_database, &state, "a database of another network"), 0);
    files.iter().for_each(|path| copy(&fault, path));
    let refused = open(&fault).err();
    assert!(matches!(refused, Some(StoreError::OtherNetwork { .. })), "{refused:?}");
}

/// Of a newer program's control files one counts that has the key of this directory.
#[test]
fn a_control_file_of_a_newer_schema_counts_where_its_key_is_that_of_the_directory() {
    for (utxo_hash_key, is_refused) in [([3; 16], true), ([4; 16], false)] {
        let fault = filled();
        let schema = SCHEMA_VERSION + 1;
        let identity = Identity { schema, network: NETWORK, utxo_hash_key };
        let state = CommittedState::default();
        let newer = Control { commit: 8, identity, pruned: false, state };
        newer.write(&StoreDisk::new(Arc::new(fault.clone())), Path::new(DIR)).unwrap();
        for has_database in [true, false] {
            if !has_database {
                StoreDisk::new(Arc::new(fault.clone())).remove(&at("godwit.redb")).unwrap();
            }
            let refused = matches!(open(&fault.copy()).err(), Some(StoreError::NewerSchema { .. }));
            assert_eq!(refused, is_refused, "{has_database}");
        }
    }
}

#[test]
fn databases_that_were_set_aside_are_kept() {
    let fault = filled();
    for names in [&["godwit.damaged"][..], &["godwit.damaged", "godwit.damaged1"]] {
        let kept: Vec<_> = names.iter().map(|name| fault.contents(&at(name))).collect();
        let bad = vec![names.len() as u8; 5000];
        fault.overwrite(&at("godwit.redb"), bad.clone());
        drop(open(&fault).unwrap());
        let last = names.len() - 1;
        assert_eq!(fault.contents(&at(names[last])), Some(bad));
        for (name, before) in names[..last].iter().zip(kept) {
            assert!(before.is_some() && fault.contents(&at(name)) == before, "{name}");
        }
    }
}
