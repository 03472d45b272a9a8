use godwit_primitives::MerkleRoot;
use proptest::prelude::*;

use super::*;

const REGTEST_BITS: u32 = 0x207f_ffff;

fn header(parent: BlockHash, time: u32, nonce: u32) -> BlockHeader {
    BlockHeader {
        version: 1,
        prev_blockhash: parent,
        merkle_root: MerkleRoot::ZERO,
        time,
        bits: REGTEST_BITS,
        nonce,
    }
}

fn extend(tree: &mut HeaderTree, parent: NodeId, time: u32, nonce: u32) -> NodeId {
    let header = header(tree.node(parent).hash, time, nonce);
    tree.insert(header, header.block_hash(), parent)
}

fn naive_ancestor(tree: &HeaderTree, mut id: NodeId, height: u32) -> Option<NodeId> {
    while tree.node(id).height > height {
        id = tree.node(id).parent().unwrap();
    }
    (tree.node(id).height == height).then_some(id)
}

#[test]
fn skip_links_find_every_ancestor() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
    let mut tip = tree.genesis();
    for n in 1..=700 {
        tip = extend(&mut tree, tip, n, 0);
    }
    for height in 0..=700 {
        assert_eq!(tree.ancestor(tip, height), naive_ancestor(&tree, tip, height));
    }
    assert_eq!(tree.ancestor(tip, 701), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn forks_agree_with_walking(parents in proptest::collection::vec(any::<u16>(), 1..150)) {
        let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
        let mut ids = vec![tree.genesis()];
        for (n, pick) in parents.iter().enumerate() {
            let parent = ids[*pick as usize % ids.len()];
            ids.push(extend(&mut tree, parent, 1, n as u32 + 1));
        }
        let (a, b) = (ids[ids.len() / 2], ids[ids.len() - 1]);
        let chain = |mut id: NodeId| {
            let mut all = vec![id];
            while let Some(parent) = tree.node(id).parent() {
                all.push(parent);
                id = parent;
            }
            all
        };
        let of_b = chain(b);
        let naive = chain(a).into_iter().find(|id| of_b.contains(id));
        prop_assert_eq!(Some(tree.fork(a, b)), naive);
    }
}

#[test]
fn median_time_is_the_middle_of_eleven_and_of_fewer() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 50, 0));
    let one = extend(&mut tree, NodeId(0), 10, 0);
    assert_eq!(tree.median_time_past(NodeId(0)), 50);
    assert_eq!(tree.median_time_past(one), 50);
    let mut tip = one;
    for time in [20, 30, 40, 60, 70, 80, 90, 100, 110, 120] {
        tip = extend(&mut tree, tip, time, 0);
    }
    assert_eq!(tree.node(tip).height, 11);
    assert_eq!(tree.median_time_past(tip), 70);
}

#[test]
fn failure_reaches_descendants_only_and_moves_the_best_header() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
    let a1 = extend(&mut tree, NodeId(0), 1, 1);
    let b1 = extend(&mut tree, NodeId(0), 1, 2);
    let a2 = extend(&mut tree, a1, 2, 1);
    assert_eq!(tree.best_header(), a2);
    assert_eq!(tree.mark_failed(a1), vec![a1, a2]);
    assert_eq!(tree.best_header(), b1);
    let a3 = extend(&mut tree, a2, 3, 1);
    assert!(tree.node(a3).failed, "a child of a failed block is failed");
    assert_eq!(tree.best_header(), b1);
    assert!(!tree.node(b1).failed);
}

#[test]
fn the_first_of_two_equal_headers_stays_best() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
    let first = extend(&mut tree, NodeId(0), 1, 1);
    extend(&mut tree, NodeId(0), 1, 2);
    assert_eq!(tree.best_header(), first);
}

/// `docs/limits.md` says about 300 bytes; a table or list that has just grown has room for as much again.
#[test]
fn a_header_costs_a_few_hundred_bytes_and_each_is_counted() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
    let (mut tip, mut before) = (tree.genesis(), tree.memory());
    for n in 1..=20_000 {
        tip = extend(&mut tree, tip, n, 0);
        assert!(tree.memory() >= before);
        before = tree.memory();
    }
    let each = before / tree.len();
    assert!((200..=600).contains(&each), "{each} bytes");
}
