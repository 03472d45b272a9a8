//! The readings of all blocks that a repair takes. An interrupted reading resumes where it was.
//!
//! The progress of a reading is saved now and then, and at a stop: the next block to read, the blocks at
//! which damage was found, the coins gathered so far, and the coins that undo records still need. All of it
//! follows from the list of blocks and their contents. So it is resumed if the current list begins with the
//! same blocks and the lost coins are the same or fewer; otherwise the repair begins with the first block. On
//! resumption, blocks at which damage was found are read again: their state is reported once more, and only
//! undo records that are still wrong are rebuilt. Blocks that a node has stored meanwhile are all read; if
//! there are more than a week's, the repair begins anew.
//!
//! The saved progress may be lost at any time. Coins of the set are written only when the blocks' own count
//! confirms them (`godwit-store/src/utxo/beyond_parity.rs`); that gathered coins are what blocks said rests
//! on the checkpoint's SHA-256. Blocks read before the interruption are not read again: damage to them since
//! then is left to the next `verify`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use godwit_primitives::sha256::Sha256;
use godwit_primitives::{BlockHash, Coin, OutPoint, Txid};
use godwit_store::StoreError;
use godwit_store::checkpoint::{CheckpointReader, CheckpointWriter, Checkpoints};
use godwit_store::exec::Executor;
use godwit_store::inspect::{Inspection, Stage, Watch};

use super::lost_coins::{LostCoinsRepair, SavedCoins};
use super::spent::Wanted;
use super::{Blocks, InspectOptions, StoredBlock, UNDO_ROUND_BYTES, batch_len, note};
use crate::error::ChainError;

/// How often a repair writes down what it has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPace {
    /// Least time between two checkpoints. At a stop, and at the end of a reading for lost coins or undo
    /// records, there is one at any time.
    pub interval: Duration,
    /// Bytes of blocks that are read between two checkpoints for each byte of the first one: coins that take
    /// much of the memory are written down less often.
    pub reading: u64,
    /// Blocks that are read at once, at most.
    pub batch: usize,
    /// Bytes of blocks whose undo records are made again in one reading.
    pub undo_round: u64,
}

impl Default for RepairPace {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(60),
            reading: 16,
            batch: 64,
            undo_round: UNDO_ROUND_BYTES,
        }
    }
}

/// Undo records that are made again by one reading.
pub(super) struct Round {
    /// The block below which the blocks are whose records they are.
    pub(super) line: BlockHash,
    /// The places of these blocks.
    pub(super) places: BTreeSet<usize>,
}

impl Default for Round {
    /// Of no record.
    fn default() -> Self {
        Self { line: BlockHash::from_bytes([0; 32]), places: BTreeSet::new() }
    }
}

/// What of a reading is in a file.
struct Checkpoint {
    place: Checkpoints,
    pace: RepairPace,
    clock: Arc<dyn Executor>,
    written_at: Duration,
    /// Bytes of the last one, and of the blocks that were read since.
    bytes: u64,
    read: u64,
    /// Readings are no repair, or a checkpoint could not be written.
    is_off: bool,
}

/// See the module's documentation.
pub(super) struct Reading {
    pub(super) coins: Option<LostCoinsRepair>,
    /// What the blocks are read for, and the place of the next one in the list; not 0 while a reading is
    /// under way.
    stage: Stage,
    next: usize,
    /// Places of blocks at which damage was found.
    pub(super) suspects: BTreeSet<usize>,
    /// Whether a block is damaged or missing, so that coins are not found that it created.
    pub(super) lacks_blocks: bool,
    /// Places of those whose undo records cannot be made again.
    pub(super) hopeless: BTreeSet<usize>,
    /// Which undo records a reading is for.
    round: Round,
    /// The coins that these are to have.
    pub(super) wanted: Wanted,
    checkpoint: Checkpoint,
    /// What an interrupted repair has left, until it is taken up, and in which order it has read the blocks.
    saved: Option<CheckpointReader>,
    saved_by_height: bool,
}

/// What was read of a checkpoint, but for lost coins.
struct Saved {
    stage: Stage,
    next: usize,
    suspects: BTreeSet<usize>,
    hopeless: BTreeSet<usize>,
    round: Round,
    found: Wanted,
    has_coins: bool,
}

impl Reading {
    /// Readings of which something is written down if they are to repair, and no audit.
    pub(super) fn new(
        coins: Option<LostCoinsRepair>,
        inspection: &Inspection,
        options: &InspectOptions,
        is_audit: bool,
    ) -> Self {
        let (place, pace) = (inspection.checkpoints(), options.pace);
        let clock = Arc::clone(&options.executor);
        let written_at = clock.now();
        // An audit proves nothing of what it has not read itself.
        let is_off = !options.repair || is_audit;
        let mut saved = (!is_off).then(|| place.open()).flatten();
        let saved_by_height = saved.as_mut().and_then(CheckpointReader::array::<1>) == Some([1]);
        Self {
            coins,
            stage: Stage::Blocks,
            next: 0,
            suspects: BTreeSet::new(),
            lacks_blocks: false,
            hopeless: BTreeSet::new(),
            round: Round::default(),
            wanted: Wanted::new(),
            checkpoint: Checkpoint { place, pace, clock, written_at, bytes: 0, read: 0, is_off },
            saved,
            saved_by_height,
        }
    }

    /// Whether blocks are to be read in the order of their heights, and not in that of the files.
    pub(super) fn is_by_height(&self) -> bool {
        self.saved_by_height || self.wants_blocks()
    }

    /// The repair is done, and all that was to be read behind it.
    pub(super) fn end(&self) {
        self.checkpoint.place.remove();
    }

    /// Bytes of blocks whose undo records are made again in one reading.
    pub(super) fn undo_round(&self) -> u64 {
        self.checkpoint.pace.undo_round
    }

    /// Whether lost coins are gathered.
    pub(super) fn wants_blocks(&self) -> bool {
        self.coins.as_ref().is_some_and(LostCoinsRepair::wants_blocks)
    }

    /// Whether blocks and undo records are still to be checked.
    pub(super) fn is_checking(&self) -> bool {
        self.stage == Stage::Blocks
    }

    /// Nothing is being read: what comes next begins with the first block.
    pub(super) fn rest(&mut self) {
        (self.stage, self.next, self.round) = (Stage::LostCoins, 0, Round::default());
        self.wanted.clear();
    }

    /// The reading that is under way serves lost coins alone from here on; whether there is such a one.
    pub(super) fn serve_coins(&mut self) -> bool {
        let next = self.next;
        self.rest();
        self.next = if self.wants_blocks() { next } else { 0 };
        self.next > 0
    }

    /// The places of the undo records below a block for which a reading is under way: that of a repair that
    /// was interrupted. Some of them may be right by now.
    pub(super) fn unfinished(&self, line: &BlockHash) -> Option<&BTreeSet<usize>> {
        let is_under_way = self.stage == Stage::Undo && self.round.line == *line;
        is_under_way.then_some(&self.round.places)
    }

    /// Begins to read for undo records.
    pub(super) fn begin_round(&mut self, round: Round) {
        self.rest();
        (self.stage, self.round) = (Stage::Undo, round);
    }

    /// The coins that are wanted in a round; what the last repair has found of them stays.
    pub(super) fn want(&mut self, mut coins: Wanted) {
        for (outpoint, coin) in std::mem::take(&mut self.wanted) {
            if let Some(place) = coins.get_mut(&outpoint) {
                *place = coin;
            }
        }
        self.wanted = coins;
    }

    /// Takes a coin that a block creates.
    pub(super) fn found(&mut self, outpoint: OutPoint, coin: Coin) {
        // Of two coinbases with the same hash the later one counts.
        if let Some(place) = self.wanted.get_mut(&outpoint)
            && place.as_ref().is_none_or(|old| old.height < coin.height)
        {
            *place = Some(coin);
        }
    }

    /// Whether another repair could go on from here: not without the coins that this one has given up.
    fn can_go_on(&self) -> bool {
        !self.coins.as_ref().is_some_and(LostCoinsRepair::has_failed)
    }

    fn is_due(&self) -> bool {
        let Checkpoint { pace, clock, written_at, bytes, read, .. } = &self.checkpoint;
        clock.now().saturating_sub(*written_at) >= pace.interval
            && *read >= bytes.saturating_mul(pace.reading)
    }
}

impl Blocks<'_> {
    /// Calls `each` with the blocks that a reading has still to read, and ends a pass of lost coins behind
    /// the last one.
    pub(super) fn read_on(
        &self,
        stage: Stage,
        reading: &mut Reading,
        watch: &mut dyn Watch,
        mut each: impl FnMut(
            &mut dyn Watch,
            &mut Reading,
            usize,
            &[StoredBlock],
        ) -> Result<(), ChainError>,
    ) -> Result<(), ChainError> {
        reading.stage = stage;
        let total = bytes(&self.stored);
        let mut done = bytes(&self.stored[..reading.next]);
        while reading.next < self.stored.len() {
            if watch.is_stopped() {
                self.save(reading);
                return Err(StoreError::Stopped.into());
            }
            if reading.is_due() {
                self.save(reading);
            }
            watch.progress(stage, done, total);
            let rest = &self.stored[reading.next..];
            let batch = &rest[..batch_len(rest, reading.checkpoint.pace.batch)];
            let first = reading.next;
            each(&mut *watch, reading, first, batch)?;
            self.release_cache(batch);
            reading.next += batch.len();
            reading.checkpoint.read += bytes(batch);
            done += bytes(batch);
        }
        watch.progress(stage, done, total);
        // What was read for is written next, and runs take long.
        if stage == Stage::Undo || reading.wants_blocks() {
            self.save(reading);
        }
        match &mut reading.coins {
            Some(coins) => Ok(coins.end_pass(self.inspection, watch)?),
            None => Ok(()),
        }
    }

    /// Writes down what was read. Where that fails, the repair goes on without.
    pub(super) fn save(&self, reading: &mut Reading) {
        if reading.checkpoint.is_off || !reading.can_go_on() {
            return;
        }
        let free = reading.checkpoint.place.free_bytes();
        let is_writing = |coins: &&LostCoinsRepair| coins.wants_blocks();
        let has_room = |coins: &LostCoinsRepair| free >= coins.room();
        let written = match reading.coins.as_ref().filter(is_writing).is_none_or(has_room) {
            true => self.write(reading),
            false => {
                log::warn!(
                    "Repair: too little disk space to save progress. What is read from now on is read again if the \
                     repair is interrupted."
                );
                reading.checkpoint.is_off = true;
                return;
            }
        };
        let checkpoint = &mut reading.checkpoint;
        (checkpoint.written_at, checkpoint.read) = (checkpoint.clock.now(), 0);
        match written {
            Ok(bytes) => checkpoint.bytes = bytes,
            Err(error) => {
                log::warn!("Repair: progress is no longer saved: {error}");
                checkpoint.is_off = true;
                checkpoint.place.abandon();
            }
        }
    }

    fn write(&self, reading: &Reading) -> Result<u64, StoreError> {
        let mut out = reading.checkpoint.place.begin()?;
        out.write(&[u8::from(self.by_height)])?;
        out.write_u64(self.stored.len() as u64)?;
        out.write(&self.list)?;
        out.write(&[code(reading.stage)])?;
        out.write_u64(reading.next as u64)?;
        write_places(&mut out, &reading.suspects)?;
        write_places(&mut out, &reading.hopeless)?;
        out.write(reading.round.line.as_bytes())?;
        write_places(&mut out, &reading.round.places)?;
        let found = || reading.wanted.iter().filter_map(|(at, coin)| Some((at, coin.as_ref()?)));
        out.write_u64(found().count() as u64)?;
        found().try_for_each(|(outpoint, coin)| write_coin(&mut out, outpoint, coin))?;
        let coins = reading.coins.as_ref().filter(|coins| coins.wants_blocks());
        out.write(&[u8::from(coins.is_some())])?;
        if let Some(coins) = coins {
            coins.save(&mut out)?;
        }
        out.finish()
    }

    /// Takes up what an interrupted repair has left, if there is something, and it fits; how many blocks it
    /// has checked.
    pub(super) fn take_up(
        &self,
        reading: &mut Reading,
        watch: &mut dyn Watch,
    ) -> Result<Option<u64>, ChainError> {
        let Some(mut from) = reading.saved.take() else { return Ok(None) };
        let saved = self.read_saved(&mut from);
        let coins = match saved {
            Some(Saved { has_coins: true, .. }) if reading.wants_blocks() => {
                reading.coins.as_mut().map(|coins| coins.load(&mut from)).transpose()?.flatten()
            }
            _ => None,
        };
        let fits = coins.is_some() || !reading.wants_blocks();
        let Some(saved) = saved.filter(|_| fits && from.finish().is_some()) else {
            let line = "Repair: begins anew, since the one that was interrupted read for something else, or of \
                        other blocks.";
            note(watch, line);
            return Ok(None);
        };
        note(watch, &self.go_on(reading, saved, coins));
        let checked = if reading.is_checking() { reading.next } else { self.stored.len() };
        Ok(Some(checked as u64))
    }

    /// Returns where it does.
    fn go_on(&self, reading: &mut Reading, saved: Saved, coins: Option<SavedCoins>) -> String {
        let Saved { stage, next, suspects, hopeless, round, found, .. } = saved;
        (reading.stage, reading.next, reading.round) = (stage, next, round);
        (reading.suspects, reading.hopeless) = (suspects, hopeless);
        reading.wanted = found;
        if let (Some(repair), Some(saved)) = (&mut reading.coins, coins) {
            repair.go_on(saved);
        }
        let (done, total) = (bytes(&self.stored[..next]), bytes(&self.stored));
        let place = match self.stored.get(next).filter(|_| self.by_height) {
            Some(block) => format!(" at height {}", block.height),
            None => String::new(),
        };
        format!("Repair: goes on{place}; {done} of {total} bytes of this reading were read before.")
    }

    /// What a checkpoint has behind the order of the list; `None` if it is neither of this list nor of its
    /// beginning. What a node has stored since then is to be checked too.
    fn read_saved(&self, from: &mut CheckpointReader) -> Option<Saved> {
        let count =
            usize::try_from(from.u64()?).ok().filter(|count| *count <= self.stored.len())?;
        let (list, stored): ([u8; 32], _) = (from.array()?, &self.stored[..count]);
        let has_grown = count < self.stored.len();
        if self.stored.len() - count > MOST_NEW {
            return None;
        }
        let is_beginning = list == if has_grown { list_hash(stored) } else { self.list };
        if !is_beginning {
            return None;
        }
        let [stage] = from.array()?;
        let next = usize::try_from(from.u64()?).ok().filter(|next| *next <= count)?;
        let suspects = read_places(from, count)?;
        let hopeless = read_places(from, count)?;
        let line = BlockHash::from_bytes(from.array()?);
        let round = Round { line, places: read_places(from, count)? };
        let found = (0..from.u64()?).map(|_| read_coin(from)).collect::<Option<Wanted>>()?;
        let [has_coins] = from.array()?;
        let has_coins = has_coins == 1;
        let stage = [Stage::Blocks, Stage::Undo, Stage::LostCoins]
            .into_iter()
            .find(|known| code(*known) == stage)?;
        let saved = Saved { stage, next, suspects, hopeless, round, found, has_coins };
        match has_grown && stage != Stage::Blocks {
            // What was gathered on the way would lack the rest of that reading.
            true if has_coins => None,
            true => {
                let (round, found) = (Round::default(), Wanted::new());
                let hopeless = BTreeSet::new();
                Some(Saved { stage: Stage::Blocks, next: count, round, found, hopeless, ..saved })
            }
            false if has_grown => Some(Saved { hopeless: BTreeSet::new(), ..saved }),
            false => Some(saved),
        }
    }
}

/// Blocks that may have been stored since a checkpoint that is gone on from, a week's at the tip: what was
/// right when it was read is told to be right, which says less the longer ago it was. With any of them, a
/// node has run, so that what could not be made again is tried again: it may have fetched the block that
/// was missing.
const MOST_NEW: usize = 1_008;

/// What tells a list of blocks from any other.
pub(super) fn list_hash(stored: &[StoredBlock]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for StoredBlock { hash: block, position, undo, .. } in stored {
        hash.update(block.as_bytes());
        let place = [position.file, position.offset, position.len];
        place.iter().for_each(|n| hash.update(&n.to_le_bytes()));
        let undo = undo.map_or([0; 2], |undo| [undo.offset, undo.len.into()]);
        undo.iter().for_each(|n| hash.update(&n.to_le_bytes()));
    }
    hash.finalize()
}

/// Bytes of blocks.
pub(super) fn bytes(blocks: &[StoredBlock]) -> u64 {
    blocks.iter().map(|block| u64::from(block.position.len)).sum()
}

/// A stage in a checkpoint.
fn code(stage: Stage) -> u8 {
    match stage {
        Stage::Blocks => 0,
        Stage::Undo => 1,
        Stage::LostCoins => 2,
        Stage::Runs | Stage::Coins | Stage::Culprits => {
            unreachable!("nothing of it is written down")
        }
    }
}

fn write_places(out: &mut CheckpointWriter, places: &BTreeSet<usize>) -> Result<(), StoreError> {
    out.write_u64(places.len() as u64)?;
    places.iter().try_for_each(|place| out.write_u64(*place as u64))
}

/// Places in a list of so many blocks.
fn read_places(from: &mut CheckpointReader, blocks: usize) -> Option<BTreeSet<usize>> {
    let place = |place: u64| usize::try_from(place).ok().filter(|n| *n < blocks);
    (0..from.u64()?).map(|_| place(from.u64()?)).collect()
}

fn write_coin(
    out: &mut CheckpointWriter,
    outpoint: &OutPoint,
    coin: &Coin,
) -> Result<(), StoreError> {
    out.write(outpoint.txid.as_bytes())?;
    out.write_u64(outpoint.vout.into())?;
    out.write_coin(coin)
}

fn read_coin(from: &mut CheckpointReader) -> Option<(OutPoint, Option<Coin>)> {
    let (txid, vout) = (Txid::from_bytes(from.array()?), u32::try_from(from.u64()?).ok()?);
    Some((OutPoint { txid, vout }, Some(from.coin()?)))
}
