//! A snapshot that is loaded over another one, whose coins nothing has confirmed.

use std::path::Path;

use godwit_primitives::{Block, Transaction, TxOut};
use godwit_sim::blocks::mined;
use godwit_store::{MAX_BLOCK_FILE_SIZE, Refutation};

use crate::history::{found_wrong, give_all, loaded};
use crate::pruned_branches::{branch, coinbase, spending};
use crate::pruning::{BLOCKS, hash, header, open};
use crate::snapshots::Snapshot;

/// Height of the block whose coinbase nobody can spend.
const LOCKED: usize = 128;

/// Heights of the bases of the two snapshots.
const FIRST: usize = 135;
const SECOND: usize = 232;

/// Height of the block that spends it all the same, once it is mature.
const THEFT: usize = 230;

/// Bytes of a snapshot from a coin's txid to its script: number of coins, output, height with the coinbase
/// bit (two), amount, length.
const BEFORE_SCRIPT: usize = 32 + 6;

const OP_FALSE: u8 = 0;
const OP_TRUE: u8 = 0x51;

/// A block of these transactions on the last of `blocks`; the first one is made for its height and time.
fn push_block(blocks: &mut Vec<Vec<u8>>, txs: impl FnOnce(u32, u32) -> Vec<Transaction>) {
    let before = header(blocks.last().expect("a chain"));
    let (height, time) = (blocks.len() as u32 + 1, before.time + 1);
    blocks.push(mined(before.block_hash(), time, &txs(height, time)));
}

fn push_empty_up_to(blocks: &mut Vec<Vec<u8>>, height: usize) {
    let above = branch(blocks, blocks.len() as u32, (height - blocks.len()) as u32);
    blocks.extend(above);
}

/// A chain up to [`SECOND`] that is valid but for the script of an input in block [`THEFT`].
fn chain_with_theft() -> Vec<Vec<u8>> {
    let mut blocks = BLOCKS[..LOCKED - 1].to_vec();
    push_block(&mut blocks, |height, time| {
        let outputs = vec![TxOut { value: 0, script_pubkey: vec![OP_FALSE] }];
        vec![Transaction { outputs, ..coinbase(0, height, time) }]
    });
    push_empty_up_to(&mut blocks, THEFT - 1);
    let theft = spending(&blocks[LOCKED - 1]);
    push_block(&mut blocks, |height, time| vec![coinbase(0, height, time), theft]);
    push_empty_up_to(&mut blocks, SECOND);
    blocks
}

/// The snapshot of block [`FIRST`] in which everybody can spend that coin.
fn forged(blocks: &[Vec<u8>]) -> Snapshot {
    let mut bytes = Snapshot::of(&blocks[..FIRST]).bytes;
    let locked = Block::from_bytes(&blocks[LOCKED - 1]).expect("a block");
    let txid = locked.view().txids()[0].to_bytes();
    let at = bytes.windows(txid.len()).position(|window| window == txid).expect("it is a coin");
    let script = &mut bytes[at + BEFORE_SCRIPT];
    assert_eq!(*script, OP_FALSE);
    *script = OP_TRUE;
    Snapshot::accepted(bytes, &blocks[..FIRST])
}

/// A block that only the coins of the first snapshot made look valid is one of the history of the second. The
/// coins that it leaves are the same whoever could spend what it spent, so that their hash does not tell.
#[test]
fn blocks_above_a_snapshot_are_verified_again_as_the_history_of_another_one() {
    let blocks = chain_with_theft();
    let disk = loaded(&forged(&blocks), &blocks);
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    give_all(&mut chain, &blocks[FIRST..SECOND - 1]).expect("no local fault");
    assert_eq!(chain.tip_point().height as usize, SECOND - 1);
    chain.close().expect("no local fault");

    let ahead = disk.copy();
    let mut chain = open(&ahead, None, MAX_BLOCK_FILE_SIZE);
    give_all(&mut chain, &blocks[SECOND - 1..]).expect("no local fault");
    let dump = Path::new("/node/second.dat");
    let hash_serialized = chain.dump_snapshot(dump).expect("a new file").hash_serialized;
    let bytes = ahead.contents(dump).expect("the dump");
    Snapshot { bytes, hash: hash_serialized }.load(&disk).expect("a block ahead of the tip");

    let (assumed, refutation, said) = found_wrong(&disk, &blocks);
    assert_eq!(assumed.base.height as usize, SECOND);
    let Refutation::InvalidBlock(point) = refutation else { panic!("{said}") };
    assert_eq!((point.hash, point.height as usize), (hash(&blocks[THEFT - 1]), THEFT));
}
