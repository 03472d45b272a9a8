use std::collections::{BTreeSet, HashSet};

use bitcoin::Block;
use bitcoin::consensus::deserialize;
use godwit_sim::hostile::{Suite, reorganisations, suites};
use godwit_sim::miner;
use godwit_sim::reference::ReferenceUtxo;

const NOW: u32 = 1_790_000_000;

/// Every reason of Bitcoin Core that a block on regtest can be given; `None` is acceptance.
const VERDICTS: [&str; 38] = [
    "Block decode failed",
    "bad-blk-length",
    "bad-blk-sigops",
    "bad-blk-weight",
    "bad-cb-amount",
    "bad-cb-height",
    "bad-cb-length",
    "bad-cb-missing",
    "bad-cb-multiple",
    "bad-diffbits",
    "bad-prevblk",
    "bad-txnmrklroot",
    "bad-txns-BIP30",
    "bad-txns-duplicate",
    "bad-txns-in-belowout",
    "bad-txns-inputs-duplicate",
    "bad-txns-inputs-missingorspent",
    "bad-txns-nonfinal",
    "bad-txns-premature-spend-of-coinbase",
    "bad-txns-prevout-null",
    "bad-txns-txouttotal-toolarge",
    "bad-txns-vin-empty",
    "bad-txns-vout-empty",
    "bad-txns-vout-negative",
    "bad-txns-vout-toolarge",
    "bad-version(0x00000003)",
    "bad-witness-merkle-match",
    "bad-witness-nonce-size",
    "block-script-verify-flag-failed",
    "duplicate",
    "duplicate-invalid",
    "high-hash",
    "inconclusive",
    "prev-blk-not-found",
    "time-timewarp-attack",
    "time-too-new",
    "time-too-old",
    "unexpected-witness",
];

#[test]
fn there_is_a_block_for_every_verdict() {
    let suites = suites(NOW);
    let given: BTreeSet<&str> = suites
        .iter()
        .flat_map(|suite| &suite.cases)
        .flat_map(|case| case.expect.clone())
        .flatten()
        .collect();
    let missing: Vec<_> = VERDICTS.iter().filter(|verdict| !given.contains(**verdict)).collect();
    assert!(missing.is_empty(), "no block for {missing:?}");

    let blocks: usize =
        suites.iter().flat_map(|suite| &suite.cases).map(|case| case.blocks.len()).sum();
    assert!(blocks >= 300, "{blocks} blocks");
}

#[test]
fn suites_are_well_formed_and_repeatable() {
    let (first, second) = (suites(NOW), suites(NOW));
    for (suite, again) in first.iter().zip(&second) {
        let mut names = HashSet::new();
        assert_eq!(suite.base, again.base);
        for (case, again) in suite.cases.iter().zip(&again.cases) {
            assert!(names.insert(&case.name), "{}: {} exists twice", suite.name, case.name);
            assert!(!case.blocks.is_empty() && case.blocks.len() == case.expect.len());
            assert!(case.blocks == again.blocks, "{}: {} differs", suite.name, case.name);
        }
    }
}

/// What is expected to be accepted forms a chain whose spends exist.
#[test]
fn accepted_blocks_are_consistent() {
    for suite in suites(NOW).iter().filter(|suite| suite.name != "tree") {
        connect_accepted(suite);
    }
}

fn connect_accepted(suite: &Suite) {
    let mut utxo = ReferenceUtxo::new();
    let mut tip = miner::genesis_tip();
    let accepted = suite.cases.iter().flat_map(|case| {
        case.blocks.iter().zip(&case.expect).filter(|(_, expect)| expect.is_none())
    });
    for bytes in suite.base.iter().chain(accepted.map(|(bytes, _)| bytes)) {
        // One block of the encoding suite has bytes behind it.
        let (block, length) = bitcoin::consensus::deserialize_partial::<Block>(bytes)
            .expect("what is accepted decodes");
        assert_eq!(block.header.prev_blockhash, tip.hash, "suite {}", suite.name);
        tip = tip.extended_by(&block);
        utxo.connect(&bytes[..length], tip.height)
            .unwrap_or_else(|error| panic!("suite {}: {error}", suite.name));
    }
}

#[test]
fn reorganisations_change_sides_twice() {
    for scenario in reorganisations() {
        let depth = scenario.depth as usize;
        assert_eq!(scenario.second.len(), depth + 1);
        assert_eq!(scenario.first.len(), depth + 2);
        assert_eq!(scenario.blocks[scenario.turn], scenario.second[depth]);
        assert_eq!(scenario.expect[scenario.turn], None);
        assert_eq!(scenario.blocks.len(), scenario.expect.len());

        let mut utxo = ReferenceUtxo::new();
        connect(&mut utxo, &scenario.base, 1);
        let fork = scenario.base.len() as u32 + 1;
        let mut fresh = utxo.clone();
        connect(&mut fresh, &scenario.first, fork);
        for branch in [&scenario.first[..depth], &scenario.second] {
            let undo = connect(&mut utxo, branch, fork);
            undo.into_iter().rev().for_each(|undo| utxo.disconnect(undo));
        }
        connect(&mut utxo, &scenario.first, fork);
        assert_eq!(utxo.total_amount(), fresh.total_amount());
        let coins =
            |set: &ReferenceUtxo| -> HashSet<_> { set.iter().map(|(key, _)| *key).collect() };
        assert_eq!(coins(&utxo), coins(&fresh));
    }
}

fn connect(
    utxo: &mut ReferenceUtxo,
    blocks: &[Vec<u8>],
    first_height: u32,
) -> Vec<godwit_sim::reference::Undo> {
    (first_height..)
        .zip(blocks)
        .map(|(height, bytes)| {
            let block: Block = deserialize(bytes).expect("a valid block decodes");
            assert!(block.check_merkle_root());
            utxo.connect(bytes, height).expect("a valid block connects")
        })
        .collect()
}
