//! Makes the block index again from the block files, after the database was lost or damaged.
//!
//! What the database alone has is found as follows:
//!
//! * headers and their heights: from the headers of the stored blocks, by parent, since blocks of a
//!   download lie in the files in any order;
//! * what is stored where: each block is read and checked as one from a peer is, on all workers;
//! * undo records: those of a file belong to blocks of the block file of the same number, in the order
//!   in which they were connected. The checksum of a record covers the block before, and tells which it is;
//!   of siblings those whose inputs it fits, if all of them spend the same;
//! * the coins, how far blocks are verified, the key: the control file (`godwit-store/src/control.rs`);
//! * headers of blocks that were pruned, and that they were stored once: the file that has them
//!   (`godwit-store/src/store/pruned_blocks.rs`), of which the new database is begun.
//!
//! Blocks are indexed in the order of the files, and commits on the way name those that are done
//! ([`COMMIT_BYTES`]): a start that ends before the last one, by a signal or a power cut, leaves the rest to
//! the next start. Until the last commit the database says that its index is not whole. A block whose parent
//! is not stored, as those are that overtook another one in a download, is fetched again, unless the headers
//! in between are known ([`headers`]).

mod headers;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_primitives::network::Params;
use godwit_primitives::{Block, OutPoint};
use godwit_store::utxo::UtxoHasher;
use godwit_store::{
    BlockPosition, BlockUndo, ChainPoint, Commit, CommittedState, RecoveredBlock, Store,
    StoreError, UtxoCommit,
};

use crate::error::ChainError;
use crate::found_block::FoundBlock;
use crate::index::{Acceptance, BlockIndex, Loading, await_parents};
use crate::options::{Indexed, StartOptions};
use crate::own_block::has_coins_of;
use crate::shares::in_shares;
use crate::structure::Received;
use crate::tree::{NodeId, Validity};

use headers::{judge_headers, mend_headers};

/// Bytes of blocks that are read and checked at once.
const BATCH_BYTES: u64 = 16 << 20;
/// Blocks in a batch: the first years' are small. Tests have several batches of their few blocks.
const BATCH_BLOCKS: usize = 64;
/// Bytes of blocks between commits: seconds of reading.
const COMMIT_BYTES: u64 = 4 << 30;
/// Blocks that an undo record may be out of order by.
const UNDO_WINDOW: usize = 64;
/// Attempts with blocks further away, for the records of one file: a page of lost records has a hundred,
/// and a file of another directory has no record that fits any.
const FAR_ATTEMPTS: usize = 1 << 22;
/// Later than any block: they were accepted once, by a clock that was right.
pub(crate) const ANY_TIME: i64 = i64::MAX / 2;

/// Puts the headers of stored blocks into the index, parents first. Returns how many have no place there.
pub(crate) fn place_headers(index: &mut BlockIndex, found: &[RecoveredBlock], now: i64) -> usize {
    let parent = |n: u32| found[n as usize].header.prev_blockhash;
    // Numbers, since a map by hash would take more than the headers do.
    let mut by_parent: Vec<u32> = (0..found.len() as u32).collect();
    by_parent.sort_unstable_by_key(|n| parent(*n));
    let is_known = |n: &u32| index.tree().find(&parent(*n)).is_some();
    let mut next: VecDeque<u32> = by_parent.iter().copied().filter(is_known).collect();
    let (mut seen, mut placed) = (vec![false; found.len()], 0);
    while let Some(n) = next.pop_front() {
        if std::mem::replace(&mut seen[n as usize], true) {
            continue;
        }
        let header = &found[n as usize].header;
        let hash = header.block_hash();
        if index.accept_header(header, hash, now).is_ok() {
            placed += 1;
            let first = by_parent.partition_point(|n| parent(*n) < hash);
            let children = by_parent[first..].iter().copied();
            next.extend(children.take_while(|n| parent(*n) == hash));
        }
    }
    found.len() - placed
}

/// The length of the batch that `found` begins with.
fn batch(found: &[RecoveredBlock]) -> usize {
    let mut bytes = 0;
    let within = |block: &&RecoveredBlock| {
        bytes += u64::from(block.position.len);
        bytes <= BATCH_BYTES
    };
    found.iter().take(BATCH_BLOCKS).take_while(within).count().max(1)
}

/// Indexes the blocks that were found at open, all that are not in the index yet, and commits the result with
/// what the store has kept of the database that was lost.
///
/// # Errors
///
/// [`StoreError::Stopped`] as the options have it: the next start goes on. [`ChainError::DamagedIndex`] when
/// the block of the coins is not among the blocks; besides local faults.
pub(crate) fn reindex(
    store: &Store,
    params: &Arc<Params>,
    threads: usize,
    found: &[RecoveredBlock],
    start: &mut StartOptions,
) -> Result<(), ChainError> {
    let lost = store.lost().cloned().unwrap_or_default();
    let mut loading = Loading::new(Arc::clone(params));
    store.for_each_block(|hash, record| {
        loading.add(hash, record);
        Ok(())
    })?;
    let mut index = loading.finish(None, None)?;
    await_parents(&mut index);
    log::info!(
        "Indexing {} blocks of the block files; {} are indexed already.",
        found.len(),
        index.tree().stored()
    );
    judge_headers(&mut index);
    let mut without_place = place_headers(&mut index, found, ANY_TIME);
    if without_place > 0 {
        without_place = mend_headers(&mut index, found);
    }
    if without_place > 0 {
        log::warn!("{without_place} blocks have no parent among them, and are fetched again.");
    }
    let hasher = UtxoHasher::new(store.utxo_hash_key());
    let bytes_of = |blocks: &[RecoveredBlock]| -> u64 {
        blocks.iter().map(|block| u64::from(block.position.len)).sum()
    };
    let mut done = Indexed { total: bytes_of(found), ..Indexed::default() };
    let (mut rest, mut committed) = (found, 0);
    while !rest.is_empty() {
        let (blocks, behind) = rest.split_at(batch(rest));
        let read = |found: &RecoveredBlock| Ok(FoundBlock::read(store, params, &hasher, *found)?);
        for block in in_shares(blocks, threads, read)? {
            receive(&mut index, block)?;
        }
        rest = behind;
        done.blocks += blocks.len() as u64;
        done.bytes += bytes_of(blocks);
        if let Some(indexed) = &mut start.indexed {
            indexed(done);
        }
        let stopped = start.stop.load(Ordering::Relaxed);
        if stopped || done.bytes - committed >= COMMIT_BYTES {
            committed = done.bytes;
            let last = blocks.last().expect("a batch has a block").position;
            commit_so_far(store, &mut index, last)?;
        }
        if stopped {
            return Err(StoreError::Stopped.into());
        }
    }
    let verified = restore_verified(&mut index, &lost)?;
    restore_undo(store, &mut index, &verified, &start.stop)?;
    commit(store, index, lost)
}

/// Commits the index of the blocks up to the one at `last`: a start that goes on finds those behind it.
fn commit_so_far(
    store: &Store,
    index: &mut BlockIndex,
    last: BlockPosition,
) -> Result<(), ChainError> {
    let (appended, blocks) = (store.take_recovered(last), index.take_changes());
    Ok(store.commit(Commit { appended, blocks, ..Commit::default() })?)
}

fn receive(index: &mut BlockIndex, block: FoundBlock) -> Result<(), ChainError> {
    let FoundBlock { found, checksum, received } = block;
    let block = match received {
        Received::Structured(block) => block,
        Received::Unjudged(error) => return Err(ChainError::Engine(error)),
        Received::Undecodable | Received::Malformed { .. } => {
            let (hash, file) = (found.header.block_hash(), found.position.file);
            log::warn!("Block {hash} in block file {file} is damaged, and is fetched again.");
            return Ok(());
        }
    };
    if let Acceptance::New(accepted) = index.accept(block, ANY_TIME) {
        index.receive_recovered(accepted, &found, checksum);
    }
    Ok(())
}

/// Marks the blocks that were connected before: those below the verified tip and below the coins' block.
/// Returns them, parents first.
fn restore_verified(
    index: &mut BlockIndex,
    lost: &CommittedState,
) -> Result<Vec<NodeId>, ChainError> {
    if let Some(ChainPoint { hash, .. }) = lost.utxo_tip {
        // It was valid once; with other rules, as -testactivationheight gives them, it is no block of theirs.
        let id = index.find(&hash)?;
        if index.node(id).failed {
            return Err(ChainError::DamagedIndex(hash));
        }
    }
    let mut verified = Vec::new();
    for point in [lost.utxo_tip, lost.verified_tip].into_iter().flatten() {
        let mut walk = index.tree().find(&point.hash);
        while let Some(id) = walk
            && index.node(id).validity != Validity::Scripts
        {
            index.restore_verified(id);
            verified.push(id);
            walk = index.node(id).parent();
        }
    }
    verified.sort_by_key(|id| index.height(*id));
    Ok(verified)
}

/// Finds the undo records of connected blocks.
fn restore_undo(
    store: &Store,
    index: &mut BlockIndex,
    verified: &[NodeId],
    stop: &AtomicBool,
) -> Result<(), ChainError> {
    let siblings = siblings(index);
    let mut by_file: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for id in verified {
        if let Some(position) = index.node(*id).position {
            by_file.entry(position.file).or_default().push(*id);
        }
    }
    let mut missing = 0;
    for (file, blocks) in by_file {
        let (mut last, mut waiting) = (None, Waiting::new(blocks));
        store.undo_records(file, &mut |record| {
            if stop.load(Ordering::Relaxed) {
                return Err(StoreError::Stopped);
            }
            let mut known = None;
            let place = waiting.find(|id| {
                match store.read_undo(record, &index.node(id).header.prev_blockhash) {
                    Err(error) if error.is_rotten() => return Ok(false),
                    undo => known = Some(undo?),
                }
                Ok(true)
            })?;
            let (Some(place), Some(undo)) = (place, known) else { return Ok(false) };
            let owners = owners(store, index, &siblings, waiting.blocks[place], &undo)?;
            if let Some(id) = waiting.take(place, &owners) {
                index.restore_undo(id, record);
            }
            last = Some(record);
            Ok(true)
        })?;
        if let Some(last) = last {
            store.adopt_undo(last)?;
        }
        missing += waiting.left();
    }
    if missing > 0 {
        log::warn!("Undo records of {missing} connected blocks are missing or damaged.");
    }
    Ok(())
}

/// The connected blocks of a file whose undo records are not found yet, in the order of their heights: nearly
/// that of the records.
struct Waiting {
    blocks: Vec<NodeId>,
    is_found: Vec<bool>,
    /// Behind the block whose record came last: those before it whose records are lost are in nobody's way.
    next: usize,
    far_attempts: usize,
}

impl Waiting {
    fn new(blocks: Vec<NodeId>) -> Self {
        let is_found = vec![false; blocks.len()];
        Self { blocks, is_found, next: 0, far_attempts: FAR_ATTEMPTS }
    }

    /// The place of a block that `fits`; the nearest ones are tried first.
    fn find(
        &mut self,
        mut fits: impl FnMut(NodeId) -> Result<bool, StoreError>,
    ) -> Result<Option<usize>, StoreError> {
        let is_left = |place: &usize| !self.is_found[*place];
        let ahead = || (self.next..self.blocks.len()).filter(is_left);
        let behind = || (0..self.next).rev().filter(is_left);
        let near = ahead().take(UNDO_WINDOW).chain(behind().take(UNDO_WINDOW));
        let far = ahead().skip(UNDO_WINDOW).chain(behind().skip(UNDO_WINDOW));
        let (mut found, mut attempts) = (None, 0);
        for place in near.chain(far.take(self.far_attempts).inspect(|_| attempts += 1)) {
            if fits(self.blocks[place])? {
                found = Some(place);
                break;
            }
        }
        self.far_attempts -= attempts;
        Ok(found)
    }

    /// One of `owners`, the block at `place` if it is among them, else a sibling of it, waits no more; which,
    /// if one did.
    fn take(&mut self, place: usize, owners: &[NodeId]) -> Option<NodeId> {
        let is_one = |at: &usize| !self.is_found[*at] && owners.contains(&self.blocks[*at]);
        let here = Some(place).filter(is_one);
        let place = here.or_else(|| (0..self.blocks.len()).find(is_one))?;
        self.is_found[place] = true;
        self.next = place + 1;
        Some(self.blocks[place])
    }

    fn left(&self) -> usize {
        self.is_found.iter().filter(|found| !**found).count()
    }
}

/// The blocks that have a sibling, by the block before them.
fn siblings(index: &BlockIndex) -> HashMap<NodeId, Vec<NodeId>> {
    let tree = index.tree();
    let mut by_parent: Vec<(NodeId, NodeId)> = (0..tree.len() as u32)
        .map(|n| tree.at(n))
        .filter_map(|id| Some((tree.node(id).parent()?, id)))
        .collect();
    by_parent.sort_unstable();
    let families = by_parent.chunk_by(|a, b| a.0 == b.0).filter(|family| family.len() > 1);
    families.map(|family| (family[0].0, family.iter().map(|(_, id)| *id).collect())).collect()
}

/// For whom an undo record is right whose checksum is right for `id`, and for every sibling that was
/// connected once: for those that it fits, if all of them spend the same coins, and for any that spent
/// nothing. None where that cannot be told: the record is made again when it is needed.
fn owners(
    store: &Store,
    index: &BlockIndex,
    siblings: &HashMap<NodeId, Vec<NodeId>>,
    id: NodeId,
    undo: &BlockUndo,
) -> Result<Vec<NodeId>, StoreError> {
    let family = index.node(id).parent().and_then(|parent| siblings.get(&parent));
    let Some(family) = family else { return Ok(vec![id]) };
    let fits = |block: &Block| has_coins_of(block.view(), undo);
    if undo.coins().is_empty() && read_stored(store, index, id)?.is_some_and(|own| fits(&own)) {
        return Ok(vec![id]);
    }
    let (mut owners, mut coins) = (Vec::new(), None);
    for sibling in family {
        let Some(block) = read_stored(store, index, *sibling)? else { return Ok(Vec::new()) };
        if !fits(&block) {
            continue;
        }
        let inputs = block.view().txs().skip(1).flat_map(|tx| tx.inputs());
        let spent: Vec<OutPoint> = inputs.map(|input| input.prevout).collect();
        if *coins.get_or_insert_with(|| spent.clone()) != spent {
            return Ok(Vec::new());
        }
        owners.push(*sibling);
    }
    Ok(owners)
}

/// A stored block; `None` where there is none, or it cannot be read.
fn read_stored(store: &Store, index: &BlockIndex, id: NodeId) -> Result<Option<Block>, StoreError> {
    let Some(position) = index.node(id).position else { return Ok(None) };
    match store.read_block(position) {
        Err(error) if error.is_rotten() => Ok(None),
        bytes => Ok(Block::from_bytes(bytes?.as_slice()).ok()),
    }
}

fn commit(store: &Store, mut index: BlockIndex, lost: CommittedState) -> Result<(), ChainError> {
    // It is made again for histories alone below which nothing is assumed.
    let CommittedState { utxo_tip, utxo_manifest, verified_tip, assumed, .. } = lost;
    let coins = utxo_tip.zip(utxo_manifest);
    let utxo = coins.map(|(tip, manifest)| UtxoCommit { tip, manifest, assumed });
    // A verified tip whose block is not there any more says nothing; the coins' block is.
    let is_known = |point: &ChainPoint| index.tree().find(&point.hash).is_some();
    let verified_tip = verified_tip.filter(is_known).or(utxo_tip);
    let (appended, blocks) = (store.take_appended(), index.take_changes());
    let pruned = Vec::new();
    let commit = Commit { appended, blocks, pruned, verified_tip, utxo, ..Commit::default() };
    Ok(store.end_reindex(commit)?)
}
