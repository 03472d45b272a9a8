//! Finds the blocks that concern given descriptors, by block filters.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;

use godwit_chain::{Chain, NodeId};
use godwit_index::FilterIndex;
use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError, code};
use godwit_store::ChainPoint;

use super::indexes::{BASIC, check_kind, filters, unreadable};
use super::search::{Kept, ScriptId, busy, objects, scripts, too_large, unfit};
use super::stored::{decoded, undo};
use super::{BlockSource, Call, at_height, coins, cost, parse, source};
use crate::coin_calls::Progress;

/// Blocks of which the hashes are asked at once.
const BLOCKS: u32 = 1_000;

/// Blocks that one search finds: some megabytes of hashes.
const MAX_FOUND: usize = 200_000;

/// Memory of a block that is named: where it is in the chain and on disk.
const PER_NAMED: usize = 300;

/// Memory of a hash that was found: the value, its text, and that of the answer.
const PER_FOUND: usize = 300;

/// From which block to which one is searched.
struct Range {
    first: u32,
    last: ChainPoint,
}

fn misc(text: &str) -> RpcError {
    RpcError::new(code::MISC_ERROR, text)
}

/// The second height is read behind the first, of which an error is told first.
fn range(chain: &Chain, first: &Json, last: &Json) -> Result<Range, RpcError> {
    let tip = chain.tip_point();
    let of_chain = |height: i32| u32::try_from(height).ok().filter(|height| *height <= tip.height);
    let first = match height(first)?.map(of_chain) {
        None => 0,
        Some(first) => first.ok_or_else(|| misc("Invalid start_height"))?,
    };
    let last = match height(last)?.map(of_chain) {
        None => tip.height,
        Some(last) => {
            last.filter(|last| *last >= first).ok_or_else(|| misc("Invalid stop_height"))?
        }
    };
    let hash = chain.tree().node(at_height(chain, last)).hash;
    Ok(Range { first, last: ChainPoint { hash, height: last } })
}

fn height(value: &Json) -> Result<Option<i32>, RpcError> {
    if value.is_null() { Ok(None) } else { value.as_integer().map(Some) }
}

/// Blocks of the chain that ends in `last`, from a height on, and their nodes.
fn blocks(
    call: &Call<'_>,
    last: ChainPoint,
    first: u32,
) -> Result<Vec<(ChainPoint, NodeId)>, RpcError> {
    call.node.ask(move |node| {
        let tree = node.chain().tree();
        let end = tree.find(&last.hash).expect("it was of the active chain");
        let top = last.height.min(first + BLOCKS - 1);
        let mut walk = tree.ancestor(end, top);
        let mut found = Vec::with_capacity((top - first) as usize + 1);
        while let Some(id) = walk.filter(|id| tree.node(*id).height >= first) {
            let block = tree.node(id);
            found.push((ChainPoint { hash: block.hash, height: block.height }, id));
            walk = block.parent();
        }
        found.reverse();
        found
    })
}

/// Whether a block creates or spends a coin with one of the scripts (Core `CheckBlockFilterMatches`).
fn concerns(
    call: &mut Call<'_>,
    id: NodeId,
    scripts: &HashMap<Vec<u8>, ScriptId>,
) -> Result<bool, RpcError> {
    let found = call.node.ask(move |node| source(node.chain(), id))??;
    let before = call.room.bytes();
    call.room.grow(found.size() * cost::DECODED + found.undo_size() * cost::OF_RECORD)?;
    let (block, spent) = (decoded(call.read(&found)?)?, undo(&found)?);
    if spent.is_none() && !matches!(found, BlockSource::Genesis) {
        return Err(misc("Undo data not available"));
    }
    let view = block.view();
    let mut created = view.txs().flat_map(|tx| tx.outputs());
    let mut spent = spent.iter().flat_map(|undo| undo.coins());
    let concerns = created.any(|output| scripts.contains_key(output.script_pubkey))
        || spent.any(|coin| scripts.contains_key(&coin.script_pubkey[..]));
    call.room.shrink_to(before);
    Ok(concerns)
}

/// What a search is for, and where.
struct Search<'s> {
    index: &'s FilterIndex,
    range: Range,
    scripts: &'s HashMap<Vec<u8>, ScriptId>,
    /// Filters may be wrong by chance: whether the blocks that they name are looked at.
    looks: bool,
}

/// Looks through the filters; the blocks that were found, the height of the last one that was looked at, and
/// whether all were.
fn search(
    call: &mut Call<'_>,
    search: &Search<'_>,
    progress: &Progress,
    kept: &mut Kept,
) -> Result<(Vec<BlockHash>, u32, bool), RpcError> {
    let Range { first, last } = search.range;
    let (mut found, mut numbers, mut next) = (Vec::new(), Vec::new(), first);
    let total = u64::from(last.height - first);
    progress.height.store(first, Ordering::Relaxed);
    while next <= last.height {
        let some = blocks(call, last, next)?;
        for (point, id) in some {
            coins::check(call)?;
            if progress.is_aborted() {
                return Ok((found, next.saturating_sub(1).max(first), false));
            }
            let wanted = search.scripts.keys().map(Vec::as_slice);
            let matches = search.index.matches_any(point, wanted, &mut numbers);
            next = point.height + 1;
            // Of a block to which the index has not come nothing is known.
            if matches.map_err(|error| unreadable(&error))?.unwrap_or(false)
                && (!search.looks || concerns(call, id, search.scripts)?)
            {
                if found.len() == MAX_FOUND {
                    return Err(too_large("Too many blocks: look for less at once"));
                }
                kept.add(call, PER_FOUND)?;
                found.push(point.hash);
            }
        }
        let done = u64::from(next - 1 - first);
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        progress.percent.store(percent as u32, Ordering::Relaxed);
        progress.height.store(next - 1, Ordering::Relaxed);
    }
    Ok((found, last.height, true))
}

fn start(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let api = call.api;
    let running = api.coins.blocks.begin().ok_or_else(busy)?;
    let progress = &running.progress;
    let kind = match call.arg(4) {
        Json::Null => BASIC,
        kind => kind.as_text()?,
    };
    check_kind(kind)?;
    let looks = call.arg(5).get("filter_false_positives").map_or(Ok(false), Json::as_bool)?;
    let index = filters(call, kind)?;
    let (first, last) = (call.arg(2).clone(), call.arg(3).clone());
    let range = call.node.ask(move |node| range(node.chain(), &first, &last))??;
    let first = range.first;
    let _waiting = api.begin_wait()?;
    let mut kept = Kept::new(call);
    let objects = objects(call, &mut kept)?;
    let scripts = scripts(call, &objects, progress, &mut kept)?;
    let wanted = Search { index: &index, range, scripts: &scripts, looks };
    let (found, last, is_complete) = search(call, &wanted, progress, &mut kept)?;
    Ok(Json::object([
        ("from_height", first.into()),
        ("to_height", last.into()),
        ("relevant_blocks", found.iter().map(ToString::to_string).collect()),
        ("completed", is_complete.into()),
    ]))
}

pub(super) fn scan(call: &mut Call<'_>) -> Result<Json, RpcError> {
    match call.arg(0).as_text()? {
        "start" => start(call),
        "status" => Ok(match call.api.coins.blocks.under_way() {
            None => Json::Null,
            Some(progress) => Json::object([
                ("progress", progress.percent.load(Ordering::Relaxed).into()),
                ("current_height", progress.height.load(Ordering::Relaxed).into()),
            ]),
        }),
        "abort" => Ok(call.api.coins.blocks.abort().into()),
        other => Err(unfit(format!("Invalid action '{other}'"))),
    }
}

/// Blocks of the active chain by their hashes, in order and each once. The first hash that names none ends
/// it.
fn named_blocks(call: &mut Call<'_>) -> Result<Vec<(ChainPoint, NodeId)>, RpcError> {
    let list = call.args.first().unwrap_or(&Json::Null).as_list()?;
    call.room.grow(list.len() * PER_NAMED)?;
    let mut found = BTreeMap::new();
    for values in list.chunks(BLOCKS as usize) {
        let mut hashes: Vec<BlockHash> = Vec::with_capacity(values.len());
        let mut unread = None;
        for value in values {
            match parse::hash(value, "blockhash") {
                Ok(hash) => hashes.push(hash),
                Err(error) => {
                    unread = Some(error);
                    break;
                }
            }
        }
        let part = call.node.ask(move |node| {
            let chain = node.chain();
            let of_block = |hash: BlockHash| {
                let id = super::find(chain, &hash)?;
                if !super::is_active(chain, id) {
                    return Err(unfit("Block is not in main chain"));
                }
                let height = chain.tree().node(id).height;
                Ok((height, (ChainPoint { hash, height }, id)))
            };
            hashes.into_iter().map(of_block).collect::<Result<Vec<_>, _>>()
        })??;
        found.extend(part);
        if let Some(error) = unread {
            return Err(error);
        }
    }
    Ok(found.into_values().collect())
}

/// Where the bytes of these blocks are.
fn sources(call: &Call<'_>, blocks: &[(ChainPoint, NodeId)]) -> Result<Vec<BlockSource>, RpcError> {
    let mut sources = Vec::with_capacity(blocks.len());
    for blocks in blocks.chunks(BLOCKS as usize) {
        let blocks = blocks.to_vec();
        sources.extend(call.node.ask(move |node| {
            blocks.iter().map(|(_, id)| source(node.chain(), *id)).collect::<Result<Vec<_>, _>>()
        })??);
    }
    Ok(sources)
}

pub(super) fn activity(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let blocks = named_blocks(call)?;
    let _waiting = call.api.begin_wait()?;
    let mut kept = Kept::new(call);
    let objects = objects(call, &mut kept)?;
    let scripts = scripts(call, &objects, &Progress::default(), &mut kept)?;
    let wanted: HashSet<&[u8]> = scripts.keys().map(Vec::as_slice).collect();
    let sources = sources(call, &blocks)?;
    let mut events = Vec::new();
    for ((point, _), source) in blocks.iter().zip(&sources) {
        coins::check(call)?;
        super::activity::of_block(call, (*point, source), &wanted, &mut kept, &mut events)?;
    }
    if parse::flag(call.arg(2), true)? {
        super::activity::of_outbox(call, &wanted, &mut kept, &mut events)?;
    }
    Ok(Json::object([("activity", Json::List(events))]))
}
