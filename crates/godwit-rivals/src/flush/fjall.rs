//! fjall: coins sorted in memory, through its bulk ingestion.

use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions, PersistMode};

use super::sorted::SortedCoins;
use super::{CoinRecord, CoinSink, FlushError, sync_tree, wiped};

const COINS: &str = "coins";
const TIP: &str = "tip";

pub(super) struct Fjall;

impl CoinSink for Fjall {
    fn name(&self) -> &str {
        "fjall, sorted ingestion"
    }

    fn flush(
        &self,
        dir: &Path,
        coins: &mut dyn Iterator<Item = CoinRecord<'_>>,
        tip: [u8; 32],
    ) -> Result<(), FlushError> {
        wiped(dir)?;
        let db = Database::builder(dir).open()?;
        let keyspace = db.keyspace(COINS, KeyspaceCreateOptions::default)?;
        let mut ingestion = keyspace.start_ingestion()?;
        for (key, value) in SortedCoins::new(coins).iter() {
            ingestion.write(key, value)?;
        }
        ingestion.finish()?;
        db.keyspace(TIP, KeyspaceCreateOptions::default)?.insert(TIP, tip)?;
        db.persist(PersistMode::SyncAll)?;
        drop((keyspace, db));
        sync_tree(dir)
    }

    fn count(&self, dir: &Path) -> Result<u64, FlushError> {
        let db = Database::builder(dir).open()?;
        Ok(db.keyspace(COINS, KeyspaceCreateOptions::default)?.len()? as u64)
    }

    fn tip(&self, dir: &Path) -> Result<Option<[u8; 32]>, FlushError> {
        let db = Database::builder(dir).open()?;
        let tip = db.keyspace(TIP, KeyspaceCreateOptions::default)?.get(TIP)?;
        Ok(tip.and_then(|value| value.as_ref().try_into().ok()))
    }
}

impl From<fjall::Error> for FlushError {
    fn from(error: fjall::Error) -> Self {
        Self::Engine(Box::new(error))
    }
}
