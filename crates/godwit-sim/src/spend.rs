//! Signing: fills script signatures and witnesses of a transaction that spends known coins.

use bitcoin::opcodes::OP_0;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::Message;
use bitcoin::sighash::{EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::TapLeafHash;
use bitcoin::{
    Amount, PublicKey, Script, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute,
    ecdsa, key::TapTweak, transaction,
};

use crate::keys::KeyRing;
use crate::lock::{self, Coin, Lock};

type Cache<'a> = SighashCache<&'a Transaction>;
type Proof = (ScriptBuf, Witness);

/// An unsigned version 2 transaction with the sequence numbers and lock time its coins need.
pub fn unsigned(coins: &[Coin], outputs: Vec<TxOut>) -> Transaction {
    let locked_until = coins
        .iter()
        .filter_map(|coin| match coin.lock {
            Lock::Cltv(height) => Some(height),
            _ => None,
        })
        .max()
        .unwrap_or(0);
    Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::from_consensus(locked_until),
        input: coins.iter().map(unsigned_input).collect(),
        output: outputs,
    }
}

fn unsigned_input(coin: &Coin) -> TxIn {
    let sequence = match coin.lock {
        Lock::Csv(blocks) => Sequence::from_height(blocks),
        // Not final, so that a lock time of another input counts; not relative either.
        _ => Sequence::ENABLE_LOCKTIME_NO_RBF,
    };
    TxIn {
        previous_output: coin.outpoint,
        script_sig: ScriptBuf::new(),
        sequence,
        witness: Witness::new(),
    }
}

/// Signs every input; `coins` are the spent coins in input order.
pub fn sign(tx: &mut Transaction, coins: &[Coin], keys: &KeyRing) {
    let prevouts: Vec<TxOut> = if coins.iter().any(|coin| coin.lock.is_taproot()) {
        coins.iter().map(Coin::tx_out).collect()
    } else {
        Vec::new()
    };
    let mut cache = SighashCache::new(&*tx);
    let proofs: Vec<Proof> = coins
        .iter()
        .enumerate()
        .map(|(index, coin)| prove(&mut cache, index, coin, &prevouts, keys))
        .collect();
    for (input, (script_sig, witness)) in tx.input.iter_mut().zip(proofs) {
        input.script_sig = script_sig;
        input.witness = witness;
    }
}

fn prove(
    cache: &mut Cache<'_>,
    index: usize,
    coin: &Coin,
    prevouts: &[TxOut],
    keys: &KeyRing,
) -> Proof {
    let key = coin.key;
    match coin.lock {
        Lock::Bare => (ScriptBuf::new(), Witness::new()),
        Lock::P2pk => {
            let signature = legacy(cache, index, &coin.script_pubkey, keys, key);
            (Builder::new().push_slice(signature).into_script(), Witness::new())
        }
        Lock::P2pkh => {
            let signature = legacy(cache, index, &coin.script_pubkey, keys, key);
            (push_script(Builder::new().push_slice(signature), &coin.revealed), Witness::new())
        }
        Lock::BareMultisig => {
            let signature = legacy(cache, index, &coin.script_pubkey, keys, key + 1);
            let script = Builder::new().push_opcode(OP_0).push_slice(signature).into_script();
            (script, Witness::new())
        }
        Lock::P2shMultisig | Lock::Csv(_) => prove_p2sh(cache, index, coin, keys),
        Lock::P2shP2wpkh => {
            let public = PublicKey::from_slice(coin.revealed.as_bytes())
                .expect("the coin reveals its public key");
            let redeem = lock::key_hash_program(&public);
            let witness = key_hash_witness(cache, index, &redeem, coin, keys);
            (push_script(Builder::new(), &redeem), witness)
        }
        Lock::P2wpkh => {
            let witness = key_hash_witness(cache, index, &coin.script_pubkey, coin, keys);
            (ScriptBuf::new(), witness)
        }
        Lock::P2wshMultisig | Lock::Cltv(_) | Lock::LargeScript => {
            (ScriptBuf::new(), prove_p2wsh(cache, index, coin, keys))
        }
        Lock::P2trKey => (ScriptBuf::new(), prove_key_path(cache, index, prevouts, keys, key)),
        Lock::P2trScript | Lock::Inscription(_) => {
            (ScriptBuf::new(), prove_script_path(cache, index, coin, prevouts, keys))
        }
    }
}

fn prove_p2sh(cache: &mut Cache<'_>, index: usize, coin: &Coin, keys: &KeyRing) -> Proof {
    let redeem = &coin.revealed;
    let first = legacy(cache, index, redeem, keys, coin.key);
    let builder = if coin.lock == Lock::P2shMultisig {
        let second = legacy(cache, index, redeem, keys, coin.key + 2);
        Builder::new().push_opcode(OP_0).push_slice(first).push_slice(second)
    } else {
        Builder::new().push_slice(first)
    };
    (push_script(builder, redeem), Witness::new())
}

fn prove_p2wsh(cache: &mut Cache<'_>, index: usize, coin: &Coin, keys: &KeyRing) -> Witness {
    let script = &coin.revealed;
    let hash = cache
        .p2wsh_signature_hash(index, script, Amount::from_sat(coin.value), EcdsaSighashType::All)
        .expect("the input exists");
    let message = Message::from(hash);
    let mut witness = Witness::new();
    if coin.lock == Lock::P2wshMultisig {
        witness.push([]);
        witness.push(encode(keys.sign_ecdsa(coin.key, &message)).as_bytes());
        witness.push(encode(keys.sign_ecdsa(coin.key + 1, &message)).as_bytes());
    } else {
        witness.push(encode(keys.sign_ecdsa(coin.key, &message)).as_bytes());
    }
    witness.push(script.as_bytes());
    witness
}

fn prove_key_path(
    cache: &mut Cache<'_>,
    index: usize,
    prevouts: &[TxOut],
    keys: &KeyRing,
    key: u64,
) -> Witness {
    let hash = cache
        .taproot_key_spend_signature_hash(index, &Prevouts::All(prevouts), TapSighashType::Default)
        .expect("all prevouts are given");
    let pair = keys.pair(key).tap_tweak(keys.secp(), None).to_keypair();
    let signature = keys.sign_schnorr(&pair, &Message::from(hash));
    Witness::from_slice(&[signature.serialize()])
}

fn prove_script_path(
    cache: &mut Cache<'_>,
    index: usize,
    coin: &Coin,
    prevouts: &[TxOut],
    keys: &KeyRing,
) -> Witness {
    let leaf = lock::leaf_script(keys, coin.lock, coin.key);
    let leaf_hash = TapLeafHash::from_script(&leaf, lock::leaf_of(&leaf).1);
    let hash = cache
        .taproot_script_spend_signature_hash(
            index,
            &Prevouts::All(prevouts),
            leaf_hash,
            TapSighashType::Default,
        )
        .expect("all prevouts are given");
    let signature = keys.sign_schnorr(&keys.pair(coin.key), &Message::from(hash));
    let control = lock::taproot_tree(keys, coin.lock, coin.key)
        .control_block(&lock::leaf_of(&leaf))
        .expect("the leaf is in the tree");
    let mut witness = Witness::new();
    witness.push(signature.serialize());
    witness.push(leaf.as_bytes());
    witness.push(control.serialize());
    witness
}

fn key_hash_witness(
    cache: &mut Cache<'_>,
    index: usize,
    program: &Script,
    coin: &Coin,
    keys: &KeyRing,
) -> Witness {
    let value = Amount::from_sat(coin.value);
    let hash = cache
        .p2wpkh_signature_hash(index, program, value, EcdsaSighashType::All)
        .expect("the program is P2WPKH");
    let signature = encode(keys.sign_ecdsa(coin.key, &Message::from(hash)));
    Witness::from_slice(&[signature.as_bytes(), coin.revealed.as_bytes()])
}

fn legacy(
    cache: &Cache<'_>,
    index: usize,
    script_code: &Script,
    keys: &KeyRing,
    key: u64,
) -> PushBytesBuf {
    let hash = cache
        .legacy_signature_hash(index, script_code, EcdsaSighashType::All.to_u32())
        .expect("the input exists");
    encode(keys.sign_ecdsa(key, &Message::from(hash)))
}

fn encode(signature: bitcoin::secp256k1::ecdsa::Signature) -> PushBytesBuf {
    let bytes = ecdsa::Signature::sighash_all(signature).to_vec();
    PushBytesBuf::try_from(bytes).expect("a signature has at most 73 bytes")
}

fn push_script(builder: Builder, script: &Script) -> ScriptBuf {
    let bytes = PushBytesBuf::try_from(script.to_bytes()).expect("a script is below 4 GiB");
    builder.push_slice(bytes).into_script()
}
