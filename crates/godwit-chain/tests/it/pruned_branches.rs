//! Reorganisations and branches of a pruned chain.

use std::path::Path;
use std::sync::Arc;

use godwit_chain::{ChainError, MIN_BLOCKS_TO_KEEP, Verdict};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::{Amount, Block, BlockHash, OutPoint, Transaction, TxIn, TxOut};
use godwit_sim::blocks::mined;
use godwit_stream::DataStream;

use crate::datadir::{clock, submit};
use crate::pruning::{
    BLOCKS, DIR, ONE_BLOCK, STATS, bytes_on, check_kept, hash, header, open, stats_of, submit_all,
};

/// An empty block on the one with this hash; of another time, it makes another coin.
pub(crate) fn empty_block(prev: BlockHash, height: u32, time: u32) -> Vec<u8> {
    block_paying(0, prev, height, time)
}

/// A block of a coinbase alone, which pays so much.
pub(crate) fn block_paying(value: Amount, prev: BlockHash, height: u32, time: u32) -> Vec<u8> {
    mined(prev, time, &[coinbase(value, height, time)])
}

/// A coinbase that pays so much to everybody; it is another one for each height and time.
pub(crate) fn coinbase(value: Amount, height: u32, time: u32) -> Transaction {
    assert!((128..0x8000).contains(&height), "two bytes of a script's number");
    let [low, high, ..] = height.to_le_bytes();
    let script_sig = [&[2, low, high, 4][..], &time.to_le_bytes()].concat();
    let input =
        TxIn { prevout: OutPoint::NULL, script_sig, sequence: u32::MAX, witness: Vec::new() };
    let output = TxOut { value, script_pubkey: vec![0x51] };
    Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 }
}

/// A transaction that spends what the coinbase of a block pays to everybody, which is nothing.
pub(crate) fn spending(block: &[u8]) -> Transaction {
    let txid = Block::from_bytes(block).unwrap().view().txids()[0];
    let prevout = OutPoint { txid, vout: 0 };
    let input = TxIn { prevout, script_sig: Vec::new(), sequence: u32::MAX, witness: Vec::new() };
    let output = TxOut { value: 0, script_pubkey: vec![0x51] };
    Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 }
}

/// `count` empty blocks on block `fork` of the chain.
pub(crate) fn branch(base: &[Vec<u8>], fork: u32, count: u32) -> Vec<Vec<u8>> {
    let mut parent = base[fork as usize - 1].clone();
    let above = (fork + 1..).take(count as usize);
    above
        .map(|height| {
            let before = header(&parent);
            parent = empty_block(before.block_hash(), height, before.time + 1);
            parent.clone()
        })
        .collect()
}

#[test]
fn a_reorganisation_of_288_blocks_works_and_a_deeper_one_is_an_error() {
    let tip = BLOCKS.len() as u32;
    let disk = FaultDisk::new();
    let mut chain = open(&disk, Some(1), ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    assert_eq!(chain.prune_height(), tip - MIN_BLOCKS_TO_KEEP + 1);
    chain.close().unwrap();

    // Pruning stays on: nothing that the switch needs is deleted on the way, nor behind it.
    let kept = branch(&BLOCKS, tip - MIN_BLOCKS_TO_KEEP, MIN_BLOCKS_TO_KEEP + 1);
    let base = &BLOCKS[..(tip - MIN_BLOCKS_TO_KEEP) as usize];
    let expected = stats_of(&[base, &kept].concat());
    for restarted in [false, true] {
        let disk = disk.copy();
        let mut chain = open(&disk, Some(1), ONE_BLOCK);
        for block in &kept {
            submit(&mut chain, block);
        }
        assert_eq!(chain.tip_point().hash, hash(kept.last().unwrap()));
        if restarted {
            chain.close().unwrap();
            disk.crash(Survival::Nothing);
            chain = open(&disk, Some(1), ONE_BLOCK);
        }
        assert_eq!(chain.utxo_stats().unwrap(), expected, "restarted: {restarted}");
        chain.flush().unwrap();
        check_kept(&mut chain, &disk, Path::new(DIR));
    }

    let fork = tip - MIN_BLOCKS_TO_KEEP - 1;
    let deeper = branch(&BLOCKS, fork, MIN_BLOCKS_TO_KEEP + 2);
    let mut chain = open(&disk, None, ONE_BLOCK);
    let (last, before) = deeper.split_last().unwrap();
    for block in before {
        assert_eq!(submit(&mut chain, block), Verdict::Stored);
    }
    let params = Arc::clone(chain.params());
    let last = godwit_chain::structure(DataStream::from(&last[..]), &params, &chain.hasher(), None);
    let error = chain.submit(last, clock()).unwrap_err();
    let lowest = tip - MIN_BLOCKS_TO_KEEP + 1;
    assert!(matches!(error, ChainError::ForkBelowPruned { fork: f, lowest: l }
        if (f, l) == (fork, lowest)));
    let text = error.to_string();
    assert!(text.contains(&format!("height {fork}")) && text.contains("empty"), "{text}");
    assert_eq!(chain.tip_point(), STATS.tip, "nothing was taken back");
    chain.close().unwrap();
    // It does not go away with a restart, and does no harm.
    let mut chain = open(&disk, None, ONE_BLOCK);
    assert!(matches!(chain.settle(clock()), Err(ChainError::ForkBelowPruned { .. })));
    chain.connect_known_only();
    assert_eq!(chain.utxo_stats().unwrap(), *STATS);
}

/// The last block that both branches of [`pruned_stale_branch`] have.
const FORK: u32 = 130;

/// A data directory in which the first five blocks of a stale branch are pruned, and nothing of the active
/// one: the stale branch came first, so its files went first.
struct StaleBranch {
    disk: FaultDisk,
    stale: Vec<Vec<u8>>,
    active: Vec<Vec<u8>>,
}

fn pruned_stale_branch() -> StaleBranch {
    let base = &BLOCKS[..FORK as usize];
    let stale = branch(base, FORK, 310);
    let active: Vec<_> = {
        // Another time, another block.
        let parent = header(base.last().unwrap());
        let first = empty_block(parent.block_hash(), FORK + 1, parent.time + 900);
        let above = branch(&[base, std::slice::from_ref(&first)].concat(), FORK + 1, 304);
        std::iter::once(first).chain(above).collect()
    };
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, ONE_BLOCK);
    submit_all(&mut chain, base);
    submit_all(&mut chain, &stale[..5]);
    let early = bytes_on(&disk, Path::new(DIR));
    for block in &active {
        submit(&mut chain, block);
    }
    assert_eq!(chain.tip_point().hash, hash(active.last().unwrap()));
    chain.flush().unwrap();
    chain.close().unwrap();
    let target = bytes_on(&disk, Path::new(DIR)) - early;
    let mut chain = open(&disk, Some(target), ONE_BLOCK);
    chain.flush().unwrap();
    // The undo data of the active branch are there, the blocks of the stale one are not.
    assert_eq!(chain.prune_height(), FORK + 1);
    chain.close().unwrap();
    StaleBranch { disk, stale, active }
}

/// The stale branch grows.
#[test]
fn a_branch_with_pruned_blocks_is_taken_when_they_have_come_again() {
    let StaleBranch { disk, stale, .. } = pruned_stale_branch();
    let mut chain = open(&disk, None, ONE_BLOCK);
    let on_active = chain.tip_point();
    for block in &stale[5..] {
        assert_eq!(submit(&mut chain, block), Verdict::Stored);
    }
    assert_eq!(chain.tip_point(), on_active);
    chain.close().unwrap();
    let mut chain = open(&disk, None, ONE_BLOCK);
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point(), on_active, "a restart does not take it either");
    for block in stale[..5].iter().rev() {
        assert_eq!(chain.tip_point(), on_active);
        submit(&mut chain, block);
    }
    let expected = stats_of(&[&BLOCKS[..FORK as usize], &stale].concat());
    assert_eq!(chain.utxo_stats().unwrap(), expected);
}

/// What is pruned lies directly above the tip, after a restart too.
#[test]
fn a_branch_with_pruned_blocks_is_left_out_where_it_would_only_be_appended() {
    let StaleBranch { disk, stale, active } = pruned_stale_branch();
    let (fork, first) = (hash(&BLOCKS[FORK as usize - 1]), hash(&active[0]));
    let mut chain = open(&disk, None, ONE_BLOCK);
    chain.invalidate_block(&first).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().hash, fork);
    chain.close().unwrap();
    for _ in 0..2 {
        let mut chain = open(&disk, None, ONE_BLOCK);
        chain.settle(clock()).unwrap();
        assert_eq!(chain.tip_point().hash, fork);
        chain.close().unwrap();
    }
    let branches = disk.copy();
    let mut chain = open(&branches, None, ONE_BLOCK);
    for block in &stale[..5] {
        assert_eq!(submit(&mut chain, block), Verdict::Connected, "it comes again");
    }
    drop(chain);
    let mut chain = open(&disk, None, ONE_BLOCK);
    chain.reconsider_block(&first).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().hash, hash(active.last().unwrap()));
}

#[test]
fn a_branch_with_pruned_blocks_is_left_out_where_a_better_one_turns_out_to_be_invalid() {
    let StaleBranch { disk, active, .. } = pruned_stale_branch();
    let parent = header(&BLOCKS[FORK as usize - 1]);
    let fork = parent.block_hash();
    let mut chain = open(&disk, None, ONE_BLOCK);
    chain.invalidate_block(&hash(&active[0])).unwrap();
    chain.settle(clock()).unwrap();
    // It pays more than there is to earn.
    let first = block_paying(21_000_000 * 100_000_000, fork, FORK + 1, parent.time + 1_800);
    let invalid = hash(&first);
    let base = [&BLOCKS[..FORK as usize], &[first]].concat();
    let above = branch(&base, FORK + 1, 5);
    let better = [&base[FORK as usize..], &above].concat();
    for block in &better {
        chain.accept_header(&header(block), hash(block), clock()).unwrap();
    }
    for block in better.iter().rev() {
        submit(&mut chain, block);
    }
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().hash, fork);
    // All that has more work than the tip is a candidate again.
    chain.reconsider_block(&invalid).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().hash, fork);
}
