//! What address gossip remembers of one peer.

use std::time::Duration;

use super::known::KnownAddresses;
use crate::net_address::{AddressEntry, NetAddress};
use crate::rate_limit::TokenBucket;
use crate::time::Now;

/// What a peer sent of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddresses {
    /// They are exchanged with it.
    pub are_exchanged: bool,
    /// How many of it were looked at, and how many were not because they were too many.
    pub processed: u64,
    pub rate_limited: u64,
}

/// What was exchanged with the peer, and what will be sent to it.
pub(in crate::peers) struct AddressState {
    /// Addresses are exchanged with it (Core `m_addr_relay_enabled`).
    pub(super) enabled: bool,
    pub(super) known: KnownAddresses,
    /// At most [`MAX_ADDRESSES`](crate::message::MAX_ADDRESSES).
    pub(super) to_send: Vec<AddressEntry>,
    pub(super) next_send: Duration,
    pub(super) next_own: Option<Duration>,
    pub(super) allowance: TokenBucket,
    /// We sent `getaddr`, and it has not answered.
    pub(super) asked: bool,
    /// Its `getaddr` was answered; it is answered only once.
    pub(super) answered: bool,
    /// The address of ours to which it connected, if it is inbound.
    pub(in crate::peers) called: Option<NetAddress>,
    pub(super) processed: u64,
    pub(super) rate_limited: u64,
}

impl AddressState {
    pub(in crate::peers) fn new(now: Now) -> Self {
        Self {
            enabled: false,
            known: KnownAddresses::default(),
            to_send: Vec::new(),
            next_send: Duration::ZERO,
            next_own: None,
            allowance: TokenBucket::addresses(now.monotonic),
            asked: false,
            answered: false,
            called: None,
            processed: 0,
            rate_limited: 0,
        }
    }

    /// What is told of it.
    pub(in crate::peers) fn info(&self) -> PeerAddresses {
        let Self { enabled, processed, rate_limited, .. } = *self;
        PeerAddresses { are_exchanged: enabled, processed, rate_limited }
    }
}
