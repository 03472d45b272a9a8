//! An undo record that is made again although the coin was there twice, as BIP30 allows it.

use std::path::Path;
use std::sync::Arc;

use godwit_chain::{Chain, InspectOptions, UtxoStats, Verdict, inspect};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::network::{Deployment, Network, Params};
use godwit_store::error::Remedy;

use crate::datadir::{clock, options, submit};
use crate::inspect::{Notes, options_within};
use crate::pruned_branches::{block_of, branch, coinbase, spending};
use crate::pruning::{BLOCKS, DIR, hash, header};

/// Heights of the block that spends the coinbase, which is old enough, and of the one that has it once more.
const SPENT: usize = 255;
const REPEATED: usize = 260;

/// Coinbases need not have their height.
fn params() -> Params {
    let mut params = Params::new(Network::Regtest);
    params.set_activation_height(Deployment::HeightInCoinbase, 1_000);
    params
}

fn open(disk: &FaultDisk) -> Chain {
    let fault = Arc::new(disk.clone());
    Chain::open(fault, DIR.into(), options(params()), [7; 16], clock()).expect("datadir opens")
}

fn connect(disk: &FaultDisk, blocks: &[Vec<u8>]) -> Chain {
    let mut chain = open(disk);
    for block in blocks {
        assert_eq!(submit(&mut chain, block), Verdict::Connected);
    }
    chain
}

fn blocks() -> Vec<Vec<u8>> {
    let mut blocks = BLOCKS[..150].to_vec();
    let first = coinbase(0, 151, 7);
    for height in [151, SPENT, REPEATED] {
        let until = (height - blocks.len() - 1) as u32;
        blocks.extend(branch(&blocks, blocks.len() as u32, until));
        let before = header(blocks.last().unwrap());
        let txs = match height {
            SPENT => vec![coinbase(0, SPENT as u32, before.time), spending(&blocks[150])],
            _ => vec![first.clone()],
        };
        blocks.push(block_of(&txs, before.block_hash(), before.time + 1));
    }
    blocks.extend(branch(&blocks, blocks.len() as u32, 3));
    blocks
}

#[test]
fn c5_an_undo_record_is_not_made_again_of_a_coinbase_that_was_repeated_since() {
    let (disk, blocks) = (FaultDisk::new(), blocks());
    let before: UtxoStats =
        connect(&FaultDisk::new(), &blocks[..SPENT - 1]).utxo_stats().expect("no fault");
    let chain = connect(&disk, &blocks);
    let id = chain.tree().ancestor(chain.tip(), SPENT as u32).expect("below the tip");
    let undo = chain.tree().node(id).undo.expect("it was connected");
    chain.close().expect("no fault");
    let rev = Path::new(DIR).join(format!("blocks/rev{:05}.dat", undo.file));
    let mut bytes = disk.contents(&rev).expect("a file");
    bytes[undo.offset as usize + 1] ^= 1;
    disk.overwrite(&rev, bytes);
    let mut notes = Notes::default();
    let options = InspectOptions { params: Arc::new(params()), ..options_within(4 << 20) };
    inspect(&(Arc::new(disk.clone()) as _), Path::new(DIR), options, &mut notes).expect("no fault");
    let remedies: Vec<Remedy> = notes.found.iter().map(|found| found.remedy).collect();
    assert_eq!(remedies, [Remedy::Reindex]);
    // The node, which looks for it from the block downwards, finds the right one.
    let mut chain = open(&disk);
    chain.invalidate_block(&hash(&blocks[SPENT - 1])).expect("it is known");
    chain.settle(clock()).expect("it is looked for");
    assert_eq!(chain.utxo_stats().expect("no fault"), before);
}
