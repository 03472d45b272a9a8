//! Witness programs of all versions (BIP141), without signatures.

use bitcoin::ScriptBuf;

use super::super::asm::{asm, concat, push};
use super::Row;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    script_hash(&mut rows);
    script_hash_limits(&mut rows);
    program_lengths(&mut rows);
    future_versions(&mut rows);
    nested(&mut rows);
    unexpected(&mut rows);
    rows
}

/// `version <bytes>`; version as in the notation of `asm`.
fn program(version: &str, length: usize) -> ScriptBuf {
    concat(&[&asm(version), &push(&vec![0x41; length])])
}

fn script_hash(rows: &mut Vec<Row>) {
    let one = || vec![vec![1u8]];
    let table: [(&str, &str, Vec<Vec<u8>>, bool); 14] = [
        ("P2WSH: true", "1", vec![], true),
        ("P2WSH: false", "0", vec![], false),
        ("P2WSH: two items left", "1 1", vec![], false),
        ("P2WSH: item left below", "1", one(), false),
        ("P2WSH: empty script", "", one(), true),
        ("P2WSH: empty script, empty stack", "", vec![], false),
        ("P2WSH: arguments", "ADD 3 EQUAL", vec![vec![1], vec![2]], true),
        ("P2WSH: negative zero", "", vec![vec![0x80]], false),
        ("P2WSH: IF of two", "IF 1 ELSE 0 ENDIF", vec![vec![2]], true),
        ("P2WSH: disabled opcode, not run", "0 IF CAT ENDIF 1", vec![], false),
        ("P2WSH: RESERVED, run", "0x50 1", vec![], false),
        ("P2WSH: RESERVED, not run", "0 IF 0x50 ENDIF 1", vec![], true),
        ("P2WSH: 201 operations", "NOP*201 1", vec![], true),
        ("P2WSH: 202 operations", "NOP*202 1", vec![], false),
    ];
    for (name, script, items, valid) in table {
        rows.push(Row::p2wsh(name, &asm(script), &items, valid));
    }
    let script = asm("1");
    let spk = script.to_p2wsh();
    let none = ScriptBuf::new;
    rows.push(Row::fixed("P2WSH: no witness", spk.clone(), none(), &[], false));
    let other = [asm("1 NOP").to_bytes()];
    rows.push(Row::fixed("P2WSH: another script", spk.clone(), none(), &other, false));
    let right = [script.to_bytes()];
    for (name, script_sig) in [("1", "1"), ("0", "0"), ("NOP", "NOP")] {
        let name = format!("P2WSH: script signature of {name}");
        rows.push(Row::fixed(&name, spk.clone(), asm(script_sig), &right, false));
    }
}

fn script_hash_limits(rows: &mut Vec<Row>) {
    for (length, valid) in [(520, true), (521, false)] {
        let name = format!("P2WSH: item of {length} bytes");
        rows.push(Row::p2wsh(&name, &asm("DROP 1"), &[vec![7; length]], valid));
    }
    let drops = concat(&[&concat(&[&push(&[7; 520]), &asm("DROP")]); 19]);
    for (last, valid) in [(41, true), (42, false)] {
        let script = concat(&[&drops, &push(&vec![7; last]), &asm("DROP 1")]);
        let name = format!("P2WSH: script of {} bytes", script.len());
        rows.push(Row::p2wsh(&name, &script, &[], valid));
    }
    // What is left of the items after 200 operations can be one only.
    for (items, valid) in [(401, true), (402, false)] {
        let name = format!("P2WSH: {items} items, 400 dropped");
        rows.push(Row::p2wsh(&name, &asm("2DROP*200"), &vec![vec![1]; items], valid));
    }
}

fn program_lengths(rows: &mut Vec<Row>) {
    let item = [vec![1u8]];
    for length in [2, 19, 21, 31, 33, 40] {
        let name = format!("version 0 program of {length} bytes");
        rows.push(Row::fixed(&name, program("0", length), ScriptBuf::new(), &item, false));
    }
    for length in [1, 41] {
        let spk = program("0", length);
        let name = format!("version 0 and {length} bytes are no program");
        rows.push(Row::fixed(&name, spk.clone(), ScriptBuf::new(), &[], true));
        let name = format!("version 0 and {length} bytes, with a witness");
        rows.push(Row::fixed(&name, spk, ScriptBuf::new(), &item, false));
    }
}

fn future_versions(rows: &mut Vec<Row>) {
    let item = [vec![1u8]];
    for (version, length) in [
        ("1", 2),
        ("1", 20),
        ("1", 31),
        ("1", 33),
        ("1", 40),
        ("2", 2),
        ("2", 32),
        ("15", 32),
        ("16", 32),
        ("16", 40),
    ] {
        let spk = program(version, length);
        let name = format!("version {version} program of {length} bytes");
        rows.push(Row::fixed(&name, spk.clone(), ScriptBuf::new(), &[], true));
        let with = format!("{name}, with a witness");
        rows.push(Row::fixed(&with, spk.clone(), ScriptBuf::new(), &item, true));
        let with = format!("{name}, with a script signature");
        rows.push(Row::fixed(&with, spk, asm("1"), &[], false));
    }
    let anchor = asm("1 <4e73>");
    rows.push(Row::fixed("pay to anchor", anchor.clone(), ScriptBuf::new(), &[], true));
    rows.push(Row::fixed("pay to anchor, with a witness", anchor, ScriptBuf::new(), &item, true));
    // The version must be a single opcode and the program a direct push.
    for (name, script) in [
        ("version in a push", format!("0x0101 <{}>", "41".repeat(32))),
        ("version -1", format!("-1 <{}>", "41".repeat(32))),
        ("program in PUSHDATA1", format!("1 0x4c20{}", "41".repeat(32))),
        ("something behind the program", format!("1 <{}> NOP", "41".repeat(32))),
    ] {
        let spk = asm(&script);
        let name = format!("{name} is no program");
        rows.push(Row::fixed(&name, spk.clone(), ScriptBuf::new(), &[], true));
        let name = format!("{name}, with a witness");
        rows.push(Row::fixed(&name, spk, ScriptBuf::new(), &item, false));
    }
}

fn nested(rows: &mut Vec<Row>) {
    let script = asm("1");
    let program_script = script.to_p2wsh();
    let spk = program_script.to_p2sh();
    let exact = push(program_script.as_bytes());
    let items = [script.to_bytes()];
    let hex = program_script.to_hex_string();
    let table: [(&str, ScriptBuf, &[Vec<u8>], bool); 6] = [
        ("nested P2WSH", exact.clone(), &items, true),
        ("nested P2WSH: no witness", exact.clone(), &[], false),
        ("nested P2WSH: another script", exact.clone(), &[vec![0x52]], false),
        ("nested P2WSH: push before", concat(&[&asm("1"), &exact]), &items, false),
        ("nested P2WSH: push before of nothing", concat(&[&asm("0"), &exact]), &items, false),
        ("nested P2WSH: PUSHDATA1", asm(&format!("0x4c22{hex}")), &items, false),
    ];
    for (name, script_sig, items, valid) in table {
        rows.push(Row::fixed(name, spk.clone(), script_sig, items, valid));
    }
    let cases = [("0", 21, false), ("1", 32, true), ("1", 20, true), ("16", 32, true)];
    for (version, length, valid) in cases {
        let inner = program(version, length);
        let script_sig = push(inner.as_bytes());
        let name = format!("nested version {version} program of {length} bytes");
        rows.push(Row::fixed(&name, inner.to_p2sh(), script_sig, &[vec![1]], valid));
    }
}

/// Witnesses of inputs that spend no program.
fn unexpected(rows: &mut Vec<Row>) {
    let item = [vec![1u8]];
    rows.push(Row::fixed("witness for a bare script", asm("1"), ScriptBuf::new(), &item, false));
    let empty = [Vec::new()];
    let name = "empty witness item for a bare script";
    rows.push(Row::fixed(name, asm("1"), ScriptBuf::new(), &empty, false));
    let redeem = asm("1");
    let script_sig = push(redeem.as_bytes());
    rows.push(Row::fixed("witness for P2SH", redeem.to_p2sh(), script_sig, &item, false));
}
