//! Messages against Core's sighash.json, the vectors of BIP143 and BIP341, and rust-bitcoin over every
//! input of the real blocks.

use bitcoin::consensus::deserialize;
use bitcoin::hashes::{Hash, sha256d};
use bitcoin::key::Secp256k1;
use bitcoin::sighash::{Annex, EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::TapLeafHash;
use bitcoin::{Amount, Script, Transaction, TxOut};
use godwit_primitives::{Block, OutPoint, TxView};
use godwit_script::SpendingTx;
use godwit_testdata::shared_file;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::data::{kernel_vectors, shared_vectors};
use crate::plan::{Kind, Plan};
use crate::real_blocks::read_prevouts;
use crate::twin::{Output, spent_outputs};

const OP_CODESEPARATOR: u8 = 0xab;

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().expect("a string")).expect("hex")
}

fn spending<'a>(tx: &'a [u8], spent: &'a [Output]) -> SpendingTx<'a> {
    let view = TxView::parse(tx).expect("transaction parses");
    SpendingTx::new(view, spent_outputs(spent)).expect("one output an input")
}

fn nothing(tx: &[u8]) -> Vec<Output> {
    let inputs = TxView::parse(tx).expect("transaction parses").input_count();
    vec![Output { value: 0, script_pubkey: Vec::new() }; inputs]
}

/// Rows of transaction, script, input, hash type of 32 bits, hash in reversed order.
#[test]
fn legacy_messages_of_core() {
    let rows = kernel_vectors("sighash.json");
    assert_eq!(judge_legacy(&rows), 500);
    if let Some(rows) = shared_vectors("sighash.json") {
        assert_eq!(judge_legacy(&rows), 500);
    }
}

fn judge_legacy(rows: &Value) -> usize {
    let rows = rows.as_array().expect("an array of rows").iter().skip(1);
    rows.map(|row| {
        let (tx, mut script) = (bytes(&row[0]), bytes(&row[1]));
        // These scripts push nothing, and Core leaves out what is no script that is claimed.
        script.retain(|opcode| *opcode != OP_CODESEPARATOR);
        let input = row[2].as_u64().expect("a number") as usize;
        let hash_type = row[3].as_i64().expect("a number") as i32 as u32;
        let spent = nothing(&tx);
        let message = spending(&tx, &spent).legacy_message(input, &script, hash_type);
        let mut expected = bytes(&row[4]);
        expected.reverse();
        assert_eq!(message.map(Vec::from), Some(expected), "{row}");
    })
    .count()
}

#[test]
fn segwit_messages_of_bip143() {
    let native = "0100000002fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f0000000000eeffff\
        ffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9\
        148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa81\
        5988ac11000000";
    let key = "76a9141d0f172a0ecb48aee1be1f2687d2963ae33f71a188ac";
    let all = "c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670";
    judge_segwit(native, key, 600_000_000, 1, &[(1, all)]);

    let wrapped = "0100000001db6b1b20aa0fd7b23880be2ecbd4a98130974cf4748fb66092ac4d3ceb1a54770100000000feffff\
        ff02b8b4eb0b000000001976a914a457b684d7f0d539a46a45bbc043f35b59d0d96388ac0008af2f000000001976a914fd270b1ee6ab\
        caea97fea7ad0402e8bd8ad6d77c88ac92040000";
    let key = "76a91479091972186c449eb1ded22b78e40d009bdf008988ac";
    let all = "64f3b0f4dd2bb3aa1ce8566d220cc74dda9df97d8490cc81d89d735c92e59fb6";
    judge_segwit(wrapped, key, 1_000_000_000, 0, &[(1, all)]);

    let multisig = "010000000136641869ca081e70f394c6948e8af409e18b619df2ed74aa106c1ca29787b96e0100000000ffffff\
        ff0200e9a435000000001976a914389ffce9cd9ae88dcc0631e88a821ffdbe9bfe2688acc0832f05000000001976a9147480a33f9506\
        89af511e6e84c138dbbd3c3ee41588ac00000000";
    let script = "56210307b8ae49ac90a048e9b53357a2354b3334e9c8bee813ecb98e99a7e07e8c3ba32103b28f0c28bfab54554a\
        e8c658ac5c3e0ce6e79ad336331f78c428dd43eea8449b21034b8113d703413d57761b8b9781957b8c0ac1dfe69f492580ca4195f503\
        76ba4a21033400f6afecb833092a9a21cfdf1ed1376e58c5d1f47de74683123987e967a8f42103a6d48b1131e94ba04d9737d61acdaa\
        1322008af9602b3b14862c07a1789aac162102d8b661b0b3302ee2f162b09e07a55ad5dfbe673a9f01d9f0c19617681024306b56ae";
    let messages = [
        (0x01, "185c0be5263dce5b4bb50a047973c1b6272bfbd0103a89444597dc40b248ee7c"),
        (0x02, "e9733bc60ea13c95c6527066bb975a2ff29a925e80aa14c213f686cbae5d2f36"),
        (0x03, "1e1f1c303dc025bd664acb72e583e933fae4cff9148bf78c157d1e8f78530aea"),
        (0x81, "2a67f03e63a6a422125878b40b82da593be8d4efaafe88ee528af6e5a9955c6e"),
        (0x82, "781ba15f3779d5542ce8ecb5c18716733a5ee42a6f51488ec96154934e2c890a"),
        (0x83, "511e8e52ed574121fc1b654970395502128263f62662e076dc6baf05c2e6a99b"),
    ];
    judge_segwit(multisig, script, 987_654_321, 0, &messages);
}

fn judge_segwit(tx: &str, script: &str, value: i64, input: usize, expected: &[(u32, &str)]) {
    let (tx, script) = (hex::decode(tx).expect("hex"), hex::decode(script).expect("hex"));
    let mut spent = nothing(&tx);
    spent[input].value = value;
    for (hash_type, expected) in expected {
        let message = spending(&tx, &spent).segwit_message(input, &script, *hash_type);
        assert_eq!(message.map(hex::encode).as_deref(), Some(*expected), "{hash_type:#x}");
    }
}

#[test]
fn taproot_messages_of_bip341() {
    let vectors = kernel_vectors("bip341_wallet_vectors.json");
    let mut judged = 0;
    for case in vectors["keyPathSpending"].as_array().expect("an array of cases") {
        let tx = bytes(&case["given"]["rawUnsignedTx"]);
        let spent = case["given"]["utxosSpent"].as_array().expect("an array of outputs");
        let spent: Vec<Output> = spent
            .iter()
            .map(|output| Output {
                value: output["amountSats"].as_i64().expect("a number"),
                script_pubkey: bytes(&output["scriptPubKey"]),
            })
            .collect();
        for of_input in case["inputSpending"].as_array().expect("an array of inputs") {
            let input = of_input["given"]["txinIndex"].as_u64().expect("a number") as usize;
            let hash_type = of_input["given"]["hashType"].as_u64().expect("a number") as u8;
            let message = spending(&tx, &spent).taproot_message(input, hash_type, None, None);
            let expected = bytes(&of_input["intermediary"]["sigHash"]);
            assert_eq!(message.map(Vec::from), Some(expected), "input {input}");
            judged += 1;
        }
    }
    assert_eq!(judged, 7);
}

/// For each input, whatever it is, messages of the usual hash type and others, counted through: as if it were
/// legacy, of version 0 and taproot. Of transactions with more than 200 inputs, legacy for each sixteenth.
#[test]
fn messages_of_real_blocks() {
    let Some(index) = shared_file("blocks/index.json") else { return };
    let index: Value = serde_json::from_slice(&index).expect("JSON");
    let mut inputs = 0;
    for entry in index.as_array().expect("an array of blocks") {
        let Some(prevouts) = entry["prevouts_file"].as_str() else { continue };
        let block = entry["file"].as_str().expect("a file name");
        let bytes = shared_file(&format!("blocks/{block}")).expect("the index was there");
        let block = Block::from_bytes(&bytes).expect("block parses");
        let mut view = read_prevouts(prevouts);
        for (index, tx) in block.view().txs().enumerate() {
            if index != 0 {
                let spent: Vec<Output> =
                    tx.inputs().map(|input| view[&input.prevout].clone()).collect();
                judge_tx(tx, &spent, inputs);
                inputs += spent.len();
            }
            for (vout, output) in tx.outputs().enumerate() {
                let outpoint = OutPoint { txid: tx.txid(), vout: vout as u32 };
                let script_pubkey = output.script_pubkey.to_vec();
                view.insert(outpoint, Output { value: output.value, script_pubkey });
            }
        }
    }
    println!("{inputs} inputs, seven messages of version 0 and seven of taproot each");
    assert!(inputs > 70_000);
}

fn judge_tx(tx: TxView<'_>, spent: &[Output], count: usize) {
    let spending = SpendingTx::new(tx, spent_outputs(spent)).expect("one output an input");
    let tx: Transaction = deserialize(tx.bytes()).expect("transaction parses");
    let prevouts: Vec<TxOut> = spent
        .iter()
        .map(|output| TxOut {
            value: Amount::from_sat(output.value as u64),
            script_pubkey: output.script_pubkey.clone().into(),
        })
        .collect();
    let mut cache = SighashCache::new(&tx);
    for input in 0..spent.len() {
        let number = count + input;
        let script = &spent[input].script_pubkey;
        // Those that scripts use, and one of the odd ones, which take turns.
        let odd = (number % 256) as u32;
        // A legacy message is as long as the transaction.
        let legacy_types = match spent.len() {
            0..=20 => vec![1, 2, 3, 0x81, 0x82, 0x83, odd],
            21..=200 => vec![[1, odd][number % 2]],
            _ if input % 16 == 0 => vec![[1, odd][number % 2]],
            _ => Vec::new(),
        };
        for hash_type in legacy_types {
            let legacy = cache.legacy_signature_hash(input, Script::from_bytes(script), hash_type);
            let legacy = legacy.expect("input exists").to_byte_array();
            assert_eq!(spending.legacy_message(input, script, hash_type), Some(legacy));
        }
        for hash_type in [1, 2, 3, 0x81, 0x82, 0x83, odd] {
            let segwit = segwit_message(&mut cache, input, script, spent[input].value, hash_type);
            assert_eq!(spending.segwit_message(input, script, hash_type), Some(segwit));
        }
        let annex = [&[0x50][..], &vec![7; number % 300]].concat();
        let extra = [None, Some(&annex[..])][number % 2];
        let leaf = [None, Some([number as u8; 32])][number / 2 % 2];
        for hash_type in [0, 1, 2, 3, 0x81, 0x82, 0x83] {
            let taproot = cache.taproot_signature_hash(
                input,
                &Prevouts::All(&prevouts),
                extra.map(|annex| Annex::new(annex).expect("it begins with 0x50")),
                leaf.map(|leaf| (TapLeafHash::from_byte_array(leaf), 0xffff_ffff)),
                TapSighashType::from_consensus_u8(hash_type).expect("defined"),
            );
            // There is none for a single output that does not exist.
            let taproot = taproot.ok().map(|hash| hash.to_byte_array());
            let message = spending.taproot_message(input, hash_type, extra, leaf.as_ref());
            assert_eq!(message, taproot);
        }
    }
}

/// As rust-bitcoin makes it, but with the hash type's own bits, which rust-bitcoin replaces.
pub(crate) fn segwit_message(
    cache: &mut SighashCache<&Transaction>,
    input: usize,
    script_code: &[u8],
    value: i64,
    hash_type: u32,
) -> [u8; 32] {
    let mut preimage = Vec::new();
    cache
        .segwit_v0_encode_signing_data_to(
            &mut preimage,
            input,
            Script::from_bytes(script_code),
            Amount::from_sat(value as u64),
            EcdsaSighashType::from_consensus(hash_type),
        )
        .expect("input exists");
    let at = preimage.len() - 4;
    preimage[at..].copy_from_slice(&hash_type.to_le_bytes());
    sha256d::Hash::hash(&preimage).to_byte_array()
}

/// The beginning of legacy messages is kept from one input to a later one, and of no use for an earlier one.
#[test]
fn legacy_messages_do_not_depend_on_the_order() {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..50 {
        let mut plan = Plan::random(Kind::KeyHash, &mut rng);
        (plan.inputs, plan.outputs) = (9, 9);
        let case = plan.build(&secp);
        let tx = case.bytes();
        let spending = spending(&tx, &case.spent);
        let cache = SighashCache::new(&case.tx);
        for _ in 0..100 {
            let (input, hash_type) = (rng.random_range(0..9), rng.random::<u8>().into());
            let expected =
                cache.legacy_signature_hash(input, Script::from_bytes(&[0xac]), hash_type);
            let message = spending.legacy_message(input, &[0xac], hash_type);
            assert_eq!(message, Some(expected.expect("input exists").to_byte_array()));
        }
    }
}

/// Types that BIP341 does not define have no message.
#[test]
fn taproot_has_seven_hash_types() {
    let tx = hex::decode(
        "0100000001000000000000000000000000000000000000000000000000000000000000000100000000\
        00ffffffff0100000000000000000000000000",
    );
    let tx = tx.expect("hex");
    let spent = nothing(&tx);
    let spending = spending(&tx, &spent);
    let defined: Vec<u8> =
        (0..=255).filter(|t| spending.taproot_message(0, *t, None, None).is_some()).collect();
    assert_eq!(defined, [0, 1, 2, 3, 0x81, 0x82, 0x83]);
    assert_eq!(spending.taproot_message(1, 0, None, None), None);
    assert_eq!(spending.legacy_message(1, &[], 1), None);
    assert_eq!(spending.segwit_message(1, &[], 1), None);
}
