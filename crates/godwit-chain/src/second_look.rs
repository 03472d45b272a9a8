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
//! What memtables hold is believed at both looks, since there is no second copy of it; coins of a block that
//! both refuse are therefore compared with the blocks that created them ([`crate::confirm`]). But where a
//! coin is in a file as well, it is taken as it was written there first: if a memtable was sealed meanwhile,
//! the coins of a block that is taken back are given back to memory as the first look had read them. If runs
//! were merged since, too, which takes longer than a block is in the window, nothing has such a coin as it
//! was.
//!
//! One look more for a block costs a peer that sends bad ones as much proof of work as before: a block that
//! failed is refused by its hash.

use std::cmp::Reverse;
use std::sync::Arc;

use godwit_consensus::{Reject, ResultClass};
use godwit_primitives::BlockHash;
use godwit_store::StoreError;
use godwit_store::utxo::{CompressedCoins, HashedOutPoint, Layers, Searched};

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
    /// Numbers of the spends and of the outputs that are still searched for, in the order of their keys from
    /// the last one on: so a share is of few partitions, of whose runs footers and indexes are read again.
    spends: Vec<u32>,
    creates: Vec<u32>,
    found: Prefetched,
}

/// Numbers of `keys` in descending order of key.
fn by_key(keys: &[HashedOutPoint]) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..keys.len() as u32).collect();
    numbers.sort_unstable_by_key(|n| Reverse(keys[*n as usize].key));
    numbers
}

impl Search {
    pub(crate) fn new(block: Arc<Structured>, layers: Arc<Layers>, no_overwrite: bool) -> Self {
        let mut found = Prefetched::nothing(layers.pin());
        let spends = by_key(block.spends());
        found.coins = CompressedCoins::absent(spends.len());
        found.written.resize(spends.len(), None);
        let creates = if no_overwrite { by_key(block.creates()) } else { Vec::new() };
        found.outputs_exist.resize(creates.len(), false);
        Self { block, layers, spends, creates, found }
    }

    /// Searches for the next [`SEARCHED_COINS`].
    pub(crate) fn go_on(mut self) -> Result<Self, StoreError> {
        let Self { block, layers, spends, creates, found } = &mut self;
        if !spends.is_empty() {
            for (n, Searched { newest, oldest, .. }) in search(layers, block.spends(), spends)? {
                if let Some(newest) = newest {
                    found.coins.set_coin(n, &newest);
                }
                found.written[n] = oldest;
            }
        } else {
            for (n, Searched { newest, .. }) in search(layers, block.creates(), creates)? {
                found.outputs_exist[n] = newest.is_some();
            }
        }
        Ok(self)
    }

    /// Whether everything was searched for.
    pub(crate) fn is_done(&self) -> bool {
        self.spends.is_empty() && self.creates.is_empty()
    }

    /// What was found.
    pub(crate) fn into_found(mut self) -> Prefetched {
        self.found.count_memory();
        self.found
    }
}

/// What is found for a share of `left`, which are numbers of `keys`.
fn search(
    layers: &Layers,
    keys: &[HashedOutPoint],
    left: &mut Vec<u32>,
) -> Result<impl Iterator<Item = (usize, Searched)>, StoreError> {
    let share = left.split_off(left.len().saturating_sub(SEARCHED_COINS));
    let wanted: Vec<HashedOutPoint> = share.iter().map(|n| keys[*n as usize]).collect();
    let mut found = Vec::new();
    layers.search_many(&wanted, &mut found)?;
    Ok(share.into_iter().map(|n| n as usize).zip(found))
}

#[cfg(test)]
mod tests {
    use godwit_consensus::RejectReason;
    use godwit_fault_disk::{Counted, FaultDisk};
    use godwit_stream::DataStream;

    use super::*;
    use crate::chain::Poll;
    use crate::chain::tests::{SMALL_CACHE, blocks, chain, chain_with, give, poll_until};
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

    /// A block of thousands of coins, after many that left runs in all partitions: by shares hardly more is
    /// read than at once, though each reads footers and indexes again.
    #[test]
    fn c15_a_search_reads_little_twice() {
        let (disk, blocks) = (FaultDisk::new(), blocks());
        let mut chain = chain_with(&disk, SMALL_CACHE);
        for (ticket, block) in (0..).zip(&blocks) {
            give(&mut chain, block, ticket);
        }
        poll_until(&mut chain, |_, poll| poll == Poll::Idle).1.expect("no fault");
        chain.flush().expect("no fault");
        let structured = blocks.iter().map(|bytes| {
            let bytes = DataStream::from(&bytes[..]);
            match structure(bytes, &chain.env.params, &chain.env.hasher, None) {
                Received::Structured(block) => block,
                _ => panic!("the generator's blocks are sound"),
            }
        });
        let block = structured.max_by_key(|block| block.creates().len()).expect("there are some");
        let layers = chain.coins.layers();
        let reads = |work: &mut dyn FnMut()| {
            let before = disk.count(Counted::Reads);
            work();
            disk.count(Counted::Reads) - before
        };
        let at_once = reads(&mut || {
            for keys in [block.spends(), block.creates()] {
                layers.search_many(keys, &mut Vec::new()).expect("no fault");
            }
        });
        let mut shares = 0;
        let by_shares = reads(&mut || {
            let mut search = Search::new(Arc::clone(&block), Arc::clone(&layers), true);
            while !search.is_done() {
                search = search.go_on().expect("no fault");
                shares += 1;
            }
        });
        eprintln!("{shares} shares: {by_shares} reads, {at_once} at once");
        assert!(shares >= 5, "{shares} shares");
        assert!(by_shares <= at_once * 3 / 2, "{by_shares} reads, {at_once} at once");
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
