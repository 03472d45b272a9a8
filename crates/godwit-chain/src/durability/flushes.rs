//! Flushes: sealed memtables on their way into a commit.
//!
//! ```text
//!   seal ────▶ waits: its run is written, its block connected ────▶ committing ────▶ durable
//!                └──── its block is taken back ────▶ given up: it is committed with the next seal
//! ```

use std::collections::VecDeque;

use godwit_store::utxo::{SealId, UtxoStore, replaced_bytes, written_seal};

use crate::apply::CoinReads;
use crate::durability::writing::{Application, Backlog, Writing};
use crate::index::BlockIndex;
use crate::tree::NodeId;

/// For what the memtable is to be sealed. The last two differ for readers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealFor {
    /// Somebody waits for the coins of the tip, and is shown what the commit names alone: nothing else.
    Viewers,
    /// Memory is short, a power cut or a clean end would cost too much, or the interval is over.
    Bounds,
    /// Block files can be deleted when newer coins are on disk.
    Pruning,
}

/// A sealed memtable on its way to disk, and the block whose coins it completes.
pub(crate) struct Flush {
    pub(crate) seal: SealId,
    pub(crate) tip: NodeId,
    /// That block was connected: it is not taken back any more.
    pub(crate) connected: bool,
}

/// See the module's documentation.
pub(super) struct Flushes {
    /// Those that no commit holds, oldest first: at most [`MOST_SEALS`](super::writing::MOST_SEALS), of
    /// which all but the last one are written, and the one of an end.
    waiting: VecDeque<Flush>,
    /// So many before them are in the commit that is under way.
    committing: usize,
    /// The coins are replaced by those of a snapshot, and so are not those of any block.
    replacing: bool,
    writing: Writing,
}

impl Flushes {
    /// All coins are on disk.
    pub(super) fn new(writing: Writing) -> Self {
        Self { waiting: VecDeque::new(), committing: 0, replacing: false, writing }
    }

    /// A block was applied, and workers have done these reads since the last one.
    pub(super) fn note_applied(&mut self, application: Application, reads: CoinReads, now: i64) {
        self.writing.note_read(reads);
        self.writing.note_applied(application, now);
    }

    /// A block was connected.
    pub(super) fn note_connected(&mut self, id: NodeId) {
        for flush in self.waiting.iter_mut().filter(|flush| flush.tip == id) {
            flush.connected = true;
        }
    }

    /// Blocks of the window were taken back down to `applied`.
    pub(super) fn note_taken_back(&mut self, index: &BlockIndex, applied: NodeId) {
        let holds_one =
            |flush: &Flush| !flush.connected && !index.tree().is_ancestor(flush.tip, applied);
        while self.waiting.back().is_some_and(holds_one) {
            self.waiting.pop_back();
            self.writing.note_given_up();
        }
    }

    /// The coins are those of no block from now on, until those of a snapshot are committed.
    pub(super) fn replace_coins(&mut self) {
        self.replacing = true;
    }

    pub(super) fn is_replacing(&self) -> bool {
        self.replacing
    }

    /// The memtable was sealed.
    pub(super) fn begin(&mut self, flush: Flush) {
        self.waiting.push_back(flush);
        self.writing.note_sealed();
    }

    /// Takes those that the next commit can name, up to the last one whose block is connected and whose run
    /// is durable; returns that one: an earlier seal needs no commit of its own.
    pub(super) fn take_complete(&mut self, coins: &UtxoStore) -> Option<Flush> {
        let seals = self.last_complete(coins)? + 1;
        (self.committing, self.replacing) = (seals, false);
        self.waiting.drain(..seals).next_back()
    }

    /// Whether there is any that the next commit can name.
    pub(super) fn has_complete(&self, coins: &UtxoStore) -> bool {
        self.last_complete(coins).is_some()
    }

    fn last_complete(&self, coins: &UtxoStore) -> Option<usize> {
        let is_complete = |flush: &Flush| flush.connected && coins.flushed() >= flush.seal;
        self.waiting.iter().rposition(is_complete)
    }

    /// The commit has returned; how many of them it held.
    pub(super) fn end_commit(&mut self) -> usize {
        std::mem::take(&mut self.committing)
    }

    /// So many are durable.
    pub(super) fn note_committed(&mut self, seals: usize) {
        self.writing.note_committed(seals);
    }

    /// Whether every seal is in a commit, or was.
    pub(super) fn none_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether every seal is durable.
    pub(super) fn all_committed(&self) -> bool {
        self.waiting.is_empty() && self.committing == 0
    }

    /// Whether the memtable may be sealed now. While earlier seals wait for their commit, only if they are
    /// written, too.
    pub(super) fn may_seal(&self, coins: &UtxoStore, reason: SealFor) -> bool {
        let last = self.waiting.back();
        let is_written = || last.is_none_or(|last| written_seal(coins) >= last.seal);
        self.all_committed() || is_written() && self.may_seal_ahead(coins, reason)
    }

    /// Whether the next seal need not wait for the commit of those before it: little is at risk, and nobody
    /// is to be shown the coins that the commit names alone.
    pub(super) fn may_seal_ahead(&self, coins: &UtxoStore, reason: SealFor) -> bool {
        reason != SealFor::Viewers
            && self.writing.may_seal_ahead(coins.unwritten(), coins.write_rate())
    }

    /// Whether no block may be applied before the memtable is rotated.
    pub(super) fn wants_rotation(&self, coins: &UtxoStore) -> bool {
        coins.wants_rotation() || self.writing.must_seal(coins.unsealed(), coins.write_rate())
    }

    /// As [`Writing::interval_is_over`].
    pub(super) fn interval_is_over(&self, now: i64) -> bool {
        self.writing.interval_is_over(now)
    }

    /// Bytes of runs that a commit of the coins on disk, as they are, would free; none while a commit of
    /// newer ones is to come.
    pub(super) fn replaced_bytes(&self, coins: &UtxoStore) -> u64 {
        match self.none_waits() && !self.replacing {
            true => replaced_bytes(coins),
            false => 0,
        }
    }

    /// All blocks whose coins are not on disk.
    pub(super) fn backlog(&self) -> Backlog {
        self.writing.backlog()
    }

    /// Of each seal that no commit holds, oldest first, whether its block is connected.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> Vec<bool> {
        self.waiting.iter().map(|flush| flush.connected).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use godwit_fault_disk::FaultDisk;

    use super::*;
    use crate::chain::tests::chain;
    use crate::durability::writing::CoinWriting;

    const SECOND: Duration = Duration::from_secs(1);

    /// A block was applied, and its coins sealed before it is connected.
    fn seal_one(flushes: &mut Flushes, seal: SealId, tip: NodeId) {
        let application = Application { took: SECOND, bytes: 0, below: 0 };
        flushes.note_applied(application, CoinReads::default(), 0);
        flushes.begin(Flush { seal, tip, connected: false });
    }

    fn note_commit(flushes: &mut Flushes) {
        let seals = flushes.end_commit();
        flushes.note_committed(seals);
    }

    #[test]
    fn a_commit_takes_the_seals_whose_blocks_are_connected_and_the_others_wait() {
        let mut chain = chain(&FaultDisk::new());
        let (coins, tip) = (&mut chain.coins, chain.index.tip());
        let seal = coins.rotate_blocking().expect("no fault");
        coins.wait_flushed(seal).expect("no fault");
        let mut flushes = Flushes::new(Writing::new(CoinWriting::PRODUCT, 2));
        flushes.replace_coins();
        for _ in 0..2 {
            seal_one(&mut flushes, seal, tip);
        }
        assert!(!flushes.has_complete(coins) && flushes.take_complete(coins).is_none());
        assert!(flushes.is_replacing(), "until they are committed");
        flushes.note_connected(tip);
        seal_one(&mut flushes, seal, tip);
        assert_eq!(flushes.waiting(), [true, true, false]);
        assert!(flushes.has_complete(coins) && flushes.take_complete(coins).is_some());
        assert!(!flushes.is_replacing());
        assert_eq!(flushes.waiting(), [false]);
        assert_eq!(flushes.backlog(), Backlog { blocks: 3, time: 3 * SECOND });
        note_commit(&mut flushes);
        assert_eq!(flushes.backlog(), Backlog { blocks: 1, time: SECOND });
        assert!(!flushes.none_waits());
        note_commit(&mut flushes);
        assert_eq!(flushes.backlog().blocks, 1, "a commit of the index alone");
        flushes.note_connected(tip);
        assert!(flushes.take_complete(coins).is_some());
        assert!(flushes.none_waits() && !flushes.all_committed());
        note_commit(&mut flushes);
        assert!(flushes.all_committed());
        assert_eq!(flushes.backlog(), Backlog::default());
    }

    #[test]
    fn a_seal_for_somebody_who_waits_for_the_coins_is_not_made_ahead_of_a_commit() {
        let mut chain = chain(&FaultDisk::new());
        let (coins, tip) = (&mut chain.coins, chain.index.tip());
        let seal = coins.rotate_blocking().expect("no fault");
        coins.wait_flushed(seal).expect("no fault");
        let mut flushes = Flushes::new(Writing::new(CoinWriting::PRODUCT, 2));
        assert!(flushes.may_seal(coins, SealFor::Viewers));
        seal_one(&mut flushes, seal, tip);
        assert!(
            !flushes.may_seal(coins, SealFor::Viewers) && flushes.may_seal(coins, SealFor::Bounds)
        );
        flushes.note_connected(tip);
        flushes.take_complete(coins);
        assert!(
            !flushes.may_seal(coins, SealFor::Viewers) && flushes.may_seal(coins, SealFor::Bounds)
        );
        note_commit(&mut flushes);
        assert!(flushes.may_seal(coins, SealFor::Viewers));
    }
}
