//! Messages of jobs and threads to the connector, by station.

use crossbeam_channel::Sender;
use godwit_store::StoreError;

use crate::intake::Arrival;
use crate::{appender, durability, history, lookahead, reads, recovery, scrub, window};

/// A message to a station.
pub(crate) enum Message {
    /// A block is decoded and checked by itself.
    Intake(Arrival),
    /// Blocks and undo records are written.
    Appender(appender::Answer),
    /// A queued block was read back, or its coins were fetched.
    Lookahead(lookahead::Answer),
    /// All checks of an applied block are done, or the tip was read back.
    Window(window::Answer),
    /// As [`Self::Lookahead`], of the history below a snapshot.
    HistoryLookahead(lookahead::Answer),
    /// As [`Self::Window`], of the history.
    HistoryWindow(window::Answer),
    /// The coins at its end are hashed.
    History(history::Answer),
    /// A commit has returned.
    Durability(durability::Answer),
    /// A block was read back that an earlier process had received and not committed.
    Recovery(recovery::Answer),
    /// A stored block was read for a peer.
    Reads(reads::Answer),
    /// A part of what is at rest was checked.
    Scrub(scrub::Answer),
    /// The import's reader could not read a file.
    Import(StoreError),
    /// A thread panicked: the import's reader, or a worker in a job.
    Panicked,
}

/// Sends a message. Ignored once the connector has ended.
pub(crate) fn send(outbox: &Sender<Message>, message: Message) {
    if outbox.send(message).is_err() {
        log::debug!("the chain was closed before a thread reported");
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn a_report_to_nobody_is_no_fault() {
        let (outbox, inbox) = bounded(1);
        drop(inbox);
        send(&outbox, Message::Panicked);
    }
}
