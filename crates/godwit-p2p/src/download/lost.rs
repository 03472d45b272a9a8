//! Blocks that the chain had stored and that its disk has damaged: they are asked for by their hashes,
//! wherever in the chain they are, beside the windows.

use std::collections::BTreeMap;

use godwit_primitives::BlockHash;

use super::Downloads;
use super::assign::LIMITED_REQUESTED;
use super::peer::Peer;
use crate::index::{HeaderId, HeaderIndex, is_ancestor};
use crate::peer_id::PeerId;
use crate::time::Now;

/// Lost blocks in flight at once: a damaged disk is no reason to keep a sync waiting.
const LOST_IN_FLIGHT: usize = 4;

/// The lost blocks, each with the peer that was asked last.
#[derive(Debug, Default)]
pub(crate) struct LostBlocks {
    blocks: BTreeMap<BlockHash, Option<PeerId>>,
}

impl LostBlocks {
    pub(crate) fn add(&mut self, hash: BlockHash) {
        self.blocks.entry(hash).or_default();
    }

    pub(crate) fn remove(&mut self, hash: &BlockHash) {
        self.blocks.remove(hash);
    }

    /// New requests. Each block is asked of one peer after the other.
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
        let in_flight = |downloads: &Downloads, hash: &BlockHash| {
            downloads.blocks.get(hash).is_some_and(|block| !block.is_missing())
        };
        let mut flying = self.blocks.keys().filter(|hash| in_flight(downloads, hash)).count();
        let mut requests = Vec::new();
        for (hash, last) in &mut self.blocks {
            if flying >= LOST_IN_FLIGHT {
                break;
            }
            let Some(id) = index.find(hash).filter(|_| !in_flight(downloads, hash)) else {
                continue;
            };
            let serves = |(_, peer): &(&PeerId, &Peer)| serves(downloads, index, peer, id);
            let mut peers: Vec<PeerId> =
                downloads.peers.iter().filter(serves).map(|(peer, _)| *peer).collect();
            let block = downloads.blocks.get(hash);
            let may = |peer: &PeerId| block.is_none_or(|block| block.may_be_asked_of(*peer, now));
            peers.retain(may);
            let after = peers.iter().find(|peer| last.is_none_or(|last| **peer > last));
            let Some(peer) = after.or(peers.first()).copied() else { continue };
            downloads.ask(peer, id, *hash, index.get(id).height, now);
            *last = Some(peer);
            flying += 1;
            requests.push((peer, *hash));
        }
        requests
    }
}

/// Whether the peer has the block, as far as it is known.
fn serves(downloads: &Downloads, index: &dyn HeaderIndex, peer: &Peer, id: HeaderId) -> bool {
    let Some(best) = peer.best_known else { return false };
    let (height, best_height) = (index.get(id).height, index.get(best).height);
    is_ancestor(index, id, best)
        && (peer.traits.witness || height < downloads.segwit_height)
        && (!peer.traits.limited || height + LIMITED_REQUESTED > best_height)
        && !peer.is_resting(downloads.clock.time())
}
