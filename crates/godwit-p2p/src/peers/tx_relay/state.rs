//! What the relay of transactions remembers of one peer.

use std::collections::HashMap;
use std::time::Duration;

use godwit_primitives::Amount;

use crate::tx_outbox::EntryId;

/// What a peer is told of transactions; all zero where it wants none, or is to be told of none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerTransactions {
    /// It wants none below this fee rate, in satoshi per 1,000 virtual bytes (BIP133).
    pub least_fee: Amount,
    /// How many of the outbox it is to be told of.
    pub to_tell: usize,
    /// The next number of the outbox when it was told last; 1 before.
    pub told_before: u64,
}

/// What the relay of transactions remembers of one peer. The lists have at most as many places as the outbox
/// may have transactions.
#[derive(Debug, Default)]
pub(in crate::peers) struct TxRelayState {
    /// It wants transactions announced by wtxid (BIP339).
    pub(in crate::peers) by_wtxid: bool,
    /// It wants none below this fee rate, in satoshi per 1,000 virtual bytes (BIP133).
    pub(in crate::peers) least_fee: Amount,
    /// What it will be told of.
    pub(super) waiting: Vec<EntryId>,
    /// When.
    pub(super) next: Option<Duration>,
    /// What it was told of, with what that spends from, and has not fetched since.
    pub(super) told: Vec<EntryId>,
    /// What was announced to it, and has not been fetched since: what that spends from may be fetched once
    /// more then.
    pub(super) announced: Vec<EntryId>,
    /// In which round it was told last of what is in the outbox.
    pub(super) heard: HashMap<EntryId, u32>,
    /// It was looked at once: what others were told lately waits for it, too.
    pub(super) is_known: bool,
    /// The outbox's next number when it was told last; zero before.
    pub(super) told_before: u64,
}

impl TxRelayState {
    /// It may fetch each of these once.
    pub(super) fn offer(&mut self, ids: impl IntoIterator<Item = EntryId>) {
        for id in ids {
            if !self.told.contains(&id) {
                self.told.push(id);
            }
        }
    }

    /// What is told of it.
    pub(in crate::peers) fn info(&self) -> PeerTransactions {
        PeerTransactions {
            least_fee: self.least_fee,
            to_tell: self.waiting.len(),
            // As Core, which begins with the first number.
            told_before: self.told_before.max(1),
        }
    }

    /// Memory of the lists, in bytes.
    pub(in crate::peers) fn memory(&self) -> usize {
        let lists = [&self.waiting, &self.told, &self.announced];
        lists.iter().map(|list| list.capacity() * size_of::<EntryId>()).sum::<usize>()
            + self.heard.capacity() * size_of::<(EntryId, u32)>()
    }
}
