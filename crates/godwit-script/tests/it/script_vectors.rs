//! Core's script_tests.json, read as src/test/script_tests.cpp reads it.

use std::collections::BTreeMap;

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::key::{Secp256k1, UntweakedPublicKey};
use bitcoin::taproot::{LeafVersion, TaprootBuilder};
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, XOnlyPublicKey,
};
use godwit_primitives::ScriptFlags;
use serde_json::Value;

use crate::asm::{flag_combinations, parse_flags, parse_script};
use crate::data::{kernel_vectors, shared_vectors};
use crate::native::print_tally;
use crate::twin::{Output, Pair};

struct Row {
    witness: Vec<Vec<u8>>,
    value: i64,
    script_sig: Vec<u8>,
    script_pubkey: Vec<u8>,
    flags: ScriptFlags,
    valid: bool,
}

#[test]
fn rows_of_the_linked_kernel() {
    assert_eq!(judge_rows(&kernel_vectors("script_tests.json")), 240);
}

#[test]
fn rows_of_the_shared_data() {
    let Some(rows) = shared_vectors("script_tests.json") else { return };
    assert_eq!(judge_rows(&rows), 248);
}

/// Judges the rows whose flags are consensus flags, prints why the others were left out, and
/// returns how many were judged.
fn judge_rows(rows: &Value) -> usize {
    let mut left_out = BTreeMap::<&str, usize>::new();
    let mut judged = 0;
    for row in rows.as_array().expect("an array of rows") {
        match parse_row(row) {
            None => (),
            Some(Err(flag)) => *left_out.entry(flag).or_default() += 1,
            Some(Ok(parsed)) => {
                judge(&parsed, row);
                judged += 1;
            }
        }
    }
    print_tally("script_tests");
    println!("script_tests: {judged} rows judged; left out, by first flag of policy: {left_out:?}");
    judged
}

/// Also as Core's reader: a valid row stays valid with fewer flags, an invalid one invalid with
/// more.
fn judge(row: &Row, text: &Value) {
    let credit =
        transaction(OutPoint::null(), vec![0, 0], Vec::new(), row.value, &row.script_pubkey);
    let outpoint = OutPoint { txid: credit.compute_txid(), vout: 0 };
    let spend = transaction(outpoint, row.script_sig.clone(), row.witness.clone(), row.value, &[]);
    let spent = [Output { value: row.value, script_pubkey: row.script_pubkey.clone() }];
    let pair = Pair::new(&serialize(&spend), &spent);
    assert_eq!(pair.accepts(0, row.flags), row.valid, "{text}");
    for flags in flag_combinations() {
        let implied = if row.valid { row.flags.contains(flags) } else { flags.contains(row.flags) };
        let accepted = pair.accepts(0, flags);
        if implied {
            assert_eq!(accepted, row.valid, "{flags:?} {text}");
        }
    }
}

fn transaction(
    previous_output: OutPoint,
    script_sig: Vec<u8>,
    witness: Vec<Vec<u8>>,
    value: i64,
    script_pubkey: &[u8],
) -> Transaction {
    Transaction {
        version: Version::ONE,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output,
            script_sig: script_sig.into(),
            sequence: Sequence::MAX,
            witness: Witness::from_slice(&witness),
        }],
        output: vec![TxOut {
            value: Amount::from_sat(value.try_into().expect("values are not negative")),
            script_pubkey: script_pubkey.to_vec().into(),
        }],
    }
}

/// `None` for a comment, `Err` with the first flag that is not consensus.
fn parse_row(row: &Value) -> Option<Result<Row, &str>> {
    let mut fields = row.as_array().expect("a row is an array").as_slice();
    let mut witness_fields: &[Value] = &[];
    if let Some((Value::Array(first), rest)) = fields.split_first() {
        (witness_fields, fields) = (first, rest);
    }
    let [script_sig, script_pubkey, flags, expected, ..] = fields else {
        assert_eq!(fields.len(), 1, "a comment is one string: {row}");
        return None;
    };
    let text = |field: &'static str, value: &'_ Value| -> String {
        value.as_str().unwrap_or_else(|| panic!("{field} of {row}")).to_owned()
    };
    let flags = match parse_flags(flags.as_str().expect("flags are a string")) {
        Ok(flags) => flags,
        Err(flag) => return Some(Err(flag)),
    };
    let (witness, output_key) = parse_witness(witness_fields);
    let script_pubkey = text("script_pubkey", script_pubkey);
    let script_pubkey = match (script_pubkey.strip_suffix("#TAPROOTOUTPUT#"), output_key) {
        (Some(prefix), Some(key)) => [parse_script(prefix), key].concat(),
        _ => parse_script(&script_pubkey),
    };
    Some(Ok(Row {
        witness,
        value: witness_fields.last().map_or(0, satoshis),
        script_sig: parse_script(&text("script_sig", script_sig)),
        script_pubkey,
        flags,
        valid: text("expected", expected) == "OK",
    }))
}

/// The witness items of `[item.., amount]`, and the output key that a control block placeholder
/// asks for.
fn parse_witness(fields: &[Value]) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
    let mut items: Vec<Vec<u8>> = Vec::new();
    let mut output_key = None;
    for field in fields.iter().rev().skip(1).rev() {
        let field = field.as_str().expect("a witness item is a string");
        items.push(if let Some(script) = field.strip_prefix("#SCRIPT#") {
            parse_script(script)
        } else if field == "#CONTROLBLOCK#" {
            let script = items.last().expect("a script comes before its control block");
            let (key, control_block) = one_leaf_tree(script);
            output_key = Some(key);
            control_block
        } else {
            hex::decode(field).expect("a witness item is hex")
        });
    }
    (items, output_key)
}

/// Output key and control block of a tree of one tapscript under the internal key of the secret 1
/// (`key0` of script_tests.cpp).
fn one_leaf_tree(script: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let secp = Secp256k1::new();
    let mut secret = [0; 32];
    secret[31] = 1;
    let secret = bitcoin::secp256k1::SecretKey::from_slice(&secret).expect("1 is a secret key");
    let internal: UntweakedPublicKey = XOnlyPublicKey::from(secret.public_key(&secp));
    let script = ScriptBuf::from(script.to_vec());
    let spend = TaprootBuilder::new()
        .add_leaf(0, script.clone())
        .expect("a leaf at depth 0")
        .finalize(&secp, internal)
        .expect("the tree is complete");
    let control =
        spend.control_block(&(script, LeafVersion::TapScript)).expect("the leaf is there");
    (spend.output_key().to_x_only_public_key().serialize().to_vec(), control.serialize())
}

fn satoshis(amount: &Value) -> i64 {
    let amount = amount.as_f64().expect("an amount is a number");
    (amount * 1e8).round() as i64
}
