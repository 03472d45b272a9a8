//! One check at a time, by libsecp256k1: what the lanes leave over, and the oracle of the tests.

use std::sync::OnceLock;

use secp256k1::ecdsa::Signature;
use secp256k1::{
    Message, Parity, PublicKey, Scalar, Secp256k1, VerifyOnly, XOnlyPublicKey, schnorr,
};

use crate::check::Check;

fn context() -> &'static Secp256k1<VerifyOnly> {
    static CONTEXT: OnceLock<Secp256k1<VerifyOnly>> = OnceLock::new();
    CONTEXT.get_or_init(Secp256k1::verification_only)
}

/// Whether the check is valid. What cannot be parsed is not.
pub(crate) fn verify(check: &Check) -> bool {
    verify_parsed(check).is_ok()
}

fn verify_parsed(check: &Check) -> Result<(), secp256k1::Error> {
    let secp = context();
    match check {
        Check::Ecdsa { key, signature, message } => {
            let key = PublicKey::from_slice(key.as_slice())?;
            let mut signature = Signature::from_compact(signature)?;
            // libsecp256k1 takes only the lower half.
            signature.normalize_s();
            secp.verify_ecdsa(&Message::from_digest(*message), &signature, &key)
        }
        Check::Schnorr { key, signature, message } => {
            let key = XOnlyPublicKey::from_slice(key)?;
            let signature = schnorr::Signature::from_slice(signature)?;
            secp.verify_schnorr(&signature, &Message::from_digest(*message), &key)
        }
        Check::Commitment { internal_key, tweak, output_key, odd } => {
            let internal = XOnlyPublicKey::from_slice(internal_key)?;
            let output = XOnlyPublicKey::from_slice(output_key)?;
            let parity = if *odd { Parity::Odd } else { Parity::Even };
            let tweak =
                Scalar::from_be_bytes(*tweak).map_err(|_| secp256k1::Error::InvalidTweak)?;
            match internal.tweak_add_check(secp, &output, parity, tweak) {
                true => Ok(()),
                false => Err(secp256k1::Error::IncorrectSignature),
            }
        }
    }
}
