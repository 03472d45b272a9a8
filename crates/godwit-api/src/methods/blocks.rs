//! Whole blocks.

use godwit_primitives::{Block, BlockHash};
use godwit_rpc::{Json, RpcError};
use godwit_store::BlockUndo;

use super::headers::HeaderFacts;
use super::stored::{decoded, undo};
use super::transaction::{Detail, transaction};
use super::{BlockSource, Call, find, parse, source};

/// Memory of the answer for each byte of a block whose transactions are told: the tree of values and the
/// text, hexadecimal included.
const DETAILED: usize = 24;

/// The same where only ids are told, or the block's own bytes in hexadecimal.
const PLAIN: usize = 6;

pub(super) fn block(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "blockhash")?;
    let verbosity = parse::verbosity(call.arg(1), 1)?;
    let (facts, source) = call.node.ask(move |node| {
        let chain = node.chain();
        let id = find(chain, &hash)?;
        Ok((HeaderFacts::of(chain, id), source(chain, id)?))
    })??;
    let size = source.size();
    call.room.grow(size * if verbosity > 1 { DETAILED } else { PLAIN })?;
    let bytes = call.read(&source)?;
    if verbosity <= 0 {
        return Ok(Json::hex(&bytes));
    }
    let undo = if verbosity > 1 { undo(&source)? } else { None };
    let block = decoded(bytes)?;
    let view = block.view();
    let mut json = facts.to_json();
    json.push("strippedsize", view.stripped_size());
    json.push("size", view.total_size());
    json.push("weight", view.weight());
    json.push("coinbase_tx", coinbase(&block));
    let txs: Json = match verbosity {
        1 => view.txids().iter().map(ToString::to_string).collect(),
        _ => {
            let detail = if verbosity == 2 { Detail::Fee } else { Detail::Prevouts };
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

impl BlockSource {
    /// Bytes of the block; those of genesis do not count.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Genesis => 0,
            Self::Stored(_, stored) => stored.size(),
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
