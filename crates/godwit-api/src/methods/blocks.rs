//! `getblock`, and a block as JSON.

use godwit_primitives::{Block, BlockHash};
use godwit_rpc::{Json, RpcError};
use godwit_store::BlockUndo;

use super::headers::HeaderFacts;
use super::stored::{decoded, undo};
use super::transaction::{Detail, transaction};
use super::{BlockSource, Call, cost, find, parse, source};

/// Memory for each byte of a block of which only ids are told, or its own bytes in hexadecimal: they, what
/// they decode to, a value and its text.
pub(crate) const PLAIN: usize = 6;

pub(super) fn block(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "blockhash")?;
    let verbosity = parse::verbosity(call.arg(1), 1)?;
    let (facts, source) = call.node.ask(move |node| {
        let chain = node.chain();
        let id = find(chain, &hash)?;
        Ok((HeaderFacts::of(chain, id), source(chain, id)?))
    })??;
    told(call, facts, &source, verbosity)
}

/// What is told of a block; its bytes, where the verbosity is zero.
pub(crate) fn told(
    call: &mut Call<'_>,
    facts: HeaderFacts,
    source: &BlockSource,
    verbosity: i32,
) -> Result<Json, RpcError> {
    let detail = if verbosity > 2 { Detail::Prevouts } else { Detail::Fee };
    let (block, undo) = match verbosity {
        ..=1 => {
            call.room.grow(source.size() * PLAIN)?;
            let bytes = call.read(source)?;
            if verbosity <= 0 {
                return Ok(Json::hex(&bytes));
            }
            (decoded(bytes)?, None)
        }
        _ => with_undo(call, source, detail)?,
    };
    let view = block.view();
    let mut json = facts.to_json();
    json.push("strippedsize", view.stripped_size());
    json.push("size", view.total_size());
    json.push("weight", view.weight());
    json.push("coinbase_tx", coinbase(&block));
    let txs: Json = match verbosity {
        1 => view.txids().iter().map(ToString::to_string).collect(),
        _ => {
            let mut spent = undo.as_ref().map(BlockUndo::transactions);
            let network = call.network();
            let json = |(n, tx)| {
                let spent = if n == 0 { None } else { spent.as_mut().and_then(Iterator::next) };
                transaction(tx, network, spent, detail, true)
            };
            view.txs().enumerate().map(json).collect()
        }
    };
    json.push("tx", txs);
    Ok(json)
}

/// A block with the coins that it spent, and memory for telling all of it. How much that is, only the block
/// tells: if there is not enough at once, it is let go meanwhile, and read again.
fn with_undo(
    call: &mut Call<'_>,
    source: &BlockSource,
    detail: Detail,
) -> Result<(Block, Option<BlockUndo>), RpcError> {
    let before = call.room.bytes();
    let to_read = source.size() * cost::DECODED + source.undo_size() * cost::OF_RECORD;
    call.room.grow(to_read)?;
    let read = |call: &Call<'_>| Ok::<_, RpcError>((decoded(call.read(source)?)?, undo(source)?));
    let (block, undo) = read(call)?;
    let to_tell = cost_of(&block, undo.as_ref(), detail);
    if call.room.try_grow(to_tell) {
        return Ok((block, undo));
    }
    drop((block, undo));
    call.room.shrink_to(before);
    call.room.grow(to_read + to_tell)?;
    read(call)
}

fn cost_of(block: &Block, undo: Option<&BlockUndo>, detail: Detail) -> usize {
    let mut spent = undo.map(BlockUndo::transactions);
    let cost = |(n, tx)| {
        let spent = if n == 0 { None } else { spent.as_mut().and_then(Iterator::next) };
        let told = spent.filter(|_| detail == Detail::Prevouts);
        cost::transaction(tx, told.unwrap_or_default())
    };
    block.view().txs().enumerate().map(cost).sum()
}

impl BlockSource {
    /// Bytes of the block; those of genesis do not count.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Genesis => 0,
            Self::Stored(_, stored) => stored.size(),
        }
    }

    /// Bytes of the record of what it spent.
    pub(crate) fn undo_size(&self) -> usize {
        match self {
            Self::Genesis => 0,
            Self::Stored(_, stored) => stored.undo_size(),
        }
    }
}

fn coinbase(block: &Block) -> Json {
    let tx = block.view().tx(0);
    let input = tx.input(0).expect("a coinbase has an input");
    let mut json = Json::object([
        ("version", tx.version().into()),
        ("locktime", tx.lock_time().into()),
        ("sequence", input.sequence.into()),
        ("coinbase", Json::hex(input.script_sig)),
    ]);
    if let Some(item) = tx.witnesses().next().and_then(|witness| witness.item(0)) {
        json.push("witness", Json::hex(item));
    }
    json
}
