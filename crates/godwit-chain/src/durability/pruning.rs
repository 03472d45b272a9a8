//! Deletes old block and undo files (`-prune`), by their size or on request.
//!
//! Files are deleted with commits that happen anyway, oldest first, while all block and undo files
//! together exceed the target. A file is kept if it is being appended to, holds a block above the tip
//! less [`MIN_BLOCKS_TO_KEEP`], or holds a block that a restart would apply or take back: those above the
//! block whose coins the commit leaves on disk, or holds one that an index has not read, or one of the
//! history below a snapshot that is not validated, or whose coins are not on disk. The validation frees
//! them as it goes; that other blocks do not keep its files, [`crate::history_files`] sees to. Such files may
//! exceed the target. Where one is kept only for coins that are not on disk, these are sealed
//! ([`Pruning::want_coins`]): while all coins fit into memory, that may otherwise not be for gigabytes of
//! blocks. What is sealed frees all files below the tip of that time, sooner or later, so that this is
//! once for about as many bytes as the target; where what is stored above the tip exceeds the target alone,
//! once for each file. On request ([`Pruning::request`]) the files are deleted that hold no block above a
//! height, with the next commit.
//!
//! The commit's transaction removes the positions of the blocks from the index; only after it are
//! the files deleted. A pruned block keeps its number of transactions, which marks it as received,
//! so that chains through it stay complete. Core: `node/blockstorage.cpp`, `FindFilesToPrune`.

use std::collections::BTreeMap;

use crate::environment::Environment;
use crate::index::{BlockIndex, Body};
use crate::tree::NodeId;

/// Blocks below the tip that are never deleted, for reorganisations and for peers (Core
/// `validation.h`).
pub const MIN_BLOCKS_TO_KEEP: u32 = 288;

/// Files are deleted on request alone: no target is exceeded ever. (So in Core, too.)
pub const PRUNE_ON_REQUEST: u64 = u64::MAX;

/// Blocks that are kept below those that somebody still has to read (Core `PRUNE_LOCK_BUFFER`).
const KEPT_BELOW: u32 = 10;

/// See the module's documentation.
pub(crate) struct Pruning {
    /// Bytes that all block and undo files together may have; `None` keeps everything.
    target: Option<u64>,
    /// The blocks of each file; empty without a target.
    files: BTreeMap<u32, Blocks>,
    /// The operator wants files deleted that have no block above this height.
    requested: Option<u32>,
    /// The last block that each index has: those above are kept for it.
    readers: BTreeMap<&'static str, u32>,
    /// The block whose coins are on disk.
    coins: NodeId,
    /// Heights of a snapshot's history that are not validated: from above the first, whose coins are on disk,
    /// to the second.
    history: Option<(u32, u32)>,
    /// Lowest height from which on the active chain's blocks are stored.
    lowest: u32,
    /// Lowest height from which on none of them was deleted: one that is lost is fetched again.
    undeleted: u32,
    /// Whether there is a new file since the last look.
    new_file: bool,
    /// Whether there is a new file, or was a commit, since no newer coins were wanted.
    unasked: bool,
    /// How often files were deleted.
    prunings: u32,
}

/// The blocks of one file.
#[derive(Default)]
struct Blocks {
    highest: u32,
    ids: Vec<NodeId>,
}

impl Pruning {
    /// The coins of the tip are on disk.
    pub(crate) fn new(target: Option<u64>, index: &BlockIndex) -> Self {
        let (files, requested, readers) = (BTreeMap::new(), None, BTreeMap::new());
        let coins = index.tip();
        let (lowest, undeleted, new_file, prunings) = (0, 0, false, 0);
        let (history, unasked) = (None, false);
        let mut pruning = Self {
            target,
            files,
            requested,
            readers,
            coins,
            history,
            lowest,
            undeleted,
            new_file,
            unasked,
            prunings,
        };
        pruning.begin_history(index);
        // Without a target nothing is noted.
        let nodes = if pruning.is_on() { index.tree().len() as u32 } else { 0 };
        for place in 0..nodes {
            let id = index.tree().at(place);
            let node = index.node(id);
            if let Some(position) = node.position {
                pruning.note_stored(id, node.height, position.file);
            }
        }
        pruning
    }

    /// A block was written to a file.
    pub(crate) fn note_stored(&mut self, id: NodeId, height: u32, file: u32) {
        if self.target.is_some() {
            let known = self.files.len();
            let blocks = self.files.entry(file).or_default();
            blocks.highest = blocks.highest.max(height);
            blocks.ids.push(id);
            let is_new = self.files.len() > known;
            self.new_file |= is_new;
            self.unasked |= is_new;
        }
    }

    /// The commit that is being put together holds the coins of this block.
    pub(crate) fn note_coins(&mut self, id: NodeId) {
        self.coins = id;
    }

    /// The commit that is being put together holds the coins of the history at this height.
    pub(crate) fn note_history(&mut self, height: u32) {
        if let Some((validated, _)) = &mut self.history {
            *validated = height;
            self.new_file = true;
        }
    }

    /// A snapshot was loaded: of the history below it nothing is validated.
    pub(crate) fn begin_history(&mut self, index: &BlockIndex) {
        self.history =
            index.history().map(|span| (index.height(span.tip), index.height(span.base)));
    }

    /// The history is validated.
    pub(crate) fn end_history(&mut self) {
        self.history = None;
        self.new_file = true;
    }

    /// The lowest height from which on every block up to the tip can be served: 0 unless blocks were
    /// pruned or are lost, or the coins loaded from a snapshot.
    pub(crate) fn lowest(&self) -> u32 {
        self.lowest
    }

    /// The lowest height from which on no block up to the tip was pruned, a snapshot's history left out
    /// before it is validated: 0 unless one was.
    pub(crate) fn undeleted(&self) -> u32 {
        self.undeleted
    }

    /// How often blocks were deleted.
    pub(crate) fn prunings(&self) -> u32 {
        self.prunings
    }

    /// Whether blocks are deleted at all.
    pub(crate) fn is_on(&self) -> bool {
        self.target.is_some()
    }

    /// With the next commit, files are deleted that have no block above `height`, as far as they may be.
    pub(crate) fn request(&mut self, height: u32) {
        self.requested = Some(height);
    }

    /// Keeps the blocks above `height` until this reader has read them, and gives them up with `None`.
    pub(crate) fn keep_above(&mut self, reader: &'static str, height: Option<u32>) {
        let before = match height {
            Some(height) => self.readers.insert(reader, height),
            None => self.readers.remove(reader),
        };
        // Files that were kept for it may go.
        self.new_file |= self.target.is_some() && before != height;
    }

    /// Whether a request waits for a commit.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.is_some()
    }

    /// Finds the lowest stored block of the active chain. What is below a snapshot is promised to nobody
    /// before it is validated, and has no undo records.
    pub(crate) fn find_lowest(&mut self, index: &BlockIndex) {
        let (tree, genesis) = (index.tree(), index.tree().genesis());
        let end = index.history().map_or(genesis, |span| span.base);
        let missing = tree.walk_stored(index.tip(), end);
        self.lowest = if missing == genesis { 0 } else { index.height(missing) + 1 };
        let mut deleted = missing;
        while deleted != end
            && Body::of(index, deleted) == Body::Absent
            && let Some(parent) = index.node(deleted).parent()
        {
            deleted = tree.walk_stored(parent, end);
        }
        let is_none = deleted == end || deleted == genesis;
        self.undeleted = if is_none { 0 } else { index.height(deleted) + 1 };
    }

    /// Whether a file can be deleted that could not be at the last look.
    pub(crate) fn is_due(
        &self,
        env: &Environment,
        index: &BlockIndex,
        replay: Option<NodeId>,
    ) -> bool {
        self.new_file && !self.files_to_prune(env, index, replay, self.coins).is_empty()
    }

    /// Whether the target is exceeded by a file that could be deleted if the coins of the tip were on disk.
    /// Not to be asked while newer coins are being written than those that are known to be on disk.
    pub(crate) fn want_coins(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        replay: Option<NodeId>,
    ) -> bool {
        // A request is not waited for: the next commit deletes what it can.
        if self.unasked && self.requested.is_none() {
            let with = |coins| self.files_to_prune(env, index, replay, coins).len();
            self.unasked = with(index.tip()) > with(self.coins);
            return self.unasked;
        }
        false
    }

    /// [`Self::is_due`] was asked; it need not be asked again before there is a new file.
    pub(crate) fn note_looked(&mut self) {
        self.new_file = false;
    }

    /// Removes from the index the blocks of the files to be deleted with the next commit; returns
    /// the numbers of the files.
    pub(crate) fn prune(
        &mut self,
        env: &Environment,
        index: &mut BlockIndex,
        replay: Option<NodeId>,
    ) -> Vec<u32> {
        let files = self.files_to_prune(env, index, replay, self.coins);
        self.requested = None;
        // The last file has grown since it was new, and the tip.
        self.unasked = self.is_on();
        for file in &files {
            let Some(blocks) = self.files.remove(file) else { continue };
            for id in blocks.ids {
                let height = index.height(id);
                if index.forget_pruned(id, *file) && index.tree().is_ancestor(id, index.tip()) {
                    self.lowest = self.lowest.max(height + 1);
                    self.undeleted = self.undeleted.max(height + 1);
                }
            }
        }
        if !files.is_empty() {
            self.prunings += 1;
            log::info!(
                "Pruning {} block files: blocks are kept from height {} on.",
                files.len(),
                self.lowest
            );
        }
        files
    }

    /// What could be deleted with the coins of this block on disk.
    fn files_to_prune(
        &self,
        env: &Environment,
        index: &BlockIndex,
        replay: Option<NodeId>,
        coins: NodeId,
    ) -> Vec<u32> {
        let Some(target) = self.target else { return Vec::new() };
        let files = env.store.file_bytes();
        let mut total: u64 = files.values().sum();
        let limit = self.prunable_height(index, replay, coins);
        let open = env.store.first_open_file();
        let mut found = Vec::new();
        for (file, bytes) in files {
            let highest = self.files.get(&file).map_or(0, |blocks| blocks.highest);
            let is_requested = self.requested.is_some_and(|height| highest <= height);
            if total <= target && !is_requested {
                continue;
            }
            if file < open && highest <= limit && !self.is_unvalidated(index, file) {
                found.push(file);
                total -= bytes;
            }
        }
        found
    }

    /// Whether a file has a block of the history that is not validated, or whose coins are not on disk.
    fn is_unvalidated(&self, index: &BlockIndex, file: u32) -> bool {
        let (Some((validated, base)), Some(blocks)) = (self.history, self.files.get(&file)) else {
            return false;
        };
        blocks.ids.iter().any(|id| (validated + 1..=base).contains(&index.height(*id)))
    }

    /// Files with no block above this height may be deleted.
    fn prunable_height(&self, index: &BlockIndex, replay: Option<NodeId>, coins: NodeId) -> u32 {
        // A restart takes back the blocks from the coins on disk down to the fork, and applies
        // those above the fork.
        let fork = |tip| index.height(index.tree().fork(coins, tip));
        let replayed = replay.map_or(u32::MAX, fork);
        let tip = index.tip();
        let read = self
            .readers
            .values()
            .min()
            .map_or(u32::MAX, |height| height.saturating_sub(KEPT_BELOW + 1));
        index.height(tip).saturating_sub(MIN_BLOCKS_TO_KEEP).min(fork(tip)).min(replayed).min(read)
    }
}
