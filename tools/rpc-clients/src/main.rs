//! Two clients that people build on, run against a node on regtest that nobody else uses:
//! `corepc-client`, every method of it that the node answers, and BDK's `bdk_bitcoind_rpc` with a wallet.
//!
//! `rpc-clients corepc|pruned|bdk PORT USER PASSWORD DIRECTORY`; ends with 0 when all was as expected, and
//! says on standard output which methods it called.

mod bdk;
mod corepc;

use std::env;

use bitcoin::secp256k1::{Secp256k1, SecretKey};
use bitcoin::{
    Address, Amount, CompressedPublicKey, Network, OutPoint, PrivateKey, ScriptBuf, Sequence,
    Transaction, TxIn, TxOut, Witness, absolute, transaction,
};

/// Where the node is, and where files may be written.
struct Node {
    url: String,
    user: String,
    password: String,
    directory: String,
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let [_, what, port, user, password, directory] = words.try_into().expect("five arguments");
    let node = Node { url: format!("http://127.0.0.1:{port}"), user, password, directory };
    match what.as_str() {
        "corepc" => corepc::every_method(&node),
        "pruned" => corepc::of_a_pruned_node(&node),
        "bdk" => bdk::follow(&node),
        _ => panic!("what is {what}?"),
    }
}

/// An output that takes a witness of one word, and no key.
fn anyone() -> Address {
    Address::p2wsh(&ScriptBuf::from_bytes(vec![0x51]), Network::Regtest)
}

/// An address of a key that only this program has; another one for each number.
fn somebody(number: u8) -> Address {
    let secret = SecretKey::from_slice(&[number; 32]).expect("a key");
    let key = PrivateKey::new(secret, Network::Regtest);
    let key = CompressedPublicKey::from_private_key(&Secp256k1::new(), &key).expect("compressed");
    Address::p2wpkh(&key, Network::Regtest)
}

/// A thousand satoshi are its fee.
fn spend(outpoint: OutPoint, value: Amount) -> Transaction {
    let witness = Witness::from_slice(&[vec![0x51]]);
    let output =
        TxOut { value: value - Amount::from_sat(1_000), script_pubkey: anyone().script_pubkey() };
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: outpoint,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
            witness,
        }],
        output: vec![output],
    }
}
