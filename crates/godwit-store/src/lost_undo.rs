//! The search for what a block spent, as far as the store has to do with it.

use crate::checkpoint::{Checkpoints, Work};
use crate::record::ChainPoint;
use crate::store::Store;
use crate::utxo::UtxoHasher;

/// Where the search for what `block` spent writes down how far it is.
pub fn lost_undo_checkpoints(store: &Store, block: ChainPoint) -> Checkpoints {
    let fingerprint = UtxoHasher::new(store.utxo_hash_key()).fingerprint();
    let place = (store.disk(), store.dir());
    Checkpoints::new(place, Work::LostUndo, store.magic(), fingerprint, Some(block))
}
