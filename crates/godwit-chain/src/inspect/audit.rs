//! `verify -audit`: proves that coins, undo records and blocks are what validation one block after another
//! would have left, by reading each of them once, in any order, on all threads.
//!
//! The argument is in `docs/audit.md`. In short: all rules of a block are applied with the coins that its
//! undo record claims ([`ledger`]); no claimed coin is younger than what spends it; and as multisets, the
//! outputs of all blocks are what was claimed and what the coins store holds ([`sums`]). No two transactions
//! have the same id if no two coinbases have. Then each claim is true.
//!
//! A refuted claim refutes the undo record, never the block: only validation in order judges blocks. What the
//! audit cannot decide it reports as undecided.

mod culprits;
mod ledger;
pub(crate) mod scripts;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use godwit_consensus::{
    Reject, contextual_check_block, contextual_check_header, is_bip30_repeat, is_bip30_unspendable,
    script_flags,
};
use godwit_primitives::network::{Deployment, Params};
use godwit_primitives::{OutPoint, Txid};
use godwit_store::disk::StoreDisk;
use godwit_store::error::Remedy;
use godwit_store::inspect::{Found, Inspection, Stage, Watch};
use godwit_store::utxo::{CompressedCoins, Layers, UtxoHasher};
use godwit_store::{BlockUndo, ChainPoint, StoreError};

use crate::apply::{BlockRules, OVERWRITTEN};
use crate::error::ChainError;
use crate::goal::script_reason;
use crate::index::{BlockIndex, Loading};
use crate::options::ScriptOptions;
use crate::reindex::ANY_TIME;
use crate::shares::in_shares;
use crate::structure::{Structured, check_alone};
use crate::tree::NodeId;

use super::undo::Restored;
use super::{Blocks, Reading, StoredBlock, UNDO_BYTES};
use ledger::{Claims, Counts, Ledger, Place};
use scripts::{ScriptQueue, Unknown, Waiting};
use sums::{BUCKET_BITS, BUCKETS, Mac};

pub use culprits::CoinFault;
pub use ledger::ClaimError;

/// Disputes that are told one by one, those of whole partitions aside.
const DISPUTES: usize = 1_000;
/// Coins that are read before it is looked whether to stop.
const COINS_BETWEEN_LOOKS: u64 = 4_096;

/// How to audit.
pub struct AuditOptions {
    /// Random, for this audit alone.
    pub key: [u8; 16],
    pub scripts: ScriptOptions,
}

/// The result of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audited {
    Proven(Proof),
    /// The stored data differs from what validation would have left.
    Refuted {
        disputes: Vec<Dispute>,
        /// How many disputes there are beyond the listed ones.
        more: u64,
        /// Undo records that the repair rebuilt from the blocks that created the coins.
        remade: usize,
        /// Blocks that are themselves suspect: rebuilding coins or undo records would not settle their
        /// disputes.
        suspects: usize,
    },
    /// The audit cannot decide; says why.
    Unproven(String),
}

/// What was proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The block after which the coins were committed.
    pub tip: ChainPoint,
    /// Inputs, spendable outputs, and coins of the store. A coin that is created and spent within one block
    /// is in neither of the first two.
    pub inputs: u64,
    pub outputs: u64,
    pub coins: u64,
    /// Blocks whose scripts did not run, because `-assumevalid` says so.
    pub without_scripts: u64,
}

/// A difference from what validation would have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispute {
    /// A block that breaks a rule which needs no coins.
    Block { block: ChainPoint, reject: Reject },
    /// A claim of a block's undo record cannot be true.
    Claim { block: ChainPoint, fault: ClaimError },
    /// A coin, which belongs in this partition of the coins store.
    Coin { outpoint: OutPoint, partition: usize, fault: CoinFault },
    /// The sums of this many ranges of a partition's coins disagree; these ranges were not searched.
    Part { partition: usize, ranges: usize },
    /// The sums disagreed, but a second reading found no coin that does.
    Elusive,
}

impl Dispute {
    /// The order in which they are told.
    fn rank(&self) -> (u8, u32) {
        match self {
            Self::Block { block, .. } => (0, block.height),
            Self::Claim { block, .. } => (1, block.height),
            Self::Coin { partition, .. } => (2, *partition as u32),
            Self::Part { partition, .. } => (3, *partition as u32),
            Self::Elusive => (4, 0),
        }
    }

    /// The height of the block whose undo record it disputes.
    fn record(&self) -> Option<u32> {
        match self {
            Self::Claim { block, .. } => Some(block.height),
            Self::Coin { fault, .. } => fault.claimed_at(),
            _ => None,
        }
    }

    /// The height of the block that is wrong itself, whatever its undo record has.
    fn suspect(&self) -> Option<u32> {
        match self {
            Self::Block { block, .. } => Some(block.height),
            Self::Coin { fault, .. } => fault.suspect(),
            _ => None,
        }
    }

    /// The height of the block that is wrong itself if its undo record has the coins that were created.
    fn suspect_if_claims_are_true(&self) -> Option<u32> {
        match self {
            Self::Claim { block, fault } if fault.is_of_block_if_claims_are_true() => {
                Some(block.height)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Dispute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { block: ChainPoint { hash, height }, reject } => {
                write!(f, "block {hash} at height {height} breaks a rule: {reject}")
            }
            Self::Claim { block: ChainPoint { hash, height }, fault } => {
                write!(f, "undo record of block {hash} at height {height}: {fault}")
            }
            Self::Coin { outpoint: OutPoint { txid, vout }, partition, fault } => {
                write!(f, "coin {txid}:{vout} of partition {partition}: {fault}")
            }
            Self::Part { partition, ranges } => {
                let all = BUCKETS;
                write!(f, "partition {partition}: {ranges} of all {all} ranges of coins do not agree")
            }
            Self::Elusive => f.write_str(
                "the sums of the coins did not agree, and a second reading found nothing: what is read is not \
                 always the same, so that disk or memory cannot be trusted",
            ),
        }
    }
}

/// What one thread works with.
struct Worker {
    ledger: Ledger,
    scripts: ScriptQueue,
}

#[derive(Default)]
struct Disputes {
    told: Vec<Dispute>,
    more: u64,
    /// Heights of blocks whose undo records are disputed, told or not: a repair makes them again.
    records: BTreeSet<u32>,
    /// Those of blocks that are suspects themselves, told or not.
    suspects: BTreeSet<u32>,
    /// Those of blocks that are if what their undo records have is true.
    suspects_if_claims_are_true: BTreeSet<u32>,
}

impl Disputes {
    fn add(&mut self, dispute: Dispute) {
        self.records.extend(dispute.record());
        self.suspects.extend(dispute.suspect());
        self.suspects_if_claims_are_true.extend(dispute.suspect_if_claims_are_true());
        // Nothing else names the coins of ranges that were not searched, and there are few partitions.
        let is_part = matches!(dispute, Dispute::Part { .. });
        match is_part || self.told.len() < DISPUTES {
            true => self.told.push(dispute),
            false => self.more += 1,
        }
    }
}

/// See the module's documentation.
pub(super) struct Audit {
    params: Arc<Params>,
    index: BlockIndex,
    /// The chain up to the block of the coins, by height.
    line: Vec<NodeId>,
    /// Heights whose coinbases another one replaced.
    overwritten: Vec<u32>,
    mac: Mac,
    hasher: UtxoHasher,
    scripts: ScriptOptions,
    /// Where a contradiction is recorded.
    place: (StoreDisk, PathBuf),
    /// Those that no thread has at the moment.
    workers: Mutex<Vec<Worker>>,
    disputes: Mutex<Disputes>,
}

/// What an audit says of a directory that it cannot begin with, or that is damaged.
pub(super) fn unproven(why: &str) -> Audited {
    Audited::Unproven(why.to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked ends the audit.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Audit {
    /// An audit of the coins that the last commit has left, or why there can be none.
    pub(super) fn begin(
        inspection: &Inspection,
        params: &Arc<Params>,
        options: AuditOptions,
    ) -> Result<Result<Self, Audited>, ChainError> {
        let state = inspection.state();
        if !inspection.has_whole_history() {
            return Ok(Err(unproven(
                "not all blocks are stored that the coins come from (they were pruned, or the coins were loaded \
                 from a snapshot)",
            )));
        }
        let Some(tip) = state.utxo_tip else {
            return Ok(Err(unproven("no coins have been written yet")));
        };
        let mut loading = Loading::new(Arc::clone(params));
        inspection.for_each_block(|hash, record| {
            loading.add(hash, record);
            Ok(())
        })?;
        let index = match loading.finish(Some(&tip), None) {
            Err(ChainError::DamagedIndex(_)) => {
                return Ok(Err(unproven("the block index is damaged")));
            }
            other => other?,
        };
        let scripts = options.scripts.unless_contradicted(inspection.disk(), inspection.dir())?;
        let line = line(&index);
        Ok(Ok(Self {
            params: Arc::clone(params),
            overwritten: overwritten(&index, &line),
            line,
            index,
            mac: Mac::new(options.key),
            hasher: inspection.hasher(),
            scripts,
            place: (inspection.disk().clone(), inspection.dir().to_owned()),
            workers: Mutex::default(),
            disputes: Mutex::default(),
        }))
    }

    /// The node and place of a block, if it is of the audited chain.
    fn id(&self, stored: &StoredBlock) -> Option<(NodeId, ChainPoint)> {
        let id = self.index.tree().find(&stored.hash)?;
        let point = self.index.point(id);
        let is_of_line = self.line.get(point.height as usize) == Some(&id);
        (is_of_line && point.height > 0).then_some((id, point))
    }

    fn with_worker<T>(&self, work: impl FnOnce(&mut Worker) -> T) -> T {
        let idle = lock(&self.workers).pop();
        let start = || Worker { ledger: Ledger::new(), scripts: ScriptQueue::new(&self.scripts) };
        let mut worker = idle.unwrap_or_else(start);
        let done = work(&mut worker);
        lock(&self.workers).push(worker);
        done
    }

    fn dispute(&self, dispute: Dispute) {
        lock(&self.disputes).add(dispute);
    }

    /// Calls `each` with the place of a block of the audited chain.
    fn with_place<T>(&self, id: NodeId, height: u32, each: impl FnOnce(&Place<'_>) -> T) -> T {
        let (tree, line) = (self.index.tree(), &self.line);
        let median_time_past = |height: u32| tree.median_time_past(line[height as usize]);
        let rules = BlockRules {
            height,
            flags: script_flags(height, &self.index.node(id).hash, &self.params),
            sequence_locks: self.params.is_active(Deployment::Csv, height),
            // What BIP30 forbids is found when all coinbases are known.
            no_overwrite: false,
            prev_median_time_past: median_time_past(height - 1),
            params: Arc::clone(&self.params),
        };
        let overwritten = self.overwritten.contains(&height);
        each(&Place { rules, median_time_past: &median_time_past, overwritten })
    }

    /// Takes a block that is what was written, and its undo record, of which that is true too and which has a
    /// coin for each of its inputs. One that is not of the audited chain is not looked at.
    pub(super) fn take(
        &self,
        stored: &StoredBlock,
        block: Structured,
        (undo, coins): (BlockUndo, Option<CompressedCoins>),
    ) -> Result<(), ChainError> {
        let Some((id, point)) = self.id(stored) else { return Ok(()) };
        let node = self.index.node(id);
        if node.header != *block.header() {
            return Err(ChainError::DamagedIndex(stored.hash));
        }
        let parent = node.parent().expect("genesis is not of those that are stored");
        let alone = check_alone(block.view(), &self.params).map_err(ChainError::Engine)?;
        let alone = alone.and_then(|_| {
            self.index.with_prev_context(parent, |context, params| {
                contextual_check_header(block.header(), context, params, ANY_TIME)?;
                contextual_check_block(block.view(), block.place_facts(), context, params)
            })
        });
        if let Err(reject) = alone {
            self.dispute(Dispute::Block { block: point, reject });
        }
        if coins.is_none() {
            self.dispute(Dispute::Claim { block: point, fault: ClaimError::OldForm });
        }
        let claims = Claims::new(undo, coins);
        let reason = script_reason(&self.index, &self.params, self.params.assume_valid, id);
        let outcome = self.with_worker(|worker| {
            let Worker { ledger, scripts } = worker;
            let (taken, flags) = self.with_place(id, point.height, |place| {
                (ledger.take_block(&self.mac, place, &block, &claims), place.rules.flags)
            });
            match (taken, reason) {
                (Err(fault), _) => Ok(vec![(id, fault)]),
                (Ok(()), None) => {
                    ledger.counts.without_scripts += 1;
                    Ok(Vec::new())
                }
                (Ok(()), Some(_)) => {
                    scripts.push(Waiting { id, block, coins: claims.coins, flags })
                }
            }
        });
        self.note(outcome)
    }

    /// Takes note of claims that do not hold.
    fn note(&self, outcome: Result<Vec<(NodeId, ClaimError)>, Unknown>) -> Result<(), ChainError> {
        match outcome {
            Ok(faults) => {
                for (id, fault) in faults {
                    self.dispute(Dispute::Claim { block: self.index.point(id), fault });
                }
                Ok(())
            }
            Err(Unknown::Engine(error)) => Err(ChainError::Engine(error)),
            Err(Unknown::Contradicted(contradiction)) => {
                let (disk, dir) = &self.place;
                contradiction.record(disk, dir);
                Err(ChainError::ScriptContradiction(contradiction))
            }
        }
    }

    /// Takes the coins of the store, and says what comes of it all. Nothing else was found to be damaged.
    pub(super) fn conclude(
        &self,
        blocks: &Blocks<'_>,
        layers: &Arc<Layers>,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<Audited, ChainError> {
        let partitions: Vec<usize> = (0..layers.partitions()).collect();
        in_shares(&partitions, blocks.threads, |partition| {
            self.with_worker(|worker| {
                for_each_coin(layers, *partition, &blocks.stop, |outpoint, stored| {
                    let coin = self.hasher.hash(outpoint);
                    worker.ledger.take_coin(&self.mac, &coin, stored);
                })
            })
        })?;
        let mut all = Ledger::new();
        for mut worker in std::mem::take(&mut *lock(&self.workers)) {
            self.note(worker.scripts.flush())?;
            all.merge(worker.ledger);
        }
        let Ledger { sums, coinbases, counts } = all;
        if let Some((txid, first, second)) = repeated(coinbases, &self.overwritten) {
            return Ok(Audited::Unproven(format!(
                "the blocks at heights {first} and {second} have the same coinbase, {txid}: whether that is \
                 allowed, only validation in order can tell"
            )));
        }
        let tip = self.index.point(*self.line.last().expect("genesis is always there"));
        let is_whole = counts.blocks == u64::from(tip.height);
        let wrong = sums.wrong();
        // What a missing block would claim, no sum can have.
        if is_whole && !wrong.is_empty() {
            self.search(blocks, layers, &wrong, counts, watch)?;
        }
        let disputes = std::mem::take(&mut *lock(&self.disputes));
        if !disputes.told.is_empty() {
            let claims_are_true = is_whole && wrong.is_empty();
            return self.refute(blocks, disputes, claims_are_true, reading, watch);
        }
        let Counts { inputs, outputs, coins, without_scripts, .. } = counts;
        if !is_whole {
            return Ok(unproven("not all blocks and undo records of the chain are there"));
        }
        Ok(Audited::Proven(Proof { tip, inputs, outputs, coins, without_scripts }))
    }

    /// What disputes come to, and for a repair, undo records that are disputed made again.
    fn refute(
        &self,
        blocks: &Blocks<'_>,
        disputes: Disputes,
        claims_are_true: bool,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<Audited, ChainError> {
        let Disputes { mut told, more, records, mut suspects, suspects_if_claims_are_true } =
            disputes;
        told.sort_by_key(Dispute::rank);
        if claims_are_true {
            suspects.extend(suspects_if_claims_are_true);
        }
        let (remade, unchanged) = match blocks.repair {
            true => self.remake(blocks, &records, reading, watch)?,
            false => (0, Vec::new()),
        };
        suspects.extend(unchanged);
        Ok(Audited::Refuted { disputes: told, more, remade, suspects: suspects.len() })
    }

    /// Makes undo records again that are disputed, those of blocks at these heights. Returns how many were
    /// not right before, and the heights of the blocks whose records were: these are refuted by themselves.
    fn remake(
        &self,
        blocks: &Blocks<'_>,
        heights: &BTreeSet<u32>,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<(usize, Vec<u32>), ChainError> {
        let is_disputed = |stored: &StoredBlock| {
            self.id(stored).is_some_and(|(_, point)| heights.contains(&point.height))
        };
        // Each scan of the blocks serves only so many: the others are left to the next repair.
        let mut bytes = 0;
        let is_within = |place: &usize| {
            bytes += u64::from(blocks.stored[*place].position.len);
            bytes <= UNDO_BYTES
        };
        let places = (0..blocks.stored.len()).filter(|place| is_disputed(&blocks.stored[*place]));
        let places = Vec::from_iter(places.take_while(is_within));
        let (mut remade, mut unchanged) = (0, Vec::new());
        blocks.restore_undo(&places, reading, watch, &mut |_, n, restored| match restored {
            Restored::Failed => {}
            Restored::Unchanged => unchanged.push(blocks.stored[places[n]].height),
            Restored::Made => remade += 1,
        })?;
        Ok((remade, unchanged))
    }
}

/// A transaction id that the coinbases of two blocks have, and their heights, but for those of which it is
/// known which one was overwritten. Whether it is allowed depends on what was spent when.
fn repeated(mut coinbases: Vec<(Txid, u32)>, overwritten: &[u32]) -> Option<(Txid, u32, u32)> {
    coinbases.sort_unstable();
    let is_known = |first: u32, second: u32| {
        overwritten.contains(&first) && OVERWRITTEN.contains(&(first, second))
    };
    coinbases.windows(2).find_map(|pair| {
        let ((txid, first), (other, second)) = (pair[0], pair[1]);
        (txid == other && !is_known(first, second)).then_some((txid, first, second))
    })
}

/// The chain of an index up to its tip, by height.
fn line(index: &BlockIndex) -> Vec<NodeId> {
    let (mut line, mut walk) = (Vec::new(), Some(index.tip()));
    while let Some(id) = walk {
        line.push(id);
        walk = index.node(id).parent();
    }
    line.reverse();
    line
}

/// Heights of a chain whose coinbases another one of it replaced (BIP30).
fn overwritten(index: &BlockIndex, line: &[NodeId]) -> Vec<u32> {
    let at = |height: u32| line.get(height as usize).map(|id| index.node(*id).hash);
    let is_pair = |(first, second): &(u32, u32)| {
        at(*first).is_some_and(|hash| is_bip30_unspendable(*first, &hash))
            && at(*second).is_some_and(|hash| is_bip30_repeat(*second, &hash))
    };
    OVERWRITTEN.into_iter().filter(is_pair).map(|(first, _)| first).collect()
}

/// Hands over the coins of a partition, as they are stored.
fn for_each_coin(
    layers: &Arc<Layers>,
    partition: usize,
    stop: &AtomicBool,
    mut each: impl FnMut(OutPoint, &[u8]),
) -> Result<(), ChainError> {
    let (mut scan, mut read) = (layers.scan_partition(partition)?, 0u64);
    while let Some(entry) = scan.next()? {
        if read.is_multiple_of(COINS_BETWEEN_LOOKS) && stop.load(Ordering::Relaxed) {
            return Err(StoreError::Stopped.into());
        }
        read += 1;
        each(entry.outpoint, entry.compressed);
    }
    Ok(())
}

/// Passes everything on to `watch`, and counts the damage found, and what of it is left.
pub(super) struct CountingWatch<'a> {
    watch: &'a mut dyn Watch,
    found: u64,
    left: u64,
}

impl<'a> CountingWatch<'a> {
    pub(super) fn new(watch: &'a mut dyn Watch) -> Self {
        Self { watch, found: 0, left: 0 }
    }

    pub(super) fn has_found_nothing(&self) -> bool {
        self.found == 0
    }

    pub(super) fn has_nothing_left(&self) -> bool {
        self.left == 0
    }
}

impl Watch for CountingWatch<'_> {
    fn found(&mut self, found: Found) {
        self.found += 1;
        self.left += u64::from(found.remedy != Remedy::Done);
        self.watch.found(found);
    }

    fn note(&mut self, line: &str) {
        self.watch.note(line);
    }

    fn progress(&mut self, stage: Stage, done: u64, total: u64) {
        self.watch.progress(stage, done, total);
    }

    fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }
}
