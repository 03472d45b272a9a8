//! Input that is wrong: each fault is one clear line, the import goes on behind it, and the exit code
//! says that something was refused.

use std::fs;

use godwit::exit::Exit;

use crate::blocks::{SUBSIDY, child, header, record, small_chain, write_dat};
use crate::import::small_chain_stats;
use crate::node::{Ended, Node};

/// Expects one warning that contains every part.
#[track_caller]
fn warns_once(ended: &Ended, parts: &[&str]) {
    let warnings = ended.stdout.lines().filter(|line| line.contains("[warning]"));
    let matching = warnings.filter(|line| parts.iter().all(|part| line.contains(part)));
    assert_eq!(matching.count(), 1, "one line with {parts:?} in\n{ended:?}");
}

#[test]
fn bytes_between_records_and_a_cut_off_tail_are_named_and_passed_over() {
    let node = Node::new("regtest");
    let (path, chain) = (node.beside("damaged.dat"), small_chain());
    let mut bytes = vec![0xaa; 1000];
    let of = |blocks: &[Vec<u8>]| -> Vec<u8> { blocks.iter().flat_map(|b| record(b)).collect() };
    bytes.extend(of(&chain[..50]));
    let middle = bytes.len();
    // Half of a magic, a record of another network, a length that no block has.
    bytes.extend([
        0xfa, 0xbf, 0xf9, 0xbe, 0xb4, 0xd9, 1, 0, 0, 0, 0xfa, 0xbf, 0xb5, 0xda, 9, 0, 0, 0,
    ]);
    let (last, others) = chain[50..].split_last().expect("more than fifty blocks");
    bytes.extend(of(others));
    let cut = bytes.len();
    bytes.extend(&record(last)[..100]);
    fs::write(&path, bytes).expect("a file");

    let ended = node.run(&[&"import", &path]).expect(Exit::InputRefused);
    warns_once(&ended, &["damaged.dat at offset 0: 1000 bytes belong to no block record"]);
    warns_once(&ended, &[&format!("damaged.dat at offset {middle}: 18 bytes belong to no block")]);
    warns_once(&ended, &[&format!("damaged.dat at offset {cut}: 100 bytes are a block record")]);
    assert_eq!(node.stats()["height"], chain.len() - 1);

    write_dat(&path, chain);
    node.import(&path);
    assert_eq!(node.stats(), small_chain_stats());
}

/// `blocks` as records, of which record `n` claims what follows it as well: `more` bytes.
pub(crate) fn claiming(blocks: &[Vec<u8>], n: usize, more: usize) -> Vec<u8> {
    let mut records: Vec<Vec<u8>> = blocks.iter().map(|block| record(block)).collect();
    let len = (blocks[n].len() + more) as u32;
    records[n][4..8].copy_from_slice(&len.to_le_bytes());
    records.concat()
}

/// Bitcoin Core goes on behind the block that it has decoded, wherever its record ends.
#[test]
fn blocks_behind_one_whose_record_claims_them_are_imported() {
    let chain = small_chain();
    let len = |blocks: &[Vec<u8>]| blocks.iter().map(|block| block.len() + 8).sum::<usize>();
    let last = chain.len() - 2;
    for (n, more, exit) in [
        (50, len(&chain[51..52]), Exit::Success),
        // To the middle of a record, of which the rest looks like no record, and to the end of the file.
        (50, len(&chain[51..54]) + 30, Exit::InputRefused),
        (last, len(&chain[last + 1..]), Exit::Success),
        (50, 3, Exit::InputRefused),
    ] {
        let node = Node::new("regtest");
        let path = node.beside("claiming.dat");
        fs::write(&path, claiming(chain, n, more)).expect("a file");
        // Stopped in between, the next import knows the block, and not what is behind it.
        let stop = format!("-stopatheight={}", n + 1);
        node.run(&[&"import", &stop, &path]).expect(exit);
        let ended = node.run(&[&"import", &path]).expect(exit);
        assert!(ended.stdout.contains(", 0 refused, "), "{ended:?}");
        assert_eq!(node.stats(), small_chain_stats(), "{n}, {more}");
        let node = Node::new("regtest");
        node.run(&[&"import", &path]).expect(exit);
        assert_eq!(node.stats(), small_chain_stats(), "{n}, {more}");
    }
}

#[test]
fn a_block_that_fails_to_connect_is_named_and_the_import_goes_on() {
    let node = Node::new("regtest");
    let (path, chain) = (node.beside("bad.dat"), small_chain());
    let (tip, height) = (chain.last().expect("blocks"), chain.len() as u16);
    let greedy = child(tip, height + 1, SUBSIDY + 1);
    let above = child(&greedy, height + 2, SUBSIDY);
    // In the middle of the file, though at the top of the chain.
    let blocks = chain[..100].iter().chain([&greedy, &above]).chain(&chain[100..]);
    write_dat(&path, blocks);
    let offset: usize = chain[..100].iter().map(|block| block.len() + 8).sum();

    let ended = node.run(&[&"import", &path]).expect(Exit::InputRefused);
    let hash = header(&greedy).block_hash().to_string();
    let place = format!("bad.dat at offset {}: block {hash} at height {}", offset + 8, height + 1);
    warns_once(&ended, &[&place, "bad-cb-amount"]);
    assert!(ended.stdout.contains(", 1 refused, "), "{ended:?}");
    assert_eq!(node.stats(), small_chain_stats());

    // The next start knows it, and its header is not the best one.
    let ended = node.run(&[&"import", &path]).expect(Exit::InputRefused);
    warns_once(&ended, &[&place, "duplicate-invalid"]);
    let best = format!("Best header {} at height {height};", header(tip).block_hash());
    assert!(ended.stdout.contains(&best), "{ended:?}");
    let good = child(tip, height + 1, SUBSIDY);
    write_dat(&path, [&good]);
    node.import(&path);
    assert_eq!(node.stats()["height"], height + 1);
}

#[test]
fn a_block_that_an_earlier_import_stored_is_named_by_godwits_own_file() {
    let node = Node::new("regtest");
    let (path, chain) = (node.beside("bad.dat"), small_chain());
    let height = chain.len() as u16;
    let greedy = child(chain.last().expect("blocks"), height + 1, SUBSIDY + 1);
    write_dat(&path, chain.iter().chain([&greedy]));
    node.run(&[&"import", &"-stopatheight=100", &path]).expect(Exit::Success);
    let ended = node.run(&[&"import", &path]).expect(Exit::InputRefused);
    warns_once(
        &ended,
        &["blk00000.dat at offset ", "bad-cb-amount", &format!("height {}", height + 1)],
    );
    assert_eq!(node.stats(), small_chain_stats());
}

#[test]
fn damaged_copies_of_good_blocks_do_no_harm() {
    let (node, chain) = (Node::new("regtest"), small_chain());
    let (path, good_path) = (node.beside("damaged.dat"), node.beside("good.dat"));
    let mut blocks = chain.to_vec();
    // Another transaction, but the header that commits to the right one.
    *blocks[59].last_mut().expect("bytes") ^= 1;
    // No transactions at all: the count says 255 and nothing follows.
    blocks[119].truncate(80);
    blocks[119].push(0xff);
    write_dat(&path, &blocks);
    let ended = node.run(&[&"import", &path]).expect(Exit::InputRefused);
    warns_once(&ended, &["damaged.dat at offset ", " at height 60 ", "bad-txnmrklroot"]);
    warns_once(&ended, &["damaged.dat at offset ", " at height 120 ", "Block decode failed"]);
    assert_eq!(node.stats()["height"], 59);

    // What came after the two is stored and waits for them.
    write_dat(&good_path, [&chain[59], &chain[119]]);
    node.import(&good_path);
    assert_eq!(node.stats(), small_chain_stats());
}

#[test]
fn garbage_between_blocks_fills_a_hundred_lines_and_the_last_says_that_there_is_more() {
    let chain = small_chain();
    for (pieces, told) in [(99, 0), (100, 1), (101, 1)] {
        let node = Node::new("regtest");
        let path = node.beside("damaged.dat");
        let mut bytes = Vec::new();
        for (index, block) in chain.iter().enumerate() {
            bytes.extend(record(block));
            bytes.extend((index < pieces).then_some(0xaa));
        }
        fs::write(&path, bytes).expect("a file");
        let ended = node.run(&[&"import", &path]).expect(Exit::InputRefused);
        let warnings = ended.stdout.lines().filter(|line| line.contains("[warning]"));
        assert_eq!(warnings.count(), pieces.min(100), "{pieces} pieces of garbage");
        let notices = ended.stdout.matches("More refused records are counted, not listed.");
        assert_eq!(notices.count(), told, "{pieces} pieces of garbage");
        assert_eq!(node.stats(), small_chain_stats());
    }
}

#[test]
fn blocks_without_a_known_parent_are_refused_and_taken_later() {
    let (node, chain) = (Node::new("regtest"), small_chain());
    let path = node.beside("upper.dat");
    write_dat(&path, &chain[40..]);
    let ended = node.run(&[&"import", &path]).expect(Exit::InputRefused);
    let lines = ended.stdout.matches("prev-blk-not-found").count();
    assert_eq!(lines, 99, "the first are listed, the rest is counted");
    warns_once(&ended, &["More refused records are counted, not listed."]);
    assert!(ended.stdout.contains(&format!(", {} refused, ", chain.len() - 40)));
    assert_eq!(node.stats()["height"], 0);
    let lower = node.beside("lower.dat");
    write_dat(&lower, &chain[..40]);
    node.import(&lower);
    node.import(&path);
    assert_eq!(node.stats(), small_chain_stats());
}
