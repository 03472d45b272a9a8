//! The kinds of blocks.

use bitcoin::ScriptBuf;
use bitcoin::hashes::Hash;
use bitcoin::key::Secp256k1;
use bitcoin::secp256k1::{All, XOnlyPublicKey};
use bitcoin::taproot::{LeafVersion, TapLeafHash, TaprootBuilder};
use godwit_script::SpendingTx;

use crate::exceptional::{self, SchnorrSearch};
use crate::spend::{
    Solve, Spend, Tx, ecdsa, key_hash_script, public_key, push, schnorr, secret_key, transaction,
    witness_script_hash, x_only,
};

pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) make: fn() -> Vec<Tx>,
    pub(crate) is_valid: bool,
}

const fn valid(name: &'static str, make: fn() -> Vec<Tx>) -> Kind {
    Kind { name, make, is_valid: true }
}

pub(crate) const KINDS: &[Kind] = &[
    valid("P2WPKH, for comparison", || many(2_048, witness_key_hash)),
    valid("exceptional, P2PKH with SINGLE beyond the outputs", || exceptional_hashes(2_047)),
    valid("exceptional, P2PK likewise", || exceptional_keys(2_047)),
    valid("exceptional, bare 1-of-20 by the first key", || exceptional_multisig(255)),
    valid("exceptional, P2TR by key", exceptional_taproot),
    valid("half of them exceptional, P2PKH", half_exceptional),
    valid("1-of-20 by the first key, P2WSH", || many(256, |i| multisig(i, 20, &[0]))),
    valid("2-of-20 by the last keys, P2WSH", || many(512, |i| multisig(i, 20, &[18, 19]))),
    valid("10-of-20 by the last keys, P2WSH", || many(256, |i| multisig(i, 20, &LAST_TEN))),
    valid("10-of-20 by the first keys, P2WSH", || many(256, |i| multisig(i, 20, &FIRST_TEN))),
    valid("20-of-20, P2WSH", || many(256, |i| multisig(i, 20, &ALL))),
    valid("legacy hashing, 200 P2PKH, an output of 850 kB", || legacy(200, &[0x01], &[850_000])),
    valid("legacy hashing, 200 P2PKH, 13,000 outputs of 64 bytes", || {
        legacy(200, &[0x01], &[55; 13_000])
    }),
    valid("legacy hashing, 24 hash types", || legacy(2_000, &HASH_TYPES, &[25; 2_000])),
    valid("SINGLE, 2,000 P2PKH and outputs", || legacy(2_000, &[0x03], &[25; 2_000])),
    valid("P2WSH of OP_CHECKLOCKTIMEVERIFY and a key", || many(2_048, lock_time)),
    valid("no claim, P2WSH of OP_1", || many(8_192, witness_true)),
    valid("no claim, OP_1", || many(16_384, |_| bare(vec![0x51], Vec::new()))),
    valid("no claim, leaf of OP_CHECKSIGVERIFY", || many(1_024, leaf_verify)),
    valid("no claim, the same beside 1,000 spent scripts of 10 kB", beside_long_scripts),
    valid("no claim, leaf of OP_1", || many(2_048, leaf_true)),
    valid("nearly a form, bare 1-of-20 whose last key is hybrid", || many(2_048, nearly_multisig)),
    valid("nearly a form, P2PKH with a hybrid key", || many(2_048, hybrid)),
    valid("nearly a form, an envelope of 3 MB and a wrong opcode", || vec![envelope(true)]),
    valid("an envelope of 3 MB", || vec![envelope(false)]),
    valid("an annex of 3 MB", annex),
    Kind {
        name: "refused, 256 P2WPKH with wrong signatures (milliseconds until the verdict)",
        make: || many(256, wrong),
        is_valid: false,
    },
    valid("legacy hashing, 6,700 P2PKH in 1 MB", || legacy(6_700, &[0x01], &[25])),
];

const FIRST_TEN: [usize; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const LAST_TEN: [usize; 10] = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
const ALL: [usize; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
/// All three kinds, with and without other inputs, and bits that mean nothing.
const HASH_TYPES: [u8; 24] = [
    0x01, 0x02, 0x03, 0x81, 0x82, 0x83, 0x00, 0x04, 0x05, 0x41, 0x42, 0x43, 0xc1, 0xc2, 0xc3, 0x21,
    0x22, 0x23, 0xa1, 0xa2, 0xa3, 0x11, 0x12, 0x1f,
];
const SINGLE: u8 = 3;
/// The message of [`SINGLE`] without an output.
const ONE: [u8; 32] = {
    let mut one = [0; 32];
    one[0] = 1;
    one
};

/// Transactions of up to 128 inputs.
fn many(inputs: usize, spend: impl Fn(usize) -> Spend) -> Vec<Tx> {
    let spends: Vec<usize> = (0..inputs).collect();
    let tx = |some: &[usize]| transaction(some.iter().map(|i| spend(*i)).collect(), &[25]);
    spends.chunks(128).map(tx).collect()
}

fn secp() -> Secp256k1<All> {
    Secp256k1::new()
}

fn witness_key_hash(i: usize) -> Spend {
    let key = public_key(&secp(), i);
    let hashed = key_hash_script(&key);
    let program = [&[0, 20], &hashed[3..23]].concat();
    let solve: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let message = tx.segwit_message(input, &hashed, 1).expect("an input");
        (Vec::new(), vec![ecdsa(&secp(), i, message, 1), key.clone()])
    });
    (program, solve)
}

fn wrong(i: usize) -> Spend {
    let (program, solve) = witness_key_hash(i);
    let wrong: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let (script_sig, witness) = solve(tx, input);
        let signature = ecdsa(&secp(), i, [7; 32], 1);
        (script_sig, vec![signature, witness[1].clone()])
    });
    (program, wrong)
}

fn key_hash(i: usize, hash_type: u8) -> Spend {
    let key = public_key(&secp(), i % 64);
    let script = key_hash_script(&key);
    let script_code = script.clone();
    let solve: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let message = tx.legacy_message(input, &script_code, hash_type.into()).expect("an input");
        let signature = ecdsa(&secp(), i % 64, message, hash_type);
        ([push(&signature), push(&key)].concat(), Vec::new())
    });
    (script, solve)
}

fn legacy(inputs: usize, hash_types: &[u8], outputs: &[usize]) -> Vec<Tx> {
    let spends = (0..inputs).map(|i| key_hash(i, hash_types[i % hash_types.len()]));
    vec![transaction(spends.collect(), outputs)]
}

fn bare(script: Vec<u8>, script_sig: Vec<u8>) -> Spend {
    (script, Box::new(move |_, _| (script_sig.clone(), Vec::new())))
}

/// One transaction with one output, whose first input signs it; the others are beyond.
fn beyond(spends: impl Iterator<Item = Spend>) -> Vec<Tx> {
    vec![transaction(std::iter::once(witness_key_hash(0)).chain(spends).collect(), &[25])]
}

fn exceptional_hash((key, der): (Vec<u8>, Vec<u8>)) -> Spend {
    let script_sig = [push(&[&der[..], &[SINGLE]].concat()), push(&key)].concat();
    bare(key_hash_script(&key), script_sig)
}

fn exceptional_hashes(count: usize) -> Vec<Tx> {
    beyond(exceptional::ecdsa(&ONE, count).into_iter().map(exceptional_hash))
}

fn half_exceptional() -> Vec<Tx> {
    let odd = exceptional::ecdsa(&ONE, 1_024).into_iter().map(exceptional_hash);
    beyond(odd.enumerate().flat_map(|(i, spend)| [spend, key_hash(i, SINGLE)]))
}

fn exceptional_keys(count: usize) -> Vec<Tx> {
    beyond(exceptional::ecdsa(&ONE, count).into_iter().map(|(key, der)| {
        bare([push(&key), vec![0xac]].concat(), push(&[&der[..], &[SINGLE]].concat()))
    }))
}

fn exceptional_multisig(count: usize) -> Vec<Tx> {
    beyond(exceptional::ecdsa(&ONE, count).into_iter().map(|(key, der)| {
        let others = (1..20).map(|i| public_key(&secp(), i));
        let script = multisig_script(1, &std::iter::once(key).chain(others).collect::<Vec<_>>());
        bare(script, [vec![0], push(&[&der[..], &[SINGLE]].concat())].concat())
    }))
}

/// Inputs whose signature can be made exceptional do not depend on each other with SIGHASH_DEFAULT; an annex
/// of some bytes is varied until there is one.
fn exceptional_taproot() -> Vec<Tx> {
    let spend = |_| -> Spend {
        let script = [&[0x51, 0x20], &x_only(&secp(), 5)[..]].concat();
        let solve: Solve = Box::new(|tx: &SpendingTx<'_>, input| {
            thread_local!(static SEARCH: SchnorrSearch = SchnorrSearch::new(secret_key(5)));
            let tried = (0_u32..).map(|nonce| [&[0x50], &nonce.to_le_bytes()[..]].concat());
            let found = tried.into_iter().find_map(|annex| {
                let message = tx.taproot_message(input, 0, Some(&annex), None)?;
                let signature = SEARCH.with(|search| search.sign(&message))?;
                Some(vec![signature, annex])
            });
            (Vec::new(), found.expect("one of three"))
        });
        (script, solve)
    };
    many(16_384, spend)
}

fn multisig_script(required: usize, keys: &[Vec<u8>]) -> Vec<u8> {
    let number = |n: usize| if n <= 16 { vec![0x50 + n as u8] } else { vec![1, n as u8] };
    let keys_pushed: Vec<u8> = keys.iter().flat_map(|key| push(key)).collect();
    [number(required), keys_pushed, number(keys.len()), vec![0xae]].concat()
}

fn multisig(i: usize, of: usize, signers: &'static [usize]) -> Spend {
    let first = 20 * i;
    let keys: Vec<_> = (first..first + of).map(|key| public_key(&secp(), key)).collect();
    let script = multisig_script(signers.len(), &keys);
    let program = witness_script_hash(&script);
    let solve: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let message = tx.segwit_message(input, &script, 1).expect("an input");
        let signatures = signers.iter().map(|signer| ecdsa(&secp(), first + signer, message, 1));
        let witness = std::iter::once(Vec::new()).chain(signatures).chain([script.clone()]);
        (Vec::new(), witness.collect())
    });
    (program, solve)
}

/// The last key signs, and is a hybrid one, which no form has.
fn nearly_multisig(i: usize) -> Spend {
    let keys = (0..19).map(|key| public_key(&secp(), key)).chain([hybrid_key(i)]);
    let script = multisig_script(1, &keys.collect::<Vec<_>>());
    let script_code = script.clone();
    let solve: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let message = tx.legacy_message(input, &script_code, 1).expect("an input");
        ([vec![0], push(&ecdsa(&secp(), i, message, 1))].concat(), Vec::new())
    });
    (script, solve)
}

fn hybrid_key(i: usize) -> Vec<u8> {
    let mut key = secret_key(i).public_key(&secp()).serialize_uncompressed();
    key[0] = 6 + key[64] % 2;
    key.to_vec()
}

fn hybrid(i: usize) -> Spend {
    let key = hybrid_key(i);
    let script = key_hash_script(&key);
    let script_code = script.clone();
    let solve: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let message = tx.legacy_message(input, &script_code, 1).expect("an input");
        ([push(&ecdsa(&secp(), i, message, 1)), push(&key)].concat(), Vec::new())
    });
    (script, solve)
}

fn lock_time(i: usize) -> Spend {
    let script = [vec![0x00, 0xb1, 0x75], push(&public_key(&secp(), i)), vec![0xac]].concat();
    let program = witness_script_hash(&script);
    let solve: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let message = tx.segwit_message(input, &script, 1).expect("an input");
        (Vec::new(), vec![ecdsa(&secp(), i, message, 1), script.clone()])
    });
    (program, solve)
}

fn witness_true(_: usize) -> Spend {
    let script = vec![0x51];
    (witness_script_hash(&script), Box::new(move |_, _| (Vec::new(), vec![script.clone()])))
}

/// A leaf alone under an internal key that nobody uses; `signer` signs if there is one.
fn leaf(script: Vec<u8>, signer: Option<usize>) -> Spend {
    let secp = secp();
    let internal = XOnlyPublicKey::from_slice(&x_only(&secp, 1)).expect("a key");
    let script = ScriptBuf::from(script);
    let builder = TaprootBuilder::new().add_leaf(0, script.clone()).expect("one leaf");
    let info = builder.finalize(&secp, internal).expect("complete");
    let versioned = (script.clone(), LeafVersion::TapScript);
    let control = info.control_block(&versioned).expect("of this leaf").serialize();
    let program = [&[0x51, 0x20], &info.output_key().serialize()[..]].concat();
    let hash = TapLeafHash::from_script(&script, LeafVersion::TapScript).to_byte_array();
    let solve: Solve = Box::new(move |tx: &SpendingTx<'_>, input| {
        let signature = signer.map(|signer| {
            let message = tx.taproot_message(input, 0, None, Some(&hash)).expect("an input");
            schnorr(&secp, signer, message)
        });
        let rest = [script.to_bytes(), control.clone()];
        (Vec::new(), signature.into_iter().chain(rest).collect())
    });
    (program, solve)
}

fn leaf_verify(i: usize) -> Spend {
    leaf([push(&x_only(&secp(), i)), vec![0xad, 0x51]].concat(), Some(i))
}

/// One transaction, as what it spends is what the engine copies.
fn beside_long_scripts() -> Vec<Tx> {
    let push_and_drop = [push(&[7; 520]), vec![0x75]].concat();
    let long = [push_and_drop.repeat(19), vec![0x51]].concat();
    let others = (0..1_000).map(|_| bare(long.clone(), Vec::new()));
    vec![transaction((0..1_000).map(leaf_verify).chain(others).collect(), &[25])]
}

fn leaf_true(_: usize) -> Spend {
    leaf(vec![0x51], None)
}

/// Pushes of 520 bytes that nothing executes, and OP_NOP behind the signature where it is no form.
fn envelope(is_wrong: bool) -> Tx {
    let mut script = vec![0x00, 0x63];
    for _ in 0..5_700 {
        script.extend(push(&[7; 520]));
    }
    script.extend([vec![0x68], push(&x_only(&secp(), 3)), vec![0xac]].concat());
    if is_wrong {
        script.push(0x61);
    }
    transaction(vec![leaf(script, Some(3))], &[25])
}

fn annex() -> Vec<Tx> {
    let script = [&[0x51, 0x20], &x_only(&secp(), 5)[..]].concat();
    let solve: Solve = Box::new(|tx: &SpendingTx<'_>, input| {
        let mut annex = vec![0x50];
        annex.resize(3_000_000, 9);
        let message = tx.taproot_message(input, 0, Some(&annex), None).expect("an input");
        (Vec::new(), vec![schnorr(&secp(), 5, message), annex])
    });
    vec![transaction(vec![(script, solve)], &[25])]
}
