//! PSBTs for coins of a generated chain: made here, signed and finished by `godwit-signer psbt`, mined by the
//! simulator's miner, validated by `godwit import`.

use std::ffi::OsStr;
use std::fs;

use bitcoin::bip32::{Xpriv, Xpub};
use bitcoin::consensus::encode::{deserialize_hex, serialize};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{
    Amount, Block, Network, NetworkKind, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut,
    Witness, absolute, transaction,
};
use godwit::exit::Exit;
use godwit_keys::{Entry, EntryDescriptor, KdfParameters, KeyStore, split_private_descriptor};
use godwit_secret::SecretString;
use godwit_sim::miner::{self, COINBASE_MATURITY, Tip};
use miniscript::psbt::PsbtExt;
use miniscript::{DefiniteDescriptorKey, Descriptor};

use crate::blocks::write_dat;
use crate::node::Node;
use crate::signer::sign;

/// Every kind of coin. `A`, `B` and `C` are extended private keys in the key file, `F` is somebody's
/// public key.
const KINDS: [&str; 16] = [
    "pk(A/0)",
    "pkh(A/44h/1h/0h/0/0)",
    "wpkh(A/84h/1h/0h/0/0)",
    "sh(wpkh(A/49h/1h/0h/0/0))",
    "sh(multi(2,A/1,F/0,B/1))",
    "multi(1,A/2,F/0)",
    "wsh(multi(2,A/3,B/3,F/3))",
    "wsh(sortedmulti(2,A/3,B/3,C/3))",
    "sh(wsh(multi(2,A/4,B/4)))",
    "wsh(and_v(v:pk(A/5),older(7)))",
    "wsh(or_d(pk(F/0),and_v(v:pkh(A/6),older(7))))",
    "wsh(thresh(2,pk(A/7),s:pk(B/7),s:pk(F/7)))",
    "tr(A/86h/1h/0h/0/0)",
    "tr(A/8,{pk(B/8),pk(F/8)})",
    "tr(F/0,{and_v(v:pk(A/9),older(7)),pk(F/9)})",
    "tr(F/0,multi_a(2,A/10,B/10,F/10))",
];

/// Blocks that the locks of some coins ask for.
const LOCK: u32 = 7;
const COIN: u64 = 100_000_000;
const FEE: u64 = 10_000;
const PASSPHRASE: &str = "a passphrase of this test";

/// A chain whose last block spends every kind of coin.
pub(crate) struct SpendingChain {
    /// Blocks from height 1 up to the one before the last.
    pub(crate) before: Vec<Vec<u8>>,
    /// One transaction for each kind.
    pub(crate) spends: Vec<Transaction>,
    tip: Tip,
}

impl SpendingChain {
    /// The last block, with these transactions.
    pub(crate) fn last(&self, spends: &[Transaction]) -> Vec<u8> {
        serialize(&mined(&self.tip, spends))
    }
}

fn xprv(letter: char) -> Xpriv {
    Xpriv::new_master(Network::Regtest, &[letter as u8; 32]).expect("a valid key")
}

fn descriptor(kind: &str) -> Descriptor<DefiniteDescriptorKey> {
    let secp = Secp256k1::new();
    let mut text = String::new();
    for letter in kind.chars() {
        match letter {
            'A'..='C' => text += &xprv(letter).to_string(),
            'F' => text += &Xpub::from_priv(&secp, &xprv(letter)).to_string(),
            other => text.push(other),
        }
    }
    let (descriptor, _) = Descriptor::parse_descriptor(&secp, &text).expect("a descriptor");
    descriptor.at_derivation_index(0).expect("without wildcards")
}

fn secret(text: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut text.to_owned()).expect("locked memory")
}

/// The least work for a passphrase that there may be.
fn weak_kdf() -> KdfParameters {
    KdfParameters::new(KdfParameters::MIN_KIB_PER_LANE, 1, 1).expect("it is in range")
}

fn anyone() -> ScriptBuf {
    ScriptBuf::from_bytes(vec![0x51])
}

fn mined(tip: &Tip, transactions: &[Transaction]) -> Block {
    let height = tip.height + 1;
    let coinbase = miner::coinbase(height, 0, miner::subsidy(height), anyone());
    let mut block = miner::draft(tip, [&[coinbase], transactions].concat());
    miner::seal(&mut block);
    block
}

/// Spends one output of a transaction.
fn spend(previous: &Transaction, vout: u32, output: Vec<TxOut>) -> Transaction {
    let input = TxIn {
        previous_output: OutPoint { txid: previous.compute_txid(), vout },
        script_sig: ScriptBuf::new(),
        sequence: Sequence(LOCK),
        witness: Witness::new(),
    };
    let version = transaction::Version::TWO;
    Transaction { version, lock_time: absolute::LockTime::ZERO, input: vec![input], output }
}

fn unsigned(funding: &Transaction, vout: u32, kind: &str) -> Vec<u8> {
    let value = Amount::from_sat(COIN - FEE);
    // What nodes relay has a standard output.
    let script_pubkey = descriptor("wpkh(F/100)").script_pubkey();
    let transaction = spend(funding, vout, vec![TxOut { value, script_pubkey }]);
    let mut psbt = bitcoin::Psbt::from_unsigned_tx(transaction).expect("it is unsigned");
    psbt.inputs[0].non_witness_utxo = Some(funding.clone());
    psbt.update_input_with_descriptor(0, &descriptor(kind)).expect("it is the coin's");
    psbt.serialize()
}

/// Makes the chain; every transaction goes through the real program.
pub(crate) fn make(node: &Node) -> SpendingChain {
    let mut tip = miner::genesis_tip();
    let mut before = Vec::new();
    let mut extend = |transactions: &[Transaction]| {
        let block = mined(&tip, transactions);
        tip = tip.extended_by(&block);
        before.push(serialize(&block));
        block
    };
    let first = extend(&[]);
    (1..COINBASE_MATURITY).for_each(|_| drop(extend(&[])));
    let coin = |kind: &&str| TxOut {
        value: Amount::from_sat(COIN),
        script_pubkey: descriptor(kind).script_pubkey(),
    };
    let funding = spend(&first.txdata[0], 0, KINDS.iter().map(coin).collect());
    extend(std::slice::from_ref(&funding));
    (0..LOCK).for_each(|_| drop(extend(&[])));

    let keys = node.beside("chain.keys");
    let mut store = KeyStore::create(&keys, &secret(PASSPHRASE), weak_kdf()).expect("new");
    for letter in ['A', 'B', 'C'] {
        let text = secret(&format!("pkh({}/*)", xprv(letter)));
        let split = split_private_descriptor((&text).into(), NetworkKind::Test).expect("valid");
        let descriptors =
            split.descriptors.into_iter().map(|split| EntryDescriptor::new(split.text)).collect();
        let (label, network) = (letter.to_string(), NetworkKind::Test);
        let entry =
            Entry { label, created: 0, network, descriptors, keys: split.keys, words: None };
        store.insert(entry).expect("it is new");
    }
    let spends = KINDS.iter().enumerate().map(|(vout, kind)| {
        let path = node.beside("chain.psbt");
        fs::write(&path, unsigned(&funding, vout as u32, kind)).expect("a file");
        let result = |name: &str| {
            let path = node.beside(&format!("{name}-{vout}"));
            let option = format!("-out={}", path.display());
            (path, option)
        };
        let ((signed, to_signed), (finished, to_finished)) = (result("signed"), result("finished"));
        let (extracted, to_extracted) = result("extracted");
        let keys = format!("-keys={}", keys.display());
        let passphrase = format!("{PASSPHRASE}\n");
        let words: &[&dyn AsRef<OsStr>] = &[&"psbt", &"inspect", &path, &keys, &"-passphrase-fd=0"];
        let seen = sign(words, &passphrase).stdout;
        let token = &seen[seen.find("-yes=").expect("it has a token")..][.."-yes=".len() + 64];
        let words: &[&dyn AsRef<OsStr>] =
            &[&"psbt", &"sign", &path, &keys, &"-passphrase-fd=0", &token, &to_signed];
        sign(words, &passphrase);
        sign(&[&"psbt", &"finalize", &signed, &to_finished], "");
        sign(&[&"psbt", &"extract", &finished, &to_extracted], "");
        let extracted = fs::read_to_string(extracted).expect("a file");
        deserialize_hex(extracted.trim_end()).expect("a transaction")
    });
    let spends = spends.collect();
    SpendingChain { before, spends, tip }
}

#[test]
fn every_kind_of_coin_is_spent_on_a_generated_chain() {
    let node = Node::new("regtest");
    let chain = make(&node);
    let height = u64::from(COINBASE_MATURITY + 1 + LOCK + 1);
    let path = node.beside("chain.dat");

    // The control: one byte of one signature is another one.
    for spend in [1, 6, 12, 14] {
        let other = Node::new("regtest");
        let mut spends = chain.spends.clone();
        let input = &mut spends[spend].input[0];
        let witness: Vec<Vec<u8>> = input.witness.to_vec();
        match witness.iter().position(|item| item.len() >= 64) {
            Some(item) => {
                let mut witness = witness;
                witness[item][40] ^= 1;
                input.witness = Witness::from_slice(&witness);
            }
            None => {
                let mut script = input.script_sig.to_bytes();
                script[41] ^= 1;
                input.script_sig = ScriptBuf::from_bytes(script);
            }
        }
        write_dat(&path, chain.before.iter().chain([&chain.last(&spends)]));
        other.run(&[&"import", &path]).expect(Exit::InputRefused);
        assert_eq!(other.stats()["height"], height - 1, "{}", KINDS[spend]);
    }

    write_dat(&path, chain.before.iter().chain([&chain.last(&chain.spends)]));
    node.import(&path);
    assert_eq!(node.stats()["height"], height);
}
