//! `pruneblockchain` and `getblockfrompeer`: blocks that the operator wants deleted or fetched.

use std::time::{Duration, Instant};

use godwit_chain::{
    Body, Chain, MIN_BLOCKS_TO_KEEP, body, deletes_blocks, is_below_lowest, is_pruning,
};
use godwit_p2p::{PeerId, PeerInfo, Services};
use godwit_primitives::{BlockHash, Network};
use godwit_rpc::{Json, RpcError, code};

use super::{Call, at_height, coins, parse};

/// Between two looks whether files are deleted.
const POLL: Duration = Duration::from_millis(5);

/// How long commits may follow each other before the caller is answered all the same.
const SETTLING: Duration = Duration::from_secs(10);

/// A greater number is no height: it is a time, in seconds since 1970 (Core).
const FIRST_TIME: i32 = 1_000_000_000;

/// Seconds by which the time of a block may be wrong (Core `TIMESTAMP_WINDOW`).
const TIMESTAMP_WINDOW: i32 = 2 * 60 * 60;

/// Heights that are looked at in one question.
const HEIGHTS: u32 = 2_000;

fn misc(text: &str) -> RpcError {
    RpcError::new(code::MISC_ERROR, text)
}

fn unfit(text: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMETER, text)
}

/// Why a peer is not asked for a block.
fn unsuited(peer: Option<&PeerInfo>) -> Option<&'static str> {
    let Some(peer) = peer else { return Some("Peer does not exist") };
    let offers = |service: Services| peer.said.services.contains(service);
    if !offers(Services::WITNESS) {
        return Some("Pre-SegWit peer");
    }
    let has_blocks = offers(Services::NETWORK) || offers(Services::NETWORK_LIMITED);
    (!has_blocks).then_some("Peer serves no blocks")
}

pub(super) fn block_from_peer(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "blockhash")?;
    let peer: i64 = call.arg(1).as_integer()?;
    call.node.ask(move |node| {
        let (chain, tree) = (node.chain(), node.chain().tree());
        let id = tree.find(&hash).ok_or_else(|| misc("Block header missing"))?;
        let block = tree.node(id);
        if deletes_blocks(chain) && block.height > chain.tip_point().height {
            return Err(misc(
                "In prune mode, only blocks that the node has already synced previously can be fetched from a \
                 peer",
            ));
        }
        if matches!(body(chain, id), Body::Genesis | Body::Stored(_) | Body::Lost(_)) {
            return Err(misc("Block already downloaded"));
        }
        // Next to those that are stored a start would count it as one of them, and it has no undo record.
        if deletes_blocks(chain) && is_below_lowest(chain, id) {
            return Err(misc("The block next to the lowest stored one cannot be fetched"));
        }
        let peers = node.peers().infos();
        let found = u64::try_from(peer).ok().map(PeerId);
        let found = found.and_then(|peer| peers.iter().find(|info| info.id == peer));
        match (unsuited(found), found) {
            (None, Some(peer)) => node.fetch_block(peer.id, id),
            (why, _) => return Err(misc(why.unwrap_or_default())),
        }
        Ok(Json::Object(Vec::new()))
    })?
}

/// The lowest of some heights whose block is not older than `time`.
fn first_since(chain: &Chain, heights: std::ops::Range<u32>, time: u32) -> Option<u32> {
    let tip = chain.tip_point().height;
    if heights.start > tip {
        return None;
    }
    let mut found = None;
    let mut walk = Some(at_height(chain, tip.min(heights.end - 1)));
    while let Some(node) = walk.map(|id| chain.tree().node(id))
        && node.height >= heights.start
    {
        found = if node.header.time >= time { Some(node.height) } else { found };
        walk = node.parent();
    }
    found
}

/// The first block of the active chain that is not older than `time`: none before it is.
fn height_of_time(call: &Call<'_>, time: u32) -> Result<u32, RpcError> {
    let tip = call.node.ask(|node| node.chain().tip_point().height)?;
    for start in (0..=tip).step_by(HEIGHTS as usize) {
        coins::check(call)?;
        let heights = start..start + HEIGHTS;
        let found = call.node.ask(move |node| first_since(node.chain(), heights, time))?;
        if let Some(height) = found {
            return Ok(height);
        }
    }
    Err(unfit("Could not find block with at least the specified timestamp."))
}

/// Below this height of the tip nothing is pruned (Core `PruneAfterHeight`).
fn prune_after(network: Network) -> u32 {
    if network == Network::Main { 100_000 } else { 1_000 }
}

/// Height of the last block that is not there; -1 where all are.
fn last_pruned(call: &Call<'_>) -> Result<Json, RpcError> {
    let lowest = call.node.ask(|node| node.chain().prune_height())?;
    Ok((i64::from(lowest) - 1).into())
}

pub(super) fn prune(call: &mut Call<'_>) -> Result<Json, RpcError> {
    if !call.node.ask(|node| deletes_blocks(node.chain()))? {
        return Err(misc("Cannot prune blocks because node is not in prune mode."));
    }
    let wanted: i32 = call.arg(0).as_integer()?;
    let wanted = match wanted {
        ..0 => return Err(unfit("Negative block height.")),
        0..=FIRST_TIME => wanted as u32,
        time => height_of_time(call, (time - TIMESTAMP_WINDOW) as u32)?,
    };
    let tip = call.node.ask(|node| node.chain().tip_point().height)?;
    if tip < prune_after(call.network()) {
        return Err(misc("Blockchain is too short for pruning."));
    }
    if wanted > tip {
        return Err(unfit("Blockchain is shorter than the attempted prune height."));
    }
    let height = wanted.min(tip - MIN_BLOCKS_TO_KEEP);
    if height == 0 {
        return last_pruned(call);
    }
    let _waiting = call.api.begin_wait()?;
    // Coins that are not on disk would keep the files of their blocks.
    drop(coins::view(call)?);
    call.node.ask(move |node| node.prune_to(height))?;
    let started = Instant::now();
    while call.node.ask(|node| is_pruning(node.chain()))? && started.elapsed() < SETTLING {
        coins::check(call)?;
        call.api.stage.sleep(POLL);
    }
    last_pruned(call)
}
