//! A block that is in the block files but not in the index. It is read back and checked like a block from a
//! peer, because no fsync vouches for its bytes.

use godwit_primitives::network::Params;
use godwit_store::utxo::UtxoHasher;
use godwit_store::{BlockChecksum, RecoveredBlock, Store, StoreError};

use crate::structure::{Received, structure};

/// See the module's documentation.
pub(crate) struct FoundBlock {
    pub(crate) found: RecoveredBlock,
    pub(crate) checksum: BlockChecksum,
    pub(crate) received: Received,
}

impl FoundBlock {
    /// Reads it. One that cannot be read, which a bad sector is enough for, is one that does not decode: it
    /// must not keep all others from being found.
    ///
    /// # Errors
    ///
    /// The fault is not one of its place.
    pub(crate) fn read(
        store: &Store,
        params: &Params,
        hasher: &UtxoHasher,
        found: RecoveredBlock,
    ) -> Result<Self, StoreError> {
        let (checksum, received) = match store.read_block(found.position) {
            Err(error) if error.is_rotten() => {
                log::warn!("A block behind the last commit cannot be read: {error}");
                (BlockChecksum::of(&[]), Received::Undecodable)
            }
            bytes => {
                let bytes = bytes?;
                (BlockChecksum::of(bytes.as_slice()), structure(bytes, params, hasher, None))
            }
        };
        Ok(Self { found, checksum, received })
    }
}
