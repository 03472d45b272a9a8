//! Hashes, hex, ranges, verbosities and flags in arguments, refused in Core's words.

use data_encoding::HEXLOWER_PERMISSIVE;
use godwit_primitives::BlockHash;
use godwit_rpc::{Json, JsonKind, RpcError, code};

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

/// Checks that the value is an object of these members and no others (Core `RPCTypeCheckObj`); `needed` is
/// whether none of them may be left out.
pub(super) fn members(
    value: &Json,
    names: &[(&str, JsonKind)],
    needed: bool,
) -> Result<(), RpcError> {
    let wrong = |text: String| Err(RpcError::new(code::TYPE_ERROR, text));
    let found = value.as_object()?;
    for (name, kind) in names {
        match value.get(name).unwrap_or(&Json::Null) {
            Json::Null if needed => return wrong(format!("Missing {name}")),
            Json::Null => {}
            value if value.kind() == *kind => {}
            value => {
                return wrong(format!(
                    "JSON value of type {} for field {name} is not of expected type {}",
                    value.kind().name(),
                    kind.name()
                ));
            }
        }
    }
    match found.iter().find(|(name, _)| names.iter().all(|(known, _)| name != known)) {
        Some((name, _)) => wrong(format!("Unexpected key {name}")),
        None => Ok(()),
    }
}

/// Numbers of a descriptor at once, at most.
const MAX_RANGE: i64 = 1_000_000;

/// Numbers of a descriptor: the last one, or the first and the last (Core `ParseDescriptorRange`).
pub(super) fn range(value: &Json) -> Result<std::ops::RangeInclusive<u32>, RpcError> {
    let refused = |text: &str| Err(RpcError::new(code::INVALID_PARAMETER, text));
    let (first, last): (i64, i64) = match value {
        Json::Number(_) => (0, value.as_integer()?),
        Json::List(items) if matches!(&items[..], [Json::Number(_), Json::Number(_)]) => {
            (items[0].as_integer()?, items[1].as_integer()?)
        }
        _ => return refused("Range must be specified as end or as [begin,end]"),
    };
    if first > last && matches!(value, Json::List(_)) {
        return refused("Range specified as [begin,end] must not have begin after end");
    }
    if first < 0 {
        return refused("Range should be greater or equal than 0");
    }
    if last >> 31 != 0 {
        return refused("End of range is too high");
    }
    if last >= first + MAX_RANGE {
        return refused("Range is too large");
    }
    Ok(first as u32..=last as u32)
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
