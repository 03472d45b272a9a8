//! Authentication by a cookie file that is not sent: both sides prove that they can read it (SAFECOOKIE).

use data_encoding::HEXLOWER;
use godwit_secret::{SecretBytes, run_on_secret_stack};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::TorError;

/// Bytes of the cookie (Core `TOR_COOKIE_SIZE`).
pub const TOR_COOKIE_SIZE: usize = 32;
/// Keys of the two hashes (Core `TOR_SAFE_SERVERKEY`, `TOR_SAFE_CLIENTKEY`).
const FROM_TOR: &[u8] = b"Tor safe cookie authentication server-to-controller hash";
const TO_TOR: &[u8] = b"Tor safe cookie authentication controller-to-server hash";

/// What Tor answers to a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Its proof.
    pub(super) hash: [u8; 32],
    pub(super) nonce: [u8; 32],
}

fn proof(key: &[u8], parts: [&[u8]; 3]) -> [u8; 32] {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

/// The command with our proof.
///
/// # Errors
///
/// Tor's proof is wrong: it is not the program that wrote the cookie.
pub(super) fn authenticate(
    cookie: &SecretBytes,
    nonce: &[u8; 32],
    challenge: &Challenge,
) -> Result<SecretBytes, TorError> {
    run_on_secret_stack(|| {
        cookie.expose_secret(|cookie| {
            let parts: [&[u8]; 3] = [cookie, nonce, &challenge.nonce];
            if !bool::from(proof(FROM_TOR, parts).as_slice().ct_eq(&challenge.hash)) {
                return Err(TorError::WrongCookie);
            }
            let mut text = [0; 64];
            HEXLOWER.encode_mut(&proof(TO_TOR, parts), &mut text);
            let mut command = SecretBytes::new();
            command.extend_from_slice(b"AUTHENTICATE ")?;
            command.extend_from_slice(&text)?;
            Ok(command)
        })
    })?
}
