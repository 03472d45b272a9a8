//! Core's own library, which godwit's script engine is part of, on what godwit has handed over: it loads
//! block index and coins as bitcoind does, checks its index at every change (the default on regtest), and
//! needs no program that is built apart.

use std::path::Path;

use bitcoinkernel::prelude::*;
use bitcoinkernel::{Block, BlockHash, ChainType, ChainstateManager, Context, ContextBuilder};
use godwit::exit::Exit;

use super::block;
use super::chain::hash;
use super::hand_over::Directory;
use crate::hand_over::hand_over;
use crate::node::Node;

/// How deep the chain is left: below it are heights that [`block::on`] does not make.
const DEPTH: usize = 40;

fn context() -> Context {
    ContextBuilder::new().chain_type(ChainType::Regtest).build().expect("a context")
}

/// Loads a data directory, which reads the last blocks back and checks them.
fn load(context: &Context, datadir: &Path) -> ChainstateManager {
    let network = datadir.join("regtest");
    let (data, blocks) = (network.display().to_string(), network.join("blocks"));
    let loaded = ChainstateManager::new(context, &data, &blocks.display().to_string());
    loaded.expect("Core loads the directory")
}

/// As nodes print it.
fn printed(hash: &impl BlockHashExt) -> String {
    let mut bytes = hash.to_bytes();
    bytes.reverse();
    hex::encode(bytes)
}

fn tip(core: &ChainstateManager) -> String {
    printed(&core.active_chain().tip().block_hash())
}

fn process(core: &ChainstateManager, bytes: &[u8]) {
    let block = Block::new(bytes).expect("a block");
    assert!(core.process_block(&block).is_new_block(), "{}", hash(bytes));
}

#[test]
fn cores_library_goes_on_where_godwit_handed_over_and_godwit_reads_its_coins() {
    let directory = Directory::make();
    let to = directory.node.beside("core");
    hand_over(&directory.node, &to).expect(Exit::Success);
    let all: Vec<&Vec<u8>> = directory.chain.blocks.iter().chain(&directory.end).collect();
    let context = context();
    {
        let core = load(&context, &to);
        assert_eq!(tip(&core), directory.stats["bestblock"], "at once");
        reads_every_block(&core, &all);
        // The header without its block.
        let best = core.best_entry().expect("a header").height();
        assert_eq!(best as u64, directory.height() + 1);
        // A branch from so many blocks below, longer by one than what is left.
        let fork = all.len() - DEPTH;
        let mut branch = vec![all[fork - 1].clone()];
        for height in fork + 1..=all.len() + 1 {
            let block = block::on(branch.last().expect("not empty"), height as u32, 7, &[]);
            process(&core, &block);
            branch.push(block);
        }
        assert_eq!(tip(&core), hash(branch.last().expect("not empty")), "undo records were read");
        // And back to what godwit has, longer again.
        let mut end = all[all.len() - 1].clone();
        for height in all.len() + 1..=all.len() + 2 {
            end = block::on(&end, height as u32, 8, &[]);
            process(&core, &end);
        }
        assert_eq!(tip(&core), hash(&end));
    }
    // What Core has written of its own accord is read again by Core, and by godwit.
    drop(load(&context, &to));
    let node = Node::new("regtest");
    let ended = node.run(&[&"import", &to]).expect(Exit::Success);
    assert!(ended.stdout.contains("are those of godwit"), "{ended:?}");
    // Nothing of that has reached the source.
    let ended = directory.node.run(&[&"verify"]).expect(Exit::Success);
    assert!(ended.stdout.contains("Damage: none"), "{ended:?}");
}

/// Blocks and undo records lie where the index says.
fn reads_every_block(core: &ChainstateManager, all: &[&Vec<u8>]) {
    let chain = core.active_chain();
    assert_eq!(chain.height() as usize, all.len());
    for (height, expected) in (1..).zip(all) {
        let entry = chain.at_height(height).expect("it is in the chain");
        let block = core.read_block_data(&entry).expect("it is stored");
        assert!(block.consensus_encode().expect("it encodes") == **expected, "height {height}");
        let spent = core.read_spent_outputs(&entry).expect("its undo record is stored");
        assert_eq!(spent.count() + 1, block.transaction_count(), "height {height}");
    }
    let genesis = chain.at_height(0).expect("it is in the chain");
    let block = core.read_block_data(&genesis).expect("it is stored");
    let hash: BlockHash = block.hash();
    assert_eq!(printed(&hash), printed(&genesis.block_hash()));
}

/// As a cut between the two renames at the end leaves it.
#[test]
fn cores_library_makes_the_coins_from_the_blocks_if_they_are_all_that_it_finds() {
    let directory = Directory::make();
    let to = directory.node.beside("core");
    hand_over(&directory.node, &to).expect(Exit::Success);
    std::fs::remove_dir_all(to.join("regtest/chainstate")).expect("a directory");
    let context = context();
    assert_eq!(tip(&load(&context, &to)), directory.stats["bestblock"]);
    let node = Node::new("regtest");
    let ended = node.run(&[&"import", &to]).expect(Exit::Success);
    assert!(ended.stdout.contains("are those of godwit"), "{ended:?}");
    assert_eq!(node.stats()["muhash"], directory.stats["muhash"]);
}
