//! What workers and the commit thread send to the connector.

use std::sync::Arc;

use crossbeam_channel::Sender;
use godwit_store::StoreError;
use godwit_store::exec::{Priority, Workers};
use godwit_store::utxo::ManifestId;
use godwit_stream::PooledStream;

use crate::apply::Prefetched;
use crate::intake::Arrival;
use crate::structure::{Received, Structured};
use crate::verify::Outcome;

/// Most messages that wait. The inbox must never be full, since workers would wait for room here. So
/// what can be on its way is bounded below this: half of it for blocks that arrive, and a few for each
/// block in line.
pub(crate) const INBOX_LIMIT: usize = 4096;

/// A message to the connector.
pub(crate) enum Message {
    /// Record `sequence` of an import, decoded and checked.
    Received { sequence: u64, received: Received },
    /// A block from a peer, decoded and checked.
    Arrived(Arrival),
    /// A stored block for whoever asked.
    Read { ticket: u64, bytes: Result<PooledStream, StoreError> },
    /// The import's reader could not read a file.
    ReaderFailed(StoreError),
    /// A block in line was read back from its file; `None` when it is damaged.
    Loaded { token: u64, block: Result<Option<Arc<Structured>>, StoreError> },
    /// The coins below the memtable for a block in line.
    Fetched { token: u64, prefetched: Result<Prefetched, StoreError> },
    /// All checks of an applied block are done.
    Verified { token: u64, outcome: Outcome },
    /// A commit is durable.
    Committed(Result<Option<ManifestId>, StoreError>),
    /// A thread panicked: the commit thread, the reader, or a worker in a job.
    Panicked,
}

/// Sends a message; once the connector is gone there is nobody to tell.
pub(crate) fn send(outbox: &Sender<Message>, message: Message) {
    if outbox.send(message).is_err() {
        log::debug!("the chain was closed before a thread reported");
    }
}

/// Runs `job` on a worker, as what the connector waits for, and sends what it gives, or that it
/// panicked. What the job holds is dropped before that is sent.
pub(crate) fn report_from(
    workers: &Workers,
    outbox: &Sender<Message>,
    job: impl FnOnce() -> Message + Send + 'static,
) {
    let outbox = outbox.clone();
    workers.run(Priority::Urgent, "report", job, move |message| {
        send(&outbox, message.unwrap_or(Message::Panicked));
    });
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;
    use godwit_store::exec::Threads;

    use super::*;

    #[test]
    fn a_job_lets_go_of_what_it_holds_before_it_reports() {
        let (outbox, inbox) = bounded(1);
        let workers = Workers::start(&Threads::default(), "godwit-test", 1, [2; 2]).unwrap();
        let held = Arc::new(());
        for panics in [false, true] {
            let holds = Arc::clone(&held);
            report_from(&workers, &outbox, move || {
                assert!(!panics && Arc::strong_count(&holds) == 2, "expected by the test");
                Message::Committed(Ok(None))
            });
            let message = inbox.recv().unwrap();
            assert_eq!(Arc::strong_count(&held), 1);
            assert_eq!(matches!(message, Message::Panicked), panics);
        }
    }

    #[test]
    fn a_report_to_nobody_is_no_fault() {
        let (outbox, inbox) = bounded(1);
        drop(inbox);
        send(&outbox, Message::Panicked);
    }
}
