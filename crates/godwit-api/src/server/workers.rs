//! The threads that run methods.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::sync::oneshot;

use crate::answers::Room;
use crate::api::Api;

/// A request whose sender may ask.
pub(super) struct Job {
    pub(super) body: Vec<u8>,
    pub(super) user: String,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What it is answered.
pub(crate) struct Reply {
    /// Of HTTP.
    pub(crate) status: u16,
    pub(crate) text: Option<AnswerText>,
}

/// JSON, and the memory that it counts.
pub(crate) struct AnswerText {
    pub(crate) text: String,
    pub(crate) _room: Room,
}

impl AsRef<[u8]> for AnswerText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

pub(super) struct Workers(Vec<JoinHandle<()>>);

impl Workers {
    pub(super) fn start(api: Api, threads: usize, queue: usize) -> io::Result<(Sender<Job>, Self)> {
        let api = Arc::new(api);
        let (sender, jobs) = bounded::<Job>(queue);
        let mut workers = Vec::with_capacity(threads);
        for n in 0..threads {
            let (api, jobs) = (Arc::clone(&api), jobs.clone());
            let name = format!("godwit-rpc-{n}");
            workers.push(std::thread::Builder::new().name(name).spawn(move || work(&api, &jobs))?);
        }
        Ok((sender, Self(workers)))
    }

    /// Waits for them; the other end of the queue is closed.
    pub(super) fn join(self) {
        for worker in self.0 {
            if worker.join().is_err() {
                log::error!("a thread of the RPC server panicked");
            }
        }
    }
}

fn work(api: &Api, jobs: &Receiver<Job>) {
    while let Ok(Job { body, user, reply }) = jobs.recv() {
        let answer = api.answer(&body, &user);
        drop(body);
        if reply.send(answer).is_err() {
            log::debug!("nobody waits for the answer to an RPC request any more");
        }
    }
}
