//! Scripts without signatures: the interpreter's limits and opcodes, and P2SH (BIP16).

use super::super::asm::{asm, concat, push};
use super::Row;

const DISABLED: [&str; 15] = [
    "CAT", "SUBSTR", "LEFT", "RIGHT", "INVERT", "AND", "OR", "XOR", "2MUL", "2DIV", "MUL", "DIV",
    "MOD", "LSHIFT", "RSHIFT",
];

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for table in [RESULTS, BRANCHES, OPCODES, LIMITS, NUMBERS, STACK, HASHES] {
        rows.extend(
            table.iter().map(|(name, locking, sig, valid)| Row::plain(name, locking, sig, *valid)),
        );
    }
    for opcode in DISABLED {
        let script = format!("0 IF {opcode} ENDIF 1");
        rows.push(Row::plain(&format!("disabled {opcode}, not run"), &script, "", false));
    }
    sizes(&mut rows);
    pay_to_script_hash(&mut rows);
    rows
}

/// Name, output script, script signature, validity.
type Table = &'static [(&'static str, &'static str, &'static str, bool)];

const RESULTS: Table = &[
    ("true", "1", "", true),
    ("false", "0", "", false),
    ("empty scripts", "", "", false),
    ("true from the script signature", "", "1", true),
    ("negative zero", "<80>", "", false),
    ("long zero", "<000000>", "", false),
    ("long negative zero", "<000080>", "", false),
    ("minus one", "-1", "", true),
    ("a late one", "<000001>", "", true),
    ("false above true", "1 0", "", false),
    ("true above false", "0 1", "", true),
    ("more than one item left", "1 1 1", "", true),
    ("nothing left", "1 VERIFY", "", false),
    ("VERIFY of false", "0 VERIFY 1", "", false),
    ("script signature that computes", "2 EQUAL", "1 1 ADD", true),
    ("script signature that returns", "1", "1 RETURN", false),
    ("script signature with a truncated push", "1", "0x0211", false),
];

const BRANCHES: Table = &[
    ("RETURN, run", "1 IF RETURN ENDIF 1", "", false),
    ("RETURN, not run", "0 IF RETURN ENDIF 1", "", true),
    ("IF without ENDIF", "1 IF 1", "", false),
    ("ENDIF without IF", "1 ENDIF", "", false),
    ("ELSE without IF", "1 ELSE", "", false),
    ("two ELSEs", "0 IF 0 ELSE 1 ELSE 0 ENDIF", "", true),
    ("IF on an empty stack", "IF ENDIF 1", "", false),
    ("NOTIF", "0 NOTIF 1 ENDIF", "", true),
    ("IF of two", "2 IF 1 ENDIF", "", true),
    ("IF that ends in the other script", "ENDIF 1", "1 IF", false),
    ("nested IF in a branch not taken", "0 IF 1 IF 0 ENDIF ENDIF 1", "", true),
    ("VERIF, not run", "0 IF 0x65 ENDIF 1", "", false),
    ("VERNOTIF, not run", "0 IF 0x66 ENDIF 1", "", false),
];

const OPCODES: Table = &[
    ("VER, not run", "0 IF 0x62 ENDIF 1", "", true),
    ("VER, run", "1 IF 0x62 ENDIF 1", "", false),
    ("RESERVED, not run", "0 IF 0x50 ENDIF 1", "", true),
    ("RESERVED, run", "0x50 1", "", false),
    ("RESERVED1, not run", "0 IF 0x89 ENDIF 1", "", true),
    ("RESERVED1, run", "0x89 1", "", false),
    ("RESERVED2, not run", "0 IF 0x8a ENDIF 1", "", true),
    ("CHECKSIGADD, not run", "0 IF 0xba ENDIF 1", "", true),
    ("CHECKSIGADD, run", "0xba 1", "", false),
    ("the highest opcode, not run", "0 IF 0xff ENDIF 1", "", true),
    ("the highest opcode, run", "0xff 1", "", false),
    ("all NOPs", "NOP NOP1 NOP4 NOP5 NOP6 NOP7 NOP8 NOP9 NOP10 1", "", true),
    ("CODESEPARATOR without a signature", "CODESEPARATOR 1", "", true),
    ("PUSHDATA1 of one byte", "0x4c0101", "", true),
    ("PUSHDATA2 of one byte", "0x4d010001", "", true),
    ("PUSHDATA4 of one byte", "0x4e0100000001", "", true),
    ("a push beyond the end", "1 0x02ff", "", false),
    ("a push of 4 GiB", "1 0x4effffffff", "", false),
    ("PUSHDATA1 without a length", "1 0x4c", "", false),
];

const LIMITS: Table = &[
    ("201 operations", "NOP*201 1", "", true),
    ("202 operations", "NOP*202 1", "", false),
    ("201 operations, some not run", "0 IF NOP*199 ENDIF 1", "", true),
    ("202 operations, some not run", "0 IF NOP*200 ENDIF 1", "", false),
    ("pushes are no operations", "1*600", "", true),
    ("201 operations with multisig keys", "NOP*180 0 0 1*20 20 CHECKMULTISIG", "", true),
    ("202 operations with multisig keys", "NOP*181 0 0 1*20 20 CHECKMULTISIG", "", false),
    ("201 operations in each script", "NOP*201 1", "NOP*201 1", true),
    ("stack of 1,000", "", "1*1000", true),
    ("stack of 1,001", "", "1*1001", false),
    ("stack of 1,001 by DUP", "DUP", "1*1000", false),
    ("stacks of 1,000 together", "TOALTSTACK 1", "1*999", true),
    ("stacks of 1,001 together", "TOALTSTACK 1", "1*1000", false),
];

const NUMBERS: Table = &[
    ("sum", "1 1 ADD 2 EQUAL", "", true),
    ("result of five bytes", "<ffffff7f> 1ADD SIZE 5 EQUAL", "", true),
    ("operand of five bytes", "<0000008000> 1ADD", "", false),
    ("result of five bytes as operand", "<ffffff7f> 1ADD 1ADD", "", false),
    ("number not minimal", "<0100> 1 NUMEQUAL", "", true),
    ("the same as bytes", "<0100> 1 EQUAL", "", false),
    ("within, lower end", "0 0 10 WITHIN", "", true),
    ("within, upper end", "10 0 10 WITHIN", "", false),
    ("NOT of one", "1 NOT", "", false),
    ("NOT of two", "2 NOT", "", false),
    ("NOT of zero", "0 NOT", "", true),
    ("absolute value", "-5 ABS 5 NUMEQUAL", "", true),
    ("negation", "5 NEGATE -5 NUMEQUAL", "", true),
    ("BOOLAND", "2 3 BOOLAND", "", true),
    ("BOOLOR of zeros", "0 0 BOOLOR", "", false),
    ("MIN and MAX", "3 7 MIN 5 MAX 5 NUMEQUAL", "", true),
    ("difference", "3 5 SUB -2 NUMEQUAL", "", true),
];

const STACK: Table = &[
    ("SWAP", "1 2 SWAP 1 EQUALVERIFY 2 EQUAL", "", true),
    ("ROT", "1 2 3 ROT 1 EQUAL", "", true),
    ("PICK of the top", "1 0 PICK", "", true),
    ("PICK below the stack", "1 1 PICK", "", false),
    ("PICK of minus one", "1 -1 PICK", "", false),
    ("ROLL of the top", "1 0 ROLL", "", true),
    ("ROLL below the stack", "1 1 ROLL", "", false),
    ("DEPTH of nothing", "DEPTH 0 EQUAL", "", true),
    ("DROP of nothing", "DROP 1", "", false),
    ("FROMALTSTACK of nothing", "FROMALTSTACK", "", false),
    ("the other script's alternative stack", "FROMALTSTACK", "1 TOALTSTACK 1", false),
    ("SIZE", "<aabbcc> SIZE 3 EQUAL", "", true),
    ("IFDUP", "1 IFDUP ADD 2 EQUAL", "", true),
    ("TUCK, NIP, OVER", "5 6 TUCK NIP OVER EQUALVERIFY 6 EQUAL", "", true),
    ("2ROT needs six", "1 1 1 1 1 2ROT", "", false),
    ("3DUP needs three", "1 1 3DUP", "", false),
];

const HASHES: Table = &[
    (
        "RIPEMD160 of nothing",
        "0 RIPEMD160 <9c1185a5c5e9fc54612808977ee8f548b2258d31> EQUAL",
        "",
        true,
    ),
    ("SHA1 of nothing", "0 SHA1 <da39a3ee5e6b4b0d3255bfef95601890afd80709> EQUAL", "", true),
    ("HASH160 of nothing", "0 HASH160 <b472a266d0bd89c13706a4132ccfb16f7c3b9fcb> EQUAL", "", true),
    (
        "SHA256 of nothing",
        "0 SHA256 <e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855> EQUAL",
        "",
        true,
    ),
    (
        "HASH256 of nothing",
        "0 HASH256 <5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456> EQUAL",
        "",
        true,
    ),
    ("SHA256 of something else", "1 SHA256 <00> EQUAL", "", false),
];

fn sizes(rows: &mut Vec<Row>) {
    for (length, valid) in [(520, true), (521, false)] {
        let item = push(&vec![7; length]);
        let name = format!("push of {length} bytes");
        rows.push(Row::fixed(&name, asm("DROP 1"), item.clone(), &[], valid));
        let script = concat(&[&asm("0 IF"), &item, &asm("ENDIF 1")]);
        rows.push(Row::fixed(&format!("{name}, not run"), script, asm(""), &[], valid));
    }
    // 19 pushes of 523 bytes and one of the rest.
    let pushes = concat(&[&push(&[7; 520]); 19]);
    for (last, valid) in [(62, true), (63, false)] {
        let script_sig = concat(&[&pushes, &push(&vec![7; last])]);
        let name = format!("script signature of {} bytes", script_sig.len());
        rows.push(Row::fixed(&name, asm("1"), script_sig, &[], valid));
    }
    let drops = concat(&[&concat(&[&push(&[7; 520]), &asm("DROP")]); 19]);
    let script = concat(&[&drops, &push(&[7; 41]), &asm("DROP 1")]);
    assert_eq!(script.len(), 10_000);
    rows.push(Row::fixed("output script of 10,000 bytes", script, asm(""), &[], true));
}

fn pay_to_script_hash(rows: &mut Vec<Row>) {
    let table: [(&str, &str, &str, bool); 14] = [
        ("P2SH: true", "1", "", true),
        ("P2SH: false", "0", "", false),
        ("P2SH: two items left", "1 1", "", true),
        ("P2SH: empty script", "", "", false),
        ("P2SH: empty script above true", "", "1", true),
        ("P2SH: arguments", "ADD 3 EQUAL", "1 2", true),
        ("P2SH: script signature that computes", "3 EQUAL", "1 2 ADD", false),
        ("P2SH: NOP in the script signature", "1", "NOP", false),
        ("P2SH: RESERVED in the script signature", "1", "0x50", false),
        ("P2SH: unbalanced", "1 IF", "1", false),
        ("P2SH: RETURN", "RETURN", "1", false),
        ("P2SH: 201 operations", "NOP*201 1", "", true),
        ("P2SH: 202 operations", "NOP*202 1", "", false),
        ("P2SH: number of a push in the script signature", "17 EQUAL", "0x4c0111", true),
    ];
    for (name, redeem, before, valid) in table {
        rows.push(Row::p2sh(name, &asm(redeem), before, valid));
    }
    for (length, valid) in [(520, true), (521, false)] {
        let redeem = concat(&[&push(&vec![7; length - 5]), &asm("DROP 1")]);
        assert_eq!(redeem.len(), length);
        rows.push(Row::p2sh(&format!("P2SH: script of {length} bytes"), &redeem, "", valid));
    }
    let (yes, no) = (asm("1"), asm("0"));
    let wrong = push(asm("1 NOP").as_bytes());
    rows.push(Row::fixed("P2SH: another script", yes.to_p2sh(), wrong, &[], false));
    rows.push(Row::fixed("P2SH: no script", yes.to_p2sh(), asm(""), &[], false));

    let hash = &no.to_p2sh().to_bytes()[2..22];
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let alike = asm(&format!("HASH160 0x4c14{hex} EQUAL"));
    let script_sig = push(no.as_bytes());
    rows.push(Row::fixed("P2SH hash in PUSHDATA1 is no P2SH", alike, script_sig, &[], true));

    let inner = no.to_p2sh();
    let script_sig = concat(&[&push(no.as_bytes()), &push(inner.as_bytes())]);
    rows.push(Row::fixed("P2SH inside P2SH is not run", inner.to_p2sh(), script_sig, &[], true));
}
