//! Reading arguments.

use data_encoding::HEXLOWER_PERMISSIVE;
use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError, code};

const HASH_DIGITS: usize = 64;

/// A hash in hexadecimal (Core `ParseHashV`); `name` is what the error calls it.
pub(super) fn hash<T: std::str::FromStr>(value: &Json, name: &str) -> Result<T, RpcError> {
    let text = value.as_text()?;
    text.parse().map_err(|_| {
        let problem = match text.len() {
            HASH_DIGITS => format!("{name} must be hexadecimal string (not '{text}')"),
            found => format!("{name} must be of length {HASH_DIGITS} (not {found}, for '{text}')"),
        };
        RpcError::new(code::INVALID_PARAMETER, problem)
    })
}

/// The hash of a block, or nothing where it was left out.
pub(super) fn block_hash(value: &Json) -> Result<Option<BlockHash>, RpcError> {
    if value.is_null() { Ok(None) } else { hash(value, "blockhash").map(Some) }
}

/// Bytes in hexadecimal; `None` where the text is not.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()
}

/// The same for an argument with a name.
pub(super) fn named_hex(value: &Json, name: &str) -> Result<Vec<u8>, RpcError> {
    let text = value.as_text()?;
    hex(text).filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
        let problem = format!("{name} must be hexadecimal string (not '{text}')");
        RpcError::new(code::INVALID_PARAMETER, problem)
    })
}

/// How much to tell; a truth value stands for 1 or 0.
pub(super) fn verbosity(value: &Json, default: i32) -> Result<i32, RpcError> {
    match value {
        Json::Null => Ok(default),
        Json::Bool(yes) => Ok(i32::from(*yes)),
        other => other.as_integer(),
    }
}

/// A truth value, or what stands for one that was left out.
pub(super) fn flag(value: &Json, default: bool) -> Result<bool, RpcError> {
    if value.is_null() { Ok(default) } else { value.as_bool() }
}

/// An integer, or what stands for one that was left out.
pub(super) fn integer<T: TryFrom<i128>>(value: &Json, default: T) -> Result<T, RpcError> {
    if value.is_null() { Ok(default) } else { value.as_integer() }
}
