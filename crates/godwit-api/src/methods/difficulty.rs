//! Difficulty and the work of the network.

use std::sync::atomic::Ordering;

use godwit_chain::{Chain, NodeId};
use godwit_consensus::{PrevContext, next_work_required};
use godwit_primitives::Work;
use godwit_primitives::work::expand_target;
use godwit_rpc::{Json, RpcError, code};

use super::{Call, at_height, parse};

/// The multiple of the lowest difficulty (Core `GetDifficulty`).
pub(crate) fn difficulty(bits: u32) -> f64 {
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

/// Blocks over which the hashes are counted, as far back as they were looked at.
#[derive(Clone, Copy)]
struct Span {
    end: NodeId,
    start: NodeId,
    left: u32,
    /// Earliest and latest time.
    times: (u32, u32),
}

impl Span {
    /// Of so many blocks up to `end`; of those since the last change of difficulty if that is negative.
    fn new(chain: &Chain, lookup: i32, end: NodeId) -> Self {
        let node = chain.tree().node(end);
        let since_change = node.height % chain.params().difficulty_adjustment_interval() + 1;
        let left = u32::try_from(lookup).unwrap_or(since_change).min(node.height);
        Self { end, start: end, left, times: (node.header.time, node.header.time) }
    }

    /// Looks at some more.
    fn look_back(&mut self, chain: &Chain, at_most: u32) {
        let steps = self.left.min(at_most);
        for _ in 0..steps {
            self.start = chain.tree().node(self.start).parent().expect("not below genesis");
            let time = chain.tree().node(self.start).header.time;
            self.times = (self.times.0.min(time), self.times.1.max(time));
        }
        self.left -= steps;
    }

    fn hashes_per_second(&self, chain: &Chain) -> f64 {
        let (earliest, latest) = self.times;
        if earliest == latest {
            return 0.0;
        }
        let work = chain.tree().chain_work(self.end) - chain.tree().chain_work(self.start);
        work.as_f64() / f64::from(latest - earliest)
    }
}

/// Hashes a second over the blocks up to `end` (Core `GetNetworkHashPS`).
fn hashes_per_second(chain: &Chain, lookup: i32, end: NodeId) -> f64 {
    let mut span = Span::new(chain, lookup, end);
    span.look_back(chain, u32::MAX);
    span.hashes_per_second(chain)
}

/// Blocks that one question looks back over; more would hold up the chain.
const AT_ONCE: u32 = 2_000;

pub(super) fn network_hashes(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let lookup: i32 = parse::integer(call.arg(0), 120)?;
    let height: i32 = parse::integer(call.arg(1), -1)?;
    let refused = |text: &str| RpcError::new(code::INVALID_PARAMETER, text);
    if lookup < -1 || lookup == 0 {
        return Err(refused("Invalid nblocks. Must be a positive number or -1."));
    }
    let span = call.node.ask(move |node| {
        let chain = node.chain();
        let end = match u32::try_from(height) {
            _ if height == -1 => chain.tip(),
            Ok(height) if height <= chain.tip_point().height => at_height(chain, height),
            _ => return None,
        };
        Some(Span::new(chain, lookup, end))
    })?;
    let mut span = span.ok_or_else(|| refused("Block does not exist at specified height"))?;
    // Whatever becomes of the active chain meanwhile, these blocks and those before them stay the same.
    while span.left > 0 {
        span = call.node.ask(move |node| {
            span.look_back(node.chain(), AT_ONCE);
            span
        })?;
    }
    call.node.ask(move |node| span.hashes_per_second(node.chain())).map(Json::real)
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

/// Weight of a block as it is assembled, without transactions: what Core reserves for the header, the number
/// of transactions and the coinbase. What `generateblock` adds to it counts neither there nor here.
const ASSEMBLED_WEIGHT: u32 = 8_000;

pub(super) fn mining_info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let seam = call.node.clone();
    let (next, hashes, waiting, snapshot) = call.node.ask(move |node| {
        let chain = node.chain();
        let median = chain.tree().median_time_past(chain.tip());
        let time = u32::try_from(node.now().unix).unwrap_or(u32::MAX).max(median + 1);
        let hashes = hashes_per_second(chain, 120, chain.tip());
        let waiting = node.peers().outbox().waiting().count();
        // Of the same moment: nothing was connected since it was published.
        (next_bits(chain, chain.tip(), time), hashes, waiting, seam.snapshot())
    })?;
    let tip = &snapshot.tip;
    let mut json = Json::object([("blocks", tip.height.into())]);
    if call.api.has_assembled.load(Ordering::Relaxed) {
        json.push("currentblockweight", ASSEMBLED_WEIGHT);
        json.push("currentblocktx", 0_u32);
    }
    for (name, value) in [
        ("bits", bits(tip.header.bits)),
        ("difficulty", Json::real(difficulty(tip.header.bits))),
        ("target", target(tip.header.bits)),
        ("networkhashps", Json::real(hashes)),
        ("pooledtx", waiting.into()),
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
    ] {
        json.push(name, value);
    }
    if let Some(challenge) = &call.node.params().signet_challenge {
        json.push("signet_challenge", Json::hex(challenge));
    }
    json.push("warnings", call.warnings(&snapshot));
    Ok(json)
}
