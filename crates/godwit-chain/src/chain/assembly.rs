//! Builds the chain: its workers, its stations and the way of their messages.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::bounded;
use godwit_store::exec::{Priority, Workers};
use godwit_store::utxo::{UtxoHasher, UtxoStore};
use godwit_store::{ChainPoint, RecoveredBlock, Store};

use super::{Chain, Mailbox, Outbox};
use crate::appender::Appender;
use crate::durability::Durability;
use crate::ending::Ending;
use crate::environment::{Environment, Memory};
use crate::error::ChainError;
use crate::event::Events;
use crate::goal::Goal;
use crate::index::BlockIndex;
use crate::intake::Intake;
use crate::job_sender::JobSender;
use crate::limits::{INBOX_LIMIT, QUEUED_ALONE, QUEUED_JOBS};
use crate::lookahead::Lookahead;
use crate::message::{Message, send};
use crate::options::ChainOptions;
use crate::reads::Reads;
use crate::recovery::Recovery;
use crate::scrub::Scrub;
use crate::status::ChainStatus;
use crate::window::Window;

impl Chain {
    /// Builds the stations around an index and coins that were read from disk.
    pub(crate) fn assemble(
        options: &ChainOptions,
        store: Arc<Store>,
        index: BlockIndex,
        coins: UtxoStore,
        verified: ChainPoint,
        recovered: Vec<RecoveredBlock>,
        now: i64,
    ) -> Result<Self, ChainError> {
        let workers = pool(options, "godwit-worker", options.workers, QUEUED_JOBS)?;
        let writer = pool(options, "godwit-append", 1, QUEUED_ALONE)?;
        let committer = pool(options, "godwit-commit", 1, QUEUED_ALONE)?;
        let scrubber = pool(options, "godwit-scrub", 1, QUEUED_ALONE)?;
        let (outbox, inbox) = bounded(INBOX_LIMIT);
        let cancelled = Arc::new(AtomicBool::new(false));
        let never_cancelled = Arc::default();
        let hasher = UtxoHasher::new(store.utxo_hash_key());
        let (params, executor) = (Arc::clone(&options.params), Arc::clone(&options.executor));
        let memory = options.block_memory;
        let env = Environment {
            store,
            params,
            hasher,
            executor,
            workers: options.workers,
            memory: Memory { coins: options.coins_memory, importing: memory.importing },
            cancelled: Arc::clone(&cancelled),
        };
        let coins_bytes = options.coins_memory.beside(index.tree().memory());
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
        Ok(Self {
            mailbox: Mailbox { inbox, outbox },
            goal: Goal::new(options.stop_at_height, options.assume_valid),
            intake: Intake::new(&env, memory.receiving, intake),
            recovery: Recovery::new(&env, recovered, recovery),
            appender: Appender::new(appender),
            lookahead: Lookahead::new(&env, memory.waiting, coins_bytes, lookahead),
            window: Window::new(&env, index.tip(), memory.window, scripts, window),
            durability: Durability::new(
                &index,
                verified,
                options,
                Scrub::new(options.scrub, begun, scrub),
                durability,
            ),
            reads: Reads::new(reads),
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

fn pool(
    options: &ChainOptions,
    name: &'static str,
    servers: usize,
    queued: [usize; Priority::COUNT],
) -> Result<Arc<Workers>, ChainError> {
    let workers = Workers::start(&*options.executor, name, servers, queued);
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
