//! Keys in 65 bytes, as Core names them where a script has them so.

use bitcoin::bip32::DerivationPath;
use bitcoin::opcodes::all::OP_CHECKMULTISIG;
use bitcoin::script::Builder;
use bitcoin::secp256k1::{PublicKey, Secp256k1, SecretKey};
use bitcoin::{NetworkKind, PrivateKey, ScriptBuf};

use super::coins::{received, spend};
use super::*;
use crate::psbt::pairs::{Maps, Pairs};
use crate::psbt::{CombineError, PsbtMap};

/// `PSBT_IN_BIP32_DERIVATION`, `PSBT_OUT_BIP32_DERIVATION`.
const INPUT_DERIVATION: u8 = 0x06;
const OUTPUT_DERIVATION: u8 = 0x02;

/// A private key and its public one, in 65 bytes.
struct Key {
    stored: StoredKey,
    public: bitcoin::PublicKey,
}

fn key(number: u8) -> Key {
    let inner = SecretKey::from_slice(&[number; 32]).expect("it is in range");
    let private = PrivateKey::new_uncompressed(inner, NetworkKind::Test);
    Key { stored: wif(&private.to_wif()), public: private.public_key(&Secp256k1::new()) }
}

/// The key of a pair that names a public key, in either form.
fn long(kind: u8, key: &PublicKey) -> Vec<u8> {
    [&[kind][..], &key.serialize_uncompressed()].concat()
}

fn short(kind: u8, key: &PublicKey) -> Vec<u8> {
    [&[kind][..], &key.serialize()].concat()
}

fn lengthen(pairs: &mut Pairs, kind: u8, key: &PublicKey) {
    let value = pairs.remove(&short(kind, key)).expect("it is named");
    pairs.insert(long(kind, key), value);
}

/// A PSBT that spends a coin with this script, and pays to it, both with the redeem script, if there is one.
/// The keys are named in 65 bytes.
fn with_script(script: &ScriptBuf, redeem: Option<&ScriptBuf>, keys: &[&Key]) -> Psbt {
    let mut psbt = spend(&["pkh(A/0)"]);
    let input = &mut psbt.inputs[0];
    let previous = input.non_witness_utxo.as_mut().expect("it is there");
    previous.output[1].script_pubkey.clone_from(script);
    input.witness_utxo = Some(previous.output[1].clone());
    psbt.unsigned_tx.input[0].previous_output.txid = previous.compute_txid();
    psbt.unsigned_tx.output[0].script_pubkey.clone_from(script);
    let named = keys.iter().map(|key| {
        let source = ([0; 4].into(), DerivationPath::master());
        (key.public.inner, source)
    });
    input.bip32_derivation = named.collect();
    input.redeem_script = redeem.cloned();
    psbt.outputs[0] = bitcoin::psbt::Output {
        redeem_script: redeem.cloned(),
        bip32_derivation: input.bip32_derivation.clone(),
        ..bitcoin::psbt::Output::default()
    };
    let mut maps = received(&psbt).to_maps();
    for key in keys {
        lengthen(&mut maps.inputs[0], INPUT_DERIVATION, &key.public.inner);
        lengthen(&mut maps.outputs[0], OUTPUT_DERIVATION, &key.public.inner);
    }
    read_back(&maps)
}

/// What is read is written as it was.
#[track_caller]
fn read_back(maps: &Maps) -> Psbt {
    let psbt = Psbt::decode(&maps.encode()).expect("it is valid");
    assert_eq!(psbt.to_maps(), *maps);
    assert_eq!(Psbt::decode(&psbt.encode()).expect("it is valid"), psbt);
    psbt
}

fn sign(psbt: &mut Psbt, key: &Key) -> usize {
    let stored = std::slice::from_ref(&key.stored);
    let signed = psbt.sign(&mut |source, key| look_up(stored, source, key), &SignPolicy::default());
    signed.expect("it is ours").len()
}

fn pkh(key: &Key) -> Psbt {
    with_script(&ScriptBuf::new_p2pkh(&key.public.pubkey_hash()), None, &[key])
}

/// Both keys sign.
fn multisig(one: &Key, other: &Key) -> Psbt {
    let keys = Builder::new().push_int(2).push_key(&one.public).push_key(&other.public);
    let redeem = keys.push_int(2).push_opcode(OP_CHECKMULTISIG).into_script();
    with_script(&redeem.to_p2sh(), Some(&redeem), &[one, other])
}

#[test]
fn they_are_read_signed_and_finished() {
    let (one, other) = (key(1), key(2));
    for version2 in [false, true] {
        let version = |psbt: Psbt| if version2 { psbt.into_version2() } else { psbt };
        let psbts = [(pkh(&one), &[&one][..]), (multisig(&one, &other), &[&one, &other])];
        for (psbt, keys) in psbts {
            let mut psbt = read_back(&version(psbt).to_maps());
            for key in keys {
                assert_eq!(sign(&mut psbt, key), 1);
            }
            let named = |maps: &Maps| {
                let has = |pairs: &Pairs, kind| {
                    keys.iter().all(|key| pairs.contains_key(&long(kind, &key.public.inner)))
                };
                (has(&maps.inputs[0], INPUT_DERIVATION), has(&maps.outputs[0], OUTPUT_DERIVATION))
            };
            assert_eq!(named(&psbt.to_maps()), (true, true));
            let mut psbt = read_back(&psbt.to_maps());
            let results = psbt.finalize();
            assert!(psbt.is_finished(), "{results:?}");
            verify(&psbt);
            let maps = psbt.to_maps();
            assert_eq!(named(&maps), (false, true), "a finished input names no keys");
            assert_eq!(read_back(&maps), psbt);
        }
    }
}

#[test]
fn copies_are_combined_whoever_wrote_a_key_in_which_form() {
    let (one, other) = (key(1), key(2));
    let psbt = multisig(&one, &other);
    let [mut first, mut second] = [psbt.clone(), psbt];
    sign(&mut first, &one);
    sign(&mut second, &other);
    // As `bitcoin` writes it.
    let shortened = read_back(&Maps::decode(&second.fields.serialize()).expect("it is valid"));
    assert_ne!(shortened, second);
    for (copies, form) in [
        ([first.clone(), second], long as fn(u8, &PublicKey) -> Vec<u8>),
        ([first.clone(), shortened.clone()], long),
        ([shortened, first], short),
    ] {
        let mut combined = Psbt::combine(&copies).expect("they fit");
        let maps = combined.to_maps();
        for (pairs, kind) in
            [(&maps.inputs[0], INPUT_DERIVATION), (&maps.outputs[0], OUTPUT_DERIVATION)]
        {
            let named: Vec<_> = pairs.keys().filter(|key| key[0] == kind).collect();
            let mut expected = [&one, &other].map(|key| form(kind, &key.public.inner));
            expected.sort();
            let named = named.into_iter().filter(|key| key.len() == expected[0].len());
            assert!(named.eq(&expected), "in the form of the first copy");
        }
        combined.finalize();
        verify(&combined);
    }
}

#[test]
fn a_key_is_named_in_one_form() {
    let one = key(1);
    let maps = pkh(&one).to_maps();
    let both = |at: fn(&mut Maps) -> &mut Pairs, kind| {
        let mut maps = maps.clone();
        let pairs = at(&mut maps);
        let value = pairs[&long(kind, &one.public.inner)].clone();
        pairs.insert(short(kind, &one.public.inner), value);
        Psbt::decode(&maps.encode())
    };
    let read = both(|maps| &mut maps.inputs[0], INPUT_DERIVATION);
    assert!(
        matches!(read, Err(FormatError::DuplicateKey { map: PsbtMap::Input(0), .. })),
        "{read:?}"
    );
    let read = both(|maps| &mut maps.outputs[0], OUTPUT_DERIVATION);
    assert!(
        matches!(read, Err(FormatError::DuplicateKey { map: PsbtMap::Output(0), .. })),
        "{read:?}"
    );
    // Of two copies the first one's form is taken; two that disagree about a script still do not fit.
    let other = pkh(&key(2));
    let joined = Psbt::combine(&[pkh(&one), other]);
    assert!(matches!(joined, Err(CombineError::OtherTransaction(1))), "{joined:?}");
}

#[test]
fn what_is_no_key_is_none_in_the_longer_form_either() {
    let one = key(1);
    let maps = pkh(&one).to_maps();
    let with = |change: fn(&mut Vec<u8>)| {
        let mut maps = maps.clone();
        let mut key = long(INPUT_DERIVATION, &one.public.inner);
        let value = maps.inputs[0].remove(&key).expect("it is named");
        change(&mut key);
        maps.inputs[0].insert(key, value);
        Psbt::decode(&maps.encode()).map(|_| ())
    };
    assert!(with(|_| {}).is_ok());
    // Not on the curve; a hybrid form, which Core reads; a byte too short.
    let changes: [fn(&mut Vec<u8>); 3] = [
        |key| key[65] ^= 1,
        |key| key[1] = 6 | (key[65] & 1),
        |key| {
            key.pop();
        },
    ];
    for change in changes {
        assert!(with(change).is_err());
    }
}
