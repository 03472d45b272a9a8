//! Control files of another directory, beside a database that opens or does not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::{Chain, ChainError, CoinsMemory};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::network::{Network, Params};
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;
use godwit_store::{Rebuild, StoreError};

use crate::damage::files;
use crate::datadir::{clock, options};
use crate::inspect::verify;
use crate::pruning::{BLOCKS, DIR, ONE_BLOCK, submit_all};
use crate::reindex::{FILE_SIZE, contents, database, datadir, rebuilding, start};

/// What another directory of the network has, of more commits and another key, pruned or not.
fn foreign(prune: bool) -> FaultDisk {
    let disk = FaultDisk::new();
    let mut options = options(Params::new(Network::Regtest));
    options.coins_memory = CoinsMemory::Fixed(4 << 20);
    options.prune_bytes = prune.then_some(1);
    let shared = Arc::new(disk.clone());
    let mut chain =
        Chain::open_with_file_size(shared, DIR.into(), options, [9; 16], clock(), ONE_BLOCK)
            .unwrap();
    for blocks in BLOCKS.chunks(20) {
        submit_all(&mut chain, blocks);
        chain.flush().unwrap();
    }
    assert_eq!(chain.prune_height() > 0, prune);
    chain.close().unwrap();
    disk
}

const CONTROLS: [&str; 2] = ["godwit.control0", "godwit.control1"];

fn control(n: usize) -> PathBuf {
    Path::new(DIR).join(CONTROLS[n])
}

/// The runs tell which of two control files is of the directory, where the database does not.
#[test]
fn c6_a_control_file_of_another_directory_beside_a_damaged_database_is_passed_over() {
    let own = datadir(false);
    let expected = contents(&own);
    for prune in [false, true] {
        let other = foreign(prune);
        for n in 0..2 {
            let disk = own.copy();
            disk.overwrite(&control(n), other.contents(&control(n)).unwrap());
            disk.overwrite(&database(), vec![1; 9000]);
            let blocks = disk.list(&Path::new(DIR).join("blocks")).unwrap();
            let asked = disk.copy();
            assert!(contents(&disk) == expected, "{n}, {prune}");
            let mut chain = start(&asked, FILE_SIZE, rebuilding(Rebuild::Index)).unwrap();
            chain.settle(clock()).unwrap();
            assert_eq!(chain.utxo_stats().unwrap(), expected.1, "{n}, {prune}");
            chain.close().unwrap();
            assert_eq!(asked.list(&Path::new(DIR).join("blocks")).unwrap(), blocks, "{n}, {prune}");
        }
    }
}

/// With nobody else to ask, nothing is touched, and `-reindex` goes by the block files.
#[test]
fn c6_control_files_of_another_directory_alone_decide_nothing() {
    let own = datadir(false);
    let expected = contents(&own);
    for prune in [false, true] {
        let other = foreign(prune);
        let disk = own.copy();
        (0..2).for_each(|n| disk.overwrite(&control(n), other.contents(&control(n)).unwrap()));
        // The database opens.
        let before = disk.contents(&database());
        for n in 0..2 {
            let disk = disk.copy();
            disk.remove(&control(n)).unwrap();
            assert!(contents(&disk) == expected, "{n}, {prune}");
        }
        let with_both = disk.copy();
        assert!(contents(&with_both) == expected, "{prune}");
        assert!(with_both.contents(&database().with_extension("damaged")).is_none());
        assert!(before.is_some());
        // It does not.
        for bad in [Some(vec![1; 9000]), None] {
            let disk = disk.copy();
            match &bad {
                Some(bytes) => disk.overwrite(&database(), bytes.clone()),
                None => disk.remove(&database()).unwrap(),
            }
            let all = || {
                let paths = files(&disk).into_values().flatten();
                paths.map(|path| (disk.contents(&path), path)).collect::<Vec<_>>()
            };
            let before = all();
            for rebuild in [Rebuild::Nothing, Rebuild::Coins, Rebuild::IndexAlone] {
                let refused = start(&disk, FILE_SIZE, rebuilding(rebuild)).err();
                let Some(ChainError::Store(StoreError::Damaged { .. })) = refused else {
                    panic!("{rebuild:?}: {refused:?}")
                };
                assert!(all() == before, "{rebuild:?}");
            }
            let blocks = disk.list(&Path::new(DIR).join("blocks")).unwrap();
            let mut chain = start(&disk, FILE_SIZE, rebuilding(Rebuild::Index)).unwrap();
            chain.settle(clock()).unwrap();
            assert_eq!(chain.utxo_stats().unwrap(), expected.1, "{prune}");
            chain.close().unwrap();
            assert_eq!(disk.list(&Path::new(DIR).join("blocks")).unwrap(), blocks, "{prune}");
        }
    }
}

/// As long as nobody else says whose the control files are.
#[test]
fn c6_runs_without_their_ends_tell_by_their_parity_whose_the_control_files_are() {
    let own = datadir(false);
    let expected = contents(&own);
    own.remove(&database()).unwrap();
    for path in &files(&own)[".run"] {
        let mut bytes = own.contents(path).unwrap();
        bytes.truncate(bytes.len() - 424);
        own.overwrite(path, bytes);
    }
    let without_parity = own.copy();
    files(&own)[".parity"].iter().for_each(|path| without_parity.remove(path).unwrap());
    let with_foreign = own.copy();
    let other = foreign(false);
    (0..2).for_each(|n| with_foreign.overwrite(&control(n), other.contents(&control(n)).unwrap()));
    for disk in [&without_parity, &with_foreign] {
        for rebuild in [Rebuild::Nothing, Rebuild::Coins, Rebuild::IndexAlone] {
            let refused = start(disk, FILE_SIZE, rebuilding(rebuild)).err();
            let Some(ChainError::Store(StoreError::Damaged { path, .. })) = refused else {
                panic!("{rebuild:?}: {refused:?}")
            };
            assert_eq!(path, database(), "{rebuild:?}");
        }
    }
    let by_verify = own.copy();
    let (_, found) = verify(&by_verify, true);
    assert!(found.iter().all(|found| found.remedy == Remedy::Done), "{found:?}");
    assert_eq!(contents(&by_verify).1, expected.1);
    assert!(contents(&own.copy()) == expected);
    let mut chain = start(&own, FILE_SIZE, rebuilding(Rebuild::Coins)).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), expected.1);
    chain.close().unwrap();
}
