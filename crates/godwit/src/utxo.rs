//! `godwit utxo`: statistics, writing and loading snapshots. Results are JSON on standard output.

use std::ops::ControlFlow;
use std::path::Path;

use godwit_chain::{Chain, LoadWatch, MIN_BLOCKS_TO_KEEP, SnapshotError, SnapshotInfo};
use godwit_primitives::ReversedHex;
use godwit_program::print_json;
use indicatif::MultiProgress;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::input_file::check_regular;
use crate::open::open_coins;
use crate::options::{Config, UtxoHash};
use crate::process::StopFlag;

/// `utxo stats`; the names are those of Core's `gettxoutsetinfo`.
pub(crate) fn stats(
    config: &Config,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let Some(mut chain) = open_coins(config, bars, stop)? else { return Ok(Exit::Interrupted) };
    let stats = chain.utxo_stats()?;
    let assumed = chain.assumed().map(|assumed| assumed.base.height);
    chain.close()?;
    Ok(print_json(&json!({
        "height": stats.tip.height,
        "bestblock": stats.tip.hash.to_string(),
        "txouts": stats.totals.txouts,
        "bogosize": stats.totals.bogosize,
        "hash_serialized_3": ReversedHex(&stats.hash_serialized).to_string(),
        "muhash": ReversedHex(&stats.muhash).to_string(),
        "total_amount": bitcoin(stats.totals.total_amount),
        "total_amount_sat": stats.totals.total_amount,
        "assumed_below": assumed,
    }))?)
}

/// `utxo dump`; the names are those of Core's `dumptxoutset`.
pub(crate) fn dump(
    config: &Config,
    file: &Path,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let Some(mut chain) = open_coins(config, bars, stop)? else { return Ok(Exit::Interrupted) };
    let info = chain.dump_snapshot(file)?;
    chain.close()?;
    Ok(print_json(&json!({
        "coins_written": info.coins,
        "base_hash": info.base.hash.to_string(),
        "base_height": info.base.height,
        "path": file.display().to_string(),
        "txoutset_hash": ReversedHex(&info.hash_serialized).to_string(),
        "nchaintx": info.chain_tx_count,
    }))?)
}

/// `utxo load`; the names are those of Core's `loadtxoutset`.
pub(crate) fn load(
    config: &Config,
    file: &Path,
    expected: Option<&UtxoHash>,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    check_regular(file)?;
    let Some(chain) = open_coins(config, bars, stop)? else { return Ok(Exit::Interrupted) };
    let info = load_into(chain, file, expected, &|_| ControlFlow::Continue(()))??;
    Ok(print_json(&json!({
        "coins_loaded": info.coins,
        "tip_hash": info.base.hash.to_string(),
        "base_height": info.base.height,
        "path": file.display().to_string(),
        "txoutset_hash": ReversedHex(&info.hash_serialized).to_string(),
        "assumed": true,
    }))?)
}

/// Loads a snapshot into a chain, and closes it. Where it is refused, or `watch` stops it, all is as it was;
/// what is outside of that result concerns the data directory itself.
pub(crate) fn load_into(
    mut chain: Chain,
    file: &Path,
    expected: Option<&UtxoHash>,
    watch: LoadWatch<'_>,
) -> Result<Result<SnapshotInfo, SnapshotError>, Failure> {
    let info = match chain.load_snapshot(file, expected.map(|hash| hash.0), watch) {
        Ok(info) => info,
        Err(error) => return Ok(Err(error)),
    };
    let best_header = chain.tree().node(chain.tree().best_header()).height;
    chain.close()?;
    let depth = best_header.saturating_sub(info.base.height);
    if depth < MIN_BLOCKS_TO_KEEP {
        log::warn!(
            "The snapshot's block is {depth} below the best header. A reorganisation that replaces it \
             is only made when the history below is validated."
        );
    }
    log::warn!(
        "Coins up to height {} are assumed from {}; they were not validated.",
        info.base.height,
        file.display()
    );
    Ok(Ok(info))
}

/// Satoshi as a JSON number in bitcoin, with eight decimals and never with an exponent.
fn bitcoin(amount: i64) -> Value {
    let text = format!("{}.{:08}", amount / 100_000_000, amount % 100_000_000);
    serde_json::from_str(&text).unwrap_or(Value::Null)
}
