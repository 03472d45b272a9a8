//! What the chain shows to other threads, and the requests that it takes from them.

use std::collections::VecDeque;
use std::iter;
use std::sync::{Arc, Weak};

use crossbeam_channel::Sender;
use godwit_consensus::Reject;
use godwit_primitives::network::Params;
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_store::utxo::{UtxoHasher, UtxoStore};
use godwit_store::{AssumedSnapshot, ChainPoint};
use godwit_stream::{BufferPool, DataStream, PooledStream};

use crate::chain::Chain;
use crate::coins_view::CoinsView;
use crate::event::Event;
use crate::index::{BlockIndex, Body, HistorySpan, assumed, operator};
use crate::left_blocks::LeftBlocks;
use crate::status::ChainStatus;
use crate::stored_data::StoredData;
use crate::tree::{HeaderTree, NodeId};

/// A block that is this near to the clock is placed by its height, not by its time.
const RECENT_SECONDS: u64 = 2 * 60 * 60;

/// Has the coins of the tip sent to `to` once they are on disk, unless nobody holds its other end any more.
pub fn view_coins(chain: &mut Chain, to: Weak<Sender<CoinsView>>) {
    let tip = chain.index.tip();
    chain.durability.viewers().add(tip, to);
}

/// The block that the chain goes to: of those that are stored back to genesis and not known to be invalid the
/// best one, or the tip where it stays.
pub fn heading(chain: &Chain) -> NodeId {
    let (index, tip) = (&chain.index, chain.index.tip());
    // A block that gets a second look is only on the way.
    let moves = chain.goal.target(index, tip).is_some();
    index.best().filter(|_| moves).unwrap_or(tip)
}

/// What is stored of a block.
pub fn body(chain: &Chain, id: NodeId) -> Body {
    Body::of(&chain.index, id)
}

/// Has block and undo files deleted that have no block above `height`, as far as they may be (`-prune`).
/// Coins that are not written yet keep the files of their blocks.
pub fn prune_to(chain: &mut Chain, height: u32) {
    chain.durability.prune_to(height);
}

/// Keeps the blocks above `height` from pruning for an index, which reads them later; with `None` no longer.
/// Where some of them are deleted already, nothing is kept: it cannot go on.
pub fn keep_above(chain: &mut Chain, reader: &'static str, height: Option<u32>) {
    let height = height.filter(|height| height + 1 >= lowest_for_indexes(chain));
    chain.durability.keep_above(reader, height);
}

/// Whether index and coins are made again from nothing, from this start on or from an earlier one that ended
/// before it had indexed all block files: with `-reindex`, or because the control files are lost with the
/// database.
pub fn starts_over(chain: &Chain) -> bool {
    godwit_store::starts_over(&chain.env.store)
}

/// Whether old blocks are deleted, by their size or on request.
pub fn deletes_blocks(chain: &Chain) -> bool {
    chain.durability.pruning().is_on()
}

/// Whether blocks of the active chain were deleted, in this run or an earlier one. Others that are missing
/// are still to come: those of the history below a snapshot before they are validated, and those that were
/// damaged when the index was made again.
pub fn has_pruned(chain: &Chain) -> bool {
    chain.durability.pruning().undeleted() > end_of_history(chain)
}

/// The lowest height from which on an index can read the blocks of the active chain, now or later: 0 where
/// none was deleted. What is missing of the history below a snapshot is still to come, unless blocks are
/// deleted.
pub fn lowest_for_indexes(chain: &Chain) -> u32 {
    match deletes_blocks(chain) || has_pruned(chain) {
        true => chain.durability.pruning().undeleted().max(end_of_history(chain)),
        false => 0,
    }
}

/// Whether no block above `height` was deleted, and an index lacks some there only because they belong to the
/// history below a snapshot, which is still to be validated. Walks the chain down to there.
pub fn lacks_history_alone(chain: &Chain, height: u32) -> bool {
    chain.index.history().is_some() && end_of_deleted(chain, height).is_none()
}

/// The height above the highest block that was deleted, of those above `height`. Walks the chain down to
/// there.
pub fn end_of_deleted(chain: &Chain, height: u32) -> Option<u32> {
    let index = &chain.index;
    let parent = |id: &NodeId| index.node(*id).parent();
    let mut above =
        iter::successors(Some(index.tip()), parent).take_while(|id| index.height(*id) > height);
    above.find(|id| Body::of(index, *id) == Body::Pruned).map(|id| index.height(id) + 1)
}

/// The height above the history below a snapshot that is not validated; 0 without one.
fn end_of_history(chain: &Chain) -> u32 {
    chain.index.history().map_or(0, |span| chain.index.height(span.base) + 1)
}

/// Whether the block belongs to the history below a snapshot and is not validated yet: even if it is stored,
/// no undo record is.
pub fn is_unvalidated(chain: &Chain, id: NodeId) -> bool {
    assumed::is_unvalidated(&chain.index, id)
}

/// Whether what [`prune_to`] asked for is still to be done, or a commit under way that may do it.
pub fn is_pruning(chain: &Chain) -> bool {
    chain.durability.pruning().is_requested() || !chain.durability.is_settled()
}

/// Whether the block is right below the lowest that is stored or that an index can read. Once it were stored
/// again, a start would count it as one of those, and it has no undo record.
pub fn is_below_lowest(chain: &Chain, id: NodeId) -> bool {
    let lowest = [chain.prune_height(), lowest_for_indexes(chain)];
    lowest.contains(&(chain.index.height(id) + 1))
}

/// The blocks that were connected and left since the chain was opened, the latest ones.
pub fn left_blocks(chain: &Chain) -> &LeftBlocks {
    &chain.events.left
}

/// Whether a block was pruned that may be stored again when somebody hands it in. None of a snapshot's
/// history is before all of that is validated: it could lie right below the lowest one that is stored then.
pub fn may_return(chain: &Chain, id: NodeId) -> bool {
    let index = &chain.index;
    Body::of(index, id) == Body::Pruned
        && index.tree().is_ancestor(id, index.tip())
        && !index.is_history(id)
        && !is_below_lowest(chain, id)
}

/// A block that was pruned is to be stored again when it comes. Returns whether it was not wanted before.
pub fn want_again(chain: &mut Chain, id: NodeId) -> bool {
    operator::want_again(&mut chain.index, id)
}

/// The opposite of [`want_again`].
pub fn want_no_longer(chain: &mut Chain, id: NodeId) {
    operator::want_no_longer(&mut chain.index, id);
}

/// Whether [`Event::Contents`] shows the driver what is in each block that is connected from now on.
pub fn show_blocks(chain: &mut Chain, shown: bool) {
    chain.events.shows_blocks = shown;
}

/// The height from which on the scripts of the best header's chain run; those of the blocks below are taken
/// as valid, or were in this run (`-assumevalid`). 0 where all scripts run. What earlier runs with another
/// setting took as valid is not known.
pub fn scripts_from(chain: &Chain) -> u32 {
    let (index, tree) = (&chain.index, chain.index.tree());
    let assumed = chain.goal.assume_valid().and_then(|hash| tree.find(&hash));
    let Some(assumed) = assumed else { return 0 };
    let height = tree.node(assumed).height;
    if tree.is_ancestor(assumed, index.tip()) {
        return height + 1;
    }
    // Scripts of the last blocks below the assumed one run if it is recent.
    let skips = |height: u32| {
        let id = tree.ancestor(tree.best_header(), height);
        id.is_some_and(|id| chain.goal.skips_scripts(index, &chain.env.params, id))
    };
    let (mut first, mut end) = (1, height + 1);
    while first < end {
        let middle = first.midpoint(end);
        if skips(middle) { first = middle + 1 } else { end = middle }
    }
    if first == 1 { 0 } else { first }
}

/// Bytes of the blocks that an earlier process had verified and that are applied again, since their coins
/// were not on disk.
pub fn replay_ahead(chain: &Chain) -> u64 {
    let (index, tree) = (&chain.index, chain.index.tree());
    let bytes = |end| stored_between(index, tree.fork(index.tip(), end), end);
    chain.goal.replay().map_or(0, bytes)
}

/// Bytes of the stored blocks above `ancestor` up to `last`.
fn stored_between(index: &BlockIndex, ancestor: NodeId, last: NodeId) -> u64 {
    let (mut walk, mut bytes) = (last, 0);
    while walk != ancestor {
        let node = index.node(walk);
        bytes += node.position.map_or(0, |position| u64::from(position.len));
        walk = node.parent().expect("the ancestor lies below");
    }
    bytes
}

/// What is being validated of the history below a loaded snapshot, if it is.
pub fn history(chain: &Chain) -> Option<HistorySpan> {
    chain.history.as_ref().and_then(|_| chain.index.history())
}

/// Estimated share of its transactions that are validated, from 0 to 1 (Core
/// `GetBackgroundVerificationProgress`).
pub fn history_progress(chain: &Chain) -> f64 {
    let Some(HistorySpan { tip, base }) = history(chain) else { return 1.0 };
    let index = &chain.index;
    let [done, all] = [tip, base].map(|id| index.node(id).chain_tx_count as f64);
    let [height, end] = [tip, base].map(|id| f64::from(index.height(id)));
    // The number up to the base is not known where counting starts there.
    if all > done { done / all } else { height / end.max(1.0) }
}

/// Bytes of memory that its coins take.
pub fn history_memory(chain: &Chain) -> usize {
    chain.history.as_ref().map_or(0, |history| history.coins.memory_used().total())
}

impl Chain {
    /// Adds a header to the tree (Core `AcceptBlockHeader`). `now` is in seconds since 1970.
    pub fn accept_header(
        &mut self,
        new: &BlockHeader,
        hash: BlockHash,
        now: i64,
    ) -> Result<NodeId, Reject> {
        self.index.accept_header(new, hash, now)
    }

    /// Takes the bytes of one block from a peer; bytes behind it are ignored. The verdict comes as
    /// [`Event::Judged`] with this ticket. Never waits; the caller heeds [`room`](Self::room), or
    /// memory grows.
    pub fn receive_block(&mut self, bytes: PooledStream, ticket: u64) {
        self.intake.take(ticket, bytes);
    }

    /// Starts to read a stored block; the bytes come as [`Event::Read`].
    pub fn read_block(&mut self, id: NodeId, ticket: u64) {
        if id == self.index.tree().genesis() {
            let bytes = DataStream::from(&self.env.params.genesis_block()[..]);
            self.events.push_back(Event::Read { ticket, bytes: Some(bytes.into()) });
        } else if let Some(block) = StoredData::of(self).block(id) {
            self.reads.read(&self.env, ticket, block);
        } else {
            self.events.push_back(Event::Read { ticket, bytes: None });
        }
    }

    /// Connects nothing from now on but blocks that were connected before: for commands that look at
    /// the coins, which must neither move the tip nor run scripts.
    pub fn connect_known_only(&mut self) {
        self.goal.connect_known_only();
    }

    /// Tells the chain that its driver fetches what [`Event::Lost`] names: a stored block that is
    /// damaged does not end the chain then.
    pub fn expect_copies(&mut self) {
        self.goal.expect_copies();
    }

    /// What happened since the last call, oldest first.
    pub fn take_events(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut *self.events)
    }

    /// Bytes of blocks that can be taken now without exceeding [`BlockMemory::receiving`]; none while the
    /// disk is so slow that they would be at risk for too long, and none before it is known which had
    /// arrived already.
    ///
    /// [`BlockMemory::receiving`]: crate::BlockMemory::receiving
    pub fn room(&self) -> u64 {
        let takes_blocks = self.recovery.is_done() && self.durability.takes_blocks(self.now);
        if takes_blocks { self.intake.room() } else { 0 }
    }

    /// Bytes of blocks that are decoded, wait to be accepted or are being written: as long as nothing
    /// is handed in without [`room`](Self::room), at most [`BlockMemory::receiving`] and one block.
    ///
    /// [`BlockMemory::receiving`]: crate::BlockMemory::receiving
    pub fn receiving(&self) -> u64 {
        self.intake.receiving()
    }

    /// The keyed hash of this datadir's coins store.
    pub fn hasher(&self) -> UtxoHasher {
        self.env.hasher
    }

    pub fn tree(&self) -> &HeaderTree {
        self.index.tree()
    }

    /// The last connected block.
    pub fn tip(&self) -> NodeId {
        self.index.tip()
    }

    /// Hash and height of the last connected block.
    pub fn tip_point(&self) -> ChainPoint {
        self.index.point(self.index.tip())
    }

    /// The lowest height from which on every block up to the tip can be served: 0 unless blocks were
    /// pruned or are lost, or the coins loaded from a snapshot.
    pub fn prune_height(&self) -> u32 {
        self.durability.pruning().lowest()
    }

    /// The network's parameters.
    pub fn params(&self) -> &Arc<Params> {
        &self.env.params
    }

    /// The disk that the chain is stored on.
    pub fn disk(&self) -> &godwit_store::disk::StoreDisk {
        self.env.store.disk()
    }

    /// The buffers that blocks are read into, from wherever they come.
    pub fn block_buffers(&self) -> &BufferPool {
        self.env.store.block_buffers()
    }

    /// What the chain did and holds, as of the end of its last turn.
    pub fn status(&self) -> &ChainStatus {
        &self.status
    }

    /// Counters of the coins store.
    pub fn utxo(&self) -> &UtxoStore {
        &self.coins
    }

    /// The snapshot that the coins below it were loaded from, unverified, if any.
    pub fn assumed(&self) -> Option<&AssumedSnapshot> {
        self.index.assumed()
    }

    /// Estimated share of the network's transactions that the chain up to `id` holds, from 0 to 1
    /// (Core `GuessVerificationProgress`). `now` is in seconds since 1970.
    pub fn verification_progress(&self, id: NodeId, now: i64) -> f64 {
        let (node, data) = (self.index.node(id), &self.env.params.chain_tx_data);
        let best = self.index.node(self.index.tree().best_header());
        let mut time = i64::from(node.header.time);
        if now.abs_diff(time) <= RECENT_SECONDS {
            let missing = i64::from(best.height.saturating_sub(node.height));
            time = now - missing * i64::from(self.env.params.pow_target_spacing);
        }
        let known = node.chain_tx_count <= data.tx_count;
        let (base, since) =
            if known { (data.tx_count, data.time) } else { (node.chain_tx_count, time) };
        let total = base as f64 + (now - since) as f64 * data.tx_rate;
        let share = node.chain_tx_count as f64 / total;
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Bytes of the stored blocks that are not connected yet, of the next `most` blocks of the best header's
    /// chain: so many are walked, which takes 40 ns each.
    pub fn stored_ahead(&self, most: u32) -> u64 {
        let tree = self.index.tree();
        let best = tree.best_header();
        let fork = tree.fork(self.index.tip(), best);
        let last = tree.node(fork).height.saturating_add(most);
        stored_between(&self.index, fork, tree.ancestor(best, last).unwrap_or(best))
    }
}
