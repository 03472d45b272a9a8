//! `verify`: reads everything that a data directory holds and compares it with what was written.
//!
//! 1. Control files and database, which tell what else there is ([`Inspection::open`]). A repair first
//!    rebuilds a damaged index from the block files ([`reindex`]).
//! 2. Every block of every run, its parity, and that both are consistent
//!    (`godwit-store/src/utxo/inspect.rs`).
//! 3. Every stored block, in the order of the files: its checksum, its hash and its transactions, and its
//!    frame, which a repair writes again where the block is right; and its undo record: frame, checksum,
//!    and that it has a coin for each input of the block.
//! 4. A repair rebuilds undo records that are damaged or that the index lacks, from the blocks that created
//!    the coins: one scan of the block files for each [`UNDO_COINS`] coins.
//! 5. All coins as one set, and their hash.
//!
//! Runs of the history below a loaded snapshot are read before those of step 2, as long as that history is
//! being validated ([`history`]).
//!
//! Coins that parity cannot restore are gathered from the blocks (`godwit-store/src/utxo/beyond_parity.rs`)
//! whenever a repair reads all of them: in step 3, in step 4, and in further readings if they do not fit into
//! memory. Blocks are then read in height order. An interrupted repair resumes in the reading that it had
//! reached ([`reading`]).
//!
//! Nothing is connected, and no block is judged by the rules: the index says that they were kept. With an
//! [`audit`], steps 2 and 5 prove that as well, and replace the hash.

pub(crate) mod audit;
mod history;
mod index;
mod lost_coins;
mod reading;
mod shortened;
mod spent;
mod undo;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use godwit_primitives::BlockHash;
use godwit_primitives::network::{Deployment, Params};
use godwit_store::disk::Disk;
use godwit_store::error::{Damage, Remedy};
use godwit_store::exec::Executor;
use godwit_store::inspect::{Found, Inspection, NamedFile, Stage, Watch};
use godwit_store::utxo::{CoinsInspection, UtxoHasher};
use godwit_store::{
    AssumedSnapshot, BlockChecksum, BlockPosition, ChainPoint, NetworkId, Refutation, StoreError,
    UndoPosition,
};

use crate::error::ChainError;
use crate::options::{CoinsMemory, StartOptions};
use crate::own_block::has_coins_of;
use crate::shares::in_shares;
use crate::stats::{Totals, muhash_totals};
use crate::structure::{Structured, WitnessCheck};

use audit::{Audit, AuditOptions, Audited, CountingWatch};
use index::{check_tree, index_again};
use lost_coins::{Gathered, LostCoinsRepair};
use reading::{Reading, bytes, list_hash};
use shortened::{Shortened, is_cut_off, is_short, shortened};
use undo::WrongUndo;

pub use reading::RepairPace;

/// Bytes of blocks that are read at once.
const BATCH_BYTES: u64 = 16 << 20;
/// Coins of damaged undo records that are looked for in one scan of the block files.
const UNDO_COINS: usize = 500_000;
/// Bytes of blocks whose undo records are rebuilt in one scan.
const UNDO_ROUND_BYTES: u64 = 64 << 20;
/// Bytes of blocks whose undo records are rebuilt at most, in 32 scans: beyond that a reindex takes less
/// time.
const UNDO_BYTES: u64 = 2 << 30;

/// What an inspection is to do.
pub struct InspectOptions {
    pub params: Arc<Params>,
    pub executor: Arc<dyn Executor>,
    pub threads: usize,
    /// Whether to repair damage, as far as the stored data allows.
    pub repair: bool,
    /// Memory for the header tree and the coins that a repair gathers.
    pub memory: CoinsMemory,
    pub pace: RepairPace,
    /// Options for rebuilding a damaged index.
    pub start: StartOptions,
    /// How to audit the coins, if at all.
    pub audit: Option<AuditOptions>,
}

/// What an inspection has read, including an interrupted repair from which it resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    pub blocks: u64,
    /// How many of the blocks, with their undo records, had been checked before that repair was interrupted.
    pub blocks_before: u64,
    pub undo_records: u64,
    pub runs: u64,
    /// The coins; `None` if not all can be read, and for an audit.
    pub coins: Option<CoinsFound>,
    pub audit: Option<Audited>,
    /// Blocks below this height were pruned; 0 where none was, `None` where the block index does not tell.
    pub pruned_below: Option<u32>,
    /// The snapshot that the coins grew from, until its history is validated.
    pub assumed: Option<AssumedSnapshot>,
    /// What refuted it. No start accepts such a directory.
    pub refuted: Option<Refutation>,
}

/// The coins of the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoinsFound {
    /// The block after which the coins were committed; `None` if none were ever written.
    pub tip: Option<ChainPoint>,
    pub totals: Totals,
    /// The MuHash of the coins, as in [`UtxoStats`](crate::UtxoStats).
    pub muhash: [u8; 32],
}

/// A stored block, as the index has it.
struct StoredBlock {
    hash: BlockHash,
    prev: BlockHash,
    height: u32,
    position: BlockPosition,
    checksum: Option<BlockChecksum>,
    tx_count: u32,
    undo: Option<UndoPosition>,
    /// It was connected, and has no undo record.
    lacks_undo: bool,
    /// The coins that are to be gathered come from it too.
    has_coins: bool,
}

/// Damage of one stored block, and of its undo record.
#[derive(Default)]
struct Checked {
    block: Option<Found>,
    undo: Option<Damage>,
    gathered: Gathered,
}

/// Inspects a network's directory. `watch` is told of each damage.
///
/// # Errors
///
/// A local fault that keeps it from going on, and [`StoreError::Stopped`]; damage is none.
pub fn inspect(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    mut options: InspectOptions,
    watch: &mut dyn Watch,
) -> Result<Inspected, ChainError> {
    let watch = &mut CountingWatch::new(watch);
    let inspection = open_for(disk, dir, &mut options, watch)?;
    let (mut inspected, mut without_undo) = (Inspected::default(), BTreeSet::new());
    let state = inspection.state();
    (inspected.assumed, inspected.refuted) = (state.assumed, state.refuted);
    if inspection.has_index() {
        let tree = check_tree(&inspection, &options.params, watch)?;
        (inspected.pruned_below, without_undo) = (tree.pruned_below, tree.without_undo);
        inspected.runs = history::inspect(&inspection, &options, watch)?;
    }
    let mut audited = None;
    if let Some(audit) = options.audit.take() {
        match Audit::begin(&inspection, &options.params, audit)? {
            Ok(audit) => audited = Some(audit),
            Err(unproven) => return Ok(Inspected { audit: Some(unproven), ..inspected }),
        }
        inspected.audit = Some(audit::unproven("damage was found"));
    }
    let coins = match inspection.coins(&options.executor) {
        Err(error) => Err(Found::of(error, inspection.index_remedy())?),
        Ok(coins) => Ok(coins),
    };
    let (mut is_whole, mut repair) = (true, None);
    if let Ok(Some(coins)) = &coins {
        let runs = coins.inspect_runs(watch)?;
        (inspected.runs, is_whole) = (inspected.runs + coins.runs() as u64, runs.lost.is_empty());
        repair = LostCoinsRepair::begin(&inspection, coins, runs, &options, watch)?;
    }
    let mut reading = Reading::new(repair, &inspection, &options, audited.is_some());
    let blocks = Blocks::load(&inspection, &options, &without_undo, &reading, audited.as_ref())?;
    if inspection.has_index() {
        blocks.inspect(watch, &mut inspected, &mut reading)?;
    }
    read_coins(&blocks, coins, is_whole, &mut reading, watch, &mut inspected)?;
    if options.repair && inspection.has_index() {
        // Not before: to read all blocks again would take hours.
        reading.end();
    }
    Ok(inspected)
}

/// Reads all coins, as one, behind the blocks; `is_whole`: none was lost.
fn read_coins(
    blocks: &Blocks<'_>,
    coins: Result<Option<CoinsInspection>, Found>,
    mut is_whole: bool,
    reading: &mut Reading,
    watch: &mut CountingWatch<'_>,
    inspected: &mut Inspected,
) -> Result<(), ChainError> {
    let (inspection, mut counted) = (blocks.inspection, None);
    let mut coins = match coins {
        Err(found) => {
            watch.found(found);
            return Ok(());
        }
        Ok(coins) => coins,
    };
    if let Some(repair) = reading.coins.take() {
        (is_whole, counted) = repair.end(watch);
        coins = inspection.coins(&blocks.executor)?;
    }
    inspected.coins = match coins {
        None if !inspection.has_index() && !inspection.is_new() => None,
        None => Some(CoinsFound { tip: None, totals: Totals::default(), muhash: empty_muhash() }),
        Some(_) if !is_whole => None,
        Some(coins) => {
            watch.progress(Stage::Coins, 0, coins.bytes());
            let layers = coins.layers()?;
            if let Some(audit) = blocks.audit {
                if watch.has_found_nothing() {
                    inspected.audit = Some(audit.conclude(blocks, &layers, reading, watch)?);
                } else if watch.has_nothing_left() {
                    let why = "damage was found, and repaired; audit once more";
                    inspected.audit = Some(audit::unproven(why));
                }
                return Ok(());
            }
            let (totals, muhash) = muhash_totals(&layers, blocks.threads, &blocks.stop)?;
            if counted.is_some_and(|counted| counted != totals.txouts) {
                watch.found(miscounted(inspection.dir()));
            }
            Some(CoinsFound { tip: inspection.state().utxo_tip, totals, muhash })
        }
    };
    Ok(())
}

/// Opens what there is for what `options` ask; for a repair, makes an index that is damaged again first.
fn open_for(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    options: &mut InspectOptions,
    watch: &mut dyn Watch,
) -> Result<Inspection, ChainError> {
    let params = &options.params;
    let network = NetworkId { magic: params.magic, genesis: params.genesis_hash.to_bytes() };
    let repair = options.repair;
    let mut inspection = Inspection::open(Arc::clone(disk), dir, network, repair, watch)?;
    if let Some(mut found) = inspection.index_damage().cloned() {
        drop(inspection);
        let again = index_again(disk, dir, network, options)
            .and_then(|()| Ok(Inspection::open(Arc::clone(disk), dir, network, repair, watch)?));
        found.remedy = match &again {
            Ok(again) if again.has_index() => Remedy::Done,
            Ok(again) => again.index_remedy(),
            Err(_) => Remedy::Repair,
        };
        watch.found(found);
        inspection = again?;
    }
    Ok(inspection)
}

fn miscounted(dir: &Path) -> Found {
    let damage = Damage::Disagreement("there are more or fewer coins than the blocks left");
    let (path, remedy) = (dir.join("utxo"), Remedy::ReindexChainstate);
    Found { path, offset: 0, bytes: 0, damage, remedy }
}

fn empty_muhash() -> [u8; 32] {
    godwit_primitives::muhash::MuHash3072::new().finalize()
}

/// The stored blocks of a directory.
struct Blocks<'a> {
    inspection: &'a Inspection,
    params: Arc<Params>,
    executor: Arc<dyn Executor>,
    stop: Arc<AtomicBool>,
    threads: usize,
    repair: bool,
    hasher: UtxoHasher,
    /// In the order of the files; in that of their heights where coins are gathered.
    stored: Vec<StoredBlock>,
    by_height: bool,
    /// What tells this list from any other; zeros where nobody asks.
    list: [u8; 32],
    audit: Option<&'a Audit>,
}

impl<'a> Blocks<'a> {
    fn load(
        inspection: &'a Inspection,
        options: &InspectOptions,
        without_undo: &BTreeSet<BlockHash>,
        reading: &Reading,
        audit: Option<&'a Audit>,
    ) -> Result<Self, ChainError> {
        let (mut stored, coins) = (Vec::new(), reading.coins.as_ref());
        inspection.for_each_block(|hash, record| {
            if let Some(position) = record.position {
                stored.push(StoredBlock {
                    hash,
                    prev: record.header.prev_blockhash,
                    height: record.height,
                    position,
                    checksum: record.checksum,
                    tx_count: record.tx_count,
                    undo: record.undo,
                    lacks_undo: without_undo.contains(&hash),
                    has_coins: coins.is_some_and(|coins| coins.is_on_chain(&hash)),
                });
            }
            Ok(())
        })?;
        let by_height = reading.is_by_height();
        match by_height {
            true => stored.sort_unstable_by_key(|block| (block.height, block.position)),
            false => stored.sort_unstable_by_key(|block| block.position),
        }
        let list = if options.repair { list_hash(&stored) } else { [0; 32] };
        Ok(Self {
            inspection,
            params: Arc::clone(&options.params),
            executor: Arc::clone(&options.executor),
            stop: Arc::clone(&options.start.stop),
            threads: options.threads,
            repair: options.repair,
            hasher: inspection.hasher(),
            stored,
            by_height,
            list,
            audit,
        })
    }

    fn inspect(
        &self,
        watch: &mut dyn Watch,
        out: &mut Inspected,
        reading: &mut Reading,
    ) -> Result<(), ChainError> {
        let mut block_files = self.inspection.block_files()?;
        block_files.retain(is_short);
        let remedy = match self.inspection.has_block_files()? {
            true => Remedy::Peers,
            false => self.inspection.index_remedy(),
        };
        reading.lacks_blocks = !block_files.is_empty();
        block_files.iter().for_each(|file| watch.found(shortened(file, remedy)));
        let mut undo_files = self.inspection.undo_files()?;
        undo_files.retain(is_short);
        let there = |files: &[NamedFile]| -> Shortened {
            files.iter().map(|file| (file.number, file.there())).collect()
        };
        let files = (there(&block_files), there(&undo_files));
        out.blocks = self.stored.len() as u64;
        out.undo_records = self.stored.iter().filter(|block| block.undo.is_some()).count() as u64;
        let mut undo = Vec::new();
        if let Some(before) = self.take_up(reading, watch)? {
            out.blocks_before = before;
            undo = self.look_again(reading, &files, watch)?;
        }
        if reading.is_checking() {
            self.read_on(Stage::Blocks, reading, watch, |watch, reading, first, batch| {
                let lost = reading.coins.as_ref();
                let check = |block: &StoredBlock| self.check(block, &files, lost);
                let checked = in_shares(batch, self.threads, check)?;
                for (place, mut checked) in (first..).zip(checked) {
                    if let Some(coins) = &mut reading.coins {
                        coins.take(std::mem::take(&mut checked.gathered));
                    }
                    undo.extend(self.suspect(place, checked, &files.1, reading, watch));
                }
                Ok(())
            })?;
            reading.rest();
            if !undo.is_empty() || reading.wants_blocks() {
                self.save(reading);
            }
        }
        self.repair_undo(undo, &undo_files, reading, watch)?;
        while reading.wants_blocks() {
            self.read_for_coins(reading, watch)?;
        }
        if self.repair {
            self.save(reading);
        }
        Ok(())
    }

    /// Tells what is wrong with a block. Returns its undo record if that is not right.
    fn suspect(
        &self,
        place: usize,
        checked: Checked,
        short_undo: &Shortened,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Option<WrongUndo> {
        let undo = self.stored[place].undo;
        let cut_off = undo.is_some_and(|undo| is_cut_off(short_undo, undo));
        if let Some(found) = checked.block {
            reading.suspects.insert(place);
            // A damaged frame has another remedy.
            reading.lacks_blocks |= found.remedy == Remedy::Peers;
            watch.found(found);
        }
        (checked.undo.is_some() || cut_off).then(|| {
            reading.suspects.insert(place);
            WrongUndo { place, damage: checked.undo }
        })
    }

    /// Checks the blocks again at which an interrupted repair has found damage. Returns the undo records that
    /// are not right now.
    fn look_again(
        &self,
        reading: &mut Reading,
        files: &(Shortened, Shortened),
        watch: &mut dyn Watch,
    ) -> Result<Vec<WrongUndo>, ChainError> {
        let (mut undo, suspects) = (Vec::new(), std::mem::take(&mut reading.suspects));
        let places: Vec<usize> = suspects.iter().copied().collect();
        for batch in places.chunks(self.threads.max(1)) {
            if watch.is_stopped() {
                return Err(StoreError::Stopped.into());
            }
            let check = |place: &usize| self.check(&self.stored[*place], files, None);
            let checked = in_shares(batch, self.threads, check)?;
            for (place, checked) in batch.iter().zip(checked) {
                undo.extend(self.suspect(*place, checked, &files.1, reading, watch));
            }
        }
        Ok(undo)
    }

    /// Reads the blocks once more, for coins that did not fit into memory before.
    fn read_for_coins(
        &self,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<(), ChainError> {
        reading.serve_coins();
        self.read_on(Stage::LostCoins, reading, watch, |_, reading, _, batch| {
            let lost = reading.coins.as_ref();
            let gathered = in_shares(batch, self.threads, |block| match block.has_coins {
                true => Ok(look_at(lost, block, self.read(block).ok())),
                false => Ok(Gathered::Nothing),
            })?;
            if let Some(coins) = &mut reading.coins {
                gathered.into_iter().for_each(|gathered| coins.take(gathered));
            }
            Ok(())
        })?;
        reading.rest();
        Ok(())
    }

    /// Calls `each` with blocks in the order of the files.
    fn for_each_batch<'b>(
        &self,
        blocks: &'b [StoredBlock],
        stage: Stage,
        watch: &mut dyn Watch,
        mut each: impl FnMut(&mut dyn Watch, &'b [StoredBlock]) -> Result<(), ChainError>,
    ) -> Result<(), ChainError> {
        let (total, mut done, mut rest) = (bytes(blocks), 0, blocks);
        while !rest.is_empty() {
            if watch.is_stopped() {
                return Err(StoreError::Stopped.into());
            }
            watch.progress(stage, done, total);
            let (batch, behind) = rest.split_at(batch_len(rest, RepairPace::default().batch));
            each(&mut *watch, batch)?;
            self.release_cache(batch);
            done += bytes(batch);
            rest = behind;
        }
        watch.progress(stage, done, total);
        Ok(())
    }

    fn release_cache(&self, batch: &[StoredBlock]) {
        let files = batch.chunk_by(|a, b| a.position.file == b.position.file);
        files.for_each(|blocks| self.inspection.release_cache(blocks[0].position.file));
    }

    fn check(
        &self,
        stored: &StoredBlock,
        (short_blocks, short_undo): &(Shortened, Shortened),
        repair: Option<&LostCoinsRepair>,
    ) -> Result<Checked, ChainError> {
        let mut checked = Checked::default();
        let at = stored.position;
        let end = u64::from(at.offset) + u64::from(at.len);
        let cut_off = short_blocks.get(&at.file).is_some_and(|there| end > *there);
        let mut block = None;
        if !cut_off {
            match self.read(stored) {
                Ok(read) => {
                    block = Some(read);
                    checked.block = self.inspection.check_block_frame(at)?;
                }
                Err(StoreError::Damaged { path, offset, damage }) => {
                    let (bytes, remedy) = (u64::from(at.len), Remedy::Peers);
                    checked.block = Some(Found { path, offset, bytes, damage, remedy });
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Some(undo) = stored.undo.filter(|undo| !is_cut_off(short_undo, *undo)) else {
            checked.gathered = look_at(repair, stored, block);
            return Ok(checked);
        };
        let is_of_another = |block: &Structured, undo| !has_coins_of(block.view(), undo);
        let damage = match self.inspection.read_stored_undo(undo, &stored.prev) {
            Err(StoreError::Damaged { damage, .. }) => Some(damage),
            Err(error) => return Err(error.into()),
            Ok(coins) if block.as_ref().is_some_and(|block| is_of_another(block, &coins.0)) => {
                Some(Damage::Disagreement("it is not the undo record of its block"))
            }
            Ok(coins) => {
                // Coins are gathered where damage was found, and then nothing is proven.
                if let Some(audit) = self.audit.filter(|_| repair.is_none())
                    && let Some(block) = block.take()
                {
                    audit.take(stored, block, coins)?;
                }
                None
            }
        };
        checked.gathered = look_at(repair, stored, block);
        checked.undo = damage;
        Ok(checked)
    }

    /// A block that is what was written; its frame is not looked at.
    fn read(&self, stored: &StoredBlock) -> Result<Structured, StoreError> {
        let bytes = self.inspection.read_block(stored.position)?;
        let damaged = |damage| {
            let (path, offset) =
                (self.inspection.block_path(stored.position.file), stored.position.offset.into());
            StoreError::Damaged { path, offset, damage }
        };
        let witnesses = match stored.checksum {
            Some(checksum) if checksum != BlockChecksum::of(bytes.as_slice()) => {
                return Err(damaged(Damage::Checksum));
            }
            Some(_) => WitnessCheck::Skip,
            None if self.params.is_active(Deployment::Segwit, stored.height) => {
                WitnessCheck::Segwit
            }
            None => WitnessCheck::BeforeSegwit,
        };
        let block = Structured::from_own_file(bytes, stored.hash, witnesses, &self.hasher);
        let block = block.filter(|block| block.view().tx_count() as u32 == stored.tx_count);
        block.ok_or_else(|| damaged(Damage::Disagreement("it is not the block of the index")))
    }
}

/// Tells the user, and the log.
fn note(watch: &mut dyn Watch, line: &str) {
    log::info!("{line}");
    watch.note(line);
}

/// How many of these blocks are read at once.
fn batch_len(blocks: &[StoredBlock], most: usize) -> usize {
    let mut sum = 0;
    let within = |block: &&StoredBlock| {
        sum += u64::from(block.position.len);
        sum <= BATCH_BYTES
    };
    blocks.iter().take(most).take_while(within).count().max(1)
}

fn look_at(
    repair: Option<&LostCoinsRepair>,
    stored: &StoredBlock,
    block: Option<Structured>,
) -> Gathered {
    repair.map_or(Gathered::Nothing, |repair| repair.look_at(stored, block))
}
