//! Datadirs that earlier versions of godwit have made, each packed into a file by `tools/pack-datadir`.
//!
//! `schema1`: regtest, made by two imports of commit f95b8f7, which is not in this repository's history, of
//! 60 and of 110 blocks of `godwit-sim generate --plan small --seed 1`. Its two runs have neither parity nor
//! sums, its blocks no checksums.
//!
//! `schema2`: the same 110 blocks and coins, made by commit b9da9e6: the first block was imported, a snapshot
//! of block 100 loaded, and all blocks imported. So its coins are assumed, and nothing validates the history
//! below.

use std::path::Path;
use std::sync::Arc;

use godwit_chain::{Chain, Event, Poll, UtxoStats, Verdict};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::ReversedHex;
use godwit_primitives::network::{Network, Params};
use godwit_store::MAX_BLOCK_FILE_SIZE;
use godwit_store::disk::Disk;

use crate::datadir::{clock, small_chain, submit};
use crate::pruning::{DIR, open, try_open};

const SCHEMA_1: &[u8] = include_bytes!("../data/schema1");
const SCHEMA_2: &[u8] = include_bytes!("../data/schema2");

/// `hash_serialized_3` of its coins, as that version has told it.
const UTXO_HASH: &str = "8e20f289a8a513156d2b30c7be2b8450365d34dd30ccdce14cb18165e117c919";
const HEIGHT: u32 = 110;

fn take<'p>(packed: &mut &'p [u8], len: usize) -> &'p [u8] {
    let (taken, rest) = packed.split_at(len);
    *packed = rest;
    taken
}

fn number(packed: &mut &[u8], len: usize) -> usize {
    take(packed, len).iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// A disk with a packed datadir.
fn unpacked(mut packed: &[u8]) -> FaultDisk {
    let (disk, dir) = (FaultDisk::new(), Path::new(DIR));
    for below in ["blocks", "utxo"] {
        disk.create_dir_all(&dir.join(below)).unwrap();
    }
    while !packed.is_empty() {
        let len = number(&mut packed, 2);
        let name = str::from_utf8(take(&mut packed, len)).unwrap();
        let mut bytes = vec![0; number(&mut packed, 4)];
        loop {
            let (offset, len) = (number(&mut packed, 4), number(&mut packed, 4));
            if len == 0 {
                break;
            }
            bytes[offset..offset + len].copy_from_slice(take(&mut packed, len));
        }
        disk.overwrite(&dir.join(name), bytes);
    }
    disk
}

/// A datadir of schema 1 as it was left, and the height of its coins.
pub(crate) fn schema_1() -> (FaultDisk, u32) {
    (unpacked(SCHEMA_1), HEIGHT)
}

fn open_whole(disk: &FaultDisk) -> Chain {
    open(disk, None, MAX_BLOCK_FILE_SIZE)
}

fn stats(disk: &FaultDisk) -> UtxoStats {
    let mut chain = open_whole(disk);
    chain.settle(clock()).unwrap();
    chain.utxo_stats().unwrap()
}

#[test]
fn a_datadir_of_schema_1_has_the_same_coins_and_goes_on() {
    let disk = unpacked(SCHEMA_1);
    let found = stats(&disk);
    assert_eq!(
        (ReversedHex(&found.hash_serialized).to_string(), found.tip.height),
        (UTXO_HASH.to_owned(), HEIGHT)
    );
    let mut chain = open_whole(&disk);
    let tip = chain.tip();
    assert!((1..=HEIGHT).all(|height| {
        let id = chain.tree().ancestor(tip, height).unwrap();
        chain.tree().node(id).checksum.is_none()
    }));
    for block in &small_chain()[HEIGHT as usize..] {
        assert_eq!(submit(&mut chain, block), Verdict::Connected);
    }
    chain.flush().unwrap();
    let tip = chain.tip();
    assert!(chain.tree().node(tip).checksum.is_some());
    let whole = chain.utxo_stats().unwrap();
    chain.close().unwrap();
    assert_eq!(stats(&disk), whole);
    assert_eq!(whole, crate::pruning::stats_of(&small_chain()));
}

/// A snapshot that was loaded before snapshots were validated is validated now.
#[test]
fn a_datadir_of_schema_2_has_the_same_coins_and_its_history_is_validated() {
    let disk = unpacked(SCHEMA_2);
    let found = stats(&disk);
    assert_eq!(
        (ReversedHex(&found.hash_serialized).to_string(), found.tip.height),
        (UTXO_HASH.to_owned(), HEIGHT)
    );
    let mut options = crate::datadir::options(Params::new(Network::Regtest));
    options.start.validates_history = true;
    let fault = Arc::new(disk.clone());
    let mut chain = Chain::open(fault, DIR.into(), options, [7; 16], clock()).unwrap();
    assert_eq!(chain.assumed().unwrap().base.height, 100);
    while chain.assumed().is_some() {
        chain.poll(clock()).unwrap();
        chain.wait_with(&crossbeam_channel::never::<()>(), std::time::Duration::from_millis(1));
    }
    chain.close().unwrap();
    assert_eq!(open_whole(&disk).prune_height(), 0);
    assert_eq!(stats(&disk), found);
}

#[test]
fn an_upgrade_that_is_cut_short_anywhere_is_done_again() {
    for schema in [SCHEMA_1, SCHEMA_2] {
        an_upgrade_is_done_again(schema);
    }
}

/// Every operation of the first start fails once, and the power goes at that moment.
fn an_upgrade_is_done_again(schema: &[u8]) {
    let expected = stats(&unpacked(schema));
    let mut failures = 0;
    for n in 1.. {
        let survival = [Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3];
        let disk = unpacked(schema);
        disk.fail_change(n);
        let opened = try_open(&disk, None, MAX_BLOCK_FILE_SIZE);
        let closed = opened.and_then(|mut chain| {
            chain.flush()?;
            chain.close()
        });
        if !disk.has_failed() {
            closed.unwrap();
            break;
        }
        failures += 1;
        disk.crash(survival);
        assert_eq!(stats(&disk), expected, "operation {n}, {survival:?}");
    }
    println!("{failures} operations failed, one after the other");
    assert!(failures > 3, "{failures}");
}

/// What reading a block for a peer gives.
fn read(chain: &mut Chain, height: u32) -> Option<Vec<u8>> {
    let id = chain.tree().ancestor(chain.tip(), height).unwrap();
    chain.read_block(id, 7);
    loop {
        let poll = chain.poll(clock()).unwrap();
        for event in chain.take_events() {
            if let Event::Read { ticket: 7, bytes } = event {
                return bytes.map(|bytes| bytes.as_slice().to_vec());
            }
        }
        if let Poll::Waiting = poll {
            chain.wait_with(&crossbeam_channel::never::<()>(), std::time::Duration::from_secs(1));
        }
    }
}

/// A block that a disk has damaged is not served, whichever schema has stored it.
#[test]
fn a_rotted_block_is_sent_to_nobody() {
    let blocks = small_chain();
    for schema in [1, 3] {
        let disk = match schema {
            1 => unpacked(SCHEMA_1),
            _ => {
                let disk = FaultDisk::new();
                let mut chain = open_whole(&disk);
                for block in &blocks[..HEIGHT as usize] {
                    assert_eq!(submit(&mut chain, block), Verdict::Connected);
                }
                chain.flush().unwrap();
                chain.close().unwrap();
                disk
            }
        };
        let path = Path::new(DIR).join("blocks/blk00000.dat");
        let mut bytes = disk.contents(&path).unwrap();
        let mut chain = open_whole(&disk);
        let id = chain.tree().ancestor(chain.tip(), 50).unwrap();
        let position = chain.tree().node(id).position.unwrap();
        assert_eq!(read(&mut chain, 49).as_ref(), Some(&blocks[48]));
        assert!(
            chain.tree().node(chain.tree().ancestor(chain.tip(), 49).unwrap()).checksum.is_some()
        );
        for at in 0..position.len as usize {
            bytes[position.offset as usize + at] ^= 4;
            disk.overwrite(&path, bytes.clone());
            assert_eq!(read(&mut chain, 50), None, "schema {schema}, byte {at}");
            assert_eq!(read(&mut chain, 51).as_ref(), Some(&blocks[50]));
            bytes[position.offset as usize + at] ^= 4;
        }
        disk.overwrite(&path, bytes);
        assert_eq!(read(&mut chain, 50).as_ref(), Some(&blocks[49]));
    }
}
