//! PSBTs for coins made here, of every kind of descriptor.

use bitcoin::bip32::Xpriv;
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{
    Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, absolute,
    hashes::Hash, transaction,
};
use miniscript::psbt::PsbtExt;
use miniscript::{DefiniteDescriptorKey, Descriptor};

use super::*;

/// Value of each coin in satoshi.
pub(super) const COIN: u64 = 100_000_000;
/// The fee of each transaction in satoshi.
pub(super) const FEE: u64 = 10_000;

/// Every kind of coin that one signer can spend; `A`, `B` and `C` are extended private keys of ours and
/// `F` is somebody's public key.
pub(super) const KINDS: [&str; 16] = [
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

/// The extended private key of a letter.
fn xprv(letter: char) -> Xpriv {
    Xpriv::new_master(Network::Regtest, &[letter as u8; 32]).expect("a valid key")
}

/// A descriptor with the keys in the place of their letters.
pub(super) fn written(kind: &str) -> String {
    let secp = Secp256k1::new();
    let mut text = String::new();
    for letter in kind.chars() {
        match letter {
            'A'..='C' => text += &xprv(letter).to_string(),
            'F' => text += &bitcoin::bip32::Xpub::from_priv(&secp, &xprv(letter)).to_string(),
            other => text.push(other),
        }
    }
    text
}

/// The private keys of a letter.
pub(super) fn keys(letters: &str) -> Vec<StoredKey> {
    let of = |letter: char| descriptor(&format!("pkh({}/0)", xprv(letter)));
    letters.chars().flat_map(of).collect()
}

pub(super) fn public_descriptor(kind: &str) -> Descriptor<DefiniteDescriptorKey> {
    let secp = Secp256k1::new();
    let (descriptor, _) =
        Descriptor::parse_descriptor(&secp, &written(kind)).expect("a descriptor");
    descriptor.at_derivation_index(0).expect("without wildcards")
}

/// An unsigned PSBT that spends one coin of each kind to `F`.
pub(super) fn spend(kinds: &[&str]) -> bitcoin::Psbt {
    let payee = public_descriptor("wpkh(F/100)");
    let descriptors: Vec<_> = kinds.iter().map(|kind| public_descriptor(kind)).collect();
    let previous: Vec<Transaction> = descriptors
        .iter()
        .enumerate()
        .map(|(index, descriptor)| coin(index as u32, descriptor.script_pubkey()))
        .collect();
    let transaction = Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: previous
            .iter()
            .map(|previous| TxIn {
                previous_output: OutPoint { txid: previous.compute_txid(), vout: 1 },
                script_sig: ScriptBuf::new(),
                sequence: Sequence(7),
                witness: Witness::new(),
            })
            .collect(),
        output: vec![TxOut {
            value: Amount::from_sat(COIN * kinds.len() as u64 - FEE),
            script_pubkey: payee.script_pubkey(),
        }],
    };
    let mut psbt = bitcoin::Psbt::from_unsigned_tx(transaction).expect("it is unsigned");
    for (index, descriptor) in descriptors.iter().enumerate() {
        psbt.inputs[index].witness_utxo = Some(previous[index].output[1].clone());
        psbt.inputs[index].non_witness_utxo = Some(previous[index].clone());
        psbt.update_input_with_descriptor(index, descriptor).expect("it is the coin's");
    }
    psbt.update_output_with_descriptor(0, &payee).expect("it is the payee's");
    psbt
}

/// A transaction whose second output is the coin.
fn coin(number: u32, script_pubkey: ScriptBuf) -> Transaction {
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::from_consensus(number),
        input: vec![TxIn {
            previous_output: OutPoint { txid: Txid::all_zeros(), vout: number },
            script_sig: ScriptBuf::new(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: vec![
            TxOut { value: Amount::from_sat(1), script_pubkey: ScriptBuf::new() },
            TxOut { value: Amount::from_sat(COIN), script_pubkey },
        ],
    }
}

/// As it comes to a signer.
pub(super) fn received(psbt: &bitcoin::Psbt) -> Psbt {
    Psbt::decode(&psbt.serialize()).expect("it is valid")
}

/// The private keys of some letters that a PSBT's inputs name, in hexadecimal.
pub(super) fn secrets_of(psbt: &Psbt, letters: &str) -> Vec<String> {
    let secp = Secp256k1::new();
    let sources = psbt.inputs().iter().flat_map(|input| {
        let taproot = input.tap_key_origins.values().map(|(_, source)| source);
        input.bip32_derivation.values().chain(taproot)
    });
    let mut secrets = Vec::new();
    for (fingerprint, path) in sources {
        let root = letters.chars().map(xprv).find(|root| root.fingerprint(&secp) == *fingerprint);
        let derived = root.map(|root| root.derive_priv(&secp, path).expect("it has one"));
        secrets.extend(derived.map(|key| hex::encode(key.private_key.secret_bytes())));
    }
    secrets.sort();
    secrets.dedup();
    secrets
}

/// Signs with the keys of some letters.
pub(super) fn sign(
    psbt: &mut Psbt,
    letters: &str,
    policy: &SignPolicy,
) -> Result<Vec<Signed>, SignError> {
    let keys = keys(letters);
    psbt.sign(&mut |source, key| look_up(&keys, source, key), policy)
}
