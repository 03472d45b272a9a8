//! Output of a simulated peer, before it is framed.

use std::sync::Arc;

use godwit_p2p::{Command, Message};

use super::branch::StoredBlock;

/// Output to be written when its time has come.
#[derive(Debug)]
pub(super) enum Out {
    Message(Message),
    Block(Arc<StoredBlock>),
    /// A block's message with other bytes than the block's.
    Payload(Command, Vec<u8>),
    /// A frame that announces another length than it has.
    Forged {
        command: Command,
        announced: u32,
        payload: Vec<u8>,
    },
    /// A message that is the same for many peers.
    Prepared(&'static Prepared),
    Raw(Vec<u8>),
    /// From here on, at most this many bytes a second are written.
    Pace(u64),
}

/// A message, its payload encoded and hashed.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) command: Command,
    pub(super) payload: Vec<u8>,
    pub(super) checksum: [u8; 4],
}
