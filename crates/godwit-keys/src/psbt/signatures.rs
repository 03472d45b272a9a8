//! The signatures that an input has, and whether they are valid.

use bitcoin::psbt::Input;
use bitcoin::secp256k1::{Message, Secp256k1, VerifyOnly};
use bitcoin::{Script, XOnlyPublicKey};

use super::keys_of_input::SigningKey;
use super::sighash::{Digests, Sighash};
use super::spent::{InputObjection, Spent, output_key};

/// A signature of either scheme.
pub(super) enum Signature {
    Ecdsa(bitcoin::secp256k1::ecdsa::Signature),
    Schnorr(bitcoin::secp256k1::schnorr::Signature),
}

/// The key by which an output's key path is signed for: the internal one, or the output's own where no
/// internal one is named, as none is by who knows the output's alone (Core's `rawtr()`).
pub(super) fn key_path(input: &Input, spent: &Script) -> Option<XOnlyPublicKey> {
    input.tap_internal_key.or_else(|| output_key(spent))
}

/// Every signature of an input, with its key and type. `spent`: the script of the output that it spends,
/// where it is known.
pub(super) fn signatures<'a>(
    input: &'a Input,
    spent: Option<&Script>,
) -> impl Iterator<Item = (SigningKey, Sighash, Signature)> + use<'a> {
    let ecdsa = input.partial_sigs.iter().map(|(key, signature)| {
        let sighash = Sighash::Ecdsa(signature.sighash_type);
        (SigningKey::Ecdsa(*key), sighash, Signature::Ecdsa(signature.signature))
    });
    let schnorr = |key, signature: &bitcoin::taproot::Signature| {
        let sighash = Sighash::Taproot(signature.sighash_type);
        (key, sighash, Signature::Schnorr(signature.signature))
    };
    let internal = spent.map_or(input.tap_internal_key, |spent| key_path(input, spent));
    let internal = internal.zip(input.tap_key_sig);
    let internal = internal.map(|(key, sig)| schnorr(SigningKey::Internal(key), &sig));
    let leaves = input.tap_script_sigs.iter();
    let leaves = leaves.map(move |((key, leaf), sig)| schnorr(SigningKey::Leaf(*key, *leaf), sig));
    ecdsa.chain(internal).chain(leaves)
}

/// Whether a signature signs what it says.
pub(super) fn verify_signature(
    digests: &mut Digests<'_>,
    index: usize,
    spent: &Spent,
    key: &SigningKey,
    sighash: Sighash,
    signature: &Signature,
) -> Result<bool, InputObjection> {
    let secp = Secp256k1::verification_only();
    let valid = match (key, sighash, signature) {
        (SigningKey::Ecdsa(key), Sighash::Ecdsa(kind), Signature::Ecdsa(signature)) => {
            let digest = digests.ecdsa(index, spent, kind)?;
            verify_ecdsa(&secp, &digest, signature, key)
        }
        (SigningKey::Internal(_), Sighash::Taproot(kind), Signature::Schnorr(signature)) => {
            let digest = digests.taproot(index, None, kind)?;
            let key = output_key(&spent.script);
            key.is_some_and(|key| verify_schnorr(&secp, &digest, signature, &key))
        }
        (SigningKey::Leaf(key, leaf), Sighash::Taproot(kind), Signature::Schnorr(signature)) => {
            let digest = digests.taproot(index, Some(*leaf), kind)?;
            verify_schnorr(&secp, &digest, signature, key)
        }
        _ => false,
    };
    Ok(valid)
}

pub(super) fn verify_ecdsa(
    secp: &Secp256k1<VerifyOnly>,
    digest: &[u8; 32],
    signature: &bitcoin::secp256k1::ecdsa::Signature,
    key: &bitcoin::PublicKey,
) -> bool {
    secp.verify_ecdsa(&Message::from_digest(*digest), signature, &key.inner).is_ok()
}

pub(super) fn verify_schnorr(
    secp: &Secp256k1<VerifyOnly>,
    digest: &[u8; 32],
    signature: &bitcoin::secp256k1::schnorr::Signature,
    key: &bitcoin::XOnlyPublicKey,
) -> bool {
    secp.verify_schnorr(signature, &Message::from_digest(*digest), key).is_ok()
}

/// Whether an input has a signature that is invalid or of another type than it asks for.
pub(super) fn wrong_signature(
    digests: &mut Digests<'_>,
    index: usize,
    input: &Input,
    spent: &Spent,
) -> Result<bool, InputObjection> {
    let wanted = Sighash::of(input, spent.kind)?;
    for (key, sighash, signature) in signatures(input, Some(&spent.output.script_pubkey)) {
        // Without a wish any type will do.
        let of_type = input.sighash_type.is_none() || sighash == wanted;
        if !of_type || !verify_signature(digests, index, spent, &key, sighash, &signature)? {
            return Ok(true);
        }
    }
    Ok(false)
}
