//! Methods that read the optional indexes, and their progress.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use godwit_chain::{Node, Validity};
use godwit_index::{
    BlockFilter, Candidate, CoinStatsIndex, FilterIndex, IndexError, Indexes, Status, TxIndex,
    candidates, has_followed, transaction_at,
};
use godwit_primitives::{BlockHash, ReversedHex, TxView, Txid};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::ChainPoint;

use super::headers::HeaderFacts;
use super::{BlockSource, Call, block_not_found, cost, parse, source};

/// Between two looks whether an index has come to the tip.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// An index that is no farther after that does not get there soon: it misses a block.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The only kind of filter.
pub(super) const BASIC: &str = "basic";

/// What the largest filter, of less than 400 kB, takes of the memory of answers with its text.
const MAX_FILTER_ROOM: usize = 4 << 20;

/// Waits until an index that was at the tip is there again, and has been at what the chain has left before;
/// whether that is so (Core `BlockUntilSyncedToCurrentChain`).
pub(crate) fn catch_up(call: &Call<'_>, status: &Status) -> Result<bool, RpcError> {
    let deadline = Instant::now() + LONGEST_WAIT;
    while status.is_synced() && Instant::now() < deadline && !(call.is_gone)() {
        let (best, seen) = status.place();
        let is_there = call.node.ask(move |node| has_followed(node.chain(), best, seen))?;
        if is_there {
            return Ok(true);
        }
        status.wait_for_move(best, LOOK_INTERVAL);
    }
    Ok(false)
}

/// What is said where an index cannot be read.
pub(super) fn unreadable(error: &IndexError) -> RpcError {
    // The index has logged its damage itself.
    if !error.is_damage() {
        log::error!("An index cannot be read: {error}");
    }
    let text =
        "The index cannot be read. If it is damaged, it is built again, unless blocks are pruned.";
    RpcError::new(code::INTERNAL_ERROR, text)
}

/// A transaction and where it is.
pub(crate) struct FoundTransaction {
    pub(super) facts: HeaderFacts,
    pub(super) source: BlockSource,
    /// The whole block, whose checksum was right.
    block: Vec<u8>,
    /// Where the transaction begins in it.
    start: usize,
    /// Its place among the transactions of the block.
    pub(super) number: usize,
}

impl FoundTransaction {
    /// The one that begins at `start`, if it is this one.
    pub(super) fn at(
        (facts, source): (HeaderFacts, BlockSource),
        block: Vec<u8>,
        start: usize,
        txid: &Txid,
    ) -> Option<Self> {
        let (number, _) = transaction_at(&block, start).filter(|(_, tx)| tx.txid() == *txid)?;
        Some(Self { facts, source, block, start, number })
    }

    pub(crate) fn tx(&self) -> TxView<'_> {
        TxView::parse(&self.block[self.start..]).expect("it was parsed before")
    }

    /// Whether its block is in the active chain.
    pub(super) fn is_active(&self) -> bool {
        self.facts.confirmations >= 0
    }

    /// Its block.
    pub(crate) fn block_hash(&self) -> BlockHash {
        self.facts.hash
    }
}

/// Those of the transactions of which the index may know a place.
pub(super) fn known(index: &TxIndex, txids: &BTreeSet<Txid>) -> Result<BTreeSet<Txid>, RpcError> {
    let mut known = BTreeSet::new();
    for txid in txids {
        if !index.find(txid).map_err(|error| unreadable(&error))?.is_empty() {
            known.insert(*txid);
        }
    }
    Ok(known)
}

/// Looks a transaction up in the index; `None` where there is no index, or it has none such.
pub(crate) fn find_transaction(
    call: &mut Call<'_>,
    txid: &Txid,
) -> Result<Option<FoundTransaction>, RpcError> {
    let Some(index) = call.node.indexes().transactions.clone() else { return Ok(None) };
    let places = index.find(txid).map_err(|error| unreadable(&error))?;
    let found = call.node.ask(move |node| {
        let chain = node.chain();
        let located = |Candidate { block, offset }| {
            let place = (HeaderFacts::of(chain, block), source(chain, block).ok()?);
            Some((place, offset as usize))
        };
        candidates(chain, &places).into_iter().filter_map(located).collect::<Vec<_>>()
    })?;
    for (place, start) in found {
        call.room.grow(place.1.size() * cost::DECODED)?;
        // A block that is lost is fetched again, and may be another one than the transaction's.
        let Ok(block) = call.read(&place.1) else { continue };
        if let Some(found) = FoundTransaction::at(place, block, start, txid) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Why an index has no filter of a block that there is.
pub(crate) enum NoFilter {
    /// Or it was connected and left while the index was not following, or long ago.
    NeverConnected,
    BeingIndexed,
    Unexpected,
}

/// Whether a block is one that an index follows.
enum Standing {
    /// Or it was invalidated, which is the same to Core (`IsValid(BLOCK_VALID_SCRIPTS)`).
    NeverConnected,
    Left,
    Active,
}

impl Standing {
    fn of(block: &Node, is_active: bool) -> Self {
        match block.validity == Validity::Scripts && !block.failed {
            false => Self::NeverConnected,
            true if is_active => Self::Active,
            true => Self::Left,
        }
    }
}

impl NoFilter {
    fn why(standing: &Standing, is_complete: bool) -> Self {
        match (standing, is_complete) {
            (Standing::NeverConnected, _) | (Standing::Left, true) => Self::NeverConnected,
            (_, false) => Self::BeingIndexed,
            (Standing::Active, true) => Self::Unexpected,
        }
    }

    fn code(&self) -> i32 {
        match self {
            Self::NeverConnected => code::INVALID_ADDRESS_OR_KEY,
            Self::BeingIndexed => code::MISC_ERROR,
            Self::Unexpected => code::INTERNAL_ERROR,
        }
    }

    pub(crate) fn text(&self) -> &'static str {
        match self {
            Self::NeverConnected => "Filter not found. Block was not connected to active chain.",
            Self::BeingIndexed => {
                "Filter not found. Block filters are still in the process of being indexed."
            }
            Self::Unexpected => {
                "Filter not found. This error is unexpected and indicates index corruption."
            }
        }
    }
}

/// The filter of a block; `None` where there is no such block.
pub(crate) fn filter_of(
    call: &mut Call<'_>,
    index: &FilterIndex,
    hash: BlockHash,
) -> Result<Option<Result<BlockFilter, NoFilter>>, RpcError> {
    let found = call.node.ask(move |node| {
        let (tree, tip) = (node.chain().tree(), node.chain().tip());
        let id = tree.find(&hash)?;
        let block = tree.node(id);
        let point = ChainPoint { hash, height: block.height };
        Some((point, Standing::of(&block, tree.is_ancestor(id, tip))))
    })?;
    let Some((point, standing)) = found else { return Ok(None) };
    let is_complete = catch_up(call, index.status())?;
    call.room.grow(MAX_FILTER_ROOM)?;
    let filter = match index.filter(point) {
        Err(error) if error.is_damage() => return Ok(Some(Err(NoFilter::Unexpected))),
        filter => filter.map_err(|error| unreadable(&error))?,
    };
    Ok(Some(filter.ok_or_else(|| NoFilter::why(&standing, is_complete))))
}

/// Headers of the filters of these blocks, which are of the active chain.
pub(crate) fn filter_headers(
    call: &Call<'_>,
    index: &FilterIndex,
    blocks: &[HeaderFacts],
) -> Result<Result<Vec<[u8; 32]>, NoFilter>, RpcError> {
    let is_complete = catch_up(call, index.status())?;
    let mut headers = Vec::with_capacity(blocks.len());
    for block in blocks {
        let point = ChainPoint { hash: block.hash, height: block.height };
        let hashes = match index.hashes(point) {
            Err(error) if error.is_damage() => return Ok(Err(NoFilter::Unexpected)),
            hashes => hashes.map_err(|error| unreadable(&error))?,
        };
        match hashes {
            Some(hashes) => headers.push(hashes.header),
            None if is_complete => return Ok(Err(NoFilter::Unexpected)),
            None => return Ok(Err(NoFilter::BeingIndexed)),
        }
    }
    Ok(Ok(headers))
}

/// Whether there are filters of this kind at all.
pub(super) fn check_kind(kind: &str) -> Result<(), RpcError> {
    match kind {
        BASIC => Ok(()),
        _ => Err(RpcError::new(code::INVALID_ADDRESS_OR_KEY, "Unknown filtertype")),
    }
}

/// The index of this kind of filters.
pub(super) fn filters(call: &Call<'_>, kind: &str) -> Result<Arc<FilterIndex>, RpcError> {
    check_kind(kind)?;
    let refused = || RpcError::new(code::MISC_ERROR, "Index is not enabled for filtertype basic");
    call.node.indexes().filters.clone().ok_or_else(refused)
}

pub(super) fn block_filter(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "blockhash")?;
    let kind = match call.arg(1) {
        Json::Null => BASIC,
        kind => kind.as_text()?,
    };
    let index = filters(call, kind)?;
    let found = filter_of(call, &index, hash)?.ok_or_else(block_not_found)?;
    let filter = found.map_err(|why| RpcError::new(why.code(), why.text()))?;
    let header = ReversedHex(&filter.header).to_string();
    Ok(Json::object([("filter", Json::hex(&filter.bytes)), ("header", header.into())]))
}

pub(super) fn info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let only = match call.arg(0) {
        Json::Null => "",
        name => name.as_text()?,
    };
    let Indexes { transactions, filters, coin_stats } = call.node.indexes().clone();
    let all = [
        ("txindex", transactions.as_deref().map(TxIndex::status)),
        ("coinstatsindex", coin_stats.as_deref().map(CoinStatsIndex::status)),
        ("basic block filter index", filters.as_deref().map(FilterIndex::status)),
    ];
    let mut json = Json::Object(Vec::new());
    for (name, status) in all {
        if let Some(status) = status.filter(|_| only.is_empty() || only == name) {
            let entry = Json::object([
                ("synced", status.is_synced().into()),
                ("best_block_height", status.best().map_or(0, |best| best.height).into()),
            ]);
            json.push(name, entry);
        }
    }
    Ok(json)
}

#[cfg(test)]
mod tests {
    use godwit_chain::HeaderTree;
    use godwit_primitives::{Network, Params};

    use super::*;

    #[test]
    fn a_filter_is_not_there_for_the_reason_that_core_names() {
        let mut tree = HeaderTree::new(Params::new(Network::Regtest).genesis);
        let id = tree.genesis();
        let mut code = |validity, failed, is_active, is_complete| {
            tree.update(id, |node| (node.validity, node.failed) = (validity, failed));
            NoFilter::why(&Standing::of(&tree.node(id), is_active), is_complete).code()
        };
        assert_eq!(code(Validity::Scripts, false, true, false), code::MISC_ERROR);
        assert_eq!(code(Validity::Scripts, false, true, true), code::INTERNAL_ERROR);
        assert_eq!(code(Validity::Scripts, false, false, false), code::MISC_ERROR);
        assert_eq!(code(Validity::Scripts, false, false, true), code::INVALID_ADDRESS_OR_KEY);
        for is_complete in [false, true] {
            for (validity, failed) in [(Validity::Scripts, true), (Validity::Structured, false)] {
                let code = code(validity, failed, false, is_complete);
                assert_eq!(code, code::INVALID_ADDRESS_OR_KEY, "{validity:?} {failed}");
            }
        }
    }
}
