//! Thousands of block files and a shell's usual limit of descriptors.

mod sockets;

use std::fs;
use std::process::Command;

use godwit::exit::Exit;
use godwit_sim::miner;

use crate::blocks::{child, record, small_chain};
use crate::node::{Ended, Node};

/// The program with a limit of descriptors that it cannot raise.
fn limited(node: &Node, words: &[&dyn AsRef<std::ffi::OsStr>]) -> Ended {
    let command = node.command(words);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 1024; exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    Ended::of(shell.output().expect("a shell"))
}

#[test]
fn two_thousand_block_files_are_found_again_without_a_database() {
    const FILES: usize = 2_000;
    let node = Node::new("regtest");
    let blocks = node.network_dir().join("blocks");
    fs::create_dir_all(&blocks).expect("a directory");
    let mut last = Vec::new();
    for n in 0..FILES {
        last = match small_chain().get(n) {
            Some(block) => block.clone(),
            None => {
                let height = n as u16 + 1;
                let subsidy = miner::subsidy(height.into()).try_into().expect("an amount");
                child(&last, height, subsidy)
            }
        };
        fs::write(blocks.join(format!("blk{n:05}.dat")), record(&last)).expect("a small file");
    }
    let stop = format!("-stopatheight={FILES}");
    limited(&node, &[&"-noconnect", &"-listen=0", &stop]).expect(Exit::Success);
    let stats = limited(&node, &[&"utxo", &"stats"]).expect(Exit::Success).json();
    assert_eq!(stats["height"], FILES);
    // What was read is durable, and is not looked for again.
    assert!(!node.log().contains("Cutting off"), "{}", node.log());
    assert_eq!(node.log().matches("had arrived after the last commit").count(), 1);
}
