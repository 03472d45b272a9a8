//! Every kind of file of a datadir, damaged in every way that disks and users have: the coins are those of
//! the chain, or the start ends with one clear error. No coin is ever wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use godwit_chain::{ChainError, UtxoStats};
use godwit_fault_disk::FaultDisk;
use godwit_sim::rng::Rng;
use godwit_store::StoreError;
use godwit_store::disk::Disk;

use crate::datadir::clock;
use crate::pruning::{BLOCKS, DIR, stats_of, try_open};
use crate::reindex::{FILE_SIZE, datadir};

const PAGE: usize = 4096;
const PLACES: usize = 5;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Harm {
    Bit,
    Zeros,
    Swapped,
    /// A page of an earlier time.
    Stale,
    Cut,
    Missing,
    /// The file of an earlier time.
    Foreign,
}

pub(crate) const HARMS: [Harm; 7] =
    [Harm::Bit, Harm::Zeros, Harm::Swapped, Harm::Stale, Harm::Cut, Harm::Missing, Harm::Foreign];

/// What the file holds afterwards; `None`: there is none. `old` is what it held at an earlier time.
pub(crate) fn harmed(good: &[u8], old: &[u8], harm: Harm, rng: &mut Rng) -> Option<Vec<u8>> {
    let mut bad = good.to_vec();
    let pages = good.len().div_ceil(PAGE).max(1);
    let page = |n: usize| n * PAGE..((n + 1) * PAGE).min(good.len());
    let at = page(rng.below(pages as u64) as usize);
    match harm {
        Harm::Bit if good.is_empty() => bad.push(1),
        Harm::Bit => bad[rng.below(good.len() as u64) as usize] ^= 1 << rng.below(8),
        Harm::Zeros => bad[at].fill(0),
        Harm::Swapped => {
            let other = page(rng.below(pages as u64) as usize);
            let len = at.len().min(other.len());
            bad[at.start..at.start + len].copy_from_slice(&good[other.start..other.start + len]);
            bad[other.start..other.start + len].copy_from_slice(&good[at.start..at.start + len]);
        }
        Harm::Stale => {
            let end = at.end.min(old.len()).max(at.start);
            if at.start < end {
                bad[at.start..end].copy_from_slice(&old[at.start..end]);
            }
        }
        Harm::Cut => bad.truncate(rng.below(good.len().max(1) as u64) as usize),
        Harm::Missing => return None,
        Harm::Foreign => bad = old.to_vec(),
    }
    Some(bad)
}

/// Path of each file, by the kind of its name.
pub(crate) fn files(disk: &FaultDisk) -> BTreeMap<String, Vec<PathBuf>> {
    let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for below in ["", "blocks", "utxo"] {
        let dir = Path::new(DIR).join(below);
        for name in disk.list(&dir).unwrap() {
            let (path, name) = (dir.join(&name), name.to_str().unwrap().to_owned());
            if disk.contents(&path).is_none() || name == ".lock" {
                continue;
            }
            let kind = name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            kinds.entry(kind).or_default().push(path);
        }
    }
    kinds
}

/// The coins, and the height that they are those of.
fn coins(disk: &FaultDisk) -> Result<(u32, UtxoStats), ChainError> {
    let mut chain = try_open(disk, None, FILE_SIZE)?;
    chain.settle(clock())?;
    Ok((chain.tip_point().height, chain.utxo_stats()?))
}

fn is_clear(error: &ChainError, path: &Path) -> bool {
    match error {
        ChainError::Store(StoreError::Damaged { path: told, .. }) => {
            told == path || told.extension() == path.extension()
        }
        ChainError::Store(StoreError::Io(failure)) => failure.path == *path,
        // Blocks and undo records are told by the block.
        ChainError::DamagedBlock { .. } | ChainError::DamagedUndo(_) => true,
        ChainError::LostUndo { path: told, .. } => told == path,
        _ => false,
    }
}

#[test]
fn whatever_happens_to_a_file_no_coin_is_wrong() {
    let (disk, old) = (datadir(false), datadir(true));
    let mut stats: BTreeMap<u32, UtxoStats> = BTreeMap::new();
    let mut rng = Rng::new(1914);
    let kinds = files(&disk);
    assert!(kinds.len() >= 7, "{:?}", kinds.keys());
    for (kind, paths) in kinds {
        for harm in HARMS {
            let (mut same, mut refused) = (0, Vec::new());
            for _ in 0..PLACES {
                let disk = disk.copy();
                let path = &paths[rng.below(paths.len() as u64) as usize];
                let good = disk.contents(path).unwrap();
                let before = old.contents(path).unwrap_or_default();
                match harmed(&good, &before, harm, &mut rng) {
                    Some(bad) => disk.overwrite(path, bad),
                    None => disk.remove(path).unwrap(),
                }
                match coins(&disk) {
                    Ok((height, found)) => {
                        let expected = stats
                            .entry(height)
                            .or_insert_with(|| stats_of(&BLOCKS[..height as usize]));
                        assert_eq!(found, *expected, "{harm:?} of {}", path.display());
                        same += 1;
                    }
                    Err(error) => {
                        let what = format!("{harm:?} of {}: {error}", path.display());
                        assert!(is_clear(&error, path), "{what}");
                        refused.push(error.to_string());
                    }
                }
            }
            println!("{kind:16} {harm:?}: {same} of {PLACES} with the same coins; {refused:?}");
            // One copy of what these hold is elsewhere.
            let has_twin = ["godwit.redb", "godwit.control", "xor.dat", ".parity"];
            assert!(!has_twin.contains(&&kind[..]) || refused.is_empty(), "{kind} {harm:?}");
        }
    }
}
