//! What is asked of a mempool and of indexes that are not there.

use godwit_primitives::Txid;
use godwit_rpc::{Json, RpcError, code};

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
    let mut answers = Vec::with_capacity(outputs.len());
    for output in outputs {
        let txid: Txid = parse::hash(output.get("txid").unwrap_or(&Json::Null), "txid")?;
        let vout: i32 = output.get("vout").unwrap_or(&Json::Null).as_integer()?;
        if vout < 0 {
            return Err(refused("Invalid parameter, vout cannot be negative"));
        }
        answers.push(Json::object([("txid", txid.to_string().into()), ("vout", vout.into())]));
    }
    Ok(Json::List(answers))
}

pub(super) fn index_info(_: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(Json::Object(Vec::new()))
}
