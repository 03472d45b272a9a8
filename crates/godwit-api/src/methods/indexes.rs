//! What the optional indexes tell, and how far they are.

use std::time::{Duration, Instant};

use godwit_chain::{Chain, Validity};
use godwit_index::{FilterIndex, IndexError, Indexes, Status, TxIndex, TxPlace};
use godwit_primitives::{BlockHash, HEADER_SIZE, TxView, Txid};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::ChainPoint;
use godwit_stream::SpanReader;

use super::headers::HeaderFacts;
use super::{BlockSource, Call, cost, find, parse, source};

/// Between two looks whether an index has come to the tip.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// An index that is no farther after that does not get there soon: it misses a block.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The only kind of filter.
const BASIC: &str = "basic";

/// What the largest filter, of less than 400 kB, takes of the memory of answers with its text.
const MAX_FILTER_ROOM: usize = 4 << 20;

/// Waits until an index that was at the tip is there again; whether it is (Core
/// `BlockUntilSyncedToCurrentChain`).
pub(super) fn catch_up(call: &Call<'_>, status: &Status) -> Result<bool, RpcError> {
    let deadline = Instant::now() + LONGEST_WAIT;
    while status.is_synced() && Instant::now() < deadline && !(call.is_gone)() {
        let best = status.best();
        let is_there = call.node.ask(move |node| {
            let (tree, tip) = (node.chain().tree(), node.chain().tip());
            let best = best.and_then(|best| tree.find(&best.hash));
            best.is_some_and(|best| tree.is_ancestor(tip, best))
        })?;
        if is_there {
            return Ok(true);
        }
        status.wait_for_move(best, LOOK_INTERVAL);
    }
    Ok(false)
}

/// What is said where an index cannot be read.
fn unreadable(error: &IndexError) -> RpcError {
    log::error!("An index cannot be read: {error}");
    let text = "The index cannot be read. If it is damaged, it is built again.";
    RpcError::new(code::INTERNAL_ERROR, text)
}

/// A transaction and where it is.
pub(super) struct FoundTransaction {
    pub(super) facts: HeaderFacts,
    pub(super) source: BlockSource,
    /// The whole block, whose checksum was right.
    block: Vec<u8>,
    /// Where the transaction begins in it.
    start: usize,
}

impl FoundTransaction {
    /// The one that begins at `start`, if it is this one.
    pub(super) fn at(
        (facts, source): (HeaderFacts, BlockSource),
        block: Vec<u8>,
        start: usize,
        txid: &Txid,
    ) -> Option<Self> {
        let found = Self { facts, source, block, start };
        found.parse().is_some_and(|tx| tx.txid() == *txid).then_some(found)
    }

    fn parse(&self) -> Option<TxView<'_>> {
        TxView::parse(self.block.get(self.start..)?).ok()
    }

    pub(super) fn tx(&self) -> TxView<'_> {
        self.parse().expect("it was parsed before")
    }

    /// Its place among the transactions of the block.
    pub(super) fn number(&self) -> usize {
        let mut reader = SpanReader::new(&self.block[HEADER_SIZE..]);
        let count = reader.compact_size().expect("a stored block");
        let mut at = HEADER_SIZE + reader.position();
        let before = (0..count).take_while(|_| {
            let is_before = at < self.start;
            if is_before {
                at += TxView::parse(&self.block[at..]).expect("a stored block").total_size();
            }
            is_before
        });
        before.count()
    }
}

/// Where the block of a place is: of the active chain, and of those that were left.
fn sources(chain: &Chain, height: u32, others: &[BlockHash]) -> Vec<(HeaderFacts, BlockSource)> {
    let tree = chain.tree();
    let active = tree.ancestor(chain.tip(), height);
    let others = others.iter().filter_map(|hash| tree.find(hash)).filter(|id| Some(*id) != active);
    let found = active.into_iter().chain(others);
    found.filter_map(|id| Some((HeaderFacts::of(chain, id), source(chain, id).ok()?))).collect()
}

/// Looks a transaction up in the index; `None` where there is no index, or it has none such.
pub(super) fn find_transaction(
    call: &mut Call<'_>,
    txid: &Txid,
) -> Result<Option<FoundTransaction>, RpcError> {
    let Some(index) = call.node.indexes().transactions.clone() else { return Ok(None) };
    for TxPlace { height, offset, others } in
        index.find(txid).map_err(|error| unreadable(&error))?
    {
        let places = call.node.ask(move |node| sources(node.chain(), height, &others))?;
        for place in places {
            call.room.grow(place.1.size() * cost::DECODED)?;
            // A block that is lost is fetched again, and may be another one than the transaction's.
            let Ok(block) = call.read(&place.1) else { continue };
            if let Some(found) = FoundTransaction::at(place, block, offset as usize, txid) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

pub(super) fn block_filter(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "blockhash")?;
    let kind = match call.arg(1) {
        Json::Null => BASIC,
        kind => kind.as_text()?,
    };
    let refused = |code, text: &str| RpcError::new(code, text);
    if kind != BASIC {
        return Err(refused(code::INVALID_ADDRESS_OR_KEY, "Unknown filtertype"));
    }
    let index =
        call.node.indexes().filters.clone().ok_or_else(|| {
            refused(code::MISC_ERROR, "Index is not enabled for filtertype basic")
        })?;
    let (point, was_connected) = call.node.ask(move |node| {
        let chain = node.chain();
        let id = find(chain, &hash)?;
        let node = chain.tree().node(id);
        let was_connected = node.validity == Validity::Scripts;
        Ok((ChainPoint { hash, height: node.height }, was_connected))
    })??;
    let is_complete = catch_up(call, index.status())?;
    call.room.grow(MAX_FILTER_ROOM)?;
    if let Some(filter) = index.filter(point).map_err(|error| unreadable(&error))? {
        let header = BlockHash::from_bytes(filter.header).to_string();
        return Ok(Json::object([("filter", Json::hex(&filter.bytes)), ("header", header.into())]));
    }
    Err(match (was_connected, is_complete) {
        (false, _) => refused(
            code::INVALID_ADDRESS_OR_KEY,
            "Filter not found. Block was not connected to active chain.",
        ),
        (true, false) => refused(
            code::MISC_ERROR,
            "Filter not found. Block filters are still in the process of being indexed.",
        ),
        (true, true) => refused(
            code::INTERNAL_ERROR,
            "Filter not found. This error is unexpected and indicates index corruption.",
        ),
    })
}

pub(super) fn info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let only = match call.arg(0) {
        Json::Null => "",
        name => name.as_text()?,
    };
    let Indexes { transactions, filters } = call.node.indexes().clone();
    let all = [
        ("txindex", transactions.as_deref().map(TxIndex::status)),
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
