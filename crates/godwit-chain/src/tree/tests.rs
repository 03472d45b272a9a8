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
        let is_end = |id: &NodeId| !ids.iter().any(|child| tree.node(*child).parent() == Some(*id));
        let ends: Vec<NodeId> = ids.iter().copied().filter(is_end).collect();
        prop_assert_eq!(tree.ends().collect::<Vec<_>>(), ends);
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

fn naive_work(tree: &HeaderTree, mut id: NodeId) -> Work {
    let mut total = Work::ZERO;
    loop {
        let node = tree.node(id);
        total += godwit_primitives::work::block_proof(node.header.bits);
        match node.parent() {
            Some(parent) => id = parent,
            None => return total,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Branches of any shape, targets that change, blocks that fail.
    #[test]
    fn work_and_the_best_header_agree_with_adding_up(
        steps in proptest::collection::vec((any::<u16>(), 0u32..4, any::<bool>()), 1..200),
        failing in any::<u16>(),
    ) {
        let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
        let mut ids = vec![tree.genesis()];
        for (n, (pick, bits, on_last)) in steps.iter().enumerate() {
            let parent = if *on_last { ids[ids.len() - 1] } else { ids[*pick as usize % ids.len()] };
            let bits = REGTEST_BITS - (bits << 20);
            let new = BlockHeader { bits, ..header(tree.node(parent).hash, 1, n as u32 + 1) };
            ids.push(tree.insert(new, new.block_hash(), parent));
        }
        let best = |tree: &HeaderTree| {
            let good = ids.iter().filter(|id| !tree.node(**id).failed);
            // The last of equals, from behind the first.
            good.rev().max_by_key(|id| naive_work(tree, **id)).copied()
        };
        for id in &ids {
            prop_assert_eq!(tree.chain_work(*id), naive_work(&tree, *id));
        }
        prop_assert_eq!(Some(tree.best_header()), best(&tree));
        let least = naive_work(&tree, ids[failing as usize % ids.len()]);
        for least in [least, least + Work::from(1u32)] {
            let enough = |id: &NodeId| naive_work(&tree, *id) >= least;
            let expected: Vec<NodeId> = ids.iter().copied().filter(enough).collect();
            prop_assert_eq!(tree.with_work(least), expected);
        }
        tree.mark_failed(ids[1 + failing as usize % (ids.len() - 1)]);
        prop_assert_eq!(Some(tree.best_header()), best(&tree));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn failures_of_a_line_agree_with_walking(
        parents in proptest::collection::vec((any::<u16>(), any::<bool>()), 2..150),
        failing in proptest::collection::vec(any::<u16>(), 1..6),
        asked in any::<u16>(),
    ) {
        let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
        let mut ids = vec![tree.genesis()];
        for (n, (pick, on_last)) in parents.iter().enumerate() {
            let parent = if *on_last { ids[ids.len() - 1] } else { ids[*pick as usize % ids.len()] };
            ids.push(extend(&mut tree, parent, 1, n as u32 + 1));
        }
        for pick in &failing {
            tree.mark_failed(ids[1 + *pick as usize % (ids.len() - 1)]);
        }
        let line = |tree: &HeaderTree, mut id: NodeId| {
            let mut line = vec![id];
            while let Some(parent) = tree.node(id).parent() {
                line.push(parent);
                id = parent;
            }
            line
        };
        for id in &ids {
            let valid = line(&tree, *id).into_iter().find(|id| !tree.node(*id).failed);
            prop_assert_eq!(Some(tree.last_valid(*id)), valid);
        }
        let asked = ids[asked as usize % ids.len()];
        let expected: Vec<NodeId> = ids
            .iter()
            .copied()
            .filter(|id| tree.node(*id).failed)
            .filter(|id| line(&tree, *id).contains(&asked) || line(&tree, asked).contains(id))
            .collect();
        let found = tree.failed_in_line(asked);
        prop_assert_eq!(&found, &expected);
        tree.set_failed(&found, false);
        prop_assert!(tree.failed_in_line(asked).is_empty());
        let best = ids.iter().rev().filter(|id| !tree.node(**id).failed);
        prop_assert_eq!(Some(tree.best_header()), best.max_by_key(|id| tree.chain_work(**id)).copied());
    }
}

/// A chain of 3,000 with two branches at its end: the operator's word on a block there is no reason to go
/// through all of it.
#[test]
fn what_holds_at_the_ends_alone_is_not_asked_of_the_whole_tree() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
    let mut trunk = vec![tree.genesis()];
    for n in 1..=3_000 {
        trunk.push(extend(&mut tree, trunk[trunk.len() - 1], n, 0));
    }
    let branches = [2_990, 2_995].map(|fork| extend(&mut tree, trunk[fork], 1, 1));
    let asked = std::cell::Cell::new(0);
    let found = tree.above(|id| {
        asked.set(asked.get() + 1);
        tree.node(id).height > 2_990
    });
    let expected: Vec<NodeId> = trunk[2_991..].iter().chain(&branches).copied().collect();
    assert_eq!(found, expected);
    // Each once, and the block of height 2,990 below two of them.
    assert_eq!(asked.get(), expected.len() + 2);
}

/// Also behind the boundary of a chunk, where both halves of a node's place matter.
#[test]
fn nodes_are_found_in_every_chunk() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
    let (mut tip, mut hashes) = (tree.genesis(), vec![tree.node(tree.genesis()).hash]);
    for n in 1..=(2 * CHUNK as u32 + 1) {
        tip = extend(&mut tree, tip, n, 0);
        hashes.push(tree.node(tip).hash);
    }
    for (n, hash) in hashes.iter().enumerate() {
        let node = tree.node(tree.find(hash).unwrap());
        assert_eq!((node.height as usize, node.header.time as usize), (n, n));
        assert!(n == 0 || node.header.prev_blockhash == hashes[n - 1]);
        assert_eq!(node.header.block_hash(), *hash);
    }
    let changed = tree.take_dirty();
    assert_eq!(changed.len(), 2 * CHUNK + 1);
    tree.update(changed[CHUNK], |node| node.tx_count = 3);
    tree.update(changed[CHUNK], |node| node.tx_count = 4);
    assert_eq!(tree.take_dirty(), [changed[CHUNK]]);
    assert_eq!(tree.node(changed[CHUNK]).tx_count, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever order headers and blocks come in and however few headers are taken at once: no ancestor of
    /// what is taken was never taken; only headers wait that were not taken before and lie below no block
    /// and no tip; at most so many of these are taken; and in the end all were.
    #[test]
    fn what_is_taken_of_the_changes_has_its_ancestors(
        steps in proptest::collection::vec((any::<u16>(), 0..8_u8), 1..200),
        most in 0..20_usize,
    ) {
        let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
        let mut ids = vec![tree.genesis()];
        let mut on_disk = std::collections::BTreeSet::from([tree.genesis()]);
        for (n, (pick, kind)) in steps.iter().enumerate() {
            let picked = ids[*pick as usize % ids.len()];
            match kind {
                0..=4 => ids.push(extend(&mut tree, picked, 1, n as u32 + 1)),
                5 => tree.update(picked, |node| node.failed = true),
                6 => tree.update(picked, |node| node.tx_count = 1),
                _ => {
                    let dirty = |id: &NodeId| tree.nodes.get(*id).is_dirty();
                    let changed: Vec<NodeId> = ids.iter().copied().filter(dirty).collect();
                    let blocks = changed.iter().filter(|id| tree.node(**id).tx_count > 0);
                    let ends: Vec<NodeId> = blocks.copied().chain([picked]).collect();
                    let taken = tree.take_some_dirty(&[picked], most);
                    prop_assert!(taken.iter().all(|id| changed.contains(id)));
                    let is_mere = |id: &&NodeId| {
                        let is_below = |end: &NodeId| {
                            naive_ancestor(&tree, *end, tree.node(**id).height) == Some(**id)
                        };
                        !on_disk.contains(*id) && !ends.iter().any(is_below)
                    };
                    prop_assert!(taken.iter().filter(is_mere).count() <= most);
                    let waits = |id: &&NodeId| tree.nodes.get(**id).is_dirty();
                    prop_assert!(changed.iter().filter(waits).all(|id| is_mere(&id)));
                    tree.note_named(&taken);
                    on_disk.extend(taken);
                    for id in &ids {
                        prop_assert_eq!(tree.is_named(*id), on_disk.contains(id));
                        let parent = tree.node(*id).parent().filter(|_| on_disk.contains(id));
                        prop_assert!(parent.is_none_or(|parent| on_disk.contains(&parent)));
                    }
                }
            }
        }
        while tree.changes() > 0 {
            let taken = tree.take_some_dirty(&[], most.max(1));
            on_disk.extend(taken);
        }
        prop_assert_eq!(on_disk.len(), ids.len());
    }
}

/// As many as main has in 2026: just behind a growth of the table, where a header costs most.
#[test]
fn a_header_costs_140_bytes_at_most_and_each_is_counted() {
    let mut tree = HeaderTree::new(header(BlockHash::ZERO, 0, 0));
    let (mut tip, mut before) = (tree.genesis(), tree.memory());
    for n in 1..=950_000 {
        // Any hash serves.
        let new = header(tree.node(tip).hash, n, 0);
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&n.to_le_bytes());
        tip = tree.insert(new, BlockHash::from_bytes(hash), tip);
        if n % 2_000 == 0 {
            tree.take_dirty();
            assert!(tree.memory() >= before);
            before = tree.memory();
        }
    }
    assert!(before <= 140 * tree.len(), "{} bytes", before / tree.len());
    assert!(before >= 128 * tree.len());
}
