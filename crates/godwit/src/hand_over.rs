//! `godwit hand-over`: makes a data directory for Bitcoin Core, and tells what Core needs to start on it.
//! Also prevents the use of a directory whose files another program uses.

use std::fmt;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use godwit_chain::{CoinsMemory, PRUNE_ON_REQUEST};
use godwit_handover::{
    HANDED_OVER, HandOverError, HandedOver, LevelDbError, Plan, Settings, Step, check_apart,
};
use godwit_primitives::ReversedHex;
use godwit_primitives::network::{Deployment, Params};
use godwit_program::options::network_dir;
use godwit_program::print_text;
use godwit_store::disk::{Disk, RealDisk};
use godwit_store::error::DamagedPart;
use godwit_store::exec::{Executor, Threads};
use godwit_store::inspect::{Found, Inspection, Stage, Watch};
use godwit_store::utxo::{CoinsInspection, MIN_SORT_MEMORY};
use godwit_store::{ChainPoint, NetworkId};
use indicatif::MultiProgress;

use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::memory::{self, MemoryPlan};
use crate::open::{holds_chain, open_coins};
use crate::options::{Command, Config};
use crate::process::{self, StopFlag};
use crate::progress::{self, AtRisk, Position, Progress};

/// LevelDB's buffers and caches (`godwit-handover/src/leveldb.rs`), which the coins give way to.
const LEVELDB_BYTES: u64 = 80 << 20;
/// Smallest `-prune` of Core, in MiB.
const MIN_PRUNE_OF_CORE: u64 = 550;
const MIB: u64 = 1 << 20;

/// Files of the directory belong to a data directory of Bitcoin Core as well.
#[derive(Debug)]
struct WasHandedOver(PathBuf);

impl fmt::Display for WasHandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} was handed over to Bitcoin Core, which shares files of it; -handedover uses it nevertheless",
            self.0.display()
        )
    }
}

impl Fatal for WasHandedOver {
    fn exit(&self) -> Exit {
        Exit::DatadirUnusable
    }
}

/// Refuses a directory that was handed over, unless the command reads alone or the user insists.
pub(crate) fn check_source(config: &Config, dir: &Path) -> Result<(), Failure> {
    let only_reads = match &config.command {
        Command::HandOver { .. } => true,
        Command::Verify(options) => !options.repair,
        _ => false,
    };
    match only_reads || config.handed_over || !dir.join(HANDED_OVER).exists() {
        true => Ok(()),
        false => Err(WasHandedOver(dir.to_owned()).into()),
    }
}

pub(crate) fn run(
    config: &Config,
    to: &Path,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let dir = config.network_dir();
    if !holds_chain(&dir) {
        return Err(HandOverError::NothingStored(dir).into());
    }
    let to = path::absolute(to).map_err(|error| HandOverError::Io(to.to_owned(), error))?;
    let target = network_dir(&to, config.params.network);
    check_apart([&to, &target], [&config.datadir, &dir])?;
    let Some(ahead) = settle(config, bars, stop)? else { return stopped() };
    let mut source = Source::open(config, &dir)?;
    let (inspection, coins) = source.parts()?;
    let plan = Plan::new(inspection, coins, &config.params)?;
    let ChainPoint { hash, height } = plan.tip();
    if height == 0 {
        // A rebuild that was interrupted, or blocks that were fetched and not connected yet.
        return Err(HandOverError::NothingStored(dir).into());
    }
    if ahead > 0 {
        tell_ahead(ahead, height)?;
    }
    let text = format!(
        "Handing over block {hash} at height {height}: {} MiB of block and undo files will be shared, and up to \
         {} MiB are needed meanwhile.",
        plan.shared_bytes() / MIB,
        plan.needed_bytes().div_ceil(MIB)
    );
    log::info!("{text}");
    print_text(&text)?;
    let settings = Settings {
        params: &config.params,
        target: &target,
        key: process::random_bytes()?,
        memory: sort_memory(config),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        stop: stop.shared(),
    };
    let mut shown = Shown { bars, progress: None };
    let made = godwit_handover::hand_over(
        inspection,
        coins,
        &plan,
        &settings,
        &mut |step, done, total| {
            shown.update(step, done, total);
        },
    );
    shown.end();
    match made {
        Ok(handed_over) => {
            let text = summary(config, &to, &plan, &handed_over);
            log::info!("{text}");
            print_text(&text)?;
            Ok(Exit::Success)
        }
        Err(HandOverError::Stopped) => stopped(),
        Err(error) => Err(error.into()),
    }
}

/// Tells of so many bytes of blocks that are stored above the coins.
fn tell_ahead(bytes: u64, height: u32) -> Result<(), Failure> {
    let text = format!(
        "{} MiB of blocks above height {height} are stored and not connected: a sync or a rebuild has not come to its \
         end. Bitcoin Core will validate those by itself. To hand them over validated, let `godwit` connect them first.",
        bytes.div_ceil(MIB)
    );
    log::warn!("{text}");
    print_text(&text)?;
    Ok(())
}

fn stopped() -> Result<Exit, Failure> {
    print_text("Stopped. Nothing was handed over; the same command begins anew.")?;
    Ok(Exit::Interrupted)
}

/// Connects what an earlier process had verified and not written, and writes all coins. Returns the bytes of
/// blocks that are stored above; `None` where the user says stop meanwhile.
fn settle(config: &Config, bars: &MultiProgress, stop: &StopFlag) -> Result<Option<u64>, Failure> {
    let Some(mut chain) = open_coins(config, bars, stop)? else { return Ok(None) };
    chain.flush()?;
    let ahead = chain.stored_ahead(u32::MAX);
    chain.close()?;
    Ok(Some(ahead))
}

fn sort_memory(config: &Config) -> usize {
    let (CoinsMemory::Fixed(bytes) | CoinsMemory::BesideHeaders(bytes)) =
        MemoryPlan::of(config, memory::available()).coins;
    usize::try_from(bytes.saturating_sub(LEVELDB_BYTES)).unwrap_or(usize::MAX).max(MIN_SORT_MEMORY)
}

/// The directory at rest.
struct Source {
    inspection: Inspection,
    coins: Option<CoinsInspection>,
}

impl Source {
    fn open(config: &Config, dir: &Path) -> Result<Self, Failure> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let params = &config.params;
        let network = NetworkId { magic: params.magic, genesis: params.genesis_hash.to_bytes() };
        let mut first = FirstDamage(None);
        let inspection = Inspection::open(disk, dir, network, false, &mut first)?;
        if let Some(found) = first.0 {
            return Err(HandOverError::from(found).into());
        }
        let executor: Arc<dyn Executor> = Arc::new(Threads::default());
        let coins = inspection.coins(&executor)?;
        Ok(Self { inspection, coins })
    }

    fn parts(&mut self) -> Result<(&Inspection, &CoinsInspection), HandOverError> {
        match &self.coins {
            Some(coins) => Ok((&self.inspection, coins)),
            None => Err(HandOverError::NothingStored(self.inspection.dir().to_owned())),
        }
    }
}

struct FirstDamage(Option<Found>);

impl Watch for FirstDamage {
    fn found(&mut self, found: Found) {
        self.0.get_or_insert(found);
    }

    fn progress(&mut self, _: Stage, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

struct Shown<'a> {
    bars: &'a MultiProgress,
    /// Each step has its own, so that its speed is not that of another.
    progress: Option<(Step, Progress)>,
}

impl Shown<'_> {
    fn update(&mut self, step: Step, done: u64, total: u64) {
        if self.progress.as_ref().is_none_or(|(shown, _)| *shown != step) {
            self.end();
            log::info!("Hand-over: {}.", name(step));
        }
        let (_, progress) = self.progress.get_or_insert_with(|| (step, Progress::start(self.bars)));
        progress.update(Position {
            stage: progress::Stage::HandingOver(name(step)),
            blocks: 0,
            bytes: 0,
            done,
            total: total.max(done),
            at_risk: AtRisk::default(),
        });
    }

    fn end(&mut self) {
        if let Some((_, progress)) = self.progress.take() {
            progress.finish();
        }
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Files => "files of blocks and undo records",
        Step::Index => "block index",
        Step::Sort => "sorting coins",
        Step::Coins => "writing coins",
        Step::ReadBack => "reading coins back",
    }
}

/// The summary for the user: what was made, how to start Core on it, what Core takes for granted there, and
/// how to check that.
fn summary(config: &Config, to: &Path, plan: &Plan, handed_over: &HandedOver) -> String {
    let ChainPoint { hash, height } = plan.tip();
    let HandedOver { coins, muhash } = *handed_over;
    let options = core_options(config, plan);
    let validates = match plan.is_pruned() {
        true => "Validating everything anew needs the blocks that are not stored here any more.",
        false => {
            "`-reindex-chainstate -assumevalid=0` has it validate all blocks and scripts anew, and write the \
             coins anew."
        }
    };
    format!(
        "Done: block {hash} at height {height}, {coins} coins, MuHash {}.\n\
         Start Bitcoin Core 28 or later on it with: bitcoind -datadir={}{options}\n\
         It verifies none of this by itself: it takes blocks, undo records and coins as godwit has validated them. \
         `gettxoutsetinfo muhash` has to give the MuHash above; `verifychain 4 0` reads all blocks back. {validates}\n\
         Block and undo files are shared with {}. Delete that directory, or use it with -handedover.",
        ReversedHex(&muhash),
        quoted(to),
        config.network_dir().display()
    )
}

/// A path as a shell wants it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@,".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The options without which Core would refuse the directory, or see another network; each with a blank in
/// front.
fn core_options(config: &Config, plan: &Plan) -> String {
    let params = &config.params;
    let defaults = Params::new(params.network);
    let mut options = String::new();
    let mut add = |option: String| options.extend([" -", &option]);
    if params.network != godwit_primitives::Network::Main {
        add(format!("chain={}", params.network.name()));
    }
    if params.signet_challenge != defaults.signet_challenge
        && let Some(challenge) = &params.signet_challenge
    {
        let hex: String = challenge.iter().map(|byte| format!("{byte:02x}")).collect();
        add(format!("signetchallenge={hex}"));
    }
    for deployment in Deployment::ALL {
        let height = params.activation_height(deployment);
        if height != defaults.activation_height(deployment) {
            add(format!("testactivationheight={}@{height}", deployment.name()));
        }
    }
    if params.enforce_bip94 != defaults.enforce_bip94 {
        add("test=bip94".to_owned());
    }
    if plan.is_pruned() {
        add(format!("prune={}", core_prune(config.prune_bytes, plan.stored_bytes())));
    }
    options
}

/// The `-prune` with which Core keeps what it gets: it deletes files when it is within 17 MiB of its target,
/// at a start already. With 1 it deletes on request alone, as godwit does.
fn core_prune(configured: Option<u64>, stored: u64) -> u64 {
    if configured == Some(PRUNE_ON_REQUEST) {
        return 1;
    }
    let (configured, stored) = (configured.unwrap_or_default() / MIB, stored.div_ceil(MIB));
    (stored + stored.div_ceil(10)).max(configured).max(MIN_PRUNE_OF_CORE)
}

impl Fatal for HandOverError {
    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Io(_, error) => Exit::of_write(error, Exit::Failure),
            Self::NoSpace { .. } | Self::Database(_, LevelDbError::DiskFull) => Exit::DiskFull,
            Self::Damaged(_) | Self::ShortFile(_) | Self::Incomplete { .. } => Exit::Damaged,
            Self::NotEmpty(_)
            | Self::Started(_)
            | Self::NotApart { .. }
            | Self::NoDirectory(_)
            | Self::OtherFileSystem { .. }
            | Self::NothingStored(_) => Exit::Configuration,
            Self::Database(_, LevelDbError::Locked) => Exit::DatadirUnusable,
            Self::Stopped => Exit::Interrupted,
            Self::ThreadPanicked => Exit::Bug,
            Self::Database(..)
            | Self::Assumed(_)
            | Self::BeyondReach(_)
            | Self::ReadBack(_)
            | Self::InFlush(_)
            | Self::NoBestBlock(_)
            | Self::BadRecord(_)
            | Self::Spawn(_) => Exit::Failure,
        }
    }

    fn damaged(&self) -> Option<DamagedPart> {
        match self {
            Self::Store(error) => error.damaged(),
            _ => None,
        }
    }

    fn unusable(&self) -> Option<&Path> {
        match self {
            Self::Store(error) => error.unusable(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_prunes_nothing_of_what_it_gets() {
        assert_eq!(core_prune(None, 0), 550);
        assert_eq!(core_prune(Some(PRUNE_ON_REQUEST), 1000 * MIB), 1);
        assert_eq!(core_prune(None, 500 * MIB), 550);
        assert_eq!(core_prune(None, 500 * MIB + 1), 552);
        assert_eq!(core_prune(Some(600 * MIB), 500 * MIB + 1), 600);
        assert_eq!(core_prune(Some(600 * MIB), 1000 * MIB), 1100);
    }
}
