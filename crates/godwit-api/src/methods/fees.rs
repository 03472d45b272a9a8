//! `estimatesmartfee`: what a transaction has to pay.

use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError, code};

use super::coins::check;
use super::{BlockSource, Call, Missing, block_source, cost, stored};
use crate::fee_history::{self, DEPTH, Mode, Price};

/// Blocks for which fees can be asked.
const MAX_TARGET: i32 = 1008;

/// Godwit's name for its way of estimating, which is not Core's.
const ESTIMATOR: &str = "block_history";

pub(super) fn estimate(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let target: i32 = call.arg(0).as_integer()?;
    if !(1..=MAX_TARGET).contains(&target) {
        let text = format!("Invalid conf_target, must be between 1 and {MAX_TARGET}");
        return Err(RpcError::new(code::INVALID_PARAMETER, text));
    }
    let mode = mode(call.arg(1))?;
    // While blocks of long ago come in, nothing is known of the fees of today.
    let prices = match call.node.snapshot().initial_download {
        true => Vec::new(),
        false => recent_prices(call)?,
    };
    let found = fee_history::estimate(&prices, target as usize, mode);
    let mut json = Json::Object(Vec::new());
    match found {
        Some(found) => json.push("feerate", Json::amount(found.rate)),
        None => json.push("errors", vec!["Insufficient data or no feerate found"]),
    }
    json.push("blocks", found.map_or(0, |found| found.target));
    json.push("estimator", ESTIMATOR);
    Ok(json)
}

fn mode(argument: &Json) -> Result<Mode, RpcError> {
    let Json::Text(name) = argument else { return Ok(Mode::Economical) };
    let modes = [
        ("unset", Mode::Economical),
        ("economical", Mode::Economical),
        ("conservative", Mode::Conservative),
    ];
    let found = modes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, mode)| *mode).ok_or_else(|| {
        let names = modes.map(|(name, _)| name).join("\", \"");
        let text = format!("Invalid estimate_mode parameter, must be one of: \"{names}\"");
        RpcError::new(code::INVALID_PARAMETER, text)
    })
}

/// The prices of the last blocks, the newest first, as far as these are stored. The first call after a start
/// waits until all of them are read; from then on each new block is read once.
fn recent_prices(call: &mut Call<'_>) -> Result<Vec<Price>, RpcError> {
    type Source = (BlockHash, Result<BlockSource, Missing>);
    let sources: Vec<Source> = call.node.ask(|node| {
        let chain = node.chain();
        let ids = std::iter::successors(Some(chain.tip()), |id| chain.tree().node(*id).parent());
        let above_genesis = ids.take_while(|id| chain.tree().node(*id).height > 0);
        let source = |id| (chain.tree().node(id).hash, block_source(chain, id));
        above_genesis.take(DEPTH).map(source).collect()
    })?;
    let api = call.api;
    let mut prices = Vec::with_capacity(sources.len());
    let mut waiting = None;
    for (hash, source) in sources {
        let price = match (api.prices.find(&hash), source) {
            (Some(price), _) => price,
            (None, Err(_)) => break,
            (None, Ok(source)) => {
                if waiting.is_none() {
                    waiting = Some(api.begin_wait()?);
                }
                match read_price(call, &source)? {
                    Some(price) => price,
                    None => break,
                }
            }
        };
        prices.push((hash, price));
    }
    if waiting.is_some() {
        api.prices.replace(&prices);
    }
    Ok(prices.into_iter().map(|(_, price)| price).collect())
}

/// The price of a block, if it can be read, and what it spent.
fn read_price(call: &mut Call<'_>, source: &BlockSource) -> Result<Option<Price>, RpcError> {
    check(call)?;
    let before = call.room.bytes();
    call.room.grow(source.size() * cost::DECODED + source.undo_size() * cost::OF_RECORD)?;
    let price = match (call.read(source), stored::undo(source)) {
        (Ok(block), Ok(Some(spent))) => {
            Some(fee_history::price(stored::decoded(block)?.view(), spent.transactions()))
        }
        _ => None,
    };
    call.room.shrink_to(before);
    Ok(price)
}
