//! A datadir that is closed and opened again.

use godwit_chain::{ChainError, UtxoStats, Verdict};
use godwit_primitives::Block;
use godwit_primitives::network::{Network, Params};
use godwit_sim::hostile::reorganisations;

use crate::datadir::{clock, end_after_checkpoint, open, open_with, options, small_chain, submit};

#[test]
fn a_chain_goes_on_where_it_was_closed_with_and_without_a_flush() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let (whole, parts) = (temp.path().join("whole"), temp.path().join("parts"));
    let mut chain = open(&whole, Network::Regtest);
    for block in &blocks {
        assert_eq!(submit(&mut chain, block), Verdict::Connected);
    }
    let expected = chain.utxo_stats().unwrap();
    chain.close().unwrap();
    for (n, part) in blocks.chunks(blocks.len() / 5).enumerate() {
        let mut chain = open(&parts, Network::Regtest);
        for block in part {
            assert_eq!(submit(&mut chain, block), Verdict::Connected);
        }
        if n % 2 == 0 {
            chain.flush().unwrap();
        }
        chain.close().unwrap();
    }
    let mut chain = open(&parts, Network::Regtest);
    chain.settle(clock()).unwrap();
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
        assert_eq!(submit(&mut chain, block), Verdict::Connected);
    }
    let tip = chain.tip_point();
    drop(chain);
    let mut chain = open(temp.path(), Network::Regtest);
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point(), tip, "what had arrived is connected from godwit's own files");
}

fn stats_of<'b>(blocks: impl IntoIterator<Item = &'b Vec<u8>>) -> UtxoStats {
    let temp = tempfile::tempdir().unwrap();
    let mut chain = open(temp.path(), Network::Regtest);
    for block in blocks {
        assert_eq!(submit(&mut chain, block), Verdict::Connected);
    }
    chain.utxo_stats().unwrap()
}

/// How a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Dropped,
    /// Dropped once the index is durable, and the coins are not.
    Checkpointed,
    Closed,
}

#[test]
fn coins_on_disk_that_describe_a_stale_branch_are_taken_back() {
    for reorg in reorganisations() {
        let (stale, winning) = reorg.blocks[..=reorg.turn].split_at(reorg.depth as usize);
        let before = stats_of(reorg.base.iter().chain(stale));
        let after = stats_of(reorg.base.iter().chain(&reorg.second));
        for end in [End::Dropped, End::Checkpointed, End::Closed] {
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
            // A checkpoint makes durable that the other branch was verified, closing its coins as well.
            match end {
                End::Dropped => drop(chain),
                End::Checkpointed => end_after_checkpoint(chain),
                End::Closed => chain.close().unwrap(),
            }

            let mut chain = open(temp.path(), Network::Regtest);
            assert_eq!(chain.tip_point() == after.tip, end == End::Closed);
            chain.connect_known_only();
            let known = if end == End::Dropped { &before } else { &after };
            assert_eq!(chain.utxo_stats().unwrap(), *known, "depth {}", reorg.depth);
            chain.close().unwrap();
            let mut chain = open(temp.path(), Network::Regtest);
            assert_eq!(chain.utxo_stats().unwrap(), after, "depth {}", reorg.depth);
        }
    }
}

/// A bit of a witness is in no txid, so only the commitment tells that the disk lost it.
#[test]
fn a_damaged_witness_of_a_stored_block_is_never_the_blocks_fault() {
    let blocks = small_chain();
    let temp = tempfile::tempdir().unwrap();
    let with_witness = blocks.iter().rposition(|block| longest_witness_item(block).len() > 60);
    let damaged = with_witness.expect("the plan spends every type of output");
    let mut options = options(Params::new(Network::Regtest));
    options.stop_at_height = Some(damaged as u32);
    let mut chain = open_with(temp.path(), options);
    for block in &blocks {
        submit(&mut chain, block);
    }
    assert_eq!(chain.tip_point().height, damaged as u32);
    chain.close().unwrap();

    let file = temp.path().join("blocks/blk00000.dat");
    let mut bytes = std::fs::read(&file).unwrap();
    let item = longest_witness_item(&blocks[damaged]);
    let at = bytes.windows(item.len()).position(|window| window == item).unwrap();
    bytes[at + 10] ^= 1;
    std::fs::write(&file, bytes).unwrap();

    let mut chain = open(temp.path(), Network::Regtest);
    assert!(matches!(chain.settle(clock()), Err(ChainError::DamagedBlock { .. })));
    drop(chain);
    let mut chain = open(temp.path(), Network::Regtest);
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().height, damaged as u32);
    assert_eq!(submit(&mut chain, &blocks[damaged]), Verdict::Connected);
    assert_eq!(chain.tip_point().height as usize, blocks.len());
}

fn longest_witness_item(block: &[u8]) -> Vec<u8> {
    let block = Block::from_bytes(block).unwrap();
    let mut longest = Vec::new();
    for tx in block.view().txs().skip(1) {
        for item in tx.witnesses().flat_map(|witness| witness.items()) {
            if item.len() > longest.len() {
                longest = item.to_vec();
            }
        }
    }
    longest
}
