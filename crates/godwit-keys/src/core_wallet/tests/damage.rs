//! Damaged wallets: an error, or what the wallet held; never another key.

use std::fs;

use super::synthetic::{Shape, write_wallet};
use super::*;

/// What must not change: the descriptors and the private keys.
#[derive(PartialEq, Eq, Debug)]
struct Content {
    descriptors: Vec<String>,
    keys: Vec<String>,
}

fn content(path: &Path, passphrase: Option<&SecretString>) -> Result<Content, CoreWalletError> {
    import_core_wallet(path, passphrase).map(|wallet| {
        assert!(wallet.left_out.is_empty(), "nothing is left out because of damage");
        Content {
            descriptors: sorted(wallet.descriptors.into_iter().map(|d| d.descriptor.text)),
            keys: exported(&wallet.keys),
        }
    })
}

/// Flips one bit of every `step`-th byte of a wallet.
fn flip_bits(bytes: &[u8], passphrase: Option<&SecretString>, step: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wallet.dat");
    fs::write(&path, bytes).expect("a wallet");
    let expected = content(&path, passphrase).expect("the wallet is sound");
    let (mut refused, mut same) = (0, 0);
    for place in (0..bytes.len()).step_by(step) {
        let mut bad = bytes.to_vec();
        bad[place] ^= 1 << (place / step % 8);
        fs::write(&path, &bad).expect("a wallet");
        match content(&path, passphrase) {
            Ok(content) => {
                assert_eq!(content, expected, "a bit of byte {place}");
                same += 1;
            }
            Err(error) => {
                assert!(!error.to_string().contains('\n'));
                assert!(
                    !matches!(error, CoreWalletError::Memory(_)),
                    "damage takes no memory: byte {place}, {error}"
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && same > 0, "{refused} refused, {same} the same");
}

#[test]
fn bits_of_a_plain_wallet() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write_wallet(folder.path(), &Shape { filler: 10, ..Shape::default() });
    flip_bits(&fs::read(path).expect("the wallet"), None, 47);
}

#[test]
fn bits_of_an_encrypted_wallet() {
    let folder = tempfile::tempdir().expect("a folder");
    let shape = Shape { passphrase: Some("words"), filler: 10, ..Shape::default() };
    let path = write_wallet(folder.path(), &shape);
    flip_bits(&fs::read(path).expect("the wallet"), Some(&secret("words")), 151);
}

#[test]
fn bits_of_a_wallet_of_core() {
    let Some(wallets) = expected_wallets() else { return };
    let wallet = wallets.iter().find(|wallet| wallet.name == "blank-imported");
    let wallet = wallet.expect("one of them");
    flip_bits(&fs::read(&wallet.path).expect("the wallet"), None, 97);
}

#[test]
fn a_wallet_cut_off_anywhere_is_refused() {
    let Some(wallets) = expected_wallets() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wallet.dat");
    for wallet in wallets.iter().filter(|wallet| wallet.name != "plain") {
        fs::write(&path, fs::read(&wallet.path).expect("the wallet")).expect("a copy");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("the copy");
        for length in (0..file.metadata().expect("its size").len()).rev() {
            file.set_len(length).expect("cut");
            assert!(import_core_wallet(&path, None).is_err(), "cut at {length}");
        }
    }
}
