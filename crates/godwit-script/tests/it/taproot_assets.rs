//! The cases of Core's feature_taproot.py, read as src/test/script_assets_tests.cpp reads them.

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::{Transaction, TxOut, Witness};
use godwit_testdata::shared_file;
use serde_json::Value;

use crate::asm::{flag_combinations, parse_flags};
use crate::native::print_tally;
use crate::twin::{Output, Pair};

#[test]
fn every_success_and_every_failure() {
    let file = "vectors/taproot/script_assets_test_btcd.json.zst";
    let Some(cases) = shared_file(file) else { return };
    let cases: Value = serde_json::from_slice(&cases).expect("the file is JSON");
    let cases = cases.as_array().expect("an array of cases");
    let mut successes = 0;
    let mut failures = 0;
    for case in cases {
        successes += usize::from(judge_success(case));
        failures += usize::from(judge_failure(case));
    }
    print_tally("taproot assets");
    println!("taproot assets: {successes} successes, {failures} failures");
    assert_eq!((cases.len(), successes, failures), (2760, 2760, 2483));
}

/// A success holds for every subset of its flags, a final one for every combination.
fn judge_success(case: &Value) -> bool {
    let Some((pair, input)) = spend(case, "success") else { return false };
    let flags = case_flags(case);
    let fin = case["final"].as_bool().unwrap_or(false);
    for chosen in flag_combinations() {
        if fin || flags.contains(chosen) {
            assert!(pair.accepts(input, chosen), "{chosen:?} {}", case["comment"]);
        }
    }
    true
}

/// A failure fails for every superset of its flags.
fn judge_failure(case: &Value) -> bool {
    let Some((pair, input)) = spend(case, "failure") else { return false };
    let flags = case_flags(case);
    for chosen in flag_combinations().into_iter().filter(|chosen| chosen.contains(flags)) {
        assert!(!pair.accepts(input, chosen), "{chosen:?} {}", case["comment"]);
    }
    true
}

fn case_flags(case: &Value) -> godwit_primitives::ScriptFlags {
    let flags = case["flags"].as_str().expect("flags are a string");
    parse_flags(flags).expect("flags are consensus flags")
}

/// The transaction with the script and witness of `outcome` in the case's input.
fn spend(case: &Value, outcome: &str) -> Option<(Pair, usize)> {
    let outcome = case.get(outcome)?;
    let mut tx: Transaction = deserialize(&bytes(&case["tx"])).expect("transaction parses");
    let input = case["index"].as_u64().expect("an index is a number") as usize;
    let witness: Vec<Vec<u8>> = array(&outcome["witness"]).iter().map(bytes).collect();
    tx.input[input].script_sig = bytes(&outcome["scriptSig"]).into();
    tx.input[input].witness = Witness::from_slice(&witness);
    let spent: Vec<Output> = array(&case["prevouts"])
        .iter()
        .map(|output| {
            let output: TxOut = deserialize(&bytes(output)).expect("output parses");
            let value = output.value.to_sat().try_into().expect("a value fits");
            Output { value, script_pubkey: output.script_pubkey.into_bytes() }
        })
        .collect();
    Some((Pair::new(&serialize(&tx), &spent), input))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().expect("a string")).expect("hex")
}
