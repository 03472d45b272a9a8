//! Block files in which a header has rotted: blocks above it stay.

use std::path::{Path, PathBuf};

use godwit_chain::Chain;
use godwit_fault_disk::FaultDisk;
use godwit_sim::rng::Rng;
use godwit_store::Rebuild;
use godwit_store::disk::Disk;

use crate::datadir::{clock, submit};
use crate::pruning::{BLOCKS, DIR, hash, open, stats_of};
use crate::reindex::{CONNECTED, FILE_SIZE, contents, database, datadir, rebuilding, start};

/// Where a stored block's header lies in its file.
fn header_place(disk: &FaultDisk, height: u32) -> (PathBuf, usize) {
    let chain = open(disk, None, FILE_SIZE);
    let id = chain.tree().ancestor(chain.tip(), height).expect("below the tip");
    let at = chain.tree().node(id).position.expect("it is stored");
    let path = Path::new(DIR).join("blocks").join(format!("blk{:05}.dat", at.file));
    (path, at.offset as usize)
}

/// The heights of those blocks of the chain that the index does not have.
fn not_stored(chain: &Chain) -> Vec<u32> {
    let is_stored = |block: &Vec<u8>| {
        let id = chain.tree().find(&hash(block));
        id.is_some_and(|id| chain.tree().node(id).position.is_some())
    };
    let blocks = (1..).zip(&BLOCKS[..CONNECTED]);
    blocks.filter(|(_, block)| !is_stored(block)).map(|(height, _)| height).collect()
}

/// One block is fetched again, and none of those above it.
fn ends_with_all_but(disk: &FaultDisk, lost: u32, rebuild: Rebuild, what: &str) {
    let mut chain = start(disk, FILE_SIZE, rebuilding(rebuild)).expect("an index");
    assert_eq!(not_stored(&chain), [lost], "{what}");
    chain.settle(clock()).expect("no local fault");
    submit(&mut chain, &BLOCKS[lost as usize - 1]);
    chain.settle(clock()).expect("no local fault");
    assert_eq!(
        chain.utxo_stats().expect("no local fault"),
        stats_of(&BLOCKS[..CONNECTED]),
        "{what}"
    );
    chain.flush().expect("no local fault");
    chain.close().expect("no local fault");
    assert_eq!(contents(disk).1, stats_of(&BLOCKS[..CONNECTED]), "{what}, once more");
}

/// The headers of the index before connect the blocks above, however little of the header is left.
#[test]
fn c5_a_block_file_s_damaged_header_costs_its_own_block_alone_when_the_user_has_all_indexed_again()
{
    let before = datadir(false);
    for height in [1, 70, 149] {
        let (path, at) = header_place(&before, height);
        for what in ["previous block", "nonce", "all of it"] {
            let disk = before.copy();
            let mut bytes = disk.contents(&path).expect("a block file");
            match what {
                "previous block" => bytes[at + 4 + height as usize % 32] ^= 1,
                "nonce" => bytes[at + 76..at + 80].fill(0xff),
                _ => bytes[at..at + 80].fill(0),
            }
            disk.overwrite(&path, bytes);
            ends_with_all_but(&disk, height, Rebuild::Index, &format!("{what} of {height}"));
        }
    }
}

/// Without a database the blocks above tell a header in which one bit has flipped.
#[test]
fn c5_a_flipped_bit_of_a_header_costs_its_own_block_alone_when_the_database_is_lost_too() {
    let before = datadir(false);
    let (intact, mut rng) = (before.copy(), Rng::new(14));
    before.remove(&database()).unwrap();
    for height in [1, 2, 69, 70, 120, 149] {
        let (path, at) = header_place(&intact, height);
        let disk = before.copy();
        let mut bytes = disk.contents(&path).expect("a block file");
        let bit = rng.below(640) as usize;
        bytes[at + bit / 8] ^= 1 << (bit % 8);
        disk.overwrite(&path, bytes);
        ends_with_all_but(&disk, height, Rebuild::Nothing, &format!("bit {bit} of {height}"));
    }
}
