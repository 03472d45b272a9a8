//! Signs a PSBT with invented keys.

use bitcoin::absolute::LockTime;
use bitcoin::bip32::{DerivationPath, KeySource};
use bitcoin::hashes::Hash;
use bitcoin::secp256k1::{PublicKey, Secp256k1};
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, CompressedPublicKey, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid,
    Witness,
};
use godwit_keys::psbt::{Psbt, SignPolicy, SigningKey, look_up_in};
use godwit_keys::{ExtendedPrivateKey, KeyStore};

use super::CheckError;
use super::case::Case;
use super::uses::{NETWORK, PATHS, Stored, root, store_with_root};

const COIN: Amount = Amount::from_sat(100_000);
const FEE: Amount = Amount::from_sat(1_000);

/// Signs two inputs, one by ECDSA and one by the taproot key path.
pub(super) fn sign(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let root = root(case)?;
    let unsigned = payment(case, &root)?;
    let Stored { path, passphrase, .. } = store_with_root(case, "signer", root)?;
    let store = KeyStore::open(&path, &passphrase)?;
    let (mut psbt, signatures) = sign_with(&store, &unsigned)?;
    case.unlocked()?;
    psbt.finalize();
    drop(store);
    case.unlocked()?;
    if signatures == PATHS.len() { Ok(()) } else { Err(case.unexpected()) }
}

/// Signs with all keys of a file; tells how many signatures there are.
pub(super) fn sign_with(store: &KeyStore, unsigned: &[u8]) -> Result<(Psbt, usize), CheckError> {
    let mut psbt = Psbt::decode(unsigned)?;
    let mut keys = |source: &KeySource, key: &SigningKey| look_up_in(store, NETWORK, source, key);
    let signed = psbt.sign(&mut keys, &SignPolicy::default())?;
    Ok((psbt, signed.len()))
}

/// A PSBT that spends one coin of the root's first account and one of its second, encoded.
pub(super) fn payment(
    case: &Case<'_, '_>,
    root: &ExtendedPrivateKey,
) -> Result<Vec<u8>, CheckError> {
    let curve = Secp256k1::verification_only();
    let fingerprint = root.fingerprint()?;
    let mut owned: Vec<(PublicKey, KeySource)> = Vec::new();
    for path in PATHS {
        let path: DerivationPath = path.parse().map_err(|_| case.unexpected())?;
        let key = root.derive(path.as_ref())?.private_key()?.public_key()?;
        owned.push((key, (fingerprint, path)));
    }
    let [(single, single_source), (internal, internal_source)]: [(PublicKey, KeySource); 2] =
        owned.try_into().map_err(|_| case.unexpected())?;
    let internal = internal.x_only_public_key().0;
    let scripts = [
        ScriptBuf::new_p2wpkh(&CompressedPublicKey(single).wpubkey_hash()),
        ScriptBuf::new_p2tr(&curve, internal, None),
    ];
    let coins = scripts.clone().map(|script_pubkey| TxOut { value: COIN, script_pubkey });
    let funding = transaction([OutPoint::new(Txid::from_byte_array([1; 32]), 0)], coins.clone());
    let txid = funding.compute_txid();
    let target = TxOut { value: COIN * 2 - FEE, script_pubkey: scripts[0].clone() };
    let spending = transaction([0, 1].map(|output| OutPoint::new(txid, output)), [target]);

    let mut psbt = bitcoin::Psbt::from_unsigned_tx(spending).map_err(|_| case.unexpected())?;
    for (input, coin) in psbt.inputs.iter_mut().zip(coins) {
        input.non_witness_utxo = Some(funding.clone());
        input.witness_utxo = Some(coin);
    }
    psbt.inputs[0].bip32_derivation.insert(single, single_source);
    psbt.inputs[1].tap_internal_key = Some(internal);
    psbt.inputs[1].tap_key_origins.insert(internal, (Vec::new(), internal_source));
    Ok(psbt.serialize())
}

fn transaction<const I: usize, const O: usize>(
    inputs: [OutPoint; I],
    output: [TxOut; O],
) -> Transaction {
    let input = inputs.map(|previous_output| TxIn {
        previous_output,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    });
    let (version, lock_time) = (Version::TWO, LockTime::ZERO);
    Transaction { version, lock_time, input: input.into(), output: output.into() }
}
