//! How long the payload of each message may be.

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

/// Longest payload, in bytes, of the messages that need at most a few hundred. Generous, because
/// bytes behind what a message needs are ignored: that is how messages were extended before. Core
/// allows [`MAX_PAYLOAD`] to all of them.
pub(super) const MAX_SMALL_PAYLOAD: u32 = 1_024;

/// Payload of `count` entries of `size` bytes and their number, in bytes.
const fn list(count: usize, size: usize) -> u32 {
    (compact_size_len(count as u64) + count * size) as u32
}

/// Longest payload, in bytes, that a message of that name may have; `None` for a name without
/// meaning here, whose payload is dropped as it comes.
///
/// What a message holds at most by its count limits. Core allows [`MAX_PAYLOAD`] to every message
/// and refuses the counts when it decodes them.
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
        | Command::GETADDR => MAX_SMALL_PAYLOAD,
        Command::ADDR => list(MAX_ADDRESSES, AddressEntry::V1_SIZE),
        Command::ADDRV2 => list(MAX_ADDRESSES, AddressEntry::V2_MAX_SIZE),
        Command::INV | Command::GETDATA | Command::NOTFOUND => list(MAX_INVENTORY, Inventory::SIZE),
        // Version, hashes, last wanted hash.
        Command::GETHEADERS | Command::GETBLOCKS => 4 + list(MAX_LOCATOR, 32) + 32,
        // Each header and a zero.
        Command::HEADERS => list(MAX_HEADERS, HEADER_SIZE + 1),
        // Hash, then one byte for each position: larger gaps take three bytes, but more positions.
        Command::GETBLOCKTXN => 32 + list(MAX_COMPACT_TRANSACTIONS + 1, 1),
        Command::BLOCK | Command::CMPCTBLOCK | Command::BLOCKTXN => MAX_PAYLOAD,
        _ => return None,
    })
}

/// What is done with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Keep,
    /// As it comes.
    Drop(DiscardReason),
    TooLarge,
}

/// What is done with a payload of `length` bytes, before any of it is kept.
pub(super) fn judge(command: Command, length: usize, limits: &ReceiveLimits) -> Judgement {
    let limit = payload_limit(command);
    if length > limit.unwrap_or(MAX_PAYLOAD) as usize {
        return Judgement::TooLarge;
    }
    // These can have the size of a block; from everybody at once that would be too much.
    let unexpected = match command {
        Command::BLOCK | Command::BLOCKTXN => !limits.expects_block,
        Command::CMPCTBLOCK => !limits.expects_compact,
        _ => false,
    };
    if !command.is_valid() {
        Judgement::Drop(DiscardReason::InvalidCommand)
    } else if limit.is_none() {
        Judgement::Drop(DiscardReason::Unknown)
    } else if unexpected {
        Judgement::Drop(DiscardReason::UnexpectedBlock)
    } else {
        Judgement::Keep
    }
}
