//! Limits of payloads by message.

use super::{DiscardReason, ReceiveLimits};
use crate::frame::Command;
use crate::frame::MAX_PAYLOAD;
use crate::inventory::Inventory;
use crate::message::{
    MAX_ADDRESSES, MAX_COMPACT_TRANSACTIONS, MAX_HEADERS, MAX_INVENTORY, MAX_LOCATOR,
};
use crate::net_address::AddressEntry;

use godwit_primitives::HEADER_SIZE;
use godwit_stream::compact_size_len;

/// Longest payload, in bytes, of messages that need at most a few hundred. Generous, because
/// surplus bytes at the end of a message are ignored: messages were extended in this way before.
/// Core allows [`MAX_PAYLOAD`] for all of them.
const MAX_SMALL_PAYLOAD: u32 = 1_024;

/// Length, in bytes, of a list of `count` entries of `size` bytes with its count.
const fn list(count: usize, size: usize) -> u32 {
    (compact_size_len(count as u64) + count * size) as u32
}

/// Longest payload of entries of an inventory, in bytes.
const MAX_INVENTORY_PAYLOAD: u32 = list(MAX_INVENTORY, Inventory::SIZE);

/// Longest payload, in bytes, of messages with this name; `None` for a name that this node does not
/// know, whose payload is discarded as it arrives.
///
/// It follows from the limits of the message's counts. Core allows [`MAX_PAYLOAD`] for every
/// message and checks the counts when it decodes them.
pub fn payload_limit(command: Command) -> Option<u32> {
    Some(match command {
        Command::VERSION
        | Command::VERACK
        | Command::WTXIDRELAY
        | Command::SENDADDRV2
        | Command::SENDHEADERS
        | Command::SENDCMPCT
        | Command::FEEFILTER
        | Command::PING
        | Command::PONG
        | Command::GETADDR
        | Command::GETCFILTERS
        | Command::GETCFHEADERS
        | Command::GETCFCHECKPT => MAX_SMALL_PAYLOAD,
        Command::ADDR => list(MAX_ADDRESSES, AddressEntry::V1_SIZE),
        Command::ADDRV2 => list(MAX_ADDRESSES, AddressEntry::V2_MAX_SIZE),
        Command::INV | Command::GETDATA => MAX_INVENTORY_PAYLOAD,
        // Version, hashes, last wanted hash.
        Command::GETHEADERS | Command::GETBLOCKS => 4 + list(MAX_LOCATOR, 32) + 32,
        // Each header and a zero.
        Command::HEADERS => list(MAX_HEADERS, HEADER_SIZE + 1),
        // Hash, then one byte for each position: larger gaps take three bytes, but more positions.
        Command::GETBLOCKTXN => 32 + list(MAX_COMPACT_TRANSACTIONS + 1, 1),
        // Of `notfound`, more than an inventory may have is discarded: Core ignores it.
        Command::BLOCK | Command::CMPCTBLOCK | Command::BLOCKTXN | Command::NOTFOUND => MAX_PAYLOAD,
        _ => return None,
    })
}

/// What is done with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Keep,
    /// Discard it as it arrives.
    Drop(DiscardReason),
    TooLarge,
}

/// Decides what is done with a payload of `length` bytes, before any of it is kept.
pub(super) fn admit(command: Command, length: usize, limits: &ReceiveLimits) -> Admission {
    let limit = payload_limit(command);
    if length > limit.unwrap_or(MAX_PAYLOAD) as usize {
        return Admission::TooLarge;
    }
    // These can have the size of a block; from all peers at once that would be too much memory.
    let unexpected = match command {
        Command::BLOCK | Command::BLOCKTXN => !limits.expects_block,
        Command::CMPCTBLOCK => !limits.expects_compact,
        _ => false,
    };
    if !command.is_valid() {
        Admission::Drop(DiscardReason::InvalidCommand)
    } else if limit.is_none() {
        Admission::Drop(DiscardReason::Unknown)
    } else if unexpected {
        Admission::Drop(DiscardReason::UnexpectedBlock)
    } else if command == Command::NOTFOUND && length > MAX_INVENTORY_PAYLOAD as usize {
        Admission::Drop(DiscardReason::TooLong)
    } else {
        Admission::Keep
    }
}
