//! Bytes exchanged with a peer, for RPC methods.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::frame::{Command, FRAME_HEADER_SIZE};

/// Messages that this node does not know count together, as Core has it.
const OTHER: &str = "*other*";

/// Bytes by message, each with its header.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// At most one entry for each command that this node knows, and one for all others.
    received: BTreeMap<Command, u64>,
    sent: BTreeMap<Command, u64>,
    unknown: u64,
    /// When something was sent last; zero for never.
    pub(super) last_sent: Duration,
}

impl Traffic {
    pub(super) fn note_received(&mut self, command: Command, payload: usize, is_known: bool) {
        let bytes = (FRAME_HEADER_SIZE + payload) as u64;
        match is_known {
            true => *self.received.entry(command).or_default() += bytes,
            false => self.unknown += bytes,
        }
    }

    pub(super) fn note_sent(&mut self, now: Duration, command: Command, bytes: usize) {
        *self.sent.entry(command).or_default() += bytes as u64;
        self.last_sent = now;
    }

    pub fn bytes_received(&self) -> u64 {
        self.received.values().sum::<u64>() + self.unknown
    }

    pub fn bytes_sent(&self) -> u64 {
        self.sent.values().sum()
    }

    /// By the names of messages, in their order.
    pub fn received_by_command(&self) -> Vec<(String, u64)> {
        let unknown = (self.unknown > 0).then(|| (OTHER.to_owned(), self.unknown));
        unknown.into_iter().chain(named(&self.received)).collect()
    }

    /// By the names of messages, in their order.
    pub fn sent_by_command(&self) -> Vec<(String, u64)> {
        named(&self.sent).collect()
    }
}

fn named(bytes: &BTreeMap<Command, u64>) -> impl Iterator<Item = (String, u64)> {
    bytes.iter().map(|(command, bytes)| (command.to_string(), *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_by_message() {
        let mut traffic = Traffic::default();
        traffic.note_received(Command::PING, 8, true);
        traffic.note_received(Command::PING, 8, true);
        traffic.note_received(Command::new("nonsense"), 100, false);
        traffic.note_sent(Duration::from_secs(3), Command::PONG, 32);
        assert_eq!((traffic.bytes_received(), traffic.bytes_sent()), (64 + 124, 32));
        let received = traffic.received_by_command();
        assert_eq!(received, [("*other*".to_owned(), 124), ("ping".to_owned(), 64)]);
        assert_eq!(traffic.sent_by_command(), [("pong".to_owned(), 32)]);
    }
}
