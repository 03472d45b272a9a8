//! Lies that a PSBT can tell, generated for coins of every kind. None of them gets a signature.

use std::collections::HashSet;

use bitcoin::bip32::{DerivationPath, KeySource};
use bitcoin::psbt::{Input, Output, PsbtSighashType};
use bitcoin::{ScriptBuf, XOnlyPublicKey};
use miniscript::psbt::PsbtExt;

use super::coins::{COIN, KINDS, public_descriptor, received, sign, spend};
use super::*;
use crate::psbt::spent::output_key;

/// A lie; `false` where it says nothing of such a coin.
type Lie = fn(&mut bitcoin::Psbt) -> bool;

type LieInBytes = fn(&mut Vec<u8>);

fn script() -> ScriptBuf {
    ScriptBuf::from_bytes(vec![0x51])
}

/// The output key of somebody else.
fn other_key() -> XOnlyPublicKey {
    output_key(&public_descriptor("tr(F/77)").script_pubkey()).expect("it is taproot")
}

fn change<T>(field: Option<&mut T>, change: impl FnOnce(&mut T)) -> bool {
    field.map(change).is_some()
}

fn sources(input: &mut Input) -> impl Iterator<Item = &mut KeySource> {
    let taproot = input.tap_key_origins.values_mut().map(|(_, source)| source);
    input.bip32_derivation.values_mut().chain(taproot)
}

/// Pays the change to a coin of `script` of ours, with the fields of `described`.
fn pay_to(psbt: &mut bitcoin::Psbt, described: &str, script: &str) -> bool {
    let descriptor = public_descriptor(described);
    psbt.outputs[0] = Output::default();
    psbt.unsigned_tx.output[0].script_pubkey = descriptor.script_pubkey();
    psbt.update_output_with_descriptor(0, &descriptor).expect(described);
    psbt.unsigned_tx.output[0].script_pubkey = public_descriptor(script).script_pubkey();
    true
}

fn ask_for(psbt: &mut bitcoin::Psbt, sighash: u32) -> bool {
    psbt.inputs[0].sighash_type = Some(PsbtSighashType::from_u32(sighash));
    true
}

/// About amounts.
const AMOUNTS: &[(&str, Lie)] = &[
    ("a satoshi more is spent", |psbt| {
        change(psbt.inputs[0].witness_utxo.as_mut(), |coin| coin.value += Amount::ONE_SAT)
    }),
    ("nothing is spent", |psbt| {
        change(psbt.inputs[0].witness_utxo.as_mut(), |coin| coin.value = Amount::ZERO)
    }),
    ("more is spent than there is", |psbt| {
        psbt.inputs[0].non_witness_utxo = None;
        let all = Amount::MAX_MONEY + Amount::ONE_SAT;
        change(psbt.inputs[0].witness_utxo.as_mut(), |coin| coin.value = all)
    }),
    ("another previous transaction", |psbt| {
        change(psbt.inputs[0].non_witness_utxo.as_mut(), |previous| {
            previous.output[1].value -= Amount::ONE_SAT;
        })
    }),
    ("a previous transaction of another version", |psbt| {
        change(psbt.inputs[0].non_witness_utxo.as_mut(), |previous| {
            previous.version = bitcoin::transaction::Version::ONE;
        })
    }),
    ("another output of the previous transaction", |psbt| {
        psbt.unsigned_tx.input[0].previous_output.vout = 0;
        true
    }),
    ("an output that the previous transaction does not have", |psbt| {
        psbt.unsigned_tx.input[0].previous_output.vout = 7;
        true
    }),
    ("a coin spent twice", |psbt| {
        psbt.unsigned_tx.input.push(psbt.unsigned_tx.input[0].clone());
        psbt.inputs.push(psbt.inputs[0].clone());
        true
    }),
    ("nothing is said of the coin", |psbt| {
        (psbt.inputs[0].witness_utxo, psbt.inputs[0].non_witness_utxo) = (None, None);
        true
    }),
];

/// About fees.
const FEES: &[(&str, Lie)] = &[
    ("outputs worth more than the inputs", |psbt| {
        psbt.unsigned_tx.output[0].value = Amount::from_sat(COIN + 1);
        true
    }),
    ("an output worth more than all bitcoin", |psbt| {
        psbt.unsigned_tx.output[0].value = Amount::MAX_MONEY + Amount::ONE_SAT;
        true
    }),
    ("a quarter and a satoshi for the fee", |psbt| {
        psbt.unsigned_tx.output[0].value = Amount::from_sat(COIN - COIN / 4 - 1);
        true
    }),
    ("all for the fee", |psbt| {
        psbt.unsigned_tx.output[0].value = Amount::ZERO;
        true
    }),
    ("more than a tenth of a bitcoin for the fee", |psbt| {
        psbt.unsigned_tx.output[0].value = Amount::from_sat(COIN - 10_000_001);
        true
    }),
];

/// About the scripts of a coin.
const SCRIPTS: &[(&str, Lie)] = &[
    ("another script is spent", |psbt| {
        let other = public_descriptor("wpkh(F/3)").script_pubkey();
        change(psbt.inputs[0].witness_utxo.as_mut(), |coin| coin.script_pubkey = other)
    }),
    ("another redeem script", |psbt| {
        psbt.inputs[0].redeem_script = Some(script());
        true
    }),
    ("another witness script", |psbt| {
        psbt.inputs[0].witness_script = Some(script());
        true
    }),
    ("no redeem script", |psbt| psbt.inputs[0].redeem_script.take().is_some()),
    ("no witness script", |psbt| psbt.inputs[0].witness_script.take().is_some()),
    ("another internal key", |psbt| {
        change(psbt.inputs[0].tap_internal_key.as_mut(), |key| *key = other_key())
    }),
    ("another root of the scripts", |psbt| {
        let is_taproot = psbt.inputs[0].tap_internal_key.is_some();
        let hash = bitcoin::hashes::Hash::from_byte_array([7; 32]);
        psbt.inputs[0].tap_merkle_root = Some(hash);
        is_taproot
    }),
    ("another leaf", |psbt| {
        let leaves = &mut psbt.inputs[0].tap_scripts;
        leaves.values_mut().for_each(|(leaf, _)| *leaf = script());
        !leaves.is_empty()
    }),
];

/// About keys.
const KEYS: &[(&str, Lie)] = &[
    ("keys at another path", |psbt| {
        let path: DerivationPath = "m/1/2/3".parse().expect("a path");
        sources(&mut psbt.inputs[0]).for_each(|source| source.1 = path.clone());
        true
    }),
    ("keys a step further", |psbt| {
        sources(&mut psbt.inputs[0]).for_each(|source| {
            source.1 = source.1.child(bitcoin::bip32::ChildNumber::Normal { index: 0 });
        });
        true
    }),
    ("keys of another root", |psbt| {
        sources(&mut psbt.inputs[0]).for_each(|source| source.0 = [1, 2, 3, 4].into());
        true
    }),
    ("other keys at our paths", |psbt| {
        let input = &mut psbt.inputs[0];
        let other = other_key();
        let full = bitcoin::secp256k1::PublicKey::from_x_only_public_key(
            other,
            bitcoin::secp256k1::Parity::Even,
        );
        let source = sources(input).next().expect("each has a key").clone();
        if input.bip32_derivation.is_empty() {
            input.tap_key_origins = [(other, (Vec::new(), source))].into();
        } else {
            input.bip32_derivation = [(full, source)].into();
        }
        true
    }),
    ("no keys", |psbt| {
        psbt.inputs[0].bip32_derivation.clear();
        psbt.inputs[0].tap_key_origins.clear();
        true
    }),
];

/// About what a signature covers.
const SIGHASHES: &[(&str, Lie)] = &[
    ("no outputs", |psbt| ask_for(psbt, 0x02)),
    ("one output", |psbt| ask_for(psbt, 0x03)),
    ("one input", |psbt| ask_for(psbt, 0x81)),
    ("one input and no outputs", |psbt| ask_for(psbt, 0x82)),
    ("one input and one output", |psbt| ask_for(psbt, 0x83)),
    ("an unknown type", |psbt| ask_for(psbt, 0x04)),
    ("an unknown type for one input", |psbt| ask_for(psbt, 0x84)),
    ("a type of more than a byte", |psbt| ask_for(psbt, 0x0101)),
    ("a type of another chain", |psbt| ask_for(psbt, 0x41)),
];

/// About the change.
const CHANGE: &[(&str, Lie)] = &[
    ("our P2WPKH, theirs in truth", |psbt| pay_to(psbt, "wpkh(A/1)", "wpkh(F/1)")),
    ("our P2PKH, theirs in truth", |psbt| pay_to(psbt, "pkh(A/1)", "pkh(F/1)")),
    ("our P2WPKH in P2SH, theirs in truth", |psbt| pay_to(psbt, "sh(wpkh(A/1))", "sh(wpkh(F/1))")),
    ("our multisig, theirs in truth", |psbt| {
        pay_to(psbt, "wsh(multi(2,A/1,B/1))", "wsh(multi(2,F/1,F/2))")
    }),
    ("our multisig in P2SH, theirs in truth", |psbt| {
        pay_to(psbt, "sh(multi(2,A/1,B/1))", "sh(multi(1,A/1,F/2))")
    }),
    ("our taproot key, theirs in truth", |psbt| pay_to(psbt, "tr(A/1)", "tr(F/1)")),
    ("our taproot leaf, theirs in truth", |psbt| {
        pay_to(psbt, "tr(F/1,pk(A/1))", "tr(F/1,pk(F/2))")
    }),
    ("our taproot key, with a leaf of theirs in truth", |psbt| {
        pay_to(psbt, "tr(A/1)", "tr(A/1,pk(F/2))")
    }),
    ("our key, a script hash of theirs in truth", |psbt| {
        pay_to(psbt, "wpkh(A/1)", "sh(wpkh(F/1))")
    }),
    ("our key, a witness script hash of theirs in truth", |psbt| {
        pay_to(psbt, "wpkh(A/1)", "wsh(pk(F/1))")
    }),
    ("our key, taproot of theirs in truth", |psbt| pay_to(psbt, "wpkh(A/1)", "tr(F/1)")),
    ("a redeem script that is none", |psbt| {
        pay_to(psbt, "wpkh(A/1)", "wpkh(A/1)");
        psbt.outputs[0].redeem_script = Some(script());
        true
    }),
    ("a witness script that is none", |psbt| {
        pay_to(psbt, "wpkh(A/1)", "wpkh(A/1)");
        psbt.outputs[0].witness_script = Some(script());
        true
    }),
    ("their key at a path of ours", |psbt| {
        pay_to(psbt, "wpkh(A/1)", "wpkh(F/1)");
        let fields = &mut psbt.outputs[0].bip32_derivation;
        let source = fields.values().next().expect("one").clone();
        let key = bitcoin::secp256k1::PublicKey::from_x_only_public_key(
            other_key(),
            bitcoin::secp256k1::Parity::Even,
        );
        *fields = [(key, source)].into();
        true
    }),
];

/// In the bytes: versions, and fields that are there twice or nowhere.
const BYTES: &[(&str, LieInBytes)] = &[
    ("version 1", |bytes| insert_global(bytes, &[1, 0xfb, 4, 1, 0, 0, 0])),
    ("version 3", |bytes| insert_global(bytes, &[1, 0xfb, 4, 3, 0, 0, 0])),
    ("version 2 with an unsigned transaction", |bytes| {
        insert_global(bytes, &[1, 0xfb, 4, 2, 0, 0, 0]);
    }),
    ("a count of inputs in version 0", |bytes| insert_global(bytes, &[1, 0x04, 1, 2])),
    ("bytes behind the end", |bytes| bytes.push(0)),
    ("an end too early", |bytes| {
        bytes.pop();
    }),
];

/// The same of version 2.
const BYTES_OF_VERSION2: &[(&str, LieInBytes)] = &[
    ("the fields of version 2 in version 0", |bytes| change_global(bytes, &[1, 0xfb, 4], -2)),
    ("the fields of version 2 in version 1", |bytes| change_global(bytes, &[1, 0xfb, 4], -1)),
    ("an input more than there is", |bytes| change_global(bytes, &[1, 0x04, 1], 1)),
    ("an output more than there is", |bytes| change_global(bytes, &[1, 0x05, 1], 1)),
    ("an output less than there is", |bytes| change_global(bytes, &[1, 0x05, 1], -1)),
];

/// The byte behind what a global field begins with.
fn change_global(bytes: &mut [u8], start: &[u8], by: i8) {
    let at = bytes.windows(start.len()).position(|window| window == start).expect("it is there");
    let byte = &mut bytes[at + start.len()];
    *byte = byte.checked_add_signed(by).expect("a small number");
}

/// In front of all other fields.
fn insert_global(bytes: &mut Vec<u8>, field: &[u8]) {
    bytes.splice(5..5, field.iter().copied());
}

#[test]
fn no_lie_gets_a_signature() {
    let groups = [AMOUNTS, FEES, SCRIPTS, KEYS, SIGHASHES, CHANGE];
    let mut told = vec![HashSet::new(); groups.len() + 1];
    for kind in KINDS {
        let honest = spend(&[kind]);
        let mut psbt = Psbt::decode(&honest.serialize()).expect(kind);
        let signed = sign(&mut psbt, "A", &SignPolicy::default());
        assert!(signed.is_ok_and(|signed| !signed.is_empty()), "{kind}: the truth is signed");
        for (group, lies) in groups.iter().enumerate() {
            for (name, lie) in *lies {
                let mut psbt = honest.clone();
                if !lie(&mut psbt) || psbt == honest {
                    continue;
                }
                told[group].insert(psbt.serialize());
                // What cannot be read is not signed either.
                let Ok(mut psbt) = Psbt::decode(&psbt.serialize()) else { continue };
                let before = psbt.clone();
                let outcome = sign(&mut psbt, "A", &SignPolicy::default());
                assert!(outcome.is_err(), "{kind}: {name}: {outcome:?}");
                assert_eq!(psbt, before, "{kind}: {name}");
            }
        }
        let version2 = received(&honest).into_version2().encode();
        for (bytes, lies) in [(honest.serialize(), BYTES), (version2, BYTES_OF_VERSION2)] {
            for (name, lie) in lies {
                let mut bytes = bytes.clone();
                lie(&mut bytes);
                assert!(Psbt::decode(&bytes).is_err(), "{kind}: {name}");
                told[groups.len()].insert(bytes);
            }
        }
    }
    // Each is another one.
    let told: Vec<usize> = told.iter().map(HashSet::len).collect();
    assert!(told.iter().sum::<usize>() >= 300, "{told:?}");
    assert!(told.iter().all(|count| *count >= 40), "{told:?}");
}
