//! ECDSA signatures: encodings (BIP66), hash types, multisig (BIP147), segwit v0 (BIP143).

use bitcoin::hashes::Hash;
use bitcoin::secp256k1::{Message, SecretKey, ecdsa};
use bitcoin::sighash::{EcdsaSighashType, SighashCache};
use bitcoin::{Amount, PubkeyHash, PublicKey, ScriptBuf, Transaction, TxOut, WPubkeyHash, Witness};

use super::super::asm::{asm, concat, push};
use super::super::stage::{COIN_VALUE, Stage};
use super::{Proof, Prove, Row};
use crate::keys::KeyRing;

/// Numbers far from those that the stage gives to coins.
const KEY: u64 = 1 << 50;
const ALL: u32 = 1;

pub(super) fn rows() -> Vec<Row> {
    let keys = Stage::keys();
    let mut rows = Vec::new();
    public_keys(&mut rows, &keys);
    encodings(&mut rows, &keys);
    hash_types(&mut rows, &keys);
    script_code(&mut rows, &keys);
    multisig(&mut rows, &keys);
    multisig_limits(&mut rows, &keys);
    key_hashes(&mut rows, &keys);
    segwit(&mut rows, &keys);
    rows
}

/// DER without the hash type.
fn legacy_signature(
    tx: &Transaction,
    index: usize,
    script_code: &ScriptBuf,
    hash_type: u32,
    secret: &SecretKey,
) -> ecdsa::Signature {
    let hash = SighashCache::new(tx)
        .legacy_signature_hash(index, script_code, hash_type)
        .expect("the input exists");
    Stage::keys().secp().sign_ecdsa(&Message::from(hash), secret)
}

fn with_type(signature: &ecdsa::Signature, hash_type: u8) -> Vec<u8> {
    let mut bytes = signature.serialize_der().to_vec();
    bytes.push(hash_type);
    bytes
}

/// Changes an encoded signature, hash type included.
type Change = fn(Vec<u8>) -> Vec<u8>;

fn unchanged(bytes: Vec<u8>) -> Vec<u8> {
    bytes
}

/// Proves with one changed signature over `script_code`, before nothing else.
fn one_signature(script_code: ScriptBuf, secret: SecretKey, change: Change) -> Prove {
    Box::new(move |tx, index, _| {
        let signature = legacy_signature(tx, index, &script_code, ALL, &secret);
        (push(&change(with_type(&signature, ALL as u8))), Witness::new())
    })
}

fn pay_to(public: &[u8], then: &str) -> ScriptBuf {
    concat(&[&push(public), &asm(then)])
}

fn public_keys(rows: &mut Vec<Row>, keys: &KeyRing) {
    let (public, secret) = (keys.public(KEY), keys.secret(KEY));
    let full = public.serialize_uncompressed();
    let mut hybrid = full;
    hybrid[0] = 6 | (full[64] & 1);
    let mut wrong_hybrid = hybrid;
    wrong_hybrid[0] ^= 1;
    let mut off_curve = public.serialize();
    off_curve[1..].fill(0xff);
    let table: [(&str, &[u8], bool); 7] = [
        ("compressed key", &public.serialize(), true),
        ("uncompressed key", &full, true),
        ("hybrid key", &hybrid, true),
        ("hybrid key of the wrong parity", &wrong_hybrid, false),
        ("another key", &keys.public(KEY + 1).serialize(), false),
        ("key that is no point", &off_curve, false),
        ("empty key", &[], false),
    ];
    for (name, key, valid) in table {
        let spk = pay_to(key, "CHECKSIG");
        rows.push(Row::new(name, spk.clone(), valid, one_signature(spk, secret, unchanged)));
    }
    let spk = pay_to(&off_curve, "CHECKSIG NOT");
    let prove = one_signature(spk.clone(), secret, unchanged);
    rows.push(Row::new("key that is no point, NOT", spk, true, prove));
    let spk = pay_to(&public.serialize(), "CHECKSIGVERIFY 1");
    let prove = one_signature(spk.clone(), secret, unchanged);
    rows.push(Row::new("CHECKSIGVERIFY", spk, true, prove));
}

fn encodings(rows: &mut Vec<Row>, keys: &KeyRing) {
    let (public, secret) = (keys.public(KEY), keys.secret(KEY));
    // Validity under CHECKSIG and under CHECKSIG NOT: a bad encoding fails both (BIP66).
    let table: [(&str, Change, bool, bool); 11] = [
        ("signature", unchanged, true, false),
        ("empty signature", |_| Vec::new(), false, true),
        ("signature of something else", other_r, false, true),
        ("high S", high_s, true, false),
        ("zero before R", zero_before_r, false, false),
        ("byte behind S", |sig| inserted(sig, -1), false, false),
        (
            "byte behind the hash type",
            |mut sig| {
                sig.push(1);
                sig
            },
            false,
            false,
        ),
        (
            "no hash type",
            |mut sig| {
                sig.pop();
                sig
            },
            false,
            false,
        ),
        (
            "wrong total length",
            |mut sig| {
                sig[1] += 1;
                sig
            },
            false,
            false,
        ),
        (
            "wrong tag",
            |mut sig| {
                sig[0] = 0x31;
                sig
            },
            false,
            false,
        ),
        ("hash type alone", |_| vec![1], false, false),
    ];
    for (name, change, valid, valid_not) in table {
        for (then, valid) in [("CHECKSIG", valid), ("CHECKSIG NOT", valid_not)] {
            let spk = pay_to(&public.serialize(), then);
            let prove = one_signature(spk.clone(), secret, change);
            rows.push(Row::new(&format!("{name}, {then}"), spk, valid, prove));
        }
    }
}

/// A well-formed signature whose R is another.
fn other_r(mut signature: Vec<u8>) -> Vec<u8> {
    signature[10] ^= 1;
    signature
}

/// S replaced by the group order minus S: valid, but not the form that wallets make.
fn high_s(signature: Vec<u8>) -> Vec<u8> {
    let low = ecdsa::Signature::from_der(&signature[..signature.len() - 1]).expect("just made");
    let mut compact = low.serialize_compact();
    let s = SecretKey::from_slice(&compact[32..]).expect("S is in the range of a key").negate();
    compact[32..].copy_from_slice(&s.secret_bytes());
    let high = ecdsa::Signature::from_compact(&compact).expect("S is below the group order");
    with_type(&high, ALL as u8)
}

/// A superfluous leading zero in R, with lengths that count it.
fn zero_before_r(mut signature: Vec<u8>) -> Vec<u8> {
    signature.insert(4, 0);
    signature[1] += 1;
    signature[3] += 1;
    signature
}

/// A byte before the last `-from_end` ones, not counted in any length.
fn inserted(mut signature: Vec<u8>, from_end: isize) -> Vec<u8> {
    let at = signature.len().wrapping_add_signed(from_end);
    signature.insert(at, 0);
    signature
}

/// A signature with a superfluous zero, valid before BIP66.
pub(super) fn padded() -> Row {
    let keys = Stage::keys();
    let spk = pay_to(&keys.public(KEY).serialize(), "CHECKSIG");
    let prove = one_signature(spk.clone(), keys.secret(KEY), zero_before_r);
    Row::new("padded signature", spk, true, prove)
}

fn hash_types(rows: &mut Vec<Row>, keys: &KeyRing) {
    let (public, secret) = (keys.public(KEY), keys.secret(KEY));
    let spk = pay_to(&public.serialize(), "CHECKSIG");
    for hash_type in [0u8, 1, 2, 3, 4, 0x1f, 0x50, 0x80, 0x81, 0x82, 0x83, 0x84, 0xff] {
        for second in [false, true] {
            let script_code = spk.clone();
            let prove: Prove = Box::new(move |tx, index, _| {
                let kind = u32::from(hash_type);
                let signature = legacy_signature(tx, index, &script_code, kind, &secret);
                (push(&with_type(&signature, hash_type)), Witness::new())
            });
            let place = if second { "second" } else { "only" };
            let name = format!("hash type {hash_type:#04x}, {place} input");
            rows.push(Row { second, ..Row::new(&name, spk.clone(), true, prove) });
        }
    }
    let script_code = spk.clone();
    let prove: Prove = Box::new(move |tx, index, _| {
        let signature = legacy_signature(tx, index, &script_code, 2, &secret);
        (push(&with_type(&signature, 3)), Witness::new())
    });
    rows.push(Row::new("another hash type than signed", spk, false, prove));
}

/// What part of the script a signature covers.
fn script_code(rows: &mut Vec<Row>, keys: &KeyRing) {
    let (public, secret) = (keys.public(KEY), keys.secret(KEY));
    let tail = pay_to(&public.serialize(), "CHECKSIG");
    let spk = concat(&[&asm("NOP CODESEPARATOR"), &tail]);
    let whole = concat(&[&asm("NOP"), &tail]);
    let table =
        [("signed from the separator on", &tail, true), ("signed from the start", &whole, false)];
    for (name, code, valid) in table {
        let prove = one_signature(code.clone(), secret, unchanged);
        rows.push(Row::new(&format!("CODESEPARATOR: {name}"), spk.clone(), valid, prove));
    }
    let spk = concat(&[&asm("0 IF CODESEPARATOR ENDIF"), &tail]);
    let code = concat(&[&asm("0 IF ENDIF"), &tail]);
    let prove = one_signature(code, secret, unchanged);
    rows.push(Row::new("CODESEPARATOR: not run", spk, true, prove));

    let redeem = tail;
    let (code, script) = (redeem.clone(), redeem.clone());
    let prove: Prove = Box::new(move |tx, index, _| {
        let signature = legacy_signature(tx, index, &code, ALL, &secret);
        let script_sig =
            concat(&[&push(&with_type(&signature, ALL as u8)), &push(script.as_bytes())]);
        (script_sig, Witness::new())
    });
    rows.push(Row::new("P2SH of a key", redeem.to_p2sh(), true, prove));
}

fn multisig_script(keys: &KeyRing, required: u64, total: u64) -> ScriptBuf {
    let mut script = asm(&required.to_string());
    for i in 0..total {
        script = concat(&[&script, &push(&keys.public(KEY + i).serialize())]);
    }
    concat(&[&script, &asm(&format!("{total} CHECKMULTISIG"))])
}

/// Signs with the keys of those numbers in that order, behind `dummy`.
fn multisig_proof(spk: &ScriptBuf, dummy: &'static str, signers: &[u64]) -> Prove {
    let (script_code, signers) = (spk.clone(), signers.to_vec());
    Box::new(move |tx, index, _| {
        let mut script_sig = asm(dummy);
        for signer in &signers {
            let secret = Stage::keys().secret(KEY + signer);
            let signature = legacy_signature(tx, index, &script_code, ALL, &secret);
            script_sig = concat(&[&script_sig, &push(&with_type(&signature, ALL as u8))]);
        }
        (script_sig, Witness::new())
    })
}

/// Name, signatures required, keys, dummy, signers, validity.
type Multisig = (&'static str, u64, u64, &'static str, &'static [u64], bool);

const MULTISIGS: [Multisig; 14] = [
    ("1 of 1", 1, 1, "0", &[0], true),
    ("2 of 3, first two", 2, 3, "0", &[0, 1], true),
    ("2 of 3, last two", 2, 3, "0", &[1, 2], true),
    ("2 of 3, first and last", 2, 3, "0", &[0, 2], true),
    ("2 of 3, wrong order", 2, 3, "0", &[1, 0], false),
    ("2 of 3, one twice", 2, 3, "0", &[1, 1], false),
    ("2 of 3, one foreign", 2, 3, "0", &[1, 7], false),
    ("2 of 3, one missing", 2, 3, "0", &[1], false),
    ("2 of 3, no dummy", 2, 3, "", &[0, 1], false),
    ("2 of 3, dummy of one", 2, 3, "1", &[0, 1], false),
    ("2 of 3, dummy of a zero byte", 2, 3, "<00>", &[0, 1], false),
    ("3 of 3", 3, 3, "0", &[0, 1, 2], true),
    ("0 of 2", 0, 2, "0", &[], true),
    ("0 of 2, dummy of one", 0, 2, "1", &[], false),
];

fn multisig(rows: &mut Vec<Row>, keys: &KeyRing) {
    for (name, required, total, dummy, signers, valid) in MULTISIGS {
        let spk = multisig_script(keys, required, total);
        let prove = multisig_proof(&spk, dummy, signers);
        rows.push(Row::new(&format!("multisig: {name}"), spk, valid, prove));
    }
    for (name, dummy, valid) in [("dummy empty", "0", true), ("dummy of one", "1", false)] {
        let spk = concat(&[&multisig_script(keys, 1, 1), &asm("NOT")]);
        let prove = multisig_proof(&spk, dummy, &[3]);
        rows.push(Row::new(&format!("failed multisig, NOT, {name}"), spk, valid, prove));
    }
}

fn multisig_limits(rows: &mut Vec<Row>, keys: &KeyRing) {
    for (total, valid) in [(20, true), (21, false)] {
        let spk = multisig_script(keys, 1, total);
        let prove = multisig_proof(&spk, "0", &[total - 1]);
        rows.push(Row::new(&format!("multisig: 1 of {total}"), spk, valid, prove));
    }
    for (name, script, script_sig, valid) in [
        ("multisig: 0 of 0", "0 0 CHECKMULTISIG", "0", true),
        ("multisig: 0 of 0, no dummy", "0 0 CHECKMULTISIG", "", false),
        ("multisig: 0 of 0, dummy of one", "0 0 CHECKMULTISIG", "1", false),
        ("multisig: 0 of -1", "0 -1 CHECKMULTISIG", "0", false),
        ("multisig: -1 of 0", "-1 0 CHECKMULTISIG", "0", false),
        ("multisig: 1 of 0", "1 0 CHECKMULTISIG", "0 0", false),
        ("multisig: 0 of 1, key of any form", "0 1 1 CHECKMULTISIG", "0", true),
        ("multisig: keys missing", "3 CHECKMULTISIG", "0", false),
        ("CHECKMULTISIGVERIFY of 0 of 0", "0 0 CHECKMULTISIGVERIFY 1", "0", true),
    ] {
        rows.push(Row::plain(name, script, script_sig, valid));
    }
}

fn key_hashes(rows: &mut Vec<Row>, keys: &KeyRing) {
    let secret = keys.secret(KEY);
    let public = PublicKey::new(keys.public(KEY));
    let other = PublicKey::new(keys.public(KEY + 1));
    for (name, shown, hash, valid) in [
        ("P2PKH", &public, public.pubkey_hash(), true),
        ("P2PKH: another key", &other, public.pubkey_hash(), false),
        ("P2PKH: another hash", &public, PubkeyHash::all_zeros(), false),
        ("P2PKH: another key's hash", &other, other.pubkey_hash(), false),
    ] {
        let spk = ScriptBuf::new_p2pkh(&hash);
        let (script_code, shown) = (spk.clone(), push(&shown.to_bytes()));
        let prove: Prove = Box::new(move |tx, index, _| {
            let signature = legacy_signature(tx, index, &script_code, ALL, &secret);
            (concat(&[&push(&with_type(&signature, ALL as u8)), &shown]), Witness::new())
        });
        rows.push(Row::new(name, spk, valid, prove));
    }
}

/// A P2WPKH proof over an amount, with a key shown and items added.
fn key_hash_proof(
    program: ScriptBuf,
    value: u64,
    hash_type: EcdsaSighashType,
    shown: Vec<u8>,
    shape: fn(Vec<u8>, Vec<u8>) -> Vec<Vec<u8>>,
) -> Prove {
    Box::new(move |tx: &Transaction, index: usize, _: &[TxOut]| -> Proof {
        let hash = SighashCache::new(tx)
            .p2wpkh_signature_hash(index, &program, Amount::from_sat(value), hash_type)
            .expect("the program is P2WPKH");
        let keys = Stage::keys();
        let signature = keys.secp().sign_ecdsa(&Message::from(hash), &keys.secret(KEY));
        let signature = with_type(&signature, hash_type as u8);
        (ScriptBuf::new(), Witness::from_slice(&shape(signature, shown.clone())))
    })
}

fn segwit(rows: &mut Vec<Row>, keys: &KeyRing) {
    let public = keys.public(KEY);
    let program = |bytes: &[u8]| ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(bytes));
    let (short, long) = (public.serialize().to_vec(), public.serialize_uncompressed().to_vec());
    let pair: fn(Vec<u8>, Vec<u8>) -> Vec<Vec<u8>> = |signature, key| vec![signature, key];
    type Shape = fn(Vec<u8>, Vec<u8>) -> Vec<Vec<u8>>;
    let all = EcdsaSighashType::All;
    let table: [(&str, &[u8], u64, Shape, bool); 8] = [
        ("P2WPKH", &short, COIN_VALUE, pair, true),
        ("P2WPKH: uncompressed key", &long, COIN_VALUE, pair, true),
        ("P2WPKH: another amount", &short, COIN_VALUE - 1, pair, false),
        ("P2WPKH: no key", &short, COIN_VALUE, |signature, _| vec![signature], false),
        ("P2WPKH: item before", &short, COIN_VALUE, |s, k| vec![vec![], s, k], false),
        ("P2WPKH: item behind", &short, COIN_VALUE, |s, k| vec![s, k, vec![]], false),
        ("P2WPKH: no witness", &short, COIN_VALUE, |_, _| vec![], false),
        ("P2WPKH: order", &short, COIN_VALUE, |s, k| vec![k, s], false),
    ];
    for (name, key, value, shape, valid) in table {
        let spk = program(key);
        let prove = key_hash_proof(spk.clone(), value, all, key.to_vec(), shape);
        rows.push(Row::new(name, spk, valid, prove));
    }
    for hash_type in [
        EcdsaSighashType::None,
        EcdsaSighashType::Single,
        EcdsaSighashType::AllPlusAnyoneCanPay,
        EcdsaSighashType::NonePlusAnyoneCanPay,
        EcdsaSighashType::SinglePlusAnyoneCanPay,
    ] {
        for second in [false, true] {
            let spk = program(&short);
            let place = if second { "second" } else { "only" };
            let name = format!("P2WPKH: hash type {hash_type}, {place} input");
            let prove = key_hash_proof(spk.clone(), COIN_VALUE, hash_type, short.clone(), pair);
            rows.push(Row { second, ..Row::new(&name, spk, true, prove) });
        }
    }
}
