//! Stored blocks that rot: whoever drives the chain fetches them, and they are written again in their places.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use godwit_chain::{
    Chain, ChainError, Event, NodeId, Poll, StoredData, UtxoStats, Verdict, note_unreadable,
};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::BlockHash;
use godwit_sim::rng::Rng;
use godwit_store::BlockPosition;
use godwit_store::disk::Disk;
use godwit_stream::{DataStream, PooledStream};

use crate::datadir::{clock, end_after_checkpoint, small_chain, submit};
use crate::pruned_branches::branch;
use crate::pruning::{DIR, hash, open, stats_of, submit_all};

/// Several files.
const FILE_SIZE: u32 = 20_000;

#[derive(Clone, Copy, Debug)]
enum Rot {
    Bit,
    Zeros,
    /// The file ends within the block.
    Cut,
    /// There is no such file.
    Missing,
}

fn file(at: BlockPosition) -> PathBuf {
    Path::new(DIR).join(format!("blocks/blk{:05}.dat", at.file))
}

fn rot(disk: &FaultDisk, at: BlockPosition, how: Rot, rng: &mut Rng) {
    let path = file(at);
    let mut bytes = disk.contents(&path).unwrap();
    let block = at.offset as usize..(at.offset + at.len) as usize;
    let place = block.start + rng.below(u64::from(at.len)) as usize;
    match how {
        Rot::Bit => bytes[place] ^= 1 << rng.below(8),
        Rot::Zeros => bytes[block.start + 4..block.end].fill(0),
        Rot::Cut => bytes.truncate(place),
        Rot::Missing => return disk.remove(&path).unwrap(),
    }
    disk.overwrite(&path, bytes);
}

/// What a peer does, until nothing is left to do; which blocks it was asked for.
fn run(chain: &mut Chain, blocks: &[Vec<u8>]) -> Vec<BlockHash> {
    let by_hash: HashMap<BlockHash, &Vec<u8>> =
        blocks.iter().map(|block| (hash(block), block)).collect();
    let mut lost = Vec::new();
    loop {
        let mut poll = chain.poll(clock()).expect("no local fault");
        for event in chain.take_events() {
            if let Event::Lost { hash } = event {
                lost.push(hash);
                poll = Poll::Progress;
                let bytes = DataStream::from(&by_hash[&hash][..]);
                chain.receive_block(PooledStream::from(bytes), 0);
            }
        }
        match poll {
            Poll::Progress => {}
            Poll::Waiting => {
                chain.wait_with(&crossbeam_channel::never::<()>(), Duration::from_millis(100));
            }
            Poll::Idle => return lost,
        }
    }
}

fn position(chain: &Chain, height: u32) -> BlockPosition {
    let id = chain.tree().ancestor(chain.tip(), height).unwrap();
    chain.tree().node(id).position.unwrap()
}

/// All blocks of the small chain verified, and none of the coins on disk.
fn verified(blocks: &[Vec<u8>]) -> (FaultDisk, Vec<BlockPosition>) {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    submit_all(&mut chain, blocks);
    let places = (1..=blocks.len() as u32).map(|height| position(&chain, height)).collect();
    end_after_checkpoint(chain);
    (disk, places)
}

#[test]
fn c5_a_rotted_block_that_is_replayed_is_fetched_and_written_again() {
    let blocks = small_chain();
    let expected = stats_of(&blocks);
    let (good, places) = verified(&blocks);
    let last_file = places.last().unwrap().file;
    assert!(last_file >= 3, "{last_file} files");
    let mut rng = Rng::new(7);
    for how in [Rot::Bit, Rot::Zeros, Rot::Cut, Rot::Missing] {
        for _ in 0..3 {
            let disk = good.copy();
            let mut rotten: Vec<usize> =
                (0..3).map(|_| rng.below(places.len() as u64) as usize).collect();
            // The last file is looked at when the store opens.
            rotten.push(places.len() - 1);
            for n in &rotten {
                if disk.contents(&file(places[*n])).is_some() {
                    rot(&disk, places[*n], how, &mut rng);
                }
            }
            let mut chain = open(&disk, None, FILE_SIZE);
            chain.expect_copies();
            let lost = run(&mut chain, &blocks);
            assert!(lost.len() >= usize::from(!rotten.is_empty()), "{how:?}: {lost:?}");
            assert_eq!(chain.utxo_stats().unwrap(), expected, "{how:?}");
            chain.close().unwrap();
            for (n, at) in places.iter().enumerate() {
                let bytes = disk.contents(&file(*at)).unwrap();
                let block = at.offset as usize..(at.offset + at.len) as usize;
                assert_eq!(bytes.get(block), Some(&blocks[n][..]), "{how:?}, height {}", n + 1);
            }
            // Nothing is lost any more.
            let mut chain = open(&disk, None, FILE_SIZE);
            chain.settle(clock()).unwrap();
            assert_eq!(chain.utxo_stats().unwrap(), expected, "{how:?}");
        }
    }
}

#[test]
fn c5_a_rotted_block_without_peers_is_named_with_its_place() {
    let blocks = small_chain();
    let (disk, places) = verified(&blocks);
    rot(&disk, places[4], Rot::Bit, &mut Rng::new(1));
    let mut chain = open(&disk, None, FILE_SIZE);
    let error = chain.settle(clock()).unwrap_err();
    let text = error.to_string();
    let ChainError::DamagedBlock { hash: found, height, path, offset } = error else {
        panic!("{text}")
    };
    assert_eq!((found, height, path), (hash(&blocks[4]), 5, file(places[4])));
    assert_eq!(offset, places[4].offset);
    assert!(text.contains("blk00000.dat") && text.contains("peers"), "{text}");
}

#[test]
fn c5_a_rotted_tip_is_fetched_again_before_it_is_left() {
    let blocks = small_chain();
    let fork = blocks.len() as u32 - 3;
    let better = branch(&blocks, fork, 5);
    let all = [&blocks[..], &better].concat();
    let expected: UtxoStats = stats_of(&[&blocks[..fork as usize], &better].concat());
    for how in [Rot::Bit, Rot::Zeros] {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, FILE_SIZE);
        chain.expect_copies();
        submit_all(&mut chain, &blocks);
        let rng = &mut Rng::new(3);
        let heights = fork + 1..=blocks.len() as u32;
        heights.clone().for_each(|height| rot(&disk, position(&chain, height), how, rng));
        for block in &better {
            let header = crate::pruning::header(block);
            chain.accept_header(&header, header.block_hash(), clock()).unwrap();
            chain.receive_block(PooledStream::from(DataStream::from(&block[..])), 0);
        }
        let lost = run(&mut chain, &all);
        let left: Vec<BlockHash> =
            heights.rev().map(|height| hash(&blocks[height as usize - 1])).collect();
        assert_eq!(lost, left, "{how:?}: from the tip down");
        assert_eq!(chain.utxo_stats().unwrap(), expected, "{how:?}");
    }
}

/// The block that spends most, so that a good part of the chain is looked through.
#[test]
fn c5_a_rotted_undo_record_is_made_again_from_the_blocks() {
    let blocks = small_chain();
    let fork = blocks.len() as u32 - 12;
    let better = branch(&blocks, fork, 14);
    let expected: UtxoStats = stats_of(&[&blocks[..fork as usize], &better].concat());
    let back = stats_of(&blocks);
    for how in [Rot::Bit, Rot::Zeros, Rot::Missing] {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, FILE_SIZE);
        submit_all(&mut chain, &blocks);
        let (rng, mut spent) = (&mut Rng::new(11), 0);
        for height in fork + 1..=blocks.len() as u32 {
            let id = chain.tree().ancestor(chain.tip(), height).unwrap();
            let undo = chain.tree().node(id).undo.unwrap();
            spent += undo.len;
            let path = Path::new(DIR).join(format!("blocks/rev{:05}.dat", undo.file));
            let Some(mut bytes) = disk.contents(&path) else { continue };
            let record = undo.offset as usize..undo.offset as usize + undo.len as usize + 32;
            match how {
                Rot::Bit => {
                    bytes[record.start + rng.below(record.len() as u64) as usize] ^=
                        1 << rng.below(8)
                }
                Rot::Missing => {
                    disk.remove(&path).unwrap();
                    continue;
                }
                _ => bytes[record].fill(0),
            }
            disk.overwrite(&path, bytes);
        }
        assert!(spent > 1_000, "{spent} bytes");
        let first = hash(&blocks[fork as usize]);
        chain.invalidate_block(&first).unwrap();
        chain.settle(clock()).unwrap();
        let below = stats_of(&blocks[..fork as usize]);
        assert_eq!(chain.utxo_stats().unwrap(), below, "{how:?}");
        // The records are made again with the blocks.
        chain.reconsider_block(&first).unwrap();
        chain.settle(clock()).unwrap();
        assert_eq!(chain.utxo_stats().unwrap(), back, "{how:?}");
        for block in &better {
            crate::datadir::submit(&mut chain, block);
        }
        assert_eq!(chain.utxo_stats().unwrap(), expected, "{how:?}");
    }
}

/// Spoils the undo records of the blocks above `fork`.
fn rot_undo(disk: &FaultDisk, chain: &Chain, fork: u32) {
    for height in fork + 1..=chain.tip_point().height {
        let id = chain.tree().ancestor(chain.tip(), height).unwrap();
        let undo = chain.tree().node(id).undo.unwrap();
        let path = Path::new(DIR).join(format!("blocks/rev{:05}.dat", undo.file));
        let mut bytes = disk.contents(&path).unwrap();
        bytes[undo.offset as usize] ^= 4;
        disk.overwrite(&path, bytes);
    }
}

/// What the coins on disk need to be taken back is not forgotten before they are.
#[test]
fn c5_a_crash_after_a_block_without_undo_record_was_disconnected_does_no_harm() {
    let blocks = small_chain();
    let fork = blocks.len() as u32 - 3;
    let (below, all) = (stats_of(&blocks[..fork as usize]), stats_of(&blocks));
    let first = hash(&blocks[fork as usize]);
    for again in [false, true] {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, FILE_SIZE);
        submit_all(&mut chain, &blocks);
        chain.flush().unwrap();
        rot_undo(&disk, &chain, fork);
        chain.invalidate_block(&first).unwrap();
        chain.settle(clock()).unwrap();
        assert_eq!(chain.tip_point(), below.tip);
        // The index, and not the coins.
        end_after_checkpoint(chain);
        disk.crash(Survival::Nothing);
        let mut chain = open(&disk, None, FILE_SIZE);
        if again {
            chain.reconsider_block(&first).unwrap();
            chain.settle(clock()).unwrap();
            assert_eq!(chain.utxo_stats().unwrap(), all);
            chain.invalidate_block(&first).unwrap();
        }
        chain.settle(clock()).unwrap();
        assert_eq!(chain.utxo_stats().unwrap(), below, "{again}");
        chain.reconsider_block(&first).unwrap();
        chain.settle(clock()).unwrap();
        assert_eq!(chain.utxo_stats().unwrap(), all, "{again}");
    }
}

#[test]
fn c5_a_rotted_tip_that_the_operator_invalidates_is_fetched_again() {
    let blocks = small_chain();
    let fork = blocks.len() as u32 - 1;
    let below = stats_of(&blocks[..fork as usize]);
    for how in [Rot::Bit, Rot::Zeros, Rot::Cut, Rot::Missing] {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, FILE_SIZE);
        chain.expect_copies();
        submit_all(&mut chain, &blocks);
        rot(&disk, position(&chain, fork + 1), how, &mut Rng::new(2));
        let tip = hash(blocks.last().unwrap());
        chain.invalidate_block(&tip).unwrap();
        assert_eq!(run(&mut chain, &blocks), [tip], "{how:?}");
        assert_eq!(chain.utxo_stats().unwrap(), below, "{how:?}");
    }
}

#[test]
fn c5_rotted_blocks_that_an_undo_record_is_made_of_are_fetched_again() {
    let blocks = small_chain();
    let fork = blocks.len() as u32 - 12;
    let below = stats_of(&blocks[..fork as usize]);
    for (how, copies) in [(Rot::Bit, true), (Rot::Missing, true), (Rot::Bit, false)] {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, FILE_SIZE);
        if copies {
            chain.expect_copies();
        }
        submit_all(&mut chain, &blocks);
        chain.flush().unwrap();
        rot_undo(&disk, &chain, fork);
        let last = position(&chain, fork).file;
        for height in 1..=fork {
            let at = position(&chain, height);
            let is_there = disk.contents(&file(at)).is_some();
            if is_there && (matches!(how, Rot::Bit) || at.file < last) {
                rot(&disk, at, how, &mut Rng::new(u64::from(height)));
            }
        }
        chain.invalidate_block(&hash(&blocks[fork as usize])).unwrap();
        if copies {
            let lost = run(&mut chain, &blocks);
            assert!(lost.len() > 10, "{how:?}: {}", lost.len());
            assert_eq!(chain.utxo_stats().unwrap(), below, "{how:?}");
        } else {
            let error = chain.settle(clock()).unwrap_err();
            assert!(
                matches!(error, ChainError::DamagedBlock { height, .. } if height <= fork),
                "{error}"
            );
        }
    }
}

#[test]
fn c5_a_place_that_rots_again_is_named() {
    let blocks = small_chain();
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.expect_copies();
    submit_all(&mut chain, &blocks);
    let (rng, height) = (&mut Rng::new(5), blocks.len() as u32);
    let (tip, at) = (hash(&blocks[height as usize - 1]), position(&chain, height));
    rot(&disk, at, Rot::Bit, rng);
    assert_eq!(read(&mut chain, height, &blocks), (None, vec![tip]));
    rot(&disk, at, Rot::Bit, rng);
    assert_eq!(read(&mut chain, height, &blocks), (None, vec![]), "not fetched for a peer again");
    chain.invalidate_block(&tip).unwrap();
    let error = chain.settle(clock()).unwrap_err();
    assert!(
        matches!(&error, ChainError::DamagedBlock { hash, path, offset, .. }
            if (*hash, path, *offset) == (tip, &file(at), at.offset)),
        "{error}"
    );
}

/// The bytes that a peer gets of a block of the active chain.
fn read(chain: &mut Chain, height: u32, blocks: &[Vec<u8>]) -> (Option<Vec<u8>>, Vec<BlockHash>) {
    let id = chain.tree().ancestor(chain.tip(), height).unwrap();
    read_node(chain, id, blocks)
}

fn read_node(
    chain: &mut Chain,
    id: NodeId,
    blocks: &[Vec<u8>],
) -> (Option<Vec<u8>>, Vec<BlockHash>) {
    chain.read_block(id, 9);
    let (mut found, mut lost) = (None, Vec::new());
    loop {
        let poll = chain.poll(clock()).expect("no local fault");
        for event in chain.take_events() {
            match event {
                Event::Read { bytes, .. } => found = bytes.map(|bytes| bytes.as_slice().to_vec()),
                Event::Lost { hash } => lost.push(hash),
                _ => {}
            }
        }
        match poll {
            Poll::Idle => break,
            Poll::Progress => {}
            Poll::Waiting => {
                chain.wait_with(&crossbeam_channel::never::<()>(), Duration::from_millis(100));
            }
        }
    }
    for hash in &lost {
        let block = blocks.iter().find(|block| crate::pruning::hash(block) == *hash).unwrap();
        chain.receive_block(PooledStream::from(DataStream::from(&block[..])), 0);
    }
    run(chain, blocks);
    (found, lost)
}

#[test]
fn c5_a_rotted_block_that_a_peer_asks_for_is_sent_once_it_was_fetched_again() {
    let blocks = small_chain();
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.expect_copies();
    submit_all(&mut chain, &blocks);
    let rng = &mut Rng::new(5);
    for height in [1, 7, blocks.len() as u32] {
        let block = &blocks[height as usize - 1];
        assert_eq!(read(&mut chain, height, &blocks), (Some(block.clone()), vec![]));
        rot(&disk, position(&chain, height), Rot::Bit, rng);
        assert_eq!(read(&mut chain, height, &blocks), (None, vec![hash(block)]));
        assert_eq!(read(&mut chain, height, &blocks), (Some(block.clone()), vec![]));
    }
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&blocks));
}

/// Peers need not have it: they would be asked for it for ever, and send nothing.
#[test]
fn c5_a_rotted_block_of_a_branch_that_was_left_is_fetched_only_if_the_chain_goes_back_to_it() {
    let blocks = small_chain();
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.expect_copies();
    submit_all(&mut chain, &blocks);
    let (left, last) = (chain.tip(), blocks.last().unwrap());
    let rival = branch(&blocks, blocks.len() as u32 - 1, 2);
    assert_eq!(submit(&mut chain, &rival[0]), Verdict::Stored);
    assert_eq!(submit(&mut chain, &rival[1]), Verdict::Connected);
    chain.take_events();
    rot(&disk, chain.tree().node(left).position.unwrap(), Rot::Bit, &mut Rng::new(5));
    for _ in 0..2 {
        assert_eq!(read_node(&mut chain, left, &blocks), (None, vec![]));
    }
    chain.invalidate_block(&hash(&rival[0])).unwrap();
    assert_eq!(run(&mut chain, &blocks), [hash(last)]);
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&blocks));
    assert_eq!(read_node(&mut chain, left, &blocks), (Some(last.clone()), vec![]));
}

/// As one whose bytes are damaged.
#[test]
fn c5_a_block_whose_file_is_missing_is_fetched_again_whoever_reads_it() {
    let blocks = small_chain();
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    submit_all(&mut chain, &blocks);
    chain.close().unwrap();
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.expect_copies();
    chain.settle(clock()).unwrap();
    for (number, is_peer) in [(1, true), (2, false)] {
        let mut heights = 1..=blocks.len() as u32;
        let height = heights.find(|height| position(&chain, *height).file == number).unwrap();
        let block = &blocks[height as usize - 1];
        disk.remove(&file(position(&chain, height))).unwrap();
        if is_peer {
            assert_eq!(read(&mut chain, height, &blocks), (None, vec![hash(block)]));
        } else {
            let id = chain.tree().ancestor(chain.tip(), height).unwrap();
            let stored = StoredData::of(&chain).block(id).unwrap();
            let unreadable = StoredData::of(&chain).reader().block(&stored).err().unwrap();
            note_unreadable(&mut chain, &unreadable);
            assert_eq!(run(&mut chain, &blocks), [hash(block)]);
        }
        assert_eq!(read(&mut chain, height, &blocks), (Some(block.clone()), vec![]));
    }
}

/// Its frame and its header can be read, and so all the others.
#[test]
fn c5_a_bad_sector_behind_the_last_commit_costs_its_own_block_alone() {
    let blocks = small_chain();
    let expected = stats_of(&blocks);
    let written = FaultDisk::new();
    let mut chain = open(&written, None, FILE_SIZE);
    submit_all(&mut chain, &blocks);
    let places: Vec<BlockPosition> =
        (1..=blocks.len() as u32).map(|height| position(&chain, height)).collect();
    drop(chain);
    for n in [0, blocks.len() / 2, blocks.len() - 1] {
        let disk = written.copy();
        let last = u64::from(places[n].offset + places[n].len) - 1;
        disk.lose_sectors(&file(places[n]), last..last + 1);
        let mut chain = open(&disk, None, FILE_SIZE);
        chain.settle(clock()).expect("it is no reason to end");
        assert_eq!(chain.tip_point().height as usize, n);
        assert_eq!(submit(&mut chain, &blocks[n]), Verdict::Connected);
        chain.settle(clock()).expect("no local fault");
        assert_eq!(chain.utxo_stats().unwrap(), expected, "block {n}");
    }
}
