//! Bytes exchanged with a peer, and with all of them, for RPC methods.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::frame::{Command, FRAME_HEADER_SIZE};
use crate::transport::Protocol;
use crate::v2::{EXPANSION, MAX_NAME_SIZE, write_name};

/// Bytes exchanged with all peers since the start, as long as they are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficTotals {
    pub received: u64,
    pub sent: u64,
}

/// Messages that this node does not know count together, as Core has it.
const OTHER: &str = "*other*";

/// Messages of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Messages {
    count: u64,
    /// Bytes of all, without what the transport adds.
    payload: u64,
}

impl Messages {
    fn add(&mut self, payload: usize) {
        self.count += 1;
        self.payload += payload as u64;
    }

    fn bytes(self, around_each: usize) -> u64 {
        self.payload + self.count * around_each as u64
    }
}

/// Bytes by message, each as long as it is on the wire: with the header of v1, or as a packet of v2 (BIP324).
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// At most one entry for each command that this node knows, and one for all others.
    received: BTreeMap<Command, Messages>,
    sent: BTreeMap<Command, Messages>,
    unknown: Messages,
    /// It goes over v2: that is known after the first messages are on their way.
    is_encrypted: bool,
    /// When something was sent last; zero for never.
    pub(super) last_sent: Duration,
}

impl Traffic {
    pub(super) fn note_received(&mut self, command: Command, payload: usize, is_known: bool) {
        match is_known {
            true => self.received.entry(command).or_default().add(payload),
            false => self.unknown.add(payload),
        }
    }

    pub(super) fn note_sent(&mut self, now: Duration, command: Command, payload: usize) {
        self.sent.entry(command).or_default().add(payload);
        self.last_sent = now;
    }

    /// That of a connection with this protocol.
    pub(super) fn over(&self, protocol: &Protocol) -> Self {
        let is_encrypted = matches!(protocol, Protocol::V2 { .. });
        Self { is_encrypted, ..self.clone() }
    }

    /// Bytes that the transport adds to a message.
    fn around(&self, name: usize) -> usize {
        if self.is_encrypted { name + EXPANSION } else { FRAME_HEADER_SIZE }
    }

    fn unknown_bytes(&self) -> u64 {
        self.unknown.bytes(self.around(MAX_NAME_SIZE))
    }

    fn by_command<'a>(
        &self,
        messages: &'a BTreeMap<Command, Messages>,
    ) -> impl Iterator<Item = (&'a Command, u64)> {
        messages.iter().map(|(command, messages)| {
            let name = write_name(*command, &mut [0; MAX_NAME_SIZE]);
            (command, messages.bytes(self.around(name)))
        })
    }

    pub fn bytes_received(&self) -> u64 {
        let known = self.by_command(&self.received).map(|(_, bytes)| bytes);
        known.sum::<u64>() + self.unknown_bytes()
    }

    pub fn bytes_sent(&self) -> u64 {
        self.by_command(&self.sent).map(|(_, bytes)| bytes).sum()
    }

    /// By the names of messages, in their order.
    pub fn received_by_command(&self) -> Vec<(String, u64)> {
        let unknown = self.unknown_bytes();
        let unknown = (unknown > 0).then(|| (OTHER.to_owned(), unknown));
        unknown.into_iter().chain(named(self.by_command(&self.received))).collect()
    }

    /// By the names of messages, in their order.
    pub fn sent_by_command(&self) -> Vec<(String, u64)> {
        named(self.by_command(&self.sent)).collect()
    }
}

fn named<'a>(
    bytes: impl Iterator<Item = (&'a Command, u64)>,
) -> impl Iterator<Item = (String, u64)> {
    bytes.map(|(command, bytes)| (command.to_string(), bytes))
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
        traffic.note_sent(Duration::from_secs(3), Command::PONG, 8);
        assert_eq!((traffic.bytes_received(), traffic.bytes_sent()), (64 + 124, 32));
        let received = traffic.received_by_command();
        assert_eq!(received, [("*other*".to_owned(), 124), ("ping".to_owned(), 64)]);
        assert_eq!(traffic.sent_by_command(), [("pong".to_owned(), 32)]);

        // As bitcoind counts them over v2: a name of one byte, or of 13.
        traffic.note_sent(Duration::from_secs(3), Command::VERACK, 0);
        let encrypted = traffic.over(&Protocol::V2 { session_id: [0; 32] });
        assert_eq!((encrypted.bytes_received(), encrypted.bytes_sent()), (2 * 29 + 133, 29 + 33));
        let received = encrypted.received_by_command();
        assert_eq!(received, [("*other*".to_owned(), 133), ("ping".to_owned(), 58)]);
        let sent = encrypted.sent_by_command();
        assert_eq!(sent, [("pong".to_owned(), 29), ("verack".to_owned(), 33)]);
    }
}
