//! A coinbase that is in two blocks, as BIP30 allows it: an undo record that is made again, and the chain
//! looked at once more.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{bounded, never};
use godwit_chain::{
    Chain, CheckLevel, CoinsView, InspectOptions, Recheck, UtxoStats, Verdict, block_in_place,
    inspect, median_times, view_coins,
};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::network::{Deployment, Network, Params};
use godwit_sim::blocks::mined;
use godwit_store::error::Remedy;

use crate::datadir::{clock, options, submit};
use crate::inspect::{Notes, options_within};
use crate::pruned_branches::{branch, coinbase, spending};
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
        blocks.push(mined(before.block_hash(), before.time + 1, &txs));
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

/// The coins of the tip.
fn view(chain: &mut Chain) -> CoinsView {
    let (sender, view) = bounded(1);
    let sender = Arc::new(sender);
    view_coins(chain, Arc::downgrade(&sender));
    while view.is_empty() {
        chain.poll(clock()).expect("no fault");
        chain.wait_with(&never::<()>(), Duration::from_millis(10));
    }
    view.try_recv().expect("it is there")
}

/// Its coin at the tip is that of the later block, and was not there when the earlier one was spent.
#[test]
fn a_chain_with_a_coinbase_that_was_repeated_is_found_intact() {
    let mut chain = connect(&FaultDisk::new(), &blocks());
    for level in [CheckLevel::Coins, CheckLevel::Scripts] {
        let view = view(&mut chain);
        assert_eq!(view.tip(), chain.tip_point());
        let mut recheck = Recheck::new(&chain, level, Some(view));
        for height in (1..=chain.tip_point().height).rev() {
            let id = chain.tree().ancestor(chain.tip(), height).expect("below the tip");
            let block = block_in_place(&chain, id).expect("it is stored");
            let mut times = |heights: Vec<u32>| Some(median_times(&chain, id, &heights));
            let checked = recheck.check(&block, &mut times);
            checked.unwrap_or_else(|fault| panic!("{level:?}, block {height}: {fault}"));
        }
    }
}
