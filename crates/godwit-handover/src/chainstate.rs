//! Core's `chainstate`: written from sorted coins, and read by several threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use godwit_chain::insert_coin;
use godwit_primitives::muhash::MuHash3072;
use godwit_primitives::sha256::Sha256;
use godwit_primitives::{BlockHash, Coin, OutPoint};
use godwit_store::utxo::SortedScan;
use godwit_stream::{DataStream, DecodeError, Obfuscation};

use crate::error::HandOverError;
use crate::leveldb::{Database, LevelDbError};
use crate::record::{
    BEST_BLOCK, COIN, HEAD_BLOCKS, OBFUSCATION_KEY, coin_key, obfuscation_of, obfuscation_value,
    outpoint_of,
};

/// Bytes of records that are written in one batch.
const BATCH_BYTES: usize = 1 << 20;
/// Number of parts of the coins: one for each first byte of their txids.
const PARTS: usize = 256;
/// Coins between two checks whether the caller has stopped the work, and between two reports.
const LOOK_EVERY: u64 = 1 << 12;

/// A hash of each part of the coins, over keys and values in their order, to tell whether two databases hold
/// the same coins.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Digests(Vec<[u8; 32]>);

/// The result of reading a chainstate.
pub struct CoinsRead {
    /// The block whose coins they are.
    pub best_block: BlockHash,
    /// Number of coins.
    pub coins: u64,
    /// MuHash of the coins in the byte order of the hash; Core prints it reversed.
    pub muhash: [u8; 32],
    pub(crate) digests: Digests,
}

/// Writes the coins of `best_block`, which come in the order of LevelDB's keys, to a new database. `progress`
/// receives the number of coins written.
///
/// Keys are written in rising order, so LevelDB's tables do not overlap and never have to be rewritten. Core
/// writes `B` last; writing it first is safe here, because no program looks for the database in this place
/// before it is complete.
pub(crate) fn write(
    dir: &Path,
    best_block: BlockHash,
    key: [u8; 8],
    coins: &mut SortedScan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<(u64, Digests), HandOverError> {
    let failed = |error| HandOverError::of_database(dir, error);
    let obfuscation = Obfuscation::new(key);
    let mut db = Database::create(dir).map_err(failed)?;
    let mut value = DataStream::new();
    let mut put = |db: &mut Database, key: &[u8], plain: &[u8]| {
        value.clear();
        value.write(plain);
        obfuscation.apply(value.as_mut_slice(), 0);
        db.put(key, value.as_slice());
    };
    db.put(OBFUSCATION_KEY, &obfuscation_value(key));
    put(&mut db, BEST_BLOCK, best_block.as_bytes());
    let (mut key, mut count, mut digests) = (DataStream::new(), 0, Digester::new());
    progress(count);
    while let Some(entry) = coins.next()? {
        coin_key(&entry.outpoint, &mut key);
        put(&mut db, key.as_slice(), entry.compressed);
        digests.add(key.as_slice(), entry.compressed);
        count += 1;
        if count % LOOK_EVERY == 0 {
            if stop.load(Ordering::Relaxed) {
                return Err(HandOverError::Stopped);
            }
            progress(count);
        }
        if db.batch_size() >= BATCH_BYTES {
            db.write(false).map_err(failed)?;
        }
    }
    db.write(true).map_err(failed)?;
    Ok((count, digests.finish()))
}

/// Hashes the parts one after another, in their order.
struct Digester {
    part: usize,
    hash: Sha256,
    done: Vec<[u8; 32]>,
}

impl Digester {
    fn new() -> Self {
        Self { part: 0, hash: Sha256::new(), done: Vec::with_capacity(PARTS) }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        let part = key.get(1).map_or(0, |byte| usize::from(*byte));
        while self.part < part {
            self.next_part();
        }
        add_to_digest(&mut self.hash, key, value);
    }

    fn next_part(&mut self) {
        self.done.push(std::mem::replace(&mut self.hash, Sha256::new()).finalize());
        self.part += 1;
    }

    fn finish(mut self) -> Digests {
        while self.part < PARTS {
            self.next_part();
        }
        Digests(self.done)
    }
}

fn add_to_digest(hash: &mut Sha256, key: &[u8], value: &[u8]) {
    hash.update(&[key.len() as u8]);
    hash.update(key);
    hash.update(&(value.len() as u32).to_le_bytes());
    hash.update(value);
}

/// A chainstate of Bitcoin Core. No bitcoind can start on it while it is open.
pub struct Chainstate {
    dir: PathBuf,
    db: Database,
    obfuscation: Obfuscation,
    best_block: BlockHash,
}

impl Chainstate {
    /// Opens the database as Core does at a start, which may move records from its log into a table.
    ///
    /// # Errors
    ///
    /// [`HandOverError::Database`]; [`HandOverError::InFlush`] if Core was killed in a flush;
    /// [`HandOverError::NoBestBlock`], [`HandOverError::BadRecord`].
    pub fn open(dir: &Path) -> Result<Self, HandOverError> {
        let failed = |error| HandOverError::of_database(dir, error);
        let db = Database::open(dir).map_err(failed)?;
        let obfuscation = match db.get(OBFUSCATION_KEY).map_err(failed)? {
            Some(value) => Obfuscation::new(
                obfuscation_of(&value).ok_or_else(|| HandOverError::BadRecord(dir.to_owned()))?,
            ),
            // Before version 0.14.
            None => Obfuscation::NONE,
        };
        if db.get(HEAD_BLOCKS).map_err(failed)?.is_some() {
            return Err(HandOverError::InFlush(dir.to_owned()));
        }
        let Some(mut best_block) = db.get(BEST_BLOCK).map_err(failed)? else {
            return Err(HandOverError::NoBestBlock(dir.to_owned()));
        };
        obfuscation.apply(&mut best_block, 0);
        let best_block: [u8; 32] =
            best_block.try_into().map_err(|_| HandOverError::BadRecord(dir.to_owned()))?;
        let best_block = BlockHash::from_bytes(best_block);
        Ok(Self { dir: dir.to_owned(), db, obfuscation, best_block })
    }

    /// The block whose coins the database holds.
    pub fn best_block(&self) -> BlockHash {
        self.best_block
    }

    /// Reads all coins on `threads` threads. `progress` receives the number of parts read, and of all parts.
    ///
    /// # Errors
    ///
    /// [`HandOverError::Stopped`] once `stop` is set, [`HandOverError::BadRecord`] and
    /// [`HandOverError::Database`].
    pub fn read(
        &self,
        threads: usize,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CoinsRead, HandOverError> {
        let (next, done) = (AtomicUsize::new(0), mpsc::channel());
        let (report, reports) = done;
        let shares = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for n in 0..threads.clamp(1, PARTS) {
                let (next, report) = (&next, report.clone());
                let thread = std::thread::Builder::new().name(format!("godwit-coins-{n}"));
                let share = move || self.read_share(next, stop, &report);
                running.push(thread.spawn_scoped(scope, share).map_err(HandOverError::Spawn)?);
            }
            drop(report);
            for (count, ()) in (1..).zip(reports.iter()) {
                progress(count, PARTS as u64);
            }
            let joined = running.into_iter().map(|thread| thread.join());
            joined
                .map(|share| share.unwrap_or(Err(HandOverError::ThreadPanicked)))
                .collect::<Result<Vec<_>, HandOverError>>()
        })?;
        let (mut muhash, mut coins, mut digests) = (MuHash3072::new(), 0, vec![[0; 32]; PARTS]);
        for share in shares {
            muhash.combine(&share.muhash);
            coins += share.coins;
            share.digests.into_iter().for_each(|(part, digest)| digests[part] = digest);
        }
        let (best_block, muhash) = (self.best_block, muhash.finalize());
        Ok(CoinsRead { best_block, coins, muhash, digests: Digests(digests) })
    }

    /// Reads the parts that no thread has begun, one after another.
    fn read_share(
        &self,
        next: &AtomicUsize,
        stop: &AtomicBool,
        report: &mpsc::Sender<()>,
    ) -> Result<Share, HandOverError> {
        let mut share = Share { muhash: MuHash3072::new(), coins: 0, digests: Vec::new() };
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            let Some(byte) = u8::try_from(part).ok().filter(|_| part < PARTS) else {
                return Ok(share);
            };
            self.read_part(byte, stop, &mut share)?;
            // The receiver is gone: its thread ended because another one failed.
            if report.send(()).is_err() {
                return Ok(share);
            }
        }
    }

    fn read_part(
        &self,
        part: u8,
        stop: &AtomicBool,
        share: &mut Share,
    ) -> Result<(), HandOverError> {
        let first = [COIN, part];
        let (mut cursor, mut value) = (self.db.seek(&first), DataStream::new());
        let mut digest = Sha256::new();
        let failed = |error| HandOverError::of_database(&self.dir, error);
        while let Some((key, stored)) = cursor.entry().map_err(failed)? {
            if !key.starts_with(&first) {
                break;
            }
            value.clear();
            value.write(stored);
            self.obfuscation.apply(value.as_mut_slice(), 0);
            let (outpoint, coin) = decoded(key, value.as_slice())
                .map_err(|_| HandOverError::BadRecord(self.dir.clone()))?;
            insert_coin(&mut share.muhash, &outpoint, &coin);
            add_to_digest(&mut digest, key, value.as_slice());
            share.coins += 1;
            if share.coins.is_multiple_of(LOOK_EVERY) && stop.load(Ordering::Relaxed) {
                return Err(HandOverError::Stopped);
            }
            cursor.step();
        }
        // The records of this part may seem to end because a damaged block was passed over.
        cursor.check().map_err(failed)?;
        share.digests.push((part.into(), digest.finalize()));
        Ok(())
    }
}

/// What one thread has read.
struct Share {
    muhash: MuHash3072,
    coins: u64,
    digests: Vec<(usize, [u8; 32])>,
}

fn decoded(key: &[u8], value: &[u8]) -> Result<(OutPoint, Coin), DecodeError> {
    Ok((outpoint_of(key)?, Coin::from_compressed(value)?))
}

impl HandOverError {
    pub(crate) fn of_database(dir: &Path, error: LevelDbError) -> Self {
        Self::Database(dir.to_owned(), error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use godwit_chain::insert_coin;
    use godwit_primitives::Txid;

    use super::*;

    const KEY: [u8; 8] = [1, 200, 3, 4, 5, 6, 7, 8];

    fn coin(n: u32) -> (OutPoint, Coin) {
        let mut txid = [n as u8; 32];
        txid[1..5].copy_from_slice(&n.to_le_bytes());
        let script_pubkey = vec![0x51; n as usize % 300].into();
        let outpoint = OutPoint { txid: Txid::from_bytes(txid), vout: n * 977 };
        (
            outpoint,
            Coin {
                value: i64::from(n) * 1_000,
                script_pubkey,
                height: n,
                coinbase: n.is_multiple_of(2),
            },
        )
    }

    /// Writes a database of these coins, given in any order, as Core would.
    fn database(dir: &Path, coins: &[(OutPoint, Coin)], records: &[(&[u8], &[u8])]) {
        let (mut db, obfuscation) = (Database::create(dir).unwrap(), Obfuscation::new(KEY));
        let mut put = |key: &[u8], plain: &[u8]| {
            let mut value = plain.to_vec();
            obfuscation.apply(&mut value, 0);
            db.put(key, &value);
        };
        records.iter().for_each(|(key, value)| put(key, value));
        let (mut key, mut value) = (DataStream::new(), DataStream::new());
        for (outpoint, coin) in coins {
            coin_key(outpoint, &mut key);
            value.clear();
            value.put(coin);
            put(key.as_slice(), value.as_slice());
        }
        db.put(OBFUSCATION_KEY, &obfuscation_value(KEY));
        db.write(true).unwrap();
    }

    fn read(dir: &Path, threads: usize) -> Result<CoinsRead, HandOverError> {
        let mut parts = Vec::new();
        let never = AtomicBool::new(false);
        let read = Chainstate::open(dir)?.read(threads, &never, &mut |done, all| {
            parts.push((done, all));
        })?;
        assert_eq!((parts.len(), parts.last()), (PARTS, Some(&(256, 256))));
        Ok(read)
    }

    #[test]
    fn coins_are_read_whole_by_any_number_of_threads() {
        let temp = tempfile::tempdir().unwrap();
        let coins: Vec<_> = (0..5_000).map(coin).collect();
        let (dir, tip) = (temp.path().join("chainstate"), [9; 32]);
        database(&dir, &coins, &[(BEST_BLOCK, &tip)]);
        let mut muhash = MuHash3072::new();
        coins.iter().for_each(|(outpoint, coin)| insert_coin(&mut muhash, outpoint, coin));
        let mut digests = None;
        for threads in [1, 3, 1_000] {
            let found = read(&dir, threads).unwrap();
            assert_eq!((found.coins, found.best_block.to_bytes()), (5_000, tip));
            assert_eq!(found.muhash, muhash.finalize());
            assert!(
                digests.replace(found.digests.clone()).is_none_or(|last| last == found.digests)
            );
        }
        // Another coin, with as few bytes changed as possible.
        let mut others = coins;
        others[4_321].1.height ^= 1;
        let dir = temp.path().join("other");
        database(&dir, &others, &[(BEST_BLOCK, &tip)]);
        let found = read(&dir, 2).unwrap();
        assert!(found.digests != digests.unwrap());
        assert_ne!(found.muhash, muhash.finalize());
    }

    #[test]
    fn what_is_no_chainstate_at_rest_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let tip: (&[u8], &[u8]) = (BEST_BLOCK, &[9; 32]);
        let refused = |name: &str, coins: &[(OutPoint, Coin)], records: &[(&[u8], &[u8])]| {
            let dir = temp.path().join(name);
            database(&dir, coins, records);
            match read(&dir, 2) {
                Ok(_) => panic!("{name} is read"),
                Err(error) => error,
            }
        };
        let error = refused("flush", &[], &[tip, (HEAD_BLOCKS, &[0; 65])]);
        assert!(matches!(error, HandOverError::InFlush(_)), "{error}");
        let error = refused("empty", &[], &[]);
        assert!(matches!(error, HandOverError::NoBestBlock(_)), "{error}");
        let error = refused("short", &[], &[(BEST_BLOCK, &[9; 31])]);
        assert!(matches!(error, HandOverError::BadRecord(_)), "{error}");
        let error = refused("key", &[coin(1)], &[tip, (b"C\x01short", &[1, 2, 3])]);
        assert!(matches!(error, HandOverError::BadRecord(_)), "{error}");
        let error =
            refused("value", &[coin(1)], &[tip, (&[&b"C"[..], &[7; 33]].concat(), &[0x80])]);
        assert!(matches!(error, HandOverError::BadRecord(_)), "{error}");
        let error = Chainstate::open(&temp.path().join("none")).map(drop).unwrap_err();
        assert!(matches!(error, HandOverError::Database(_, LevelDbError::Missing)), "{error}");
        assert!(!fs::exists(temp.path().join("none")).unwrap());
    }

    #[test]
    fn reading_ends_when_it_is_stopped() {
        let temp = tempfile::tempdir().unwrap();
        let coins: Vec<_> = (0..20_000)
            .map(|n| {
                let (mut outpoint, coin) = coin(n);
                outpoint.txid = Txid::from_bytes([7; 32]);
                (outpoint, coin)
            })
            .collect();
        database(temp.path(), &coins, &[(BEST_BLOCK, &[9; 32])]);
        let stop = AtomicBool::new(true);
        let read = Chainstate::open(temp.path()).unwrap().read(2, &stop, &mut |_, _| {});
        assert!(matches!(read.map(drop), Err(HandOverError::Stopped)));
    }

    #[test]
    fn digests_of_parts_without_coins_are_those_of_nothing() {
        let mut digester = Digester::new();
        digester.add(&[COIN, 3, 9], b"value");
        let Digests(parts) = digester.finish();
        let nothing = Sha256::new().finalize();
        assert_eq!(parts.len(), PARTS);
        assert!(parts.iter().enumerate().all(|(n, part)| (*part == nothing) == (n != 3)));
    }
}
