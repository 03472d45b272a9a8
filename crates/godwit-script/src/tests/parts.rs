//! Pushes, forms and truth of elements, on both sides of every limit.

use crate::forms::{Form, leaf_key};
use crate::hashes::hash160;
use crate::pushes::{MAX_ELEMENTS, elements, is_true, may_contain, take_push};

#[test]
fn hash160_is_known() {
    // Of no bytes at all (OpenSSL and hashlib say the same).
    assert_eq!(hex::encode(hash160(b"")), "b472a266d0bd89c13706a4132ccfb16f7c3b9fcb");
}

#[test]
fn pushes_are_read_in_every_encoding() {
    let data = [7; 3];
    let encodings: [&[u8]; 4] = [&[3], &[0x4c, 3], &[0x4d, 3, 0], &[0x4e, 3, 0, 0, 0]];
    for head in encodings {
        let script = [head, &data, &[0xac]].concat();
        let mut rest = &script[..];
        assert_eq!(take_push(&mut rest), Some(&data[..]));
        assert_eq!(rest, [0xac]);
        for len in 0..head.len() + 3 {
            assert_eq!(take_push(&mut &script[..len]), None, "{len} of {script:?}");
        }
    }
    assert_eq!(take_push(&mut &[0][..]), Some(&[][..]));
    for opcode in 0x4f..=0xff {
        assert_eq!(take_push(&mut &[opcode; 100][..]), None);
    }
    let longest = [vec![0x4d, 0xff, 0xff], vec![1; 0xffff]].concat();
    assert_eq!(take_push(&mut &longest[..]).map(<[u8]>::len), Some(0xffff));
}

#[test]
fn elements_have_limits() {
    let push = |len: u16| [vec![0x4d], len.to_le_bytes().to_vec(), vec![1; len.into()]].concat();
    assert!(elements(&push(520)).is_some());
    assert!(elements(&push(521)).is_none());
    assert!(elements(&push(9).repeat(MAX_ELEMENTS)).is_some());
    assert!(elements(&push(9).repeat(MAX_ELEMENTS + 1)).is_none());
    let long = push(497).repeat(20);
    assert_eq!(long.len(), 10_000);
    assert!(elements(&long).is_some());
    assert!(elements(&[&long[..], &[0]].concat()).is_none());
    assert_eq!(elements(&[]), Some(vec![]));
}

#[test]
fn truth_is_cores() {
    let truths: [&[u8]; 6] = [&[1], &[0x81], &[0, 1], &[0x80, 0], &[0, 0x80, 0], &[0x80, 0x80]];
    let falsehoods: [&[u8]; 6] = [&[], &[0], &[0x80], &[0, 0], &[0, 0x80], &[0, 0, 0]];
    truths.iter().for_each(|element| assert!(is_true(element), "{element:?}"));
    falsehoods.iter().for_each(|element| assert!(!is_true(element), "{element:?}"));
}

#[test]
fn signatures_are_found_in_scripts() {
    assert!(may_contain(&[1, 2, 3, 4], &[2, 3]));
    assert!(may_contain(&[2, 3], &[2, 3]));
    assert!(!may_contain(&[2], &[2, 3]));
    assert!(!may_contain(&[1, 2, 4, 3], &[2, 3]));
    assert!(!may_contain(&[1, 2], &[]));
}

fn key(len: usize, first: u8) -> Vec<u8> {
    [vec![len as u8, first], vec![5; len - 1]].concat()
}

/// A script of m, keys and n.
fn multisig(m: &[u8], keys: &[Vec<u8>], n: &[u8]) -> Vec<u8> {
    [m, &keys.concat(), n, &[0xae]].concat()
}

fn counts(script: &[u8]) -> Option<(usize, usize)> {
    match Form::of(script)? {
        Form::Multisig(form) => Some((form.required, form.keys.len())),
        _ => None,
    }
}

#[test]
fn multisig_is_one_to_twenty() {
    let push = |n: usize| match n {
        0 => vec![0],
        1..=16 => vec![0x50 + n as u8],
        _ => vec![1, n as u8],
    };
    for n in 0..=21 {
        for m in 0..=21 {
            let keys = vec![key(33, 2); n];
            let expected = (1 <= m && m <= n && n <= 20).then_some((m, n));
            assert_eq!(counts(&multisig(&push(m), &keys, &push(n))), expected, "{m} of {n}");
        }
    }
}

#[test]
fn opcodes_beside_the_numbers_are_none() {
    for count in 1..=20u8 {
        let keys = vec![key(33, 2); count.into()];
        let own = if count <= 16 { vec![0x50 + count] } else { vec![1, count] };
        for opcode in 0..=u8::MAX {
            let number = (0x51..=0x60).contains(&opcode).then(|| usize::from(opcode - 0x50));
            let all = usize::from(count);
            let required = number.filter(|m| *m <= all).map(|m| (m, all));
            assert_eq!(counts(&multisig(&[opcode], &keys, &own)), required, "{opcode} of {count}");
            let of_all = number.filter(|n| *n == all).map(|n| (1, n));
            assert_eq!(counts(&multisig(&[0x51], &keys, &[opcode])), of_all, "1 of {opcode}");
        }
    }
}

#[test]
fn multisig_takes_no_other_script() {
    let [good, full] = [key(33, 3), key(65, 4)];
    let one = |key: &[u8]| multisig(&[0x51], &[key.to_vec()], &[0x51]);
    assert_eq!(counts(&one(&good)), Some((1, 1)));
    assert_eq!(counts(&one(&full)), Some((1, 1)));
    for key in [key(33, 4), key(33, 6), key(33, 0), key(65, 2), key(65, 6), key(65, 7), key(32, 2)]
    {
        assert_eq!(counts(&one(&key)), None);
    }
    let two = [good.clone(), full];
    assert_eq!(counts(&multisig(&[0x52], &two, &[0x52])), Some((2, 2)));
    // Fewer and more than there are: what the stack holds else would be keys.
    assert_eq!(counts(&multisig(&[0x51], &two, &[0x51])), None);
    assert_eq!(counts(&multisig(&[0x51], &two, &[0x53])), None);
    assert_eq!(counts(&multisig(&[0x51, 0x61], &two, &[0x52])), None);
    assert_eq!(counts(&multisig(&[0x51], &two, &[0x52, 0x61])), None);
    assert_eq!(counts(&[multisig(&[0x51], &two, &[0x52]), vec![0xae]].concat()), None);
    assert_eq!(counts(&[0x51, 0xae]), None);
    assert_eq!(counts(&[0xae]), None);
    let cut = [vec![0x51], good[..20].to_vec(), vec![0x51, 0xae]].concat();
    assert_eq!(counts(&cut), None);
}

#[test]
fn other_forms_are_exact() {
    let name = |script: &[u8]| match Form::of(script) {
        Some(Form::Key(_)) => "key",
        Some(Form::KeyHash(_)) => "key hash",
        Some(Form::ScriptHash(_)) => "script hash",
        Some(Form::WitnessKeyHash(_)) => "witness key hash",
        Some(Form::WitnessScriptHash(_)) => "witness script hash",
        Some(Form::Taproot(_)) => "taproot",
        Some(Form::Multisig(_)) => "multisig",
        Some(Form::LockedKey(..)) => "locked key",
        None => "nothing",
    };
    let scripts = [
        ("key", [key(33, 2), vec![0xac]].concat()),
        ("key", [key(65, 4), vec![0xac]].concat()),
        ("key hash", [&[0x76, 0xa9, 20][..], &[9; 20], &[0x88, 0xac]].concat()),
        ("script hash", [&[0xa9, 20][..], &[9; 20], &[0x87]].concat()),
        ("witness key hash", [&[0, 20][..], &[9; 20]].concat()),
        ("witness script hash", [&[0, 32][..], &[9; 32]].concat()),
        ("taproot", [&[0x51, 32][..], &[9; 32]].concat()),
    ];
    for (expected, script) in scripts {
        assert_eq!(name(&script), expected);
        assert_eq!(name(&[&script[..], &[0x61]].concat()), "nothing", "{expected}");
        assert_eq!(name(&[&[0x61], &script[..]].concat()), "nothing", "{expected}");
        assert_eq!(name(&script[..script.len() - 1]), "nothing", "{expected}");
        // Another byte anywhere but in what is pushed.
        for at in (0..script.len()).filter(|at| !matches!(script[*at], 5 | 9)) {
            let mut other = script.clone();
            other[at] ^= 0x40;
            assert_ne!(name(&other), expected, "{expected}, byte {at}");
        }
    }
    for first in [0, 1, 4, 5, 6, 7] {
        assert_eq!(name(&[key(33, first), vec![0xac]].concat()), "nothing");
    }
    for first in [0, 2, 3, 6, 7] {
        assert_eq!(name(&[key(65, first), vec![0xac]].concat()), "nothing");
    }
}

#[test]
fn leaves_are_a_key_and_envelopes() {
    let leaf = [&[32][..], &[9; 32], &[0xac]].concat();
    let envelope = |inside: &[u8]| [&[0, 0x63][..], inside, &[0x68]].concat();
    let push = |len: u16| [vec![0x4d], len.to_le_bytes().to_vec(), vec![1; len.into()]].concat();
    let takes = |script: &[u8]| leaf_key(script) == Some(&[9; 32]);
    assert!(takes(&leaf));
    for inside in
        [vec![], vec![0], vec![3, b'o', b'r', b'd'], push(520), [push(520), push(1)].concat()]
    {
        let envelope = envelope(&inside);
        assert!(takes(&[&envelope[..], &leaf].concat()));
        assert!(takes(&[&leaf[..], &envelope].concat()));
        assert!(takes(&[&envelope[..], &envelope, &leaf, &envelope, &envelope].concat()));
        assert!(!takes(&envelope));
        assert!(!takes(&[&leaf[..32], &envelope].concat()));
        assert!(!takes(&[&leaf[..], &envelope[..envelope.len() - 1]].concat()));
    }
    assert!(!takes(&[&leaf[..], &envelope(&push(521))].concat()));
    // Any other opcode, and 0x4f to 0x60 too, though they push.
    for opcode in (0x4f..=0xff).filter(|opcode| *opcode != 0x68) {
        assert!(!takes(&[&leaf[..], &envelope(&[opcode])].concat()), "{opcode:#x}");
        assert!(!takes(&[&envelope(&[opcode]), &leaf[..]].concat()), "{opcode:#x}");
        assert!(!takes(&[&leaf[..], &[opcode]].concat()), "{opcode:#x}");
        assert!(!takes(&[&[opcode], &leaf[..]].concat()), "{opcode:#x}");
        if opcode != 0xac {
            assert!(!takes(&[&leaf[..33], &[opcode]].concat()), "{opcode:#x}");
        }
    }
    // A push of more or less than the key is of what follows, or leaves some of it to be run.
    for len in (0..=u8::MAX).filter(|len| *len != 32) {
        assert!(!takes(&[&[len], &leaf[1..]].concat()), "{len}");
    }
    // An end that stands for two, and conditions other than false.
    assert!(!takes(&[&leaf[..], &[0, 0x63, 0x68, 0x68]].concat()));
    assert!(!takes(&[&leaf[..], &[0x51, 0x63, 0x68]].concat()));
    assert!(!takes(&[&leaf[..], &[0, 0x64, 0x68]].concat()));
    for len in [0, 20, 31, 33, 65] {
        let other = [vec![len], vec![9; len.into()], vec![0xac]].concat();
        assert_eq!(leaf_key(&other), None);
    }
}
