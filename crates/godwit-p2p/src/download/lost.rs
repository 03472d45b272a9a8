//! Blocks that the chain had stored and that its disk has damaged, and those that the operator wants: they
//! are asked for by their hashes, wherever in the chain they are, beside the windows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use godwit_primitives::BlockHash;
use log::warn;

use super::Downloads;
use super::assign::LIMITED_REQUESTED;
use super::peer::{Peer, Purpose};
use crate::index::{HeaderId, HeaderIndex, is_ancestor};
use crate::peer_id::PeerId;
use crate::time::Now;

/// Lost blocks in flight at once: a damaged disk is no reason to keep a sync waiting.
const LOST_IN_FLIGHT: usize = 4;

/// Lost blocks that are looked at in a turn: where block files are gone, there are some 100,000.
const LOST_LOOKED_AT: usize = 64;

/// Silence about a lost block after which another peer is asked as well. A full block takes this long at
/// 35 kB a second.
pub(super) const LOST_DEADLINE: Duration = Duration::from_secs(120);

/// How often it is said that lost blocks have not come.
const LOST_REMINDER: Duration = Duration::from_secs(600);

/// A peer that is to be asked.
struct Chosen {
    peer: PeerId,
    purpose: Purpose,
}

/// A block that is wanted again.
#[derive(Debug, Default)]
struct LostBlock {
    /// Its place among the turns.
    turn: u64,
    /// The peer that was asked last, and when.
    last: Option<PeerId>,
    asked: Option<Duration>,
    /// It was lost already when the time to the next reminder began.
    is_old: bool,
}

/// The lost blocks.
#[derive(Debug, Default)]
pub(crate) struct LostBlocks {
    blocks: BTreeMap<BlockHash, LostBlock>,
    /// The blocks in the order in which they are looked at.
    turns: BTreeMap<u64, BlockHash>,
    next_turn: u64,
    /// Those that were asked for a short time ago: at most [`LOST_IN_FLIGHT`].
    flying: Vec<BlockHash>,
    /// When it is said next of what has not come that it has not.
    reminder: Option<Duration>,
}

impl LostBlocks {
    pub(crate) fn add(&mut self, hash: BlockHash) {
        if let Entry::Vacant(entry) = self.blocks.entry(hash) {
            entry.insert(LostBlock { turn: self.next_turn, ..LostBlock::default() });
            self.turns.insert(self.next_turn, hash);
            self.next_turn += 1;
        }
    }

    pub(crate) fn remove(&mut self, hash: &BlockHash) {
        if let Some(lost) = self.blocks.remove(hash) {
            self.turns.remove(&lost.turn);
        }
        if self.blocks.is_empty() {
            self.reminder = None;
        }
    }

    /// New requests. Each block is asked of one peer after the other, those of the active chain first, and
    /// then the one first that was not asked for the longest: blocks that nobody sends keep no other
    /// waiting. Of very many blocks that holds among those that are looked at together.
    pub(crate) fn schedule(
        &mut self,
        downloads: &mut Downloads,
        now: Now,
        index: &dyn HeaderIndex,
    ) -> Vec<(PeerId, BlockHash)> {
        if self.blocks.is_empty() {
            return Vec::new();
        }
        let now = downloads.clock.advance(now);
        if let Some(reminder) = self.remind(index, now) {
            warn!("{reminder}");
        }
        let is_lost = |hash: &BlockHash| self.blocks.contains_key(hash);
        self.flying.retain(|hash| is_lost(hash) && is_in_flight(downloads, hash, now));
        let mut requests = Vec::new();
        if self.flying.len() >= LOST_IN_FLIGHT {
            return requests;
        }
        for (hash, id) in self.in_turn(downloads, index, now) {
            if self.flying.len() >= LOST_IN_FLIGHT {
                break;
            }
            let Some(lost) = self.blocks.get_mut(&hash) else { continue };
            let chosen = choose(downloads, index, hash, id, lost.last, now);
            let Some(Chosen { peer, purpose }) = chosen else { continue };
            downloads.ask(peer, id, hash, index.get(id).height, purpose, now);
            (lost.last, lost.asked) = (Some(peer), Some(now));
            self.flying.push(hash);
            requests.push((peer, hash));
        }
        requests
    }

    /// What to say, from time to time, of blocks that have not come for long: in one line, however many they
    /// are.
    pub(super) fn remind(&mut self, index: &dyn HeaderIndex, now: Duration) -> Option<String> {
        if self.reminder.is_some_and(|due| now < due) {
            return None;
        }
        self.reminder = Some(now + LOST_REMINDER);
        let old = || self.blocks.iter().filter(|(_, lost)| lost.is_old).map(|(hash, _)| hash);
        let count = old().count();
        let named = old().find_map(|hash| Some((hash, index.get(index.find(hash)?).height)));
        let reminder = named.map(|(hash, height)| match count {
            1 => format!(
                "No peer has sent block {hash} at height {height}, which is damaged or missing here: what \
                 needs it waits."
            ),
            _ => format!(
                "No peer has sent {count} blocks that are damaged or missing here, such as {hash} at height \
                 {height}: what needs them waits."
            ),
        });
        self.blocks.values_mut().for_each(|lost| lost.is_old = true);
        reminder
    }

    /// The next blocks that are not in flight, in the order in which they are to be asked for. It is the turn
    /// of others then.
    fn in_turn(
        &mut self,
        downloads: &Downloads,
        index: &dyn HeaderIndex,
        now: Duration,
    ) -> Vec<(BlockHash, HeaderId)> {
        let ends = [index.tip(), index.best_header()];
        let is_active = |id| ends.iter().any(|end| is_ancestor(index, id, *end));
        let mut waiting = Vec::new();
        for _ in 0..self.turns.len().min(LOST_LOOKED_AT) {
            let Some((_, hash)) = self.turns.pop_first() else { break };
            let lost = self.blocks.get_mut(&hash).expect("each turn is of a lost block");
            lost.turn = self.next_turn;
            self.turns.insert(self.next_turn, hash);
            self.next_turn += 1;
            if let Some(id) = index.find(&hash)
                && !is_in_flight(downloads, &hash, now)
            {
                waiting.push((hash, id, lost.asked));
            }
        }
        waiting.sort_by_cached_key(|(hash, id, asked)| (!is_active(*id), *asked, *hash));
        waiting.into_iter().map(|(hash, id, _)| (hash, id)).collect()
    }
}

/// Notes that a peer is asked for a block because the operator wants that; whether it can be asked.
pub(crate) fn ask_for(
    downloads: &mut Downloads,
    peer: PeerId,
    id: HeaderId,
    hash: BlockHash,
    index: &dyn HeaderIndex,
    now: Now,
) -> bool {
    let now = downloads.clock.advance(now);
    let Some(state) = downloads.peers.get_mut(&peer) else { return false };
    if let Some(position) = state.position(&hash) {
        if state.queue[position].purpose != Purpose::Favour {
            return false;
        }
        // Of a block that it does not have Core says nothing, and by now the peer may have it.
        state.forget(&hash, now, downloads.link.delivered);
        downloads.update(hash, |block| block.copies.retain(|copy| *copy != peer));
    }
    downloads.ask(peer, id, hash, index.get(id).height, Purpose::Favour, now);
    true
}

/// Whether the block is being judged, or was asked for a short time ago.
fn is_in_flight(downloads: &Downloads, hash: &BlockHash, now: Duration) -> bool {
    downloads.blocks.get(hash).is_some_and(|block| {
        block.has_arrived() || block.is_pending() && now.saturating_sub(block.asked) < LOST_DEADLINE
    })
}

/// The peer to be asked for the block next: one that has it. Where none is left, as of a block that the best
/// chain has left, any that keeps all blocks may: Core sends one of another chain for a month.
fn choose(
    downloads: &Downloads,
    index: &dyn HeaderIndex,
    hash: BlockHash,
    id: HeaderId,
    last: Option<PeerId>,
    now: Duration,
) -> Option<Chosen> {
    let height = index.get(id).height;
    let block = downloads.blocks.get(&hash);
    let is_free = |(peer, state): &(&PeerId, &Peer)| {
        (state.traits.witness || height < downloads.segwit_height)
            && !state.is_resting(now)
            && block.is_none_or(|block| block.may_be_asked_of(**peer, now))
    };
    let next = |suits: &dyn Fn(&Peer) -> bool| {
        let free = || downloads.peers.iter().filter(is_free).filter(|(_, state)| suits(state));
        let mut peers = free().map(|(peer, _)| *peer);
        peers
            .find(|peer| last.is_none_or(|last| *peer > last))
            .or(free().map(|(peer, _)| *peer).next())
    };
    let has = |peer: &Peer| has_block(index, peer, id);
    let may_have = |peer: &Peer| !peer.traits.limited && height <= best_height(index, peer);
    let known = next(&has).map(|peer| Chosen { peer, purpose: Purpose::Lost });
    known.or_else(|| next(&may_have).map(|peer| Chosen { peer, purpose: Purpose::Favour }))
}

/// Whether the peer has the block, as far as it is known.
fn has_block(index: &dyn HeaderIndex, peer: &Peer, id: HeaderId) -> bool {
    let height = index.get(id).height;
    peer.best_known.is_some_and(|best| is_ancestor(index, id, best))
        && (!peer.traits.limited || height + LIMITED_REQUESTED > best_height(index, peer))
}

fn best_height(index: &dyn HeaderIndex, peer: &Peer) -> u32 {
    peer.best_known.map_or(0, |best| index.get(best).height)
}
