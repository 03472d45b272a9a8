//! The rules by which Bitcoin Core's nodes refuse to relay transactions that blocks may contain.
//!
//! The kernel's interface takes only consensus flags, and does not name the rule that a script breaks. So
//! this calls Core's own functions (`policy/policy.cpp`, `script/interpreter.cpp`) through `cpp/policy.cpp`:
//! the refusals and their names are Core's by construction. The name of the rule that a script in a block
//! breaks comes the same way.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint};

use godwit_primitives::ScriptFlags;

use crate::{ENGINE_MEMORY, EnginePermit, ScriptError, SpentOutput};

/// Bytes of a reason, and of its details. The longest ones that Core makes have some 250.
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

    fn godwit_engine_broken_rule(
        bytes: *const c_uchar,
        length: usize,
        spent: *const Spent,
        count: usize,
        input: usize,
        flags: c_uint,
    ) -> *const c_char;
}

fn as_cpp_takes_them(spent: &[SpentOutput<'_>]) -> Vec<Spent> {
    let one = |spent: &SpentOutput<'_>| Spent {
        value: spent.value,
        script: spent.script_pubkey.as_ptr(),
        script_len: spent.script_pubkey.len(),
    };
    spent.iter().map(one).collect()
}

/// Takes memory for the objects that these functions make of a transaction.
fn memory_for(tx_bytes: &[u8], spent: &[SpentOutput<'_>]) -> Option<EnginePermit<'static>> {
    ENGINE_MEMORY.take(tx_bytes, spent.iter().map(|spent| spent.script_pubkey.len()).sum())
}

/// The rule that the script of an input breaks under the flags of a block, in the words that Core puts behind
/// `block-script-verify-flag-failed`. It decides nothing: the engine has already refused the input.
///
/// `None` if the script breaks no rule, the bytes are not a transaction with that input, there is not one
/// output for each input, or memory is short. Waits for [`ENGINE_MEMORY`].
pub fn broken_rule(
    tx_bytes: &[u8],
    spent: &[SpentOutput<'_>],
    input: usize,
    flags: ScriptFlags,
) -> Option<&'static str> {
    // Core's interpreter asserts this.
    if flags.contains(ScriptFlags::WITNESS) && !flags.contains(ScriptFlags::P2SH) {
        return None;
    }
    let _permit = memory_for(tx_bytes, spent);
    let coins = as_cpp_takes_them(spent);
    // SAFETY: all pointers are to memory of the given lengths that lives until the call returns, and the
    // function keeps none of them. It catches its exceptions. It checks `count` against the transaction's
    // inputs, and `input` against `count`.
    let text = unsafe {
        godwit_engine_broken_rule(
            tx_bytes.as_ptr(),
            tx_bytes.len(),
            coins.as_ptr(),
            coins.len(),
            input,
            flags.bits(),
        )
    };
    // SAFETY: a text that is not null ends with a zero byte, and is never changed or freed.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
    text.to_str().ok()
}

/// Why a transaction is not relayed, or which rule of messages it breaks, in Core's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRefusal {
    /// As in `reject-reason`; for messages, only the broken rule.
    pub reason: String,
    /// The details that Core adds; may be empty.
    pub details: String,
}

/// The rules to check, in Core's order.
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
    /// The same rules, and those that refuse what consensus leaves to later rules: reserved NOPs, unknown
    /// witness and leaf versions, opcodes that succeed, keys of an unknown kind.
    MessageUpgradable,
}

/// Checks whether a transaction keeps Core's rules of one stage. `spent` are the outputs that it spends, one
/// for each input, in input order; none for [`PolicyStage::Alone`]. Waits for [`ENGINE_MEMORY`].
///
/// # Errors
///
/// [`ScriptError::Engine`] if the bytes are not a transaction, there is not one output for each input, or a
/// value is negative.
pub fn check_policy(
    stage: PolicyStage,
    tx_bytes: &[u8],
    spent: &[SpentOutput<'_>],
) -> Result<Result<(), PolicyRefusal>, ScriptError> {
    // The value of an existing output is never negative; Core uses -1 for one that does not exist.
    if spent.iter().any(|spent| spent.value < 0) {
        return Err(ScriptError::Engine);
    }
    let _permit = memory_for(tx_bytes, spent);
    let coins = as_cpp_takes_them(spent);
    let (mut reason, mut details) = ([0 as c_char; TEXT_BYTES], [0 as c_char; TEXT_BYTES]);
    // SAFETY: all pointers are to memory of the given lengths that lives until the call returns, and the
    // function keeps none of them. It catches its exceptions. It checks `count` against the transaction's
    // inputs.
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
                // SAFETY: the function ends its text with a zero byte, and the buffer was zero before.
                let text = unsafe { CStr::from_ptr(bytes.as_ptr()) };
                text.to_string_lossy().into_owned()
            };
            Ok(Err(PolicyRefusal { reason: text(&reason), details: text(&details) }))
        }
        _ => Err(ScriptError::Engine),
    }
}

/// These also run under valgrind (`tools/test-seams`), to check the memory that is passed to C++.
#[cfg(test)]
mod tests {
    use godwit_primitives::sha256::sha256;
    use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut, Txid};
    use godwit_stream::{DataStream, Encode};

    use super::*;

    const STAGES: [PolicyStage; 5] = [
        PolicyStage::Alone,
        PolicyStage::Inputs,
        PolicyStage::Scripts,
        PolicyStage::MessageRequired,
        PolicyStage::MessageUpgradable,
    ];

    /// OP_TRUE, as a witness script that needs no other item.
    const TRUE: &[u8] = &[0x51];
    const FALSE: &[u8] = &[0x00];
    /// A reserved NOP, OP_TRUE.
    const RESERVED: &[u8] = &[0xb9, 0x51];

    /// An output that this witness script spends.
    fn locked_by(script: &[u8]) -> Vec<u8> {
        [&[0x00, 0x20][..], &sha256(script)].concat()
    }

    fn input(n: u8, witness: Vec<Vec<u8>>) -> TxIn {
        let prevout = OutPoint { txid: Txid::from_bytes([n; 32]), vout: n.into() };
        TxIn { prevout, script_sig: Vec::new(), sequence: u32::MAX, witness }
    }

    /// A transaction that spends outputs locked by these scripts.
    fn spends(scripts: &[&[u8]]) -> Transaction {
        let inputs = (1..).zip(scripts).map(|(n, script)| input(n, vec![script.to_vec()]));
        let to_key = [&[0x00, 0x14][..], &[7; 20]].concat();
        Transaction {
            version: 2,
            inputs: inputs.collect(),
            outputs: vec![TxOut { value: 10_000, script_pubkey: to_key }],
            lock_time: 0,
        }
    }

    fn bytes_of(tx: &Transaction) -> Vec<u8> {
        let mut bytes: DataStream = DataStream::new();
        tx.encode(&mut bytes);
        bytes.as_slice().to_vec()
    }

    fn asked(
        stage: PolicyStage,
        bytes: &[u8],
        locks: &[Vec<u8>],
    ) -> Result<Result<(), PolicyRefusal>, ScriptError> {
        let spent: Vec<SpentOutput<'_>> =
            locks.iter().map(|lock| SpentOutput { value: 20_000, script_pubkey: lock }).collect();
        check_policy(stage, bytes, if stage == PolicyStage::Alone { &[] } else { &spent })
    }

    /// The reason and the details of the first stage that refuses; `None` if all accept.
    fn refusal(tx: &Transaction, locks: &[Vec<u8>]) -> Option<(PolicyStage, String, String)> {
        let ask = |stage| asked(stage, &bytes_of(tx), locks).expect("a transaction");
        let refused = |stage| ask(stage).err().map(|why| (stage, why.reason, why.details));
        STAGES.into_iter().find_map(refused)
    }

    #[test]
    fn each_stage_refuses_what_is_its_own_in_cores_words() {
        use PolicyStage::{Alone, Inputs, MessageUpgradable, Scripts};
        let locks = [locked_by(TRUE), locked_by(TRUE)];
        let good = spends(&[TRUE, TRUE]);
        assert_eq!(refusal(&good, &locks), None);
        let refused =
            |tx: &Transaction, locks: &[Vec<u8>]| refusal(tx, locks).expect("one stage refuses it");

        let of_version_5 = Transaction { version: 5, ..good.clone() };
        assert_eq!(refused(&of_version_5, &locks), (Alone, "version".into(), String::new()));

        let unknown_kind = [locks[0].clone(), vec![0x51, 0x51]];
        let (stage, reason, details) = refused(&spends(&[TRUE, TRUE]), &unknown_kind);
        assert_eq!((stage, reason.as_str()), (Inputs, "bad-txns-nonstandard-inputs"));
        assert!(details.starts_with("input 1"), "{details}");

        let (stage, reason, details) =
            refused(&spends(&[TRUE, FALSE]), &[locked_by(TRUE), locked_by(FALSE)]);
        assert_eq!(stage, Scripts);
        let rule =
            "Script evaluated without error but finished with a false/empty top stack element";
        assert_eq!(reason, format!("mempool-script-verify-flag-failed ({rule})"));
        let txid = "02".repeat(32);
        assert!(details.starts_with("input 1 of ") && details.ends_with(&format!("{txid}:2")));

        let reserved = [locked_by(RESERVED)];
        let tx = bytes_of(&spends(&[RESERVED]));
        assert_eq!(asked(PolicyStage::MessageRequired, &tx, &reserved), Ok(Ok(())));
        let refused = asked(MessageUpgradable, &tx, &reserved).expect("a transaction");
        let reason = refused.expect_err("the NOP is reserved").reason;
        assert_eq!(reason, "NOPx reserved for soft-fork upgrades");
    }

    /// Core's mempool knows such outputs too, as long as they are not in a block.
    #[test]
    fn an_output_that_nobody_can_spend_is_refused_for_what_its_script_says() {
        let mut tx = spends(&[TRUE]);
        tx.inputs[0].witness.clear();
        let bare = |script: &[u8]| {
            let refused = refusal(&tx, &[script.to_vec()]).expect("one stage refuses it");
            (refused.0, refused.1)
        };
        let rule = "mempool-script-verify-flag-failed (OP_RETURN was encountered)";
        assert_eq!(bare(&[0x6a, 1, 7]), (PolicyStage::Scripts, rule.to_owned()));
        let unknown = "bad-txns-nonstandard-inputs".to_owned();
        assert_eq!(bare(&[0x6a, 0x61]), (PolicyStage::Inputs, unknown.clone()), "no pushes alone");
        assert_eq!(bare(&[0x51; 10_001]), (PolicyStage::Inputs, unknown));
    }

    #[test]
    fn the_rule_is_named_that_the_script_of_an_input_breaks_under_the_flags() {
        let returns = [0x6a];
        let locks = [locked_by(FALSE), locked_by(&returns), locked_by(TRUE), locked_by(TRUE)];
        let bytes = bytes_of(&spends(&[FALSE, &returns, TRUE, FALSE]));
        let spent: Vec<SpentOutput<'_>> =
            locks.iter().map(|lock| SpentOutput { value: 1, script_pubkey: lock }).collect();
        let rule = |input, flags| broken_rule(&bytes, &spent, input, flags);
        let rules: Vec<_> = (0..5).map(|input| rule(input, ScriptFlags::ALL)).collect();
        assert_eq!(
            rules,
            [
                Some(
                    "Script evaluated without error but finished with a false/empty top stack element"
                ),
                Some("OP_RETURN was encountered"),
                None,
                Some("Witness program hash mismatch"),
                // There is no such input.
                None,
            ]
        );
        // Before BIP141 anybody could spend these outputs.
        assert_eq!(rule(1, ScriptFlags::P2SH), None);
        assert_eq!(rule(1, ScriptFlags::WITNESS), None);
        assert_eq!(broken_rule(&bytes, &spent[1..], 1, ScriptFlags::ALL), None);
        assert_eq!(broken_rule(&bytes[1..], &spent, 1, ScriptFlags::ALL), None);
        for end in 0..bytes.len() {
            assert_eq!(broken_rule(&bytes[..end], &spent, 1, ScriptFlags::ALL), None);
        }
        assert_eq!(broken_rule(&[], &[], 0, ScriptFlags::ALL), None);
    }

    #[test]
    fn what_is_no_transaction_or_has_other_inputs_than_coins_is_an_error() {
        let locks = [locked_by(TRUE), locked_by(TRUE)];
        let bytes = bytes_of(&spends(&[TRUE, TRUE]));
        for stage in STAGES {
            for end in 0..bytes.len() {
                assert_eq!(asked(stage, &bytes[..end], &locks), Err(ScriptError::Engine), "{end}");
            }
            let three = [&locks[..], &locks[..1]].concat();
            let others: [&[Vec<u8>]; 3] = [&[], &locks[..1], &three];
            for others in others.into_iter().filter(|_| stage != PolicyStage::Alone) {
                assert_eq!(asked(stage, &bytes, others), Err(ScriptError::Engine));
            }
        }
        let nothing = SpentOutput { value: -1, script_pubkey: &[] };
        assert_eq!(
            check_policy(PolicyStage::Inputs, &bytes, &[nothing, nothing]),
            Err(ScriptError::Engine)
        );
    }

    /// Flips each bit of the bytes, with scripts from empty ones to the longest. Nothing may be read beyond
    /// its end, which valgrind would report, and every text must have an end.
    #[test]
    fn whatever_the_bytes_say_only_they_are_read() {
        let (long, longer) = (vec![0x51; 10_000], vec![0xff; 100_000]);
        let locks = [locked_by(TRUE), Vec::new(), long, longer];
        let bytes = bytes_of(&spends(&[TRUE, TRUE, FALSE, RESERVED]));
        let mut answers = [0; 3];
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // The allocation has exactly that length.
            let changed = changed.into_boxed_slice();
            for stage in STAGES {
                let answer = asked(stage, &changed, &locks);
                if let Ok(Err(refusal)) = &answer {
                    assert!(!refusal.reason.is_empty());
                    assert!(refusal.reason.len().max(refusal.details.len()) < TEXT_BYTES - 1);
                }
                answers[answer.map_or(0, |answer| 1 + usize::from(answer.is_ok()))] += 1;
            }
        }
        assert!(answers.iter().all(|count| *count > 0), "{answers:?}");
    }
}
