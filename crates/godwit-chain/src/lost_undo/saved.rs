//! Saves the progress of the search for the coins of one block, so that it resumes after a restart: on the
//! main network the search reads hundreds of gigabytes if an old coin was spent.
//!
//! All of it follows from the block's hash: which coins it spent, which blocks below created them, and which
//! of these come first on the way down. So the saved progress of a block never becomes wrong, and may be lost
//! at any time.

use godwit_primitives::{BlockHash, Coin};
use godwit_store::StoreError;
use godwit_store::checkpoint::{CheckpointReader, Checkpoints};

use super::{LostRecord, LostUndo};
use crate::index::BlockIndex;

/// What an earlier search had come to.
struct Saved {
    looked_through: BlockHash,
    /// By the number of the input that spent it.
    found: Vec<(usize, Coin)>,
}

impl LostUndo {
    /// Takes up what an earlier search for the one block has left, if it is whole.
    pub(crate) fn take_up(&mut self, place: &Checkpoints) {
        let [LostRecord { coins, .. }] = &mut self.records[..] else { return };
        let saved = place.open().and_then(|mut from| {
            let saved = Saved::read(&mut from, coins.len())?;
            from.finish().map(|()| saved)
        });
        let Some(Saved { looked_through, found }) = saved else { return };
        for (input, coin) in found {
            coins[input] = Some(coin);
        }
        for wanted in self.wanted.values_mut() {
            wanted.retain(|wanted| coins[wanted.input].is_none());
        }
        self.wanted.retain(|_, wanted| !wanted.is_empty());
        self.looked_through = Some(looked_through);
    }

    /// Begins below a block that an earlier search has looked through.
    pub(super) fn go_on_below(&mut self, looked_through: &BlockHash, index: &BlockIndex) {
        let found = index.tree().find(looked_through);
        let is_below = |id| self.next.is_some_and(|next| index.tree().is_ancestor(id, next));
        if let Some(id) = found.filter(|id| is_below(*id)) {
            self.next = index.node(id).parent();
            log::info!("The search goes on below height {}, where it was.", index.height(id));
        }
    }

    /// Writes down what the search for the one block has come to with `looked_through`. `false` where that
    /// fails: it goes on without.
    pub(crate) fn save(&self, place: &Checkpoints, looked_through: &BlockHash) -> bool {
        let written = self.write(place, looked_through);
        if let Err(error) = &written {
            log::warn!("Search progress is no longer saved: {error}");
            place.abandon();
        }
        written.is_ok()
    }

    fn write(&self, place: &Checkpoints, looked_through: &BlockHash) -> Result<(), StoreError> {
        let [LostRecord { coins, .. }] = &self.records[..] else { return Ok(()) };
        let found = || coins.iter().enumerate().filter_map(|(n, coin)| Some((n, coin.as_ref()?)));
        let mut out = place.begin()?;
        out.write(looked_through.as_bytes())?;
        out.write_u64(found().count() as u64)?;
        for (input, coin) in found() {
            out.write_u64(input as u64)?;
            out.write_coin(coin)?;
        }
        out.finish().map(drop)
    }
}

impl Saved {
    /// Of a block with so many inputs behind its coinbase.
    fn read(from: &mut CheckpointReader, inputs: usize) -> Option<Self> {
        let looked_through = BlockHash::from_bytes(from.array()?);
        let input = |n: u64| usize::try_from(n).ok().filter(|n| *n < inputs);
        let found = (0..from.u64()?).map(|_| Some((input(from.u64()?)?, from.coin()?)));
        Some(Self { looked_through, found: found.collect::<Option<_>>()? })
    }
}
