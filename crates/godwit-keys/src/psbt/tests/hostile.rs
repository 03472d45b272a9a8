//! Bytes that nobody meant well: no panic, no loss, limits hold.

use proptest::prelude::*;

use super::coins::{KINDS, keys, received, sign, spend};
use super::*;
use crate::psbt::limits::MAX_ALL_PAIRS;
use crate::psbt::pairs::{Maps, global};
use crate::psbt::{
    CombineError, MAX_DERIVATIONS, MAX_PAIRS, MAX_PSBT_BYTES, MAX_SIGNATURES, PsbtMap,
};

/// Everything that is done with a PSBT, for the one purpose of not panicking.
fn use_up(bytes: &[u8]) {
    let Ok(mut psbt) = Psbt::decode(bytes) else { return };
    assert_eq!(Psbt::decode(&psbt.encode()).expect("what is written is read"), psbt);
    let keys = keys("A");
    let mut owns = |source: &_, key: &_| Ok(matches!(look_up(&keys, source, key)?, Found::Ours(_)));
    psbt.review(&mut owns).expect("memory");
    drop(psbt.sign(&mut |source, key| look_up(&keys, source, key), &generous()));
    drop(Psbt::combine(&[psbt.clone(), psbt.clone()]).expect("it fits itself"));
    psbt.finalize();
    drop(psbt.extract());
    assert_eq!(Psbt::decode(&psbt.encode()).expect("what is written is read"), psbt);
}

fn signed_psbt(kind: usize, version2: bool) -> Psbt {
    let mut psbt = received(&spend(&[KINDS[kind % KINDS.len()]]));
    if version2 {
        psbt = psbt.into_version2();
    }
    sign(&mut psbt, "ABC", &SignPolicy::default()).expect("it is ours");
    psbt
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn changed_bytes(
        kind in 0..KINDS.len(),
        version2: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = signed_psbt(kind, version2).encode();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        use_up(&bytes);
    }

    #[test]
    fn changed_values(
        kind in 0..KINDS.len(),
        version2: bool,
        map in any::<prop::sample::Index>(),
        pair in any::<prop::sample::Index>(),
        value in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut maps = signed_psbt(kind, version2).to_maps();
        let mut all: Vec<_> = std::iter::once(&mut maps.global)
            .chain(&mut maps.inputs).chain(&mut maps.outputs).collect();
        let map = map.index(all.len());
        let count = all[map].len();
        if count > 0 {
            *all[map].values_mut().nth(pair.index(count)).expect("below the count") = value;
        }
        use_up(&maps.encode());
    }

    #[test]
    fn random_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        use_up(&bytes);
        bytes.splice(0..0, *b"psbt\xff");
        use_up(&bytes);
        drop(text::read(&bytes));
    }

    #[test]
    fn unknown_and_proprietary_fields_are_kept(
        version2: bool,
        unknown in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 1..40),
            prop::collection::vec(any::<u8>(), 0..40),
            0..6,
        ),
        proprietary in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut maps = signed_psbt(2, version2).to_maps();
        for map in [&mut maps.global, &mut maps.inputs[0], &mut maps.outputs[0]] {
            for (key, value) in &unknown {
                // Types that no BIP has given a meaning.
                let mut key = key.clone();
                key[0] |= 0x40;
                if key[0] < 0xfb {
                    map.insert(key, value.clone());
                }
            }
            map.insert([&[0xfc, 3, b'a', b'b', b'c', 7], &proprietary[..]].concat(), vec![1]);
        }
        let mut psbt = Psbt::decode(&maps.encode()).expect("it is valid");
        prop_assert_eq!(psbt.to_maps(), maps.clone());
        psbt.finalize();
        let kept = psbt.to_maps();
        prop_assert!(kept.inputs[0].iter().filter(|(key, _)| key[0] >= 0x40).eq(
            maps.inputs[0].iter().filter(|(key, _)| key[0] >= 0x40)));
    }

    #[test]
    fn version2_is_the_same_transaction(kinds in prop::collection::vec(0..KINDS.len(), 1..4)) {
        let kinds: Vec<&str> = kinds.into_iter().map(|kind| KINDS[kind]).collect();
        let version0 = received(&spend(&kinds));
        let bytes = version0.clone().into_version2().encode();
        let version2 = Psbt::decode(&bytes).expect("it is valid");
        prop_assert_eq!(version2.encode(), bytes);
        prop_assert_eq!(version2.unsigned_transaction(), version0.unsigned_transaction());
        prop_assert_eq!(version2.inputs(), version0.inputs());
    }
}

#[test]
fn more_pairs_than_a_script_has_use_for() {
    use bitcoin::secp256k1::{PublicKey, Secp256k1, SecretKey};
    let mut signed = received(&spend(&["wpkh(A/0)"]));
    sign(&mut signed, "A", &SignPolicy::default()).expect("it is ours");
    let base = signed.to_maps();
    let secp = Secp256k1::new();
    let keys: Vec<[u8; 33]> = (1..=MAX_SIGNATURES as u32 + 1)
        .map(|number| {
            let mut secret = [0; 32];
            secret[28..].copy_from_slice(&number.to_be_bytes());
            let secret = SecretKey::from_slice(&secret).expect("it is in range");
            PublicKey::from_secret_key(&secp, &secret).serialize()
        })
        .collect();
    let with_type = |wanted: u8, count: usize, output: bool| {
        let mut maps = base.clone();
        let map = if output { &mut maps.outputs[0] } else { &mut maps.inputs[0] };
        let value = map.iter().find(|(key, _)| key[0] == wanted).expect("there is one").1.clone();
        map.retain(|key, _| key[0] != wanted);
        map.extend(keys[..count].iter().map(|key| ([&[wanted], &key[..]].concat(), value.clone())));
        Psbt::decode(&maps.encode()).map(|psbt| psbt.encode().len())
    };
    for (wanted, most, output) in [
        (0x02, MAX_SIGNATURES, false),
        (0x06, MAX_DERIVATIONS, false),
        (0x02, MAX_DERIVATIONS, true),
    ] {
        assert!(with_type(wanted, most, output).is_ok(), "{wanted} {output}");
        let error = with_type(wanted, most + 1, output);
        assert!(matches!(error, Err(FormatError::TooManyPairs(_))), "{wanted} {output}: {error:?}");
    }
    let with_unknown = |count: usize| {
        let mut maps = base.clone();
        for number in maps.global.len()..count {
            maps.global.insert([&[0x70], &number.to_be_bytes()[..]].concat(), Vec::new());
        }
        Psbt::decode(&maps.encode()).map(|psbt| psbt.encode().len())
    };
    assert!(with_unknown(MAX_PAIRS).is_ok());
    assert!(matches!(with_unknown(MAX_PAIRS + 1), Err(FormatError::TooManyPairs(_))));
}

/// Small pairs take far more memory than bytes: what comes behind the last that is allowed is not looked at.
#[test]
fn pairs_are_counted_as_they_are_read() {
    let base = received(&spend(&["wpkh(A/0)"])).to_maps();
    let broken_behind = |count: usize| {
        let mut maps = base.clone();
        for number in maps.inputs[0].len()..count {
            maps.inputs[0].insert([&[0x70], &number.to_be_bytes()[..]].concat(), Vec::new());
        }
        maps.outputs.clear();
        let mut bytes = maps.encode();
        // The map goes on with a key that is cut off.
        bytes.pop();
        bytes.extend([2, 0x71]);
        Psbt::decode(&bytes).map(|psbt| psbt.encode().len())
    };
    let below = broken_behind(MAX_PAIRS);
    assert!(matches!(below, Err(FormatError::Pair { map: PsbtMap::Input(0), .. })), "{below:?}");
    let above = broken_behind(MAX_PAIRS + 1);
    assert!(matches!(above, Err(FormatError::TooManyPairs(PsbtMap::Input(0)))), "{above:?}");
}

#[test]
fn pairs_of_all_maps_are_counted_together() {
    const OF_MAP: usize = 9_000;
    let input = |number: u32| bitcoin::TxIn {
        previous_output: bitcoin::OutPoint { vout: number, ..Default::default() },
        ..Default::default()
    };
    let transaction = bitcoin::Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: (0..MAX_ALL_PAIRS.div_ceil(OF_MAP) as u32).map(input).collect(),
        output: Vec::new(),
    };
    let empty = bitcoin::Psbt::from_unsigned_tx(transaction).expect("no scripts");
    let mut maps = Maps::decode(&empty.serialize()).expect("it is valid");
    // The transaction is a pair too.
    let mut left = MAX_ALL_PAIRS - 1;
    for map in &mut maps.inputs {
        for number in 0..left.min(OF_MAP) as u16 {
            map.insert([&[0xf0][..], &number.to_le_bytes()].concat(), Vec::new());
            left -= 1;
        }
    }
    assert!(Maps::decode(&maps.encode()).is_ok());
    let last = maps.inputs.len() - 1;
    maps.inputs[last].insert(vec![0xf1], Vec::new());
    let refused = Maps::decode(&maps.encode());
    assert!(matches!(refused, Err(FormatError::TooManyPairs(PsbtMap::Input(at))) if at == last));
}

/// What was read within the limit is written with the signature that it gets here.
#[test]
fn a_signature_may_be_one_pair_too_many() {
    let mut maps = received(&spend(&["wpkh(A/0)"])).to_maps();
    for number in maps.inputs[0].len()..MAX_PAIRS {
        maps.inputs[0].insert([&[0x70], &number.to_be_bytes()[..]].concat(), Vec::new());
    }
    let mut psbt = Psbt::decode(&maps.encode()).expect("it is within the limit");
    sign(&mut psbt, "A", &SignPolicy::default()).expect("it is ours");
    assert_eq!(psbt.to_maps().inputs[0].len(), MAX_PAIRS + 1);
    psbt.finalize();
    assert!(Psbt::decode(&psbt.encode()).expect("signatures are gone").is_finished());
}

#[test]
fn copies_that_are_too_long_together() {
    let base = received(&spend(&["wpkh(A/0)"])).to_maps();
    let copy = |marks: std::ops::Range<u8>| {
        let mut maps = base.clone();
        for mark in marks {
            maps.inputs[0].insert(vec![0x70, mark], vec![mark; PART]);
        }
        Psbt::decode(&maps.encode()).expect("alone it is within the limit")
    };
    // `bitcoin` takes values, and a whole global map, of up to 4 MB.
    const PART: usize = 3_900_000;
    let (one, other) = (copy(0..13), copy(13..25));
    let combined = Psbt::combine(&[one.clone(), other]).expect("together they have 97.5 MB");
    assert!(combined.encode().len() > 25 * PART);
    let too_long = Psbt::combine(&[one, copy(13..26)]);
    let length = 26 * PART..26 * PART + 10_000;
    assert!(
        matches!(&too_long, Err(CombineError::Format(FormatError::TooLong(len)))
            if length.contains(len)),
        "{:?}",
        too_long.err()
    );
}

#[test]
fn cut_anywhere() {
    for version2 in [false, true] {
        let bytes = signed_psbt(7, version2).encode();
        for length in 0..bytes.len() {
            assert!(Psbt::decode(&bytes[..length]).is_err(), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(Psbt::decode(&longer), Err(FormatError::TrailingBytes(1))));
    }
}

#[test]
fn lengths_that_the_bytes_do_not_hold() {
    // A key of 32 MiB, a value of 32 MiB, and 2³² inputs: five bytes each.
    let magic = b"psbt\xff";
    let value = [&magic[..], &[1, 0x77, 0xfe, 0, 0, 0, 2]].concat();
    let key = [&magic[..], &[0xfe, 0, 0, 0, 2]].concat();
    for bytes in [key, value] {
        assert!(matches!(Psbt::decode(&bytes), Err(FormatError::Pair { .. })));
    }
    let mut maps = received(&spend(&["wpkh(A/0)"])).into_version2().to_maps();
    maps.global.insert(vec![global::INPUT_COUNT], vec![0xfe, 0x49, 0x5f, 0, 0]);
    assert!(matches!(Maps::decode(&maps.encode()), Err(FormatError::InvalidValue { .. })));
    let count = |count: u16| [&[0xfd][..], &count.to_le_bytes()].concat();
    maps.global.insert(vec![global::INPUT_COUNT], count(24_391));
    assert!(matches!(Maps::decode(&maps.encode()), Err(FormatError::TooManyInputs(24_391))));
    maps.global.insert(vec![global::INPUT_COUNT], count(24_390));
    assert!(matches!(Maps::decode(&maps.encode()), Err(FormatError::Pair { .. })));
}

#[test]
fn a_type_is_a_number_in_its_shortest_form() {
    let with_key = |key: &[u8]| {
        let mut maps = spend(&["wpkh(A/0)"]);
        let unknown = bitcoin::psbt::raw::Key { type_value: key[0], key: key[1..].to_vec() };
        maps.inputs[0].unknown.insert(unknown, vec![1]);
        Psbt::decode(&maps.serialize())
    };
    for key in [&[0xfd, 0xfd, 0][..], &[0xfd, 0, 1, 7], &[0xfe, 0, 0, 1, 0]] {
        let psbt = with_key(key).expect("a type that nobody knows");
        assert_eq!(Psbt::decode(&psbt.encode()).expect("as it was written"), psbt);
    }
    for key in [&[0xfd][..], &[0xfd, 6, 0], &[0xfd, 6], &[0xfe, 0xff, 0xff, 0, 0], &[0xff, 1, 2]] {
        assert!(matches!(with_key(key), Err(FormatError::Pair { .. })), "{key:02x?}");
    }
}

#[test]
fn as_long_as_it_may_be() {
    let mut maps = received(&spend(&["wpkh(A/0)"])).to_maps();
    maps.global.insert(vec![0x70], vec![0; godwit_stream::MAX_SIZE as usize + 1]);
    assert!(matches!(Maps::decode(&maps.encode()), Err(FormatError::Pair { .. })));
    let long = vec![0; MAX_PSBT_BYTES + 1];
    assert!(matches!(Psbt::decode(&long), Err(FormatError::TooLong(_))));
    assert!(matches!(Psbt::decode(&long[1..]), Err(FormatError::NoPsbt)));
}

#[test]
fn base64_in_any_layout() {
    let psbt = signed_psbt(2, true);
    let written = text::write(&psbt);
    let lines: Vec<&str> = written
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
        .collect();
    for content in [written.clone(), format!(" {written}\r\n"), lines.join("\n")] {
        assert_eq!(text::read(content.as_bytes()).expect("it is valid"), psbt);
    }
    assert_eq!(text::read(&psbt.encode()).expect("it is valid"), psbt);
    let wrong = written.replacen(&written[40..41], "!", 1);
    assert!(matches!(text::read(wrong.as_bytes()), Err(FormatError::Base64(_))));
    assert!(matches!(text::read(b""), Err(FormatError::NoPsbt)));
    assert!(matches!(text::read(&written.as_bytes()[..41]), Err(FormatError::Base64(_))));
}

#[test]
fn copies_that_do_not_belong_together() {
    let psbt = |kind: &str| received(&spend(&[kind]));
    let (one, other) = (psbt("wpkh(A/0)"), psbt("wpkh(A/1)"));
    let combined = |copies: &[Psbt]| Psbt::combine(copies).map_err(|error| error.to_string());
    assert!(combined(std::slice::from_ref(&one)).is_ok());
    assert!(matches!(Psbt::combine(&[]), Err(CombineError::Nothing)));
    let joined = Psbt::combine(&[one.clone(), other]);
    assert!(matches!(joined, Err(CombineError::OtherTransaction(1))), "{joined:?}");
    let joined = Psbt::combine(&[one.clone(), one.clone().into_version2()]);
    assert!(matches!(joined, Err(CombineError::OtherVersion(1))), "{joined:?}");
    let mut lying = spend(&["wpkh(A/0)"]);
    lying.inputs[0].non_witness_utxo = None;
    lying.inputs[0].witness_utxo.as_mut().expect("it is there").value += Amount::ONE_SAT;
    let joined = Psbt::combine(&[one, received(&lying)]);
    assert!(matches!(joined, Err(CombineError::Conflict { psbt: 1, .. })), "{joined:?}");
}

#[test]
fn an_xpub_with_two_paths_is_no_reason_to_panic() {
    let with_path = |path: &str| {
        let mut psbt = spend(&["wpkh(A/0)"]);
        let secp = bitcoin::secp256k1::Secp256k1::new();
        let root = bitcoin::bip32::Xpriv::new_master(bitcoin::Network::Regtest, &[1; 32]);
        let xpub = bitcoin::bip32::Xpub::from_priv(&secp, &root.expect("a valid key"));
        psbt.xpub.insert(xpub, ([0; 4].into(), path.parse().expect("a path")));
        received(&psbt)
    };
    let copies = [with_path("m/1"), with_path("m/2/3"), with_path("m/4/5/6")];
    let combined = Psbt::combine(&copies).expect("the first path is taken");
    assert_eq!(combined, copies[0]);
}

#[test]
fn a_copy_may_add_sequences_to_version2_but_not_under_signatures() {
    let explicit = received(&spend(&["wpkh(A/0)"])).into_version2();
    let mut maps = explicit.to_maps();
    maps.inputs[0].remove(&[0x10][..]);
    let silent = Psbt::from_maps(maps, &[]).expect("it is valid");
    assert_ne!(silent.unsigned_transaction(), explicit.unsigned_transaction());
    let combined = Psbt::combine(&[silent.clone(), explicit.clone()]).expect("they fit");
    assert_eq!(combined, explicit);
    let mut signed = silent;
    sign(&mut signed, "A", &SignPolicy::default()).expect("it is ours");
    let joined = Psbt::combine(&[explicit, signed]);
    assert!(matches!(joined, Err(CombineError::OtherTransaction(1))), "{joined:?}");
}
