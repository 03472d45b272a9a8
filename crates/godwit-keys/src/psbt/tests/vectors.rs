//! Valid and invalid PSBTs of BIP174, 370 and 371 and of Core's `rpc_psbt.json`, and the legacy hashes of
//! its `sighash.json`. Of `rpc_psbt.json` the list `creator` is left out: no command here makes a PSBT.
//! The vectors of BIP373 are in `rpc_psbt.json`, where their author put them too (bitcoin/bitcoin#31247).

mod taproot;

use godwit_testdata::package_source;

use super::*;
use crate::psbt::review::check_signable;
use crate::psbt::spent::has_code_separator;
use crate::psbt::{InputObjection, SpendKind, Spent};

const BIPS: [(&str, usize, usize); 3] = [("bip174", 10, 20), ("bip370", 14, 24), ("bip371", 6, 11)];

fn entries<'a>(file: &'a Value, name: &str) -> &'a [Value] {
    file[name].as_array().expect("a list")
}

fn bip(name: &str) -> Option<Value> {
    shared_json(&format!("vectors/wallet/{name}_test_vectors.json"))
}

fn core() -> Option<Value> {
    shared_json("vectors/core_functional/rpc_psbt.json")
}

/// A file of Core's unit tests, from the source that `bitcoinkernel` is built of.
fn core_unit(name: &str) -> Option<Value> {
    let Some(source) = package_source("libbitcoinkernel-sys") else {
        return shared_json(&format!("vectors/core/{name}"));
    };
    let bytes = godwit_testdata::read(source.join("bitcoin/src/test/data").join(name));
    Some(serde_json::from_slice(&bytes).expect("the file is JSON"))
}

#[track_caller]
fn round_trips(value: &Value) -> Psbt {
    let psbt = read(value).unwrap_or_else(|error| panic!("{error}: {value}"));
    let again = Psbt::decode(&psbt.encode()).expect("what is written is read");
    assert_eq!(psbt, again);
    psbt
}

#[test]
fn valid_psbts_of_the_bips_are_read_and_written() {
    for (name, count, _) in BIPS {
        let Some(file) = bip(name) else { return };
        let valid = entries(&file, "valid psbts");
        assert_eq!(valid.len(), count, "{name}");
        let versions = valid.iter().map(|vector| round_trips(&vector["encoded psbt"]).version());
        let version = if name == "bip370" { 2 } else { 0 };
        assert_eq!(versions.collect::<Vec<_>>(), vec![version; count], "{name}");
    }
}

#[test]
fn invalid_psbts_of_the_bips_are_refused() {
    for (name, _, count) in BIPS {
        let Some(file) = bip(name) else { return };
        let invalid = entries(&file, "invalid psbts");
        assert_eq!(invalid.len(), count, "{name}");
        for vector in invalid {
            assert!(read(&vector["encoded psbt"]).is_err(), "{name}: {}", vector["description"]);
        }
    }
}

#[test]
fn lock_times_of_bip370() {
    let Some(file) = bip("bip370") else { return };
    for vector in entries(&file, "lock time psbts") {
        let psbt = read(&vector["encoded psbt"]);
        match &vector["lock time"] {
            Value::Null => {
                assert!(matches!(psbt, Err(FormatError::ConflictingLocks)), "{psbt:?}");
            }
            lock_time => {
                let psbt = psbt.expect("it is valid");
                let computed = psbt.unsigned_transaction().lock_time.to_consensus_u32();
                assert_eq!(computed, *lock_time, "{}", vector["description"]);
            }
        }
    }
}

#[test]
fn what_bip174s_signer_must_refuse() {
    let Some(file) = bip("bip174") else { return };
    let vectors = entries(&file, "signer check failures");
    let objections: Vec<_> = vectors
        .iter()
        .map(|vector| {
            let review = review(&round_trips(&vector["encoded psbt"]));
            review.inputs.into_iter().filter_map(|input| input.spent.err()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        objections,
        [
            vec![InputObjection::MissingPreviousTransaction],
            vec![InputObjection::RedeemScriptMismatch],
            vec![InputObjection::RedeemScriptMismatch],
            vec![InputObjection::WitnessScriptMismatch],
        ]
    );
}

#[test]
fn cores_valid_psbts_are_read_and_written() {
    let Some(file) = core() else { return };
    let valid = entries(&file, "valid");
    assert_eq!(valid.len(), 48);
    valid.iter().for_each(|vector| drop(round_trips(vector)));
}

/// Keys, nonces and partial signatures of MuSig2: they are kept as they are.
#[test]
fn psbts_with_fields_of_bip373_are_read_and_written() {
    let Some(file) = core() else { return };
    let has = |key: &bitcoin::psbt::raw::Key, types: &[u8]| types.contains(&key.type_value);
    let mut count = [0; 4];
    for vector in entries(&file, "valid") {
        let psbt = round_trips(vector);
        let inputs = psbt.inputs().iter().flat_map(|input| input.unknown.keys());
        let inputs: Vec<_> = inputs.collect();
        for (place, kind) in [0x1a, 0x1b, 0x1c].into_iter().enumerate() {
            count[place] += usize::from(inputs.iter().any(|key| has(key, &[kind])));
        }
        let mut outputs = psbt.fields.outputs.iter().flat_map(|output| output.unknown.keys());
        count[3] += usize::from(outputs.any(|key| has(key, &[0x08])));
    }
    assert_eq!(count, [12, 8, 4, 2]);
}

#[test]
fn cores_invalid_psbts_are_refused() {
    let Some(file) = core() else { return };
    let with_message = entries(&file, "invalid_with_msg").iter().map(|vector| &vector[0]);
    let invalid: Vec<&Value> = entries(&file, "invalid").iter().chain(with_message).collect();
    assert_eq!(invalid.len(), 63 + 23);
    for vector in invalid {
        assert!(read(vector).is_err(), "{vector}");
    }
}

/// Legacy hashes of Core's own test. `bitcoin` leaves out the removal of `OP_CODESEPARATOR`; scripts that
/// have one are refused before anything is hashed.
#[test]
fn legacy_hashes_as_by_core() {
    let Some(file) = core_unit("sighash.json") else { return };
    let (mut hashed, mut refused) = (0, 0);
    for vector in file.as_array().expect("a list").iter().filter(|vector| vector[1].is_string()) {
        let text = |index: usize| vector[index].as_str().expect("text");
        let transaction: bitcoin::Transaction =
            encode::deserialize_hex(text(0)).expect("a transaction");
        let script = bitcoin::ScriptBuf::from_hex(text(1)).expect("hexadecimal");
        if script.as_bytes().contains(&0xab) {
            // No script of the file pushes bytes, so that this is the opcode.
            assert!(has_code_separator(&script), "{vector}");
            let output = bitcoin::TxOut { value: Amount::ZERO, script_pubkey: script.clone() };
            let spent = Spent { output, proven: true, kind: SpendKind::Bare, script };
            let checked = check_signable(&spent, &bitcoin::psbt::Input::default());
            assert_eq!(checked, Err(InputObjection::CodeSeparator), "{vector}");
            refused += 1;
            continue;
        }
        assert!(!has_code_separator(&script), "{vector}");
        let index = vector[2].as_u64().expect("a number") as usize;
        let kind = vector[3].as_i64().expect("a number") as u32;
        let cache = bitcoin::sighash::SighashCache::new(&transaction);
        let hash = cache.legacy_signature_hash(index, &script, kind).expect("the input exists");
        assert_eq!(hash.to_string(), reversed(text(4)), "{vector}");
        hashed += 1;
    }
    assert_eq!((hashed, refused), (290, 210));
}

/// Core prints a hash from its last byte on.
fn reversed(hash: &str) -> String {
    hash.as_bytes().rchunks(2).map(|byte| std::str::from_utf8(byte).expect("ASCII")).collect()
}

#[test]
fn combined_as_by_core() {
    let Some(file) = core() else { return };
    for vector in entries(&file, "combiner") {
        let copies: Vec<Psbt> = entries(vector, "combine").iter().map(round_trips).collect();
        let expected = round_trips(&vector["result"]);
        assert_eq!(Psbt::combine(&copies).expect("they fit"), expected);
        let reversed: Vec<Psbt> = copies.into_iter().rev().collect();
        assert_eq!(Psbt::combine(&reversed).expect("they fit"), expected);
    }
}

#[test]
fn finalized_and_extracted_as_by_core() {
    let Some(file) = core() else { return };
    for vector in entries(&file, "finalizer") {
        let mut psbt = round_trips(&vector["finalize"]);
        psbt.finalize();
        assert_eq!(psbt, round_trips(&vector["result"]));
    }
    for vector in entries(&file, "extractor") {
        let transaction = round_trips(&vector["extract"]).extract().expect("it is finished");
        assert_eq!(bitcoin::consensus::encode::serialize_hex(&transaction), vector["result"]);
    }
}

#[test]
fn signed_as_by_core() {
    let Some(file) = core() else { return };
    let mut count = 0;
    for vector in entries(&file, "signer") {
        let keys = entries(vector, "privkeys").iter().map(|key| wif(key.as_str().expect("text")));
        let keys: Vec<StoredKey> = keys.collect();
        let mut psbt = round_trips(&vector["psbt"]);
        let signed = psbt.sign(&mut |source, key| look_up(&keys, source, key), &permissive());
        // Where there is something wrong, Core leaves the PSBT as it was.
        assert_eq!(signed.is_ok(), vector["psbt"] != vector["result"], "{signed:?}");
        assert_eq!(psbt, round_trips(&vector["result"]));
        count += signed.map_or(0, |signed| signed.len());
    }
    assert_eq!(count, 4);
}
