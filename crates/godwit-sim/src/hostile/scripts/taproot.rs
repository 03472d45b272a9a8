//! Taproot outputs (BIP341): key path, commitments to scripts, annex.

use bitcoin::hashes::Hash;
use bitcoin::key::TapTweak;
use bitcoin::secp256k1::{Message, Parity, XOnlyPublicKey};
use bitcoin::sighash::{Annex, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::{LeafVersion, TapLeafHash, TapNodeHash};
use bitcoin::{OutPoint, ScriptBuf, Transaction, TxOut, Witness};

use super::super::asm::asm;
use super::super::stage::{self, Stage};
use super::{Prove, Row};
use crate::lock::Coin;

const KEY: u64 = 1 << 51;
const TAPSCRIPT: u8 = 0xc0;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    key_path(&mut rows);
    key_path_hash_types(&mut rows);
    annex(&mut rows);
    commitments(&mut rows);
    control_blocks(&mut rows);
    leaf_versions(&mut rows);
    rows
}

/// An output with one script, behind `path` other branches.
#[derive(Clone)]
pub(super) struct Tree {
    internal: XOnlyPublicKey,
    pub(super) leaf: ScriptBuf,
    version: u8,
    path: Vec<TapNodeHash>,
    parity: Parity,
    pub(super) script_pubkey: ScriptBuf,
}

impl Tree {
    pub(super) fn new(leaf: ScriptBuf) -> Tree {
        Tree::with(leaf, TAPSCRIPT, 0)
    }

    pub(super) fn with(leaf: ScriptBuf, version: u8, depth: usize) -> Tree {
        let keys = Stage::keys();
        let internal = keys.x_only(KEY);
        let leaf_version = LeafVersion::from_consensus(version).expect("an even leaf version");
        let mut node = TapNodeHash::from_script(&leaf, leaf_version);
        let path: Vec<TapNodeHash> = (0..depth)
            .map(|level| TapNodeHash::assume_hidden(keys.bytes(b"branch", level as u64)))
            .collect();
        for branch in &path {
            node = TapNodeHash::from_node_hashes(node, *branch);
        }
        let (output, parity) = internal.tap_tweak(keys.secp(), Some(node));
        let script_pubkey = ScriptBuf::new_p2tr_tweaked(output);
        Tree { internal, leaf, version, path, parity, script_pubkey }
    }

    pub(super) fn leaf_hash(&self) -> TapLeafHash {
        let version = LeafVersion::from_consensus(self.version).expect("checked when made");
        TapLeafHash::from_script(&self.leaf, version)
    }

    pub(super) fn control(&self) -> Vec<u8> {
        let mut control = vec![self.version | self.parity.to_u8()];
        control.extend_from_slice(&self.internal.serialize());
        self.path.iter().for_each(|branch| control.extend_from_slice(branch.as_byte_array()));
        control
    }

    /// `items`, the script and the control block.
    pub(super) fn witness(&self, items: &[Vec<u8>]) -> Vec<Vec<u8>> {
        [items, &[self.leaf.to_bytes(), self.control()]].concat()
    }

    /// A row that spends by the script with these items.
    pub(super) fn row(&self, name: &str, items: &[Vec<u8>], valid: bool) -> Row {
        let witness = self.witness(items);
        Row::fixed(name, self.script_pubkey.clone(), ScriptBuf::new(), &witness, valid)
    }
}

/// A coin that any witness item unlocks: its script is an OP_SUCCESS.
pub(in crate::hostile) struct AnythingGoes {
    coin: Coin,
    tree: Tree,
}

pub(in crate::hostile) fn anything_goes(stage: &mut Stage) -> AnythingGoes {
    let tree = Tree::new(asm("0x50"));
    let coin = stage.bare();
    let mut output = coin.tx_out();
    output.script_pubkey = tree.script_pubkey.clone();
    let tx = stage::unsigned(std::slice::from_ref(&coin), vec![output]);
    let block = stage.sealed(vec![tx.clone()]);
    stage.extend(&block);
    let outpoint = OutPoint { txid: tx.compute_txid(), vout: 0 };
    AnythingGoes { coin: Coin { outpoint, ..coin }, tree }
}

impl AnythingGoes {
    pub(in crate::hostile) fn transaction(&self, output: TxOut) -> Transaction {
        stage::unsigned(std::slice::from_ref(&self.coin), vec![output])
    }

    pub(in crate::hostile) fn witness_with(&self, item: &[u8]) -> Witness {
        Witness::from_slice(&self.tree.witness(&[item.to_vec()]))
    }
}

/// Key-path signature without a hash type byte.
fn key_signature(
    tx: &Transaction,
    index: usize,
    prevouts: &[TxOut],
    annex: Option<&[u8]>,
    hash_type: TapSighashType,
) -> Vec<u8> {
    let annex = annex.map(|bytes| Annex::new(bytes).expect("it starts with 0x50"));
    let hash = SighashCache::new(tx)
        .taproot_signature_hash(index, &Prevouts::All(prevouts), annex, None, hash_type)
        .expect("all prevouts are given");
    let keys = Stage::keys();
    let pair = keys.pair(KEY).tap_tweak(keys.secp(), None).to_keypair();
    keys.sign_schnorr(&pair, &Message::from(hash)).serialize().to_vec()
}

fn key_output() -> ScriptBuf {
    let keys = Stage::keys();
    ScriptBuf::new_p2tr(keys.secp(), keys.x_only(KEY), None)
}

/// A key-path row whose witness is made from the signature.
fn key_row(name: &str, valid: bool, shape: fn(Vec<u8>) -> Vec<Vec<u8>>) -> Row {
    let prove: Prove = Box::new(move |tx, index, prevouts| {
        let signature = key_signature(tx, index, prevouts, None, TapSighashType::Default);
        (ScriptBuf::new(), Witness::from_slice(&shape(signature)))
    });
    Row::new(name, key_output(), valid, prove)
}

fn key_path(rows: &mut Vec<Row>) {
    rows.push(key_row("key path", true, |signature| vec![signature]));
    rows.push(key_row("key path: changed signature", false, |mut signature| {
        signature[40] ^= 1;
        vec![signature]
    }));
    rows.push(key_row("key path: 63 bytes", false, |signature| vec![signature[..63].to_vec()]));
    rows.push(key_row("key path: empty signature", false, |_| vec![vec![]]));
    rows.push(key_row("key path: no witness", false, |_| vec![]));
    rows.push(key_row("key path: item before", false, |signature| vec![vec![], signature]));
    rows.push(key_row("key path: 66 bytes", false, |mut signature| {
        signature.extend([1, 1]);
        vec![signature]
    }));
    let prove: Prove = Box::new(|tx, index, prevouts| {
        let signature = key_signature(tx, index, prevouts, None, TapSighashType::Default);
        (asm("0"), Witness::from_slice(&[signature]))
    });
    rows.push(Row::new("key path: script signature", key_output(), false, prove));
    let prove: Prove = Box::new(|tx, index, prevouts| {
        let mut other = prevouts.to_vec();
        other[index].value += bitcoin::Amount::from_sat(1);
        let signature = key_signature(tx, index, &other, None, TapSighashType::Default);
        (ScriptBuf::new(), Witness::from_slice(&[signature]))
    });
    rows.push(Row::new("key path: another amount", key_output(), false, prove));
    let off_curve = asm(&format!("1 <{}>", "ff".repeat(32)));
    let witness = [vec![7; 64]];
    rows.push(Row::fixed("output key that is no point", off_curve, asm(""), &witness, false));
}

fn key_path_hash_types(rows: &mut Vec<Row>) {
    // Hash type byte, the type that is signed, validity.
    let table: [(u8, TapSighashType, bool); 10] = [
        (0x00, TapSighashType::Default, false),
        (0x01, TapSighashType::All, true),
        (0x02, TapSighashType::None, true),
        (0x03, TapSighashType::Single, true),
        (0x04, TapSighashType::All, false),
        (0x80, TapSighashType::All, false),
        (0x81, TapSighashType::AllPlusAnyoneCanPay, true),
        (0x82, TapSighashType::NonePlusAnyoneCanPay, true),
        (0x83, TapSighashType::SinglePlusAnyoneCanPay, true),
        (0xff, TapSighashType::All, false),
    ];
    for (byte, hash_type, valid) in table {
        let prove: Prove = Box::new(move |tx, index, prevouts| {
            let mut signature = key_signature(tx, index, prevouts, None, hash_type);
            signature.push(byte);
            (ScriptBuf::new(), Witness::from_slice(&[signature]))
        });
        let name = format!("key path: hash type {byte:#04x}");
        rows.push(Row::new(&name, key_output(), valid, prove));
    }
    for byte in [0x03, 0x83] {
        let witness = [vec![7; 64], vec![byte]].concat();
        let name = format!("key path: hash type {byte:#04x} without its output");
        let row = Row::fixed(&name, key_output(), ScriptBuf::new(), &[witness], false);
        rows.push(Row { second: true, ..row });
    }
}

fn annex(rows: &mut Vec<Row>) {
    const ANNEX: &[u8] = &[0x50, 1, 2, 3];
    // The annex that is shown, and the one that is signed.
    for (name, shown, signs, valid) in [
        ("annex", ANNEX, Some(ANNEX), true),
        ("annex not signed", ANNEX, None, false),
        ("another annex than signed", &[0x50, 1, 2, 4], Some(ANNEX), false),
        ("annex of its first byte", &[0x50], Some(&[0x50u8] as &'static [u8]), true),
    ] {
        let signed: Option<&'static [u8]> = signs;
        let shown: &'static [u8] = shown;
        let prove: Prove = Box::new(move |tx, index, prevouts| {
            let hash_type = TapSighashType::Default;
            let signature = key_signature(tx, index, prevouts, signed, hash_type);
            (ScriptBuf::new(), Witness::from_slice(&[signature.as_slice(), shown]))
        });
        rows.push(Row::new(&format!("key path: {name}"), key_output(), valid, prove));
    }
    let tree = Tree::new(asm("1"));
    let witness = [tree.witness(&[]), vec![ANNEX.to_vec()]].concat();
    let spk = tree.script_pubkey.clone();
    rows.push(Row::fixed("script path: annex", spk.clone(), asm(""), &witness, true));
    let witness = [tree.witness(&[]), vec![ANNEX.to_vec(), ANNEX.to_vec()]].concat();
    rows.push(Row::fixed("script path: two annexes", spk.clone(), asm(""), &witness, false));
    let witness = [ANNEX.to_vec()];
    rows.push(Row::fixed("annex alone is a signature", spk, asm(""), &witness, false));
}

fn commitments(rows: &mut Vec<Row>) {
    let tree = Tree::new(asm("1"));
    rows.push(tree.row("script path", &[], true));
    let other = Tree { leaf: asm("1 NOP"), ..tree.clone() };
    rows.push(other.row("script path: another script", &[], false));
    let keys = Stage::keys();
    let other = Tree { internal: keys.x_only(KEY + 1), ..tree.clone() };
    rows.push(other.row("script path: another internal key", &[], false));
    let other = Tree { parity: tree.parity ^ Parity::Odd, ..tree.clone() };
    rows.push(other.row("script path: wrong parity", &[], false));
    let other = Tree { path: vec![TapNodeHash::assume_hidden([1; 32])], ..tree.clone() };
    rows.push(other.row("script path: branch that is not there", &[], false));
    for (depth, valid) in [(1, true), (2, true), (128, true), (129, false)] {
        let tree = Tree::with(asm("1"), TAPSCRIPT, depth);
        rows.push(tree.row(&format!("script path: depth {depth}"), &[], valid));
    }
    let mut tree = Tree::with(asm("1"), TAPSCRIPT, 2);
    tree.path.swap(0, 1);
    rows.push(tree.row("script path: branches swapped", &[], false));
}

fn control_blocks(rows: &mut Vec<Row>) {
    let tree = Tree::new(asm("1"));
    for length in [0, 1, 32, 34, 64, 66] {
        let mut control = tree.control();
        control.resize(length, 0);
        let witness = [tree.leaf.to_bytes(), control];
        let name = format!("control block of {length} bytes");
        rows.push(Row::fixed(&name, tree.script_pubkey.clone(), asm(""), &witness, false));
    }
    let witness = [tree.control()];
    let spk = tree.script_pubkey.clone();
    rows.push(Row::fixed("control block without a script", spk, asm(""), &witness, false));
}

fn leaf_versions(rows: &mut Vec<Row>) {
    for version in [0xc2, 0xfe, 0x66, 0x02] {
        let Ok(_) = LeafVersion::from_consensus(version) else { continue };
        let tree = Tree::with(asm("RETURN"), version, 0);
        let name = format!("leaf version {version:#04x} is free");
        rows.push(tree.row(&name, &[], true));
    }
    let tree = Tree::with(asm("1"), 0xc2, 0);
    let other = Tree { version: TAPSCRIPT, ..tree };
    rows.push(other.row("another leaf version than committed", &[], false));
    rows.push(nested_key_path());
    let large = vec![vec![7; 521]];
    let tree = Tree::with(asm("0"), 0xc2, 0);
    rows.push(tree.row("free leaf version with a large item", &large, true));
}

/// P2SH around a taproot program is free for anyone: BIP341 leaves it undefined.
fn nested_key_path() -> Row {
    let program = key_output();
    let script_sig = super::super::asm::push(program.as_bytes());
    Row::fixed("nested taproot is free", program.to_p2sh(), script_sig, &[vec![1]], true)
}
