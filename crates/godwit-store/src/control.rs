//! The control file: a second copy, beside the database, of what neither block files nor runs tell.
//!
//! Without the database the block files can be indexed again, but the coins would be lost with the key of
//! their hash and the manifest of their runs. So each commit writes these once more, after its
//! transaction, in turn to `godwit.control0` and `godwit.control1`. Each appears under its name whole and
//! durable, so that one that is not whole is damaged: no kill and no power cut leaves it so. There are two
//! because a damaged one must not take the coins with it. Little-endian:
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | magic `gdwtctrl` |
//! | 4 | version, 1 |
//! | 8 | number of the commit, which the database has too; its lowest bit is that of the file's name |
//! | 56 | the database's `identity` |
//! | 1 | follows: 1 verified tip, 2 coins, 4 snapshot, 16 history, 64 doubt, 32 refutation; 8: pruned |
//! | 36 | verified tip: block hash and height |
//! | 36 | the block that the coins are the UTXO set of |
//! | compact size + n | manifest of their runs |
//! | 68 | the snapshot: block hash, height, hash of its coins |
//! | 36, compact size + n | the block up to which its history is validated, manifest of the coins there |
//! | 33 or 37, twice | what was against it first and at last: 0 and found coins' hash, or 1 and a bad block |
//! | 32 | SHA-256d of all before |
//!
//! The number also tells that a database was rolled back: by its own repair, or by a copy from another
//! time that was put in its place. A database may be one commit ahead, when a crash came between the
//! two, and is never behind.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use godwit_primitives::sha256::sha256d;
use godwit_stream::{
    Allocator, DataStream, Decode, DecodeError, Encode, SerializeData, SpanReader,
};

use crate::disk::{OpenMode, StoreDisk};
use crate::error::{Damage, StoreError};
use crate::names::UTXO_DIR;
use crate::record::{CommittedState, HistoryCoins, Identity};
use crate::utxo::{Manifest, UtxoHasher, parity_tells, run_fingerprints};

const MAGIC: [u8; 8] = *b"gdwtctrl";
const VERSION: u32 = 1;
const HASH_SIZE: usize = 32;
/// What a file is written as before it has its name. What is left of one is written over.
const UNFINISHED: &str = "godwit.control.new";
/// Longer than any: a manifest of 64 partitions names some hundred runs, 36 bytes each.
const MAX_CONTROL_FILE: u64 = 16 << 20;

const VERIFIED: u8 = 1;
const COINS: u8 = 2;
const ASSUMED: u8 = 4;
const PRUNED: u8 = 8;
const HISTORY: u8 = 16;
const REFUTED: u8 = 32;
const DOUBTED: u8 = 64;

/// What a commit has left, as the control file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Number of the commit; 0 before the first.
    pub(crate) commit: u64,
    pub(crate) identity: Identity,
    /// Whether files were ever pruned: then the block files alone do not make an index.
    pub(crate) pruned: bool,
    pub(crate) state: CommittedState,
}

/// What one of the two files is.
pub(crate) enum Slot {
    Missing,
    Damaged,
    Whole(Box<Control>),
}

impl Slot {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// The next one of the two files, while it is written.
pub(crate) fn unfinished(dir: &Path) -> PathBuf {
    dir.join(UNFINISHED)
}

fn slot(dir: &Path, commit: u64) -> PathBuf {
    dir.join(format!("godwit.control{}", commit & 1))
}

impl Control {
    /// The control files of `dir` that are intact, the newest first.
    pub(crate) fn intact(disk: &StoreDisk, dir: &Path) -> Result<Vec<Self>, StoreError> {
        let mut intact = Vec::new();
        for (path, slot) in Self::both(disk, dir)? {
            match slot {
                Slot::Whole(found) => intact.push(*found),
                Slot::Missing => {}
                // The next commit but one writes it again.
                Slot::Damaged => log::info!("{} is not whole.", path.display()),
            }
        }
        intact.sort_by_key(|control| Reverse(control.commit));
        Ok(intact)
    }

    /// Both files of `dir`.
    pub(crate) fn both(disk: &StoreDisk, dir: &Path) -> Result<[(PathBuf, Slot); 2], StoreError> {
        let read = |parity| {
            let path = slot(dir, parity);
            Self::read(disk, &path).map(|slot| (path, slot))
        };
        Ok([read(0)?, read(1)?])
    }

    fn read(disk: &StoreDisk, path: &Path) -> Result<Slot, StoreError> {
        let file = match disk.open(path, OpenMode::Read) {
            Err(error) if error.is_not_found() => return Ok(Slot::Missing),
            other => other?,
        };
        let len = file.file_len()?.min(MAX_CONTROL_FILE) as usize;
        let mut bytes = DataStream::with_capacity(len);
        // What cannot be read is as good as what is damaged: there are two.
        let read = file.read_stream_at(0, len, &mut bytes);
        let parsed = read.ok().and_then(|()| Self::parse(bytes.as_slice()));
        Ok(parsed.map_or(Slot::Damaged, |control| Slot::Whole(Box::new(control))))
    }

    /// Writes it in place of the one before the last.
    pub(crate) fn write(&self, disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
        self.write_to(disk, &slot(dir, self.commit))
    }

    /// Writes it as one of the two files. Written in place, a file of more than a page could be torn by a
    /// kill, and `verify` took that for damage.
    pub(crate) fn write_to(&self, disk: &StoreDisk, path: &Path) -> Result<(), StoreError> {
        let dir = path.parent().expect("in a directory");
        let unfinished = unfinished(dir);
        let file = disk.open(&unfinished, OpenMode::Truncate)?;
        file.write_all_at(0, self.encoded().as_slice())?;
        file.sync()?;
        disk.rename(&unfinished, path)?;
        disk.sync_dir(dir)
    }

    /// What is wrong with one of the two files where the last commit has left this: of the last two commits
    /// each has left one.
    pub(crate) fn damage_of(&self, slot: &Slot) -> Option<Damage> {
        match slot {
            // A new directory has one.
            Slot::Missing => (self.commit > 1).then_some(Damage::MissingFile),
            Slot::Damaged => Some(Damage::Checksum),
            Slot::Whole(found) if !found.is_of(&self.identity) => {
                Some(Damage::Disagreement("it is of another data directory"))
            }
            // A crash between database and control file leaves it two commits behind.
            Slot::Whole(found) if found.commit + 2 < self.commit => {
                Some(Damage::Disagreement("it is of an earlier commit"))
            }
            Slot::Whole(_) => None,
        }
    }

    /// Whether it is of the directory whose database says this: the key is random.
    pub(crate) fn is_of(&self, identity: &Identity) -> bool {
        self.identity.utxo_hash_key == identity.utxo_hash_key
    }

    /// Whether the block files hold every block that the coins come from, so that index and coins can be
    /// made of them again.
    pub(crate) fn has_whole_history(&self) -> bool {
        !self.pruned && self.state.assumed.is_none()
    }

    /// Of the key, as the runs of its directory have it.
    fn fingerprint(&self) -> u64 {
        UtxoHasher::new(self.identity.utxo_hash_key).fingerprint()
    }

    /// Whether it names runs, or may.
    fn names_runs(&self) -> bool {
        self.state.utxo_manifest.is_some() && !self.names_no_run()
    }

    /// Whether it names coins that have no run. Where it names no coins, those that are there may be of a
    /// database that was lost.
    pub(crate) fn names_no_run(&self) -> bool {
        self.manifest().is_some_and(|manifest| manifest.is_empty())
    }

    /// How many runs it names, as far as can be told.
    pub(crate) fn run_count(&self) -> usize {
        let hasher = UtxoHasher::new(self.identity.utxo_hash_key);
        let manifest = self.manifest().filter(|manifest| manifest.is_readable(&hasher));
        manifest.map_or(0, |manifest| manifest.files().count())
    }

    fn manifest(&self) -> Option<Manifest> {
        SpanReader::new(self.state.utxo_manifest.as_ref()?).get().ok()
    }

    /// Whether a run that it names can be brought back so far as to tell that it has its key.
    fn is_of_damaged_runs(&self, disk: &StoreDisk, utxo_dir: &Path) -> Result<bool, StoreError> {
        let Some(manifest) = self.manifest() else { return Ok(false) };
        parity_tells(disk, utxo_dir, manifest.files(), self.fingerprint())
    }

    fn encoded(&self) -> DataStream {
        let mut out = DataStream::new();
        out.write(&MAGIC);
        out.write_u32(VERSION);
        out.write_u64(self.commit);
        out.put(&self.identity);
        out.put(&Kept { pruned: self.pruned, state: self.state.clone() });
        let hash = sha256d(out.as_slice());
        out.write(&hash);
        out
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (content, hash) = bytes.split_last_chunk::<HASH_SIZE>()?;
        if sha256d(content) != *hash {
            return None;
        }
        Self::decode(content).ok()?
    }

    fn decode(content: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut reader = SpanReader::new(content);
        if reader.array()? != MAGIC || reader.u32()? != VERSION {
            return Ok(None);
        }
        let (commit, identity) = (reader.u64()?, reader.get()?);
        let Kept { pruned, state } = reader.get()?;
        Ok(reader.is_empty().then_some(Self { commit, identity, pruned, state }))
    }
}

/// Which of some control files, the newest first, tells what the database would tell, where there is none:
/// the newest one whose key runs of the directory were written under, by the ends of the runs or by their
/// parity. Where no run tells a key, the newest if all have one key, as long as what it says costs nothing
/// that is stored.
pub(crate) fn confirmed<'a>(
    disk: &StoreDisk,
    dir: &Path,
    controls: &'a [Control],
) -> Result<Option<&'a Control>, StoreError> {
    let Some(newest) = controls.first() else { return Ok(None) };
    let utxo_dir = dir.join(UTXO_DIR);
    let runs = run_fingerprints(disk, &utxo_dir)?;
    if !runs.is_empty() {
        return Ok(controls.iter().find(|control| runs.contains(&control.fingerprint())));
    }
    for control in controls {
        if control.is_of_damaged_runs(disk, &utxo_dir)? {
            return Ok(Some(control));
        }
    }
    let is_harmless = controls.iter().all(|control| control.is_of(&newest.identity))
        && !newest.names_runs()
        && newest.has_whole_history();
    Ok(is_harmless.then_some(newest))
}

/// Whether the control files speak for another directory than the one whose database says this: runs are
/// there of one of theirs and none of its own, or no run tells, and both files have one other key.
pub(crate) fn refute(
    disk: &StoreDisk,
    dir: &Path,
    identity: &Identity,
    controls: &[Control],
) -> Result<bool, StoreError> {
    if controls.is_empty() || controls.iter().any(|control| control.is_of(identity)) {
        return Ok(false);
    }
    let runs = run_fingerprints(disk, &dir.join(UTXO_DIR))?;
    if runs.contains(&UtxoHasher::new(identity.utxo_hash_key).fingerprint()) {
        return Ok(false);
    }
    Ok(match controls {
        [one, other] if runs.is_empty() => one.is_of(&other.identity),
        _ => controls.iter().any(|control| runs.contains(&control.fingerprint())),
    })
}

/// What is to be kept of a database that is lost or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Whether files were ever pruned.
    pub(crate) pruned: bool,
    pub(crate) state: CommittedState,
}

impl Kept {
    /// Whether no block counts as connected any more, so that every undo record is made anew.
    pub(crate) fn connects_all_anew(&self) -> bool {
        self.state.utxo_tip.is_none() && self.state.verified_tip.is_none()
    }
}

impl Encode for Kept {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        let CommittedState { utxo_tip, utxo_manifest, verified_tip, assumed, .. } = &self.state;
        let CommittedState { history, doubted, refuted, .. } = &self.state;
        let coins = utxo_tip.as_ref().zip(utxo_manifest.as_ref());
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        out.write_u8(
            flag(verified_tip.is_some(), VERIFIED)
                | flag(coins.is_some(), COINS)
                | flag(assumed.is_some(), ASSUMED)
                | flag(self.pruned, PRUNED)
                | flag(history.is_some(), HISTORY)
                | flag(doubted.is_some(), DOUBTED)
                | flag(refuted.is_some(), REFUTED),
        );
        if let Some(tip) = verified_tip {
            out.put(tip);
        }
        if let Some((tip, manifest)) = coins {
            out.put(tip);
            out.write_compact_size(manifest.len() as u64);
            out.write(manifest);
        }
        if let Some(assumed) = assumed {
            out.put(assumed);
        }
        if let Some(HistoryCoins { tip, manifest }) = history {
            out.put(tip);
            out.write_compact_size(manifest.len() as u64);
            out.write(manifest);
        }
        for refutation in [doubted, refuted].into_iter().flatten() {
            out.put(refutation);
        }
    }
}

fn manifest(reader: &mut SpanReader<'_>) -> Result<SerializeData, DecodeError> {
    let len = usize::try_from(reader.compact_size()?).unwrap_or(usize::MAX);
    Ok(DataStream::from(reader.bytes(len)?).into_vec())
}

impl Decode for Kept {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let (flags, mut state) = (reader.u8()?, CommittedState::default());
        if flags & VERIFIED != 0 {
            state.verified_tip = Some(reader.get()?);
        }
        if flags & COINS != 0 {
            state.utxo_tip = Some(reader.get()?);
            state.utxo_manifest = Some(manifest(reader)?);
        }
        if flags & ASSUMED != 0 {
            state.assumed = Some(reader.get()?);
        }
        if flags & HISTORY != 0 {
            let tip = reader.get()?;
            state.history = Some(HistoryCoins { tip, manifest: manifest(reader)? });
        }
        if flags & DOUBTED != 0 {
            state.doubted = Some(reader.get()?);
        }
        if flags & REFUTED != 0 {
            state.refuted = Some(reader.get()?);
        }
        Ok(Self { pruned: flags & PRUNED != 0, state })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use godwit_fault_disk::{FaultDisk, Recorder, Survival};

    use super::*;
    use crate::error::NetworkId;
    use crate::fixtures::{MAGIC as NETWORK_MAGIC, point};
    use crate::record::{AssumedSnapshot, Refutation};

    const DIR: &str = "/node";

    fn control(commit: u64, parts: u8) -> Control {
        let is_set = |bit: u8| parts & bit != 0;
        let network = NetworkId { magic: NETWORK_MAGIC, genesis: [9; 32] };
        let state = CommittedState {
            utxo_tip: is_set(COINS).then(|| point(1, 1)),
            utxo_manifest: is_set(COINS).then(|| DataStream::from(&[5; 300][..]).into_vec()),
            verified_tip: is_set(VERIFIED).then(|| point(2, 2)),
            assumed: is_set(ASSUMED)
                .then(|| AssumedSnapshot { base: point(3, 3), utxo_hash: [8; 32] }),
            history: is_set(HISTORY).then(|| HistoryCoins {
                tip: point(2, 2),
                manifest: DataStream::from(&[6; 300][..]).into_vec(),
            }),
            doubted: is_set(DOUBTED).then(|| Refutation::InvalidBlock(point(4, 4))),
            refuted: is_set(REFUTED).then(|| match commit % 2 {
                0 => Refutation::OtherCoins([4; 32]),
                _ => Refutation::InvalidBlock(point(1, 1)),
            }),
        };
        let identity = Identity { schema: 2, network, utxo_hash_key: [3; 16] };
        Control { commit, identity, pruned: is_set(PRUNED), state }
    }

    #[test]
    fn whatever_a_commit_has_left_comes_back() {
        for parts in 0..128 {
            let control = control(u64::from(parts), parts);
            assert_eq!(Control::parse(control.encoded().as_slice()), Some(control));
        }
    }

    #[test]
    fn no_damaged_byte_passes() {
        let good = control(7, 127).encoded().as_slice().to_vec();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(Control::parse(&bad), None, "byte {at}");
            assert_eq!(Control::parse(&good[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn the_newest_that_is_intact_comes_first() {
        let fault = FaultDisk::new();
        let (disk, dir) = (StoreDisk::new(Arc::new(fault.clone())), Path::new(DIR));
        disk.create_dir_all(dir).unwrap();
        let intact = || -> Vec<u64> {
            let found = Control::intact(&disk, dir).unwrap();
            found.iter().for_each(|found| assert_eq!(*found, control(found.commit, 15)));
            found.iter().map(|control| control.commit).collect()
        };
        assert_eq!(intact(), []);
        for commit in 0..5u64 {
            control(commit, 15).write(&disk, dir).unwrap();
            let expected: Vec<u64> =
                [Some(commit), commit.checked_sub(1)].into_iter().flatten().collect();
            assert_eq!(intact(), expected);
        }
        fault.overwrite(&slot(dir, 4), vec![1; 20]);
        assert_eq!(intact(), [3]);
        fault.overwrite(&slot(dir, 3), Vec::new());
        assert_eq!(intact(), []);
    }

    #[test]
    fn no_kill_and_no_power_cut_tears_one() {
        let (recorder, dir) = (Arc::new(Recorder::new(Arc::new(FaultDisk::new()))), Path::new(DIR));
        let disk = StoreDisk::new(recorder.clone());
        disk.create_dir_all(dir).unwrap();
        let mut written = Vec::new();
        for commit in 0..5 {
            control(commit, 15).write(&disk, dir).unwrap();
            written.push(recorder.instant());
        }
        let recording = recorder.recording();
        for at in 0..=recorder.instant() {
            let durable = written.iter().filter(|end| **end <= at).count();
            for survival in [Survival::All, Survival::Nothing, Survival::Part(at)] {
                let left = StoreDisk::new(Arc::new(recording.cut(at, survival)));
                let both = Control::both(&left, dir).unwrap();
                let torn = both.iter().filter(|(_, slot)| matches!(slot, Slot::Damaged)).count();
                assert_eq!(torn, 0, "cut at {at}, {survival:?}");
                let newest =
                    Control::intact(&left, dir).unwrap().first().map(|found| found.commit + 1);
                assert!(newest.unwrap_or(0) >= durable as u64, "cut at {at}, {survival:?}");
            }
        }
    }
}
