//! The search for what a block spent, when its undo record is lost, goes on behind a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use godwit_chain::{Chain, ChainError, ChainOptions};
use godwit_fault_disk::{FaultDisk, Survival, forward_jobs};
use godwit_primitives::network::{Network, Params};
use godwit_store::disk::Disk;
use godwit_store::exec::{Executor, Threads};

use crate::checkpoints::is_block_file;
use crate::counting_disk::CountingDisk;
use crate::datadir::{clock, options, small_chain, submit};
use crate::pruning::{DIR, hash, open, stats_of};

/// Several files.
const FILE_SIZE: u32 = 20_000;

/// Longer than the time between two reports of a search, and two checkpoints.
const LEAP: Duration = Duration::from_secs(61);

/// Blocks that one job looks through, at most, and as many again: what is written down once a minute.
const AT_ONCE: u32 = 16;

/// Threads and a clock that stands, until from some moment on a minute passes whenever somebody asks.
#[derive(Default)]
struct Leaping {
    threads: Threads,
    leaps: AtomicBool,
    asked: AtomicU32,
}

impl Executor for Leaping {
    forward_jobs!(threads);

    fn now(&self) -> Duration {
        let leaps = self.leaps.load(Ordering::Relaxed);
        LEAP * self.asked.fetch_add(u32::from(leaps), Ordering::Relaxed)
    }
}

fn open_by(leaping: &Arc<Leaping>, disk: &CountingDisk) -> Chain {
    let (disk, executor): (Arc<dyn Disk>, Arc<dyn Executor>) =
        (Arc::new(disk.clone()), Arc::clone(leaping) as _);
    let options = ChainOptions { executor, ..options(Params::new(Network::Regtest)) };
    Chain::open_with_file_size(disk, DIR.into(), options, [7; 16], clock(), FILE_SIZE)
        .expect("datadir opens")
}

fn checkpoint() -> PathBuf {
    Path::new(DIR).join("undo.checkpoint")
}

/// A chain whose tip is the first block that spends something: a coinbase of a hundred blocks before.
struct Case {
    disk: FaultDisk,
    /// The blocks up to the tip, whose undo record is lost.
    blocks: Vec<Vec<u8>>,
    /// Where a block lies that the search comes to on its way.
    on_the_way: (PathBuf, usize),
    height: u32,
}

impl Case {
    fn new() -> Self {
        let (disk, blocks) = (FaultDisk::new(), small_chain());
        let mut chain = open(&disk, None, FILE_SIZE);
        let undo = blocks.iter().find_map(|block| {
            submit(&mut chain, block);
            chain.tree().node(chain.tip()).undo.filter(|undo| undo.len > 1)
        });
        let undo = undo.expect("some block spends");
        chain.flush().expect("no local fault");
        let tip = chain.tip_point().height;
        let height = tip / 2;
        let id = chain.tree().ancestor(chain.tip(), height).expect("it is of the chain");
        let at = chain.tree().node(id).position.expect("it is stored");
        let path = Path::new(DIR).join(format!("blocks/blk{:05}.dat", at.file));
        chain.close().expect("no local fault");
        flip(
            &disk,
            &Path::new(DIR).join(format!("blocks/rev{:05}.dat", undo.file)),
            undo.offset as usize,
        );
        let blocks = blocks[..tip as usize].to_vec();
        Self { disk, blocks, on_the_way: (path, at.offset as usize + 90), height }
    }

    /// Disconnects the tip, and ends as by a kill; how many bytes of blocks were read for it.
    fn disconnect(&self, disk: &FaultDisk) -> Result<u64, ChainError> {
        let (disk, leaping) =
            (CountingDisk::new(disk, is_block_file), Arc::new(Leaping::default()));
        let mut chain = open_by(&leaping, &disk);
        let before = disk.read();
        leaping.leaps.store(true, Ordering::Relaxed);
        self.settle_below(&mut chain)?;
        Ok(disk.read() - before)
    }

    fn settle_below(&self, chain: &mut Chain) -> Result<(), ChainError> {
        let tip = hash(self.blocks.last().expect("a tip"));
        chain.invalidate_block(&tip).expect("it is known");
        chain.settle(clock())?;
        assert_eq!(chain.tip_point().height as usize, self.blocks.len() - 1);
        Ok(())
    }

    /// The coins without the tip are those of the blocks below.
    fn ends_right(&self, disk: &FaultDisk) {
        let mut chain = open(disk, None, FILE_SIZE);
        self.settle_below(&mut chain).expect("every block is there");
        let below = &self.blocks[..self.blocks.len() - 1];
        assert_eq!(chain.utxo_stats().expect("no local fault"), stats_of(below));
    }

    /// Bytes of blocks between the damaged one and the tip that were looked through more than a minute before
    /// the search came to the damaged one.
    fn seen(&self) -> u64 {
        let seen = &self.blocks[(self.height + AT_ONCE) as usize..self.blocks.len() - 1];
        seen.iter().map(|block| block.len() as u64).sum()
    }

    /// A directory in which a search was interrupted by a damaged block, which is whole again.
    fn interrupted(&self) -> FaultDisk {
        let disk = self.disk.copy();
        let (path, at) = &self.on_the_way;
        flip(&disk, path, *at);
        let error = self.disconnect(&disk).expect_err("a block on the way is damaged");
        assert!(
            matches!(error, ChainError::DamagedBlock { height, .. } if height == self.height),
            "{error}"
        );
        disk.crash(Survival::Nothing);
        flip(&disk, path, *at);
        disk
    }
}

fn flip(disk: &FaultDisk, path: &Path, at: usize) {
    let mut bytes = disk.contents(path).expect("a file");
    bytes[at] ^= 1;
    disk.overwrite(path, bytes);
}

#[test]
fn c5_a_search_for_what_a_block_spent_goes_on_behind_a_restart() {
    let case = Case::new();
    let all = case.disconnect(&case.disk.copy()).expect("every block is there");
    let disk = case.interrupted();
    assert!(disk.contents(&checkpoint()).is_some());
    let rest = case.disconnect(&disk).expect("every block is there");
    let seen = case.seen();
    assert!(seen > 3_000 && rest + seen <= all, "{rest} of {all} bytes, {seen} seen");
    // The block is disconnected again if that was not durable: then it is known what it spent.
    let again = case.disconnect(&disk).expect("every block is there");
    assert!(again < rest, "{again} of {rest} bytes");
    case.ends_right(&disk);
}

#[test]
fn c5_a_search_goes_on_from_nothing_but_its_own_whole_checkpoint() {
    let case = Case::new();
    let all = case.disconnect(&case.disk.copy()).expect("every block is there");
    let interrupted = case.interrupted();
    let left = interrupted.contents(&checkpoint()).expect("it was written down");
    for at in (0..left.len()).step_by(left.len() / 20 + 1).chain([left.len() - 1]) {
        for cut in [false, true] {
            let (disk, mut bytes) = (interrupted.copy(), left.clone());
            match cut {
                true => bytes.truncate(at),
                false => bytes[at] ^= 1 << (at % 8),
            }
            disk.overwrite(&checkpoint(), bytes);
            let read = case.disconnect(&disk).expect("every block is there");
            assert!(read + case.seen() > all, "byte {at}, {cut}: {read} of {all}");
            case.ends_right(&disk);
        }
    }
}
