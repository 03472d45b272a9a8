//! Where blocks and coins are stored, for readers on other threads: the chain's own thread never waits for a
//! disk.

use godwit_primitives::OutPoint;

use crate::chain::Chain;
use crate::coin_at_tip::CoinAtTip;
use crate::index::Body;
use crate::reads::{BlockReader, StoredBlock};
use crate::tree::NodeId;

/// Where blocks and coins are stored at this moment, for readers on other threads; reads nothing itself.
#[derive(Clone, Copy)]
pub struct StoredData<'a>(&'a Chain);

impl<'a> StoredData<'a> {
    /// What a chain has stored.
    pub fn of(chain: &'a Chain) -> Self {
        Self(chain)
    }

    /// Where a block is stored; `None` where it is not, or its bytes are lost. No file holds genesis.
    pub fn block(&self, id: NodeId) -> Option<StoredBlock> {
        let Chain { index, env, .. } = self.0;
        let Body::Stored(position) = Body::of(index, id) else { return None };
        Some(StoredBlock::new(&env.params, id, &index.node(id), position))
    }

    /// To read stored blocks.
    pub fn reader(&self) -> BlockReader {
        BlockReader::new(&self.0.env)
    }

    /// The coin of an outpoint at the tip, or where to read of it.
    pub fn coin(&self, outpoint: &OutPoint) -> CoinAtTip {
        let Chain { window, coins, env, .. } = self.0;
        CoinAtTip::find(window, coins, &env.hasher, outpoint)
    }

    /// Bytes of block and undo files.
    pub fn bytes_on_disk(&self) -> u64 {
        self.0.env.store.file_bytes().values().sum()
    }
}
