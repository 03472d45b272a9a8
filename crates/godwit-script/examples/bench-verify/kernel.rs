//! libsecp256k1 as Bitcoin Core's kernel library bundles it. The library exports the functions, but no
//! crate declares them.
//!
//! Declarations as in secp256k1.h, secp256k1_extrakeys.h and secp256k1_schnorrsig.h of that version. Every
//! function reads what its constant pointers name and writes what the others do; the context is never
//! written to by these.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;

use godwit_verify::Check;
// Links the library.
use libbitcoinkernel_sys as _;

/// A key or a signature in the library's own form: 64 bytes, whichever it is.
type Parsed = [u8; 64];

unsafe extern "C" {
    static secp256k1_context_static: *const c_void;

    fn secp256k1_ec_pubkey_parse(
        context: *const c_void,
        key: *mut Parsed,
        input: *const u8,
        input_len: usize,
    ) -> c_int;
    fn secp256k1_ecdsa_signature_parse_compact(
        context: *const c_void,
        signature: *mut Parsed,
        input: *const u8,
    ) -> c_int;
    fn secp256k1_ecdsa_signature_normalize(
        context: *const c_void,
        out: *mut Parsed,
        signature: *const Parsed,
    ) -> c_int;
    fn secp256k1_ecdsa_verify(
        context: *const c_void,
        signature: *const Parsed,
        message: *const u8,
        key: *const Parsed,
    ) -> c_int;
    fn secp256k1_xonly_pubkey_parse(
        context: *const c_void,
        key: *mut Parsed,
        input: *const u8,
    ) -> c_int;
    fn secp256k1_schnorrsig_verify(
        context: *const c_void,
        signature: *const u8,
        message: *const u8,
        message_len: usize,
        key: *const Parsed,
    ) -> c_int;
    fn secp256k1_xonly_pubkey_tweak_add_check(
        context: *const c_void,
        tweaked: *const u8,
        parity: c_int,
        internal: *const Parsed,
        tweak: *const u8,
    ) -> c_int;
}

pub(crate) fn verify(check: &Check) -> bool {
    let (mut key, mut parsed) = ([0u8; 64], [0u8; 64]);
    match check {
        Check::Ecdsa { key: bytes, signature, message } => {
            let bytes = bytes.as_slice();
            let low = ptr::from_mut(&mut parsed);
            // SAFETY: all that is read has the length that the header names, `key` and `parsed` are 64 bytes,
            // and a signature may be normalized in place.
            unsafe {
                let context = secp256k1_context_static;
                secp256k1_ec_pubkey_parse(context, &mut key, bytes.as_ptr(), bytes.len()) == 1
                    && secp256k1_ecdsa_signature_parse_compact(context, low, signature.as_ptr())
                        == 1
                    && {
                        secp256k1_ecdsa_signature_normalize(context, low, low);
                        secp256k1_ecdsa_verify(context, low, message.as_ptr(), &key) == 1
                    }
            }
        }
        // SAFETY: as above.
        Check::Schnorr { key: bytes, signature, message } => unsafe {
            let context = secp256k1_context_static;
            let (signature, message) = (signature.as_ptr(), message.as_ptr());
            secp256k1_xonly_pubkey_parse(context, &mut key, bytes.as_ptr()) == 1
                && secp256k1_schnorrsig_verify(context, signature, message, 32, &key) == 1
        },
        // SAFETY: as above.
        Check::Commitment { internal_key, tweak, output_key, odd } => unsafe {
            let context = secp256k1_context_static;
            let (output, tweak) = (output_key.as_ptr(), tweak.as_ptr());
            secp256k1_xonly_pubkey_parse(context, &mut key, internal_key.as_ptr()) == 1
                && secp256k1_xonly_pubkey_tweak_add_check(
                    context,
                    output,
                    (*odd).into(),
                    &key,
                    tweak,
                ) == 1
        },
    }
}
