//! One address of the book: when and where it was heard of, and how calls to it went.

use std::num::NonZeroU64;

use godwit_primitives::sha256::sha256;

use crate::net_address::{AddressEntry, Host, NetAddress};
use crate::net_groups::NetGroups;
use crate::services::Services;

/// Seconds in a day.
const DAY: i64 = 24 * 60 * 60;
/// An address that no peer has seen for this many seconds may be dropped (Core `ADDRMAN_HORIZON`).
const HORIZON: i64 = 30 * DAY;
/// An address that never answered may be dropped after this many attempts (Core `ADDRMAN_RETRIES`).
const RETRIES: u32 = 3;
/// One that did answer may be dropped after this many attempts (Core `ADDRMAN_MAX_FAILURES`) ...
const MAX_FAILURES: u32 = 10;
/// ... if its last answer is this many seconds old (Core `ADDRMAN_MIN_FAIL`).
const MIN_FAIL: i64 = 7 * DAY;
/// Times further ahead than this, in seconds, are wrong.
const MAX_AHEAD: i64 = 10 * 60;
/// An address that was tried less than this many seconds ago is never terrible.
const JUST_TRIED: i64 = 60;
/// An address that was tried less than this many seconds ago is hardly ever selected.
const RECENTLY_TRIED: i64 = 10 * 60;
/// Failures beyond these do not make an address less likely.
const COUNTED_FAILURES: u32 = 8;

/// Id of an entry. 64 bits: Core's 32 overflowed under a flood of addresses (CVE-2024-52919).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId(NonZeroU64);

impl EntryId {
    pub(super) const FIRST: Self = Self(NonZeroU64::MIN);

    pub(super) fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("2^64 addresses do not come in the life of a machine"))
    }

    #[cfg(test)]
    pub(super) fn new(id: u64) -> Self {
        Self(NonZeroU64::new(id).expect("not zero"))
    }

    #[cfg(test)]
    pub(super) fn get(self) -> u64 {
        self.0.get()
    }
}

/// Where an address came from. Decides, with the address, in which buckets it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A node.
    Host(Host),
    /// A seed, or a node of which only the name is known: a hash of the name. Each one is a group
    /// of its own.
    Name([u8; Self::HASH_SIZE]),
}

impl Source {
    /// Bytes of the hash (Core `CNetAddr::SetInternal`).
    pub(super) const HASH_SIZE: usize = 10;

    /// From the name of a DNS seed, the name of the fixed seeds, or a node's name that a proxy
    /// resolves. (Core counts all nodes behind names as one group.)
    pub fn name(name: &str) -> Self {
        Self::Name(*sha256(name.as_bytes()).first_chunk().expect("32 bytes"))
    }

    /// Its group; for a name, a number that no network has, and the hash.
    pub(super) fn group(&self, groups: &NetGroups) -> SourceGroup {
        let mut bytes = [0; SourceGroup::MAX];
        let len = match self {
            Self::Host(host) => {
                let group = groups.of(*host);
                let group = group.as_bytes();
                bytes[..group.len()].copy_from_slice(group);
                group.len()
            }
            Self::Name(hash) => {
                bytes[0] = SourceGroup::INTERNAL;
                bytes[1..].copy_from_slice(hash);
                bytes.len()
            }
        };
        SourceGroup { bytes, len: len as u8 }
    }
}

/// The group of a [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceGroup {
    bytes: [u8; Self::MAX],
    len: u8,
}

impl SourceGroup {
    const MAX: usize = 1 + Source::HASH_SIZE;
    /// Core's number of the network "internal".
    const INTERNAL: u8 = 6;

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// An address and what is known of it. Times are unix seconds; 0 is never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) address: NetAddress,
    pub(super) services: Services,
    /// When it was last seen, as peers say.
    pub(super) time: u32,
    /// The source that told it first.
    pub(super) source: Source,
    /// When it was last tried. Not stored.
    pub(super) last_try: i64,
    /// When it was last tried and a failure would have counted. Not stored.
    pub(super) last_counted_try: i64,
    pub(super) last_success: i64,
    /// Attempts since the last success.
    pub(super) attempts: u32,
    /// Number of places in new buckets.
    pub(super) references: u8,
    pub(super) tried: bool,
    /// Place in the book's order.
    pub(super) rank: usize,
}

impl Entry {
    pub(super) fn new(told: &AddressEntry, source: Source, penalty: u32) -> Self {
        Self {
            address: told.address,
            services: told.services,
            time: told.time.saturating_sub(penalty),
            source,
            last_try: 0,
            last_counted_try: 0,
            last_success: 0,
            attempts: 0,
            references: 0,
            tried: false,
            rank: 0,
        }
    }

    /// Takes over what `told` has that is newer: services always, the time only when it advanced by
    /// an hour (by a day for nodes that were not seen today).
    pub(super) fn refresh(&mut self, now: i64, told: &AddressEntry, penalty: u32) {
        let online = now.saturating_sub(told.time.into()) < DAY;
        let interval = if online { 60 * 60 } else { DAY };
        if i64::from(self.time) < i64::from(told.time) - interval - i64::from(penalty) {
            self.time = told.time.saturating_sub(penalty);
        }
        self.services = self.services | told.services;
    }

    /// Whether the address is so bad that it may be overwritten and is not sent to peers (Core
    /// `IsTerrible`).
    pub(super) fn is_terrible(&self, now: i64) -> bool {
        if now.saturating_sub(self.last_try) <= JUST_TRIED {
            return false;
        }
        let age = now.saturating_sub(self.time.into());
        let never_answered = self.last_success == 0 && self.attempts >= RETRIES;
        let stopped_answering =
            now.saturating_sub(self.last_success) > MIN_FAIL && self.attempts >= MAX_FAILURES;
        !(-MAX_AHEAD..=HORIZON).contains(&age) || never_answered || stopped_answering
    }

    /// How likely the address is to be selected once it was drawn (Core `GetChance`): a hundredth
    /// of the usual after a recent attempt, times two thirds for each failure.
    pub(super) fn chance(&self, now: i64) -> f64 {
        let recent = now.saturating_sub(self.last_try) < RECENTLY_TRIED;
        let failures = self.attempts.min(COUNTED_FAILURES);
        (0..failures).fold(if recent { 0.01 } else { 1.0 }, |chance, _| chance * 0.66)
    }
}
