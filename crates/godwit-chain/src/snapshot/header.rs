//! How a snapshot begins, and whether the coins of its block can be loaded.

use godwit_primitives::BlockHash;
use godwit_store::{AssumedSnapshot, ChainPoint};
use godwit_stream::{DecodeError, SpanReader};

use crate::chain::Chain;
use crate::tree::NodeId;

pub(super) const MAGIC: [u8; 5] = *b"utxo\xff";
pub(super) const VERSION: u16 = 2;

/// What a snapshot says of itself (Core `node/utxo_snapshot.h`, `SnapshotMetadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The block whose coins it holds.
    pub base: BlockHash,
    /// Number of coins.
    pub coins: u64,
}

/// Why bytes are not the beginning of a snapshot of this network; found in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// There are too few of them.
    CutOff,
    Magic,
    /// An unknown version.
    Version(u16),
    /// The message start of another network.
    OtherNetwork([u8; 4]),
}

impl From<DecodeError> for HeaderFault {
    fn from(_: DecodeError) -> Self {
        Self::CutOff
    }
}

impl SnapshotHeader {
    /// Its length in bytes.
    pub const SIZE: usize = 51;

    /// Reads it from the first [`SIZE`](Self::SIZE) bytes of a file, or all where it has fewer. `magic` is
    /// the message start of this node's network.
    ///
    /// # Errors
    ///
    /// They begin no snapshot, or one of another network.
    pub fn parse(bytes: &[u8], magic: [u8; 4]) -> Result<Self, HeaderFault> {
        let mut header = SpanReader::new(&bytes[..bytes.len().min(Self::SIZE)]);
        if header.array()? != MAGIC {
            return Err(HeaderFault::Magic);
        }
        let version = header.u16()?;
        if version != VERSION {
            return Err(HeaderFault::Version(version));
        }
        let network = header.array()?;
        if network != magic {
            return Err(HeaderFault::OtherNetwork(network));
        }
        Ok(Self { base: header.get()?, coins: header.u64()? })
    }
}

/// Why the coins of a block cannot be loaded; found in this order (Core `ActivateSnapshot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseFault {
    /// Its coins were loaded before, and the history below is not validated yet.
    AlreadyLoaded(AssumedSnapshot),
    /// Its header is not known.
    Unknown,
    /// It or an ancestor is invalid.
    Invalid,
    /// A chain of headers that does not contain it has more work: the best header of that chain.
    NotInBestChain(ChainPoint),
    /// The chain has at least as much work as the block, or a stored branch has more and would replace it
    /// at once: its last block.
    NotAhead(ChainPoint),
}

/// Whether the coins of a block can be loaded into this chain, whatever they are.
///
/// # Errors
///
/// They cannot: they are loaded already, or the chain would not be ahead, or would be left at once.
pub fn check_snapshot_base(chain: &Chain, base: &BlockHash) -> Result<(), BaseFault> {
    find_base(chain, base).map(drop)
}

pub(super) fn find_base(chain: &Chain, hash: &BlockHash) -> Result<NodeId, BaseFault> {
    let (index, tree) = (&chain.index, chain.index.tree());
    if let Some(assumed) = index.assumed().filter(|assumed| assumed.base.hash == *hash) {
        return Err(BaseFault::AlreadyLoaded(*assumed));
    }
    let base = tree.find(hash).ok_or(BaseFault::Unknown)?;
    if index.node(base).failed {
        return Err(BaseFault::Invalid);
    }
    let best = tree.best_header();
    if !tree.is_ancestor(base, best) {
        return Err(BaseFault::NotInBestChain(index.point(best)));
    }
    let work = tree.chain_work(base);
    if work <= tree.chain_work(index.tip()) {
        return Err(BaseFault::NotAhead(index.point(index.tip())));
    }
    if let Some(stored) = index.best()
        && tree.chain_work(stored) > work
        && !tree.is_ancestor(base, stored)
    {
        return Err(BaseFault::NotAhead(index.point(stored)));
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

    fn good() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&NETWORK);
        bytes.extend_from_slice(&[7; 32]);
        bytes.extend_from_slice(&200_u64.to_le_bytes());
        bytes
    }

    #[test]
    fn a_header_is_read_and_what_is_none_is_told_in_cores_order() {
        let (good, read) = (good(), |bytes: &[u8]| SnapshotHeader::parse(bytes, NETWORK));
        assert_eq!(good.len(), SnapshotHeader::SIZE);
        let expected = SnapshotHeader { base: BlockHash::from_bytes([7; 32]), coins: 200 };
        assert_eq!(read(&good), Ok(expected));
        assert_eq!(read(&[&good[..], &[9; 5]].concat()), Ok(expected));
        // What is wrong is said as soon as its bytes are there.
        let firsts = [
            (0, 5, HeaderFault::Magic),
            (5, 7, HeaderFault::Version(u16::from_le_bytes([VERSION as u8 ^ 1, 0]))),
            (7, 11, HeaderFault::OtherNetwork([NETWORK[0] ^ 1, 0xbf, 0xb5, 0xda])),
        ];
        for (at, end, fault) in firsts {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert_eq!(read(&bytes), Err(fault), "{at}");
            assert_eq!(read(&bytes[..end]), Err(fault), "{at}");
            assert_eq!(read(&bytes[..end - 1]), Err(HeaderFault::CutOff), "{at}");
        }
        assert_eq!(read(&good[..SnapshotHeader::SIZE - 1]), Err(HeaderFault::CutOff));
        assert_eq!(read(&[]), Err(HeaderFault::CutOff));
    }
}
