//! Transaction relay: announces the transactions of the outbox, and sends each to the peers to which it was
//! announced.
//!
//! Peers are not asked for transactions, and their announcements are ignored: transactions come only from
//! this node's users. So every peer that hears of one knows that this node, or a user behind it, sent it; the
//! random delay of each peer only hides which peer heard first. `docs/peers.md` says so.
//!
//! Source: Core `net_processing.cpp` (`RelayTransaction`, `ReattemptInitialBroadcast`, `ProcessGetData`).

pub(super) mod state;

use std::sync::Arc;
use std::time::Duration;

use godwit_primitives::{Txid, Wtxid};
use rand::Rng;

use super::context::Context;
use super::peer::Peer;
use crate::connection_kind::ConnectionKind;
use crate::inventory::{Inventory, InventoryKind};
use crate::message::Message;
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::tx_outbox::{AGAIN_WHEN_FETCHED, EntryId};

/// Mean delays before a peer is told (Core `INBOUND_INVENTORY_BROADCAST_INTERVAL`,
/// `OUTBOUND_INVENTORY_BROADCAST_INTERVAL`).
const INBOUND_DELAY: f64 = 5.0;
const OUTBOUND_DELAY: f64 = 2.0;

/// Longest delay, in means.
const MOST_MEANS: f64 = 10.0;

/// Until a peer has asked for a transaction, those that were not told yet, for the fee that they wanted, are
/// looked at again after this long, and up to half as long more (Core `ReattemptInitialBroadcast`; nor does
/// Core tell a peer twice).
const AGAIN: Duration = Duration::from_secs(10 * 60);

/// A peer that comes so soon after the others were told is told as well, even if one of them has asked for
/// the transaction: that one may be alone, and keep it to itself. One that comes later is told only of what
/// nobody has asked for.
const NEWCOMERS: Duration = Duration::from_secs(15 * 60);

/// Whether a peer is told of transactions. Not over connections that are for blocks alone: these are to be
/// hard to find.
fn hears(peer: &Peer) -> bool {
    peer.established() && peer.hears_of_transactions() && peer.kind != ConnectionKind::AddrFetch
}

/// Tells peers what is due.
pub(super) fn maintain(cx: &mut Context<'_>) {
    if cx.tx_outbox.is_empty() {
        return;
    }
    for change in cx.tx_outbox.expire(cx.now) {
        cx.out.push(change);
    }
    let hearing: Vec<PeerId> =
        cx.table.iter().filter(|peer| hears(peer)).map(|peer| peer.id).collect();
    if hearing.is_empty() {
        return;
    }
    queue_due(cx, &hearing);
    for id in &hearing {
        queue_for_newcomer(cx, *id);
    }
    for id in hearing {
        tell(cx, id);
    }
}

fn queue_due(cx: &mut Context<'_>, hearing: &[PeerId]) {
    let now = cx.now.monotonic;
    let mut due = Vec::new();
    for (id, entry) in cx.tx_outbox.entries_mut() {
        if entry.block.is_some() || entry.due > now {
            continue;
        }
        if entry.was_fetched && !entry.due.is_zero() {
            entry.begin_round();
        }
        if entry.due.is_zero() {
            entry.round_began = Some(now);
        }
        let again = if entry.was_fetched { AGAIN_WHEN_FETCHED } else { AGAIN };
        entry.due = now + until_again(again, cx.rng);
        due.push((id, entry.round));
    }
    if due.is_empty() {
        return;
    }
    for id in hearing {
        let Some(peer) = cx.table.get_mut(*id) else { continue };
        let state = &mut peer.serving.transactions;
        for (entry, round) in &due {
            if state.heard.get(entry) != Some(round) && !state.waiting.contains(entry) {
                state.waiting.push(*entry);
            }
        }
    }
}

/// So long, and up to half as long more.
fn until_again(least: Duration, rng: &mut impl Rng) -> Duration {
    least.mul_f64(1.0 + rng.random::<f64>() / 2.0)
}

/// See [`NEWCOMERS`].
fn queue_for_newcomer(cx: &mut Context<'_>, id: PeerId) {
    let now = cx.now.monotonic;
    let Some(peer) = cx.table.get_mut(id) else { return };
    let state = &mut peer.serving.transactions;
    if std::mem::replace(&mut state.is_known, true) {
        return;
    }
    for (id, entry) in cx.tx_outbox.entries_mut() {
        let is_recent = entry.round_began.is_some_and(|began| now - began < NEWCOMERS);
        let is_told = entry.block.is_none() && (!entry.was_fetched || is_recent);
        if is_told && !state.waiting.contains(&id) {
            state.waiting.push(id);
        }
    }
}

/// A delay with this mean, in seconds, as of events that happen independently of each other.
fn drawn(rng: &mut impl Rng, mean: f64) -> Duration {
    let means = -(1.0 - rng.random::<f64>()).ln();
    Duration::from_secs_f64(mean * means.min(MOST_MEANS))
}

/// Tells a peer of what waits for it, when it is time.
fn tell(cx: &mut Context<'_>, id: PeerId) {
    let now = cx.now.monotonic;
    let Some(peer) = cx.table.get_mut(id) else { return };
    if peer.serving.transactions.waiting.is_empty() {
        return;
    }
    let mean = match peer.inbound() {
        // Nothing is hidden from whom the operator trusts.
        _ if peer.may(Permissions::NO_BAN) => 0.0,
        true => INBOUND_DELAY,
        false => OUTBOUND_DELAY,
    };
    let next = *peer.serving.transactions.next.get_or_insert_with(|| now + drawn(cx.rng, mean));
    if now < next {
        return;
    }
    let state = &mut peer.serving.transactions;
    state.next = None;
    state.told_before = cx.tx_outbox.next_sequence();
    let mut waiting = std::mem::take(&mut state.waiting);
    waiting.sort_unstable();
    let mut entries = Vec::new();
    // What it was told of and did not fetch is no longer there, or it has it.
    state.told.retain(|id| cx.tx_outbox.entry_mut(*id).is_some());
    state.announced.retain(|id| cx.tx_outbox.entry_mut(*id).is_some());
    state.heard.retain(|id, _| cx.tx_outbox.entry_mut(*id).is_some());
    for id in waiting {
        let Some(entry) = cx.tx_outbox.entry_mut(id) else { continue };
        let tx = &entry.tx;
        let pays = i128::from(tx.fee) * 1000 >= i128::from(state.least_fee) * i128::from(tx.vsize);
        if entry.block.is_some() || !pays {
            continue;
        }
        state.heard.insert(id, entry.round);
        entries.push(match state.by_wtxid {
            true => Inventory { kind: InventoryKind::WTX, hash: *tx.wtxid.as_bytes() },
            false => Inventory { kind: InventoryKind::TX, hash: *tx.txid.as_bytes() },
        });
        // Who lacks a parent asks for it by its txid, also where that one pays too little to be announced.
        state.offer(cx.tx_outbox.with_waiting_ancestors(id));
        if !state.announced.contains(&id) {
            state.announced.push(id);
        }
    }
    if !entries.is_empty() {
        cx.send(id, &Message::Inv(entries));
    }
}

/// Removes it; false where it is not there.
fn take(ids: &mut Vec<EntryId>, id: EntryId) -> bool {
    let place = ids.iter().position(|other| *other == id);
    place.map(|place| ids.swap_remove(place)).is_some()
}

/// Gives a peer a transaction that it was told of, or of a descendant, and asks for; false where there is
/// none such.
pub(super) fn give(cx: &mut Context<'_>, id: PeerId, wanted: &Inventory) -> bool {
    let found = match wanted.kind {
        InventoryKind::WTX => cx.tx_outbox.find_wtxid(&Wtxid::from_bytes(wanted.hash)),
        _ => cx.tx_outbox.find_txid(&Txid::from_bytes(wanted.hash)),
    };
    let Some(peer) = cx.table.get_mut(id) else { return false };
    let state = &mut peer.serving.transactions;
    // Once: the next announcement makes it available again.
    let Some(found) = found.filter(|found| take(&mut state.told, *found)) else { return false };
    if take(&mut state.announced, found) {
        // Core refuses a parent that pays too little, keeps the child that it fetches next as an orphan, and
        // asks for the parent again, to judge both (`TxDownloadManagerImpl::MempoolRejectedTx`). Only what
        // was announced itself brings its parents back: the requests for a chain remain bounded.
        let mut ancestors = cx.tx_outbox.with_waiting_ancestors(found);
        ancestors.remove(&found);
        state.offer(ancestors);
    }
    let Some(entry) = cx.tx_outbox.entry_mut(found) else { return false };
    // A round that is to begin does.
    if !entry.was_fetched && !entry.due.is_zero() {
        entry.due = cx.now.monotonic + until_again(AGAIN_WHEN_FETCHED, cx.rng);
    }
    let tx = Arc::clone(&entry.tx);
    cx.tx_outbox.note_fetched(found);
    cx.send_transaction(id, tx.view(), wanted.kind != InventoryKind::TX);
    true
}
