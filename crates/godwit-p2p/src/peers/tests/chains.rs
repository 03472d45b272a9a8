//! The questions that [`crate::HeaderIndex`] answers.

use super::harness::{START, chain};
use super::index::{TestBlock, TestIndex};
use crate::index::{is_ancestor, last_common_ancestor, locator};
use crate::{HeaderId, HeaderIndex};

/// A chain of 70 blocks, a branch of 20 from height 30, one of 3 from height 45.
fn branched() -> (TestIndex, Vec<HeaderId>) {
    let blocks = chain(70, 600);
    let mut index = TestIndex::new();
    index.extend(&blocks);
    index.extend(&TestBlock::chain(&blocks[29], 20, START as u32, 2));
    index.extend(&TestBlock::chain(&blocks[44], 3, START as u32, 3));
    let all = (0..index.headers() as u32).map(HeaderId).collect();
    (index, all)
}

fn ancestors(index: &TestIndex, from: HeaderId) -> Vec<HeaderId> {
    std::iter::successors(Some(from), |&id| index.parent(id)).collect()
}

#[test]
fn common_ancestors_are_those_that_walking_finds() {
    let (index, all) = branched();
    for &a in &all {
        let above_a = ancestors(&index, a);
        for &b in &all {
            let above_b = ancestors(&index, b);
            let walked = above_a.iter().find(|id| above_b.contains(id));
            assert_eq!(Some(&last_common_ancestor(&index, a, b)), walked);
            assert_eq!(is_ancestor(&index, a, b), above_b.contains(&a));
        }
    }
}

#[test]
fn locators_are_dense_at_first_and_end_with_genesis() {
    let (index, _) = branched();
    let heights = |tip: u32| -> Vec<u32> {
        let from = index.ancestor(index.tip(), tip).expect("on the chain");
        let hashes = locator(&index, from);
        let height = |hash| index.get(index.find(hash).expect("of the chain")).height;
        hashes.iter().map(height).collect()
    };
    assert_eq!(heights(0), [0]);
    assert_eq!(heights(2), [2, 1, 0]);
    // Core `LocatorEntries`.
    let expected = [70, 69, 68, 67, 66, 65, 64, 63, 62, 61, 60, 59, 57, 53, 45, 29, 0];
    assert_eq!(heights(70), expected);
}
