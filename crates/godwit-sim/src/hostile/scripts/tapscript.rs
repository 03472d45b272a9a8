//! Scripts in taproot leaves (BIP342).

use bitcoin::consensus::encode::VarInt;
use bitcoin::secp256k1::Message;
use bitcoin::sighash::{Prevouts, SighashCache, TapSighashType};
use bitcoin::{ScriptBuf, Transaction, TxOut, Witness};

use super::super::asm::{asm, concat, push};
use super::super::stage::Stage;
use super::taproot::Tree;
use super::{Prove, Row};

const KEY: u64 = (1 << 51) + 10;
/// What each executed signature takes from the budget, and what the budget has from the start.
const SIGOP_COST: usize = 50;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    results(&mut rows);
    success_opcodes(&mut rows);
    limits(&mut rows);
    keys_and_signatures(&mut rows);
    separators(&mut rows);
    signature_budget(&mut rows);
    rows
}

fn results(rows: &mut Vec<Row>) {
    let table: [(&str, &str, &[&[u8]], bool); 17] = [
        ("true", "1", &[], true),
        ("false", "0", &[], false),
        ("two items left", "1 1", &[], false),
        ("item left below", "1", &[&[1]], false),
        ("empty script", "", &[&[1]], true),
        ("empty script and stack", "", &[], false),
        ("IF of one", "IF 1 ELSE 0 ENDIF", &[&[1]], true),
        ("IF of nothing", "IF 0 ELSE 1 ENDIF", &[&[]], true),
        ("IF of two", "IF 1 ELSE 1 ENDIF", &[&[2]], false),
        ("IF of a zero byte", "IF 1 ELSE 1 ENDIF", &[&[0]], false),
        ("NOTIF of one in two bytes", "NOTIF 1 ELSE 1 ENDIF", &[&[1, 0]], false),
        ("CHECKMULTISIG, run", "0 0 0 CHECKMULTISIG", &[], false),
        ("CHECKMULTISIGVERIFY, run", "0 0 0 CHECKMULTISIGVERIFY 1", &[], false),
        ("CHECKMULTISIG, not run", "0 IF CHECKMULTISIG ENDIF 1", &[], true),
        ("RETURN", "RETURN", &[], false),
        ("VERIF, not run", "0 IF 0x65 ENDIF 1", &[], false),
        ("the highest opcode, not run", "0 IF 0xff ENDIF 1", &[], true),
    ];
    for (name, script, items, valid) in table {
        let items: Vec<Vec<u8>> = items.iter().map(|item| item.to_vec()).collect();
        rows.push(Tree::new(asm(script)).row(&format!("tapscript: {name}"), &items, valid));
    }
}

fn success_opcodes(rows: &mut Vec<Row>) {
    for code in [80u8, 98, 126, 129, 131, 134, 137, 138, 141, 142, 149, 153, 187, 254] {
        let script = concat(&[&asm("0 IF"), &ScriptBuf::from_bytes(vec![code]), &asm("ENDIF 0")]);
        let name = format!("OP_SUCCESS{code}, not run");
        rows.push(Tree::new(script).row(&name, &[], true));
    }
    let table: [(&str, &str, bool); 6] = [
        ("before a truncated push", "0x50 0x02ff", true),
        ("behind a truncated push", "0x4c50", false),
        ("in pushed data", "<50> DROP 0", false),
        ("behind RETURN", "RETURN 0x50", true),
        ("in an unbalanced script", "1 IF 0x50", true),
        ("186 is CHECKSIGADD", "0xba", false),
    ];
    for (name, script, valid) in table {
        rows.push(Tree::new(asm(script)).row(&format!("OP_SUCCESS {name}"), &[], valid));
    }
    let large = vec![vec![7; 600]; 3];
    rows.push(Tree::new(asm("0x50")).row("OP_SUCCESS with large items", &large, true));
    let many = vec![vec![]; 1_100];
    rows.push(Tree::new(asm("0x50")).row("OP_SUCCESS with 1,100 items", &many, true));
}

fn limits(rows: &mut Vec<Row>) {
    rows.push(Tree::new(asm("NOP*300 1")).row("tapscript: 300 operations", &[], true));
    rows.push(Tree::new(asm("NOP*20000 1")).row("tapscript: 20,001 bytes", &[], true));
    for (length, valid) in [(520, true), (521, false)] {
        let item = vec![vec![7; length]];
        let name = format!("tapscript: item of {length} bytes");
        rows.push(Tree::new(asm("DROP 1")).row(&name, &item, valid));
        let script = concat(&[&push(&item[0]), &asm("DROP 1")]);
        let name = format!("tapscript: push of {length} bytes");
        rows.push(Tree::new(script).row(&name, &[], valid));
    }
    let items = |count| vec![vec![1]; count];
    let row = Tree::new(asm("2DROP*499 DROP")).row("tapscript: 1,000 items", &items(1_000), true);
    rows.push(row);
    let row = Tree::new(asm("2DROP*500")).row("tapscript: 1,001 items", &items(1_001), false);
    rows.push(row);
    let script = asm("1 DROP 2DROP*499 DROP");
    rows.push(Tree::new(script).row("tapscript: 1,001 by a push", &items(1_000), false));
}

/// A signature by [`KEY`] in the leaf of `tree`, after the separator at `position`.
fn leaf_signature(
    tree: &Tree,
    tx: &Transaction,
    index: usize,
    prevouts: &[TxOut],
    position: u32,
) -> Vec<u8> {
    let leaf = Some((tree.leaf_hash(), position));
    let hash_type = TapSighashType::Default;
    let hash = SighashCache::new(tx)
        .taproot_signature_hash(index, &Prevouts::All(prevouts), None, leaf, hash_type)
        .expect("all prevouts are given");
    let keys = Stage::keys();
    keys.sign_schnorr(&keys.pair(KEY), &Message::from(hash)).serialize().to_vec()
}

const NO_SEPARATOR: u32 = u32::MAX;

/// Makes the items before script and control block from a signature.
type Shape = fn(Vec<u8>) -> Vec<Vec<u8>>;

/// A row whose items are made from a signature.
fn signed(name: &str, script: ScriptBuf, position: u32, valid: bool, shape: Shape) -> Row {
    let tree = Tree::new(script);
    let script_pubkey = tree.script_pubkey.clone();
    let prove: Prove = Box::new(move |tx, index, prevouts| {
        let signature = leaf_signature(&tree, tx, index, prevouts, position);
        (ScriptBuf::new(), Witness::from_slice(&tree.witness(&shape(signature))))
    });
    Row::new(name, script_pubkey, valid, prove)
}

fn keys_and_signatures(rows: &mut Vec<Row>) {
    let key = push(&Stage::keys().x_only(KEY).serialize());
    let check = |then: &str| concat(&[&key, &asm(then)]);
    let none: Shape = |_| vec![vec![]];
    let same: Shape = |signature| vec![signature];
    let changed: Shape = |mut signature| {
        signature[5] ^= 1;
        vec![signature]
    };
    let add = concat(&[&asm("0"), &key, &asm("CHECKSIGADD 1 EQUAL")]);
    let add_none = concat(&[&asm("7"), &key, &asm("CHECKSIGADD 7 EQUAL")]);
    let add_long = concat(&[&asm("<0000008000>"), &key, &asm("CHECKSIGADD DROP 1")]);
    let table: [(&str, ScriptBuf, Shape, bool); 13] = [
        ("signature", check("CHECKSIG"), same, true),
        ("empty signature", check("CHECKSIG"), none, false),
        ("empty signature, NOT", check("CHECKSIG NOT"), none, true),
        ("changed signature", check("CHECKSIG"), changed, false),
        ("changed signature, NOT", check("CHECKSIG NOT"), changed, false),
        ("CHECKSIGVERIFY", check("CHECKSIGVERIFY 1"), same, true),
        ("CHECKSIGADD", add.clone(), same, true),
        ("CHECKSIGADD of an empty signature", add_none, none, true),
        ("CHECKSIGADD of a changed signature", add, changed, false),
        ("CHECKSIGADD to five bytes", add_long, none, false),
        ("key of 33 bytes is free", asm(&format!("<02{}> CHECKSIG", "aa".repeat(32))), same, true),
        ("key of one byte is free", asm("<aa> CHECKSIG"), changed, true),
        ("empty key", asm("0 CHECKSIG"), same, false),
    ];
    for (name, script, shape, valid) in table {
        rows.push(signed(&format!("tapscript: {name}"), script, NO_SEPARATOR, valid, shape));
    }
    let row =
        signed("tapscript: empty key, empty signature", asm("0 CHECKSIG NOT"), 0, false, none);
    rows.push(row);
    let name = "tapscript: free key, empty signature";
    rows.push(signed(name, asm("<aa> CHECKSIG NOT"), 0, true, none));
}

fn separators(rows: &mut Vec<Row>) {
    let key = push(&Stage::keys().x_only(KEY).serialize());
    let same: Shape = |signature| vec![signature];
    let script = concat(&[&asm("NOP CODESEPARATOR"), &key, &asm("CHECKSIG")]);
    for (name, position, valid) in [
        ("its position signed", 1, true),
        ("none signed", NO_SEPARATOR, false),
        ("another position signed", 0, false),
    ] {
        let name = format!("tapscript: CODESEPARATOR, {name}");
        rows.push(signed(&name, script.clone(), position, valid, same));
    }
    let script = concat(&[&asm("0 IF CODESEPARATOR ENDIF"), &key, &asm("CHECKSIG")]);
    rows.push(signed("tapscript: CODESEPARATOR, not run", script, NO_SEPARATOR, true, same));
}

/// Each executed signature costs 50 of the witness's size plus 50 (BIP342).
fn signature_budget(rows: &mut Vec<Row>) {
    let affordable = (1..)
        .take_while(|count| {
            let items = Tree::new(repeated_checks(*count)).witness(&[vec![0; 64]]);
            count * SIGOP_COST <= SIGOP_COST + stack_size(&items)
        })
        .last()
        .expect("one signature is always affordable");
    let same: Shape = |signature| vec![signature];
    for (count, valid) in [(1, true), (affordable, true), (affordable + 1, false)] {
        let name = format!("tapscript: {count} signatures on the budget");
        rows.push(signed(&name, repeated_checks(count), NO_SEPARATOR, valid, same));
    }
}

fn repeated_checks(count: usize) -> ScriptBuf {
    let key = push(&Stage::keys().x_only(KEY).serialize());
    let once = concat(&[&asm("DUP"), &key, &asm("CHECKSIGVERIFY")]);
    concat(&[&concat(&vec![&once; count]), &asm("DROP 1")])
}

/// Bytes of a serialised witness stack.
fn stack_size(items: &[Vec<u8>]) -> usize {
    let lengths: usize =
        items.iter().map(|item| VarInt::from(item.len()).size() + item.len()).sum();
    VarInt::from(items.len()).size() + lengths
}
