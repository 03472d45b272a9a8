//! LMDB: coins sorted in memory, appended in one transaction, committed with its own sync.
#![allow(unsafe_code)]

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags};

use super::sorted::SortedCoins;
use super::{CoinRecord, CoinSink, FlushError, sync_tree, wiped};

const TIP_KEY: &[u8] = b"B";
/// Address space; the file grows as it is filled.
const MAP_SIZE: usize = 16 << 30;

pub(super) struct Lmdb;

impl CoinSink for Lmdb {
    fn name(&self) -> &str {
        "LMDB, sorted append"
    }

    fn flush(
        &self,
        dir: &Path,
        coins: &mut dyn Iterator<Item = CoinRecord<'_>>,
        tip: [u8; 32],
    ) -> Result<(), FlushError> {
        wiped(dir)?;
        let env = open(dir)?;
        let db = database(&env)?;
        let mut txn = env.write_txn()?;
        // Before all coins in key order.
        db.put_with_flags(&mut txn, PutFlags::APPEND, TIP_KEY, &tip)?;
        for (key, value) in SortedCoins::new(coins).iter() {
            db.put_with_flags(&mut txn, PutFlags::APPEND, key, value)?;
        }
        txn.commit()?;
        env.force_sync()?;
        env.prepare_for_closing().wait();
        sync_tree(dir)
    }

    fn count(&self, dir: &Path) -> Result<u64, FlushError> {
        let env = open(dir)?;
        let txn = env.read_txn()?;
        let count = database(&env)?.len(&txn)?;
        drop(txn);
        env.prepare_for_closing().wait();
        Ok(count - 1)
    }

    fn tip(&self, dir: &Path) -> Result<Option<[u8; 32]>, FlushError> {
        let env = open(dir)?;
        let txn = env.read_txn()?;
        let tip = database(&env)?.get(&txn, TIP_KEY)?.and_then(|value| value.try_into().ok());
        drop(txn);
        env.prepare_for_closing().wait();
        Ok(tip)
    }
}

fn open(dir: &Path) -> Result<Env, FlushError> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_SIZE);
    // SAFETY: no other process or mapping touches the file while this one has it open. Pages are
    // written through the map, uninitialised in their free space: the flush holds no reference to a
    // page across a write.
    let env = unsafe {
        options.flags(EnvFlags::WRITE_MAP | EnvFlags::NO_MEM_INIT);
        options.open(dir)?
    };
    Ok(env)
}

fn database(env: &Env) -> Result<Database<'_, Bytes, Bytes>, FlushError> {
    let txn = env.write_txn()?;
    let opened = env.create_databases_and_commit(txn, |opener, txn| {
        opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    Ok(opened.unwrap_commit())
}

impl From<heed::Error> for FlushError {
    fn from(error: heed::Error) -> Self {
        Self::Engine(Box::new(error))
    }
}
