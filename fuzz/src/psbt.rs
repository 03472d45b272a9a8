//! PSBTs: what was read is written so that the same is read again, joined with itself it stays itself,
//! and nothing that is done with it invents signatures.

use bitcoin::hashes::Hash;
use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, absolute,
    transaction,
};
use godwit_keys::psbt::{Found, InputState, Psbt, Review, SignPolicy, text};

use crate::memory::within;

/// Bytes that reading holds for each byte: maps of pairs, in both versions, and the fields; a pair takes
/// three bytes at least.
const FACTOR: usize = 400;

/// What rust-bitcoin reserves at most for a list of a length that it has not checked is 1 MB each.
const UNCHECKED: usize = 4 << 20;

/// The content of a file.
pub(crate) fn check(data: &[u8]) {
    let allowed = UNCHECKED + FACTOR * data.len();
    let Ok(psbt) = within(allowed, || text::read(data)) else { return };
    let bytes = psbt.encode();
    assert_eq!(&decoded(&bytes), &psbt);
    assert_eq!(text::read(text::write(&psbt).as_bytes()).as_ref().ok(), Some(&psbt));
    if data.starts_with(b"psbt") {
        assert_eq!(bytes.len(), data.len(), "the same pairs, in whatever order");
    }
    let version = psbt.version();
    assert!(matches!(version, 0 | 2));
    if version == 0 {
        bitcoin::Psbt::deserialize(&bytes).expect("as rust-bitcoin reads it");
    }
    check_joined(&psbt);
    check_review(&psbt);
    check_finished(psbt);
}

fn decoded(bytes: &[u8]) -> Psbt {
    Psbt::decode(bytes).expect("it was just written")
}

fn check_joined(psbt: &Psbt) {
    let Ok(joined) = Psbt::combine(&[psbt.clone(), psbt.clone()]) else { return };
    assert_eq!(joined.unsigned_transaction(), psbt.unsigned_transaction());
    let again = Psbt::combine(&[joined.clone(), joined.clone(), joined.clone()]);
    assert_eq!(again.as_ref().ok(), Some(&joined));
    assert_eq!(decoded(&joined.encode()), joined);
}

/// As somebody sees it who has no keys.
fn reviewed(psbt: &Psbt) -> Review {
    psbt.review(&mut |_, _| Ok(false)).expect("nobody's keys are asked for")
}

fn check_review(psbt: &Psbt) {
    let transaction = psbt.unsigned_transaction();
    let review = reviewed(psbt);
    assert_eq!(review.inputs.len(), transaction.input.len());
    assert_eq!(review.outputs.len(), transaction.output.len());
    assert!(review.inputs.iter().all(|input| input.is_foreign()));
    if let Ok(fee) = &review.fee {
        let paid: u64 = transaction.output.iter().map(|output| output.value.to_sat()).sum();
        let outputs = review.inputs.iter().filter_map(|input| input.output.as_ref());
        let taken: u64 = outputs.map(|output| output.value.to_sat()).sum();
        assert_eq!(fee.amount, Amount::from_sat(taken - paid));
    }
    // Nothing is signed for somebody who has no keys.
    let mut signed = psbt.clone();
    let policy = SignPolicy { any_sighash: true, foreign_inputs: true, ..SignPolicy::default() };
    assert!(signed.sign(&mut |_, _| Ok(Found::NotOurs), &policy).is_err());
    assert_eq!(&signed, psbt);
}

fn check_finished(psbt: Psbt) {
    let states = reviewed(&psbt).inputs.into_iter().map(|input| input.state);
    let states: Vec<InputState> = states.collect();
    let mut finished = psbt.clone();
    finished.finalize();
    assert_eq!(finished.unsigned_transaction(), psbt.unsigned_transaction());
    assert_eq!(decoded(&finished.encode()), finished);
    let all_ended = !states.contains(&InputState::Unfinished);
    assert_eq!(finished.is_finished(), all_ended);
    match finished.extract() {
        Ok(transaction) => {
            assert!(all_ended);
            assert_eq!(transaction.input.len(), states.len());
            let unsigned = finished.unsigned_transaction();
            assert_eq!(transaction.output, unsigned.output);
        }
        Err(_) => assert!(!all_ended || states.is_empty()),
    }
    if let Ok(outputs) = finished.spent_outputs() {
        assert_eq!(outputs.len(), states.len());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let spend = |inputs: u32| Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: (0..inputs)
            .map(|vout| TxIn {
                previous_output: OutPoint { txid: Txid::all_zeros(), vout },
                script_sig: ScriptBuf::new(),
                sequence: Sequence::ZERO,
                witness: Witness::new(),
            })
            .collect(),
        output: vec![TxOut { value: Amount::from_sat(9_000), script_pubkey: ScriptBuf::new() }],
    };
    let mut seeds = Vec::new();
    for inputs in [1, 3] {
        let mut psbt = bitcoin::Psbt::from_unsigned_tx(spend(inputs)).expect("it is unsigned");
        for input in &mut psbt.inputs {
            let script_pubkey = ScriptBuf::from_bytes([&[0, 20][..], &[7; 20]].concat());
            input.witness_utxo = Some(TxOut { value: Amount::from_sat(10_000), script_pubkey });
        }
        seeds.push(psbt.serialize());
        seeds.push(text::write(&decoded(&psbt.serialize())).into_bytes());
    }
    // BIP370, made of the least that it asks for.
    let version2 = [
        &b"psbt\xff"[..],
        &[1, 2, 4, 2, 0, 0, 0, 1, 4, 1, 1, 1, 5, 1, 1, 1, 0xfb, 4, 2, 0, 0, 0, 0],
        &[1, 0x0e, 32],
        &[9; 32],
        &[1, 0x0f, 4, 0, 0, 0, 0, 0],
        &[1, 3, 8, 40, 35, 0, 0, 0, 0, 0, 0, 1, 4, 1, 0x51, 0],
    ];
    seeds.push(version2.concat());
    seeds.extend(base64_of("wallets/wallets.json"));
    seeds.extend(base64_of("vectors/core_functional/rpc_psbt.json"));
    seeds
}

/// The PSBTs in a file of the shared data, in both forms.
fn base64_of(path: &str) -> Vec<Vec<u8>> {
    let Some(content) = godwit_testdata::shared_file(path) else { return Vec::new() };
    let content = String::from_utf8(content).expect("JSON");
    let texts = content.split('"').filter(|text| text.starts_with("cHNidP"));
    let binary = |text: &str| text::read(text.as_bytes()).map(|psbt| psbt.encode());
    let seeds = texts.map(|text| binary(text).unwrap_or_else(|_| text.as_bytes().to_vec()));
    let seeds: Vec<Vec<u8>> = seeds.collect();
    assert!(!seeds.is_empty(), "{path} has no PSBT");
    seeds
}
