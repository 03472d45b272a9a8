//! Core's tx_valid.json and tx_invalid.json, read as src/test/transaction_tests.cpp reads them.

use std::collections::{BTreeMap, HashMap};

use bitcoinkernel::prelude::*;
use godwit_consensus::check_transaction;
use godwit_primitives::{ScriptFlags, TxView};
use serde_json::Value;

use crate::asm::{FLAG_NAMES, flag_combinations, parse_flags, parse_script};
use crate::data::{kernel_vectors, shared_vectors};
use crate::native::print_tally;
use crate::twin::{Output, Pair};

struct Row<'a> {
    tx: Vec<u8>,
    spent: HashMap<([u8; 32], u32), Output>,
    flags: &'a str,
}

#[test]
fn valid_rows_of_the_linked_kernel() {
    assert_eq!(judge_valid(&kernel_vectors("tx_valid.json")), 121);
}

#[test]
fn valid_rows_of_the_shared_data() {
    let Some(rows) = shared_vectors("tx_valid.json") else { return };
    assert_eq!(judge_valid(&rows), 121);
}

#[test]
fn invalid_rows_of_the_linked_kernel() {
    assert_eq!(judge_invalid(&kernel_vectors("tx_invalid.json")), (70, 9));
}

#[test]
fn invalid_rows_of_the_shared_data() {
    let Some(rows) = shared_vectors("tx_invalid.json") else { return };
    assert_eq!(judge_invalid(&rows), (70, 9));
}

/// Rows list the flags under which they are not valid. Each passes with every other consensus flag
/// and with fewer, and fails with any listed consensus flag put back.
fn judge_valid(rows: &Value) -> usize {
    let mut judged = 0;
    for row in transactions(rows) {
        let listed = row
            .flags
            .split(',')
            .filter_map(|word| parse_flags(word).ok())
            .fold(ScriptFlags::NONE, |all, flag| all | flag);
        let flags = ScriptFlags::ALL.without(listed);
        assert!(row.passes_check(), "{}", hex::encode(&row.tx));
        let pair = row.pair();
        assert_eq!(pair.first_failure(flags), None, "{}", row.flags);
        for fewer in flag_combinations().into_iter().filter(|fewer| flags.contains(*fewer)) {
            assert_eq!(pair.first_failure(fewer), None, "{fewer:?} {}", row.flags);
        }
        for (name, flag) in FLAG_NAMES.iter().filter(|(_, flag)| listed.contains(*flag)) {
            assert!(pair.first_failure(flags | *flag).is_some(), "{name} of {}", row.flags);
        }
        judged += 1;
    }
    print_tally("tx_valid");
    println!("tx_valid: {judged} rows judged");
    judged
}

/// Rows list the flags under which they fail; they fail with more flags, too. BADTX stands for
/// transactions that CheckTransaction refuses, and it refuses no others. Returns how many rows the
/// scripts and how many CheckTransaction refused.
fn judge_invalid(rows: &Value) -> (usize, usize) {
    let mut left_out = BTreeMap::<&str, usize>::new();
    let mut judged = 0;
    let mut malformed = 0;
    for row in transactions(rows) {
        assert_eq!(row.passes_check(), row.flags != "BADTX", "{}", hex::encode(&row.tx));
        if row.flags == "BADTX" {
            malformed += 1;
            continue;
        }
        let flags = match parse_flags(row.flags) {
            Ok(flags) => flags,
            Err(word) => {
                *left_out.entry(word).or_default() += 1;
                continue;
            }
        };
        let pair = row.pair();
        for more in flag_combinations().into_iter().filter(|more| more.contains(flags)) {
            assert!(pair.first_failure(more).is_some(), "{more:?} {}", row.flags);
        }
        judged += 1;
    }
    print_tally("tx_invalid");
    println!("tx_invalid: {judged} rows judged, {malformed} BADTX; left out: {left_out:?}");
    (judged, malformed)
}

impl Row<'_> {
    fn passes_check(&self) -> bool {
        let tx = TxView::parse(&self.tx).expect("transaction parses");
        check_transaction(tx).is_ok()
    }

    fn pair(&self) -> Pair {
        let tx = bitcoinkernel::Transaction::new(&self.tx).expect("transaction parses");
        let spent: Vec<Output> = tx
            .inputs()
            .map(|input| {
                let outpoint = input.outpoint();
                self.spent[&(outpoint.txid().to_bytes(), outpoint.index())].clone()
            })
            .collect();
        Pair::new(&self.tx, &spent)
    }
}

/// The rows `[[[txid, vout, script, value?]..], tx, flags]`; the others are comments.
fn transactions(rows: &Value) -> impl Iterator<Item = Row<'_>> {
    let rows = rows.as_array().expect("an array of rows").iter();
    rows.filter_map(|row| match row.as_array().map(Vec::as_slice) {
        Some([Value::Array(spent), Value::String(tx), Value::String(flags)]) => Some(Row {
            tx: hex::decode(tx).expect("a transaction is hex"),
            spent: spent.iter().map(parse_spent).collect(),
            flags,
        }),
        Some([Value::String(_)]) => None,
        _ => panic!("neither a comment nor a transaction: {row}"),
    })
}

fn parse_spent(fields: &Value) -> (([u8; 32], u32), Output) {
    let mut txid: [u8; 32] = hex::decode(fields[0].as_str().expect("a txid is a string"))
        .expect("a txid is hex")
        .try_into()
        .expect("a txid has 32 bytes");
    txid.reverse();
    let vout = fields[1].as_i64().expect("an output index is a number") as u32;
    let script = fields[2].as_str().expect("a script is a string");
    let value = fields.get(3).map_or(0, |value| value.as_i64().expect("a value is a number"));
    ((txid, vout), Output { value, script_pubkey: parse_script(script) })
}
