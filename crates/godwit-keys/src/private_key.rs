//! A private key and its signatures.

use std::fmt;

use bitcoin::secp256k1::ecdsa::RecoverableSignature;
use bitcoin::secp256k1::{Keypair, Message, PublicKey, Scalar, SecretKey, ecdsa, schnorr};
use godwit_secret::{Declassified, LockError, Releasable, SecretArray, between_steps};

use crate::error::KeyError;
use crate::guarded::{curve, guarded};

/// A private key of secp256k1 in locked memory.
pub struct PrivateKey {
    /// In the range of private keys.
    number: SecretArray<32>,
}

impl PrivateKey {
    /// # Errors
    ///
    /// When the number, big-endian, is zero or not below the order of the curve.
    pub fn from_secret(number: SecretArray<32>) -> Result<Self, KeyError> {
        guarded(|| {
            let valid = number.expose_secret(|number| SecretKey::from_slice(number).is_ok());
            if valid { Ok(()) } else { Err(KeyError::OutOfRange) }
        })?;
        Ok(Self { number })
    }

    /// The point of this key.
    pub fn public_key(&self) -> Result<PublicKey, KeyError> {
        Ok(self.use_key(|key| Ok(Declassified(key.public_key(curve()))))?.0)
    }

    /// A second key of the same number.
    pub fn try_clone(&self) -> Result<Self, LockError> {
        Ok(Self { number: SecretArray::copy_of(&self.number)? })
    }

    /// Signs `digest` as Bitcoin Core does (`CKey::Sign`): nonce of RFC 6979, and with a counter as
    /// extra entropy, from 1, until R takes 32 bytes. The same key and digest give the same bytes.
    pub fn sign_ecdsa(&self, digest: &[u8; 32]) -> Result<ecdsa::Signature, KeyError> {
        let message = Message::from_digest(*digest);
        let signed = self.use_key(|key| {
            let signature = curve().sign_ecdsa_low_r(&message, key);
            between_steps("ECDSA has signed");
            // A signature that a fault went into can give the key away.
            curve()
                .verify_ecdsa(&message, &signature, &key.public_key(curve()))
                .map_err(|_| KeyError::BadSignature)?;
            Ok(Declassified(signature))
        })?;
        Ok(signed.0)
    }

    /// Signs `digest` by BIP340 with auxiliary randomness of zeros, as Bitcoin Core does
    /// (`CKey::SignSchnorr` from `script/sign.cpp`). `tweak` is what BIP341 adds to the key, the hash
    /// `TapTweak` of the internal key and the root of the script tree; it is not added for a script
    /// path.
    ///
    /// # Errors
    ///
    /// [`KeyError::OutOfRange`] for a tweak that is no number of the curve or makes the key zero.
    pub fn sign_schnorr(
        &self,
        digest: &[u8; 32],
        tweak: Option<&[u8; 32]>,
    ) -> Result<schnorr::Signature, KeyError> {
        let message = Message::from_digest(*digest);
        let signed = self.use_key(|key| {
            let mut pair = Keypair::from_secret_key(curve(), key);
            if let Some(tweak) = tweak {
                let tweak = Scalar::from_be_bytes(*tweak).map_err(|_| KeyError::OutOfRange)?;
                pair = pair.add_xonly_tweak(curve(), &tweak).map_err(|_| KeyError::OutOfRange)?;
            }
            let signature = curve().sign_schnorr_with_aux_rand(&message, &pair, &[0; 32]);
            between_steps("BIP340 has signed");
            curve()
                .verify_schnorr(&signature, &message, &pair.x_only_public_key().0)
                .map_err(|_| KeyError::BadSignature)?;
            Ok(Declassified(signature))
        })?;
        Ok(signed.0)
    }

    /// Signs `digest` as Bitcoin Core signs messages (`CKey::SignCompact`): nonce of RFC 6979, whatever the
    /// length of R. The public key can be computed from the signature.
    pub fn sign_recoverable(&self, digest: &[u8; 32]) -> Result<RecoverableSignature, KeyError> {
        let message = Message::from_digest(*digest);
        let signed = self.use_key(|key| {
            let signature = curve().sign_ecdsa_recoverable(&message, key);
            between_steps("ECDSA has signed a message");
            match curve().recover_ecdsa(&message, &signature) {
                Ok(public) if public == key.public_key(curve()) => Ok(Declassified(signature)),
                _ => Err(KeyError::BadSignature),
            }
        })?;
        Ok(signed.0)
    }

    /// Shows the key to `f`, which runs on a secret stack.
    pub(crate) fn use_key<R: Releasable + Send>(
        &self,
        f: impl Fn(&SecretKey) -> Result<R, KeyError> + Sync,
    ) -> Result<R, KeyError> {
        guarded(|| {
            self.number.expose_secret(|number| {
                f(&SecretKey::from_slice(number).expect("checked when it came in"))
            })
        })
    }

    /// The number, big-endian.
    pub(crate) fn secret(&self) -> &SecretArray<32> {
        &self.number
    }
}

impl Releasable for PrivateKey {}

impl PartialEq for PrivateKey {
    /// In constant time.
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for PrivateKey {}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey([redacted])")
    }
}

#[cfg(test)]
mod tests;
