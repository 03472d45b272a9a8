//! Checks that the files from which a data directory is read or rebuilt exist and may be used, before
//! anything is written or given up.

use std::path::Path;

use super::{Rebuild, StoreOptions, pruned_blocks, refuse_obfuscated_files};
use crate::block_files::{check_distinct, check_links, check_usable, has_files};
use crate::disk::StoreDisk;
use crate::error::{DamagedPart, StoreError};
use crate::names::{BLOCKS_DIR, HISTORY_DIR, UTXO_DIR};
use crate::utxo::check_removable;
use crate::{checkpoint, control};

/// What the last commit names.
pub(super) struct Named {
    pub(super) block_files: usize,
    /// Of coins.
    pub(super) runs: usize,
    /// No block was pruned, and none is below a snapshot.
    pub(super) whole: bool,
}

/// Refuses a directory of which a disk is not mounted or may not be used. An operator who wants the index
/// made again may have lost all block files, so that these may be missing.
///
/// # Errors
///
/// [`StoreError::AllMissing`], [`StoreError::ObfuscatedFiles`]; a failed system call.
pub(super) fn check_sources(
    disk: &StoreDisk,
    StoreOptions { dir, network, rebuild, .. }: &StoreOptions,
    named: Option<&Named>,
) -> Result<(), StoreError> {
    let (blocks_dir, rebuild) = (dir.join(BLOCKS_DIR), *rebuild);
    if let (Some(named), Rebuild::Nothing | Rebuild::Coins) = (named, rebuild) {
        check_presence(disk, dir, named, rebuild)?;
    }
    // Before they are opened.
    check_links(disk, &blocks_dir)?;
    check_distinct(disk, &blocks_dir)?;
    if named.is_some() {
        refuse_obfuscated_files(disk, &blocks_dir, network.magic)?;
    }
    if matches!(rebuild, Rebuild::Coins | Rebuild::Index) {
        check_usable(disk, &blocks_dir)?;
        [&blocks_dir, &dir.join(UTXO_DIR)].iter().try_for_each(|dir| disk.check_writable(dir))?;
        check_given_up(disk, dir)?;
    }
    Ok(())
}

/// Fails where what is removed or written when coins are given up cannot be: they would be given up, and no
/// start would go on.
fn check_given_up(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    let paths = checkpoint::paths(dir).chain(pruned_blocks::paths(dir));
    for path in paths.chain([control::unfinished(dir)]) {
        disk.is_missing(&path)?;
    }
    [UTXO_DIR, HISTORY_DIR].iter().try_for_each(|name| check_removable(disk, &dir.join(name)))
}

/// Fails where there is no block file, or nothing of the coins, of all that the last commit names. Of runs
/// that are lost the parity is there.
fn check_presence(
    disk: &StoreDisk,
    dir: &Path,
    &Named { block_files, runs, whole }: &Named,
    rebuild: Rebuild,
) -> Result<(), StoreError> {
    let all_missing = |dir, part, named| Err(StoreError::AllMissing { dir, part, named, whole });
    let blocks_dir = dir.join(BLOCKS_DIR);
    if block_files > 0 && !has_files(disk, &blocks_dir)? {
        return all_missing(blocks_dir, DamagedPart::Index, block_files);
    }
    let utxo_dir = dir.join(UTXO_DIR);
    let is_wanted = rebuild == Rebuild::Nothing && runs > 0;
    match is_wanted && disk.list(&utxo_dir)?.is_empty() {
        true => all_missing(utxo_dir, DamagedPart::Coins, runs),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use godwit_fault_disk::FaultDisk;
    use godwit_stream::SerializeData;

    use super::super::Store;
    use super::super::tests::{DIR, NETWORK, Unwatched, at, filled, open, options};
    use super::*;
    use crate::commit::{Commit, UtxoCommit};
    use crate::disk::RealDisk;
    use crate::fixtures::{block, point};
    use crate::inspect::Inspection;
    use crate::store::StoreOptions;
    use crate::utxo::UtxoHasher;

    fn rebuild(fault: &FaultDisk, rebuild: Rebuild) -> Result<(), StoreError> {
        let options = StoreOptions { rebuild, ..options(Path::new(DIR)) };
        Store::open(Arc::new(fault.clone()), options).map(drop)
    }

    fn all_missing(dir: &str, part: DamagedPart, named: usize) -> Option<StoreError> {
        Some(StoreError::AllMissing { dir: at(dir), part, named, whole: true })
    }

    /// Coins that one run holds, which is not written.
    fn commit_coins(store: &Store) {
        let key = UtxoHasher::new(options(Path::new(DIR)).new_hash_key).fingerprint();
        let one_run = [&[1, 0][..], &key.to_le_bytes(), &[0; 16], &[1], &[0; 36]].concat();
        let manifest = SerializeData::from_iter(one_run);
        let utxo = UtxoCommit { tip: point(2, 2), manifest, assumed: None };
        store.commit(Commit { utxo: Some(utxo), ..Commit::default() }).unwrap();
    }

    #[test]
    fn what_is_in_the_way_of_a_rebuild_is_refused_before_the_coins_are_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let open = |rebuild| {
            let options = StoreOptions { rebuild, ..options(dir.path()) };
            Store::open(Arc::new(RealDisk), options).map(|(store, _)| store)
        };
        commit_coins(&open(Rebuild::Nothing).unwrap());
        fs::write(dir.path().join("utxo/0000000001.parity"), "").unwrap();
        let in_the_way = [
            "utxo-history",
            "undo.checkpoint",
            "repair.checkpoint.new",
            "godwit.control.new",
            "godwit.pruned.new",
            "utxo/0000000002.run",
        ];
        for name in in_the_way {
            let path = dir.path().join(name);
            match name {
                "utxo-history" => fs::write(&path, "").unwrap(),
                _ => fs::create_dir(&path).unwrap(),
            }
            for rebuild in [Rebuild::Coins, Rebuild::Index] {
                let refused = open(rebuild).err().unwrap();
                assert_eq!(refused.unusable_path(), Some(&*path), "{refused}");
            }
            if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) }.unwrap();
            let state = open(Rebuild::Nothing).unwrap().state().unwrap();
            assert_eq!(state.utxo_tip, Some(point(2, 2)), "{name}");
        }
        assert_eq!(open(Rebuild::Coins).unwrap().state().unwrap().utxo_tip, None);
    }

    /// Undo records would be appended to the file of blocks, or cut it off.
    #[test]
    fn a_block_file_that_has_the_name_of_an_undo_file_too_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(Arc::new(RealDisk), options(dir.path())).map(|(store, _)| store);
        let store = open().unwrap();
        let place = store.reserve_block(200, false).unwrap();
        store.note_written(store.write_block(place, &block(1, 200)).unwrap());
        store.commit(Commit { appended: store.take_appended(), ..Commit::default() }).unwrap();
        drop(store);
        let [blocks, undo] =
            ["blocks/blk00000.dat", "blocks/rev00000.dat"].map(|name| dir.path().join(name));
        fs::hard_link(&blocks, &undo).unwrap();
        let before = fs::read(&blocks).unwrap();
        let inspected =
            Inspection::open(Arc::new(RealDisk), dir.path(), NETWORK, true, &mut Unwatched).err();
        for refused in [open().err(), inspected] {
            let refused = refused.unwrap();
            assert_eq!(refused.unusable_path(), Some(&*undo), "{refused}");
            assert!(refused.to_string().contains("blk00000.dat"), "{refused}");
        }
        assert!(fs::read(&blocks).unwrap() == before);
        fs::remove_file(&undo).unwrap();
        open().unwrap();
    }

    /// More likely it is an empty mount point.
    #[test]
    fn an_empty_directory_of_blocks_is_refused_and_nothing_is_given_up_but_for_a_reindex() {
        let fault = filled();
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        for path in disk.list(&at("blocks")).unwrap() {
            disk.remove(&path).unwrap();
        }
        let controls =
            || ["godwit.control0", "godwit.control1"].map(|name| fault.contents(&at(name)));
        let before = controls();
        for how in [Rebuild::Nothing, Rebuild::Coins] {
            let refused = all_missing("blocks", DamagedPart::Index, 1);
            assert_eq!(rebuild(&fault, how).err(), refused, "{how:?}");
            assert!(disk.list(&at("blocks")).unwrap().is_empty(), "{how:?}");
            assert!(controls() == before, "{how:?}");
        }
        // They are lost.
        rebuild(&fault, Rebuild::Index).unwrap();
    }

    #[test]
    fn an_empty_directory_of_coins_is_refused_but_for_a_rebuild() {
        let fault = filled();
        let (store, _) = open(&fault).unwrap();
        commit_coins(&store);
        drop(store);
        let refused = all_missing("utxo", DamagedPart::Coins, 1);
        assert_eq!(rebuild(&fault, Rebuild::Nothing).err(), refused);
        // What is left there tells that it is the directory.
        fault.overwrite(&at("utxo/0000000000000000.parity"), vec![1]);
        rebuild(&fault, Rebuild::Nothing).unwrap();
        rebuild(&fault, Rebuild::Coins).unwrap();
    }
}
