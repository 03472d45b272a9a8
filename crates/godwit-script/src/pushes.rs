//! Scripts that only push, and numbers in scripts.

use crate::forms::MAX_KEYS;

/// Longest element of a stack (Core's `MAX_SCRIPT_ELEMENT_SIZE`).
pub(crate) const MAX_ELEMENT_SIZE: usize = 520;
/// Longest script before tapscript (Core's `MAX_SCRIPT_SIZE`).
pub(crate) const MAX_SCRIPT_SIZE: usize = 10_000;
/// Most elements that a form takes: for OP_CHECKMULTISIG behind a hash, the element too many, the signatures
/// and the script.
pub(crate) const MAX_ELEMENTS: usize = MAX_KEYS + 2;

const OP_PUSHDATA1: u8 = 0x4c;
const OP_PUSHDATA2: u8 = 0x4d;
const OP_PUSHDATA4: u8 = 0x4e;

/// Takes a push from the front of `script` (Core's `GetScriptOp`): the data of opcodes 0x00 to 0x4e. `None`
/// for any other opcode, including those that push a number, and if the data is cut short.
pub(crate) fn take_push<'a>(script: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&opcode, rest) = script.split_first()?;
    let (len, rest) = match opcode {
        0..OP_PUSHDATA1 => (usize::from(opcode), rest),
        OP_PUSHDATA1 => {
            let (len, rest) = rest.split_first()?;
            (usize::from(*len), rest)
        }
        OP_PUSHDATA2 => {
            let (len, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        OP_PUSHDATA4 => {
            let (len, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        _ => return None,
    };
    let (data, rest) = rest.split_at_checked(len)?;
    *script = rest;
    Some(data)
}

/// The stack that a scriptSig leaves, bottom first; `None` unless the scriptSig runs and only pushes, or if
/// it pushes more than [`MAX_ELEMENTS`].
pub(crate) fn elements(script_sig: &[u8]) -> Option<Vec<&[u8]>> {
    // EvalScript: SCRIPT_ERR_SCRIPT_SIZE.
    if script_sig.len() > MAX_SCRIPT_SIZE {
        return None;
    }
    let mut elements = Vec::with_capacity(4);
    let mut rest = script_sig;
    while !rest.is_empty() {
        // Only bounds work: forms take exact numbers of elements.
        if elements.len() == MAX_ELEMENTS {
            return None;
        }
        let element = take_push(&mut rest)?;
        // EvalScript: SCRIPT_ERR_PUSH_SIZE.
        if element.len() > MAX_ELEMENT_SIZE {
            return None;
        }
        elements.push(element);
    }
    Some(elements)
}

/// Whether an element counts as true (Core's `CastToBool`): neither zero nor negative zero.
pub(crate) fn is_true(element: &[u8]) -> bool {
    match element {
        [] => false,
        [low @ .., top] => low.iter().any(|byte| *byte != 0) || !matches!(top, 0 | 0x80),
    }
}

/// Whether Core's `FindAndDelete` might remove `signature`'s push from the script: whether the bytes occur
/// anywhere. Core looks only where an opcode begins; if this answers yes, the engine is asked.
pub(crate) fn may_contain(script: &[u8], signature: &[u8]) -> bool {
    !signature.is_empty() && script.windows(signature.len()).any(|window| window == signature)
}
