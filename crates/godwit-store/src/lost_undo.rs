//! The store's part in the search for the coins that a block spent.

use crate::checkpoint::{Checkpoints, Work};
use crate::record::ChainPoint;
use crate::store::Store;
use crate::utxo::UtxoHasher;

/// Where the search for what `block` spent writes down how far it is.
pub fn lost_undo_checkpoints(store: &Store, block: ChainPoint) -> Checkpoints {
    let fingerprint = UtxoHasher::new(store.utxo_hash_key()).fingerprint();
    let (disk, dir, magic) = (store.disk(), store.dir(), store.magic());
    Checkpoints::new(disk, dir, Work::LostUndo, magic, fingerprint, Some(block))
}
