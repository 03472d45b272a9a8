//! How Bitcoin Core encrypts the private keys of a wallet (`wallet/crypter.cpp`). Runs on a secret stack.
//!
//! A random master key encrypts every private key, with an initialisation vector that comes from its
//! public key; a key and a vector made of the passphrase, by many rounds of SHA-512, encrypt the master
//! key. Both by AES-256 in CBC mode with padding. All that is encrypted has 32 bytes.

use aes::Aes256;
use cbc::Decryptor;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use godwit_secret::{LockError, SecretArray, SecretString};
use sha2::{Digest, Sha256, Sha512};

/// 32 bytes and their padding.
pub(crate) const CIPHERTEXT_SIZE: usize = 48;

/// Each byte of padding is the number of bytes of padding.
const PADDING: [u8; 16] = [16; 16];

/// The most rounds that are gone: some hundred times as many as Core finds right for a fast computer.
pub(crate) const MAX_ROUNDS: u32 = 50_000_000;

/// The key and the initialisation vector that a passphrase stands for; `rounds` is at least 1.
pub(crate) fn stretch(
    passphrase: &SecretString,
    salt: &[u8],
    rounds: u32,
) -> Result<(SecretArray<32>, SecretArray<16>), LockError> {
    let mut hash = passphrase
        .expose_secret(|text| Sha512::new().chain_update(text).chain_update(salt).finalize());
    for _ in 1..rounds {
        hash = Sha512::digest(hash);
    }
    let key = SecretArray::from_fn_in_place(|key| key.copy_from_slice(&hash[..32]))?;
    let vector = SecretArray::from_fn_in_place(|vector| vector.copy_from_slice(&hash[32..48]))?;
    Ok((key, vector))
}

/// The initialisation vector for the private key of a public key.
pub(crate) fn vector_of(public_key: &[u8]) -> Result<SecretArray<16>, LockError> {
    let hash = Sha256::digest(Sha256::digest(public_key));
    SecretArray::from_fn_in_place(|vector| vector.copy_from_slice(&hash[..16]))
}

/// What was encrypted; `None` when the padding is not right, so that the key is not.
pub(crate) fn decrypt(
    key: &SecretArray<32>,
    vector: &SecretArray<16>,
    ciphertext: &[u8; CIPHERTEXT_SIZE],
) -> Result<Option<SecretArray<32>>, LockError> {
    let mut cipher = key.expose_secret(|key| {
        vector.expose_secret(|vector| Decryptor::<Aes256>::new(key.into(), vector.into()))
    });
    let mut blocks = [[0; 16]; 3];
    for (block, encrypted) in blocks.iter_mut().zip(ciphertext.chunks_exact(16)) {
        block.copy_from_slice(encrypted);
        cipher.decrypt_block(block.into());
    }
    if blocks[2] != PADDING {
        return Ok(None);
    }
    SecretArray::from_fn_in_place(|plain| plain.copy_from_slice(blocks[..2].as_flattened()))
        .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_is_stretched_as_core_does() {
        // Of Core's wallet/test/wallet_crypto_tests.cpp.
        let mut passphrase = SecretString::new();
        passphrase.push_str("test").expect("memory");
        let salt = [0, 0, 0xde, 0xad, 0xbe, 0xef, 0, 0];
        let (key, vector) = stretch(&passphrase, &salt, 25_000).expect("memory");
        let key = key.expose_secret(|key| hex::encode(key));
        assert_eq!(key, "fc7aba077ad5f4c3a0988d8daa4810d0d4a0e3bcb53af662998898f33df0556a");
        let vector = vector.expose_secret(|vector| hex::encode(vector));
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
}
