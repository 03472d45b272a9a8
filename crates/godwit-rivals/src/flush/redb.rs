//! redb: coins sorted in memory, inserted in one transaction with a durable commit.

use std::path::Path;

use redb::{
    Database, Durability, ReadableDatabase as _, ReadableTableMetadata as _, TableDefinition,
};

use super::sorted::SortedCoins;
use super::{CoinRecord, CoinSink, FlushError, sync_tree, wiped};

const FILE: &str = "coins.redb";
const COINS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("coins");
const TIP: TableDefinition<'_, (), [u8; 32]> = TableDefinition::new("tip");

pub(super) struct Redb;

impl CoinSink for Redb {
    fn name(&self) -> &str {
        "redb, sorted"
    }

    fn flush(
        &self,
        dir: &Path,
        coins: &mut dyn Iterator<Item = CoinRecord<'_>>,
        tip: [u8; 32],
    ) -> Result<(), FlushError> {
        wiped(dir)?;
        fill(dir, &SortedCoins::new(coins), tip).map_err(engine)?;
        sync_tree(dir)
    }

    fn count(&self, dir: &Path) -> Result<u64, FlushError> {
        let read = || -> Result<u64, redb::Error> {
            let db = Database::open(dir.join(FILE))?;
            let txn = db.begin_read()?;
            Ok(txn.open_table(COINS)?.len()?)
        };
        read().map_err(engine)
    }

    fn tip(&self, dir: &Path) -> Result<Option<[u8; 32]>, FlushError> {
        let read = || -> Result<_, redb::Error> {
            let db = Database::open(dir.join(FILE))?;
            let txn = db.begin_read()?;
            Ok(txn.open_table(TIP)?.get_owned(())?.map(|tip| tip.value()))
        };
        read().map_err(engine)
    }
}

fn fill(dir: &Path, coins: &SortedCoins, tip: [u8; 32]) -> Result<(), redb::Error> {
    let db = Database::create(dir.join(FILE))?;
    let mut txn = db.begin_write()?;
    txn.set_durability(Durability::Immediate)?;
    let mut table = txn.open_table(COINS)?;
    for (key, value) in coins.iter() {
        table.insert(key, value)?;
    }
    drop(table);
    txn.open_table(TIP)?.insert((), tip)?;
    Ok(txn.commit()?)
}

fn engine(error: redb::Error) -> FlushError {
    FlushError::Engine(Box::new(error))
}
