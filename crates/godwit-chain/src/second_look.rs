//! The second look: a verdict against a block is not believed at once.
//!
//! A bit that flips in memory, in a processor or on a disk can make a valid block look invalid, and a node
//! that believed it would stay on a chain of its own. So a refused block is judged once more, and only when
//! that refuses it as well is it marked as failed, for the second's reason:
//!
//! * A block that breaks a rule of its place, before it is stored ([`accept_twice`]): its bytes are decoded
//!   and checked again. That takes a few milliseconds, so it is done at once.
//! * A block of the best chain that cannot be applied or whose scripts fail
//!   ([`Goal::doubt`](crate::goal::Goal::doubt)): it is read from its file, its coins are searched for in
//!   all runs without what memory holds of them ([`Search`]), a share at a time, and Core's engine
//!   alone runs its scripts. Blocks above it wait meanwhile, and everything else goes on.
//!
//! What memtables hold is believed at both looks, since there is no second copy of it; but where a coin is
//! in a file as well, it is taken as it was written there first: if a memtable was sealed meanwhile, the
//! coins of a block that is taken back are given back to memory as the first look had read them. If runs
//! were merged since, too, which takes longer than a block is in the window, nothing has such a coin as it
//! was.
//!
//! One look more for a block costs whoever sends bad ones as much proof of work as before: a block that
//! failed is refused by its hash.

use std::sync::Arc;

use godwit_consensus::{Reject, ResultClass};
use godwit_primitives::BlockHash;
use godwit_store::StoreError;
use godwit_store::utxo::{Layers, Searched};

use crate::apply::Prefetched;
use crate::environment::Environment;
use crate::error::ChainError;
use crate::index::{Acceptance, BlockIndex};
use crate::limits::SEARCHED_COINS;
use crate::structure::{Received, Structured};

/// Judges a block by its place in the tree; twice, if it seems to break a rule that would make its header
/// invalid.
///
/// # Errors
///
/// The block changed in memory in between, or the script engine failed on it.
pub(crate) fn accept_twice(
    env: &Environment,
    index: &mut BlockIndex,
    block: Arc<Structured>,
    now: i64,
) -> Result<Acceptance, ChainError> {
    match index.accept(Arc::clone(&block), now) {
        Acceptance::Refused { reject, id: Some(_) } if reject.class != ResultClass::Mutated => {
            accept_again(env, index, &block, reject, now)
        }
        other => Ok(other),
    }
}

fn accept_again(
    env: &Environment,
    index: &mut BlockIndex,
    block: &Structured,
    first: Reject,
    now: i64,
) -> Result<Acceptance, ChainError> {
    let hash = block.hash();
    let again = match block.again(&env.params, &env.hasher, env.store.block_buffers()) {
        Received::Structured(again) if again.hash() == hash => again,
        Received::Unjudged(error) => return Err(ChainError::Engine(error)),
        _ => return Err(ChainError::ChangedInMemory(hash)),
    };
    let acceptance = index.accept(again, now);
    if !matches!(acceptance, Acceptance::Refused { .. }) {
        log_untrusted(hash, first);
    }
    Ok(acceptance)
}

/// Says that the first look was wrong.
pub(crate) fn log_untrusted(hash: BlockHash, first: Reject) {
    log::error!(
        "Block {hash} was refused ({first}), and is valid at a second look: the memory, the processor or the \
         disk of this machine cannot be trusted. Check them before it does more harm."
    );
}

/// The coins of a block, searched for in the files of all runs.
pub(crate) struct Search {
    block: Arc<Structured>,
    layers: Arc<Layers>,
    no_overwrite: bool,
    found: Prefetched,
}

impl Search {
    pub(crate) fn new(block: Arc<Structured>, layers: Arc<Layers>, no_overwrite: bool) -> Self {
        let found = Prefetched::nothing(layers.pin());
        Self { block, layers, no_overwrite, found }
    }

    /// Searches for the next [`SEARCHED_COINS`].
    pub(crate) fn go_on(mut self) -> Result<Self, StoreError> {
        if self.is_done() {
            return Ok(self);
        }
        let (block, found) = (&self.block, &mut self.found);
        let spends = &block.spends()[found.coins.len()..];
        if spends.is_empty() {
            let creates = &block.creates()[found.outputs_exist.len()..];
            let mut outputs = Vec::new();
            let share = &creates[..creates.len().min(SEARCHED_COINS)];
            self.layers.search_many(share, &mut outputs)?;
            let exists = |output: &Searched| output.newest.is_some();
            found.outputs_exist.extend(outputs.iter().map(exists));
        } else {
            let mut coins = Vec::new();
            let share = &spends[..spends.len().min(SEARCHED_COINS)];
            self.layers.search_many(share, &mut coins)?;
            for Searched { newest, oldest, .. } in coins {
                found.coins.push(newest);
                found.written.push(oldest);
            }
        }
        Ok(self)
    }

    /// Whether everything was searched for.
    pub(crate) fn is_done(&self) -> bool {
        let outputs = if self.no_overwrite { self.block.creates().len() } else { 0 };
        self.found.coins.len() == self.block.spends().len()
            && self.found.outputs_exist.len() == outputs
    }

    /// What was found.
    pub(crate) fn into_found(mut self) -> Prefetched {
        self.found.count_memory();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use godwit_consensus::RejectReason;
    use godwit_fault_disk::FaultDisk;
    use godwit_stream::DataStream;

    use super::*;
    use crate::chain::tests::{blocks, chain};
    use crate::structure::structure;

    const NOW: i64 = 2_000_000_000;

    /// The first look's verdict is made up.
    #[test]
    fn c15_a_valid_block_that_seemed_to_break_a_rule_of_its_place_is_accepted() {
        let mut chain = chain(&FaultDisk::new());
        let bytes = DataStream::from(&blocks()[0][..]);
        let Received::Structured(block) =
            structure(bytes, &chain.env.params, &chain.env.hasher, None)
        else {
            panic!("the generator's blocks are sound");
        };
        let first = Reject::new(RejectReason::BadCbHeight);
        let acceptance = accept_again(&chain.env, &mut chain.index, &block, first, NOW);
        let Ok(Acceptance::New(accepted)) = acceptance else { panic!("it was refused") };
        assert_eq!(accepted.block().hash(), block.hash());
        assert!(!Arc::ptr_eq(accepted.block(), &block), "decoded anew");
        assert!(!chain.index.node(accepted.id()).failed);
    }

    /// Where BIP34 implies BIP30, outputs are not searched for, nor waited for.
    #[test]
    fn c15_the_search_for_a_block_that_spends_nothing_ends() {
        let chain = chain(&FaultDisk::new());
        let bytes = DataStream::from(&blocks()[0][..]);
        let Received::Structured(block) =
            structure(bytes, &chain.env.params, &chain.env.hasher, None)
        else {
            panic!("the generator's blocks are sound");
        };
        assert!(block.spends().is_empty() && !block.creates().is_empty());
        for no_overwrite in [false, true] {
            let search = Search::new(Arc::clone(&block), chain.coins.layers(), no_overwrite);
            let search = search.go_on().expect("no fault");
            assert!(search.is_done(), "{no_overwrite}");
            let found = search.into_found().outputs_exist.len();
            assert_eq!(found, if no_overwrite { block.creates().len() } else { 0 });
        }
    }
}
