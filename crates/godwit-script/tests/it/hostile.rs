//! Arguments that would violate assertions of Core's kernel, and bytes that no honest peer would send. Half
//! of the proof is that the test process lives to the end.

use godwit_primitives::ScriptFlags;
use godwit_script::{PreparedTx, ScriptError, SpentOutput, verify_transaction};
use serde_json::Value;

use crate::asm::{FLAG_NAMES, flag_combinations};
use crate::data::kernel_vectors;
use crate::twin::{Output, prepare, spent_outputs};

/// A transaction of one input with an empty script, and one output of nothing.
const ONE_INPUT: &str = "01000000010000000000000000000000000000000000000000000000000000000000000001\
    0000000000ffffffff0100000000000000000000000000";

fn one_input() -> Vec<u8> {
    hex::decode(ONE_INPUT).expect("hex")
}

fn true_output() -> Output {
    Output { value: 1, script_pubkey: vec![0x51] }
}

#[test]
fn crosses_threads() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<PreparedTx>();
}

#[test]
fn spent_outputs_must_match_the_inputs() {
    for spent in [0, 2, 3, 1000] {
        let outputs = vec![true_output(); spent];
        let error = prepare(&one_input(), &outputs).err();
        assert_eq!(error, Some(ScriptError::SpentOutputCount { inputs: 1, spent }));
    }
    assert!(prepare(&one_input(), &[true_output()]).is_ok());
}

/// Claims one element whatever it yields.
struct Liar<'a>(std::slice::Iter<'a, Output>);

impl<'a> Iterator for Liar<'a> {
    type Item = SpentOutput<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0
            .next()
            .map(|output| SpentOutput { value: output.value, script_pubkey: &output.script_pubkey })
    }
}

impl ExactSizeIterator for Liar<'_> {
    fn len(&self) -> usize {
        1
    }
}

#[test]
fn lying_iterators_are_counted() {
    let taproot = Output { value: 1, script_pubkey: [&[0x51, 0x20][..], &[2; 32]].concat() };
    for spent in [0, 2, 3] {
        let outputs = vec![taproot.clone(); spent];
        let error = PreparedTx::new(&one_input(), Liar(outputs.iter())).err();
        assert_eq!(error, Some(ScriptError::SpentOutputCount { inputs: 1, spent }));
    }
}

#[test]
fn ranges_must_lie_within_the_inputs() {
    let prepared = prepare(&one_input(), &[true_output()]).expect("well-formed");
    let flags = ScriptFlags::ALL;
    for (start, end) in [(0, 0), (0, 1), (1, 1)] {
        assert_eq!(prepared.verify_range(start..end, flags), Ok(()));
    }
    for (start, end) in
        [(0, 2), (1, 2), (1, 0), (2, 2), (0, usize::MAX), (usize::MAX, usize::MAX), (usize::MAX, 0)]
    {
        let error = ScriptError::BadRange { start, end, inputs: 1 };
        assert_eq!(prepared.verify_range(start..end, flags), Err(error));
    }
    for input in [1, 2, 1 << 32, usize::MAX] {
        let error = prepared.verify_input(input, flags);
        assert!(matches!(error, Err(ScriptError::BadRange { .. })), "{error:?}");
    }
}

#[test]
fn witness_needs_p2sh_and_other_flags_need_nothing() {
    let prepared = prepare(&one_input(), &[true_output()]).expect("well-formed");
    for flags in flag_combinations() {
        assert_eq!(prepared.verify(flags), Ok(()));
    }
    for flags in flag_combinations() {
        let flags = flags.without(ScriptFlags::P2SH) | ScriptFlags::WITNESS;
        assert_eq!(prepared.verify(flags), Err(ScriptError::WitnessWithoutP2sh));
        assert_eq!(prepared.verify_range(0..0, flags), Err(ScriptError::WitnessWithoutP2sh));
    }
}

#[test]
fn flag_bits_are_the_kernels() {
    let kernel = [
        bitcoinkernel::VERIFY_P2SH,
        bitcoinkernel::VERIFY_DERSIG,
        bitcoinkernel::VERIFY_NULLDUMMY,
        bitcoinkernel::VERIFY_CHECKLOCKTIMEVERIFY,
        bitcoinkernel::VERIFY_CHECKSEQUENCEVERIFY,
        bitcoinkernel::VERIFY_WITNESS,
        bitcoinkernel::VERIFY_TAPROOT,
    ];
    assert_eq!(FLAG_NAMES.map(|(_, flag)| flag.bits()), kernel);
    assert_eq!(ScriptFlags::ALL.bits(), bitcoinkernel::VERIFY_ALL);
}

#[test]
fn no_transaction_at_all() {
    for bytes in [&[][..], &[0], &[0xff; 9], &[0xff; 10_000], &[0; 9]] {
        let error = verify_transaction(bytes, spent_outputs(&[]), ScriptFlags::ALL);
        assert_eq!(error, Err(ScriptError::MalformedTransaction), "{bytes:?}");
    }
    // Core reads a transaction of no inputs as an extended one with flags 0: nothing follows but
    // the lock time.
    assert_eq!(verify_transaction(&[0; 10], spent_outputs(&[]), ScriptFlags::ALL), Ok(()));
}

#[test]
fn bytes_after_the_transaction_are_ignored() {
    let bytes = [one_input(), vec![0xff; 100]].concat();
    let outputs = [true_output()];
    assert_eq!(verify_transaction(&bytes, spent_outputs(&outputs), ScriptFlags::ALL), Ok(()));
}

#[test]
fn values_out_of_range_are_judged() {
    // A version 0 program that only a signature could satisfy, and one that is true.
    let key_hash = [&[0, 20][..], &[7; 20]].concat();
    for value in [i64::MIN, -1, 0, i64::MAX] {
        let failing = Output { value, script_pubkey: key_hash.clone() };
        let verdict = prepare(&one_input(), &[failing]).expect("well-formed");
        assert_eq!(verdict.verify(ScriptFlags::ALL), Err(ScriptError::Rejected { input: 0 }));
        let passing = Output { value, ..true_output() };
        let verdict = prepare(&one_input(), &[passing]).expect("well-formed");
        assert_eq!(verdict.verify(ScriptFlags::ALL), Ok(()));
    }
}

#[test]
fn scripts_of_any_length_are_judged() {
    for len in [0, 1, 33, 34, 35, 36, 37, 10_000, 10_001, 4_000_000] {
        for byte in [0x00, 0x51, 0x61, 0x6a, 0xac, 0xff] {
            let spent = [Output { value: 1, script_pubkey: vec![byte; len] }];
            let prepared = prepare(&one_input(), &spent).expect("well-formed");
            for flags in [ScriptFlags::NONE, ScriptFlags::ALL] {
                let verdict = prepared.verify(flags);
                // A one leaves true behind; every other of these bytes does not. Core's limits are
                // 10,000 bytes and 1,000 elements.
                let valid = byte == 0x51 && (1..=1_000).contains(&len);
                assert_eq!(verdict.is_ok(), valid, "{len} of {byte:#x}");
            }
        }
    }
}

/// Every prefix and many mutations of real transactions: whatever still parses is judged.
#[test]
fn damaged_transactions_are_refused_or_judged() {
    let rows = kernel_vectors("tx_valid.json");
    let rows = rows.as_array().expect("an array of rows").iter();
    let transactions = rows.filter_map(|row| match (&row[0], &row[1]) {
        (Value::Array(_), Value::String(tx)) => Some(hex::decode(tx).expect("hex")),
        _ => None,
    });
    let mut judged = 0;
    for tx in transactions.filter(|tx| tx.len() < 1000) {
        for len in 0..tx.len() {
            judge_damaged(&tx[..len]);
        }
        for at in 0..tx.len() {
            for byte in [0x00, 0x01, 0x51, 0xfd, 0xff, tx[at] ^ 0x80] {
                let mut damaged = tx.clone();
                damaged[at] = byte;
                judged += usize::from(judge_damaged(&damaged));
            }
        }
    }
    assert!(judged > 10_000, "{judged} damaged transactions were judged");
}

/// Offers as many outputs as the transaction has inputs, a taproot output first; whether there was
/// a transaction.
fn judge_damaged(bytes: &[u8]) -> bool {
    let count = match PreparedTx::new(bytes, spent_outputs(&[])) {
        Ok(_) => 0,
        Err(ScriptError::SpentOutputCount { inputs, .. }) => inputs,
        Err(error) => {
            assert_eq!(error, ScriptError::MalformedTransaction);
            return false;
        }
    };
    let mut spent = vec![true_output(); count];
    if let Some(first) = spent.first_mut() {
        first.script_pubkey = [&[0x51, 0x20][..], &[2; 32]].concat();
    }
    let prepared = prepare(bytes, &spent).expect("one output an input");
    for flags in [ScriptFlags::NONE, ScriptFlags::ALL] {
        if let Err(error) = prepared.verify(flags) {
            assert!(matches!(error, ScriptError::Rejected { .. }), "{error:?}");
        }
    }
    true
}
