use godwit_primitives::{BlockHash, BlockHeader, MerkleRoot};
use godwit_sim::rng::Rng;

use super::*;

const REGTEST_BITS: u32 = 0x207f_ffff;

fn genesis() -> HeaderTree {
    HeaderTree::new(Params::new(Network::Regtest).genesis)
}

fn extend(tree: &mut HeaderTree, parent: NodeId, version: i32, nonce: u32) -> NodeId {
    let header = BlockHeader {
        version,
        prev_blockhash: tree.node(parent).hash,
        merkle_root: MerkleRoot::from_bytes(BlockHash::ZERO.to_bytes()),
        time: 1_500_000_000 + tree.node(parent).height,
        bits: REGTEST_BITS,
        nonce,
    };
    tree.insert(header, header.block_hash(), parent)
}

/// So many blocks upon each other, of which all but the last `headers` are stored.
fn line(tree: &mut HeaderTree, mut parent: NodeId, count: u32, headers: u32) -> Vec<NodeId> {
    let mut line = Vec::new();
    for n in 0..count {
        let id = extend(tree, parent, 4, tree.len() as u32);
        if n < count - headers {
            let before = tree.node(parent).chain_tx_count;
            tree.update(id, |node| (node.tx_count, node.chain_tx_count) = (1, before + 1));
        }
        line.push(id);
        parent = id;
    }
    line
}

fn regtest(tree: &HeaderTree) -> Warnings {
    Warnings::of(tree, &Params::new(Network::Regtest))
}

fn warns(warnings: &Warnings, tree: &HeaderTree, tip: NodeId) -> bool {
    match &warnings.texts(tree, tip, 0)[..] {
        [] => false,
        [text] => text == INVALID_CHAIN,
        more => panic!("{more:?}"),
    }
}

#[test]
fn an_invalid_chain_counts_from_seven_blocks_ahead_on_as_far_as_it_is_stored() {
    for (count, headers, warned) in [(6, 0, false), (7, 0, true), (7, 1, false), (9, 2, true)] {
        let mut tree = genesis();
        let root = tree.genesis();
        let tip = *line(&mut tree, root, 3, 0).last().expect("a block");
        let bad = line(&mut tree, tip, count, headers);
        let mut warnings = regtest(&tree);
        assert!(!warns(&warnings, &tree, tip));
        tree.mark_failed(bad[0]);
        warnings.note_invalid(&tree, tip, bad[0]);
        assert_eq!(warns(&warnings, &tree, tip), warned, "{count} {headers}");
        // A later start does not know which of them were stored when they failed.
        let again = regtest(&tree);
        assert_eq!(warns(&again, &tree, tip), count > 6, "{count} {headers}");
        // It ends with blocks on the tip, or when the invalid ones are forgiven.
        let next = line(&mut tree, tip, 3, 0);
        assert!(!warns(&again, &tree, next[2]));
        tree.set_failed(&bad, false);
        warnings.note_reconsidered(&tree);
        assert!(!warns(&warnings, &tree, tip));
    }
}

#[test]
fn what_the_operator_takes_for_invalid_counts_without_what_is_above() {
    let mut tree = genesis();
    let root = tree.genesis();
    let blocks = line(&mut tree, root, 20, 0);
    let mut warnings = regtest(&tree);
    tree.mark_failed(blocks[10]);
    warnings.note_taken_for_invalid(&tree, blocks[10]);
    assert!(!warns(&warnings, &tree, blocks[9]));
    // A block far ahead, of which no block was left.
    tree.set_failed(&blocks[10..], false);
    tree.mark_failed(blocks[17]);
    warnings.note_taken_for_invalid(&tree, blocks[17]);
    assert!(warns(&warnings, &tree, blocks[10]) && !warns(&warnings, &tree, blocks[11]));
}

#[test]
fn clocks_may_differ_by_ten_minutes() {
    let tree = genesis();
    let warnings = regtest(&tree);
    let texts = |offset| warnings.texts(&tree, tree.genesis(), offset);
    for offset in [0, 600, -600] {
        assert_eq!(texts(offset), Vec::<String>::new());
    }
    for offset in [601, -601, i64::MAX, i64::MIN] {
        let [text] = &texts(offset)[..] else { panic!("{offset}") };
        assert!(text.starts_with(
            "Your computer's date and time appear to be more than 10 minutes out of sync"
        ));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Defined,
    Started,
    LockedIn,
    Active,
}

/// Core `AbstractThresholdConditionChecker::GetStateFor` of the block behind `tip`, word by word.
fn naive_state(rules: &UnknownRules, tree: &HeaderTree, tip: NodeId, bit: usize) -> State {
    let mut state = State::Defined;
    for last in
        (1..).map(|n| n * rules.period - 1).take_while(|last| *last <= tree.node(tip).height)
    {
        let asks = |height: u32| {
            let node = tree.node(tree.ancestor(tip, height).expect("it has it"));
            let version = node.header.version as u32;
            height >= rules.first_height && version & TOP_MASK == TOP && version >> bit & 1 == 1
        };
        let first = last + 1 - rules.period;
        state = match state {
            State::Defined => State::Started,
            State::Started => {
                let count = (first..=last).filter(|height| asks(*height)).count();
                if count as u32 >= rules.threshold { State::LockedIn } else { State::Started }
            }
            State::LockedIn | State::Active => State::Active,
        };
    }
    state
}

#[test]
fn changes_of_rules_are_found_in_force_as_a_naive_twin_finds_them() {
    let (mut found, mut late) = (0, 0);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut tree = genesis();
        let mut rules = UnknownRules {
            period: 8,
            threshold: 6,
            first_height: [0, 16, 24][rng.below(3) as usize],
            counted: None,
            active: None,
        };
        let mut tips = vec![tree.genesis()];
        let mut expected: Option<u32> = None;
        let asked =
            TOP as i32 | [1 << 1, 1 << 4, 1 << 3 | 1 << 2, 1 << 5 | 1 << 28][rng.below(4) as usize];
        for n in 0..80 {
            // Sometimes from an earlier block on.
            let back = if rng.below(20) == 0 { rng.below(12) as usize } else { 0 };
            let parent = tips[tips.len().saturating_sub(1 + back)];
            let version = match rng.below(9) {
                0 => 4,
                1 => TOP as i32,
                // Of another kind, with the same bits.
                2 => asked | 0x4000_0000,
                _ => asked,
            };
            let tip = extend(&mut tree, parent, version, n);
            tips.push(tip);
            let active =
                (0..BITS).find(|bit| naive_state(&rules, &tree, tip, *bit) == State::Active);
            expected = expected.or(active.map(|bit| bit as u32));
            rules.note_tip(&tree, tip);
            assert_eq!(rules.active, expected, "seed {seed}, block {n}");
        }
        found += u32::from(expected.is_some());
        late += u32::from(expected.is_none());
    }
    assert!(found > 30 && late > 10, "{found} {late}");
}

#[test]
fn periods_are_those_of_the_networks() {
    let of = |network| {
        let UnknownRules { period, threshold, first_height, .. } =
            UnknownRules::new(&Params::new(network));
        (period, threshold, first_height)
    };
    assert_eq!(of(Network::Main), (2016, 1815, 711_648));
    assert_eq!(of(Network::Testnet3), (2016, 1512, 2_013_984));
    assert_eq!(of(Network::Testnet4), (2016, 1512, 0));
    assert_eq!(of(Network::Signet), (2016, 1512, 0));
    assert_eq!(of(Network::Regtest), (144, 108, 0));
}
