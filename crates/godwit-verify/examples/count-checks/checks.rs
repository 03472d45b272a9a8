//! Valid checks of each kind, with keys and messages that nobody chose.

use godwit_verify::{Check, KeyBytes};
use secp256k1::{All, Keypair, Message, Parity, Scalar, Secp256k1, SecretKey};
use sha2::{Digest, Sha256};

pub(crate) type Make = fn(&Secp256k1<All>, usize) -> Check;

pub(crate) const KINDS: [(&str, Make); 4] = [
    ("ECDSA, compressed key", |secp, i| ecdsa(secp, i, true)),
    ("ECDSA, full key", |secp, i| ecdsa(secp, i, false)),
    ("Schnorr", schnorr),
    ("commitment", commitment),
];

/// A number that nobody chose.
fn number(purpose: &str, i: usize) -> [u8; 32] {
    Sha256::digest(format!("{purpose} {i}")).into()
}

fn secret_key(i: usize) -> SecretKey {
    SecretKey::from_slice(&number("key", i)).expect("a hash is not 0, nor n or more")
}

fn ecdsa(secp: &Secp256k1<All>, i: usize, compressed: bool) -> Check {
    let (key, message) = (secret_key(i), number("message", i));
    let signature = secp.sign_ecdsa(&Message::from_digest(message), &key).serialize_compact();
    let public = key.public_key(secp);
    let key = match compressed {
        true => KeyBytes::Compressed(public.serialize()),
        false => KeyBytes::Full(public.serialize_uncompressed()),
    };
    Check::Ecdsa { key, signature, message }
}

fn schnorr(secp: &Secp256k1<All>, i: usize) -> Check {
    let (pair, message) = (Keypair::from_secret_key(secp, &secret_key(i)), number("message", i));
    let signature = secp.sign_schnorr_no_aux_rand(&Message::from_digest(message), &pair);
    let key = pair.x_only_public_key().0.serialize();
    Check::Schnorr { key, signature: signature.serialize(), message }
}

fn commitment(secp: &Secp256k1<All>, i: usize) -> Check {
    let (internal, _) = secret_key(i).x_only_public_key(secp);
    let tweak = number("tweak", i);
    let scalar = Scalar::from_be_bytes(tweak).expect("a hash is below n");
    let (output, parity) = internal.add_tweak(secp, &scalar).expect("not infinity");
    Check::Commitment {
        internal_key: internal.serialize(),
        tweak,
        output_key: output.serialize(),
        odd: parity == Parity::Odd,
    }
}
