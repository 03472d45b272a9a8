//! The threads that run methods.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use godwit_http::{Asked, Job};

use crate::api::Api;

/// How long methods may go on at the end. The chain is closed behind them or beside them.
const LAST_METHODS: Duration = Duration::from_secs(2);

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
