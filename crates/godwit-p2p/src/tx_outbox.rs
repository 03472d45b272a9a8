//! The outbox: transactions that users of this node sent, kept until they are deep in the chain.
//!
//! It judges nothing: whoever adds a transaction has checked it. A transaction leaves when another one in a
//! block spends the same coin, when it has been in the chain for [`FORGET_DEPTH`] blocks, or earlier if a
//! newer mined one needs its room, when another transaction replaces it, when the block whose coinbase it
//! spends is left for another branch, or after [`KEEP`]. When its own block is left, it waits again.
//!
//! Subscribers are told of each transaction that begins or ceases to wait. These changes are numbered like
//! those of Core's mempool: each change takes one number, and so does each transaction that a block takes,
//! which only the block's own notice reports.

mod file;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use godwit_primitives::{Amount, BlockHash, BlockView, OutPoint, TxView, Txid, Wtxid};

use crate::time::Now;

/// Transactions in the outbox at most.
pub(crate) const MAX_OUTBOX: usize = 1_000;

/// Memory of the outbox at most, in bytes.
pub const MAX_OUTBOX_BYTES: usize = 4 << 20;

/// How long a transaction waits for a block, in seconds: 14 days, as in Core's mempool
/// (`DEFAULT_MEMPOOL_EXPIRY_HOURS`).
pub const KEEP: i64 = 14 * 24 * 60 * 60;

/// A transaction that has so many blocks above its own is forgotten: deeper reorganisations are not
/// expected (Core keeps undo data of 288).
const FORGET_DEPTH: u32 = 100;

/// Once a peer has asked for a transaction, and until a block has it, all are told anew after this long, and
/// up to half as long more. An outbox that was saved waits as long at the start, as Core's wallets do
/// (`CWallet::SetNextResend`).
pub(crate) const AGAIN_WHEN_FETCHED: Duration = Duration::from_secs(12 * 60 * 60);

/// Memory of an entry beside its bytes: itself, its places in the tables, and what the allocator adds.
const ENTRY_BYTES: usize = 512;
/// The same for each input.
const INPUT_BYTES: usize = 128;

/// A transaction of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxTx {
    pub txid: Txid,
    pub wtxid: Wtxid,
    /// As it was serialised; it decodes.
    bytes: Box<[u8]>,
    /// In satoshi.
    pub fee: Amount,
    /// Virtual bytes, adjusted for signature operations.
    pub vsize: u64,
    /// Weight, adjusted likewise.
    pub weight: u64,
    /// When it was sent, in seconds since 1970.
    pub time: i64,
    /// Height of the tip then.
    pub height: u32,
}

impl OutboxTx {
    /// A transaction, with what was found out about it. Where its own weight comes to `vsize`, it has that.
    pub fn new(tx: TxView<'_>, fee: Amount, vsize: u64, time: i64, height: u32) -> Self {
        let bytes = tx.bytes().into();
        let own = tx.weight() as u64;
        let weight = if own.div_ceil(4) == vsize { own } else { vsize.saturating_mul(4) };
        Self { txid: tx.txid(), wtxid: tx.wtxid(), bytes, fee, vsize, weight, time, height }
    }

    /// Whether its weight is not that which its virtual bytes let one expect.
    fn is_dense(&self) -> bool {
        let own = self.view().weight() as u64;
        self.weight != own && own.div_ceil(4) == self.vsize
    }

    pub fn view(&self) -> TxView<'_> {
        TxView::parse(&self.bytes).expect("it was made of a transaction")
    }

    fn memory(&self) -> usize {
        self.bytes.len() + ENTRY_BYTES + self.view().input_count() * INPUT_BYTES
    }
}

/// Names an entry; later ones are higher, so a transaction is above those that it spends.
pub(crate) type EntryId = u64;

/// A transaction, and where it stands.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) tx: Arc<OutboxTx>,
    /// The block that has it, and its height.
    pub(crate) block: Option<(BlockHash, u32)>,
    /// When it is announced again, on the monotonic clock; zero for at once.
    pub(crate) due: Duration,
    /// How often it was to be announced to all peers, also to those that were told before.
    pub(crate) round: u32,
    /// When the last such round began, on the monotonic clock.
    pub(crate) round_began: Option<Duration>,
    /// A peer has asked for it.
    pub(crate) was_fetched: bool,
    /// When it has waited for [`KEEP`], on the monotonic clock, since the first look at the clocks.
    expires: Option<Duration>,
    /// Blocks were left while it waited, or the one that had it: what it spends may be in no block of this
    /// branch yet.
    may_lack_inputs: bool,
}

impl Entry {
    /// Has it announced to all peers, at once.
    pub(crate) fn begin_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.due = Duration::ZERO;
    }
}

/// Something waits for a block, or no longer, although no block has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboxChange {
    Added { tx: Arc<OutboxTx>, sequence: u64 },
    Removed { txid: Txid, sequence: u64 },
}

/// There is no room for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxFull;

impl fmt::Display for OutboxFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the outbox is full")
    }
}

impl std::error::Error for OutboxFull {}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct TxOutbox {
    entries: BTreeMap<EntryId, Entry>,
    by_txid: HashMap<Txid, EntryId>,
    by_wtxid: HashMap<Wtxid, EntryId>,
    spenders: HashMap<OutPoint, EntryId>,
    /// Those that wait again, while nobody has been told of it.
    returning: BTreeSet<EntryId>,
    /// Coinbases of blocks that were left, which some spend, until the chain has settled.
    left_coinbases: BTreeSet<Txid>,
    last_id: EntryId,
    /// Changes so far.
    version: u64,
    /// Number of the last change of what waits.
    sequence: u64,
    memory: usize,
}

impl TxOutbox {
    /// Those that wait for a block, parents before children.
    pub fn waiting(&self) -> impl Iterator<Item = &Arc<OutboxTx>> {
        self.entries.values().filter(|entry| entry.block.is_none()).map(|entry| &entry.tx)
    }

    /// One that waits for a block.
    pub fn get(&self, txid: &Txid) -> Option<&Arc<OutboxTx>> {
        let entry = &self.entries[self.by_txid.get(txid)?];
        entry.block.is_none().then_some(&entry.tx)
    }

    /// How often it has changed: two looks that give the same number saw the same transactions.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of the next change of what waits; the first one's is 1 (Core `CTxMemPool::GetSequence`).
    pub fn next_sequence(&self) -> u64 {
        self.sequence + 1
    }

    /// Whether it holds nothing, not even what is in a block.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Memory that it holds, in bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Whether one that waits for a block spends this.
    pub fn is_spent(&self, outpoint: &OutPoint) -> bool {
        self.spenders.get(outpoint).is_some_and(|id| self.entries[id].block.is_none())
    }

    /// Whether a peer has asked for one.
    pub fn was_fetched(&self, txid: &Txid) -> bool {
        self.by_txid.get(txid).is_some_and(|id| self.entries[id].was_fetched)
    }

    /// Puts transactions in, parents before children, in place of `replaced` and what depends on them. Where
    /// there is no room, those that blocks have are forgotten, the deepest first.
    ///
    /// # Errors
    ///
    /// There is no room, and nothing has changed.
    pub fn put(
        &mut self,
        txs: Vec<OutboxTx>,
        replaced: &[Txid],
    ) -> Result<Vec<OutboxChange>, OutboxFull> {
        let mut leaving = BTreeSet::new();
        for txid in replaced {
            leaving.extend(
                self.by_txid.get(txid).map(|id| self.with_descendants(*id)).unwrap_or_default(),
            );
        }
        // One that waits again is known; one that is in a block is judged anew there.
        let new: Vec<OutboxTx> =
            txs.into_iter().filter(|tx| !self.by_txid.contains_key(&tx.txid)).collect();
        let mut freed: usize = leaving.iter().map(|id| self.entries[id].tx.memory()).sum();
        let wanted: usize = new.iter().map(OutboxTx::memory).sum();
        let mut deepest = self.in_blocks().into_iter();
        while self.entries.len() - leaving.len() + new.len() > MAX_OUTBOX
            || self.memory - freed + wanted > MAX_OUTBOX_BYTES
        {
            let id = deepest.next().ok_or(OutboxFull)?;
            if leaving.insert(id) {
                freed += self.entries[&id].tx.memory();
            }
        }
        let mut changes = self.remove_all(leaving);
        for tx in new {
            let txid = tx.txid;
            changes.extend(self.insert(tx, None));
            self.move_descendants_behind(&txid);
        }
        Ok(changes)
    }

    /// What waits since its block was left may have come before what it spends from. It is announced again,
    /// behind that: nobody could take it before.
    fn move_descendants_behind(&mut self, txid: &Txid) {
        let Some(id) = self.find_txid(txid) else { return };
        for descendant in self.with_descendants(id).into_iter().filter(|other| *other < id) {
            let Some(mut entry) = self.entries.remove(&descendant) else { continue };
            let id = self.give_id(&entry.tx);
            if self.returning.remove(&descendant) {
                self.returning.insert(id);
            }
            entry.begin_round();
            self.entries.insert(id, entry);
        }
    }

    /// Has one announced again.
    pub(crate) fn announce_again(&mut self, txid: &Txid) {
        if let Some(id) = self.by_txid.get(txid)
            && let Some(entry) = self.entries.get_mut(id)
        {
            entry.begin_round();
        }
    }

    /// A peer has asked for one.
    pub(crate) fn note_fetched(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(&id)
            && !std::mem::replace(&mut entry.was_fetched, true)
        {
            self.version += 1;
        }
    }

    /// Has a transaction found by a new id.
    fn give_id(&mut self, tx: &OutboxTx) -> EntryId {
        self.last_id += 1;
        let id = self.last_id;
        self.by_txid.insert(tx.txid, id);
        self.by_wtxid.insert(tx.wtxid, id);
        self.spenders.extend(tx.view().inputs().map(|input| (input.prevout, id)));
        id
    }

    fn insert(&mut self, tx: OutboxTx, block: Option<(BlockHash, u32)>) -> Option<OutboxChange> {
        let id = self.give_id(&tx);
        self.version += 1;
        self.memory += tx.memory();
        let tx = Arc::new(tx);
        let entry = Entry {
            tx: Arc::clone(&tx),
            block,
            due: Duration::ZERO,
            round: 0,
            round_began: None,
            was_fetched: false,
            expires: None,
            may_lack_inputs: false,
        };
        self.entries.insert(id, entry);
        block.is_none().then(|| OutboxChange::Added { tx, sequence: self.count() })
    }

    /// The number of a change of what waits.
    fn count(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn remove_all(&mut self, ids: impl IntoIterator<Item = EntryId>) -> Vec<OutboxChange> {
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    fn remove(&mut self, id: EntryId) -> Option<OutboxChange> {
        let Entry { tx, block, .. } = self.entries.remove(&id)?;
        let was_told = !self.returning.remove(&id) && block.is_none();
        self.version += 1;
        self.memory -= tx.memory();
        self.by_txid.remove(&tx.txid);
        self.by_wtxid.remove(&tx.wtxid);
        for input in tx.view().inputs() {
            self.spenders.remove(&input.prevout);
        }
        if self.entries.is_empty() {
            let Self { last_id, version, sequence, .. } = *self;
            *self = Self { last_id, version, sequence, ..Self::default() };
        }
        was_told.then(|| OutboxChange::Removed { txid: tx.txid, sequence: self.count() })
    }

    /// Those that blocks have, the deepest first.
    fn in_blocks(&self) -> Vec<EntryId> {
        let height = |(id, entry): (&EntryId, &Entry)| entry.block.map(|(_, height)| (height, *id));
        let mut found: Vec<(u32, EntryId)> = self.entries.iter().filter_map(height).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// An entry and all that spend from it.
    fn with_descendants(&self, id: EntryId) -> BTreeSet<EntryId> {
        let (mut found, mut open) = (BTreeSet::from([id]), vec![id]);
        while let Some(id) = open.pop() {
            let tx = &self.entries[&id].tx;
            let outputs = tx.view().output_count() as u32;
            for vout in 0..outputs {
                let spender = self.spenders.get(&OutPoint { txid: tx.txid, vout });
                open.extend(spender.copied().filter(|spender| found.insert(*spender)));
            }
        }
        found
    }

    /// An entry and all that wait of those that it spends from, near and far.
    pub(crate) fn with_waiting_ancestors(&self, id: EntryId) -> BTreeSet<EntryId> {
        let (mut found, mut open) = (BTreeSet::from([id]), vec![id]);
        while let Some(id) = open.pop() {
            for input in self.entries[&id].tx.view().inputs() {
                let parent = self.by_txid.get(&input.prevout.txid).copied();
                let waiting = parent.filter(|parent| self.entries[parent].block.is_none());
                open.extend(waiting.filter(|parent| found.insert(*parent)));
            }
        }
        found
    }

    /// A block was connected: what it has waits no longer, and what it leaves nothing to spend is forgotten.
    /// The latter is returned.
    pub fn note_block(
        &mut self,
        hash: BlockHash,
        height: u32,
        block: BlockView<'_>,
    ) -> Vec<OutboxChange> {
        let mut changes = Vec::new();
        if self.entries.is_empty() {
            return changes;
        }
        for tx in block.txs() {
            let txid = tx.txid();
            self.left_coinbases.remove(&txid);
            let own = self.by_txid.get(&txid).copied();
            if let Some(id) = own
                && let Some(entry) = self.entries.get_mut(&id)
            {
                let was_told = !self.returning.remove(&id) && entry.block.is_none();
                entry.block = Some((hash, height));
                entry.may_lack_inputs = false;
                self.version += 1;
                // Core counts it too (`CTxMemPool::removeUnchecked`), and leaves it to the block to tell.
                self.sequence += u64::from(was_told);
            }
            for input in tx.inputs() {
                let spender = self.spenders.get(&input.prevout).copied();
                if let Some(other) = spender.filter(|spender| Some(*spender) != own) {
                    changes.extend(self.remove_all(self.with_descendants(other)));
                }
            }
        }
        let deep = |entry: &Entry| {
            entry.block.is_some_and(|(_, own)| height.saturating_sub(own) >= FORGET_DEPTH)
        };
        let over: Vec<EntryId> =
            self.entries.iter().filter(|(_, entry)| deep(entry)).map(|(id, _)| *id).collect();
        changes.extend(self.remove_all(over));
        changes
    }

    /// A block was disconnected: what it has waits again, and is announced again. [`Self::note_settled`]
    /// tells of it. Whatever waits may spend what this block had.
    pub fn note_left(&mut self, hash: &BlockHash, coinbase: &Txid) {
        for (id, entry) in &mut self.entries {
            if entry.block.is_some_and(|(own, _)| own == *hash) {
                entry.block = None;
                entry.begin_round();
                self.returning.insert(*id);
                self.version += 1;
            }
            if entry.block.is_none() && !std::mem::replace(&mut entry.may_lack_inputs, true) {
                self.version += 1;
            }
        }
        if self.spenders_of(coinbase).next().is_some() {
            self.left_coinbases.insert(*coinbase);
        }
    }

    fn spenders_of<'a>(&'a self, txid: &'a Txid) -> impl Iterator<Item = EntryId> + 'a {
        self.spenders.iter().filter(|(spent, _)| spent.txid == *txid).map(|(_, id)| *id)
    }

    /// The chain has come to where it stays (Core `MaybeUpdateMempoolForReorg`). What spends the coinbase of
    /// a block that was left is forgotten with all that depends on it, unless the new branch has that
    /// coinbase, too; what waits again is told of, unless a block of the new branch has it. Lock times that
    /// do not hold yet, and coinbases that are too young, for which Core's mempool forgets a transaction too,
    /// only need more blocks.
    pub fn note_settled(&mut self) -> Vec<OutboxChange> {
        let left = std::mem::take(&mut self.left_coinbases);
        let lost: BTreeSet<EntryId> =
            left.iter().flat_map(|coinbase| self.spenders_of(coinbase)).collect();
        let mut changes = self.remove_with_descendants(lost.into_iter().collect());
        for id in std::mem::take(&mut self.returning) {
            let tx = Arc::clone(&self.entries[&id].tx);
            changes.push(OutboxChange::Added { tx, sequence: self.count() });
        }
        changes
    }

    /// Forgets what has waited for [`KEEP`], and what depends on it. How long it had waited when it came here
    /// is asked of the clock, which may jump afterwards.
    pub(crate) fn expire(&mut self, now: Now) -> Vec<OutboxChange> {
        let mut old = Vec::new();
        for (id, entry) in &mut self.entries {
            let expires = *entry.expires.get_or_insert_with(|| {
                let waited = now.unix.saturating_sub(entry.tx.time).max(0);
                // What is older than it is kept is forgotten at once.
                let left = KEEP.saturating_sub(waited).saturating_add(1).max(0).cast_unsigned();
                now.monotonic + Duration::from_secs(left)
            });
            if entry.block.is_none() && now.monotonic >= expires {
                old.push(*id);
                log::warn!(
                    "The transaction {}, which was sent here, has waited for a block for {} days: it is forgotten, \
                     with what depends on it.",
                    entry.tx.txid,
                    KEEP / (24 * 60 * 60)
                );
            }
        }
        self.remove_with_descendants(old)
    }

    fn remove_with_descendants(&mut self, ids: Vec<EntryId>) -> Vec<OutboxChange> {
        let mut changes = Vec::new();
        for id in ids {
            if self.entries.contains_key(&id) {
                changes.extend(self.remove_all(self.with_descendants(id)));
            }
        }
        changes
    }

    /// Forgets what waits and spends what is neither a coin nor an output of what still waits: a block has
    /// it, or one that spends the same. What was sent above `height`, that of the tip, stays: it may spend
    /// coins that are not known again yet. So does what may lack inputs since blocks were left, unless an
    /// output of its own is a coin: then a block has it, and what it spends from.
    ///
    /// # Errors
    ///
    /// That of `is_coin`; what comes after it stays.
    pub fn forget_spent<E>(
        &mut self,
        height: u32,
        is_coin: impl Fn(&OutPoint) -> Result<bool, E>,
    ) -> Result<(), E> {
        let is_below = |entry: &Entry| entry.block.is_none() && entry.tx.height <= height;
        let waiting: Vec<EntryId> =
            self.entries.iter().filter(|(_, entry)| is_below(entry)).map(|(id, _)| *id).collect();
        for id in waiting {
            let Some(entry) = self.entries.get(&id) else { continue };
            // Not its descendants: if a block has it, they spend coins.
            let over = match entry.may_lack_inputs {
                true if has_coin(&entry.tx, &is_coin)? => self.with_waiting_ancestors(id),
                false if self.is_spent_out(&entry.tx, &is_coin)? => BTreeSet::from([id]),
                _ => continue,
            };
            self.remove_all(over);
        }
        Ok(())
    }

    /// Whether it spends what is neither a coin nor an output of what waits.
    fn is_spent_out<E>(
        &self,
        tx: &OutboxTx,
        is_coin: impl Fn(&OutPoint) -> Result<bool, E>,
    ) -> Result<bool, E> {
        for input in tx.view().inputs() {
            let OutPoint { txid, vout } = input.prevout;
            let parent = self.get(&txid).map(|parent| parent.view().output_count());
            let has_output = parent.is_some_and(|outputs| (vout as usize) < outputs);
            if !has_output && !is_coin(&input.prevout)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = (EntryId, &mut Entry)> {
        self.entries.iter_mut().map(|(id, entry)| (*id, entry))
    }

    pub(crate) fn entry_mut(&mut self, id: EntryId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    pub(crate) fn find_txid(&self, txid: &Txid) -> Option<EntryId> {
        self.by_txid.get(txid).copied()
    }

    pub(crate) fn find_wtxid(&self, wtxid: &Wtxid) -> Option<EntryId> {
        self.by_wtxid.get(wtxid).copied()
    }
}

/// Whether an output of it is a coin.
fn has_coin<E>(tx: &OutboxTx, is_coin: impl Fn(&OutPoint) -> Result<bool, E>) -> Result<bool, E> {
    for vout in 0..tx.view().output_count() as u32 {
        if is_coin(&OutPoint { txid: tx.txid, vout })? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
