//! Signature checks in the lanes of every backend of this machine and of the models, beside libsecp256k1.

use std::cell::RefCell;

use godwit_verify::{Answer, BackendKind, Check, KeyBytes, Verifier};
use secp256k1::{Keypair, Message, Parity, Scalar, Secp256k1, SecretKey};

use crate::input::Input;

/// Two groups, so that an inversion is shared.
const MAX_CHECKS: usize = 16;

thread_local! {
    /// Made once: each answers its known answers first. The last is libsecp256k1 alone.
    static VERIFIERS: RefCell<Vec<Verifier<usize>>> = RefCell::new(
        BackendKind::ALL.into_iter().filter_map(Verifier::with_backend).collect(),
    );
}

pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let mut checks = Vec::new();
    while !input.is_empty() && checks.len() < MAX_CHECKS {
        checks.push(read(&mut input));
    }
    // No rest that is too small for lanes.
    while !checks.is_empty() && checks.len() < MAX_CHECKS {
        checks.push(checks[0]);
    }
    VERIFIERS.with_borrow_mut(|verifiers| {
        let mut answers: Vec<Vec<Answer>> = Vec::new();
        for verifier in verifiers {
            for (id, check) in checks.iter().enumerate() {
                verifier.push(id, *check);
            }
            let mut answered = Vec::new();
            verifier.run(|_, answer| answered.push(answer));
            answers.push(answered);
        }
        let single = answers.pop().expect("libsecp256k1 is everywhere");
        assert!(answers.iter().all(|lanes| *lanes == single), "{checks:x?}");
    });
}

/// A check of the input's numbers, or one that the harness signs and perhaps changes in one place.
fn read(input: &mut Input) -> Check {
    let form = input.u8();
    let key = SecretKey::from_slice(&number(input));
    let Some(key) = key.ok().filter(|_| form & 4 == 0) else { return unsigned(form, input) };
    let secp = Secp256k1::new();
    let message = number(input);
    let digest = Message::from_digest(message);
    let pair = Keypair::from_secret_key(&secp, &key);
    let mut check = match form % 4 {
        0 | 1 => {
            let public = key.public_key(&secp);
            let key_bytes = match form % 4 {
                0 => KeyBytes::Compressed(public.serialize()),
                _ => KeyBytes::Full(public.serialize_uncompressed()),
            };
            let signature = secp.sign_ecdsa(&digest, &key).serialize_compact();
            Check::Ecdsa { key: key_bytes, signature, message }
        }
        2 => {
            let signature = secp.sign_schnorr_no_aux_rand(&digest, &pair).serialize();
            Check::Schnorr { key: pair.x_only_public_key().0.serialize(), signature, message }
        }
        _ => {
            let internal = pair.x_only_public_key().0;
            let tweak = Scalar::from_be_bytes(message).unwrap_or(Scalar::ONE);
            let Ok((output, parity)) = internal.add_tweak(&secp, &tweak) else {
                return unsigned(form, input);
            };
            Check::Commitment {
                internal_key: internal.serialize(),
                tweak: tweak.to_be_bytes(),
                output_key: output.serialize(),
                odd: parity == Parity::Odd,
            }
        }
    };
    let (place, change) = (usize::from(input.u8()), input.u8());
    match &mut check {
        Check::Ecdsa { key: KeyBytes::Compressed(key), .. } if form & 8 != 0 => {
            key[place % 33] ^= change;
        }
        Check::Ecdsa { key: KeyBytes::Full(key), .. } if form & 8 != 0 => key[place % 65] ^= change,
        Check::Schnorr { key, .. } if form & 8 != 0 => key[place % 32] ^= change,
        Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. } => {
            signature[place % 64] ^= change;
        }
        Check::Commitment { output_key, odd, .. } => {
            output_key[place % 32] ^= change;
            *odd ^= form & 8 != 0;
        }
    }
    check
}

fn unsigned(form: u8, input: &mut Input) -> Check {
    let message = number(input);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&number(input));
    signature[32..].copy_from_slice(&number(input));
    match form % 4 {
        0 => Check::Ecdsa { key: KeyBytes::Compressed(input.array()), signature, message },
        1 => Check::Ecdsa { key: KeyBytes::Full(input.array()), signature, message },
        2 => Check::Schnorr { key: input.array(), signature, message },
        _ => Check::Commitment {
            internal_key: message,
            tweak: number(input),
            output_key: input.array(),
            odd: form & 8 != 0,
        },
    }
}

/// 32 bytes, or a small number by one byte: those are where sums are exceptional.
fn number(input: &mut Input) -> [u8; 32] {
    let mut number = [0; 32];
    match input.u8() {
        0 => input.array(),
        small => {
            number[31] = small;
            number
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let signed = |form: u8, key: u8, message: u8| vec![form, key, message, 0, 0];
    let mut seeds: Vec<Vec<u8>> = (0..4).map(|form| signed(form, 1, 1)).collect();
    seeds.push((0..16).flat_map(|i| signed((i % 4) | (i & 8), i + 1, 3 * i + 1)).collect());
    // Infinity: the key G, r = s = 1 and the message -1.
    let mut infinity = vec![4, 1, 0];
    infinity.extend([0xff; 15]);
    infinity.extend([0xfe, 0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b]);
    infinity.extend([0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x40, 1, 1, 2]);
    infinity.extend([0x79, 0xbe, 0x66, 0x7e, 0xf9, 0xdc, 0xbb, 0xac, 0x55, 0xa0, 0x62, 0x95]);
    infinity.extend([0xce, 0x87, 0x0b, 0x07, 0x02, 0x9b, 0xfc, 0xdb, 0x2d, 0xce, 0x28, 0xd9]);
    infinity.extend([0x59, 0xf2, 0x81, 0x5b, 0x16, 0xf8, 0x17, 0x98]);
    seeds.push(infinity);
    seeds
}
