//! What a transaction has to pay.

use godwit_rpc::{Json, RpcError, code};

use super::Call;

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
