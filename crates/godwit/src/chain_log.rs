//! Log lines about the chain that an import and the node share.

use std::time::Duration;

use godwit_chain::{Chain, ChainStatus, ScriptTotals};
use godwit_primitives::BlockHash;
use godwit_store::ChainPoint;

use crate::log_format::UpdateTip;
use crate::process::peak_memory;

const MIB: f64 = 1_048_576.0;
/// Bytes of connected blocks from which on a rate is told.
const LEAST_BYTES: u64 = 1_000_000;

/// Core's line for a new best block. `now` is in seconds since 1970.
pub(crate) fn update_tip(chain: &Chain, hash: BlockHash, now: i64) -> UpdateTip {
    let id = chain.tree().find(&hash).expect("a connected block is in the tree");
    let node = chain.tree().node(id);
    UpdateTip {
        hash,
        height: node.height,
        version: node.header.version,
        log2_work: chain.tree().chain_work(id).as_f64().log2(),
        tx_count: node.chain_tx_count,
        time: node.header.time,
        progress: chain.verification_progress(id, now),
        cache_bytes: chain.utxo().memory_used().total() as u64,
        cache_coins: chain.utxo().active_entries().0 as u64,
    }
}

/// `left` is the block that was disconnected.
pub(crate) fn log_disconnected(chain: &Chain, left: &ChainPoint) {
    let tree = chain.tree();
    let parent = tree.find(&left.hash).and_then(|id| tree.node(id).parent());
    let tip = tree.node(parent.unwrap_or_else(|| tree.genesis()));
    log::info!(
        "Disconnected block {} at {}; the tip is {} at {}.",
        left.hash,
        left.height,
        tip.hash,
        tip.height
    );
}

/// The cost of a run, for its report.
pub(crate) fn cost_lines(status: &ChainStatus, closing: Duration) -> Vec<String> {
    let ChainStatus { times, scripts, .. } = status;
    let mut lines = vec![
        format!(
            "Connector: accept {:.1} s, apply {:.1} s, flush {:.1} s, waiting {:.1} s, closing {:.1} s.",
            times.accept.as_secs_f64(),
            times.apply.as_secs_f64(),
            times.flush.as_secs_f64(),
            times.wait.as_secs_f64(),
            closing.as_secs_f64()
        ),
        format!("Blocks and undo records written in {:.1} s.", times.append.as_secs_f64()),
        format!("BIP30 probes: {:.2} s.", times.bip30.as_secs_f64()),
    ];
    lines.extend(serial_line(status));
    lines.extend(script_lines(scripts));
    lines.extend(peak_memory().map(|peak| format!("Peak memory {:.1} MiB.", peak as f64 / MIB)));
    lines
}

/// The stages of the connector for each gigabyte: what no further processor makes shorter. Of a few blocks
/// it says nothing.
fn serial_line(status: &ChainStatus) -> Option<String> {
    let ChainStatus { times, connected, .. } = status;
    let each = |time: Duration| time.as_secs_f64() * 1e9 / connected.bytes as f64;
    (connected.bytes >= LEAST_BYTES).then(|| {
        format!(
            "Serial seconds for each GB of blocks: accept {:.2}, apply {:.2}, flush {:.2}.",
            each(times.accept),
            each(times.apply),
            each(times.flush)
        )
    })
}

/// How scripts were verified, if any were.
fn script_lines(totals: &ScriptTotals) -> Vec<String> {
    let ScriptTotals { inputs, checks, native_time, engine_time } = totals;
    let all = inputs.proven + inputs.unclaimed + inputs.unproven;
    if all == 0 {
        return Vec::new();
    }
    let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    let time = (*native_time + *engine_time).as_secs_f64();
    let all_checks = checks.in_lanes + checks.single + checks.refused;
    vec![
        format!(
            "Scripts: {all} inputs, {:.2} % proven by signatures, {} of other forms, {} not proven; {} of the \
             proven cross-checked.",
            percent(inputs.proven as f64, all as f64),
            inputs.unclaimed,
            inputs.unproven,
            inputs.crosschecked
        ),
        format!(
            "Signatures: {} checks, {:.2} % of them proven in lanes, {:.1} % of which proved one; {time:.1} s of \
             script threads, {:.1} % of them in Bitcoin Core's engine.",
            all_checks,
            percent(checks.in_lanes as f64, all_checks as f64),
            percent(checks.in_lanes as f64, checks.lanes as f64),
            percent(engine_time.as_secs_f64(), time)
        ),
    ]
}
