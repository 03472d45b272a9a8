//! The cost of claims and of the engine's wrapper beside the checks themselves. Prints times, and asserts
//! none.
//!
//! `cargo test --release -p godwit-script -- --ignored --nocapture cost`

use std::hint::black_box;
use std::time::{Duration, Instant};

use bitcoin::consensus::deserialize;
use bitcoin::hashes::{Hash, hash160};
use bitcoin::{ScriptBuf, Transaction};
use godwit_primitives::ScriptFlags;
use godwit_testdata::shared_file;

use crate::twin::{Naive, Output, prepare};

/// Per input: parsing (a part of preparing), preparing, verifying a script that only pushes, and
/// verifying it with every spent output handed to every call.
#[test]
#[ignore = "prints timings"]
fn cost_of_trivial_inputs() {
    let legacy = |_| Output { value: 1, script_pubkey: push_script(24) };
    let long = |_| Output { value: 1, script_pubkey: push_script(75) };
    for inputs in [1, 2, 10, 100, 1_000, 5_569, 20_000] {
        let tx = transaction(inputs);
        print_cost("25-byte scripts", &tx, &(0..inputs).map(legacy).collect::<Vec<_>>());
        print_cost("76-byte scripts", &tx, &(0..inputs).map(long).collect::<Vec<_>>());
    }
}

/// Native version 1 programs with an empty witness fail before any signature check, so that what is
/// measured is the copy that the engine makes of every spent output.
#[test]
#[ignore = "prints timings"]
fn cost_of_taproot_inputs() {
    let taproot = [[0x51, 0x20].as_slice(), &[7; 32]].concat();
    let taproot = Output { value: 1, script_pubkey: taproot };
    for inputs in [1, 10, 100, 1_700, 20_000] {
        let tx = transaction(inputs);
        let spent = vec![taproot.clone(); inputs];
        let prepared = prepare(&tx, &spent).expect("well-formed");
        let verify = mean(|| prepared.verify_input(inputs / 2, ScriptFlags::ALL).is_err());
        println!("{inputs:6} taproot inputs: {verify:?} an input");
    }
}

/// The largest transaction of the chain's early years. Its spent outputs are not in the shared data,
/// but they paid to the hashes of the keys that its inputs push, and legacy signatures do not commit
/// to values.
#[test]
#[ignore = "prints timings"]
fn cost_of_megatx() {
    let Some(bytes) = shared_file("vectors/tx/megatx_364292.bin.zst") else { return };
    let tx: Transaction = deserialize(&bytes).expect("transaction parses");
    let spent: Vec<Output> =
        tx.input.iter().map(|input| pay_to_pushed_key(&input.script_sig)).collect();
    let start = Instant::now();
    let prepared = prepare(&bytes, &spent).expect("well-formed");
    println!("megatx: prepare {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(prepared.verify(ScriptFlags::ALL), Ok(()));
    println!("megatx: verify {:?}", start.elapsed());
    let naive = Naive::new(&bytes, &spent);
    let start = Instant::now();
    assert!((0..spent.len()).all(|input| naive.accepts(input, ScriptFlags::ALL)));
    println!("megatx: naive verify {:?}", start.elapsed());
}

fn print_cost(name: &str, tx: &[u8], spent: &[Output]) {
    let inputs = u32::try_from(spent.len()).expect("few inputs");
    let parse = mean(|| bitcoinkernel::Transaction::new(tx)) / inputs;
    let preparing = mean(|| prepare(tx, spent)) / inputs;
    let prepared = prepare(tx, spent).expect("well-formed");
    let verify = mean(|| prepared.verify(ScriptFlags::ALL)) / inputs;
    let naive = Naive::new(tx, spent);
    let all_naive = mean(|| (0..spent.len()).all(|input| naive.accepts(input, ScriptFlags::ALL)));
    let naive = all_naive / inputs;
    println!(
        "{inputs:6} {name}: parse {parse:?} prepare {preparing:?} verify {verify:?} naive {naive:?}"
    );
}

/// Mean over at least 200 ms.
fn mean<T>(mut work: impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < Duration::from_millis(200) {
        black_box(work());
        rounds += 1;
    }
    start.elapsed() / rounds
}

/// Inputs without scriptSig and one output, serialised.
fn transaction(inputs: usize) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0, 0xfe];
    bytes.extend(u32::try_from(inputs).expect("few inputs").to_le_bytes());
    if inputs < 0xfd {
        bytes.truncate(4);
        bytes.push(inputs as u8);
    } else if inputs <= 0xffff {
        bytes.truncate(4);
        bytes.push(0xfd);
        bytes.extend((inputs as u16).to_le_bytes());
    }
    for input in 0..inputs {
        bytes.extend([3; 32]);
        bytes.extend((input as u32).to_le_bytes());
        bytes.extend([0, 0xff, 0xff, 0xff, 0xff]);
    }
    bytes.extend([1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([0; 4]);
    bytes
}

/// A script that pushes `len` bytes and so leaves true behind.
fn push_script(len: u8) -> Vec<u8> {
    [vec![len], vec![1; usize::from(len)]].concat()
}

fn pay_to_pushed_key(script_sig: &ScriptBuf) -> Output {
    let pushes = script_sig.instructions().filter_map(Result::ok);
    let key =
        pushes.last().and_then(|push| push.push_bytes().map(|bytes| bytes.as_bytes().to_vec()));
    let hash = hash160::Hash::hash(&key.expect("an input pushes a key")).to_byte_array();
    let script_pubkey = [[0x76, 0xa9, 20].as_slice(), &hash, &[0x88, 0xac]].concat();
    Output { value: 0, script_pubkey }
}
