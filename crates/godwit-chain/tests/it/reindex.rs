//! Datadirs whose database is lost, damaged or of another time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::never;
use godwit_chain::{Chain, Poll, UtxoStats, Verdict};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::BlockHash;
use godwit_sim::rng::Rng;
use godwit_store::disk::Disk;
use godwit_store::{BlockPosition, UndoPosition};
use godwit_stream::{DataStream, PooledStream};

use crate::datadir::{clock, submit};
use crate::pruning::{BLOCKS, DIR, hash, header, open, stats_of, submit_all, try_open};

/// Some blocks each.
pub(crate) const FILE_SIZE: u32 = 200_000;
/// Blocks of the chain that the datadirs have.
const CONNECTED: usize = 150;
/// Blocks whose coins are on disk.
const FLUSHED: usize = 140;

fn database() -> PathBuf {
    Path::new(DIR).join("godwit.redb")
}

fn give(chain: &mut Chain, blocks: &[&Vec<u8>]) {
    for block in blocks {
        chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
    }
    let mut shuffled = blocks.to_vec();
    let mut rng = Rng::new(5);
    for index in (1..shuffled.len()).rev() {
        shuffled.swap(index, rng.below(index as u64 + 1) as usize);
    }
    for (ticket, block) in shuffled.iter().enumerate() {
        let bytes = DataStream::from(&block[..]);
        chain.receive_block(PooledStream::from(bytes), ticket as u64);
    }
    loop {
        match chain.poll(clock()).expect("no local fault") {
            Poll::Idle => break,
            Poll::Waiting => chain.wait_with(&never::<()>(), Duration::from_secs(1)),
            Poll::Progress => {}
        }
    }
    chain.take_events();
}

/// A datadir whose blocks came in any order, with runs and blocks behind them; or as it was when it had
/// half of them.
pub(crate) fn datadir(half: bool) -> FaultDisk {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    give(&mut chain, &BLOCKS[..FLUSHED / 2].iter().collect::<Vec<_>>());
    chain.flush().unwrap();
    if half {
        chain.close().unwrap();
        return disk;
    }
    give(&mut chain, &BLOCKS[FLUSHED / 2..FLUSHED].iter().collect::<Vec<_>>());
    chain.flush().unwrap();
    submit_all(&mut chain, &BLOCKS[FLUSHED..CONNECTED]);
    chain.close().unwrap();
    disk
}

type Stored = (BlockHash, Option<BlockPosition>, Option<UndoPosition>);

/// What the index says of each block of the active chain, and the coins.
fn contents(disk: &FaultDisk) -> (Vec<Stored>, UtxoStats) {
    let mut chain = open(disk, None, FILE_SIZE);
    chain.settle(clock()).unwrap();
    let tip = chain.tip();
    let stored = (1..=chain.tip_point().height).map(|height| {
        let node = chain.tree().node(chain.tree().ancestor(tip, height).unwrap());
        (node.hash, node.position, node.undo)
    });
    let stored = stored.collect();
    (stored, chain.utxo_stats().unwrap())
}

#[test]
fn without_its_database_a_datadir_has_all_blocks_and_coins_and_replays_no_more_than_before() {
    let disk = datadir(false);
    let expected = contents(&disk);
    assert_eq!(expected.1, stats_of(&BLOCKS[..CONNECTED]));
    let intact = disk.contents(&database()).unwrap();
    let mut old = disk.copy();
    let mut chain = open(&old, None, FILE_SIZE);
    submit_all(&mut chain, &BLOCKS[CONNECTED..CONNECTED + 5]);
    chain.flush().unwrap();
    chain.close().unwrap();
    old.overwrite(&database(), intact.clone());
    let later = contents(&old);
    assert_eq!(later.1, stats_of(&BLOCKS[..CONNECTED + 5]), "that of another time");
    old = disk.copy();

    let mut zeroed = intact.clone();
    zeroed[..4096].fill(0);
    for database_now in [None, Some(Vec::new()), Some(zeroed), Some(intact[..5000].to_vec())] {
        let disk = old.copy();
        match database_now {
            Some(bytes) => disk.overwrite(&database(), bytes),
            None => disk.remove(&database()).unwrap(),
        }
        let found = contents(&disk);
        assert!(found == expected, "{} of {}", found.0.len(), expected.0.len());
        // Once more, from what the first start has left.
        assert!(contents(&disk) == expected);
        let mut chain = open(&disk, None, FILE_SIZE);
        for block in &BLOCKS[CONNECTED..] {
            assert_eq!(submit(&mut chain, block), Verdict::Connected);
        }
        assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS));
    }
}

/// Every operation of the start fails once, and the power goes at that moment.
#[test]
fn an_index_that_is_half_made_is_made_again() {
    let disk = datadir(false);
    let expected = contents(&disk);
    disk.remove(&database()).unwrap();
    let mut failures = 0;
    for n in 1.. {
        let survival = [Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3];
        let disk = disk.copy();
        disk.fail_change(n);
        let opened = try_open(&disk, None, FILE_SIZE);
        if !disk.has_failed() {
            opened.unwrap();
            break;
        }
        drop(opened);
        failures += 1;
        disk.crash(survival);
        assert!(contents(&disk) == expected, "operation {n}, {survival:?}");
    }
    println!("{failures} operations failed, one after the other");
    assert!(failures > 10, "{failures}");
}
