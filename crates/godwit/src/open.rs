//! Opens the chain of a data directory.

use std::path::Path;
use std::sync::Arc;

use godwit_api::Server;
use godwit_chain::{
    Chain, ChainOptions, CoinWriting, Indexed, SCRUB_BYTES_PER_SECOND, StartOptions, replay_ahead,
    settle_until,
};
use godwit_store::disk::RealDisk;
use godwit_store::exec::Threads;
use godwit_store::{AssumedSnapshot, Rebuild};
use indicatif::MultiProgress;

use crate::descriptors;
use crate::failure::Failure;
use crate::memory::{self, MemoryPlan};
use crate::options::{Command, Config};
use crate::process::{StopFlag, random_bytes, seconds_since_1970};
use crate::progress::{AtRisk, Position, Progress, Stage};
use crate::service::StartStatus;

/// Tells whoever is not at the terminal what a start is doing.
pub(crate) type Says = Box<dyn Fn(&str) + Send>;

/// Tells programs that ask the server, and systemd.
pub(crate) fn says(server: Option<&Server>, status: &StartStatus) -> Says {
    let (programs, status) = (server.map(Server::starting), status.clone());
    Box::new(move |what| {
        if let Some(programs) = &programs {
            programs.say(what);
        }
        status.say(what);
    })
}

/// Options of a start that can take long and can be interrupted by the user.
pub(crate) fn start_options(
    config: &Config,
    bars: &MultiProgress,
    stop: &StopFlag,
    says: Option<Says>,
) -> StartOptions {
    let (bars, mut progress) = (bars.clone(), None);
    let indexed = move |Indexed { blocks, bytes, total }| {
        if let Some(says) = &says {
            says(&indexing(bytes, total));
        }
        let shown = progress.get_or_insert_with(|| Progress::start(&bars));
        shown.update(Position {
            stage: Stage::Indexing,
            blocks,
            bytes,
            done: bytes,
            total,
            at_risk: AtRisk::default(),
        });
        if bytes == total
            && let Some(shown) = progress.take()
        {
            shown.finish();
        }
    };
    let (rebuild, stop) = (config.rebuild, Arc::clone(stop.shared()));
    let validates_history = matches!(config.command, Command::Node(_));
    StartOptions { rebuild, stop, validates_history, indexed: Some(Box::new(indexed)) }
}

/// What programs that ask are told meanwhile.
fn indexing(bytes: u64, total: u64) -> String {
    match bytes.checked_mul(100).and_then(|hundredfold| hundredfold.checked_div(total)) {
        Some(percent) if bytes < total => format!("Indexing block files… ({percent}%)"),
        _ => "Loading block index…".to_owned(),
    }
}

/// Whether a chain was ever stored in a network's directory.
pub(crate) fn holds_chain(dir: &Path) -> bool {
    // A link to a disk that is not mounted is there.
    let is_there = |name: &&str| dir.join(name).symlink_metadata().is_ok();
    ["blocks", "utxo", "godwit.redb"].iter().any(is_there)
}

/// The purpose for which a chain is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// To run a node, which has time to look at what is at rest.
    Running,
    /// To connect blocks, and be done.
    Validating,
    /// For its coins: no block is deleted, whatever the configuration file says.
    Coins,
}

impl Purpose {
    fn of(command: &Command) -> Self {
        match command {
            Command::Node(_) => Self::Running,
            command if command.validates() => Self::Validating,
            _ => Self::Coins,
        }
    }
}

/// Opens the chain of the configured network, as its command wants it.
pub(crate) fn open_chain(
    config: &Config,
    workers: usize,
    stop_at_height: Option<u32>,
    start: StartOptions,
) -> Result<Chain, Failure> {
    open_for(Purpose::of(&config.command), config, workers, stop_at_height, start)
}

/// Opens the chain of the configured network.
fn open_for(
    purpose: Purpose,
    config: &Config,
    workers: usize,
    stop_at_height: Option<u32>,
    start: StartOptions,
) -> Result<Chain, Failure> {
    let memory = MemoryPlan::of(config, memory::available());
    log::info!("{memory}");
    let options = ChainOptions {
        assume_valid: config.params.assume_valid,
        scripts: config.scripts,
        stop_at_height,
        prune_bytes: config.prune_bytes.filter(|_| purpose != Purpose::Coins),
        block_memory: memory.blocks,
        scrub: (config.scrub && purpose == Purpose::Running).then_some(SCRUB_BYTES_PER_SECOND),
        coin_writing: CoinWriting { interval: config.flush_interval, ..CoinWriting::PRODUCT },
        start,
        ..ChainOptions::new(
            Arc::new(config.params.clone()),
            Arc::new(Threads::default()),
            workers,
            memory.coins,
        )
    };
    descriptors::raise_for_files();
    let key = random_bytes()?;
    let now = seconds_since_1970();
    let chain = Chain::open(Arc::new(RealDisk), config.network_dir(), options, key, now)?;
    if let Some(assumed) = chain.assumed() {
        log::warn!("{}", tell_assumed(assumed));
        if let Some(history) = godwit_chain::history(&chain) {
            log::info!(
                "The history below is validated in the background, from height {} on.",
                chain.tree().node(history.tip).height + 1
            );
        }
    }
    Ok(chain)
}

/// Tells what the coins of a snapshot are until its history is validated.
pub(crate) fn tell_assumed(assumed: &AssumedSnapshot) -> String {
    let height = assumed.base.height;
    format!(
        "The coins up to height {height} were loaded from a snapshot and are assumed, not validated."
    )
}

/// Opens the chain for its coins. Nothing is connected that was not verified before; what was, and has no
/// coins on disk (everything, behind a rebuild that was interrupted), is applied again. `None` where the user
/// says stop meanwhile.
pub(crate) fn open_coins(
    config: &Config,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Option<Chain>, Failure> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    // Whatever the node was started with that loads a snapshot between two runs.
    let (rebuild, validates_history) = (Rebuild::Nothing, false);
    let start =
        StartOptions { rebuild, validates_history, ..start_options(config, bars, stop, None) };
    let mut chain = open_for(Purpose::Coins, config, workers, None, start)?;
    chain.connect_known_only();
    let (total, mut progress) = (replay_ahead(&chain), Progress::start(bars));
    let is_settled = settle_until(&mut chain, stop.shared(), seconds_since_1970(), &mut |chain| {
        chain.take_events();
        let connected = chain.status().connected;
        progress.update(Position {
            stage: Stage::Height(chain.tip_point().height),
            blocks: connected.blocks,
            bytes: connected.bytes,
            done: connected.bytes,
            total: total.max(connected.bytes),
            at_risk: AtRisk::of(chain.status()),
        });
    })?;
    progress.finish();
    if is_settled {
        return Ok(Some(chain));
    }
    chain.close()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::indexing;

    #[test]
    fn programs_are_told_how_far_the_start_is() {
        assert_eq!(indexing(0, 200), "Indexing block files… (0%)");
        assert_eq!(indexing(199, 200), "Indexing block files… (99%)");
        assert_eq!(indexing(200, 200), "Loading block index…");
        assert_eq!(indexing(0, 0), "Loading block index…");
    }
}
