//! Merkle trees of transactions (Bitcoin Core's `consensus/merkle.cpp`).

use std::borrow::Borrow;

use crate::sha256::sha256d_pairs;

/// Root of the tree over `leaves`, and whether the list was mutated; all zeros without leaves. Hashes
/// are in internal byte order.
///
/// A level of odd length is completed by its last hash, so that a list which ends in a repetition can
/// have the root of the shorter list (CVE-2012-2459). Two equal neighbours under one parent therefore
/// mark the list as mutated: a block with such a list is to be rejected, but its header is not to be
/// blamed, because the honest list has the same root.
pub fn merkle_root<I>(leaves: I) -> ([u8; 32], bool)
where
    I: IntoIterator<Item: Borrow<[u8; 32]>>,
{
    let leaves = leaves.into_iter();
    let mut level = Vec::with_capacity(leaves.size_hint().0.next_multiple_of(2));
    level.extend(leaves.map(|leaf| *leaf.borrow()));
    let mut mutated = false;
    while level.len() > 1 {
        mutated |= level.as_chunks::<2>().0.iter().any(|[left, right]| left == right);
        if level.len() % 2 == 1 {
            level.push(level[level.len() - 1]);
        }
        sha256d_pairs(&mut level);
        level.truncate(level.len() / 2);
    }
    (level.first().copied().unwrap_or_default(), mutated)
}

/// Root that the witness commitment of a block commits to (BIP141). `wtxids` are those of the
/// transactions after the coinbase, whose own leaf is zero.
pub fn witness_merkle_root<I>(wtxids: I) -> [u8; 32]
where
    I: IntoIterator<Item: Borrow<[u8; 32]>>,
{
    let wtxids = wtxids.into_iter().map(|wtxid| *wtxid.borrow());
    merkle_root(std::iter::once([0; 32]).chain(wtxids)).0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sha256::{sha256, sha256d};

    /// By recursion from the root, as Satoshi's paper draws it; mutation by comparing subtrees.
    fn naive(leaves: &[[u8; 32]]) -> ([u8; 32], bool) {
        fn node(leaves: &[[u8; 32]], depth: u32, index: usize, mutated: &mut bool) -> [u8; 32] {
            if depth == 0 {
                return leaves[index];
            }
            let width = leaves.len().div_ceil(1 << (depth - 1));
            let left = node(leaves, depth - 1, 2 * index, mutated);
            let mut right = left;
            if 2 * index + 1 < width {
                right = node(leaves, depth - 1, 2 * index + 1, mutated);
                *mutated |= left == right;
            }
            sha256d(&[left, right].concat())
        }
        if leaves.is_empty() {
            return ([0; 32], false);
        }
        let depth = leaves.len().next_power_of_two().ilog2();
        let mut mutated = false;
        let root = node(leaves, depth, 0, &mut mutated);
        (root, mutated)
    }

    fn leaves(count: usize) -> Vec<[u8; 32]> {
        (0..count).map(|i| sha256(&i.to_le_bytes())).collect()
    }

    #[test]
    fn equals_the_naive_tree_at_every_length() {
        for count in 0..=70 {
            assert_eq!(merkle_root(leaves(count)), naive(&leaves(count)), "{count} leaves");
            assert!(!merkle_root(leaves(count)).1);
        }
    }

    #[test]
    fn repeated_end_keeps_the_root_and_is_seen() {
        for count in 3..=70usize {
            let honest = leaves(count);
            // Core's example: of six leaves, the last two can be repeated.
            for repeated in [1, 2, 4, 8, 16] {
                let subtrees = count / repeated;
                if count % repeated != 0 || subtrees % 2 == 0 || subtrees == 1 {
                    continue;
                }
                let mut forged = honest.clone();
                forged.extend_from_slice(&honest[count - repeated..]);
                assert_eq!(merkle_root(&forged), (merkle_root(&honest).0, true));
            }
        }
    }

    #[test]
    fn equal_neighbours_of_different_parents_are_no_mutation() {
        let mut leaves = leaves(4);
        leaves[2] = leaves[1];
        assert!(!merkle_root(&leaves).1);
        leaves[0] = leaves[1];
        assert!(merkle_root(&leaves).1);
    }

    #[test]
    fn witness_root_starts_with_a_zero_leaf() {
        assert_eq!(witness_merkle_root(leaves(0)), [0; 32]);
        let all = [[[0; 32]].as_slice(), &leaves(4)].concat();
        assert_eq!(witness_merkle_root(leaves(4)), naive(&all).0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Few different leaves, so that equal neighbours occur at every level.
        #[test]
        fn equals_the_naive_tree_with_repetitions(
            bytes in proptest::collection::vec(0u8..3, 0..40),
        ) {
            let leaves: Vec<_> = bytes.iter().map(|&byte| [byte; 32]).collect();
            prop_assert_eq!(merkle_root(&leaves), naive(&leaves));
        }
    }
}
