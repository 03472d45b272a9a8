//! The type of a locking script (Core `Solver`).

use super::opcodes::{
    CHECKMULTISIG, CHECKSIG, DUP, EQUAL, EQUALVERIFY, HASH160, ONE, Op, Ops, RETURN, SIXTEEN,
    number,
};

/// Keys of one multisig script at most.
const MAX_KEYS: i64 = 20;

/// A kind, with what the script commits to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptKind<'a> {
    NonStandard,
    PublicKey(&'a [u8]),
    PublicKeyHash([u8; 20]),
    ScriptHash([u8; 20]),
    Multisig {
        needed: u8,
        keys: Vec<&'a [u8]>,
    },
    NullData,
    /// A witness program, of a known meaning or not.
    Witness {
        version: u8,
        program: &'a [u8],
    },
}

/// The program that anybody can spend to bump a fee.
const ANCHOR: [u8; 2] = [0x4e, 0x73];

impl ScriptKind<'_> {
    /// The name that Core has for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::NonStandard => "nonstandard",
            Self::PublicKey(_) => "pubkey",
            Self::PublicKeyHash(_) => "pubkeyhash",
            Self::ScriptHash(_) => "scripthash",
            Self::Multisig { .. } => "multisig",
            Self::NullData => "nulldata",
            Self::Witness { version: 0, program } if program.len() == 20 => "witness_v0_keyhash",
            Self::Witness { version: 0, .. } => "witness_v0_scripthash",
            Self::Witness { version: 1, program } if program.len() == 32 => "witness_v1_taproot",
            Self::Witness { version: 1, program } if **program == ANCHOR => "anchor",
            Self::Witness { .. } => "witness_unknown",
        }
    }
}

/// Whether nobody can ever spend it.
pub(crate) fn is_unspendable(script: &[u8]) -> bool {
    godwit_primitives::coin::is_unspendable(script)
}

pub(crate) fn kind(script: &[u8]) -> ScriptKind<'_> {
    if let [HASH160, 20, hash @ .., EQUAL] = script
        && let Ok(hash) = hash.try_into()
    {
        return ScriptKind::ScriptHash(hash);
    }
    if let Some((version, program)) = witness_program(script) {
        return match (version, program.len()) {
            (0, 20 | 32) | (1.., _) => ScriptKind::Witness { version, program },
            _ => ScriptKind::NonStandard,
        };
    }
    if let [RETURN, rest @ ..] = script
        && Ops(rest).all(|op| op.is_ok_and(|op| op.code <= SIXTEEN))
    {
        return ScriptKind::NullData;
    }
    if let [length @ (33 | 65), key @ .., CHECKSIG] = script
        && key.len() == usize::from(*length)
        && has_key_size(key)
    {
        return ScriptKind::PublicKey(key);
    }
    if let [DUP, HASH160, 20, hash @ .., EQUALVERIFY, CHECKSIG] = script
        && let Ok(hash) = hash.try_into()
    {
        return ScriptKind::PublicKeyHash(hash);
    }
    multisig(script).unwrap_or(ScriptKind::NonStandard)
}

/// A version and 2 to 40 bytes.
fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    let [version, length, program @ ..] = script else { return None };
    let version = match version {
        0 => 0,
        ONE..=SIXTEEN => version - ONE + 1,
        _ => return None,
    };
    let fits = (2..=40).contains(length) && program.len() == usize::from(*length);
    fits.then_some((version, program))
}

/// Whether the first byte goes with the length.
fn has_key_size(key: &[u8]) -> bool {
    match key.first() {
        Some(2 | 3) => key.len() == 33,
        Some(4 | 6 | 7) => key.len() == 65,
        _ => false,
    }
}

fn multisig(script: &[u8]) -> Option<ScriptKind<'_>> {
    let (&CHECKMULTISIG, script) = script.split_last()? else { return None };
    let ops = Ops(script).collect::<Result<Vec<Op<'_>>, _>>().ok()?;
    let [needed, keys @ .., count] = &ops[..] else { return None };
    let (needed, count) = (small_number(needed)?, small_number(count)?);
    let keys: Vec<&[u8]> = keys.iter().map(|op| op.data).collect();
    let all_keys = keys.iter().all(|key| has_key_size(key));
    let fits = all_keys && keys.len() as i64 == count && needed <= count;
    fits.then_some(ScriptKind::Multisig { needed: needed as u8, keys })
}

/// A number of keys, pushed in the shortest way.
fn small_number(op: &Op<'_>) -> Option<i64> {
    let value = match op.code {
        ONE..=SIXTEEN => i64::from(op.code - ONE + 1),
        1 => {
            let value = number(op.data);
            if value <= 16 {
                return None;
            }
            value
        }
        _ => return None,
    };
    (1..=MAX_KEYS).contains(&value).then_some(value)
}
