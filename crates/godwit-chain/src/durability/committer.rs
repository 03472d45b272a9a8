//! The commit thread: makes block and undo bytes, the block index and the coins' manifest durable
//! together, beside connecting.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};
use godwit_store::exec::guarded;
use godwit_store::utxo::ManifestId;
use godwit_store::{Commit, Store};

use crate::error::ChainError;
use crate::message::{Message, send};

/// One commit waits at most: the connector prepares the next when this one is durable.
const QUEUE_LIMIT: usize = 1;

/// A commit, and the manifest of the coins store that it names, if any.
pub(crate) struct Request {
    pub(crate) commit: Commit,
    pub(crate) manifest: Option<ManifestId>,
}

/// The thread `godwit-commit`. Dropping it waits for the commit that is under way.
pub(crate) struct Committer {
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
}

impl Committer {
    pub(crate) fn start(store: Arc<Store>, outbox: Sender<Message>) -> Result<Self, ChainError> {
        let (requests, queue) = bounded(QUEUE_LIMIT);
        let thread = std::thread::Builder::new()
            .name("godwit-commit".into())
            .spawn(move || run(&store, &queue, &outbox))
            .map_err(ChainError::Spawn)?;
        Ok(Self { requests: Some(requests), thread: Some(thread), busy: false })
    }

    /// Whether a commit has not been reported yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Starts a commit; the result arrives as [`Message::Committed`], or [`Message::Panicked`].
    pub(crate) fn commit(&mut self, request: Request) {
        assert!(!self.busy, "one commit at a time");
        self.busy = true;
        let requests = self.requests.as_ref().expect("open until dropped");
        requests.send(request).expect("the commit thread outlives its queue");
    }

    /// The commit was reported.
    pub(crate) fn idle(&mut self) {
        self.busy = false;
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the commit thread panicked");
        }
    }
}

fn run(store: &Store, queue: &Receiver<Request>, outbox: &Sender<Message>) {
    for Request { commit, manifest } in queue {
        log::info!("Commit started: {}", Contents(&commit));
        let started = Instant::now();
        // The database asserts where it meets some damage.
        let Some(result) = guarded(|| store.commit(commit)) else {
            return send(outbox, Message::Panicked);
        };
        if result.is_ok() {
            log::info!("Commit done in {} ms.", started.elapsed().as_millis());
        }
        send(outbox, Message::Committed(result.map(|()| manifest)));
    }
}

/// What a commit makes durable, for the log.
struct Contents<'a>(&'a Commit);

impl fmt::Display for Contents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commit { blocks, verified_tip, utxo, .. } = self.0;
        write!(f, "{} entries of the block index", blocks.len())?;
        if let Some(tip) = verified_tip {
            write!(f, ", verified up to height {}", tip.height)?;
        }
        match utxo {
            Some(utxo) => write!(f, ", coins at height {}.", utxo.tip.height),
            None => f.write_str("."),
        }
    }
}
