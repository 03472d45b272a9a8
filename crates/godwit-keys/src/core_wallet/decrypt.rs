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
    let (mut key, mut vector) = (SecretArray::zeroed()?, SecretArray::zeroed()?);
    passphrase.expose_secret_into((&mut key, &mut vector), |text, (key, vector)| {
        let mut hash = Sha512::new().chain_update(text).chain_update(salt).finalize();
        for _ in 1..rounds {
            hash = Sha512::digest(hash);
        }
        key.expose_secret_mut(|key: &mut [u8; 32]| key.copy_from_slice(&hash[..32]));
        vector.expose_secret_mut(|vector: &mut [u8; 16]| vector.copy_from_slice(&hash[32..48]));
    });
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
    key.expose_secret(|key| {
        vector.expose_secret(|vector| {
            let mut cipher = Decryptor::<Aes256>::new(key.into(), vector.into());
            let mut blocks = [[0; 16]; 3];
            for (block, encrypted) in blocks.iter_mut().zip(ciphertext.chunks_exact(16)) {
                block.copy_from_slice(encrypted);
                cipher.decrypt_block(block.into());
            }
            if blocks[2] != PADDING {
                return Ok(None);
            }
            let plain = blocks[..2].as_flattened();
            SecretArray::from_fn_in_place(|copy| copy.copy_from_slice(plain)).map(Some)
        })
    })
}

#[cfg(test)]
mod tests;
