//! The threads that run methods.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::answers::Room;
use crate::api::Api;

/// How long methods may go on at the end. The chain is closed behind them or beside them.
const LAST_METHODS: Duration = Duration::from_secs(2);

/// A request whose sender may ask.
pub(super) struct Job {
    pub(super) asked: Asked,
    pub(super) body: RequestBody,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What for.
pub(super) enum Asked {
    /// Calls of this user, in the body.
    Calls { user: String },
    /// What a target of HTTP names.
    Resource { target: String },
}

/// What was sent with it, and the memory that it counts.
pub(crate) struct RequestBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
}

/// What it is answered.
pub(crate) struct Reply {
    /// Of HTTP.
    pub(crate) status: u16,
    pub(crate) body: Option<AnswerBody>,
}

/// What is sent, and the memory that it counts.
pub(crate) struct AnswerBody {
    pub(crate) kind: ContentKind,
    pub(crate) bytes: Vec<u8>,
    pub(crate) _room: Room,
}

/// What a client takes the bytes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Json,
    Text,
    Bytes,
}

impl AsRef<[u8]> for AnswerBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub(super) struct Workers {
    threads: Vec<JoinHandle<()>>,
    /// Closed when all of them have ended.
    running: Receiver<Infallible>,
}

impl Workers {
    pub(super) fn start(
        api: &Arc<Api>,
        threads: usize,
        queue: usize,
    ) -> io::Result<(Sender<Job>, Self)> {
        let (sender, jobs) = bounded::<Job>(queue);
        let (is_running, running) = bounded(0);
        let mut workers = Vec::with_capacity(threads);
        for n in 0..threads {
            let (api, jobs, is_running) = (Arc::clone(api), jobs.clone(), is_running.clone());
            let run = move || {
                work(&api, &jobs);
                drop(is_running);
            };
            let name = format!("godwit-rpc-{n}");
            workers.push(std::thread::Builder::new().name(name).spawn(run)?);
        }
        Ok((sender, Self { threads: workers, running }))
    }

    /// Waits for them, but not for long; the other end of the queue is closed.
    pub(super) fn join(self) {
        if self.running.recv_timeout(LAST_METHODS) == Err(RecvTimeoutError::Timeout) {
            log::warn!("Shutting down without waiting for an RPC method that is still running.");
            return;
        }
        for worker in self.threads {
            if worker.join().is_err() {
                log::error!("a thread of the RPC server panicked");
            }
        }
    }
}

fn work(api: &Api, jobs: &Receiver<Job>) {
    while let Ok(Job { asked, body, reply }) = jobs.recv() {
        // Its client may have gone while it waited.
        if reply.is_closed() {
            continue;
        }
        let is_gone = || reply.is_closed();
        let answer = match asked {
            Asked::Calls { user } => api.answer(body, &user, &is_gone),
            Asked::Resource { target } => api.answer_resource(&target, body, &is_gone),
        };
        if reply.send(answer).is_err() {
            log::debug!("nobody waits for the answer to a request any more");
        }
    }
}
