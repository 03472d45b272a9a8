//! Carries out a hand-over, step by step.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_primitives::network::Params;
use godwit_store::error::{Damage, Remedy};
use godwit_store::inspect::{Found, Inspection};
use godwit_store::utxo::{CoinsInspection, OutPointOrder};
use godwit_store::{BlockChecksum, StoreError};
use godwit_stream::DataStream;

use crate::chainstate::{self, Chainstate};
use crate::error::HandOverError;
use crate::leveldb::Database;
use crate::plan::{CopiedBlock, Plan, Way, has_segwit};
use crate::record::{IndexRecord, LAST_FILE, PRUNED_FLAG, block_key, file_key, flag_key};
use crate::target::{self, BLOCKS, CHAINSTATE, Target};

/// Bytes of index records that are written in one batch.
const BATCH_BYTES: usize = 1 << 20;
/// Coins between two checks for a stop while sorting (`godwit-store/src/utxo/sort.rs`).
const SORTED_BETWEEN_LOOKS: u64 = 1 << 10;
/// Core's file with the XOR key of its block and undo files: the key is zero, because godwit's files are in
/// the clear.
const XOR_FILE: (&str, [u8; 8]) = ("xor.dat", [0; 8]);

/// The step under way; progress is counted in the unit given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Files of blocks and undo records are shared or copied; in bytes.
    Files,
    /// Core's block index is written; in headers.
    Index,
    /// The coins are sorted; in coins.
    Sort,
    /// Core's coins are written; in coins.
    Coins,
    /// They are read back; in parts.
    ReadBack,
}

/// The settings of a hand-over.
pub struct Settings<'a> {
    pub params: &'a Params,
    /// The network's directory below Core's data directory.
    pub target: &'a Path,
    /// A random key, with which Core's coins are XORed.
    pub key: [u8; 8],
    /// Bytes of memory in which coins are sorted.
    pub memory: usize,
    pub threads: usize,
    /// Stops the hand-over once it is set.
    pub stop: &'a AtomicBool,
}

/// The result of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    pub coins: u64,
    /// MuHash of the coins as they were read back; Core prints it reversed.
    pub muhash: [u8; 32],
}

/// Makes Core's data directory. Until it is complete, the source is unchanged, and everything in the target
/// has names that Core does not know. A failure leaves nothing in the target, except when the caller stops
/// the work: the files may hold half of main's coins, and removing them would keep the caller waiting.
///
/// # Errors
///
/// Everything in [`HandOverError`] that concerns source and target.
pub fn hand_over(
    inspection: &Inspection,
    coins: &CoinsInspection,
    plan: &Plan,
    settings: &Settings<'_>,
    progress: &mut dyn FnMut(Step, u64, u64),
) -> Result<HandedOver, HandOverError> {
    for block in &plan.copied {
        check_stop(settings.stop)?;
        check_copied(inspection, block)?;
    }
    let target = Target::begin(settings.target, &inspection.dir().join(BLOCKS))?;
    let made = Making { inspection, plan, settings, target: &target }.all(coins, progress);
    if !matches!(made, Ok(_) | Err(HandOverError::Stopped)) {
        target.abandon();
    }
    made
}

fn check_stop(stop: &AtomicBool) -> Result<(), HandOverError> {
    match stop.load(Ordering::Relaxed) {
        true => Err(HandOverError::Stopped),
        false => Ok(()),
    }
}

/// Reads a block before it is copied, so that damage is not handed on.
fn check_copied(inspection: &Inspection, block: &CopiedBlock) -> Result<(), HandOverError> {
    let CopiedBlock { hash, prev, at, checksum, undo } = *block;
    let bytes = inspection.read_block(at)?;
    if checksum.is_some_and(|known| known != BlockChecksum::of(bytes.as_slice())) {
        let (path, offset, bytes) =
            (inspection.block_path(at.file), at.offset.into(), at.len.into());
        // The node itself reads this block only in the next scrub.
        let (damage, remedy) = (Damage::Checksum, Remedy::OnRequest(hash));
        return Err(Found { path, offset, bytes, damage, remedy }.into());
    }
    if let Some(found) = inspection.check_block_frame(at)? {
        return Err(found.into());
    }
    match undo.map(|undo| inspection.read_undo(undo, &prev)) {
        Some(Err(error)) => {
            let remedy = match inspection.has_whole_history() {
                true => Remedy::Repair,
                false => Remedy::RepairWhereStored,
            };
            Err(Found::of(error, remedy)?.into())
        }
        Some(Ok(_)) | None => Ok(()),
    }
}

struct Making<'a> {
    inspection: &'a Inspection,
    plan: &'a Plan,
    settings: &'a Settings<'a>,
    target: &'a Target,
}

impl Making<'_> {
    fn all(
        &self,
        coins: &CoinsInspection,
        progress: &mut dyn FnMut(Step, u64, u64),
    ) -> Result<HandedOver, HandOverError> {
        let (needed, free) = (self.plan.needed_bytes(), self.target.free_bytes()?);
        if needed > free {
            let dir = self.settings.target.to_owned();
            return Err(HandOverError::NoSpace { dir, needed, free });
        }
        self.files(progress)?;
        self.index(progress)?;
        let handed_over = self.coins(coins, progress)?;
        self.target.complete(|| target::note(self.inspection.dir(), self.settings.target))?;
        Ok(handed_over)
    }

    fn files(&self, progress: &mut dyn FnMut(Step, u64, u64)) -> Result<(), HandOverError> {
        let total = self.plan.files.iter().map(|file| file.bytes).sum();
        let last = self.inspection.block_path(self.plan.last);
        let mut done = 0;
        progress(Step::Files, done, total);
        for file in &self.plan.files {
            check_stop(self.settings.stop)?;
            match file.way {
                Way::Shared => self.target.share(&file.from)?,
                Way::Copied => {
                    let more = if file.from == last { self.genesis_record() } else { Vec::new() };
                    self.target.copy(&file.from, file.bytes, &more, self.settings.stop)?;
                }
            }
            done += file.bytes;
            progress(Step::Files, done, total);
        }
        let (name, key) = XOR_FILE;
        self.target.write(name, &key)
    }

    fn genesis_record(&self) -> Vec<u8> {
        let block = self.settings.params.genesis_block();
        let length = self.plan.genesis.len.to_le_bytes();
        [&self.settings.params.magic[..], &length, &block].concat()
    }

    fn index(&self, progress: &mut dyn FnMut(Step, u64, u64)) -> Result<(), HandOverError> {
        let dir = self.target.inside(BLOCKS).join("index");
        let failed = |error| HandOverError::of_database(&dir, error);
        let (params, plan) = (self.settings.params, self.plan);
        let mut db = Database::create(&dir).map_err(failed)?;
        let (mut value, mut done, mut fault) = (DataStream::new(), 0, None);
        let mut put = |db: &mut Database, key: &[u8], record: &dyn Fn(&mut DataStream)| {
            value.clear();
            record(&mut value);
            db.put(key, value.as_slice());
        };
        let at = plan.genesis;
        let genesis =
            IndexRecord::genesis(params.genesis, has_segwit(params, 0), at.file, at.offset);
        put(&mut db, &block_key(&params.genesis_hash), &|out| out.put(&genesis));
        let walked = self.inspection.for_each_block(|hash, block| {
            let mut one = || {
                check_stop(self.settings.stop)?;
                let record = IndexRecord::new(&block, has_segwit(params, block.height));
                let record = record.map_err(|_| {
                    HandOverError::BeyondReach(block.undo.map_or_else(
                        || self.inspection.block_path(0),
                        |undo| self.inspection.undo_path(undo.file),
                    ))
                })?;
                put(&mut db, &block_key(&hash), &|out| out.put(&record));
                if db.batch_size() >= BATCH_BYTES {
                    db.write(false).map_err(failed)?;
                }
                Ok(())
            };
            done += 1;
            progress(Step::Index, done, plan.headers);
            one().map_err(|error| {
                fault = Some(error);
                StoreError::Stopped
            })
        });
        if let Some(fault) = fault {
            return Err(fault);
        }
        walked?;
        // Core reads an entry for every number up to the last, including pruned files.
        for file in 0..=plan.last {
            let info = plan.infos.get(&file).copied().unwrap_or_default();
            put(&mut db, &file_key(file), &|out| out.put(&info));
        }
        put(&mut db, LAST_FILE, &|out| out.write_u32(plan.last));
        let flag = if plan.is_pruned() { b'1' } else { b'0' };
        put(&mut db, &flag_key(PRUNED_FLAG), &|out| out.write_u8(flag));
        db.write(true).map_err(failed)
    }

    fn coins(
        &self,
        coins: &CoinsInspection,
        progress: &mut dyn FnMut(Step, u64, u64),
    ) -> Result<HandedOver, HandOverError> {
        let Settings { memory, threads, stop, key, .. } = *self.settings;
        let layers = coins.layers()?;
        let expected = layers.expected_coins();
        let progress = RefCell::new(progress);
        let say = |step, done, total| (progress.borrow_mut())(step, done, total);
        let sorted = Cell::new(0);
        let is_over = || {
            sorted.set(sorted.get() + SORTED_BETWEEN_LOOKS);
            say(Step::Sort, sorted.get(), expected);
            stop.load(Ordering::Relaxed)
        };
        let mut scan = layers.sorted(OutPointOrder::LevelDb, memory, &is_over)?;
        let dir = self.target.inside(CHAINSTATE);
        let mut wrote = |done| say(Step::Coins, done, expected);
        let tip = self.plan.tip().hash;
        let (count, digests) = chainstate::write(&dir, tip, key, &mut scan, stop, &mut wrote)?;
        // Dropping the scan removes the files in which the coins were sorted.
        drop(scan);
        let mut read = |done, total| say(Step::ReadBack, done, total);
        let read = Chainstate::open(&dir)?.read(threads, stop, &mut read)?;
        match (read.best_block, read.coins) == (tip, count) && read.digests == digests {
            true => Ok(HandedOver { coins: count, muhash: read.muhash }),
            false => Err(HandOverError::ReadBack(dir)),
        }
    }
}
