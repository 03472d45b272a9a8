//! Builds the chain: its workers, its stations, and the channels of their messages.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::bounded;
use godwit_store::exec::{Priority, Workers};
use godwit_store::utxo::{UtxoHasher, UtxoStore};
use godwit_store::{ChainPoint, RecoveredBlock, Store};

use super::{Chain, Mailbox, Outbox};
use crate::appender::Appender;
use crate::durability::Durability;
use crate::durability::writing::Writing;
use crate::ending::Ending;
use crate::environment::{Environment, Memory};
use crate::error::ChainError;
use crate::event::Events;
use crate::goal::Goal;
use crate::history::{History, HistoryStations};
use crate::index::{BlockIndex, HistorySpan};
use crate::intake::Intake;
use crate::job_sender::JobSender;
use crate::limits::{INBOX_LIMIT, QUEUED_ALONE, QUEUED_JOBS};
use crate::lookahead::Lookahead;
use crate::message::{Message, send};
use crate::options::{BlockMemory, ChainOptions, ScriptOptions};
use crate::reads::Reads;
use crate::recovery::Recovery;
use crate::scrub::Scrub;
use crate::status::ChainStatus;
use crate::window::Window;

/// An opened directory, as it was read from disk.
pub(crate) struct Opened {
    pub(crate) store: Arc<Store>,
    pub(crate) index: BlockIndex,
    /// The coins of the tip.
    pub(crate) coins: UtxoStore,
    /// The coins of the history below a snapshot, if it is to be validated.
    pub(crate) history: Option<UtxoStore>,
    /// The last block that an earlier run verified.
    pub(crate) verified: ChainPoint,
    /// Blocks that no commit names yet.
    pub(crate) recovered: Vec<RecoveredBlock>,
}

impl Chain {
    /// Builds the stations around what was read from disk.
    pub(crate) fn assemble(
        options: &ChainOptions,
        opened: Opened,
        now: i64,
    ) -> Result<Self, ChainError> {
        let Opened { store, index, coins, history, verified, recovered } = opened;
        let workers = worker_pool(options, "godwit-worker", options.workers, QUEUED_JOBS)?;
        let writer = worker_pool(options, "godwit-append", 1, QUEUED_ALONE)?;
        let committer = worker_pool(options, "godwit-commit", 1, QUEUED_ALONE)?;
        let scrubber = worker_pool(options, "godwit-scrub", 1, QUEUED_ALONE)?;
        let (outbox, inbox) = bounded(INBOX_LIMIT);
        let cancelled = Arc::new(AtomicBool::new(false));
        let never_cancelled = Arc::default();
        let memory = options.block_memory;
        let env = environment(options, store, &cancelled);
        let scripts = options.scripts.unless_contradicted(env.store.disk(), env.store.dir())?;
        let intake = job_sender(&workers, &cancelled, &outbox, Message::Intake);
        let recovery = job_sender(&workers, &cancelled, &outbox, Message::Recovery);
        let appender = job_sender(&writer, &cancelled, &outbox, Message::Appender);
        let lookahead = job_sender(&workers, &cancelled, &outbox, Message::Lookahead);
        let window = job_sender(&workers, &cancelled, &outbox, Message::Window);
        let durability = job_sender(&committer, &never_cancelled, &outbox, Message::Durability);
        let scrub = job_sender(&scrubber, &cancelled, &outbox, Message::Scrub);
        let reads = job_sender(&workers, &cancelled, &outbox, Message::Reads);
        let begun = env.store.scrubbed()?.filter(|_| options.scrub.is_some());
        let status = ChainStatus::at_start(&index, verified);
        let (mut blocks, history) = (memory, index.history().zip(history));
        if history.is_some() {
            // The two share the memory of blocks, and the workers.
            (blocks.waiting, blocks.window) = (memory.waiting / 2, memory.window / 2);
        }
        let shared = SharedWithHistory {
            options,
            env: &env,
            workers: &workers,
            cancelled: &cancelled,
            outbox: &outbox,
            memory: blocks,
            scripts,
        };
        let history = history.map(|(span, coins)| shared.history_of(span, coins)).transpose()?;
        Ok(Self {
            mailbox: Mailbox { inbox, outbox },
            goal: Goal::new(options.stop_at_height, options.assume_valid),
            intake: Intake::new(&env, memory.receiving, intake),
            recovery: Recovery::new(&env, recovered, recovery),
            appender: Appender::new(appender),
            lookahead: Lookahead::new(&env, blocks.waiting, lookahead),
            window: Window::new(&env, index.tip(), blocks.window, scripts, window),
            durability: Durability::new(
                &index,
                verified,
                options,
                Scrub::new(options.scrub, begun, scrub),
                durability,
            ),
            reads: Reads::new(reads),
            history,
            env,
            index,
            coins,
            events: Events::default(),
            status,
            ending: Ending::No,
            now,
        })
    }
}

fn environment(
    options: &ChainOptions,
    store: Arc<Store>,
    cancelled: &Arc<AtomicBool>,
) -> Environment {
    let BlockMemory { importing, waiting, window, .. } = options.block_memory;
    Environment {
        hasher: UtxoHasher::new(store.utxo_hash_key()),
        store,
        params: Arc::clone(&options.params),
        executor: Arc::clone(&options.executor),
        workers: options.workers,
        memory: Memory { coins: options.coins_memory, importing, waiting, window },
        cancelled: Arc::clone(cancelled),
    }
}

/// What the stations of the chain share with those of a snapshot's history.
struct SharedWithHistory<'a> {
    options: &'a ChainOptions,
    env: &'a Environment,
    workers: &'a Arc<Workers>,
    cancelled: &'a Arc<AtomicBool>,
    outbox: &'a Outbox,
    /// Half of the memory for blocks: each of the two has as much.
    memory: BlockMemory,
    scripts: ScriptOptions,
}

impl SharedWithHistory<'_> {
    /// The validation of the history `span`, whose tip's coins are `coins`.
    fn history_of(&self, span: HistorySpan, coins: UtxoStore) -> Result<Box<History>, ChainError> {
        let Self { options, env, workers, cancelled, outbox, memory, scripts } = *self;
        let ahead = job_sender(workers, cancelled, outbox, Message::HistoryLookahead);
        let checks = job_sender(workers, cancelled, outbox, Message::HistoryWindow);
        let hasher = worker_pool(options, "godwit-history", 1, QUEUED_ALONE)?;
        let hash = job_sender(&hasher, cancelled, outbox, Message::History);
        let stations = HistoryStations {
            lookahead: Lookahead::new(env, memory.waiting, ahead),
            window: Window::new(env, span.tip, memory.window, scripts, checks),
            goal: Goal::new(None, options.assume_valid),
            writing: Writing::new(options.coin_writing, options.workers),
        };
        Ok(Box::new(History::new(span.tip, coins, stations, hash)))
    }
}

fn worker_pool(
    options: &ChainOptions,
    name: &'static str,
    threads: usize,
    queued: [usize; Priority::COUNT],
) -> Result<Arc<Workers>, ChainError> {
    let workers = Workers::start(&*options.executor, name, threads, queued);
    workers.map(Arc::new).map_err(ChainError::Spawn)
}

fn job_sender<R: Send + 'static>(
    workers: &Arc<Workers>,
    cancelled: &Arc<AtomicBool>,
    outbox: &Outbox,
    message: fn(R) -> Message,
) -> JobSender<R> {
    let outbox = outbox.clone();
    JobSender::new(Arc::clone(workers), Arc::clone(cancelled), move |answer: Option<R>| {
        send(&outbox, answer.map_or(Message::Panicked, message));
    })
}
