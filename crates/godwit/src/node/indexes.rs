//! The threads of the optional indexes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use godwit_api::Seam;
use godwit_chain::{
    Chain, deletes_blocks, end_of_deleted, keep_above, lacks_history_alone, left_blocks,
    lowest_for_indexes, starts_over,
};
use godwit_index::{
    CoinStatsIndexWriter, FilterIndexWriter, Follower, INDEXES_DIR, Index, IndexError, Indexes,
    Outcome, TxIndexWriter, next, resumes_above,
};
use godwit_store::disk::{RealDisk, StoreDisk};

use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::options::Config;
use crate::process::random_bytes;

/// Before a block that cannot be read is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// So many times longer before what nothing fetches again is.
const LONG_RETRIES: u32 = 60;

/// The indexes that were opened.
pub(super) struct Opened {
    transactions: Option<TxIndexWriter>,
    filters: Option<FilterIndexWriter>,
    coin_stats: Option<CoinStatsIndexWriter>,
}

/// What to do with an existing index.
#[derive(Clone, Copy)]
enum Contents {
    Kept,
    /// With `-reindex` it is built again, as in Core. An interrupted one ends before indexes are opened: then
    /// the start that goes on with it has it built again.
    Cleared,
}

/// Why an index cannot read the blocks below a height.
#[derive(Clone, Copy, Debug)]
enum Absence {
    Deleted(u32),
    /// They belong to the history below a snapshot, which is not validated. With `-prune` no index waits for
    /// it, but none of them needs to be deleted.
    Unvalidated(u32),
}

impl Absence {
    /// Of blocks that an index at `height` has not read.
    fn above(chain: &Chain, height: u32) -> Self {
        let lowest = lowest_for_indexes(chain);
        match lacks_history_alone(chain, height) {
            true => Self::Unvalidated(lowest),
            false => Self::Deleted(lowest),
        }
    }

    fn below(self) -> u32 {
        let (Self::Deleted(height) | Self::Unvalidated(height)) = self;
        height
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Deleted(_) => "leave it out, or download the chain again (-reindex)",
            Self::Unvalidated(_) => "leave out -prune until it is, or the index",
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted(_) => f.write_str("are deleted"),
            Self::Unvalidated(_) => {
                f.write_str("are of a snapshot's history, which is not validated yet")
            }
        }
    }
}

/// An index that cannot be opened is left out: the node runs without it. Fails where it is damaged and cannot
/// be built again, since blocks are `absent`, and where the node `deletes` blocks that it has not read.
fn opened<I: Index>(
    contents: Contents,
    absent: Absence,
    deletes: bool,
    open: impl FnOnce(u32) -> Result<I, IndexError>,
) -> Result<Option<I>, Failure> {
    let lowest = match contents {
        Contents::Kept => absent.below(),
        Contents::Cleared => 0,
    };
    let cleared = |mut index: I| {
        match contents {
            Contents::Kept => {}
            Contents::Cleared => index.clear()?,
        }
        Ok(index)
    };
    match open(lowest).and_then(cleared) {
        Ok(index) => Ok(Some(index)),
        Err(error) if error.is_damage() && lowest > 0 => {
            Err(BeyondRebuild { name: I::NAME, error, absent }.into())
        }
        Err(error) if deletes => Err(LeftOut { name: I::NAME, error }.into()),
        Err(error) => {
            log::error!("The {} is off: {error}", I::NAME);
            Ok(None)
        }
    }
}

/// An index that is damaged, while blocks are absent that it would be built again from.
#[derive(Debug)]
struct BeyondRebuild {
    name: &'static str,
    error: IndexError,
    absent: Absence,
}

impl fmt::Display for BeyondRebuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, error, absent } = self;
        write!(
            f,
            "the {name} is damaged ({error}), and blocks below height {}, which it would be built again from, \
             {absent}: {}",
            absent.below(),
            absent.remedy()
        )
    }
}

impl Fatal for BeyondRebuild {
    fn exit(&self) -> Exit {
        Exit::Damaged
    }
}

/// An index that cannot go on: blocks are absent that it has not read.
#[derive(Debug)]
struct BehindAbsent {
    name: &'static str,
    height: u32,
    absent: Absence,
}

/// An index that cannot be opened, while blocks that it has not read might be deleted.
#[derive(Debug)]
struct LeftOut {
    name: &'static str,
    error: IndexError,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, error } = self;
        write!(
            f,
            "the {name} cannot be opened ({error}), and blocks would be deleted that it has not read: leave it out, \
             or -prune"
        )
    }
}

impl Fatal for LeftOut {
    fn exit(&self) -> Exit {
        Exit::Configuration
    }

    fn unusable(&self) -> Option<&Path> {
        match &self.error {
            IndexError::Store(error) => error.unusable_path(),
            _ => None,
        }
    }
}

impl fmt::Display for BehindAbsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, height, absent } = self;
        write!(
            f,
            "the {name} has come to height {height}, and blocks below height {} {absent}: {}",
            absent.below(),
            absent.remedy()
        )
    }
}

impl Fatal for BehindAbsent {
    fn exit(&self) -> Exit {
        Exit::Configuration
    }
}

/// Has the blocks kept that an index has not read. Fails where it cannot read them: because they are deleted,
/// by this node or an earlier one, or where this one deletes blocks and does not have these yet.
fn keep<I: Index>(chain: &mut Chain, index: Option<&I>) -> Result<(), Failure> {
    let Some(index) = index else { return Ok(()) };
    let resumes = resumes_above(chain, &index.position());
    let height = resumes.map_or(index.durable_height(), |above| above.min(index.durable_height()));
    let deleted = end_of_deleted(chain, height).map(Absence::Deleted);
    let is_behind = deletes_blocks(chain) && height + 1 < lowest_for_indexes(chain);
    if let Some(absent) = deleted.or_else(|| is_behind.then(|| Absence::above(chain, height))) {
        return Err(BehindAbsent { name: I::NAME, height, absent }.into());
    }
    keep_above(chain, I::NAME, Some(height));
    Ok(())
}

/// Lets an index follow the chain on a thread of its own.
fn spawn<I: Index + Send + 'static>(index: I, seam: &Seam) -> Option<JoinHandle<()>> {
    let thread = thread::Builder::new().name("godwit-index".to_owned());
    let of_thread = seam.clone();
    let spawned = thread.spawn(move || run(index, &of_thread));
    let failed = |error| {
        log::error!("The {} is off: {error}", I::NAME);
        give_up::<I>(seam);
    };
    spawned.map_err(failed).ok()
}

impl Opened {
    /// Opens those that the options name.
    pub(super) fn open(config: &Config, chain: &mut Chain) -> Result<Self, Failure> {
        let disk = StoreDisk::new(Arc::new(RealDisk));
        let dir = config.network_dir().join(INDEXES_DIR);
        let (genesis, secret) = (chain.params().genesis_hash, random_bytes()?);
        let wanted = config.indexes;
        let contents = match starts_over(chain) {
            true => Contents::Cleared,
            false => Contents::Kept,
        };
        let (params, absent, deletes) =
            (chain.params(), Absence::above(chain, 0), deletes_blocks(chain));
        // It is cleared where it is damaged; if blocks are deleted that it then needs, `keep` says so.
        let none = Absence::Deleted(0);
        let transactions =
            || opened(contents, none, false, |_| TxIndexWriter::open(&disk, &dir, genesis, secret));
        let open_filters = |low| FilterIndexWriter::open(&disk, &dir, genesis, low);
        let filters = || opened(contents, absent, deletes, open_filters);
        let open_coin_stats = |low| CoinStatsIndexWriter::open(&disk, &dir, params, low);
        let coin_stats = || opened(contents, absent, deletes, open_coin_stats);
        let opened = Self {
            transactions: wanted.transactions.then(transactions).transpose()?.flatten(),
            filters: wanted.filters.then(filters).transpose()?.flatten(),
            coin_stats: wanted.coin_stats.then(coin_stats).transpose()?.flatten(),
        };
        // Before any block is deleted.
        keep(chain, opened.transactions.as_ref())?;
        keep(chain, opened.filters.as_ref())?;
        keep(chain, opened.coin_stats.as_ref())?;
        Ok(opened)
    }

    /// Their reading halves, for other threads.
    pub(super) fn readers(&self) -> Indexes {
        Indexes {
            transactions: self.transactions.as_ref().map(TxIndexWriter::reader),
            filters: self.filters.as_ref().map(FilterIndexWriter::reader),
            coin_stats: self.coin_stats.as_ref().map(CoinStatsIndexWriter::reader),
        }
    }

    /// Lets them follow the chain until the node ends.
    pub(super) fn start(self, seam: Option<&Seam>) -> RunningIndexes {
        let Some(seam) = seam else { return RunningIndexes(Vec::new()) };
        let transactions = self.transactions.and_then(|index| spawn(index, seam));
        let filters = self.filters.and_then(|index| spawn(index, seam));
        let coin_stats = self.coin_stats.and_then(|index| spawn(index, seam));
        RunningIndexes([transactions, filters, coin_stats].into_iter().flatten().collect())
    }
}

/// Waits in its end for the threads, which end when the node's side of the seam is gone.
pub(super) struct RunningIndexes(Vec<JoinHandle<()>>);

impl Drop for RunningIndexes {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A thread that panicked has ended the process.
            let (Ok(()) | Err(_)) = thread.join();
        }
    }
}

fn run<I: Index>(index: I, seam: &Seam) {
    let mut follower = Follower::new(index);
    let followed = follow(&mut follower, seam);
    if let Err(error) = followed.and_then(|()| follower.close()) {
        log::error!("The {} has stopped: {error}", I::NAME);
        give_up::<I>(seam);
    }
}

/// Blocks are not kept for ever for an index that cannot read them.
fn give_up<I: Index>(seam: &Seam) {
    let (Ok(()) | Err(_)) = seam.post(|node| node.keep_above(I::NAME, None));
}

/// Returns at the end of the node.
fn follow<I: Index>(follower: &mut Follower<I>, seam: &Seam) -> Result<(), IndexError> {
    let mut lacked_undo = false;
    loop {
        let (state, durable) = (follower.state(), follower.durable_height());
        let asked = seam.ask(move |node| {
            let step = next(node.chain(), &state);
            // Before the index forgets what it has.
            let back = step.goes_back_to();
            if back.is_some() || !lacked_undo {
                let height = back.map_or(durable, |back| back.min(durable));
                node.keep_above(I::NAME, Some(height));
            }
            (step, node.chain().tip_point(), left_blocks(node.chain()).count())
        });
        let Ok((step, tip, left)) = asked else { return Ok(()) };
        let outcome = follower.take(step, &|| seam.is_ending())?;
        // Blocks are kept for it again as soon as the record is not what it lacks.
        lacked_undo &= matches!(outcome, Outcome::LacksUndo);
        match outcome {
            Outcome::GoesOn => {}
            Outcome::Waits => seam.wait_for_move(tip.hash, left),
            Outcome::Unreadable(unreadable) => {
                if seam.post(move |node| node.note_unreadable(&unreadable)).is_err() {
                    return Ok(());
                }
                // It is fetched again, beside everything else.
                thread::sleep(RETRY_AFTER);
            }
            Outcome::StaysUnreadable => wait_long(seam),
            Outcome::LacksUndo => {
                if std::mem::replace(&mut lacked_undo, true) {
                    give_up::<I>(seam);
                }
                wait_long(seam);
            }
        }
    }
}

fn wait_long(seam: &Seam) {
    for _ in (0..LONG_RETRIES).take_while(|_| !seam.is_ending()) {
        thread::sleep(RETRY_AFTER);
    }
}
