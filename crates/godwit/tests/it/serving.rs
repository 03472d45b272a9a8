//! What a node serves to others, as its options say.

use godwit::exit::Exit;
use godwit_primitives::TxOut;

use crate::blocks::{child_paying, header, small_chain, write_dat};
use crate::node::Node;
use crate::running::Running;
use crate::sync::{free_port, stops_in_time, wait_until};

/// Blocks older than this, by the best header, are historical (Core `HISTORICAL_BLOCK_AGE`).
const WEEK: u32 = 7 * 24 * 60 * 60;

/// Enough for a week of blocks and some more.
const LATER_BLOCKS: u16 = 1_100;

/// The small chain, and more than a week of blocks behind it.
fn long_chain() -> Vec<Vec<u8>> {
    let mut blocks = small_chain().to_vec();
    let first = blocks.len() as u16 + 1;
    for height in first..first + LATER_BLOCKS {
        let parent = blocks.last().expect("not empty");
        let output = TxOut { value: 0, script_pubkey: vec![0x6a] };
        blocks.push(child_paying(parent, height, output));
    }
    blocks
}

/// Connections to the named peer that came about.
fn connections(log: &str) -> usize {
    log.matches("New manual peer connected").count()
}

fn with_chain(blocks: &[Vec<u8>]) -> Node {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, blocks);
    node.import(&path);
    node
}

#[test]
fn above_maxuploadtarget_blocks_of_the_last_week_are_served_and_older_ones_are_not() {
    let blocks = long_chain();
    let server = with_chain(&blocks);
    let tip = header(blocks.last().expect("not empty")).time;
    let old = blocks.iter().filter(|block| tip - header(block).time > WEEK).count();
    assert!(old > small_chain().len() / 2 && blocks.len() - old > 100, "{old} blocks are old");
    let (stats, stop) = (server.stats(), format!("-stopatheight={}", blocks.len()));
    // The reserve for new blocks alone is more than this.
    for (target, reached) in [("1M", true), ("0", false)] {
        let port = free_port();
        let bind = format!("-bind=127.0.0.1:{port}");
        let target = format!("-maxuploadtarget={target}");
        let mut serving = Running::start(&server, &[&"-noconnect", &bind, &target]);
        wait_until("it listens", || serving.log().0.contains("Bound to "));
        let connect = format!("-connect=127.0.0.1:{port}");
        // Who lacks none but blocks of the last week gets them.
        let recent = with_chain(&blocks[..old]);
        recent.run(&[&connect, &"-listen=0", &stop]).expect(Exit::Success);
        assert_eq!(recent.stats(), stats);
        assert_eq!(connections(&recent.log()), 1);
        // Who lacks one block more is left, and tries again.
        let behind = with_chain(&blocks[..old - 1]);
        let mut running = Running::start(&behind, &[&connect, &"-listen=0", &stop]);
        if reached {
            wait_until("it is left", || connections(running.log().0) >= 2);
            stops_in_time(running);
            assert_eq!(
                behind.stats()["height"],
                old - 1,
                "what lies behind is of no use without it"
            );
        } else {
            assert!(running.wait().success());
            assert_eq!((connections(running.log().0), behind.stats()), (1, stats.clone()));
        }
        stops_in_time(serving);
    }
}
