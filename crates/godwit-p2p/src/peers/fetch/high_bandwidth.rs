//! Which peers are asked to announce by compact blocks (high-bandwidth mode of BIP152).

use std::collections::VecDeque;

use super::state::Partial;
use crate::compact::{COMPACT_BLOCKS, PartialBlock};
use crate::download::Downloads;
use crate::message::Message;
use crate::peer_id::PeerId;
use crate::peers::action::NetCommand;
use crate::peers::context::Context;
use crate::peers::table::PeerTable;

/// Most peers that announce by compact blocks (Core: 3). Each can make us hold one partial block.
const MAX_HIGH_BANDWIDTH: usize = 3;

/// Peers asked to announce by compact blocks.
#[derive(Default)]
pub(super) struct HighBandwidth {
    /// The one that was selected the longest time ago first.
    peers: VecDeque<PeerId>,
}

impl HighBandwidth {
    pub(super) fn remove(&mut self, id: PeerId) {
        self.peers.retain(|&other| other != id);
    }

    /// The peer was the first to deliver the new tip: asks it to announce the next one by a compact
    /// block (Core `MaybeSetPeerAsAnnouncingHeaderAndIDs`). Inbound peers do not displace the last
    /// outbound one.
    pub(super) fn select(&mut self, cx: &mut Context<'_>, downloads: &Downloads, id: PeerId) {
        let Some(peer) = cx.table.get(id).filter(|peer| peer.handshake.provides_compact) else {
            return;
        };
        let inbound = peer.inbound();
        if let Some(place) = self.peers.iter().position(|&other| other == id) {
            self.peers.remove(place);
            self.peers.push_back(id);
            return;
        }
        if inbound && self.peers.len() >= MAX_HIGH_BANDWIDTH {
            let outbound = |id: &PeerId| cx.table.get(*id).is_some_and(|peer| !peer.inbound());
            let number = self.peers.iter().filter(|id| outbound(id)).count();
            if number == 1 && self.peers.front().is_some_and(outbound) {
                self.peers.swap(0, 1);
            }
        }
        ask_to_announce(cx, downloads, id, true);
        self.peers.push_back(id);
        if self.peers.len() > MAX_HIGH_BANDWIDTH
            && let Some(oldest) = self.peers.pop_front()
        {
            ask_to_announce(cx, downloads, oldest, false);
        }
    }
}

fn ask_to_announce(cx: &mut Context<'_>, downloads: &Downloads, id: PeerId, announce: bool) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    peer.fetch.selected = announce;
    cx.out.push(NetCommand::ExpectCompact { peer: id, expected: announce });
    if !announce {
        drop_partials(cx.table, downloads, |peer, _| peer == id);
    }
    cx.send(id, &Message::SendCmpct { announce, version: COMPACT_BLOCKS });
}

/// Drops partial blocks at or below the tip's height, which are of no more use.
pub(super) fn drop_old_partials(cx: &mut Context<'_>, downloads: &Downloads) {
    let tip = cx.index.get(cx.index.tip()).height;
    let index = cx.index;
    drop_partials(cx.table, downloads, |_, partial| {
        let parent = index.find(&partial.header().prev_blockhash);
        parent.is_some_and(|parent| index.get(parent).height < tip)
    });
}

/// Drops partial blocks, except those whose transactions are in flight.
fn drop_partials(
    table: &mut PeerTable,
    downloads: &Downloads,
    useless: impl Fn(PeerId, &PartialBlock) -> bool,
) {
    for peer in table.iter_mut() {
        let id = peer.id;
        let partial = &mut peer.fetch.partial;
        let waits = matches!(partial, Partial::Requested(_));
        let drop = partial.block().is_some_and(|block| {
            useless(id, block) && !(waits && downloads.is_requested(id, &block.hash()))
        });
        if drop {
            *partial = Partial::None;
        }
    }
}
