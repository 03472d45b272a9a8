//! `getblockchaininfo`, `getblockcount`, `getblockhash`, `getchaintips` and others about the whole chain.

use godwit_chain::{Chain, NodeId, Validity};
use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError, code};

use super::difficulty::{bits, difficulty, target, work};
use super::{Call, at_height, find, is_active, parse};
use crate::seam::{HistoryFacts, TipFacts};

pub(super) fn best_block_hash(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(call.node.snapshot().tip.hash.to_string().into())
}

pub(super) fn count(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(call.node.snapshot().tip.height.into())
}

pub(super) fn hash(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let height: i32 = call.arg(0).as_integer()?;
    let found = call.node.ask(move |node| {
        let chain = node.chain();
        let height =
            u32::try_from(height).ok().filter(|height| *height <= chain.tip_point().height)?;
        Some(chain.tree().node(at_height(chain, height)).hash)
    })?;
    found
        .map(|hash| hash.to_string().into())
        .ok_or_else(|| RpcError::new(code::INVALID_PARAMETER, "Block height out of range"))
}

pub(super) fn info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let snapshot = call.node.snapshot();
    let tip = &snapshot.tip;
    let mut json = Json::object([
        ("chain", call.network().name().into()),
        ("blocks", tip.height.into()),
        ("headers", snapshot.headers.max(tip.height).into()),
        ("bestblockhash", tip.hash.to_string().into()),
        ("bits", bits(tip.header.bits)),
        ("target", target(tip.header.bits)),
        ("difficulty", Json::real(difficulty(tip.header.bits))),
        ("time", tip.header.time.into()),
        ("mediantime", tip.median_time.into()),
        ("verificationprogress", Json::real(snapshot.progress)),
        ("initialblockdownload", snapshot.initial_download.into()),
    ]);
    if let Some(HistoryFacts { tip, base, progress, .. }) = &snapshot.history {
        let validation = Json::object([
            ("snapshotheight", (*base).into()),
            ("blocks", tip.height.into()),
            ("bestblockhash", tip.hash.to_string().into()),
            ("mediantime", tip.median_time.into()),
            ("chainwork", work(tip.chain_work)),
            ("verificationprogress", Json::real(*progress)),
        ]);
        json.push("backgroundvalidation", validation);
    }
    json.push("chainwork", work(tip.chain_work));
    json.push("size_on_disk", snapshot.bytes_on_disk);
    json.push("pruned", snapshot.pruning.is_some());
    if let Some(pruning) = snapshot.pruning {
        json.push("pruneheight", pruning.height);
        json.push("automatic_pruning", pruning.target.is_some());
        if let Some(target) = pruning.target {
            json.push("prune_target_size", target);
        }
    }
    if let Some(challenge) = &call.node.params().signet_challenge {
        json.push("signet_challenge", Json::hex(challenge));
    }
    json.push("warnings", call.warnings(&snapshot));
    Ok(json)
}

/// What is known of the end of a branch.
struct Tip {
    hash: BlockHash,
    height: u32,
    branch: u32,
    status: &'static str,
}

/// The ends of all branches, and the tip, highest first (Core: of equal height in no order).
fn ends(chain: &Chain) -> Vec<Tip> {
    let others = chain.tree().ends().filter(|id| !is_active(chain, *id));
    let ends = std::iter::once(chain.tip()).chain(others);
    let mut tips: Vec<Tip> = ends.map(|id| tip(chain, id)).collect();
    tips.sort_by_key(|tip| std::cmp::Reverse(tip.height));
    tips
}

fn tip(chain: &Chain, id: NodeId) -> Tip {
    let (tree, node) = (chain.tree(), chain.tree().node(id));
    let fork = tree.node(tree.fork(id, chain.tip())).height;
    let status = match node {
        _ if id == chain.tip() => "active",
        node if node.failed => "invalid",
        node if !node.has_chain() => "headers-only",
        node if node.validity == Validity::Scripts => "valid-fork",
        _ => "valid-headers",
    };
    Tip { hash: node.hash, height: node.height, branch: node.height - fork, status }
}

pub(super) fn tips(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let tips = call.node.ask(|node| ends(node.chain()))?;
    let json = |tip: Tip| {
        Json::object([
            ("height", tip.height.into()),
            ("hash", tip.hash.to_string().into()),
            ("branchlen", tip.branch.into()),
            ("status", tip.status.into()),
        ])
    };
    Ok(tips.into_iter().map(json).collect())
}

/// Seconds of the window where none is named.
const MONTH: u32 = 30 * 24 * 60 * 60;

pub(super) fn tx_stats(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let end = parse::block_hash(call.arg(1))?;
    let wanted = call.arg(0).clone();
    call.node.ask(move |node| window_stats(node.chain(), end, &wanted))?
}

/// `wanted` is read behind the block, of which an error is told first.
fn window_stats(chain: &Chain, end: Option<BlockHash>, wanted: &Json) -> Result<Json, RpcError> {
    let refused = |text: &str| RpcError::new(code::INVALID_PARAMETER, text);
    let tree = chain.tree();
    let end = match end {
        None => chain.tip(),
        Some(hash) => {
            let id = find(chain, &hash)?;
            if !is_active(chain, id) {
                return Err(refused("Block is not in main chain"));
            }
            id
        }
    };
    let last = tree.node(end);
    let height = last.height as i32;
    let wanted: Option<i32> = match wanted {
        Json::Null => None,
        number => Some(number.as_integer()?),
    };
    let blocks = match wanted {
        None => ((MONTH / chain.params().pow_target_spacing) as i32).min(height - 1).max(0),
        Some(blocks) if blocks < 0 || (blocks > 0 && blocks >= height) => {
            return Err(refused(
                "Invalid block count: should be between 0 and the block's height - 1",
            ));
        }
        Some(blocks) => blocks,
    };
    let before = tree.ancestor(end, (height - blocks) as u32).expect("within the chain");
    let first = tree.node(before);
    let seconds = i64::from(tree.median_time_past(end)) - i64::from(tree.median_time_past(before));
    let mut json = Json::object([("time", last.header.time.into())]);
    if last.chain_tx_count != 0 {
        json.push("txcount", last.chain_tx_count);
    }
    json.push("window_final_block_hash", last.hash.to_string());
    json.push("window_final_block_height", last.height);
    json.push("window_block_count", blocks);
    if blocks > 0 {
        json.push("window_interval", seconds);
        if last.chain_tx_count != 0 && first.chain_tx_count != 0 {
            let count = last.chain_tx_count - first.chain_tx_count;
            json.push("window_tx_count", count);
            if seconds > 0 {
                json.push("txrate", Json::real(count as f64 / seconds as f64));
            }
        }
    }
    Ok(json)
}

pub(super) fn states(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let seam = call.node.clone();
    let (cache, snapshot_base, history_progress, snapshot) = call.node.ask(move |node| {
        let (chain, now, snapshot) = (node.chain(), node.now().unix, seam.snapshot());
        let base = chain.assumed().map(|assumed| assumed.base.hash);
        // Of the network's transactions; that of those up to the snapshot's block has `getblockchaininfo`.
        let progress = |history: &HistoryFacts| {
            let id = chain.tree().find(&history.tip.hash)?;
            Some(chain.verification_progress(id, now))
        };
        let progress = snapshot.history.as_ref().and_then(progress).unwrap_or_default();
        (chain.status().memory.coins.total(), base, progress, snapshot)
    })?;
    let history = snapshot.history.as_ref().map(|history| {
        let mut state = chain_state(&history.tip, history_progress, history.coins);
        state.push("validated", true);
        state
    });
    let others = snapshot.history.as_ref().map_or(0, |history| history.coins);
    let cache = (cache as u64).saturating_sub(others);
    let mut state = chain_state(&snapshot.tip, snapshot.progress, cache);
    if let Some(base) = snapshot_base {
        state.push("snapshot_blockhash", base.to_string());
    }
    state.push("validated", snapshot_base.is_none());
    Ok(Json::object([
        ("headers", snapshot.headers.into()),
        ("chainstates", Json::List(history.into_iter().chain([state]).collect())),
    ]))
}

/// What both chains are told of with, that of the tip and the history below a snapshot.
fn chain_state(tip: &TipFacts, progress: f64, cache: u64) -> Json {
    Json::object([
        ("blocks", tip.height.into()),
        ("bestblockhash", tip.hash.to_string().into()),
        ("bits", bits(tip.header.bits)),
        ("target", target(tip.header.bits)),
        ("difficulty", Json::real(difficulty(tip.header.bits))),
        ("verificationprogress", Json::real(progress)),
        ("coins_db_cache_bytes", 0.into()),
        ("coins_tip_cache_bytes", cache.into()),
    ])
}
