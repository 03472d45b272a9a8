//! A key file for `wpkh(A/*)`, and a PSBT that spends its coins to outputs that name its keys.

use bitcoin::bip32::{DerivationPath, Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, CompressedPublicKey, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut,
    Txid, Witness, absolute, hashes::Hash,
};

use super::*;

fn key(letter: char) -> Xpriv {
    Xpriv::new_master(Network::Regtest, &[letter as u8; 32]).expect("a valid key")
}

pub(super) fn extended_public_key(letter: char) -> Xpub {
    Xpub::from_priv(&Secp256k1::new(), &key(letter))
}

/// A script of which one of two keys signs.
pub(super) fn one_of(keys: [bitcoin::PublicKey; 2]) -> ScriptBuf {
    let script = bitcoin::script::Builder::new().push_int(1).push_key(&keys[0]).push_key(&keys[1]);
    script.push_int(2).push_opcode(bitcoin::opcodes::all::OP_CHECKMULTISIG).into_script()
}

pub(super) fn public_key(letter: char, index: u32) -> bitcoin::PublicKey {
    let secp = Secp256k1::new();
    let path: DerivationPath = format!("m/{index}").parse().expect("a path");
    let child = key(letter).derive_priv(&secp, &path).expect("it has one");
    bitcoin::PublicKey::new(child.private_key.public_key(&secp))
}

pub(super) fn wpkh(letter: char, index: u32) -> ScriptBuf {
    let key = CompressedPublicKey(public_key(letter, index).inner);
    ScriptBuf::new_p2wpkh(&key.wpubkey_hash())
}

pub(super) fn key_file(place: &Datadir, name: &str, network: NetworkKind) -> PathBuf {
    key_file_with(place, name, network, &[])
}

/// The same with other public descriptors of its key besides.
pub(super) fn key_file_with(
    place: &Datadir,
    name: &str,
    network: NetworkKind,
    more: &[String],
) -> PathBuf {
    let path = place.beside(name);
    let mut store = KeyStore::create(&path, &passphrase(), weak_kdf()).expect("a new file");
    let text = secret(&format!("wpkh({}/*)", key('A')));
    let split = split_private_descriptor((&text).into(), NetworkKind::Test).expect("valid");
    let descriptors = split.descriptors.into_iter().map(|split| split.text);
    let descriptors = descriptors.chain(more.iter().cloned()).map(EntryDescriptor::new).collect();
    let (label, keys) = (String::new(), split.keys);
    let entry = Entry { label, created: 0, network, descriptors, keys, words: None };
    store.insert(entry).expect("it is new");
    path
}

/// Spends `wpkh(A/0)` and `wpkh(A/1)`, worth 0.1 each, with witness outputs alone.
pub(super) fn spend(outputs: &[ScriptBuf]) -> bitcoin::Psbt {
    let input = |vout| TxIn {
        previous_output: OutPoint { txid: Txid::from_byte_array([1; 32]), vout },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let output = |script: &ScriptBuf| TxOut {
        value: Amount::from_sat((20_000_000 - 1_000) / outputs.len() as u64),
        script_pubkey: script.clone(),
    };
    let transaction = Transaction {
        version: Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![input(0), input(1)],
        output: outputs.iter().map(output).collect(),
    };
    let mut psbt = bitcoin::Psbt::from_unsigned_tx(transaction).expect("it is unsigned");
    for (index, input) in (0..).zip(&mut psbt.inputs) {
        let (value, script_pubkey) = (Amount::from_sat(10_000_000), wpkh('A', index));
        input.witness_utxo = Some(TxOut { value, script_pubkey });
        input.bip32_derivation.insert(public_key('A', index).inner, source(index));
    }
    psbt
}

pub(super) fn source(index: u32) -> bitcoin::bip32::KeySource {
    let fingerprint = extended_public_key('A').fingerprint();
    (fingerprint, format!("m/{index}").parse().expect("a path"))
}
