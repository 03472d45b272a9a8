//! What takes long is done once, counted instead of timed.

use bitcoin::hashes::Hash;
use bitcoin::psbt::Input;
use bitcoin::{
    EcdsaSighashType, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness,
    absolute, transaction,
};

use super::coins::{received, sign, spend};
use super::*;
use crate::psbt::limits::{MAX_INPUTS, MAX_LEGACY_HASHING};
use crate::psbt::sighash::Digests;
use crate::psbt::spent::{InputObjection, SpendKind, Spent};
use crate::psbt::work::counted;

/// Two legacy coins and a newer one, of two signers.
const KINDS: [&str; 3] = ["sh(multi(2,A/1,F/0,B/1))", "pkh(A/0)", "wsh(multi(2,A/3,B/3,F/3))"];

#[test]
fn previous_transactions_are_hashed_when_a_psbt_is_read() {
    let unsigned = spend(&KINDS);
    let bytes = unsigned.serialize();
    let (read, work) = counted(|| Psbt::decode(&bytes));
    assert_eq!(work.txids, KINDS.len());
    let read = read.expect("it is valid");
    let mut copies = [read.clone(), read.clone(), read];
    for (copy, letters) in copies.iter_mut().zip(["A", "B"]) {
        let policy = SignPolicy { foreign_inputs: true, ..SignPolicy::default() };
        let (signed, work) = counted(|| sign(copy, letters, &policy));
        signed.expect("it is ours");
        assert_eq!(work.txids, 0, "{letters}");
    }
    let (combined, work) = counted(|| Psbt::combine(&copies));
    assert_eq!(work.txids, 0);
    let mut combined = combined.expect("of one transaction");
    let (_, work) = counted(|| review(&combined));
    assert_eq!((work.txids, work.legacy_hashes), (0, 2), "one hash for each legacy input");
    let (results, work) = counted(|| combined.finalize());
    assert!(combined.is_finished(), "{results:?}");
    assert_eq!(work.txids, 0);
    // It need not be the first copy that has it.
    let mut silent = unsigned;
    silent.inputs[2].non_witness_utxo = None;
    let copies = [received(&silent), copies[0].clone()];
    let (joined, work) = counted(|| Psbt::combine(&copies));
    joined.expect("of one transaction");
    assert_eq!(work.txids, 0);
}

/// `miniscript` hashes, for each input, the keys of all: it is shown those of the input alone, and finishes
/// scripts that have hashes of keys, one of them that of a key without a signature, as before.
#[test]
fn the_finalizer_sees_the_keys_of_the_input_that_it_finishes() {
    let kinds = [
        "wsh(pkh(A/0))",
        "sh(wsh(or_i(pkh(F/0),pkh(A/1))))",
        "wsh(or_d(pkh(F/2),pkh(A/2)))",
        "tr(F/0,pkh(A/3))",
        "tr(F/1,or_d(pkh(F/4),pkh(A/4)))",
        "wpkh(A/5)",
        "wsh(multi(2,A/6,B/6,F/6))",
    ];
    let mut psbt = received(&spend(&kinds));
    let named = |input: &Input| input.bip32_derivation.len() + input.tap_key_origins.len();
    let named: usize = psbt.inputs().iter().map(named).sum();
    let (_, work) = counted(|| psbt.clone().finalize());
    assert_eq!(work.keys, named, "once each, where nothing is signed");
    sign(&mut psbt, "AB", &SignPolicy::default()).expect("it is ours");
    let (results, work) = counted(|| psbt.finalize());
    assert!(psbt.is_finished(), "{results:?}");
    assert_eq!(work.keys, named, "once each");
    verify(&psbt);
}

/// Whoever combined the copies may have left the paths of keys out.
#[test]
fn a_signature_tells_whose_hash_a_script_has() {
    let mut psbt = received(&spend(&["wsh(pkh(A/0))", "sh(wsh(pkh(A/1)))", "wpkh(A/5)"]));
    sign(&mut psbt, "A", &SignPolicy::default()).expect("it is ours");
    let mut stripped = bitcoin::Psbt::deserialize(&psbt.encode()).expect("it is valid");
    stripped.inputs.iter_mut().for_each(|input| input.bip32_derivation.clear());
    let mut psbt = received(&stripped);
    let results = psbt.finalize();
    assert!(psbt.is_finished(), "{results:?}");
    verify(&psbt);
}

/// A transaction with this many inputs.
fn with_inputs(count: usize) -> Transaction {
    let input = |vout| TxIn {
        previous_output: OutPoint { txid: Txid::all_zeros(), vout },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let output = TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::new() };
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: (0..count as u32).map(input).collect(),
        output: vec![output],
    }
}

#[test]
fn what_is_hashed_for_legacy_signatures_has_a_limit() {
    let script = super::coins::public_descriptor("pkh(A/0)").script_pubkey();
    let output = TxOut { value: Amount::ONE_SAT, script_pubkey: script.clone() };
    let spent = Spent { output, proven: true, kind: SpendKind::Pkh, script };
    let hashed = |count: usize| {
        let transaction = with_inputs(count);
        let mut digests = Digests::new(&transaction, vec![None; count]);
        let mut all = || {
            (0..count)
                .map(|index| digests.ecdsa(index, &spent, EcdsaSighashType::All))
                .find_map(Result::err)
        };
        let (refused, work) = counted(&mut all);
        // Those that are known are not hashed again.
        let (_, again) = counted(|| digests.ecdsa(0, &spent, EcdsaSighashType::All));
        assert_eq!(again.legacy_hashes, 0);
        assert!(work.legacy_hashes * transaction.base_size() <= MAX_LEGACY_HASHING);
        refused
    };
    // The largest that is relayed, and more.
    assert_eq!(hashed(2_000), None);
    // The largest that fits into a block.
    assert_eq!(hashed(MAX_INPUTS - 1), Some(InputObjection::TooMuchToHash));
}
