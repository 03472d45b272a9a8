//! `waitforblock`, `waitforblockheight`, `waitfornewblock`, `syncwithvalidationinterfacequeue`.

use std::time::{Duration, Instant};

use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError, code};

use super::{Call, parse};
use crate::seam::Snapshot;

/// When to give up; `None` for never.
fn deadline(value: &Json) -> Result<Option<Instant>, RpcError> {
    let milliseconds: i32 = parse::integer(value, 0)?;
    match u64::try_from(milliseconds) {
        Err(_) => Err(RpcError::new(code::MISC_ERROR, "Negative timeout")),
        Ok(0) => Ok(None),
        Ok(milliseconds) => Ok(Some(Instant::now() + Duration::from_millis(milliseconds))),
    }
}

fn tip_when(
    call: &Call<'_>,
    deadline: Option<Instant>,
    holds: impl FnMut(&Snapshot) -> bool,
) -> Result<Json, RpcError> {
    let _waiting = call.api.begin_wait()?;
    let snapshot = call.node.wait_until(deadline, call.is_gone, holds);
    call.node.check_not_pausing()?;
    Ok(Json::object([
        ("hash", snapshot.tip.hash.to_string().into()),
        ("height", snapshot.tip.height.into()),
    ]))
}

pub(super) fn for_new_block(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let deadline = deadline(call.arg(0))?;
    let before = match call.arg(1) {
        Json::Null => call.node.snapshot().tip.hash,
        named => parse::hash(named, "current_tip")?,
    };
    tip_when(call, deadline, |snapshot| snapshot.tip.hash != before)
}

pub(super) fn for_block(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "blockhash")?;
    let deadline = deadline(call.arg(1))?;
    tip_when(call, deadline, |snapshot| snapshot.tip.hash == hash)
}

pub(super) fn for_height(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let height: i32 = call.arg(0).as_integer()?;
    let deadline = deadline(call.arg(1))?;
    tip_when(call, deadline, |snapshot| i64::from(snapshot.tip.height) >= i64::from(height))
}

/// Nobody here hears of blocks later than the snapshot.
pub(super) fn for_nothing(_: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(Json::Null)
}
