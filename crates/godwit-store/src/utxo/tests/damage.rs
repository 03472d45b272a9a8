//! What is on disk is not what was written, and nothing says what it was.

use std::path::PathBuf;

use godwit_stream::{DataStream, Decode, SpanReader};

use super::super::fixtures::{coin, hasher, long_coin, outpoint};
use super::super::run::format::BLOCK;
use super::*;
use crate::disk::Disk;
use crate::error::{Damage, StoreError};

const COINS: u64 = 600;

/// Two runs with every kind of block and without parity, as schema 1 has them, and their manifest.
fn two_runs() -> (FaultDisk, Manifest) {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    for n in 0..COINS {
        let long = [0, 7, 5000, 10_000][n as usize % 4];
        let coin = if n % 100 < 4 && long > 0 { long_coin(n, long) } else { coin(n) };
        add(&mut store, &outpoint(n), &coin, false);
        if n == COINS / 2 {
            commit(&mut store);
        }
    }
    let manifest = commit(&mut store);
    assert_eq!(store.shape().runs, 2);
    drop(store);
    for path in run_paths(&disk) {
        disk.remove(&path.with_extension("parity")).unwrap();
    }
    (disk, manifest)
}

pub(super) fn run_paths(disk: &FaultDisk) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = disk
        .list(Path::new(DIR))
        .unwrap()
        .into_iter()
        .map(|name| Path::new(DIR).join(name))
        .filter(|path| path.extension().is_some_and(|extension| extension == "run"))
        .collect();
    paths.sort();
    paths
}

/// Opens the store and reads everything in both ways.
fn read_all(disk: &FaultDisk, manifest: &Manifest) -> Result<usize, StoreError> {
    let store = open(disk, manifest)?;
    let layers = store.layers();
    let mut scan = layers.scan()?;
    let mut count = 0;
    while scan.next()?.is_some() {
        count += 1;
    }
    let keys: Vec<HashedOutPoint> = (0..COINS).map(outpoint).collect();
    let mut out = Vec::new();
    layers.get_many(&keys, &mut out)?;
    assert_eq!(out.iter().flatten().count(), count);
    Ok(count)
}

/// Reads single coins, which meets only entry blocks.
fn look_up_all(disk: &FaultDisk, manifest: &Manifest) -> Result<(), StoreError> {
    let store = open(disk, manifest)?;
    for n in 0..COINS {
        assert!(store.get(&outpoint(n))?.is_some());
    }
    Ok(())
}

fn damage_at(path: &Path, offset: usize, damage: Damage) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), offset: offset as u64, damage }
}

fn is_of_coins(error: &StoreError, path: &Path, at: usize) -> bool {
    matches!(error, StoreError::Damaged { path: of, offset, damage: Damage::Coins(_) }
        if of == path && *offset == at as u64)
}

#[test]
fn a_flipped_byte_anywhere_is_found_in_its_block() {
    let (disk, manifest) = two_runs();
    assert_eq!(read_all(&disk, &manifest), Ok(COINS as usize));
    let mut derived = 0;
    for path in run_paths(&disk) {
        let good = disk.contents(&path).unwrap();
        assert_eq!(good.len() % BLOCK, 0);
        for start in (0..good.len()).step_by(BLOCK) {
            for position in [0, 3, 4, 5, 6, 7, 8, 700, BLOCK - 1] {
                let mut bad = good.clone();
                bad[start + position] ^= 1;
                disk.overwrite(&path, bad);
                // Filter and block index follow from the coins.
                if matches!(good[start + 4], 3 | 4) {
                    assert_eq!(
                        read_all(&disk, &manifest),
                        Ok(COINS as usize),
                        "{position} of {start}"
                    );
                    assert_eq!(look_up_all(&disk, &manifest), Ok(()), "{position} of {start}");
                    derived += 1;
                    continue;
                }
                // A block of coins says which ones are concerned.
                let is_told = |error: StoreError| match good[start + 4] {
                    1 | 2 => is_of_coins(&error, &path, start),
                    _ => error == damage_at(&path, start, Damage::Checksum),
                };
                let read = read_all(&disk, &manifest);
                assert!(read.is_err_and(is_told), "byte {position} of {start}");
                let looked_up = look_up_all(&disk, &manifest);
                assert!(looked_up.is_err_and(is_told), "byte {position} of {start}");
            }
        }
        disk.overwrite(&path, good);
    }
    assert!(derived >= 2 * 2 * 2 * 9, "{derived} times a filter or an index was damaged");
}

/// All filters and block indexes at once, without parity.
#[test]
fn c5_lost_filters_and_block_indexes_are_made_again_from_the_coins_at_the_start() {
    let (disk, manifest) = two_runs();
    let filters = |disk: &FaultDisk| -> Vec<Vec<u8>> {
        let layers = open(disk, &manifest).unwrap().layers();
        let filters =
            layers.partitions.iter().flatten().filter_map(|segment| segment.filter.clone());
        filters.map(|filter| filter.bytes().flatten().collect()).collect()
    };
    let intact = filters(&disk);
    assert_eq!(intact.len(), 4, "two runs of two partitions");
    for path in run_paths(&disk) {
        let mut bytes = disk.contents(&path).unwrap();
        let (blocks, _) = bytes.as_chunks_mut::<BLOCK>();
        let derived = blocks.iter_mut().filter(|block| matches!(block[4], 3 | 4));
        derived.for_each(|block| block.fill(0));
        disk.overwrite(&path, bytes);
    }
    assert_eq!(read_all(&disk, &manifest), Ok(COINS as usize));
    assert_eq!(look_up_all(&disk, &manifest), Ok(()));
    assert!(filters(&disk) == intact);
    // Entries that are damaged too are told as before.
    let path = run_paths(&disk).remove(0);
    let mut bytes = disk.contents(&path).unwrap();
    bytes[700] ^= 1;
    disk.overwrite(&path, bytes);
    assert_eq!(read_all(&disk, &manifest), Err(damage_at(&path, 0, Damage::Checksum)));
}

#[test]
fn a_block_in_another_place_or_zeroed_is_found() {
    let (disk, manifest) = two_runs();
    let paths = run_paths(&disk);
    let good = disk.contents(&paths[0]).unwrap();
    let other = disk.contents(&paths[1]).unwrap();
    let blocks = [&good[BLOCK..2 * BLOCK], &other[..BLOCK], &[0; BLOCK]];
    for block in blocks {
        let mut bad = good.clone();
        bad[..BLOCK].copy_from_slice(block);
        disk.overwrite(&paths[0], bad);
        let error = read_all(&disk, &manifest).unwrap_err();
        assert!(is_of_coins(&error, &paths[0], 0), "{error}");
    }
}

#[test]
fn a_missing_or_short_run_is_told_apart() {
    let (disk, manifest) = two_runs();
    let path = run_paths(&disk).remove(0);
    let good = disk.contents(&path).unwrap();
    for len in [0, 1, good.len() - BLOCK, good.len() - 1] {
        disk.overwrite(&path, good[..len].to_vec());
        assert_eq!(read_all(&disk, &manifest), Err(damage_at(&path, len, Damage::Short)));
    }
    disk.remove(&path).unwrap();
    assert_eq!(read_all(&disk, &manifest), Err(damage_at(&path, 0, Damage::MissingFile)));
}

#[test]
fn another_key_or_version_is_refused() {
    let (disk, manifest) = two_runs();
    let store_disk = StoreDisk::new(Arc::new(disk.clone()));
    let dir = Path::new(DIR);
    let other = UtxoHasher::new([1; 16]);
    let refused = |hasher, manifest: &Manifest| {
        UtxoStore::open(&store_disk, dir, hasher, manifest, CONFIG, &executor()).err()
    };
    assert_eq!(refused(other, &manifest), Some(damage_at(dir, 0, Damage::Format)));
    assert_eq!(
        refused(hasher(), &Manifest { version: 2, ..manifest.clone() }),
        refused(other, &manifest)
    );
    let wrong_bits = Manifest { partition_bits: 2, ..manifest.clone() };
    assert!(matches!(refused(hasher(), &wrong_bits), Some(StoreError::Damaged { .. })));
    assert_eq!(refused(hasher(), &manifest), None);
}

#[test]
fn orphans_go_and_strangers_stay() {
    let (disk, manifest) = two_runs();
    let dir = Path::new(DIR);
    let orphans = ["0000000099.run", "0000000098.parity", "9223372036854775809.run"];
    let orphans = orphans.map(|name| dir.join(name));
    let strangers = ["99.run", "notes.txt"].map(|name| dir.join(name));
    orphans.iter().chain(&strangers).for_each(|path| disk.overwrite(path, vec![1]));
    let mut store = open(&disk, &manifest).unwrap();
    assert!(orphans.iter().all(|path| disk.contents(path).is_none()));
    assert!(strangers.iter().all(|path| disk.contents(path).is_some()));
    add(&mut store, &outpoint(COINS), &coin(1), false);
    commit(&mut store);
    assert!(disk.contents(&dir.join("0000000100.run")).is_some(), "ids are not used again");
    let unused = Manifest { next_run: 200, ..commit(&mut store) };
    let mut store = open(&disk, &unused).unwrap();
    add(&mut store, &outpoint(COINS + 1), &coin(1), false);
    commit(&mut store);
    assert!(disk.contents(&dir.join("0000000200.run")).is_some());
}

/// As after a database was lost, or one of another time was put in its place: what is not known may be
/// all that is left.
#[test]
fn nothing_is_removed_before_all_that_is_named_has_opened() {
    let (disk, manifest) = two_runs();
    let paths = run_paths(&disk);
    let missing = Manifest { runs: manifest.runs[..1].to_vec(), ..manifest.clone() };
    let good = disk.contents(&paths[0]).unwrap();
    disk.remove(&paths[0]).unwrap();
    assert!(open(&disk, &missing).is_err());
    assert!(disk.contents(&paths[1]).is_some(), "not named, and kept");
    disk.overwrite(&paths[0], good);

    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    assert!(paths.iter().all(|path| disk.contents(path).is_some()), "nothing was ever committed");
    add(&mut store, &outpoint(0), &coin(0), false);
    let committed = commit(&mut store);
    drop(store);
    assert!(paths.iter().all(|path| disk.contents(path).is_some()));
    open(&disk, &committed).unwrap();
    assert!(paths.iter().all(|path| disk.contents(path).is_none()));
}

#[test]
fn a_manifest_round_trips() {
    let (_, manifest) = two_runs();
    let mut out = DataStream::new();
    out.put(&manifest);
    let mut reader = SpanReader::new(out.as_slice());
    assert_eq!(Manifest::decode(&mut reader), Ok(manifest));
    assert!(reader.is_empty());
}
