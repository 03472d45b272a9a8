//! What Bitcoin Core's nodes refuse to relay although blocks may contain it.
//!
//! The kernel's interface takes none but the flags that are consensus, and names no rule that a script
//! breaks. So this calls Core's own functions (`policy/policy.cpp`, `script/interpreter.cpp`), by way of
//! `cpp/policy.cpp`: what they refuse and what they call it is Core's, by construction.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uchar};

use crate::{ScriptError, SpentOutput};

/// Bytes of a reason, and of its details. The longest that Core makes have some 250.
const TEXT_BYTES: usize = 1024;

const HOLDS: c_int = 0;
const REFUSED: c_int = 1;

#[repr(C)]
struct Spent {
    value: i64,
    script: *const c_uchar,
    script_len: usize,
}

// SAFETY: as `cpp/policy.cpp` defines it.
unsafe extern "C" {
    fn godwit_engine_policy(
        stage: c_int,
        bytes: *const c_uchar,
        length: usize,
        spent: *const Spent,
        count: usize,
        reason: *mut c_char,
        details: *mut c_char,
        room: usize,
    ) -> c_int;
}

/// Why a transaction is not relayed, or what rule of messages it breaks, in Core's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRefusal {
    /// As in `reject-reason`; of messages, the broken rule alone.
    pub reason: String,
    /// What Core adds to it; may be empty.
    pub details: String,
}

/// Which rules are asked for, in Core's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyStage {
    /// Version, size, scripts of inputs and outputs, dust (`IsStandardTx`): needs no coins.
    Alone,
    /// The kinds of the outputs that it spends, and its witnesses (`ValidateInputsStandardness`,
    /// `IsWitnessStandard`).
    Inputs,
    /// The scripts, with all standard flags.
    Scripts,
    /// The scripts, with the flags of BIP322's required rules: consensus, and `LOW_S`, `STRICTENC`,
    /// `NULLFAIL`, `MINIMALDATA`, `CLEANSTACK`, `MINIMALIF` and `CONST_SCRIPTCODE`.
    MessageRequired,
    /// The same, and what consensus leaves to later rules: reserved NOPs, unknown witness and leaf versions,
    /// opcodes that succeed, keys of an unknown kind.
    MessageUpgradable,
}

/// Whether Core's rules of one stage hold for a transaction. `spent` are the outputs that it spends, one for
/// each input, in input order; none for [`PolicyStage::Alone`].
///
/// # Errors
///
/// [`ScriptError::SpentOutputCount`], and [`ScriptError::Engine`] where the bytes are no transaction.
pub fn check_policy(
    stage: PolicyStage,
    tx_bytes: &[u8],
    spent: &[SpentOutput<'_>],
) -> Result<Result<(), PolicyRefusal>, ScriptError> {
    // Of an output that exists the value is never negative; Core takes -1 for one that does not.
    if spent.iter().any(|spent| spent.value < 0) {
        return Err(ScriptError::Engine);
    }
    let coins: Vec<Spent> = spent
        .iter()
        .map(|spent| Spent {
            value: spent.value,
            script: spent.script_pubkey.as_ptr(),
            script_len: spent.script_pubkey.len(),
        })
        .collect();
    let (mut reason, mut details) = ([0 as c_char; TEXT_BYTES], [0 as c_char; TEXT_BYTES]);
    // SAFETY: all pointers are to memory of the given lengths that lives until the call returns, and the
    // function keeps none. It catches its exceptions. It compares `count` with the transaction's inputs.
    let answer = unsafe {
        godwit_engine_policy(
            match stage {
                PolicyStage::Alone => 0,
                PolicyStage::Inputs => 1,
                PolicyStage::Scripts => 2,
                PolicyStage::MessageRequired => 3,
                PolicyStage::MessageUpgradable => 4,
            },
            tx_bytes.as_ptr(),
            tx_bytes.len(),
            coins.as_ptr(),
            coins.len(),
            reason.as_mut_ptr(),
            details.as_mut_ptr(),
            TEXT_BYTES,
        )
    };
    match answer {
        HOLDS => Ok(Ok(())),
        REFUSED => {
            let text = |bytes: &[c_char; TEXT_BYTES]| {
                // SAFETY: the function ends what it writes with a zero, and it was zero before.
                let text = unsafe { CStr::from_ptr(bytes.as_ptr()) };
                text.to_string_lossy().into_owned()
            };
            Ok(Err(PolicyRefusal { reason: text(&reason), details: text(&details) }))
        }
        _ => Err(ScriptError::Engine),
    }
}
