//! Core's transaction vectors, as far as `CheckTransaction` judges them.

use godwit_consensus::{RejectReason, check_transaction};
use godwit_primitives::TxView;
use godwit_testdata::shared_data;
use serde_json::Value;

use crate::data;

/// Rows of a file: the transaction and the flags; comments are rows of one string.
fn rows(name: &str) -> Option<Vec<(Vec<u8>, String)>> {
    let path = shared_data()?.join("vectors/core").join(name);
    let file = data::json(path);
    let rows = file.as_array().unwrap().iter().filter(|row| row[0].is_array());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Some(rows.map(|row| (hex::decode(text(&row[1])).unwrap(), text(&row[2]))).collect())
}

fn reason(tx: &[u8]) -> Option<RejectReason> {
    let tx = TxView::parse(tx).unwrap();
    check_transaction(tx).err().map(|reject| reject.reason)
}

#[test]
fn badtx_rows_and_only_they_are_invalid_by_themselves() {
    let Some(rows) = rows("tx_invalid.json") else { return };
    let mut reasons: Vec<&str> = Vec::new();
    for (tx, flags) in &rows {
        let reason = reason(tx);
        assert_eq!(reason.is_some(), flags == "BADTX", "{}", hex::encode(tx));
        reasons.extend(reason.map(RejectReason::as_str));
    }
    println!("{} rows, {} BADTX", rows.len(), reasons.len());
    assert_eq!(rows.len(), 93);
    let expected = [
        "bad-txns-vout-empty",
        "bad-txns-vout-negative",
        "bad-txns-vout-toolarge",
        "bad-txns-txouttotal-toolarge",
        "bad-txns-inputs-duplicate",
        "bad-cb-length",
        "bad-cb-length",
        "bad-txns-prevout-null",
        "bad-txns-prevout-null",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn valid_rows_are_valid_by_themselves() {
    let Some(rows) = rows("tx_valid.json") else { return };
    for (tx, _) in &rows {
        assert_eq!(reason(tx), None, "{}", hex::encode(tx));
    }
    println!("{} rows", rows.len());
    assert_eq!(rows.len(), 121);
}
