//! Reads stored blocks for peers, on workers, so that a slow disk does not hold up connecting.

use std::collections::VecDeque;
use std::sync::Arc;

use godwit_store::exec::Priority;
use godwit_store::{BlockPosition, StoreError};
use godwit_stream::PooledStream;

use crate::environment::Environment;
use crate::job_sender::JobSender;
use crate::limits::READ_JOBS;

/// A block that was read.
pub(crate) struct Answer {
    ticket: u64,
    bytes: Result<PooledStream, StoreError>,
}

/// Reads under way and reads that wait for a worker.
pub(crate) struct Reads {
    /// Reads that wait. Bounded by the caller, which has few requests open.
    queue: VecDeque<(u64, BlockPosition)>,
    jobs: usize,
    job_sender: JobSender<Answer>,
}

impl Reads {
    pub(crate) fn new(job_sender: JobSender<Answer>) -> Self {
        Self { queue: VecDeque::new(), jobs: 0, job_sender }
    }

    /// Reads the block at `position` when a worker is free.
    pub(crate) fn read(&mut self, env: &Environment, ticket: u64, position: BlockPosition) {
        self.queue.push_back((ticket, position));
        self.start(env);
    }

    fn start(&mut self, env: &Environment) {
        while self.jobs < READ_JOBS
            && let Some((ticket, position)) = self.queue.pop_front()
        {
            self.jobs += 1;
            let store = Arc::clone(&env.store);
            self.job_sender.run(Priority::Urgent, "read", move || Answer {
                ticket,
                bytes: store.read_block(position),
            });
        }
    }

    /// A worker has answered. A block that cannot be read is only not served; if the chain needs
    /// it, its own read will fail.
    pub(crate) fn answered(
        &mut self,
        env: &Environment,
        answer: Answer,
    ) -> (u64, Option<PooledStream>) {
        self.jobs -= 1;
        self.start(env);
        let Answer { ticket, bytes } = answer;
        let bytes = bytes.map_err(|error| match error.is_not_found() {
            true => log::debug!("A block was pruned before it was read: {error}"),
            false => log::error!("A stored block is not served: {error}"),
        });
        (ticket, bytes.ok())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.jobs == 0
    }
}

#[cfg(test)]
impl Reads {
    pub(crate) fn job_sender(&self) -> JobSender<Answer> {
        self.job_sender.clone()
    }
}
