//! What is asked of a mempool that is not there.

use godwit_primitives::Txid;
use godwit_rpc::{Json, JsonKind, RpcError, code};

use super::{Call, parse};

/// Satoshi per thousand bytes that Core's nodes ask for by default.
const RELAY_FEE: i64 = 100;
/// Core `-maxmempool` in bytes; clients divide by it.
const MAX_BYTES: i64 = 300_000_000;

pub(super) fn info(_: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(Json::object([
        ("loaded", true.into()),
        ("size", 0.into()),
        ("bytes", 0.into()),
        ("usage", 0.into()),
        ("total_fee", Json::amount(0)),
        ("maxmempool", MAX_BYTES.into()),
        ("mempoolminfee", Json::amount(RELAY_FEE)),
        ("minrelaytxfee", Json::amount(RELAY_FEE)),
        ("incrementalrelayfee", Json::amount(RELAY_FEE)),
        ("unbroadcastcount", 0.into()),
        ("permitbaremultisig", true.into()),
        ("maxdatacarriersize", 100_000.into()),
        ("limitclustercount", 64.into()),
        ("limitclustersize", 101_000.into()),
        ("optimal", true.into()),
    ]))
}

pub(super) fn raw(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let verbose = parse::flag(call.arg(0), false)?;
    let sequence = parse::flag(call.arg(1), false)?;
    match (verbose, sequence) {
        (true, true) => Err(RpcError::new(
            code::INVALID_PARAMETER,
            "Verbose results cannot contain mempool sequence values.",
        )),
        (true, false) => Ok(Json::Object(Vec::new())),
        (false, false) => Ok(Json::List(Vec::new())),
        (false, true) => {
            Ok(Json::object([("txids", Json::List(Vec::new())), ("mempool_sequence", 1.into())]))
        }
    }
}

pub(super) fn entry(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let _: Txid = parse::hash(call.arg(0), "txid")?;
    Err(RpcError::new(code::INVALID_ADDRESS_OR_KEY, "Transaction not in mempool"))
}

pub(super) fn spending(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let refused = |text: &str| RpcError::new(code::INVALID_PARAMETER, text);
    let outputs = call.arg(0).as_list()?;
    if outputs.is_empty() {
        return Err(refused("Invalid parameter, outputs are missing"));
    }
    let options = call.arg(1);
    let names = [("mempool_only", JsonKind::Bool), ("return_spending_tx", JsonKind::Bool)];
    if !options.is_null() {
        parse::members(options, &names, false)?;
    }
    for output in outputs {
        parse::members(output, &[("txid", JsonKind::Text), ("vout", JsonKind::Number)], true)?;
        let member = |name: &str| output.get(name).unwrap_or(&Json::Null);
        let _: Txid = parse::hash(member("txid"), "txid")?;
        let vout: i32 = member("vout").as_integer()?;
        if vout < 0 {
            return Err(refused("Invalid parameter, vout cannot be negative"));
        }
    }
    if options.get("mempool_only") == Some(&Json::Bool(false)) {
        let text = "Mempool lacks a relevant spend, and txospenderindex is unavailable.";
        return Err(RpcError::new(code::MISC_ERROR, text));
    }
    // Unspent, as far as anybody here knows.
    Ok(Json::List(outputs.to_vec()))
}

/// Blocks for which fees can be asked.
const MAX_TARGET: i32 = 1008;

/// Fees are learned from a mempool: Core's answer where it has seen nothing.
pub(super) fn estimate(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let refused = |text: String| RpcError::new(code::INVALID_PARAMETER, text);
    let target: i32 = call.arg(0).as_integer()?;
    if !(1..=MAX_TARGET).contains(&target) {
        return Err(refused(format!("Invalid conf_target, must be between 1 and {MAX_TARGET}")));
    }
    let modes = ["unset", "economical", "conservative"];
    if let Json::Text(mode) = call.arg(1)
        && !modes.iter().any(|known| known.eq_ignore_ascii_case(mode))
    {
        return Err(refused(format!(
            "Invalid estimate_mode parameter, must be one of: \"{}\"",
            modes.join("\", \"")
        )));
    }
    Ok(Json::object([
        ("errors", vec!["Insufficient data or no feerate found"].into()),
        ("blocks", 0.into()),
    ]))
}
