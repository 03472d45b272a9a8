//! Needles of private keys, for a search of memory.
//!
//! A [`Needle`] reveals nothing of its secret and can only be searched for, so these functions let
//! `godwit-signer residue-check` look for keys that no other crate sees. They compute on a secret
//! stack, or the search would find their own copies.

use bitcoin::hashes::{Hash, HashEngine, sha256, sha512};
use bitcoin::secp256k1::{Keypair, Scalar, SecretKey, XOnlyPublicKey, ecdsa, schnorr};
use bitcoin::taproot::TapTweakHash;
use godwit_secret::residue::{Needle, NeedleError};
use godwit_secret::{Declassified, LockError, SecretArray, SecretBytes, SecretSlice, SecretString};

use crate::error::KeyError;
use crate::extended_key::ExtendedPrivateKey;
use crate::guarded::{curve, guarded};
use crate::kdf::argon2_start;
use crate::mnemonic::Mnemonic;
use crate::private_key::PrivateKey;
use crate::store::KeyStore;
use crate::stored_key::StoredKey;
use crate::wif::to_wif;

/// Order of the curve less 2: a power with this exponent is the inverse.
const INVERSION: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
    0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x3f,
];
/// Bytes of a block of SHA-512.
const BLOCK: usize = 128;
/// Letters of an `xprv` that are made of its version, depth, parent and number alone: 13 bytes.
const PUBLIC_LETTERS: usize = 18;
const ONE: [u8; 32] = {
    let mut one = [0; 32];
    one[31] = 1;
    one
};

impl From<NeedleError> for KeyError {
    fn from(error: NeedleError) -> Self {
        match error {
            NeedleError::Memory(error) => error.into(),
            NeedleError::TooShort { .. } => {
                unreachable!("what is searched for here is long enough")
            }
        }
    }
}

impl PrivateKey {
    /// The key in all forms: also as WIF, negated, and tweaked as taproot's key without scripts, as
    /// signing derives them.
    pub fn needle(&self, name: &str) -> Result<Needle, KeyError> {
        self.use_key(|key| {
            let mut needle = Needle::new(name, self.secret())?;
            for network in [bitcoin::NetworkKind::Main, bitcoin::NetworkKind::Test] {
                for compressed in [true, false] {
                    needle = needle.form("WIF", &to_wif(self, network, compressed)?)?;
                }
            }
            let pair = Keypair::from_secret_key(curve(), key);
            let needle = both_signs(needle, "negated", pair.secret_key())?;
            let internal = pair.x_only_public_key().0;
            let tweak = TapTweakHash::from_key_and_tweak(internal, None).to_scalar();
            let output = pair.add_xonly_tweak(curve(), &tweak);
            let output = output.map_err(|_| KeyError::OutOfRange)?;
            both_signs(needle, "tweaked", output.secret_key())
        })
    }

    /// The nonce of a signature of this key: whoever knows it can compute the key.
    ///
    /// # Errors
    ///
    /// [`KeyError::BadSignature`] when this is no signature of this key for `digest`.
    pub fn ecdsa_nonce_needle(
        &self,
        name: &str,
        signature: &ecdsa::Signature,
        digest: &[u8; 32],
    ) -> Result<Needle, KeyError> {
        let compact = signature.serialize_compact();
        let (r, s) = halves(&compact);
        self.use_key(|key| {
            let wrong = |_| KeyError::BadSignature;
            let digest = Scalar::from_be_bytes(*digest).map_err(|_| KeyError::OutOfRange)?;
            let r_scalar = Scalar::from_be_bytes(r).map_err(|_| KeyError::BadSignature)?;
            let sum = key.mul_tweak(&r_scalar).map_err(wrong)?;
            let sum = sum.add_tweak(&digest).map_err(wrong)?;
            let nonce = inverse(SecretKey::from_slice(&s).map_err(wrong)?).map_err(wrong)?;
            let nonce = nonce.mul_tweak(&Scalar::from(sum)).map_err(wrong)?;
            nonce_needle(name, nonce, &r)
        })
    }

    /// As [`ecdsa_nonce_needle`](Self::ecdsa_nonce_needle), for the signature that
    /// [`sign_schnorr`](Self::sign_schnorr) makes with the same digest and tweak.
    pub fn schnorr_nonce_needle(
        &self,
        name: &str,
        signature: &schnorr::Signature,
        digest: &[u8; 32],
        tweak: Option<&[u8; 32]>,
    ) -> Result<Needle, KeyError> {
        let (r, s) = halves(signature.as_ref());
        self.use_key(|key| {
            let wrong = |_| KeyError::BadSignature;
            let mut pair = Keypair::from_secret_key(curve(), key);
            if let Some(tweak) = tweak {
                let tweak = Scalar::from_be_bytes(*tweak).map_err(|_| KeyError::OutOfRange)?;
                pair = pair.add_xonly_tweak(curve(), &tweak).map_err(|_| KeyError::OutOfRange)?;
            }
            let (public, parity) = pair.x_only_public_key();
            let key = pair.secret_key();
            let key = if parity == bitcoin::secp256k1::Parity::Odd { key.negate() } else { key };
            let challenge = challenge(&r, &public, digest);
            let challenge = Scalar::from_be_bytes(challenge).map_err(|_| KeyError::OutOfRange)?;
            let product = key.mul_tweak(&challenge).map_err(wrong)?.negate();
            let s = SecretKey::from_slice(&s).map_err(wrong)?;
            let nonce = s.add_tweak(&Scalar::from(product)).map_err(wrong)?;
            nonce_needle(name, nonce, &r)
        })
    }
}

impl ExtendedPrivateKey {
    /// The key in all forms, also as `xprv` or `tprv`.
    ///
    /// The chain code is not among them: it is half of the `xpub` that descriptors show. Above accounts,
    /// where they show none, it has a needle of its own.
    pub fn needle(&self, name: &str) -> Result<Needle, KeyError> {
        let needle = self.private_key()?.needle(name)?;
        Ok(needle.form_behind("extended key", &self.to_base58()?, PUBLIC_LETTERS)?)
    }

    /// The chain code, and what HMAC makes of it before it knows a child's number.
    pub fn chain_code_needle(&self, name: &str) -> Result<Needle, KeyError> {
        guarded(|| {
            with_hmac_states(Needle::new(name, self.chain_code())?, self.chain_code().into())
        })
    }

    /// The hash inside of the HMAC that makes the root's key of `seed`. The outer one has a key that
    /// everybody knows, so whoever has this has the root.
    pub fn seed_hash_needle(name: &str, seed: &SecretBytes) -> Result<Needle, KeyError> {
        guarded(|| Ok(Needle::new(name, &seed_hash(seed)?)?))
    }
}

impl StoredKey {
    /// The key in all forms.
    pub fn needle(&self, name: &str) -> Result<Needle, KeyError> {
        match self {
            Self::Extended { key, .. } => key.needle(name),
            Self::Single { key, .. } => key.needle(name),
        }
    }
}

impl Mnemonic {
    /// The words, also as numbers, in upper case and one per line, and their entropy; with the words, what
    /// HMAC makes of them, which is all that PBKDF2 needs.
    pub fn needles(&self, name: &str) -> Result<[Needle; 2], KeyError> {
        let needles = guarded(|| {
            let mut words = Needle::new(&format!("{name}: words"), self.text())?;
            for separator in [b'\n', b',', 0] {
                let text = self.text().expose_secret(|text| {
                    SecretBytes::from_fn_in_place(text.len(), |copy| {
                        copy.copy_from_slice(text.as_bytes());
                        copy.iter_mut().filter(|byte| **byte == b' ').for_each(|b| *b = separator);
                    })
                })?;
                words = words.form("words", &text)?;
            }
            let upper = self.text().expose_secret(|text| {
                SecretBytes::from_fn_in_place(text.len(), |copy| {
                    copy.copy_from_slice(text.as_bytes());
                    copy.make_ascii_uppercase();
                })
            })?;
            words = words.form("words", &upper)?;
            words = with_hmac_states(words, self.text().into())?;
            let (numbers, entropy) = (self.numbers()?, self.entropy()?);
            for (form, width) in [("numbers of 2", 2), ("numbers of 4", 4), ("numbers of 8", 8)] {
                let mut wide = SecretBytes::with_capacity(numbers.len() / 2 * width)?;
                numbers.expose_secret_into(&mut wide, |numbers, wide| {
                    numbers.chunks_exact(2).try_for_each(|number| {
                        wide.extend_from_slice(number)?;
                        wide.extend_from_slice(&[0; 8][..width - 2])
                    })
                })?;
                words = words.form(form, &wide)?;
            }
            let entropy = Needle::new(&format!("{name}: entropy"), &entropy)?;
            Ok(Declassified([words, entropy]))
        })?;
        Ok(needles.0)
    }

    /// The seed of the words with `passphrase`.
    pub fn seed_needle(&self, name: &str, passphrase: &SecretString) -> Result<Needle, KeyError> {
        guarded(|| {
            let seed = self.seed(passphrase)?;
            Ok(Needle::new(name, &seed)?.form("hash of the seed", &seed_hash(&seed)?)?)
        })
    }
}

impl KeyStore {
    /// What Argon2 begins with: the hash of the passphrase and the start of the first block. Guesses are
    /// held against these without any of the work that the key of the file takes.
    pub fn passphrase_hash_needle(
        &self,
        name: &str,
        passphrase: &SecretString,
    ) -> Result<Needle, KeyError> {
        let (parameters, salt) = self.kdf();
        guarded(|| {
            let [hash, block] = argon2_start(passphrase, salt, parameters)?;
            Ok(Needle::new(name, &hash)?.form("first block", &block)?)
        })
    }

    /// Everything secret that an open store holds: the key of its file, and words and keys of all
    /// entries.
    pub fn needles(&self) -> Result<Vec<Needle>, KeyError> {
        let mut needles = vec![guarded(|| Ok(Needle::new("key of the file", self.file_key())?))?];
        for entry in self.entries() {
            let id = entry.id();
            if let Some(words) = &entry.words {
                needles.extend(words.mnemonic.needles(&format!("{id}"))?);
            }
            for (index, key) in entry.keys.iter().enumerate() {
                needles.push(key.needle(&format!("{id}: key {}", index + 1))?);
            }
        }
        Ok(needles)
    }
}

/// The engine of SHA-512 after the first block of HMAC, which is its key with a pad.
fn hmac_engine(key: &[u8], pad: u8) -> sha512::HashEngine {
    let mut block = [pad; BLOCK];
    block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
    let mut engine = sha512::Hash::engine();
    engine.input(&block);
    engine
}

/// Runs on a secret stack.
fn seed_hash(seed: &SecretBytes) -> Result<SecretArray<64>, LockError> {
    seed.expose_secret(|seed| {
        let mut engine = hmac_engine(b"Bitcoin seed", 0x36);
        engine.input(seed);
        let hash = sha512::Hash::from_engine(engine).to_byte_array();
        SecretArray::from_fn_in_place(|copy| *copy = hash)
    })
}

/// Adds the states of HMAC-SHA512 after its key, of which it makes everything else, and the key itself as far
/// as HMAC hashes a long one first. Runs on a secret stack.
fn with_hmac_states(mut needle: Needle, key: SecretSlice<'_>) -> Result<Needle, KeyError> {
    let hashed = key.expose_secret(|key| {
        let hash = || sha512::Hash::hash(key).to_byte_array();
        (key.len() > BLOCK).then(|| SecretArray::<64>::from_fn_in_place(|copy| *copy = hash()))
    });
    let hashed = hashed.transpose()?;
    if let Some(hashed) = &hashed {
        needle = needle.form("hashed key of HMAC", hashed)?;
    }
    let key = hashed.as_ref().map_or(key, SecretSlice::from);
    for pad in [0x36, 0x5c] {
        let state = key.expose_secret(|key| {
            let state = hmac_engine(key, pad).midstate();
            SecretBytes::from_fn_in_place(state.len(), |copy| {
                let words = state.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word));
                for (place, word) in copy.as_chunks_mut().0.iter_mut().zip(words) {
                    *place = word.to_ne_bytes();
                }
            })
        })?;
        needle = needle.form("state of HMAC", &state)?;
    }
    Ok(needle)
}

/// Adds a scalar, its negative, and both in the form in which the library computes with them.
fn both_signs(mut needle: Needle, form: &str, key: SecretKey) -> Result<Needle, KeyError> {
    for key in [key, key.negate()] {
        let number = SecretArray::<32>::from_fn_in_place(|copy| *copy = key.secret_bytes())?;
        needle = needle.form(form, &number)?;
        let reversed = SecretArray::<32>::from_fn_in_place(|copy| {
            *copy = key.secret_bytes();
            copy.reverse();
        })?;
        needle = needle.form(form, &reversed)?;
    }
    Ok(needle)
}

/// A needle of a nonce; `r` is the x coordinate of its point.
fn nonce_needle(name: &str, nonce: SecretKey, r: &[u8; 32]) -> Result<Needle, KeyError> {
    if nonce.x_only_public_key(curve()).0.serialize() != *r {
        return Err(KeyError::BadSignature);
    }
    let number = SecretArray::<32>::from_fn_in_place(|copy| *copy = nonce.secret_bytes())?;
    let needle = both_signs(Needle::new(name, &number)?, "negated", nonce)?;
    both_signs(needle, "inverse", inverse(nonce).map_err(|_| KeyError::OutOfRange)?)
}

fn inverse(number: SecretKey) -> Result<SecretKey, bitcoin::secp256k1::Error> {
    let number = Scalar::from(number);
    let mut power = SecretKey::from_slice(&ONE)?;
    for bit in 0..256 {
        power = power.mul_tweak(&Scalar::from(power))?;
        if INVERSION[bit / 8] >> (7 - bit % 8) & 1 == 1 {
            power = power.mul_tweak(&number)?;
        }
    }
    Ok(power)
}

/// The challenge hash of BIP340, which contains no secret.
fn challenge(r: &[u8; 32], public: &XOnlyPublicKey, digest: &[u8; 32]) -> [u8; 32] {
    let tag = sha256::Hash::hash(b"BIP0340/challenge").to_byte_array();
    let mut engine = sha256::Hash::engine();
    for part in [&tag, &tag, r, &public.serialize(), digest] {
        engine.input(part);
    }
    sha256::Hash::from_engine(engine).to_byte_array()
}

fn halves(signature: &[u8; 64]) -> ([u8; 32], [u8; 32]) {
    let (r, s) = signature.split_at(32);
    (r.try_into().expect("32 of 64"), s.try_into().expect("32 of 64"))
}

#[cfg(test)]
mod tests;
