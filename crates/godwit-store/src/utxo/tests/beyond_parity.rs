//! Runs that parity does not repair, made again from what blocks create and spend.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_fault_disk::Survival;
use godwit_primitives::coin::encode_compressed;
use godwit_stream::DataStream;

use super::super::entry::Entry;
use super::super::fixtures::{Random, coin, hasher, long_coin, outpoint};
use super::super::run::format::{BLOCK, BLOCK_HEADER, BlockKind, RunId, open_block, seal_block};
use super::super::run::parity::{parity_of, xor_into};
use super::damage::run_paths;
use super::*;
use crate::disk::Disk;
use crate::error::{Remedy, StoreError};
use crate::inspect::{Found, Stage, Watch};

pub(super) const LARGE: u64 = 1 << 30;

pub(super) struct Block {
    spends: Vec<u64>,
    /// Whether the coin is there already, as in the pairs of BIP30.
    creates: Vec<(u64, bool)>,
}

/// Blocks, the store that has applied them, and the coins that a map has of them.
pub(super) struct History {
    pub(super) blocks: Vec<Block>,
    pub(super) coins: BTreeMap<u64, Coin>,
    pub(super) disk: FaultDisk,
    pub(super) manifest: Manifest,
}

fn coin_at(n: u64, height: u32) -> Coin {
    let coin = if n.is_multiple_of(97) { long_coin(n, 9000) } else { coin(n) };
    Coin { height, ..coin }
}

pub(super) fn history(seed: u64, partition_bits: u8) -> History {
    let (random, disk) = (&mut Random(seed), FaultDisk::new());
    let mut store = open(&disk, &Manifest::empty(partition_bits, &hasher())).unwrap();
    let (mut blocks, mut coins) = (Vec::new(), BTreeMap::new());
    let (mut spent, mut next): (Vec<u64>, u64) = (Vec::new(), 0);
    for height in 1..=60 {
        let mut block = Block { spends: Vec::new(), creates: Vec::new() };
        let mut live: Vec<u64> = coins.keys().copied().collect();
        for _ in 0..random.below(120).min(live.len() as u64) {
            let n = live.swap_remove(random.below(live.len() as u64) as usize);
            assert!(store.spend(&outpoint(n)).unwrap().is_some());
            coins.remove(&n);
            block.spends.push(n);
        }
        for _ in 0..random.below(250) {
            let overwrites = !live.is_empty() && random.below(400) == 0;
            let n = match random.below(30) {
                _ if overwrites => live.swap_remove(random.below(live.len() as u64) as usize),
                // What was spent may be created once more.
                0 if !spent.is_empty() => {
                    spent.swap_remove(random.below(spent.len() as u64) as usize)
                }
                _ => {
                    next += 1;
                    next
                }
            };
            add(&mut store, &outpoint(n), &coin_at(n, height), n < next || overwrites);
            coins.insert(n, coin_at(n, height));
            block.creates.push((n, overwrites));
        }
        spent.extend(&block.spends);
        blocks.push(block);
        if random.below(4) == 0 {
            commit(&mut store);
            if random.below(3) == 0 {
                store.wait_merges().unwrap();
            }
        }
    }
    let manifest = commit(&mut store);
    drop(store);
    // Of merges that no commit has named.
    for path in run_paths(&disk) {
        if manifest.runs.iter().all(|run| Some(run.id) != RunId::of_path(&path)) {
            disk.remove(&path).unwrap();
            disk.remove(&path.with_extension("parity")).unwrap();
        }
    }
    History { blocks, coins, disk, manifest }
}

#[derive(Default)]
pub(super) struct Notes(Vec<Found>);

impl Watch for Notes {
    fn found(&mut self, found: Found) {
        self.0.push(found);
    }

    fn progress(&mut self, _: Stage, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

pub(super) fn inspection(disk: &FaultDisk, manifest: &Manifest) -> CoinsInspection {
    let disk = StoreDisk::new(Arc::new(disk.clone()));
    let mode = RepairMode { writes: true, beyond_parity: Remedy::FromBlocks };
    let dir = Path::new(DIR);
    CoinsInspection::open(&disk, dir, hasher(), manifest.clone(), &executor(), mode).unwrap()
}

pub(super) fn hand_over(repair: &mut CoinsRepair, blocks: &[Block]) {
    hand_over_from(repair, blocks, 1);
}

/// Hands over blocks the first of which is at `height`.
pub(super) fn hand_over_from(repair: &mut CoinsRepair, blocks: &[Block], height: u32) {
    for (block, height) in blocks.iter().zip(height..) {
        let mut tally = repair.empty_tally();
        for n in &block.spends {
            tally.spend(&outpoint(*n));
            repair.spend(&outpoint(*n));
        }
        for (n, overwrites) in &block.creates {
            let (key, coin) = (outpoint(*n), coin_at(*n, height));
            if !overwrites {
                tally.create(&key);
            }
            let Coin { value, script_pubkey, height, coinbase } = coin;
            let mut bytes = DataStream::new();
            encode_compressed(value, &script_pubkey, height, coinbase, &mut bytes);
            let (code, rest) = bytes.as_slice().split_at(1);
            repair.create(&key, [code, rest]);
        }
        repair.count(&tally);
    }
}

/// Repairs what is damaged; `manifest` is what was committed last. Returns the passes that it took.
pub(super) fn repair(
    history: &History,
    disk: &FaultDisk,
    manifest: &mut Manifest,
    memory: u64,
    stop_at: Option<u32>,
) -> Result<u32, StoreError> {
    let (inspection, mut notes) = (inspection(disk, manifest), Notes::default());
    let runs = inspection.inspect_runs(&mut notes)?;
    let stop = Arc::new(AtomicBool::new(stop_at == Some(0)));
    if runs.lost.is_empty() {
        return Ok(0);
    }
    let mut repair = CoinsRepair::begin(&inspection, &runs.lost, memory, &stop)?;
    let mut commit = |named: &Manifest| {
        // A crash during the transaction leaves the one or the other.
        disk.create_dir_all(Path::new(DIR)).map_err(|_| StoreError::Stopped)?;
        *manifest = named.clone();
        Ok(())
    };
    repair.copy_intact(&mut commit)?;
    let mut passes = 0;
    while repair.wants_blocks() {
        hand_over(&mut repair, &history.blocks);
        assert_eq!(repair.counted(), history.coins.len() as u64);
        passes += 1;
        stop.fetch_or(stop_at == Some(passes), Ordering::Relaxed);
        repair.end_pass(&mut commit)?;
    }
    assert!(runs.untold.iter().all(|found| !repair.is_left(&found.path)), "{:?}", runs.untold);
    Ok(passes)
}

/// The coins are those of the map, nothing is damaged, and nothing else lies there.
pub(super) fn check(history: &History, disk: &FaultDisk, manifest: &Manifest, what: &str) {
    let mut notes = Notes::default();
    let runs = inspection(disk, manifest).inspect_runs(&mut notes).unwrap();
    assert!(runs.lost.is_empty() && notes.0.is_empty(), "{what}: {:?}", notes.0);
    let files = disk.list(Path::new(DIR)).unwrap().len();
    assert_eq!(files, 2 * manifest.runs.len(), "{what}");
    let mut store = open(disk, manifest).unwrap();
    let (layers, mut count) = (store.layers(), 0);
    let mut scan = layers.scan().unwrap();
    while scan.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, history.coins.len(), "{what}");
    for n in
        0..=history.blocks.iter().flat_map(|block| &block.creates).map(|(n, _)| *n).max().unwrap()
    {
        assert_eq!(store.get(&outpoint(n)).unwrap().as_ref(), history.coins.get(&n), "{what}: {n}");
    }
    // It goes on: what is repaired is older than what comes.
    let first = *history.coins.keys().next().unwrap();
    assert!(store.spend(&outpoint(first)).unwrap().is_some());
    super::commit(&mut store);
    store.wait_merges().unwrap();
    assert_eq!(store.get(&outpoint(first)).unwrap(), None, "{what}");
}

fn zero_blocks(disk: &FaultDisk, path: &Path, blocks: impl IntoIterator<Item = usize>) {
    let mut bytes = disk.contents(path).unwrap();
    blocks.into_iter().for_each(|n| bytes[n * BLOCK..(n + 1) * BLOCK].fill(0));
    disk.overwrite(path, bytes);
}

/// The same where no parity helps, which stays what it was for all other blocks.
pub(super) fn zero_beyond_parity(disk: &FaultDisk, path: &Path, blocks: Vec<usize>) {
    let parity_path = path.with_extension("parity");
    if let Some(mut parity) = disk.contents(&parity_path) {
        let of_blocks = parity.as_chunks_mut::<BLOCK>().0;
        blocks.iter().for_each(|n| of_blocks[parity_of(*n as u32) as usize].fill(0));
        disk.overwrite(&parity_path, parity);
    }
    zero_blocks(disk, path, blocks);
}

/// Harms runs so that no parity helps.
pub(super) fn harm(disk: &FaultDisk, random: &mut Random) -> String {
    let runs = run_paths(disk);
    let mut what = String::new();
    for _ in 0..1 + random.below(2) {
        let path = &runs[random.below(runs.len() as u64) as usize];
        let Some(bytes) = disk.contents(path) else { continue };
        let blocks = bytes.len() as u64 / BLOCK as u64;
        let kind = random.below(6);
        // Of one that is harmed twice it may be gone.
        if matches!(kind, 0 | 1 | 3) || random.below(2) == 0 {
            disk.remove(&path.with_extension("parity")).ok();
        }
        what += &format!("{}: {kind}; ", path.display());
        match kind {
            0 => disk.remove(path).unwrap(),
            1 => disk.overwrite(path, bytes[..random.below(bytes.len() as u64) as usize].to_vec()),
            2 => zero_beyond_parity(disk, path, vec![blocks as usize - 1]),
            3 => disk.overwrite(path, vec![0; bytes.len()]),
            // Two that are neighbours often, for entries that are longer than a block.
            4 => {
                let first = random.below(blocks) as usize;
                let behind = blocks.min(first as u64 + 2) as usize;
                zero_beyond_parity(disk, path, (first..behind).collect());
            }
            _ => {
                let some: Vec<usize> =
                    (0..1 + random.below(6)).map(|_| random.below(blocks) as usize).collect();
                zero_beyond_parity(disk, path, some);
            }
        }
    }
    what
}

#[test]
fn passes_that_are_left_are_foretold() {
    let history = history(4, 2);
    let disk = &history.disk;
    run_paths(disk).iter().for_each(|path| disk.remove(path).unwrap());
    let inspection = inspection(disk, &history.manifest);
    let runs = inspection.inspect_runs(&mut Notes::default()).unwrap();
    let mut repair = CoinsRepair::begin(&inspection, &runs.lost, 40_000, &Arc::default()).unwrap();
    assert_eq!(repair.passes_left(), None);
    let mut foretold = Vec::new();
    while repair.wants_blocks() {
        hand_over(&mut repair, &history.blocks);
        repair.end_pass(&mut |_| Ok(())).unwrap();
        foretold.push(repair.passes_left().unwrap());
    }
    eprintln!("{foretold:?}");
    assert!(foretold.len() > 5 && foretold.last() == Some(&0), "{foretold:?}");
    for (left, foretold) in foretold.iter().rev().enumerate() {
        let (left, foretold) = (left as u64, *foretold);
        assert!(foretold <= 2 * left + 3 && left <= 2 * foretold + 3, "{left}: {foretold}");
    }
}

#[test]
fn whatever_is_lost_the_coins_are_those_of_the_blocks() {
    let mut passes = 0;
    for seed in 0..6 {
        let history = history(seed, seed as u8 % 3);
        assert!(history.manifest.runs.len() > 1, "{seed}");
        let random = &mut Random(!seed);
        for trial in 0..15 {
            let (disk, mut manifest) = (history.disk.copy(), history.manifest.clone());
            let memory = [LARGE, LARGE, 40_000][random.below(3) as usize];
            let what = format!("{seed}, {trial}, {memory} bytes, {}", harm(&disk, random));
            let took = repair(&history, &disk, &mut manifest, memory, None);
            let took = took.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(memory < LARGE || took < 2, "{what}: {took} passes");
            passes = passes.max(took);
            check(&history, &disk, &manifest, &what);
        }
    }
    assert!(passes > 10, "{passes}");
}

/// The worst, and the only one that loses all: several passes while memory is short.
#[test]
fn without_any_run_all_coins_are_made_again() {
    let history = history(7, 1);
    for (memory, least) in [(LARGE, 1), (200_000, 2), (40_000, 10)] {
        let (disk, mut manifest) = (history.disk.copy(), history.manifest.clone());
        run_paths(&disk).iter().for_each(|path| disk.remove(path).unwrap());
        let passes = repair(&history, &disk, &mut manifest, memory, None).unwrap();
        assert!(passes >= least && (memory < LARGE || passes == 1), "{passes} passes");
        // Each partition is committed when it is complete.
        assert!(manifest.runs.len() <= 2);
        for path in disk.list(Path::new(DIR)).unwrap() {
            let path = Path::new(DIR).join(path);
            let named = manifest.runs.iter().any(|run| Some(run.id) == RunId::of_path(&path));
            if !named {
                disk.remove(&path).unwrap();
            }
        }
        check(&history, &disk, &manifest, "nothing is left");
    }
}

/// Filters and block indexes follow from the entries: no block of the chain is asked for.
#[test]
fn lost_filters_and_indexes_need_no_blocks() {
    let history = history(11, 1);
    let mut kinds = Vec::new();
    for path in run_paths(&history.disk) {
        let (id, bytes) = (RunId::of_path(&path).unwrap(), history.disk.contents(&path).unwrap());
        for (n, block) in bytes.as_chunks::<BLOCK>().0.iter().enumerate() {
            let kind = open_block(block, id, n as u32).unwrap().kind;
            if ![BlockKind::Filter, BlockKind::Index].contains(&kind) {
                continue;
            }
            kinds.push(kind);
            let (disk, mut manifest) = (history.disk.copy(), history.manifest.clone());
            disk.remove(&path.with_extension("parity")).unwrap();
            zero_blocks(&disk, &path, [n]);
            let mut notes = Notes::default();
            let runs = inspection(&disk, &manifest).inspect_runs(&mut notes).unwrap();
            assert!(!runs.lost.is_empty() && !runs.lost.needs_blocks(), "block {n}");
            assert_eq!(repair(&history, &disk, &mut manifest, LARGE, None), Ok(0));
            check(&history, &disk, &manifest, &format!("block {n} of {}", path.display()));
            if kinds.len() > 6 {
                break;
            }
        }
    }
    assert!(kinds.contains(&BlockKind::Filter) && kinds.contains(&BlockKind::Index));
}

/// The largest run with its first block lost, its parity too, and what `change` makes of the payload of
/// another block of entries, of which parity says `vouched` or not that it is what was written. `None` where
/// that block has no entries of its own.
pub(super) fn with_a_block_of_another_time(
    history: &History,
    n: usize,
    vouched: bool,
    change: impl Fn(&mut [u8; BLOCK], usize) -> usize,
) -> Option<FaultDisk> {
    let path = run_paths(&history.disk)
        .into_iter()
        .max_by_key(|path| history.disk.contents(path).unwrap().len())
        .unwrap();
    let id = RunId::of_path(&path).unwrap();
    let mut bytes = history.disk.contents(&path)?;
    let good: [u8; BLOCK] = *bytes.as_chunks().0.get(n)?;
    let mut block = good;
    let view = open_block(&block, id, n as u32).unwrap();
    if view.kind != BlockKind::Entries || view.span > 1 || parity_of(n as u32) == parity_of(0) {
        return None;
    }
    let len = view.payload.len();
    let used = change(&mut block, len);
    seal_block(&mut block, id, n as u32, BlockKind::Entries, 1, used);
    let parity_path = path.with_extension("parity");
    let mut parity = history.disk.contents(&parity_path).unwrap();
    let (blocks, _) = parity.as_chunks_mut::<BLOCK>();
    blocks[parity_of(0) as usize].fill(0);
    if vouched {
        let of_block = &mut blocks[parity_of(n as u32) as usize];
        xor_into(of_block, &good);
        xor_into(of_block, &block);
    }
    bytes[n * BLOCK..(n + 1) * BLOCK].copy_from_slice(&block);
    bytes[..BLOCK].fill(0);
    let disk = history.disk.copy();
    disk.overwrite(&path, bytes);
    disk.overwrite(&parity_path, parity);
    Some(disk)
}

/// Blocks of entries of the largest run, at most.
pub(super) const MOST_BLOCKS: usize = 1_000;

/// How many bytes of a block of entries are in use once its last entry is gone.
pub(super) fn without_the_last(block: &mut [u8; BLOCK], len: usize) -> usize {
    let (payload, mut used) = (&block[BLOCK_HEADER..BLOCK_HEADER + len], 0);
    while let Some(entry) = Entry::first_of(&payload[used..])
        && used + entry.bytes().len() < len
    {
        used += entry.bytes().len();
    }
    used
}

/// A block that is damaged, and another one of its segment, whose checksum holds, that lacks an entry:
/// nothing but the blocks of the chain tells of it.
#[test]
fn entries_that_are_missing_under_a_right_checksum_are_found_out() {
    let history = history(13, 0);
    let mut found = 0;
    for n in 2..MOST_BLOCKS {
        let Some(disk) = with_a_block_of_another_time(&history, n, true, without_the_last) else {
            continue;
        };
        let mut manifest = history.manifest.clone();
        // One pass for the hole, and one for the whole partition where a coin was cut off.
        let passes = repair(&history, &disk, &mut manifest, LARGE, None).unwrap();
        found += u32::from(passes == 2);
        if found > 2 {
            return;
        }
        check(&history, &disk, &manifest, &format!("block {n}"));
    }
    panic!("{found} of them");
}

/// Keys and numbers of coins do not show what one of them says.
#[test]
fn c6_a_block_of_another_time_is_not_believed_beside_lost_ones() {
    let history = history(19, 0);
    let of_another_time = |block: &mut [u8; BLOCK], len: usize| {
        block[BLOCK_HEADER + len - 1] ^= 1;
        len
    };
    let mut tried = 0;
    for n in 2..MOST_BLOCKS {
        let Some(disk) = with_a_block_of_another_time(&history, n, false, of_another_time) else {
            continue;
        };
        let mut manifest = history.manifest.clone();
        repair(&history, &disk, &mut manifest, LARGE, None).unwrap();
        check(&history, &disk, &manifest, &format!("block {n}"));
        tried += 1;
        if tried > 10 {
            return;
        }
    }
    panic!("{tried} of them");
}

#[test]
fn a_cut_at_some_changes_leaves_a_repair_that_can_be_done_again() {
    cut_at_every(23);
}

#[test]
#[ignore = "every change"]
fn a_cut_at_any_change_leaves_a_repair_that_can_be_done_again() {
    cut_at_every(1);
}

/// Cuts the power at every `step`-th change.
fn cut_at_every(step: usize) {
    let history = history(17, 1);
    let harmed = history.disk.copy();
    let runs = run_paths(&harmed);
    let largest = runs.iter().max_by_key(|path| harmed.contents(path).unwrap().len()).unwrap();
    harmed.remove(&largest.with_extension("parity")).unwrap();
    zero_blocks(&harmed, largest, [1, 2]);
    let other = runs.iter().find(|path| path != &largest).unwrap();
    harmed.remove(&other.with_extension("parity")).unwrap();
    let end = harmed.contents(other).unwrap().len() / BLOCK;
    zero_blocks(&harmed, other, [end - 2]);
    let mut cuts = 0;
    for n in (1..).step_by(step) {
        let (disk, mut manifest) = (harmed.copy(), history.manifest.clone());
        disk.fail_change(n);
        let repaired = repair(&history, &disk, &mut manifest, 6000, None);
        let done = !disk.has_failed();
        disk.fail_nothing();
        if done {
            assert!(repaired.unwrap() > 1);
        } else {
            cuts += 1;
            disk.crash([Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3]);
            // What a node does at the start: it fails, or what nobody names is removed.
            drop(open(&disk, &manifest));
            repair_again(&history, &disk, &mut manifest, n);
        }
        let left: Vec<_> = run_paths(&disk)
            .into_iter()
            .filter(|path| manifest.runs.iter().all(|run| Some(run.id) != RunId::of_path(path)))
            .collect();
        drop(open(&disk, &manifest).unwrap());
        check(&history, &disk, &manifest, &format!("change {n}, left {left:?}"));
        if done {
            break;
        }
    }
    assert!(cuts > 20 / step, "{cuts}");
}

fn repair_again(history: &History, disk: &FaultDisk, manifest: &mut Manifest, n: u64) {
    repair(history, disk, manifest, LARGE, None)
        .unwrap_or_else(|error| panic!("change {n}: {error}"));
}

#[test]
fn a_repair_that_is_stopped_keeps_what_its_passes_have_committed() {
    let history = history(19, 2);
    let harmed = history.disk.copy();
    run_paths(&harmed).iter().for_each(|path| harmed.remove(path).unwrap());
    for path in harmed.list(Path::new(DIR)).unwrap() {
        harmed.remove(&Path::new(DIR).join(path)).unwrap();
    }
    let all =
        repair(&history, &harmed.copy(), &mut history.manifest.clone(), 60_000, None).unwrap();
    assert!(all > 4, "{all}");
    let (disk, mut manifest) = (harmed.copy(), history.manifest.clone());
    let mut left = all;
    for stop_at in [20, 12, 1] {
        let stopped = repair(&history, &disk, &mut manifest, 60_000, Some(stop_at));
        assert_eq!(stopped, Err(StoreError::Stopped));
        let is_named = |path: &std::path::PathBuf| {
            manifest.runs.iter().any(|run| Some(run.id) == RunId::of_path(path))
        };
        assert!(run_paths(&disk).iter().all(is_named), "nothing else is left");
        let again = repair(&history, &disk.copy(), &mut manifest.clone(), 60_000, None).unwrap();
        assert!(again <= left, "{again} of {left}");
        left = again;
    }
    assert!(left < all, "{left} of {all}");
    repair(&history, &disk, &mut manifest, 60_000, None).unwrap();
    check(&history, &disk, &manifest, "stopped thrice");
}

/// Blocks that are not those of the coins write nothing.
#[test]
fn other_blocks_than_those_of_the_coins_repair_nothing() {
    let history = history(23, 1);
    let disk = history.disk.copy();
    let path = run_paths(&disk).remove(0);
    disk.remove(&path).unwrap();
    let before = disk.list(Path::new(DIR)).unwrap();
    for change in 0..2 {
        let inspection = inspection(&disk, &history.manifest);
        let runs = inspection.inspect_runs(&mut Notes::default()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let mut repair = CoinsRepair::begin(&inspection, &runs.lost, LARGE, &stop).unwrap();
        match change {
            // A spend of what is not there.
            0 => hand_over(&mut repair, &history.blocks[5..]),
            _ => repair.give_up(),
        }
        assert!(!repair.wants_blocks());
        repair.end_pass(&mut |_| panic!("it is not committed")).unwrap();
        assert!(repair.is_left(&path));
        drop(repair);
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), before);
    }
}
