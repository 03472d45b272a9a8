//! The coins as of the tip, readable on another thread while the chain goes on.
//!
//! The reader waits until all of them are in runs: the memtable is sealed for it, as it is when memory is
//! short, and once that seal is committed the reader gets what the store has on disk. So it holds files but
//! no memory, and sees nothing of a block whose scripts have not passed.

use std::path::Path;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Sender, TrySendError};
use godwit_store::utxo::{Layers, Scan};
use godwit_store::{ChainPoint, StoreError};

use crate::index::BlockIndex;
use crate::tree::NodeId;

/// See the module's documentation. Keeps files while it lives.
pub struct CoinsView {
    tip: ChainPoint,
    pub(crate) layers: Arc<Layers>,
}

impl CoinsView {
    pub(crate) fn new(tip: ChainPoint, layers: &Layers) -> Self {
        Self { tip, layers: layers.for_scans() }
    }

    /// The block whose coins these are.
    pub fn tip(&self) -> ChainPoint {
        self.tip
    }

    /// Bytes of them on disk.
    pub fn bytes(&self) -> u64 {
        self.layers.bytes()
    }

    /// About how many there are.
    pub fn expected_coins(&self) -> u64 {
        self.layers.expected_coins()
    }

    /// Where they lie, and what is written while they are sorted.
    pub fn dir(&self) -> &Path {
        self.layers.dir()
    }

    /// All of them, in no order.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn scan(&self) -> Result<Scan, StoreError> {
        self.layers.scan()
    }
}

/// Those who wait for coins: at most as many as threads that run methods.
#[derive(Default)]
pub(crate) struct Viewers(Vec<Viewer>);

struct Viewer {
    /// The tip when he asked.
    tip: NodeId,
    to: Weak<Sender<CoinsView>>,
}

impl Viewers {
    pub(crate) fn add(&mut self, tip: NodeId, to: Weak<Sender<CoinsView>>) {
        self.0.push(Viewer { tip, to });
    }

    /// Whether anybody still waits.
    pub(crate) fn wait(&mut self) -> bool {
        self.0.retain(|viewer| viewer.to.strong_count() > 0);
        !self.0.is_empty()
    }

    /// Gives the coins of `tip` to those who asked when it was the tip, or when a chain was that has less
    /// work or failed meanwhile: nobody sees a block between two tips.
    pub(crate) fn serve(&mut self, index: &BlockIndex, tip: NodeId, layers: &Layers) {
        let work = |id| index.tree().chain_work(id);
        let failed = |id| index.tree().node(id).failed;
        let may_see = |asked: NodeId| {
            tip == asked || !failed(tip) && (work(tip) > work(asked) || failed(asked))
        };
        self.0.retain(|viewer| {
            let may_see = may_see(viewer.tip);
            if may_see && let Some(to) = viewer.to.upgrade() {
                let view = CoinsView::new(index.point(tip), layers);
                if let Err(TrySendError::Full(_)) = to.try_send(view) {
                    unreachable!("each is answered once");
                }
            }
            !may_see
        });
    }
}
