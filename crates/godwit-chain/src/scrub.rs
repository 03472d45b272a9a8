//! The scrub: reads everything that is stored and compares it with what was written, while there is nothing
//! else to do, so that damage is found while there is still something to repair it from.
//!
//! 1. A pass reads, in this order: control files and database; blocks with their undo records, by
//!    height; the runs of coins and their parity, by number. It begins at most once in [`PASS_INTERVAL`].
//! 2. One job at a time reads a part, and rests behind it until the pass has taken as long as
//!    [`SCRUB_BYTES_PER_SECOND`] would. It starts only while the tip is the best block that is known and
//!    no older than a day, nothing is on its way to it, and neither coins nor a commit are being written.
//! 3. Its place is saved with the commits that are due anyway, so that after a restart it resumes there or a
//!    little before.
//! 4. What it finds goes the way of what others find: a block of coins is repaired when it is read, a
//!    block is lost ([`Event::Lost`](crate::Event::Lost)), parity, control files and `xor.dat` are written
//!    again. The coins of undo records are searched for at the end of the pass ([`undo`]), as slowly.
//!    The rest is told, and ends nothing: the next reader of what is damaged finds out.
//! 5. What is pruned or merged away meanwhile is not there any more, which is no damage. A run that a
//!    merge has replaced is not read, though until the next commit of coins a restart may need it, and
//!    repair it then.

mod blocks;
mod undo;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_store::error::Remedy;
use godwit_store::exec::Priority;
use godwit_store::inspect::Found;
use godwit_store::utxo::{RunScrub, Scrubbed, UtxoStore};
use godwit_store::{FilesScrubbed, ScrubPass, ScrubPlace, StoreError, undo_remedy};

use crate::environment::Environment;
use crate::index::{BlockIndex, Body};
use crate::job_sender::JobSender;
use crate::limits::{MAX_TIP_AGE, SCRUB_BATCH, SCRUB_LOST, SCRUB_ROTTEN};
use crate::own_block::ReadError;
use crate::reads::StoredBlock;
use crate::tree::NodeId;
use blocks::{CheckedBlock, Wanted};
use undo::{LostRecords, RottenUndo, Search, Searched};

/// Bytes that the scrub reads in a second, taken over minutes: what a disk does not notice. The 800 GB of the
/// main network take five days.
pub const SCRUB_BYTES_PER_SECOND: u64 = 2 << 20;

/// Seconds from the beginning of a pass to that of the next one, at least.
const PASS_INTERVAL: u64 = 30 * 24 * 60 * 60;

/// How often a pass begins to read the database, and seconds until the next time: a commit that is due does
/// not wait for it.
const FILES_ATTEMPTS: u32 = 8;
const FILES_REST: u64 = 60;

/// Seconds for the searches of a pass: the 800 GB of the main network are looked through once.
const UNDO_INTERVAL: u64 = 7 * 24 * 60 * 60;

/// Headers that are looked at in one turn, for those whose blocks are stored.
const LOOKED_AT: u32 = 1024;

/// How far the scrub is, and what it did since the chain was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// What is read next; `None` where there is no scrub, and before the first pass.
    pub pass: Option<ScrubPass>,
    /// Bytes that were read.
    pub bytes: u64,
    /// Damages that were repaired from what is stored.
    pub repaired: u64,
    /// Blocks that are asked of peers, because they are damaged.
    pub lost: u64,
    /// Damaged items that are not repaired.
    pub left: u64,
}

/// What a job has found.
pub(crate) enum Answer {
    Files(Result<FilesScrubbed, StoreError>),
    /// With what is read next.
    Blocks(Vec<CheckedBlock>, ScrubPlace),
    Run(Box<RunScrub>, Result<Scrubbed, StoreError>),
    Undo(Box<Search>, Result<Searched, ReadError>),
}

/// See the module's documentation.
pub(crate) struct Scrub {
    is_on: bool,
    /// Bytes in a second.
    rate: u64,
    pass: ScrubPass,
    /// What the last commit says of it.
    stored: ScrubPass,
    /// The place of the next block in the tree, once it was looked for.
    next: Option<u32>,
    /// As many blocks are lost as may be: no more are read.
    is_full: bool,
    /// The run that is being read.
    run: Option<Box<RunScrub>>,
    undo: LostRecords,
    /// Ends the job that reads control files and database.
    files_stop: Arc<AtomicBool>,
    /// How often it was ended in this pass.
    files_stopped: u32,
    /// A job reads.
    reading: bool,
    /// When the last job began, in seconds since 1970, and for how many seconds none follows it.
    rest: (i64, u64),
    status: ScrubStatus,
    job_sender: JobSender<Answer>,
}

impl Scrub {
    /// `rate` is in bytes a second; `None` for no scrub. `begun` is the pass that the last commit names.
    pub(crate) fn new(
        rate: Option<u64>,
        begun: Option<ScrubPass>,
        job_sender: JobSender<Answer>,
    ) -> Self {
        if let Some(pass) = begun.filter(|pass| pass.place != ScrubPlace::Done) {
            log::info!("The scrub goes on where it was, with {}.", pass.place);
        }
        let none = ScrubPass { began: i64::MIN, place: ScrubPlace::Done };
        Self {
            is_on: rate.is_some(),
            rate: rate.unwrap_or(SCRUB_BYTES_PER_SECOND),
            pass: begun.unwrap_or(none),
            stored: begun.unwrap_or(none),
            next: None,
            is_full: false,
            run: None,
            undo: LostRecords::default(),
            files_stop: Arc::default(),
            files_stopped: 0,
            reading: false,
            rest: (i64::MIN, 0),
            status: ScrubStatus { pass: begun, ..ScrubStatus::default() },
            job_sender,
        }
    }

    pub(crate) fn status(&self) -> ScrubStatus {
        self.status
    }

    /// Whether a job reads control files and database.
    pub(crate) fn reads_files(&self) -> bool {
        self.reading && self.pass.place == ScrubPlace::Files
    }

    /// Ends that job soon, if there is one: a commit is due, or the chain ends.
    pub(crate) fn stop_files(&self) {
        self.files_stop.store(true, Ordering::Relaxed);
    }

    /// What the commit that is being put together is to say; `None` where the last one says it.
    pub(crate) fn take_place(&mut self, index: &BlockIndex) -> Option<ScrubPass> {
        if self.pass.began == i64::MIN {
            return None;
        }
        let pass = ScrubPass { place: self.place_to_begin_at(index), ..self.pass };
        let before = std::mem::replace(&mut self.stored, pass);
        (pass != before).then_some(pass)
    }

    /// Where the next life begins: what is known to be damaged, and not repaired yet, is known in memory
    /// only, and has to be found again.
    fn place_to_begin_at(&self, index: &BlockIndex) -> ScrubPlace {
        let damaged = self.undo.rotten.iter().chain(index.damaged.lost());
        let lowest = damaged.map(|id| index.height(*id)).min();
        match (self.pass.place, lowest) {
            (ScrubPlace::Files, _) | (_, None) => self.pass.place,
            (ScrubPlace::Blocks { height }, Some(lowest)) => {
                ScrubPlace::Blocks { height: height.min(lowest) }
            }
            (_, Some(lowest)) => ScrubPlace::Blocks { height: lowest },
        }
    }

    fn move_to(&mut self, place: ScrubPlace) {
        self.pass.place = place;
        self.status.pass = Some(self.pass);
    }

    /// Starts the next job, if it is time; `settled`: everything is committed. `now` is in seconds since
    /// 1970.
    pub(crate) fn advance(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        coins: &UtxoStore,
        now: i64,
        settled: bool,
    ) {
        let rests = now.abs_diff(self.rest.0) < self.rest.1;
        if !self.is_on || self.reading || rests || !is_synced(env, index, now) {
            return;
        }
        let memory = coins.memory_used();
        if memory.flushing > 0 || memory.buffers > 0 {
            return;
        }
        match self.pass.place {
            ScrubPlace::Done if now.abs_diff(self.pass.began) < PASS_INTERVAL => {}
            ScrubPlace::Done => self.begin(now),
            ScrubPlace::Files if settled => self.read_files(env, now),
            // The next commit comes soon, and would wait for it.
            ScrubPlace::Files => {}
            ScrubPlace::Blocks { height } => self.read_blocks(env, index, now, height),
            ScrubPlace::Runs { number } => self.read_run(env, coins, now, number),
            ScrubPlace::Undo => self.search(env, index, now),
        }
    }

    fn begin(&mut self, now: i64) {
        let rate = self.rate >> 10;
        log::info!("The scrub reads everything that is stored, {rate} KiB in a second.");
        self.pass.began = now;
        self.undo = LostRecords::default();
        self.move_to(ScrubPlace::Files);
    }

    fn run_job(&mut self, now: i64, job: impl FnOnce() -> Answer + Send + 'static) {
        (self.reading, self.rest) = (true, (now, 1));
        self.job_sender.run(Priority::Urgent, "scrub", job);
    }

    /// So many bytes were read since the last job began.
    fn note_read(&mut self, bytes: u64) {
        self.status.bytes += bytes;
        self.rest.1 = bytes.div_ceil(self.rate).max(1);
    }

    fn tell(&mut self, found: &Found) {
        match found.remedy {
            Remedy::Done => {
                log::warn!("Scrub: {found}.");
                self.status.repaired += 1;
            }
            _ => {
                log::error!("Scrub: {found}.");
                self.status.left += 1;
            }
        }
    }

    fn read_files(&mut self, env: &Environment, now: i64) {
        let (env, stop) = (env.clone(), Arc::new(AtomicBool::new(false)));
        self.files_stop = Arc::clone(&stop);
        self.run_job(now, move || Answer::Files(env.store.scrub_files(&stop)));
    }

    fn read_blocks(&mut self, env: &Environment, index: &BlockIndex, now: i64, height: u32) {
        let room = SCRUB_LOST.saturating_sub(index.damaged.lost().len());
        let was_full = std::mem::replace(&mut self.is_full, room == 0);
        if self.is_full {
            if !was_full {
                log::error!(
                    "Scrub: {SCRUB_LOST} damaged blocks are asked of peers; it goes on as they come."
                );
            }
            return;
        }
        let tree = index.tree();
        let mut next = self.next.unwrap_or_else(|| first_at(index, height));
        let (mut wanted, mut bytes, end) = (Vec::new(), 0, tree.len() as u32);
        let looked_at = end.min(next.saturating_add(LOOKED_AT));
        while next < looked_at && bytes < SCRUB_BATCH.min(self.rate) && wanted.len() < room {
            let id = tree.at(next);
            next += 1;
            let Body::Stored(position) = Body::of(index, id) else { continue };
            let node = index.node(id);
            let undo = node.undo.filter(|_| !index.damaged.has_rotted_undo(id));
            bytes += u64::from(position.len) + undo.map_or(0, |undo| undo.len.into());
            let (block, prev) =
                (StoredBlock::new(&env.params, id, &node, position), node.header.prev_blockhash);
            wanted.push(Wanted { id, block, prev, undo });
        }
        self.next = Some(next).filter(|_| next < end);
        let place = match self.next {
            Some(next) => ScrubPlace::Blocks { height: index.height(tree.at(next)) },
            None => ScrubPlace::Runs { number: 0 },
        };
        if wanted.is_empty() {
            return self.move_to(place);
        }
        let env = env.clone();
        self.run_job(now, move || {
            let goes_on = |_: &Wanted| !env.cancelled.load(Ordering::Relaxed);
            let wanted = wanted.into_iter().take_while(goes_on);
            Answer::Blocks(wanted.map(|wanted| wanted.check(&env)).collect(), place)
        });
    }

    fn read_run(&mut self, env: &Environment, coins: &UtxoStore, now: i64, number: u64) {
        let layers = coins.layers();
        let run = self.run.take().or_else(|| layers.scrub_from(number).map(Box::new));
        let Some(mut run) = run else { return self.move_to(ScrubPlace::Undo) };
        let env = env.clone();
        self.run_job(now, move || {
            let step = run.step(&layers, env.store.coins_remedy(), &env.cancelled);
            Answer::Run(run, step)
        });
    }

    /// Searches on for the coins of rotten undo records, or ends the pass where there are none.
    fn search(&mut self, env: &Environment, index: &BlockIndex, now: i64) {
        if now.abs_diff(*self.undo.since.get_or_insert(now)) >= UNDO_INTERVAL {
            return self.end(env, index);
        }
        if let Some(id) = self.undo.waits_for {
            match Body::of(index, id) {
                _ if index.is_lost(id) => return,
                // Nobody fetches it.
                Body::Stored(_) if !index.damaged.was_rewritten(id) => return self.end(env, index),
                _ => self.undo.waits_for = None,
            }
        }
        let search = self.undo.search.take();
        let search = search.or_else(|| Search::begin(index, &mut self.undo.rotten).map(Box::new));
        let Some(mut search) = search else { return self.end(env, index) };
        let blocks = search.lost.next_blocks(index);
        // Below, one was pruned: what is complete is written.
        search.ends = blocks.is_empty();
        let env = env.clone();
        self.run_job(now, move || {
            let searched = search.go_on(&env, &blocks);
            Answer::Undo(search, searched)
        });
    }

    /// Tells what came of a search. What was pruned meanwhile, or has another record by now, is no damage.
    fn tell_searched(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        search: &Search,
        remedy: impl Fn(usize) -> Remedy,
    ) {
        for (n, rotten) in search.records.iter().enumerate() {
            self.undo.rotten.remove(&rotten.id);
            if rotten.is_of_use(index) {
                self.tell(&rotten.found(env, remedy(n)));
            }
        }
    }

    fn end(&mut self, env: &Environment, index: &BlockIndex) {
        let is_of_use = |id: &&NodeId| RottenUndo::of(index, **id).is_some();
        let left = self.undo.rotten.iter().filter(is_of_use).count() as u64 + self.undo.dropped;
        if left > 0 {
            let how = match undo_remedy(&env.store) {
                Remedy::Repair => "`godwit verify -repair` makes them".to_owned(),
                remedy => remedy.to_string(),
            };
            log::error!(
                "Scrub: {left} damaged undo records were not made again in the time there is for that; {how}."
            );
        }
        self.status.left += left;
        self.undo = LostRecords::default();
        let ScrubStatus { bytes, repaired, lost, left, .. } = self.status;
        log::info!(
            "Scrub pass finished. Since the start: {} MiB read, {repaired} damaged items repaired, {lost} blocks \
             requested from peers, {left} still damaged.",
            bytes >> 20
        );
        self.move_to(ScrubPlace::Done);
    }

    /// A job has answered. Returns blocks whose bytes are damaged, and that are to be fetched.
    ///
    /// # Errors
    ///
    /// A fault that has closed the store.
    pub(crate) fn answered(
        &mut self,
        env: &Environment,
        index: &mut BlockIndex,
        answer: Answer,
    ) -> Result<Vec<NodeId>, StoreError> {
        self.reading = false;
        if env.cancelled.load(Ordering::Relaxed) {
            // The job may have been cut short: the next life reads its part again.
            return Ok(Vec::new());
        }
        match answer {
            Answer::Files(files) => self.note_files(env, files).map(|()| Vec::new()),
            Answer::Blocks(blocks, next) => {
                self.move_to(next);
                self.note_blocks(env, index, blocks)
            }
            Answer::Run(run, step) => self.note_run(env, run, step).map(|()| Vec::new()),
            Answer::Undo(search, searched) => self.note_searched(env, index, search, searched),
        }
    }

    fn note_files(
        &mut self,
        env: &Environment,
        files: Result<FilesScrubbed, StoreError>,
    ) -> Result<(), StoreError> {
        if let Some(FilesScrubbed { bytes, found, is_done }) = unless_closed(env, files)? {
            self.note_read(bytes);
            found.iter().for_each(|found| self.tell(found));
            if !is_done && self.files_stopped + 1 < FILES_ATTEMPTS {
                self.files_stopped += 1;
                self.rest.1 = FILES_REST;
                return Ok(());
            }
            if !is_done {
                log::warn!(
                    "Scrub: the database is not checked in this pass: commits came before it was read, \
                     {FILES_ATTEMPTS} times."
                );
            }
        }
        self.files_stopped = 0;
        self.next = None;
        self.move_to(ScrubPlace::Blocks { height: 0 });
        Ok(())
    }

    fn note_run(
        &mut self,
        env: &Environment,
        run: Box<RunScrub>,
        step: Result<Scrubbed, StoreError>,
    ) -> Result<(), StoreError> {
        let next = ScrubPlace::Runs { number: run.number() + 1 };
        let Some(step) = unless_closed(env, step)? else {
            self.move_to(next);
            return Ok(());
        };
        self.note_read(step.bytes);
        self.status.repaired += step.repaired;
        step.found.iter().for_each(|found| self.tell(found));
        match step.is_done {
            true => self.move_to(next),
            false => self.run = Some(run),
        }
        Ok(())
    }

    fn note_blocks(
        &mut self,
        env: &Environment,
        index: &mut BlockIndex,
        blocks: Vec<CheckedBlock>,
    ) -> Result<Vec<NodeId>, StoreError> {
        let (mut lost, mut bytes) = (Vec::new(), 0);
        for CheckedBlock { wanted, block, undo } in blocks {
            let Wanted { id, block: StoredBlock { position, .. }, undo: at, .. } = wanted;
            bytes += u64::from(position.len) + at.map_or(0, |at| u64::from(at.len));
            let node = index.node(id);
            // Otherwise it was pruned meanwhile.
            if node.position == Some(position) {
                match block {
                    Err(error) if error.is_rotten() => {
                        lost.extend(self.note_lost(index, id, &error))
                    }
                    block => match unless_closed(env, block)? {
                        Some(checksum) if node.checksum.is_none() => {
                            index.set_checksum(id, checksum)
                        }
                        _ => {}
                    },
                }
            }
            let is_of_use = |at| node.undo == Some(at) && index.tree().is_ancestor(id, index.tip());
            if at.is_some_and(is_of_use) {
                match undo {
                    Err(error) if error.is_rotten() => self.note_rotten(id, &error),
                    undo => {
                        unless_closed(env, undo)?;
                    }
                }
            }
        }
        self.note_read(bytes);
        Ok(lost)
    }

    /// A block is damaged; it, if it is to be fetched.
    fn note_lost(&mut self, index: &BlockIndex, id: NodeId, error: &StoreError) -> Option<NodeId> {
        let left = if index.damaged.was_rewritten(id) {
            Some("this place of the disk keeps nothing")
        } else if !index.tree().is_ancestor(id, index.tip()) {
            Some("the block is of a branch that was left, and not needed")
        } else {
            None
        };
        if let Some(why) = left {
            log::error!("Scrub: {error}; {why}.");
        }
        self.status.lost += u64::from(left.is_none());
        self.status.left += u64::from(left.is_some());
        left.is_none().then_some(id)
    }

    fn note_rotten(&mut self, id: NodeId, error: &StoreError) {
        if self.undo.rotten.len() >= SCRUB_ROTTEN {
            self.undo.dropped += 1;
            return;
        }
        log::error!("Scrub: {error}. This undo record is made again from the blocks.");
        self.undo.rotten.insert(id);
    }

    fn note_searched(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        search: Box<Search>,
        searched: Result<Searched, ReadError>,
    ) -> Result<Vec<NodeId>, StoreError> {
        let remedy = undo_remedy(&env.store);
        match searched {
            Ok(Searched { bytes, restored: None }) => {
                self.note_read(bytes);
                self.undo.search = Some(search);
            }
            Ok(Searched { bytes, restored: Some(restored) }) => {
                self.note_read(bytes);
                self.tell_searched(env, index, &search, |n| restored[n]);
            }
            Err(ReadError::Block(id)) => {
                if index.damaged.was_rewritten(id) {
                    self.tell_searched(env, index, &search, |_| remedy);
                    return Ok(Vec::new());
                }
                // When it is there again, the search begins anew.
                self.undo.waits_for = Some(id);
                self.status.lost += u64::from(!index.is_lost(id));
                return Ok(vec![id]);
            }
            Err(ReadError::Store(error)) => {
                unless_closed::<()>(env, Err(error))?;
                self.tell_searched(env, index, &search, |_| remedy);
            }
        }
        Ok(Vec::new())
    }
}

/// Whether the tip is the best block that is known, and a recent one.
fn is_synced(env: &Environment, index: &BlockIndex, now: i64) -> bool {
    let (tree, tip) = (index.tree(), index.tip());
    tip == tree.best_header()
        && tree.chain_work(tip) >= env.params.minimum_chain_work
        && i64::from(index.node(tip).header.time) >= now - MAX_TIP_AGE
}

/// The first header of that height, by its place in the tree: a database gives headers by height, and those
/// that came since follow them.
fn first_at(index: &BlockIndex, height: u32) -> u32 {
    let (mut first, mut end) = (0, index.tree().len() as u32);
    while first < end {
        let middle = first + (end - first) / 2;
        match index.height(index.tree().at(middle)) < height {
            true => first = middle + 1,
            false => end = middle,
        }
    }
    first
}

/// What was read. A read that failed, and says nothing of the place, is told: the next pass reads it again.
fn unless_closed<T>(
    env: &Environment,
    read: Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::Stopped) => Ok(None),
        Err(error) => {
            env.store.disk().check()?;
            log::error!("Scrub: {error}. It is read again in the next pass.");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
