//! Seeds as words: BIP39, with the English list.

use std::fmt;

use bip39::Language;
use godwit_secret::{
    LockError, Releasable, SecretArray, SecretBytes, SecretSlice, SecretString, between_steps,
};
use sha2::{Digest, Sha256, Sha512};

use crate::error::{KeyError, MnemonicError};
use crate::guarded::guarded;
use crate::nfkd::nfkd;

const BITS_PER_WORD: usize = 11;
/// Entropy of 24 words.
const MAX_ENTROPY: usize = 32;
/// Iterations of PBKDF2.
const ROUNDS: u32 = 2048;
/// Length of a seed, in bytes.
const SEED_SIZE: usize = 64;

/// Words of BIP39 in locked memory, checksum right.
pub struct Mnemonic {
    /// In lower case, one space between words.
    text: SecretString,
}

impl Mnemonic {
    /// Fresh words from the system's random bytes.
    ///
    /// # Errors
    ///
    /// Also when `words` is not 12, 15, 18, 21 or 24.
    pub fn generate(words: usize) -> Result<Self, KeyError> {
        let entropy = SecretBytes::random(entropy_size(words)?)?;
        Self::from_entropy(SecretSlice::from(&entropy))
    }

    /// The words of `text`, in any case, with any white space between and around them.
    pub fn parse(text: SecretSlice<'_>) -> Result<Self, KeyError> {
        guarded(|| {
            text.expose_secret(|text| {
                let words = || text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                let size = entropy_size(words().count())?;
                // The entropy, and the checksum in the high bits of one byte more.
                let mut bits = [0u8; MAX_ENTROPY + 1];
                for (place, word) in words().enumerate() {
                    let index = find(word).ok_or(MnemonicError::Word(place + 1))?;
                    put(&mut bits, place, index);
                }
                between_steps("words are read");
                let (entropy, sum) = bits.split_at(size);
                if sum[0] != checksum(entropy) {
                    return Err(MnemonicError::Checksum.into());
                }
                Self::of(&bits, size)
            })
        })
    }

    /// The 24 words of `entropy`.
    pub fn from_32_bytes(entropy: &SecretArray<32>) -> Result<Self, KeyError> {
        Self::from_entropy(SecretSlice::from(entropy))
    }

    fn from_entropy(entropy: SecretSlice<'_>) -> Result<Self, KeyError> {
        guarded(|| {
            entropy.expose_secret(|entropy| {
                let mut bits = [0u8; MAX_ENTROPY + 1];
                bits[..entropy.len()].copy_from_slice(entropy);
                bits[entropy.len()] = checksum(entropy);
                Self::of(&bits, entropy.len())
            })
        })
    }

    /// `bits`: entropy of `size` bytes and its checksum.
    fn of(bits: &[u8; MAX_ENTROPY + 1], size: usize) -> Result<Self, KeyError> {
        // The longest words have eight letters.
        let count = word_count(size);
        let mut text = SecretString::with_capacity(count * 9)?;
        for place in 0..count {
            if place > 0 {
                text.push(' ')?;
            }
            text.push_str(Language::English.word_list()[get(bits, place)])?;
        }
        Ok(Self { text })
    }

    /// The seed that the words and `passphrase`, which may be empty, stand for: 64 bytes.
    pub(crate) fn seed(&self, passphrase: &SecretString) -> Result<SecretBytes, KeyError> {
        guarded(|| {
            let mut salt = SecretString::new();
            salt.push_str("mnemonic")?;
            let passphrase = passphrase.expose_secret(nfkd)?;
            passphrase.expose_secret_into(&mut salt, |text, salt| salt.push_str(text))?;
            let mut seed = SecretBytes::from_fn_in_place(SEED_SIZE, |_| {})?;
            self.text.expose_secret_into(&mut seed, |words, seed| {
                salt.expose_secret_into(seed, |salt, seed| {
                    let (words, salt) = (words.as_bytes(), salt.as_bytes());
                    seed.expose_secret_mut(|seed| {
                        pbkdf2::pbkdf2_hmac::<Sha512>(words, salt, ROUNDS, seed);
                    });
                });
            });
            between_steps("the seed of the words is computed");
            Ok(seed)
        })
    }

    /// Whether two have the same words, in constant time for those of one length.
    pub fn is_same(&self, other: &Self) -> bool {
        self.text == other.text
    }

    /// A second one of the same words.
    pub fn try_clone(&self) -> Result<Self, LockError> {
        let mut text = SecretString::with_capacity(self.text.len())?;
        self.text.expose_secret_into(&mut text, |words, text| text.push_str(words))?;
        Ok(Self { text })
    }

    /// The words, one space between them.
    pub(crate) fn text(&self) -> &SecretString {
        &self.text
    }

    /// The places of the words in the list, two bytes each, least significant first.
    #[cfg(any(test, feature = "residue"))]
    pub(crate) fn numbers(&self) -> Result<SecretBytes, KeyError> {
        guarded(|| {
            self.text.expose_secret(|text| {
                let mut numbers = SecretBytes::with_capacity(2 * text.len().div_ceil(4))?;
                for word in text.split(' ') {
                    let place = find(word.as_bytes()).expect("the words are of the list") as u16;
                    numbers.extend_from_slice(&place.to_le_bytes())?;
                }
                Ok(numbers)
            })
        })
    }

    /// What the words stand for, without their checksum.
    #[cfg(any(test, feature = "residue"))]
    pub(crate) fn entropy(&self) -> Result<SecretBytes, KeyError> {
        let numbers = self.numbers()?;
        let size = entropy_size(numbers.len() / 2)?;
        guarded(|| {
            numbers.expose_secret(|numbers| {
                let mut bits = [0u8; MAX_ENTROPY + 1];
                for (place, number) in numbers.as_chunks().0.iter().enumerate() {
                    put(&mut bits, place, usize::from(u16::from_le_bytes(*number)));
                }
                Ok(SecretBytes::from_fn_in_place(size, |copy| copy.copy_from_slice(&bits[..size]))?)
            })
        })
    }
}

impl Releasable for Mnemonic {}

impl fmt::Debug for Mnemonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mnemonic([redacted])")
    }
}

/// Bytes of entropy in so many words.
fn entropy_size(words: usize) -> Result<usize, MnemonicError> {
    match words {
        12 | 15 | 18 | 21 | 24 => Ok(words / 3 * 4),
        _ => Err(MnemonicError::WordCount(words)),
    }
}

fn word_count(entropy_size: usize) -> usize {
    entropy_size / 4 * 3
}

/// One bit for every four bytes, the high bits of the hash.
fn checksum(entropy: &[u8]) -> u8 {
    Sha256::digest(entropy)[0] & (0xff00u16 >> (entropy.len() / 4)) as u8
}

/// The place of `word` in the list.
fn find(word: &[u8]) -> Option<usize> {
    let in_lower_case = || word.iter().map(u8::to_ascii_lowercase);
    let list = Language::English.word_list();
    list.binary_search_by(|entry| entry.bytes().cmp(in_lower_case())).ok()
}

/// Writes the bits of the word at `place`.
fn put(bits: &mut [u8], place: usize, word: usize) {
    for bit in (0..BITS_PER_WORD).filter(|bit| word >> (BITS_PER_WORD - 1 - bit) & 1 == 1) {
        let at = place * BITS_PER_WORD + bit;
        bits[at / 8] |= 0x80 >> (at % 8);
    }
}

/// Reads the bits of the word at `place`.
fn get(bits: &[u8], place: usize) -> usize {
    (0..BITS_PER_WORD).fold(0, |word, bit| {
        let at = place * BITS_PER_WORD + bit;
        word << 1 | usize::from(bits[at / 8] >> (7 - at % 8) & 1)
    })
}

#[cfg(test)]
mod tests;
