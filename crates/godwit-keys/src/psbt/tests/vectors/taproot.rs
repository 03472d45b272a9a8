//! Vectors of BIP340 and BIP341: which outputs belong to a key and its scripts, what is signed to spend
//! them, and which signatures are valid.

use std::collections::BTreeSet;

use bitcoin::bip32::{DerivationPath, Fingerprint};
use bitcoin::hashes::Hash;
use bitcoin::psbt::{Input, PsbtSighashType};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::sighash::TapSighashType;
use bitcoin::taproot::{
    self, ControlBlock, LeafVersion, TapLeafHash, TapNodeHash, TapTree, TapTweakHash,
    TaprootBuilder,
};
use bitcoin::{
    Address, Network, OutPoint, Script, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid,
    Witness, XOnlyPublicKey, absolute, transaction,
};
use godwit_secret::SecretArray;
use godwit_testdata::shared_file;

use super::*;
use crate::private_key::PrivateKey;
use crate::psbt::sighash::Digests;
use crate::psbt::signatures::verify_schnorr;
use crate::psbt::spent::{classify, output_key};
use crate::psbt::{InputObjection, Sighash, SpendKind};

const BIP341: &str = "bip341_wallet_vectors.json";

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(text(value)).expect("hexadecimal")
}

fn key(value: &Value) -> XOnlyPublicKey {
    text(value).parse().expect("a key")
}

fn script(value: &Value) -> ScriptBuf {
    ScriptBuf::from_bytes(bytes(value))
}

fn root(value: &Value) -> Option<TapNodeHash> {
    value.as_str().map(|hash| hash.parse().expect("a hash"))
}

/// An output of the vectors, with what it is made of.
struct Output {
    script: ScriptBuf,
    internal: XOnlyPublicKey,
    /// Depth, script and version, from left to right.
    leaves: Vec<(u8, ScriptBuf, LeafVersion)>,
}

impl Output {
    fn of(vector: &Value) -> Self {
        Output {
            script: script(&vector["expected"]["scriptPubKey"]),
            internal: key(&vector["given"]["internalPubkey"]),
            leaves: leaves(&vector["given"]["scriptTree"], 0),
        }
    }

    fn tree(&self) -> Option<TapTree> {
        let mut tree = TaprootBuilder::new();
        for (depth, leaf, version) in &self.leaves {
            let added = tree.add_leaf_with_ver(*depth, leaf.clone(), *version);
            tree = added.expect("leaves in their order");
        }
        (!self.leaves.is_empty()).then(|| tree.try_into_taptree().expect("a whole tree"))
    }
}

fn leaves(tree: &Value, depth: u8) -> Vec<(u8, ScriptBuf, LeafVersion)> {
    match tree {
        Value::Null => Vec::new(),
        Value::Array(halves) => halves.iter().flat_map(|half| leaves(half, depth + 1)).collect(),
        leaf => {
            let version = leaf["leafVersion"].as_u64().expect("a number") as u8;
            let version = LeafVersion::from_consensus(version).expect("a version");
            vec![(depth, script(&leaf["script"]), version)]
        }
    }
}

#[test]
fn outputs_of_bip341() {
    let Some(file) = core_unit(BIP341) else { return };
    let (mut outputs, mut blocks) = (0, 0);
    for vector in list(&file["scriptPubKey"]) {
        let (computed, expected) = (&vector["intermediary"], &vector["expected"]);
        let output = Output::of(vector);
        let root = output.tree().map(|tree| tree.root_hash());
        assert_eq!(root, self::root(&computed["merkleRoot"]));
        let tweak = TapTweakHash::from_key_and_tweak(output.internal, root);
        assert_eq!(tweak.to_string(), text(&computed["tweak"]));
        assert_eq!(output_key(&output.script), Some(key(&computed["tweakedPubkey"])));
        let address = Address::from_script(&output.script, Network::Bitcoin).expect("an address");
        assert_eq!(address.to_string(), text(&expected["bip350Address"]));

        let of_key = |internal, root| Input {
            tap_internal_key: Some(internal),
            tap_merkle_root: root,
            ..Input::default()
        };
        let right = of_key(output.internal, root);
        let found = classify(&output.script, &right);
        assert_eq!(found, Ok((SpendKind::Tr, output.script.clone())));
        let other_root = Some(TapNodeHash::from_byte_array([7; 32]));
        for wrong in [of_key(output.internal, other_root), of_key(other_key(), root)] {
            let found = classify(&output.script, &wrong);
            assert_eq!(found, Err(InputObjection::TaprootKeyMismatch));
        }
        outputs += 1;
        blocks += check_leaves(&output, right, vector);
    }
    assert_eq!((outputs, blocks), (7, 12));
}

/// Every leaf with the control block that leads from it to the output. Returns how many.
fn check_leaves(output: &Output, fields: Input, vector: &Value) -> usize {
    let hashes = list(&vector["intermediary"]["leafHashes"]);
    let blocks = list(&vector["expected"]["scriptPathControlBlocks"]);
    assert!(output.leaves.len() == hashes.len() && hashes.len() == blocks.len());
    for (((_, leaf, version), hash), block) in output.leaves.iter().zip(hashes).zip(blocks) {
        assert_eq!(TapLeafHash::from_script(leaf, *version).to_string(), text(hash));
        let block = ControlBlock::decode(&bytes(block)).expect("a control block");
        let with = |leaf: &Script| {
            let mut fields = fields.clone();
            fields.tap_scripts.insert(block.clone(), (leaf.to_owned(), *version));
            classify(&output.script, &fields).map(|(kind, _)| kind)
        };
        assert_eq!(with(leaf), Ok(SpendKind::Tr));
        let mut other = leaf.to_bytes();
        other[5] ^= 1;
        assert_eq!(with(Script::from_bytes(&other)), Err(InputObjection::TaprootLeafMismatch));
    }
    blocks.len()
}

/// None of the vectors has it.
fn other_key() -> XOnlyPublicKey {
    XOnlyPublicKey::from_slice(&bitcoin::secp256k1::constants::GENERATOR_X).expect("a point")
}

/// A PSBT says of its own outputs what they are made of: there the tree is written out.
#[test]
fn a_psbts_own_outputs_are_recognized() {
    let Some(file) = core_unit(BIP341) else { return };
    let outputs: Vec<Output> = list(&file["scriptPubKey"]).iter().map(Output::of).collect();
    let value = Amount::from_sat(1_000);
    let paid = outputs.iter().map(|output| TxOut { value, script_pubkey: output.script.clone() });
    let input = TxIn {
        previous_output: OutPoint { txid: Txid::all_zeros(), vout: 0 },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let mut psbt = bitcoin::Psbt::from_unsigned_tx(Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![input],
        output: paid.collect(),
    })
    .expect("it is unsigned");
    for (fields, output) in psbt.outputs.iter_mut().zip(&outputs) {
        fields.tap_internal_key = Some(output.internal);
        fields.tap_tree = output.tree();
    }
    let kinds = |psbt: &bitcoin::Psbt| {
        let review = review(&Psbt::decode(&psbt.serialize()).expect("a PSBT"));
        review.outputs.into_iter().map(|output| output.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&psbt), vec![Ok(SpendKind::Tr); 7]);
    // The first has no tree, all others do.
    psbt.outputs.iter_mut().for_each(|fields| fields.tap_tree = None);
    let mut without = vec![Err(InputObjection::TaprootKeyMismatch); 7];
    without[0] = Ok(SpendKind::Tr);
    assert_eq!(kinds(&psbt), without);
}

/// One that is spent by its key.
struct Spend {
    index: usize,
    secret: [u8; 32],
    internal: XOnlyPublicKey,
    root: Option<TapNodeHash>,
    kind: TapSighashType,
    digest: [u8; 32],
    /// Signature and type, as in the witness.
    signature: Vec<u8>,
}

impl Spend {
    fn of(vector: &Value) -> Self {
        let (given, computed) = (&vector["given"], &vector["intermediary"]);
        let array = |value: &Value| bytes(value).try_into().expect("32 bytes");
        let [signature] = list(&vector["expected"]["witness"]) else { panic!("a signature") };
        let kind = given["hashType"].as_u64().expect("a number") as u8;
        let (internal, root) = (key(&computed["internalPubkey"]), root(&given["merkleRoot"]));
        let tweak = TapTweakHash::from_key_and_tweak(internal, root);
        assert_eq!(tweak.to_string(), text(&computed["tweak"]));
        Spend {
            index: given["txinIndex"].as_u64().expect("a number") as usize,
            secret: array(&given["internalPrivkey"]),
            internal,
            root,
            kind: TapSighashType::from_consensus_u8(kind).expect("a type"),
            digest: array(&computed["sigHash"]),
            signature: bytes(signature),
        }
    }

    fn key(&self) -> StoredKey {
        let number = SecretArray::from_plain_and_wipe(&mut { self.secret }).expect("memory");
        let key = PrivateKey::from_secret(number).expect("in range");
        StoredKey::Single { key, compressed: true }
    }
}

/// The transaction of the vectors and the outputs that it spends, and how the keys spend some.
fn key_path_spends(file: &Value) -> (Transaction, Vec<TxOut>, Vec<Spend>) {
    let [vector] = list(&file["keyPathSpending"]) else { panic!("one transaction") };
    let raw = text(&vector["given"]["rawUnsignedTx"]);
    let transaction = encode::deserialize_hex(raw).expect("a transaction");
    let spent = list(&vector["given"]["utxosSpent"]).iter().map(|output| TxOut {
        value: Amount::from_sat(output["amountSats"].as_u64().expect("a number")),
        script_pubkey: script(&output["scriptPubKey"]),
    });
    let spends: Vec<Spend> = list(&vector["inputSpending"]).iter().map(Spend::of).collect();
    // `SIGHASH_DEFAULT` and every pair of outputs and inputs.
    let kinds: BTreeSet<u8> = spends.iter().map(|spend| spend.kind as u8).collect();
    assert_eq!(kinds, [0, 1, 2, 3, 0x81, 0x82, 0x83].into());
    assert_eq!(spends.len(), 7);
    (transaction, spent.collect(), spends)
}

#[test]
fn hashes_of_bip341s_key_paths() {
    let Some(file) = core_unit(BIP341) else { return };
    let (transaction, spent, spends) = key_path_spends(&file);
    let mut digests = Digests::new(&transaction, spent.iter().cloned().map(Some).collect());
    for spend in &spends {
        assert_eq!(digests.taproot(spend.index, None, spend.kind), Ok(spend.digest));
    }
    // With one output unknown, only those types that commit to their own input alone are left.
    let unknown = spent.iter().cloned().enumerate().map(|(i, output)| (i != 2).then_some(output));
    let mut digests = Digests::new(&transaction, unknown.collect());
    for spend in &spends {
        let expected = match Sighash::Taproot(spend.kind).anyone_can_pay() {
            true => Ok(spend.digest),
            false => Err(InputObjection::MissingOtherOutput),
        };
        assert_eq!(digests.taproot(spend.index, None, spend.kind), expected);
    }
}

/// The vectors' signatures have auxiliary randomness of zeros, as ours.
#[test]
fn signatures_of_bip341s_key_paths() {
    let Some(file) = core_unit(BIP341) else { return };
    let (transaction, spent, spends) = key_path_spends(&file);
    let mut unsigned = bitcoin::Psbt::from_unsigned_tx(transaction).expect("it is unsigned");
    for (input, output) in unsigned.inputs.iter_mut().zip(spent) {
        input.witness_utxo = Some(output);
    }
    for spend in &spends {
        let input = &mut unsigned.inputs[spend.index];
        input.tap_internal_key = Some(spend.internal);
        input.tap_merkle_root = spend.root;
        let source = (Fingerprint::default(), DerivationPath::default());
        input.tap_key_origins.insert(spend.internal, (Vec::new(), source));
        input.sighash_type = Some(PsbtSighashType::from(spend.kind));
    }
    let mut psbt = Psbt::decode(&unsigned.serialize()).expect("a PSBT");
    let keys: Vec<StoredKey> = spends.iter().map(Spend::key).collect();
    // One of the other inputs is a legacy one, the other of segwit version 0.
    let signed = psbt.sign(&mut |source, key| look_up(&keys, source, key), &permissive());
    let signed = signed.expect("the keys are ours");
    let expected: Vec<usize> = spends.iter().map(|spend| spend.index).collect();
    assert_eq!(signed.iter().map(|signed| signed.input).collect::<Vec<_>>(), expected);
    let review = psbt.review(&mut |_, _| Ok(true)).expect("no key is looked up");
    for spend in &spends {
        let signature = psbt.inputs()[spend.index].tap_key_sig.expect("it was signed");
        assert_eq!(signature.to_vec(), spend.signature, "input {}", spend.index);
        let [reviewed] = &review.inputs[spend.index].signatures[..] else { panic!("one") };
        assert_eq!(reviewed.valid, Some(true));
    }
}

#[test]
fn signatures_of_bip340() {
    let Some(file) = shared_file("vectors/crypto/bip340_test_vectors.csv") else { return };
    let table = String::from_utf8(file).expect("text");
    let secp = Secp256k1::verification_only();
    let (mut valid, mut wrong, mut no_key, mut other_lengths) = (0, 0, 0, 0);
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, public, _, message, signature, result, ..] = fields[..] else {
            panic!("a short line: {line}")
        };
        let [public, message, signature] =
            [public, message, signature].map(|field| hex::decode(field).expect("hexadecimal"));
        // Transactions sign hashes: no message of another length gets here.
        let Ok(digest) = <[u8; 32]>::try_from(message) else {
            other_lengths += 1;
            continue;
        };
        // As the review reads them from an output and from the field of a PSBT.
        let script = ScriptBuf::from_bytes([&[0x51, 0x20], &public[..]].concat());
        let signature = taproot::Signature::from_slice(&signature).expect("64 bytes").signature;
        let key = output_key(&script);
        let accepted = key.is_some_and(|key| verify_schnorr(&secp, &digest, &signature, &key));
        assert_eq!(accepted, result == "TRUE", "{line}");
        match (key, accepted) {
            (_, true) => valid += 1,
            (Some(_), false) => wrong += 1,
            (None, false) => no_key += 1,
        }
    }
    assert_eq!((valid, wrong, no_key, other_lengths), (5, 8, 2, 4));
}
