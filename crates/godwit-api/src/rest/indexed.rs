//! Answers from the optional indexes; transactions may also come from the outbox.

use godwit_primitives::{BlockHash, ReversedHex, TxView};
use godwit_rpc::Json;
use godwit_stream::DataStream;

use super::path::{self, Format, Named, NamedTransaction, Refusal};
use super::{Content, HEADER_HEX, unknown};
use crate::methods::blocks::PLAIN;
use crate::methods::headers::headers_from;
use crate::methods::indexes::{NoFilter, catch_up, filter_headers, filter_of, find_transaction};
use crate::methods::{Call, cost, mempool, transaction};

/// The number of the basic type of filters (BIP158).
const BASIC: u8 = 0;

/// A transaction of the outbox, or of any block. The outbox is asked first: one that leaves it for a block
/// meanwhile is in the index when that has caught up.
pub(super) fn transaction(
    call: &mut Call<'_>,
    NamedTransaction { txid, text }: &NamedTransaction,
    format: Format,
) -> Result<Content, Refusal> {
    if let Some(sent) = mempool::transaction(call, *txid)? {
        return told(call, sent.view(), None, format);
    }
    if let Some(index) = call.node.indexes().transactions.clone() {
        catch_up(call, index.status())?;
    }
    let found = find_transaction(call, txid)?;
    let found = found.ok_or_else(|| Refusal::not_found(format!("{text} not found")))?;
    told(call, found.tx(), Some(found.block_hash()), format)
}

fn told(
    call: &mut Call<'_>,
    tx: TxView<'_>,
    block: Option<BlockHash>,
    format: Format,
) -> Result<Content, Refusal> {
    if format == Format::Json {
        call.room.grow(cost::transaction(tx, &[]))?;
        let json = transaction::in_block(tx, block, call.network());
        return Ok(Content::Json(json));
    }
    call.room.grow(tx.total_size() * PLAIN)?;
    Ok(Content::Bytes(tx.bytes().to_vec()))
}

fn not_enabled() -> Refusal {
    Refusal::new(path::BAD_REQUEST, "Index is not enabled for filtertype basic")
}

fn missing(why: &NoFilter) -> Refusal {
    Refusal::not_found(why.text())
}

/// In bytes with its type and its block before it, as BIP157's `cfilter` has it.
pub(super) fn filter(
    call: &mut Call<'_>,
    named: &Named,
    format: Format,
) -> Result<Content, Refusal> {
    let index = call.node.indexes().filters.clone().ok_or_else(not_enabled)?;
    let found = filter_of(call, &index, named.hash)?.ok_or_else(|| unknown(named))?;
    let filter = found.map_err(|why| missing(&why))?;
    if format == Format::Json {
        return Ok(Content::Json(Json::object([("filter", Json::hex(&filter.bytes))])));
    }
    let mut out: DataStream = DataStream::new();
    out.write(&[BASIC]);
    out.put(&named.hash);
    out.write_compact_size(filter.bytes.len() as u64);
    out.write(&filter.bytes);
    Ok(Content::Bytes(out.as_slice().to_vec()))
}

/// The headers of the filters of so many blocks of the active chain, from this one on.
pub(super) fn headers(
    call: &mut Call<'_>,
    from: BlockHash,
    count: usize,
    format: Format,
) -> Result<Content, Refusal> {
    let index = call.node.indexes().filters.clone().ok_or_else(not_enabled)?;
    call.room.grow(count * HEADER_HEX)?;
    let blocks = headers_from(&call.node, from, count)?;
    let headers = filter_headers(call, &index, &blocks)?.map_err(|why| missing(&why))?;
    let text = |header: &[u8; 32]| Json::from(ReversedHex(header).to_string());
    Ok(match format {
        Format::Json => Content::Json(headers.iter().map(text).collect()),
        _ => Content::Bytes(headers.concat()),
    })
}
