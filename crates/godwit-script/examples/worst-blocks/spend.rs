//! Inputs of any form, signed.

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::key::{Keypair, Secp256k1};
use bitcoin::secp256k1::{All, Message, SecretKey};
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};
use godwit_primitives::TxView;
use godwit_script::{SpendingTx, SpentOutput};

/// An output that is spent.
pub(crate) struct Output {
    pub(crate) value: i64,
    pub(crate) script_pubkey: Vec<u8>,
}

/// A transaction with what it spends.
pub(crate) struct Tx {
    pub(crate) bytes: Vec<u8>,
    pub(crate) spent: Vec<Output>,
}

/// What satisfies an output: a scriptSig and a witness.
pub(crate) type Solution = (Vec<u8>, Vec<Vec<u8>>);
/// Makes it for an input of an unsigned transaction.
pub(crate) type Solve = Box<dyn Fn(&SpendingTx<'_>, usize) -> Solution>;
/// A locking script and what satisfies it.
pub(crate) type Spend = (Vec<u8>, Solve);

/// A key that everybody could compute.
pub(crate) fn secret_key(i: usize) -> SecretKey {
    let hash = sha256::Hash::hash(format!("key {i}").as_bytes());
    SecretKey::from_slice(hash.as_ref()).expect("a hash is not 0, nor n or more")
}

pub(crate) fn public_key(secp: &Secp256k1<All>, i: usize) -> Vec<u8> {
    secret_key(i).public_key(secp).serialize().to_vec()
}

pub(crate) fn x_only(secp: &Secp256k1<All>, i: usize) -> [u8; 32] {
    secret_key(i).x_only_public_key(secp).0.serialize()
}

/// A signature in DER with its hash type.
pub(crate) fn ecdsa(secp: &Secp256k1<All>, i: usize, message: [u8; 32], hash_type: u8) -> Vec<u8> {
    let signature = secp.sign_ecdsa(&Message::from_digest(message), &secret_key(i));
    [&*signature.serialize_der(), &[hash_type]].concat()
}

pub(crate) fn schnorr(secp: &Secp256k1<All>, i: usize, message: [u8; 32]) -> Vec<u8> {
    let keys = Keypair::from_secret_key(secp, &secret_key(i));
    secp.sign_schnorr_no_aux_rand(&Message::from_digest(message), &keys).serialize().to_vec()
}

pub(crate) fn push(data: &[u8]) -> Vec<u8> {
    let mut script = ScriptBuf::new();
    script.push_slice(<&bitcoin::script::PushBytes>::try_from(data).expect("short"));
    script.into_bytes()
}

pub(crate) fn key_hash_script(key: &[u8]) -> Vec<u8> {
    let hash = hash160::Hash::hash(key);
    [&[0x76, 0xa9, 20], &hash.to_byte_array()[..], &[0x88, 0xac]].concat()
}

pub(crate) fn witness_script_hash(script: &[u8]) -> Vec<u8> {
    [&[0, 32], &sha256::Hash::hash(script).to_byte_array()[..]].concat()
}

/// A transaction with these inputs, and with outputs of these lengths of script.
pub(crate) fn transaction(spends: Vec<Spend>, outputs: &[usize]) -> Tx {
    let mut tx = Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: (0..spends.len()).map(unsigned).collect(),
        output: outputs.iter().map(|len| output(*len)).collect(),
    };
    let blank = serialize(&tx);
    let spent: Vec<Output> = spends
        .iter()
        .map(|(script_pubkey, _)| Output { value: 1_000, script_pubkey: script_pubkey.clone() })
        .collect();
    let view = TxView::parse(&blank).expect("well-formed");
    let outputs = spent
        .iter()
        .map(|output| SpentOutput { value: output.value, script_pubkey: &output.script_pubkey });
    let spending = SpendingTx::new(view, outputs).expect("one output an input");
    for (input, (_, solve)) in spends.iter().enumerate() {
        let (script_sig, witness) = solve(&spending, input);
        tx.input[input].script_sig = script_sig.into();
        tx.input[input].witness = Witness::from_slice(&witness);
    }
    Tx { bytes: serialize(&tx), spent }
}

fn unsigned(input: usize) -> TxIn {
    let vout = u32::try_from(input).expect("few inputs");
    TxIn {
        previous_output: OutPoint { txid: Txid::from_byte_array([5; 32]), vout },
        // Not final, which OP_CHECKLOCKTIMEVERIFY wants.
        sequence: Sequence::ENABLE_LOCKTIME_NO_RBF,
        ..TxIn::default()
    }
}

fn output(script: usize) -> TxOut {
    TxOut { value: Amount::from_sat(7), script_pubkey: vec![0x51; script].into() }
}
