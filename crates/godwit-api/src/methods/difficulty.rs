//! Difficulty and the work of the network.

use godwit_chain::{Chain, NodeId};
use godwit_consensus::{PrevContext, next_work_required};
use godwit_primitives::Work;
use godwit_primitives::work::expand_target;
use godwit_rpc::{Json, RpcError, code};

use super::{Call, at_height, parse};

/// The multiple of the lowest difficulty (Core `GetDifficulty`).
pub(super) fn difficulty(bits: u32) -> f64 {
    let mut difficulty = f64::from(0xffff) / f64::from(bits & 0x00ff_ffff);
    for _ in bits >> 24..29 {
        difficulty *= 256.0;
    }
    for _ in 29..bits >> 24 {
        difficulty /= 256.0;
    }
    difficulty
}

pub(super) fn bits(bits: u32) -> Json {
    format!("{bits:08x}").into()
}

pub(super) fn target(bits: u32) -> Json {
    format!("{:064x}", expand_target(bits).target).into()
}

pub(super) fn work(work: Work) -> Json {
    format!("{work:064x}").into()
}

pub(super) fn of_tip(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(Json::real(difficulty(call.node.snapshot().tip.header.bits)))
}

/// Hashes a second over the blocks up to `end` (Core `GetNetworkHashPS`).
fn hashes_per_second(chain: &Chain, lookup: i32, end: NodeId) -> f64 {
    let tree = chain.tree();
    let height = tree.node(end).height;
    if height == 0 {
        return 0.0;
    }
    let lookup = match u32::try_from(lookup) {
        Ok(lookup) => lookup,
        Err(_) => height % chain.params().difficulty_adjustment_interval() + 1,
    };
    let lookup = lookup.min(height);
    let (mut start, time) = (end, tree.node(end).header.time);
    let (mut earliest, mut latest) = (time, time);
    for _ in 0..lookup {
        start = tree.node(start).parent().expect("not below genesis");
        let time = tree.node(start).header.time;
        (earliest, latest) = (earliest.min(time), latest.max(time));
    }
    if earliest == latest {
        return 0.0;
    }
    let work = tree.chain_work(end) - tree.chain_work(start);
    work.as_f64() / f64::from(latest - earliest)
}

/// Blocks that one question may look back over; more would hold up the chain.
const MAX_LOOKUP: i32 = 100_000;

pub(super) fn network_hashes(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let lookup: i32 = parse::integer(call.arg(0), 120)?;
    let height: i32 = parse::integer(call.arg(1), -1)?;
    let refused = |text: &str| RpcError::new(code::INVALID_PARAMETER, text);
    if lookup < -1 || lookup == 0 {
        return Err(refused("Invalid nblocks. Must be a positive number or -1."));
    }
    let lookup = lookup.min(MAX_LOOKUP);
    let found = call.node.ask(move |node| {
        let chain = node.chain();
        match u32::try_from(height) {
            _ if height == -1 => Some(hashes_per_second(chain, lookup, chain.tip())),
            Ok(height) if height <= chain.tip_point().height => {
                Some(hashes_per_second(chain, lookup, at_height(chain, height)))
            }
            _ => None,
        }
    })?;
    found.map(Json::real).ok_or_else(|| refused("Block does not exist at specified height"))
}

/// The compact target that a block on this one at this time has to meet.
pub(super) fn next_bits(chain: &Chain, tip: NodeId, time: u32) -> u32 {
    let tree = chain.tree();
    let node = tree.node(tip);
    let ancestor = |height| {
        let found = tree.ancestor(tip, height).expect("below the tip");
        tree.node(found).header
    };
    let context = PrevContext {
        height: node.height,
        header: node.header,
        median_time_past: tree.median_time_past(tip),
        ancestor: &ancestor,
    };
    next_work_required(&context, time, chain.params())
}

pub(super) fn mining_info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let seam = call.node.clone();
    let (next, hashes, snapshot) = call.node.ask(move |node| {
        let chain = node.chain();
        let median = chain.tree().median_time_past(chain.tip());
        let time = u32::try_from(node.now().unix).unwrap_or(u32::MAX).max(median + 1);
        let hashes = hashes_per_second(chain, 120, chain.tip());
        // Of the same moment: nothing was connected since it was published.
        (next_bits(chain, chain.tip(), time), hashes, seam.snapshot())
    })?;
    let tip = &snapshot.tip;
    let mut json = Json::object([
        ("blocks", tip.height.into()),
        ("bits", bits(tip.header.bits)),
        ("difficulty", Json::real(difficulty(tip.header.bits))),
        ("target", target(tip.header.bits)),
        ("networkhashps", Json::real(hashes)),
        ("pooledtx", 0.into()),
        ("blockmintxfee", Json::amount(1)),
        ("chain", call.network().name().into()),
        (
            "next",
            Json::object([
                ("height", (tip.height + 1).into()),
                ("bits", bits(next)),
                ("difficulty", Json::real(difficulty(next))),
                ("target", target(next)),
            ]),
        ),
    ]);
    if let Some(challenge) = &call.node.params().signet_challenge {
        json.push("signet_challenge", Json::hex(challenge));
    }
    json.push("warnings", Json::from(snapshot.warnings.clone()));
    Ok(json)
}
