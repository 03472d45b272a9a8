//! Base58 with a checksum, from locked memory to locked memory.
//!
//! Source: Bitcoin Core `base58.cpp`. Unlike there, no white space is passed over.

use godwit_secret::{LockError, SecretBytes, SecretSlice, SecretString, between_steps};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::{KeyError, TextError};
use crate::guarded::guarded;

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const CHECKSUM_SIZE: usize = 4;
/// An extended key, the longest there is, with its checksum.
const MAX_BYTES: usize = 78 + CHECKSUM_SIZE;
/// Digits of so many bytes, and no fewer: log 256 / log 58 = 1.3657.
const MAX_DIGITS: usize = MAX_BYTES * 1366 / 1000 + 1;

/// Text of `payload`, at most 78 bytes.
pub(crate) fn encode_check(payload: SecretSlice<'_>) -> Result<SecretString, KeyError> {
    guarded(|| {
        let size = payload.len() + CHECKSUM_SIZE;
        if size > MAX_BYTES {
            return Err(TextError::Length.into());
        }
        payload.expose_secret(|payload| {
            let mut bytes = [0; MAX_BYTES];
            bytes[..payload.len()].copy_from_slice(payload);
            bytes[payload.len()..size].copy_from_slice(&checksum(payload));
            Ok(encode(&bytes[..size])?)
        })
    })
}

fn encode(bytes: &[u8]) -> Result<SecretString, LockError> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    // Least significant digit first.
    let mut digits = [0u8; MAX_DIGITS];
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) * 256;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
    }
    between_steps("a key is written in base58");
    let count = MAX_DIGITS - digits.iter().rev().take_while(|digit| **digit == 0).count();
    let mut text = SecretString::with_capacity(zeros + count)?;
    for digit in [0].iter().cycle().take(zeros).chain(digits[..count].iter().rev()) {
        text.push(char::from(ALPHABET[usize::from(*digit)]))?;
    }
    Ok(text)
}

/// The bytes that `text` stands for, without their checksum, which is right.
pub(crate) fn decode_check(text: SecretSlice<'_>) -> Result<SecretBytes, KeyError> {
    guarded(|| {
        if text.len() > MAX_DIGITS {
            return Err(TextError::Length.into());
        }
        text.expose_secret(|text| {
            // Least significant byte first.
            let mut bytes = [0u8; MAX_BYTES + 1];
            let zeros = decode_number(text, &mut bytes)?;
            let count = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
            let size = zeros + count;
            if !(CHECKSUM_SIZE..=MAX_BYTES).contains(&size) {
                return Err(TextError::Length.into());
            }
            let number = &mut bytes[..size];
            number.reverse();
            between_steps("a key is read from base58");
            let (payload, sum) = number.split_at(size - CHECKSUM_SIZE);
            if !bool::from(checksum(payload).ct_eq(sum)) {
                return Err(TextError::Checksum.into());
            }
            Ok(SecretBytes::from_fn_in_place(payload.len(), |copy| copy.copy_from_slice(payload))?)
        })
    })
}

/// The number that `text` is, and the count of its leading zeros.
fn decode_number(text: &[u8], bytes: &mut [u8; MAX_BYTES + 1]) -> Result<usize, TextError> {
    for (at, character) in text.iter().enumerate() {
        let digit = ALPHABET.iter().position(|digit| digit == character);
        let mut carry = digit.ok_or(TextError::Character(at))? as u32;
        for byte in bytes.iter_mut() {
            carry += u32::from(*byte) * 58;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            return Err(TextError::Length);
        }
    }
    Ok(text.iter().take_while(|digit| **digit == ALPHABET[0]).count())
}

/// The first bytes of SHA-256 of SHA-256.
fn checksum(payload: &[u8]) -> [u8; CHECKSUM_SIZE] {
    let hash = Sha256::digest(Sha256::digest(payload));
    [hash[0], hash[1], hash[2], hash[3]]
}

#[cfg(test)]
mod tests;
