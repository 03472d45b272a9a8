use godwit_primitives::BlockHeader;
use proptest::prelude::*;

use super::*;

fn node(seed: u64, at: Option<(u32, u32, u32)>, undo: Option<(u64, u32)>) -> Node {
    let byte = seed as u8;
    Node {
        header: BlockHeader {
            version: seed as i32,
            prev_blockhash: BlockHash::from_bytes([byte; 32]),
            merkle_root: MerkleRoot::from_bytes([byte ^ 1; 32]),
            time: (seed >> 8) as u32,
            bits: (seed >> 16) as u32,
            nonce: (seed >> 24) as u32,
        },
        hash: BlockHash::from_bytes([byte ^ 2; 32]),
        height: (seed >> 12) as u32,
        validity: [Validity::Header, Validity::Structured, Validity::Scripts][seed as usize % 3],
        failed: seed & 8 != 0,
        tx_count: (seed >> 40) as u32 & 0xf_ffff,
        chain_tx_count: seed >> 24,
        sequence: seed >> 32,
        position: at.map(|(file, offset, len)| BlockPosition { file, offset, len }),
        checksum: (seed & 2 == 0).then(|| BlockChecksum::of(&seed.to_le_bytes())),
        undo: undo.map(|(offset, len)| UndoPosition { file: at.map_or(7, |at| at.0), offset, len }),
        parent: (seed & 1 == 0).then_some(NodeId((seed >> 3) as u32)),
    }
}

fn pack(node: &Node) -> Option<Packed> {
    let mut packed = Packed::new(&node.header, node.hash, node.height, node.parent, None);
    packed.set_block(node)?;
    Some(packed)
}

fn unpacked(packed: &Packed, node: &Node) -> Node {
    packed.unpack(node.header.prev_blockhash)
}

proptest! {
    #[test]
    fn a_node_comes_out_as_it_went_in(
        seed in any::<u64>(),
        at in proptest::option::of((any::<u32>(), any::<u32>(), 1u32..1 << 22)),
        undo in proptest::option::of((0u64..1 << 36, 1u32..1 << 28)),
    ) {
        let node = node(seed, at, undo);
        let mut packed = pack(&node).unwrap();
        prop_assert_eq!(unpacked(&packed, &node), node);
        prop_assert!(!packed.set_dirty());
        prop_assert!(packed.set_dirty());
        prop_assert_eq!(unpacked(&packed, &node), node);
        prop_assert_eq!((packed.failed(), packed.is_stored()), (node.failed, at.is_some()));
        prop_assert!(packed.is_dirty() && !packed.is_named());
        packed.clear_dirty();
        packed.set_named();
        prop_assert!(!packed.is_dirty());
        prop_assert_eq!(packed.set_block(&node), Some(()));
        prop_assert!(packed.is_named());
        prop_assert_eq!(unpacked(&packed, &node), node);
        prop_assert!(!packed.set_dirty());
    }
}

#[test]
fn the_largest_that_exists_fits_and_one_more_than_the_bound_does_not() {
    let (at, undo) = (Some((u32::MAX, u32::MAX, 4_000_000)), Some((33 << 30, 245 << 20)));
    let largest = Node { tx_count: 66_666, sequence: u32::MAX.into(), ..node(0, at, undo) };
    let largest = Node { chain_tx_count: 1 << 39, ..largest };
    assert_eq!(unpacked(&pack(&largest).unwrap(), &largest), largest);
    let position = |len| Some(BlockPosition { file: 3, offset: 8, len });
    let undo = |file, offset, len| Some(UndoPosition { file, offset, len });
    let node = Node { position: position(1), undo: undo(3, 0, 1), ..largest };
    for (fits, node) in [
        (true, Node { position: position((1 << 22) - 1), ..node }),
        (false, Node { position: position(1 << 22), ..node }),
        (true, Node { undo: undo(3, (1 << 36) - 1, 1), ..node }),
        (false, Node { undo: undo(3, 1 << 36, 1), ..node }),
        (true, Node { undo: undo(3, 0, (1 << 28) - 1), ..node }),
        (false, Node { undo: undo(3, 0, 1 << 28), ..node }),
        (false, Node { undo: undo(4, 0, 1), ..node }),
        (true, Node { tx_count: (1 << 20) - 1, ..node }),
        (false, Node { tx_count: 1 << 20, ..node }),
        (true, Node { chain_tx_count: (1 << 40) - 1, ..node }),
        (false, Node { chain_tx_count: 1 << 40, ..node }),
        (false, Node { sequence: 1 << 32, ..node }),
    ] {
        let packed = pack(&node);
        assert_eq!(packed.is_some(), fits, "{node:?}");
        assert!(packed.is_none_or(|packed| unpacked(&packed, &node) == node));
    }
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let before = node(12, Some((1, 2, 3)), Some((4, 5)));
    let mut packed = pack(&before).unwrap();
    assert!(
        packed.set_block(&Node { tx_count: 1 << 20, failed: !before.failed, ..before }).is_none()
    );
    assert!(packed.set_block(&Node { sequence: 1 << 32, tx_count: 9, ..before }).is_none());
    assert_eq!(unpacked(&packed, &before), before);
}
