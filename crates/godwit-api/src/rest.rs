//! REST: blocks, headers and coins over plain HTTP, as bytes, hexadecimal or JSON (Core `rest.cpp`).
//!
//! There is no login, since all answers are public. Therefore a request is small, and the work that it causes
//! is bounded like that of a method's call: it waits in the same queue, runs on the same threads, and its
//! answer counts against the same memory.

mod indexed;
mod path;

use godwit_chain::NodeId;
use godwit_http::{AnswerBody, ContentKind, Reply, RequestBody};
use godwit_primitives::{BlockHash, Coin, OutPoint};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::BlockUndo;
use godwit_stream::DataStream;

use crate::api::Api;
use crate::dispatch::written;
use crate::methods::blocks::{self, PLAIN};
use crate::methods::cost;
use crate::methods::headers::{HeaderFacts, headers_from};
use crate::methods::output::coins;
use crate::methods::stored;
use crate::methods::{BlockSource, Call, Missing, at_height, block_source, handler};
use crate::script::script_json;
use path::{ALL_FORMATS, Asked, Detail, Format, Named, Part, Refusal};

const OK: u16 = 200;
const INTERNAL_ERROR: u16 = 500;
const UNAVAILABLE: u16 = 503;

/// Memory of a header that is told in JSON, and of one in hexadecimal.
const HEADER_JSON: usize = 6000;
const HEADER_HEX: usize = 480;

/// What a resource is, before its format is looked at.
enum Content {
    Bytes(Vec<u8>),
    Json(Json),
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        let (status, text) = match error.code {
            code::IN_WARMUP => {
                (UNAVAILABLE, format!("Service temporarily unavailable: {}", error.message))
            }
            code::LIMIT_EXCEEDED | code::CLIENT_NOT_CONNECTED => (UNAVAILABLE, error.message),
            _ => (INTERNAL_ERROR, error.message),
        };
        Self::new(status, text)
    }
}

impl Api {
    /// Whether a path names a resource.
    pub(crate) fn is_resource(path: &str) -> bool {
        path::is_resource(path)
    }

    /// Answers a request for what this target of HTTP names.
    pub(crate) fn answer_resource(
        &self,
        target: &str,
        body: RequestBody,
        is_gone: &dyn Fn() -> bool,
    ) -> Reply {
        let mut room = self.answers.room();
        let answered = path::path(target).and_then(|path| {
            let _active = self.active.begin_other();
            let node = self.stage.node()?;
            let (asked, format) = path.read(&body.bytes)?;
            drop(body);
            let mut call = Call { api: self, node, args: &[], room: &mut room, is_gone };
            let content = content(&mut call, asked, format)?;
            in_format(&mut call, content, format)
        });
        let (status, kind, bytes) = match answered {
            Ok((kind, bytes)) => (OK, kind, bytes),
            Err(Refusal { status, mut text }) => {
                text.extend_from_slice(b"\r\n");
                (status, ContentKind::Text, text)
            }
        };
        room.shrink_to(bytes.capacity());
        Reply { status, body: Some(AnswerBody { kind, bytes: room.until_sent(bytes) }) }
    }
}

/// Writes it; whoever asked has memory for it.
fn in_format(
    call: &mut Call<'_>,
    content: Content,
    format: Format,
) -> Result<(ContentKind, Vec<u8>), Refusal> {
    let (kind, mut text) = match content {
        Content::Bytes(bytes) if format == Format::Binary => {
            return Ok((ContentKind::Bytes, bytes));
        }
        Content::Bytes(bytes) => (ContentKind::Text, data_encoding::HEXLOWER.encode(&bytes)),
        Content::Json(json) => (ContentKind::Json, written(&json, call.room)?),
    };
    text.push('\n');
    Ok((kind, text.into_bytes()))
}

/// What is asked, in bytes or in JSON as the format wants it.
fn content(call: &mut Call<'_>, asked: Asked, format: Format) -> Result<Content, Refusal> {
    let known = |content: Content| match format {
        Format::Unknown => Err(Refusal::unknown_format(ALL_FORMATS)),
        _ => Ok(content),
    };
    match asked {
        Asked::Transaction(named) => indexed::transaction(call, &named, format).and_then(known),
        Asked::Filter(named) => indexed::filter(call, &named, format).and_then(known),
        Asked::FilterHeaders(from, count) => {
            indexed::headers(call, from, count, format).and_then(known)
        }
        Asked::Block(named, detail) => block(call, &named, detail, format).and_then(known),
        Asked::SpentOutputs(named) => spent_outputs(call, &named, format).and_then(known),
        Asked::Headers(from, count) => headers(call, from, count, format).and_then(known),
        Asked::Coins { outpoints, with_outbox } => unspent(call, outpoints, with_outbox, format),
        Asked::BlockHash(height) => block_hash(call, height, format).and_then(known),
        Asked::ChainInfo => method(call, "getblockchaininfo", &[]),
        Asked::MempoolInfo => method(call, "getmempoolinfo", &[]),
        Asked::MempoolContents { verbose, sequence } => {
            method(call, "getrawmempool", &[verbose.into(), sequence.into()])
        }
        Asked::Deployments(None) => method(call, "getdeploymentinfo", &[]),
        Asked::Deployments(Some(hash)) => {
            if call.node.ask(move |node| node.chain().tree().find(&hash).is_none())? {
                return Err(Refusal::new(path::BAD_REQUEST, "Block not found"));
            }
            method(call, "getdeploymentinfo", &[hash.to_string().into()])
        }
    }
}

/// What a method tells.
fn method(call: &mut Call<'_>, name: &str, args: &[Json]) -> Result<Content, Refusal> {
    let run = handler(name).expect("a method that there is");
    let (api, node, is_gone) = (call.api, call.node.clone(), call.is_gone);
    let result = run(&mut Call { api, node, args, room: &mut *call.room, is_gone });
    Ok(Content::Json(result?))
}

fn io_error(named: &Named) -> Refusal {
    Refusal::new(INTERNAL_ERROR, format!("I/O error reading {}", named.text))
}

fn unknown(named: &Named) -> Refusal {
    Refusal::not_found(format!("{} not found", named.text))
}

/// What is known of a block, and where its bytes are.
fn located(
    call: &Call<'_>,
    named: &Named,
) -> Result<(HeaderFacts, Result<BlockSource, Missing>), Refusal> {
    let hash = named.hash;
    let found = call.node.ask(move |node| {
        let chain = node.chain();
        let id: NodeId = chain.tree().find(&hash)?;
        Some((HeaderFacts::of(chain, id), block_source(chain, id)))
    })?;
    found.ok_or_else(|| unknown(named))
}

fn block(
    call: &mut Call<'_>,
    named: &Named,
    detail: Detail,
    format: Format,
) -> Result<Content, Refusal> {
    let (facts, source) = located(call, named)?;
    let source = source.map_err(|missing| match missing {
        Missing::Damaged => io_error(named),
        Missing::Pruned => {
            Refusal::not_found(format!("{} not available (pruned data)", named.text))
        }
        Missing::NotDownloaded => {
            Refusal::not_found(format!("{} not available (not fully downloaded)", named.text))
        }
    })?;
    let unreadable = |error: RpcError| match error.code {
        code::MISC_ERROR => io_error(named),
        _ => error.into(),
    };
    let verbosity = match detail {
        Detail::Everything => 3,
        Detail::Ids => 1,
        Detail::Part(part) => {
            let bytes = bytes_of(call, &source).map_err(unreadable)?;
            let bytes = part_of(bytes, part, named)?;
            return match format {
                Format::Json => Err(Refusal::new(
                    path::BAD_REQUEST,
                    "JSON output is not supported for this request type",
                )),
                _ => Ok(Content::Bytes(bytes)),
            };
        }
    };
    match format {
        Format::Json => {
            let json = blocks::told(call, facts, &source, verbosity).map_err(unreadable)?;
            Ok(Content::Json(json))
        }
        _ => Ok(Content::Bytes(bytes_of(call, &source).map_err(unreadable)?)),
    }
}

fn bytes_of(call: &mut Call<'_>, source: &BlockSource) -> Result<Vec<u8>, RpcError> {
    call.room.grow(source.size() * PLAIN)?;
    call.read(source)
}

/// A part of a block, whose bytes were all read: its checksum is over all of them.
fn part_of(mut bytes: Vec<u8>, part: Part, named: &Named) -> Result<Vec<u8>, Refusal> {
    let Part { offset, size } = part;
    let end = offset.saturating_add(size);
    if size == 0 || end > bytes.len() as u64 {
        return Err(Refusal::new(
            path::BAD_REQUEST,
            format!("Bad block part offset/size {offset}/{size} for {}", named.text),
        ));
    }
    bytes.truncate(end as usize);
    bytes.drain(..offset as usize);
    Ok(bytes)
}

/// The outputs that a block spent, by transaction; the coinbase has none.
fn spent_outputs(call: &mut Call<'_>, named: &Named, format: Format) -> Result<Content, Refusal> {
    let (facts, source) = located(call, named)?;
    let unavailable = || Refusal::not_found(format!("{} undo not available", named.text));
    let source = source.map_err(|_| unavailable())?;
    call.room.grow(source.undo_size() * (cost::OF_RECORD + cost::DECODED))?;
    let undo = match stored::undo(&source) {
        Ok(None) if facts.height == 0 => None,
        Ok(Some(undo)) => Some(undo),
        Ok(None) | Err(_) => return Err(unavailable()),
    };
    let transactions = || undo.iter().flat_map(BlockUndo::transactions);
    if format != Format::Json {
        let bytes: usize = transactions().map(serialized_len).sum();
        call.room.grow(4 * bytes)?;
        let mut out: DataStream = DataStream::with_capacity(bytes + 2 * COUNT_BYTES);
        out.write_compact_size(transactions().count() as u64 + 1);
        out.write_compact_size(0);
        for coins in transactions() {
            out.write_compact_size(coins.len() as u64);
            coins.iter().for_each(|coin| write_output(&mut out, coin));
        }
        return Ok(Content::Bytes(out.as_slice().to_vec()));
    }
    let told: usize =
        transactions().map(|coins| LIST + coins.iter().map(cost::prevout).sum::<usize>()).sum();
    call.room.grow(told)?;
    let network = call.network();
    let output = |coin: &Coin| {
        Json::object([
            ("value", Json::amount(coin.value)),
            ("scriptPubKey", script_json(&coin.script_pubkey, network, true)),
        ])
    };
    let list = |coins: &[Coin]| coins.iter().map(output).collect::<Json>();
    let coinbase = std::iter::once(Json::List(Vec::new()));
    Ok(Content::Json(coinbase.chain(transactions().map(list)).collect()))
}

/// Memory of a list and its brackets.
const LIST: usize = 80;

/// Bytes of a number of things, at most.
const COUNT_BYTES: usize = 9;

fn serialized_len(coins: &[Coin]) -> usize {
    let output = |coin: &Coin| 8 + COUNT_BYTES + coin.script_pubkey.len();
    COUNT_BYTES + coins.iter().map(output).sum::<usize>()
}

/// As transactions have it (Core `CTxOut`).
fn write_output(out: &mut DataStream, coin: &Coin) {
    out.write_i64(coin.value);
    out.write_compact_size(coin.script_pubkey.len() as u64);
    out.write(&coin.script_pubkey);
}

fn headers(
    call: &mut Call<'_>,
    from: BlockHash,
    count: usize,
    format: Format,
) -> Result<Content, Refusal> {
    let each = if format == Format::Json { HEADER_JSON } else { HEADER_HEX };
    call.room.grow(count * each)?;
    let facts = headers_from(&call.node, from, count)?;
    Ok(match format {
        Format::Json => Content::Json(facts.into_iter().map(HeaderFacts::to_json).collect()),
        _ => Content::Bytes(facts.iter().flat_map(|facts| facts.header.to_bytes()).collect()),
    })
}

fn block_hash(call: &mut Call<'_>, height: u32, format: Format) -> Result<Content, Refusal> {
    let hash = call.node.ask(move |node| {
        let chain = node.chain();
        let exists = height <= chain.tip_point().height;
        exists.then(|| chain.tree().node(at_height(chain, height)).hash)
    })?;
    let hash = hash.ok_or_else(|| Refusal::not_found("Block height out of range"))?;
    Ok(match format {
        Format::Json => Content::Json(Json::object([("blockhash", hash.to_string().into())])),
        // In hexadecimal it is written as everywhere, from its end.
        Format::Hex => Content::Bytes(hash.as_bytes().iter().rev().copied().collect()),
        _ => Content::Bytes(hash.as_bytes().to_vec()),
    })
}

/// Which coins exist, and what they are (BIP64).
fn unspent(
    call: &mut Call<'_>,
    outpoints: Vec<OutPoint>,
    with_outbox: bool,
    format: Format,
) -> Result<Content, Refusal> {
    let (coins, tip) = coins(&call.node, outpoints, with_outbox)?;
    let found = || coins.iter().flatten();
    call.room.grow(LIST + found().map(cost::prevout).sum::<usize>())?;
    if format == Format::Json {
        let network = call.network();
        let bits: String =
            coins.iter().map(|coin| if coin.is_some() { '1' } else { '0' }).collect();
        let output = |coin: &Coin| {
            Json::object([
                ("height", coin.height.into()),
                ("value", Json::amount(coin.value)),
                ("scriptPubKey", script_json(&coin.script_pubkey, network, true)),
            ])
        };
        return Ok(Content::Json(Json::object([
            ("chainHeight", tip.height.into()),
            ("chaintipHash", tip.hash.to_string().into()),
            ("bitmap", bits.into()),
            ("utxos", found().map(output).collect()),
        ])));
    }
    let mut bitmap = vec![0_u8; coins.len().div_ceil(8)];
    for n in (0..coins.len()).filter(|n| coins[*n].is_some()) {
        bitmap[n / 8] |= 1 << (n % 8);
    }
    let mut out: DataStream = DataStream::new();
    out.write_u32(tip.height);
    out.put(&tip.hash);
    out.put(&bitmap);
    out.write_compact_size(found().count() as u64);
    for coin in found() {
        // The version of the transaction, once.
        out.write_u32(0);
        out.write_u32(coin.height);
        write_output(&mut out, coin);
    }
    Ok(Content::Bytes(out.as_slice().to_vec()))
}
