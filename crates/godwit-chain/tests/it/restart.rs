//! A datadir that is closed and opened again.

use godwit_chain::{UtxoStats, Verdict};
use godwit_primitives::network::Network;
use godwit_sim::chain::generate;
use godwit_sim::hostile::reorganisations;
use godwit_sim::plan::ChainPlan;

use crate::datadir::{open, submit};

fn small_chain() -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    generate(&ChainPlan::small(1), |block| {
        blocks.push(block.bytes.to_vec());
        Ok(())
    })
    .expect("the plan is sound");
    blocks
}

#[test]
fn a_chain_goes_on_where_it_was_closed_with_and_without_a_flush() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let mut chain = open(&whole, Network::Regtest);
    for block in &blocks {
        assert_eq!(submit(&mut chain, block), Verdict::Accepted);
    }
    let expected = chain.utxo_stats().unwrap();
    chain.close().unwrap();
    for (n, part) in blocks.chunks(blocks.len() / 5).enumerate() {
        let mut chain = open(&parts, Network::Regtest);
        for block in part {
            assert_eq!(submit(&mut chain, block), Verdict::Accepted);
        }
        if n % 2 == 0 {
            chain.flush().unwrap();
        }
        chain.close().unwrap();
    }
    let mut chain = open(&parts, Network::Regtest);
    chain.settle().unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), expected);
    let mut chain = open(&whole, Network::Regtest);
    assert_eq!(chain.utxo_stats().unwrap(), expected);
}

#[test]
fn a_chain_that_is_dropped_without_a_word_loses_no_block() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    for block in &blocks {
        assert_eq!(submit(&mut chain, block), Verdict::Accepted);
    }
    let tip = chain.tip_point();
    drop(chain);
    let mut chain = open(temp.path(), Network::Regtest);
    chain.settle().unwrap();
    assert_eq!(chain.tip_point(), tip, "what had arrived is connected from godwit's own files");
}

fn stats_of<'b>(blocks: impl IntoIterator<Item = &'b Vec<u8>>) -> UtxoStats {
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    for block in blocks {
        assert_eq!(submit(&mut chain, block), Verdict::Accepted);
    }
    chain.utxo_stats().unwrap()
}

#[test]
fn coins_on_disk_that_describe_a_stale_branch_are_taken_back() {
    for reorg in reorganisations() {
        let (stale, winning) = reorg.blocks[..=reorg.turn].split_at(reorg.depth as usize);
        let before = stats_of(reorg.base.iter().chain(stale));
        let after = stats_of(reorg.base.iter().chain(&reorg.second));
        for closed in [false, true] {
            let temp = tempfile::tempdir().unwrap();
            let mut chain = open(temp.path(), Network::Regtest);
            for block in reorg.base.iter().chain(stale) {
                submit(&mut chain, block);
            }
            chain.flush().unwrap();
            for block in winning {
                submit(&mut chain, block);
            }
            assert_eq!(chain.tip_point(), after.tip);
            // Closing makes the index durable, and with it that the other branch was verified.
            if closed {
                chain.close().unwrap()
            } else {
                drop(chain)
            }

            let mut chain = open(temp.path(), Network::Regtest);
            chain.connect_known_only();
            let known = if closed { &after } else { &before };
            assert_eq!(chain.utxo_stats().unwrap(), *known, "depth {}", reorg.depth);
            chain.close().unwrap();
            let mut chain = open(temp.path(), Network::Regtest);
            assert_eq!(chain.utxo_stats().unwrap(), after, "depth {}", reorg.depth);
        }
    }
}
