//! The cases of Core's `validation_tests.cpp`, signet_parse_tests, and what the spend looks like.

use godwit_primitives::{Block, Transaction, TxOut};

use super::*;
use crate::fixtures::{bytes, coinbase, mined, spend};

const CHALLENGE: [u8; 1] = [0x51];

/// A block whose coinbase commits with `sections` pushed after OP_RETURN, and one more transaction.
fn block(sections: &[&[u8]]) -> Block {
    let mut script_pubkey = vec![OP_RETURN];
    sections.iter().for_each(|section| push_data(&mut script_pubkey, section));
    block_with_script(script_pubkey)
}

fn block_with_script(script_pubkey: Vec<u8>) -> Block {
    let mut coinbase = coinbase(1);
    coinbase.outputs.push(TxOut { value: 0, script_pubkey });
    mined(&[coinbase, spend()])
}

/// The witness commitment of BIP141 with 32 bytes of 0xff.
fn commitment() -> Vec<u8> {
    let mut section = vec![0xaa, 0x21, 0xa9, 0xed];
    section.extend([0xff; 32]);
    section
}

fn section(solution: &[u8]) -> Vec<u8> {
    [&SIGNET_HEADER, solution].concat()
}

fn decoded(bytes: &[u8]) -> Transaction {
    let tx = TxView::parse(bytes).unwrap();
    assert_eq!(tx.bytes(), bytes);
    tx.to_owned()
}

fn to_sign_of(block: &Block) -> Option<Transaction> {
    let spend = signet_spend(block.view(), &CHALLENGE)?;
    let (to_spend, to_sign) = (decoded(&spend.to_spend), decoded(&spend.to_sign));
    assert_eq!((to_spend.version, to_spend.lock_time), (0, 0));
    assert_eq!((to_sign.version, to_sign.lock_time), (0, 0));
    assert_eq!(to_spend.inputs[0].prevout, OutPoint::NULL);
    assert_eq!(to_spend.outputs, [TxOut { value: 0, script_pubkey: CHALLENGE.to_vec() }]);
    assert_eq!(to_sign.inputs[0].prevout, OutPoint { txid: to_spend.txid(), vout: 0 });
    assert_eq!(to_sign.outputs, [TxOut { value: 0, script_pubkey: vec![OP_RETURN] }]);
    assert_eq!(bytes(&to_sign), spend.to_sign);
    Some(to_sign)
}

/// What the spend signs: the push after OP_0.
fn signed(block: &Block) -> Vec<u8> {
    let spend = signet_spend(block.view(), &CHALLENGE).unwrap();
    let script_sig = decoded(&spend.to_spend).inputs[0].script_sig.clone();
    assert_eq!(script_sig[..2], [OP_0, 72]);
    script_sig[2..].to_vec()
}

#[test]
fn a_commitment_is_needed() {
    assert!(signet_spend(mined(&[]).view(), &CHALLENGE).is_none());
    assert!(signet_spend(mined(&[coinbase(1), spend()]).view(), &CHALLENGE).is_none());
}

#[test]
fn without_a_solution_script_and_witness_are_empty() {
    for block in [block(&[&commitment()]), block(&[&commitment(), &section(&[])])] {
        let to_sign = to_sign_of(&block).unwrap();
        assert!(to_sign.inputs[0].script_sig.is_empty());
        assert!(to_sign.inputs[0].witness.is_empty());
        assert_eq!(signed(&block)[36..68], *block.header().merkle_root.as_bytes());
    }
}

#[test]
fn a_solution_is_one_script_and_one_witness() {
    let of = |solution: &[u8]| to_sign_of(&block(&[&commitment(), &section(solution)]));
    assert!(of(&[0x01, 0x51]).is_none(), "no witness");
    let to_sign = of(&[0x01, 0x51, 0x00]).unwrap();
    assert_eq!(to_sign.inputs[0].script_sig, [0x51]);
    assert!(to_sign.inputs[0].witness.is_empty());
    assert!(of(&[0x01, 0x51, 0x00, 0x00]).is_none(), "more data");
    let to_sign = of(&[0x00, 0x03, 0x00, 0x02, 7, 8, 0x01, 9]).unwrap();
    assert!(to_sign.inputs[0].script_sig.is_empty());
    assert_eq!(to_sign.inputs[0].witness, [vec![], vec![7, 8], vec![9]]);
    // Items may all be empty.
    assert_eq!(of(&[0x00, 0x01, 0x00]).unwrap().inputs[0].witness, [vec![]]);
    for bad in [
        &[0x02, 0x51][..],
        &[0x00, 0x01],
        &[0x00, 0x02, 0x00],
        &[0x00, 0xfd, 0x01, 0x00, 0x00],
        &[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert!(of(bad).is_none(), "{bad:?}");
    }
}

#[test]
fn the_solution_signs_the_block_without_itself() {
    let plain = block(&[&commitment(), &SIGNET_HEADER]);
    let solved = block(&[&commitment(), &section(&[0x01, 0x51, 0x00])]);
    let data = signed(&solved);
    assert_eq!(data, signed(&plain));
    assert_eq!(data[..4], solved.header().version.to_le_bytes());
    assert_eq!(data[4..36], *solved.header().prev_blockhash.as_bytes());
    assert_eq!(data[36..68], *plain.header().merkle_root.as_bytes());
    assert_ne!(data[36..68], *solved.header().merkle_root.as_bytes());
    assert_eq!(data[68..], solved.header().time.to_le_bytes());
}

#[test]
fn only_the_first_section_with_data_is_taken() {
    let first = section(&[0x00, 0x00]);
    let second = section(&[0x01, 0x51, 0x00]);
    let block = block(&[&commitment(), &SIGNET_HEADER, &first, &second]);
    assert!(to_sign_of(&block).unwrap().inputs[0].script_sig.is_empty());
    let left = self::block(&[&commitment(), &SIGNET_HEADER, &SIGNET_HEADER, &second]);
    assert_eq!(signed(&block)[36..68], *left.header().merkle_root.as_bytes());
}

/// Core writes a script with a solution anew, and what it signs depends on how.
#[test]
fn the_rest_of_the_script_is_rewritten_as_core_does() {
    let mut script = vec![OP_RETURN];
    push_data(&mut script, &commitment());
    let start = script.clone();
    push_data(&mut script, &section(&[0x00, 0x00]));
    // A push in a long form, one of nothing, an operation, a truncated push.
    script.extend([0x4d, 1, 0, 9, 0x4c, 0, 0x61, 0x05, 1]);
    let solved = block_with_script(script);
    let mut rewritten = start;
    push_data(&mut rewritten, &SIGNET_HEADER);
    rewritten.extend([1, 9, 0x4c, 0x61]);
    let expected = block_with_script(rewritten);
    assert_eq!(signed(&solved)[36..68], *expected.header().merkle_root.as_bytes());
}
