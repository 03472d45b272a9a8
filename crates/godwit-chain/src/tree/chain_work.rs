//! The total work of each header's chain: stored for one height in [`SPACING`], and added up from there for
//! the others.

use godwit_primitives::{Work, work};

use super::packed::Packed;
use super::{NodeId, Nodes};

/// Heights from one kept total to the next.
const SPACING: u32 = 64;

/// Totals by node, little-endian: the alignment of a number would make 48 bytes of 36. A node is added
/// after all that are in the tree, so they are in order.
#[derive(Debug, Default)]
pub(super) struct ChainWork {
    kept: Vec<(NodeId, [u8; 32])>,
    /// The node that was added last, and its total: headers mostly come one upon the other.
    last: Option<(NodeId, Work)>,
}

impl ChainWork {
    /// Adds up the total of `id`, which was just added to `nodes`.
    pub(super) fn add(&mut self, nodes: &Nodes, id: NodeId) {
        let node = nodes.get(id);
        // An overflow of the total would need 2^256 hashes.
        let below = node.parent().map_or(Work::ZERO, |parent| self.of(nodes, parent));
        let total = below + work::block_proof(node.bits);
        if node.height.is_multiple_of(SPACING) {
            self.kept.push((id, total.to_le_bytes()));
        }
        self.last = Some((id, total));
    }

    /// The total of `id`.
    pub(super) fn of(&self, nodes: &Nodes, id: NodeId) -> Work {
        let (mut walk, mut above) = (id, Proofs::default());
        loop {
            if let Some((last, total)) = self.last
                && last == walk
            {
                return total + above.sum();
            }
            let node = nodes.get(walk);
            if node.height.is_multiple_of(SPACING) {
                let place = self.kept.binary_search_by_key(&walk, |(id, _)| *id);
                let (_, total) = self.kept[place.expect("kept at these heights")];
                return Work::from_le_bytes(total) + above.sum();
            }
            above.add(node);
            walk = node.parent().expect("the height of genesis is kept");
        }
    }

    /// Bytes of memory, spare room included.
    pub(super) fn memory(&self) -> usize {
        self.kept.capacity() * size_of::<(NodeId, [u8; 32])>()
    }
}

/// A sum of the work of blocks. Most neighbours have the same target, and its work costs a division.
#[derive(Default)]
struct Proofs {
    sum: Work,
    bits: u32,
    count: u32,
}

impl Proofs {
    fn add(&mut self, node: &Packed) {
        if node.bits != self.bits {
            *self = Self { sum: std::mem::take(self).sum(), bits: node.bits, count: 0 };
        }
        self.count += 1;
    }

    fn sum(self) -> Work {
        match self.count {
            0 => self.sum,
            count => self.sum + work::block_proof(self.bits) * Work::from(count),
        }
    }
}
