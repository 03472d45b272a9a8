//! Real blocks over the outputs that they spend.

use std::collections::HashMap;

use godwit_primitives::{Block, OutPoint, ScriptFlags, TxView};
use godwit_script::ScriptError;
use godwit_testdata::shared_file;
use serde_json::Value;

use crate::twin::{Output, Pair, prepare};

/// Heights at which a network's rules begin.
struct Heights {
    dersig: u64,
    checklocktimeverify: u64,
    checksequenceverify: u64,
    segwit: u64,
}

const MAINNET: Heights = Heights {
    dersig: 363_725,
    checklocktimeverify: 388_381,
    checksequenceverify: 419_328,
    segwit: 481_824,
};
const TESTNET3: Heights = Heights {
    dersig: 330_776,
    checklocktimeverify: 581_885,
    checksequenceverify: 770_112,
    segwit: 834_624,
};

#[test]
fn scripts_of_real_blocks_pass_and_damaged_signatures_fail() {
    let Some(index) = shared_file("blocks/index.json") else { return };
    let index: Value = serde_json::from_slice(&index).expect("JSON");
    let mut passed = 0;
    let mut damaged = 0;
    for entry in index.as_array().expect("an array of blocks") {
        let Some(prevouts) = entry["prevouts_file"].as_str() else { continue };
        let block = entry["file"].as_str().expect("a file name");
        let counts = judge_block(block, prevouts, flags_of(entry));
        let inputs = entry["inputs_non_coinbase"].as_u64().expect("a number");
        assert_eq!(counts.passed as u64, inputs, "{block}");
        println!(
            "{block}: {} inputs passed, {} damaged ones failed",
            counts.passed, counts.damaged
        );
        passed += counts.passed;
        damaged += counts.damaged;
    }
    assert!(passed > 70_000, "{passed} inputs passed");
    assert!(damaged > 1_000, "{damaged} damaged signatures failed");
}

/// Core's GetBlockScriptFlags (validation.cpp); no block here is one of its exceptions.
pub(crate) fn flags_of(entry: &Value) -> ScriptFlags {
    let heights = match entry["network"].as_str() {
        Some("mainnet") => MAINNET,
        Some("testnet3") => TESTNET3,
        network => panic!("{network:?}"),
    };
    let height = entry["height"].as_u64().expect("a number");
    let begun = [
        (heights.dersig, ScriptFlags::DERSIG),
        (heights.checklocktimeverify, ScriptFlags::CHECKLOCKTIMEVERIFY),
        (heights.checksequenceverify, ScriptFlags::CHECKSEQUENCEVERIFY),
        (heights.segwit, ScriptFlags::NULLDUMMY),
    ];
    let always = ScriptFlags::P2SH | ScriptFlags::WITNESS | ScriptFlags::TAPROOT;
    let begun = begun.into_iter().filter(|(from, _)| height >= *from);
    begun.fold(always, |flags, (_, flag)| flags | flag)
}

struct Counts {
    passed: usize,
    damaged: usize,
}

fn judge_block(block: &str, prevouts: &str, flags: ScriptFlags) -> Counts {
    let bytes = shared_file(&format!("blocks/{block}")).expect("the index was there");
    let block = Block::from_bytes(&bytes).expect("block parses");
    let mut view = read_prevouts(prevouts);
    let mut counts = Counts { passed: 0, damaged: 0 };
    for (index, tx) in block.view().txs().enumerate() {
        if index != 0 {
            let spent: Vec<Output> =
                tx.inputs().map(|input| view[&input.prevout].clone()).collect();
            // The twin is quadratic, and a block of 20,000 inputs has transactions of thousands.
            if spent.len() <= 1_000 {
                assert_eq!(Pair::new(tx.bytes(), &spent).first_failure(flags), None);
            } else {
                let prepared = prepare(tx.bytes(), &spent).expect("well-formed");
                assert_eq!(prepared.verify(flags), Ok(()));
            }
            counts.passed += spent.len();
            if index % 7 == 1 {
                counts.damaged += usize::from(judge_damaged(tx, &spent, flags));
            }
        }
        for (vout, output) in tx.outputs().enumerate() {
            let outpoint = OutPoint { txid: tx.txid(), vout: vout as u32 };
            let script_pubkey = output.script_pubkey.to_vec();
            view.insert(outpoint, Output { value: output.value, script_pubkey });
        }
    }
    counts
}

/// Flips a bit of the first input's signature where that is found without running scripts: the
/// first push of a P2PK or P2PKH spend, the first witness item of a P2WPKH or taproot key spend.
fn judge_damaged(tx: TxView<'_>, spent: &[Output], flags: ScriptFlags) -> bool {
    let input = tx.input(0).expect("a transaction has inputs");
    let script_sig = input.script_sig;
    let witness = tx.witnesses().next().expect("one an input");
    let signature = match (script_sig, spent[0].script_pubkey.as_slice()) {
        ([len @ 0x41..=0x49, rest @ ..], [.., 0xac]) => rest.get(..usize::from(*len)),
        ([], [0x00 | 0x51, ..]) => witness.item(0).filter(|item| (64..=73).contains(&item.len())),
        _ => None,
    };
    let Some(signature) = signature else { return false };
    let at = signature.as_ptr().addr() - tx.bytes().as_ptr().addr();
    let mut bytes = tx.bytes().to_vec();
    bytes[at + 20] ^= 1;
    let prepared = prepare(&bytes, spent).expect("still parses");
    assert_eq!(prepared.verify_input(0, flags), Err(ScriptError::Rejected { input: 0 }));
    true
}

/// `txid vout value script ..` under a heading.
pub(crate) fn read_prevouts(file: &str) -> HashMap<OutPoint, Output> {
    let text = shared_file(&format!("blocks/{file}")).expect("the index was there");
    let text = String::from_utf8(text).expect("text");
    let lines = text.lines().skip(1);
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let txid = fields[0].parse().expect("a txid");
            let outpoint = OutPoint { txid, vout: fields[1].parse().expect("an index") };
            let value = fields[2].parse().expect("a value");
            let script_pubkey = hex::decode(fields[3]).expect("a script is hex");
            (outpoint, Output { value, script_pubkey })
        })
        .collect()
}
