//! Senders of the blocks that are not connected yet.

use std::collections::{BTreeMap, BTreeSet};

use godwit_primitives::BlockHash;

use crate::peer_id::PeerId;
use crate::services::NETWORK_LIMITED_MIN_BLOCKS;

/// Most blocks whose sender is remembered. The download window, and with it the blocks that wait to
/// be connected, is not larger; the others are of side branches that are never connected.
const MAX_SOURCES: usize = 4_096;

/// How far below the tip senders are remembered: a branch from there may still be connected, since
/// all peers have the blocks.
const SOURCE_DEPTH: u32 = NETWORK_LIMITED_MIN_BLOCKS;

/// Senders of blocks that are not connected yet, by hash (Core `mapBlockSource`).
#[derive(Default)]
pub(super) struct BlockSources {
    by_hash: BTreeMap<BlockHash, Sender>,
    by_height: BTreeSet<(u32, BlockHash)>,
}

/// The sender of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) peer: PeerId,
    pub(super) height: u32,
    pub(super) via_compact_block: bool,
}

impl BlockSources {
    /// Remembers a sender, unless one is remembered: the first one counts, as in Core.
    pub(super) fn insert(&mut self, hash: BlockHash, sender: Sender) {
        if self.by_hash.contains_key(&hash) {
            return;
        }
        self.by_hash.insert(hash, sender);
        self.by_height.insert((sender.height, hash));
        if self.by_hash.len() > MAX_SOURCES
            && let Some((_, lowest)) = self.by_height.pop_first()
        {
            self.by_hash.remove(&lowest);
        }
    }

    pub(super) fn remove(&mut self, hash: &BlockHash) -> Option<Sender> {
        let sender = self.by_hash.remove(hash)?;
        self.by_height.remove(&(sender.height, *hash));
        Some(sender)
    }

    pub(super) fn get(&self, hash: &BlockHash) -> Option<Sender> {
        self.by_hash.get(hash).copied()
    }

    /// Forgets blocks too far below the tip to be connected.
    pub(super) fn forget_below(&mut self, tip_height: u32) {
        let lowest = (tip_height.saturating_sub(SOURCE_DEPTH), BlockHash::ZERO);
        let kept = self.by_height.split_off(&lowest);
        for (_, hash) in std::mem::replace(&mut self.by_height, kept) {
            self.by_hash.remove(&hash);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_hash.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u32) -> BlockHash {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        BlockHash::from_bytes(bytes)
    }

    #[test]
    fn senders_are_bounded_and_the_lowest_are_forgotten_first() {
        let mut sources = BlockSources::default();
        let sender = |height| Sender { peer: PeerId(1), height, via_compact_block: false };
        for n in 0..2 * MAX_SOURCES as u32 {
            sources.insert(hash(n), sender(n));
            assert!(sources.len() <= MAX_SOURCES);
        }
        assert!(sources.get(&hash(MAX_SOURCES as u32 - 1)).is_none());
        assert!(sources.get(&hash(MAX_SOURCES as u32)).is_some());
        let tip = 2 * MAX_SOURCES as u32 - 1;
        sources.forget_below(tip);
        assert_eq!(sources.len(), SOURCE_DEPTH as usize + 1);
        assert!(sources.remove(&hash(tip)).is_some() && sources.remove(&hash(tip)).is_none());
        assert_eq!(sources.by_height.len(), sources.len());
    }

    #[test]
    fn the_first_sender_is_remembered() {
        let mut sources = BlockSources::default();
        for peer in 1..3 {
            let sender = Sender { peer: PeerId(peer), height: 1, via_compact_block: false };
            sources.insert(hash(1), sender);
        }
        assert_eq!(sources.get(&hash(1)).map(|sender| sender.peer), Some(PeerId(1)));
    }
}
