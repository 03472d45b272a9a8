//! Checks whether the chain up to the tip can be handed over: Core takes every block of it for valid, and
//! looks for its data and its undo record unless blocks were pruned.

use godwit_primitives::BlockHash;
use godwit_store::{BlockRecord, BlockStatus, ChainPoint};

use crate::error::{HandOverError, Missing};

/// What `block` lacks as part of the chain. `is_pruned` says that files of this directory were deleted.
fn missing(block: &BlockRecord, is_pruned: bool) -> Option<Missing> {
    let status = block.status;
    if block.tx_count == 0 {
        return Some(Missing::Transactions);
    }
    if !status.contains(BlockStatus::SCRIPTS) || status.contains(BlockStatus::FAILED) {
        return Some(Missing::Validation);
    }
    match (block.position, block.undo) {
        (None, _) if !is_pruned => Some(Missing::Data),
        (Some(_), None) => Some(Missing::Undo),
        _ => None,
    }
}

struct Link {
    hash: BlockHash,
    prev: BlockHash,
    height: u32,
    missing: Option<Missing>,
}

/// The blocks of the index, of which only those up to the tip are checked.
pub(crate) struct Links {
    is_pruned: bool,
    links: Vec<Link>,
}

impl Links {
    /// `is_pruned` says that files of this directory were deleted.
    pub(crate) fn new(is_pruned: bool) -> Self {
        Self { is_pruned, links: Vec::new() }
    }

    pub(crate) fn add(&mut self, hash: BlockHash, block: &BlockRecord) {
        let (prev, height) = (block.header.prev_blockhash, block.height);
        let missing = missing(block, self.is_pruned);
        self.links.push(Link { hash, prev, height, missing });
    }

    /// Follows the chain from `tip` to `genesis`, which the index does not have.
    pub(crate) fn check(
        mut self,
        tip: ChainPoint,
        genesis: BlockHash,
    ) -> Result<(), HandOverError> {
        // Sorted like this, every parent comes after its children, so that one pass meets the whole chain.
        self.links.sort_unstable_by_key(|link| std::cmp::Reverse(link.height));
        let ChainPoint { mut hash, mut height } = tip;
        for link in &self.links {
            if (link.hash, link.height) != (hash, height) {
                continue;
            }
            if let Some(missing) = link.missing {
                return Err(HandOverError::Incomplete {
                    block: ChainPoint { hash, height },
                    missing,
                });
            }
            (hash, height) = (link.prev, height.saturating_sub(1));
        }
        match (hash, height) == (genesis, 0) {
            true => Ok(()),
            false => {
                let block = ChainPoint { hash, height };
                Err(HandOverError::Incomplete { block, missing: Missing::Header })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::{Network, Params};
    use godwit_store::{BlockPosition, UndoPosition};

    use super::*;

    const TIP: u32 = 5;

    fn hash(height: u32) -> BlockHash {
        BlockHash::from_bytes([height as u8; 32])
    }

    fn record(height: u32) -> BlockRecord {
        let mut header = Params::new(Network::Regtest).genesis;
        header.prev_blockhash = hash(height - 1);
        BlockRecord {
            header,
            height,
            status: BlockStatus::STRUCTURED | BlockStatus::SCRIPTS,
            tx_count: 1,
            sequence: height.into(),
            position: Some(BlockPosition { file: 0, offset: 8, len: 100 }),
            checksum: None,
            undo: Some(UndoPosition { file: 0, offset: 8, len: 1 }),
        }
    }

    /// The result for a chain, in no order, in which `change` alters the block at `height`: what is missing,
    /// and where.
    fn found(
        is_pruned: bool,
        height: u32,
        change: impl Fn(&mut BlockRecord),
    ) -> Option<(u32, Missing)> {
        let mut links = Links::new(is_pruned);
        for at in [3, 1, 5, 2, 4, 6] {
            let mut block = record(at);
            if at == height {
                change(&mut block);
            }
            links.add(hash(at), &block);
        }
        // A block of another branch needs none of this.
        let header_alone = BlockRecord { status: BlockStatus::HEADER, tx_count: 0, ..record(3) };
        links.add(hash(99), &BlockRecord { position: None, undo: None, ..header_alone });
        match links.check(ChainPoint { hash: hash(TIP), height: TIP }, hash(0)) {
            Ok(()) => None,
            Err(HandOverError::Incomplete { block, missing }) => {
                assert_eq!(block.hash, hash(block.height));
                Some((block.height, missing))
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn each_block_up_to_the_tip_has_to_be_complete() {
        for is_pruned in [false, true] {
            assert_eq!(found(is_pruned, 0, |_| {}), None);
            for height in [1, 3, TIP] {
                let found = |change: fn(&mut BlockRecord)| found(is_pruned, height, change);
                let wants = |missing| Some((height, missing));
                let unverified = found(|block| block.status = BlockStatus::STRUCTURED);
                assert_eq!(unverified, wants(Missing::Validation));
                let failed = found(|block| block.status = block.status | BlockStatus::FAILED);
                assert_eq!(failed, wants(Missing::Validation));
                assert_eq!(found(|block| block.tx_count = 0), wants(Missing::Transactions));
                assert_eq!(found(|block| block.undo = None), wants(Missing::Undo));
                let lost = found(|block| (block.position, block.undo) = (None, None));
                assert_eq!(lost, if is_pruned { None } else { wants(Missing::Data) });
            }
            // Blocks above the tip need nothing.
            assert_eq!(found(is_pruned, TIP + 1, |block| block.tx_count = 0), None);
        }
    }

    #[test]
    fn a_chain_without_one_of_its_blocks_is_incomplete() {
        for absent in 1..=TIP {
            // The block's entry has a height at which the chain does not look for it.
            let found = found(false, absent, |block| block.height += 100);
            assert_eq!(found, Some((absent, Missing::Header)));
        }
    }
}
