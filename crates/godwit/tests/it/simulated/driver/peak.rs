//! What the simulated node holds, and that it is within its limits.

use godwit_p2p::{MAX_GARBAGE, PEER_MEMORY, SEND_QUEUE_MAX};

use super::Driver;

/// Memory of a key and its garbage that wait to be written, or of garbage that is received.
const HANDSHAKE_BYTES: usize = 3 * (MAX_GARBAGE + 4_096);

/// The most that the node held at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Peak {
    /// Bytes of messages being received.
    pub(in super::super) receiving: usize,
    /// Bytes of messages to be sent.
    pub(in super::super) sending: usize,
    /// Memory of both.
    pub(in super::super) memory: usize,
    /// Bytes of blocks that the chain decodes or has to accept.
    pub(in super::super) arriving: u64,
    /// Memory of accepted blocks that wait for their turn.
    pub(in super::super) waiting: usize,
    /// Times that a connection was not read because its share of the inbox was full.
    pub(in super::super) held: usize,
    /// Addresses in the book.
    pub(in super::super) addresses: usize,
    /// Connections.
    pub(in super::super) connections: usize,
}

impl Driver {
    pub(super) fn measure(&mut self) {
        let receiving: usize =
            self.links.values().map(|link| link.transport.buffered_bytes()).sum();
        let sending = self.links.values().map(|link| link.transport.queued_bytes()).sum();
        let queued: usize = self.links.values().map(|link| link.transport.queued_memory()).sum();
        let connections = self.links.len();
        let longest = self.links.values().map(|link| link.transport.queued_bytes()).max();
        let core = self.core();
        let addresses = core.peers().address_book().len();
        let waiting = core.chain().status().memory.near;
        if waiting > self.plan.block_memory.waiting {
            self.fail(&format!("{waiting} bytes of blocks wait"));
        }
        // Bytes of handshakes are no messages, and are not in the engine's account.
        let memory: usize = queued + receiving;
        let account = self.core().peers().memory();
        if memory > account + connections * HANDSHAKE_BYTES || account > PEER_MEMORY {
            self.fail(&format!("{memory} bytes are held for peers, {account} in the account"));
        }
        if longest.is_some_and(|bytes| bytes > SEND_QUEUE_MAX) {
            self.fail("a send queue is too long");
        }
        let peak = &mut self.peak;
        peak.receiving = peak.receiving.max(receiving);
        peak.sending = peak.sending.max(sending);
        peak.memory = peak.memory.max(memory);
        peak.waiting = peak.waiting.max(waiting);
        peak.addresses = peak.addresses.max(addresses);
        peak.connections = peak.connections.max(connections);
    }

    /// What the chain was given before it had its turn: one block more than its limit at worst.
    pub(in super::super) fn check_arriving(&mut self) {
        let arriving = self.core().chain().receiving();
        if arriving > self.plan.block_memory.receiving + self.stage.largest_buffer {
            self.fail(&format!("{arriving} bytes of blocks are with the chain"));
        }
        self.peak.arriving = self.peak.arriving.max(arriving);
    }
}
