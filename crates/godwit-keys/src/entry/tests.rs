use std::str::FromStr;

use godwit_secret::Declassified;
use proptest::prelude::*;

use super::*;

fn secret(plain: &[u8]) -> SecretBytes {
    SecretBytes::from_plain_and_wipe(&mut plain.to_vec()).expect("memory")
}

fn root(number: u8) -> ExtendedPrivateKey {
    ExtendedPrivateKey::from_seed(&secret(&[number; 32]), NetworkKind::Test).expect("valid")
}

fn single(number: u8, compressed: bool) -> StoredKey {
    let number = SecretArray::from_plain_and_wipe(&mut [number; 32]).expect("memory");
    StoredKey::Single { key: PrivateKey::from_secret(number).expect("in range"), compressed }
}

fn entry(label: &str, keys: Vec<StoredKey>, words: Option<Words>) -> Entry {
    let since = if label.is_empty() { 7 } else { 0 };
    let descriptor = |branch: u32| {
        let text = format!("pkh({label}/{branch}/*)");
        EntryDescriptor { text, next_index: 5 * branch, since }
    };
    Entry {
        label: label.to_owned(),
        created: 7,
        network: NetworkKind::Test,
        descriptors: [0, 1].map(descriptor).to_vec(),
        keys,
        words,
    }
}

fn samples() -> Vec<Entry> {
    let origin = Some((
        Fingerprint::from([1, 2, 3, 4]),
        DerivationPath::from_str("84h/1h/0").expect("a path"),
    ));
    let words = |with_passphrase| {
        let mnemonic = Mnemonic::generate(24).expect("memory");
        Some(Words { mnemonic, with_passphrase })
    };
    vec![
        entry("α label", vec![StoredKey::Extended { key: root(1), origin: None }], words(true)),
        entry("", vec![StoredKey::Extended { key: root(2), origin }], words(false)),
        entry("singles", vec![single(1, true), single(2, false)], None),
        entry("watched", Vec::new(), None),
    ]
}

const MARK: Mark = Mark { id: [9; 16], generation: 3 };

/// Behind the mark.
fn content(entries: &[Entry]) -> Vec<u8> {
    let content = encode(&MARK, entries).expect("memory");
    let (mark, content) = content
        .expose_secret(|bytes| {
            Declassified({
                let (mark, content) = bytes.split_at(24);
                (mark.to_vec(), content.to_vec())
            })
        })
        .0;
    assert_eq!(mark, [&[9; 16][..], &[3, 0, 0, 0, 0, 0, 0, 0]].concat());
    content
}

fn decoded(bytes: &[u8]) -> Result<Vec<Entry>, KeyFileError> {
    let (mark, entries) = decoded_as(bytes, Form::WithUses)?;
    assert_eq!(mark, Some(MARK));
    Ok(entries)
}

fn decoded_as(bytes: &[u8], form: Form) -> Result<(Option<Mark>, Vec<Entry>), KeyFileError> {
    let mark = [&MARK.id[..], &MARK.generation.to_le_bytes()].concat();
    let mark = if form == Form::WithoutMark { &[] } else { &mark[..] };
    decode(SecretSlice::from(&secret(&[mark, bytes].concat())), form)
}

/// In both forms before, which differ by the mark.
fn decoded_before(bytes: &[u8]) -> Result<Vec<Entry>, KeyFileError> {
    match (decoded_as(bytes, Form::WithMark), decoded_as(bytes, Form::WithoutMark)) {
        (Ok((mark, entries)), Ok((None, _))) => {
            assert_eq!(mark, Some(MARK));
            Ok(entries)
        }
        (Err(error), Err(same)) if error == same => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_make_the_round() {
    let entries = samples();
    let bytes = content(&entries);
    let again = decoded(&bytes).expect("valid");
    assert_eq!(content(&again), bytes);
    for (a, b) in entries.iter().zip(&again) {
        assert_eq!((&a.label, a.created, a.network), (&b.label, b.created, b.network));
        assert_eq!((&a.descriptors, a.id()), (&b.descriptors, b.id()));
        assert_eq!(a.keys.len(), b.keys.len());
    }
    assert!(decoded(&content(&[])).expect("valid").is_empty());
}

#[test]
fn a_content_cut_short_or_too_long_is_refused() {
    let bytes = content(&samples());
    for size in 0..bytes.len() {
        assert_eq!(decoded(&bytes[..size]).map(|_| ()), Err(KeyFileError::Content), "{size}");
    }
    let longer = [bytes, vec![0]].concat();
    assert_eq!(decoded(&longer).map(|_| ()), Err(KeyFileError::Content));
}

#[test]
fn a_claimed_count_makes_no_room() {
    // 32 million entries, descriptors or keys, says the count.
    let count = [0xfe, 0, 0, 0, 2];
    let head = [&[1][..], &[0; 8], &[0, 0]].concat();
    for bytes in [
        count.to_vec(),
        [&head[..], &count].concat(),
        [&head[..], &[0, 0], &count].concat(),
        [&head[..], &[0, 0, EXTENDED_WITH_ORIGIN], &count].concat(),
    ] {
        assert_eq!(decoded(&bytes).map(|_| ()), Err(KeyFileError::Content));
        assert_eq!(decoded_before(&bytes).map(|_| ()), Err(KeyFileError::Content));
    }
}

#[test]
fn what_was_made_here_received_nothing_before() {
    let texts = [&[2][..], &[1, b'a'], &[1, b'b']].concat();
    for (network, since) in [(1, 0), (3, 7), (0, 0), (2, 7)] {
        let bytes = [&[1][..], &[7, 0, 0, 0, 0, 0, 0, 0], &[network, 0], &texts, &[0, 0]].concat();
        let entries = decoded_before(&bytes).expect("of an earlier version");
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!(entry.network == NetworkKind::Test, network & 1 == 1);
        let expected = ["a", "b"]
            .map(|text| EntryDescriptor { since, ..EntryDescriptor::new(text.to_owned()) });
        assert_eq!(entry.descriptors, expected);
        assert!(decoded(&bytes).is_err(), "it says nothing of uses");
    }
    let bytes = [&[1][..], &[7, 0, 0, 0, 0, 0, 0, 0], &[4, 0], &texts, &[0, 0]].concat();
    assert!(decoded_before(&bytes).is_err(), "no network");
}

#[test]
fn unknown_kinds_are_refused() {
    let mut bytes = content(&[entry("", vec![single(1, true)], None)]);
    let key_at = bytes.len() - 33;
    // Made here, it was in the forms before.
    for (at, wrong) in [(9, 4), (9, 3), (key_at, 4), (key_at - 2, 3)] {
        let right = std::mem::replace(&mut bytes[at], wrong);
        assert_eq!(decoded(&bytes).map(|_| ()), Err(KeyFileError::Content), "{at}");
        bytes[at] = right;
    }
    bytes[key_at + 1..].fill(0);
    assert_eq!(decoded(&bytes).map(|_| ()), Err(KeyFileError::Content), "zero is no key");
}

#[test]
fn names_are_of_the_descriptors_alone() {
    let (a, b) = (entry("a", Vec::new(), None), entry("b", Vec::new(), None));
    assert_ne!(a.id(), b.id());
    let same = Entry { label: "b".to_owned(), created: 1, ..entry("a", Vec::new(), None) };
    assert_eq!(a.id(), same.id());
    assert_eq!(KeyId::from_str(&a.id().to_string()), Ok(a.id()));
    for wrong in ["", "1234567", "123456789", "1234567g", "+1234567", "0x123456"] {
        assert_eq!(KeyId::from_str(wrong), Err(NotAKeyId), "{wrong:?}");
    }
    assert_eq!(KeyId::from_str("0000000A").map(|id| id.to_string()), Ok("0000000a".to_owned()));
}

#[test]
fn labels_have_a_length_and_no_control_characters() {
    let good = |label: &str| is_label(label);
    assert!(good("") && good("savings é") && good(&"é".repeat(MAX_LABEL)));
    assert!(!good(&"é".repeat(MAX_LABEL + 1)) && !good("a\nb") && !good("\u{1b}[2J"));
}

#[test]
fn debug_tells_the_name_alone() {
    let entry = &samples()[0];
    assert_eq!(format!("{entry:?}"), format!("Entry({}, [redacted])", entry.id()));
    assert_eq!(format!("{:?}", entry.keys), "[StoredKey([redacted])]");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(0u8..4, 0..200)) {
        if let Ok(entries) = decoded(&bytes) {
            prop_assert_eq!(content(&entries), bytes);
        }
    }
}
