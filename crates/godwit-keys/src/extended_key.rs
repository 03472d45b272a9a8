//! Keys that have children: BIP32.

use std::fmt;

use bitcoin::NetworkKind;
use bitcoin::bip32::{ChainCode, ChildNumber, Fingerprint, KeySource, Xpub};
use bitcoin::secp256k1::{PublicKey, Scalar, SecretKey};
use godwit_secret::{
    Declassified, LockError, Releasable, SecretArray, SecretBytes, SecretSlice, SecretString,
    between_steps,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha512};

use crate::base58;
use crate::descriptors::key_expression::parse_origin;
use crate::error::{KeyError, TextError};
use crate::guarded::{curve, guarded};
use crate::mnemonic::Mnemonic;
use crate::private_key::PrivateKey;

/// First bytes of `xprv` and `tprv`.
const MAIN: [u8; 4] = [0x04, 0x88, 0xad, 0xe4];
const TEST: [u8; 4] = [0x04, 0x35, 0x83, 0x94];

/// The first bytes of an extended private key of a network.
pub(crate) fn version_bytes(network: NetworkKind) -> &'static [u8; 4] {
    match network {
        NetworkKind::Main => &MAIN,
        NetworkKind::Test => &TEST,
    }
}

/// A private key with the chain code that its children come from, both in locked memory.
pub struct ExtendedPrivateKey {
    key: PrivateKey,
    chain_code: SecretArray<32>,
    depth: u8,
    parent: Fingerprint,
    child_number: ChildNumber,
    network: NetworkKind,
}

impl ExtendedPrivateKey {
    /// Version, depth, fingerprint, child number, chain code, zero, key.
    pub(crate) const SIZE: usize = 4 + 1 + 4 + 4 + 32 + 1 + 32;

    /// The root of the tree that `seed` stands for; of 16 to 64 bytes, says BIP32, but this takes any.
    pub fn from_seed(seed: &SecretBytes, network: NetworkKind) -> Result<Self, KeyError> {
        guarded(|| {
            seed.expose_secret(|seed| {
                let hash = hmac_sha512(b"Bitcoin seed", &[seed]);
                between_steps("the root's HMAC is computed");
                let (key, chain_code) = halves(&hash);
                Ok(Self {
                    key: secret_key(key).ok_or(KeyError::NoSuchChild).and_then(into_private)?,
                    chain_code: SecretArray::from_fn_in_place(|code| *code = *chain_code)?,
                    depth: 0,
                    parent: Fingerprint::default(),
                    child_number: ChildNumber::Normal { index: 0 },
                    network,
                })
            })
        })
    }

    /// The root of the tree that words and `passphrase`, which may be empty, stand for (BIP39).
    pub fn from_mnemonic(
        mnemonic: &Mnemonic,
        passphrase: &SecretString,
        network: NetworkKind,
    ) -> Result<Self, KeyError> {
        Self::from_seed(&mnemonic.seed(passphrase)?, network)
    }

    /// What an `xprv` or `tprv` says.
    ///
    /// # Errors
    ///
    /// When `text` is not exactly that (white space around it is an error too), as BIP32's test vector 5.
    pub fn parse(text: SecretSlice<'_>) -> Result<Self, KeyError> {
        guarded(|| base58::decode_check(text)?.expose_secret(Self::decode))
    }

    /// The same behind an origin, if there is one: `[d34db33f/84h/0h/0h]xprv…`.
    ///
    /// # Errors
    ///
    /// Also when the key is none that the path can lead to.
    pub fn parse_with_origin(text: SecretSlice<'_>) -> Result<(Self, Option<KeySource>), KeyError> {
        // Only what is an origin is public: what else stands between brackets may be a secret, and is not
        // copied.
        let origin = text.expose_secret(|text| match text.first() {
            Some(b'[') => {
                let end = text.iter().position(|byte| *byte == b']').ok_or(TextError::Origin)?;
                let origin = parse_origin(text, 1..end).ok_or(TextError::Origin)?;
                Ok(Some(Declassified((origin.to_source(), end + 1))))
            }
            _ => Ok::<_, TextError>(None),
        })?;
        let Some(Declassified(((fingerprint, path), from))) = origin else {
            return Ok((Self::parse(text)?, None));
        };
        let key = Self::parse(text.get(from..text.len()).ok_or(TextError::Origin)?)?;
        let is_its = match path.as_ref() {
            [] => key.depth == 0 && key.fingerprint()? == fingerprint,
            [.., last] => usize::from(key.depth) == path.len() && key.child_number == *last,
        };
        let is_its = is_its && (path.len() != 1 || key.parent == fingerprint);
        if !is_its {
            return Err(TextError::Origin.into());
        }
        Ok((key, (!path.is_empty()).then_some((fingerprint, path))))
    }

    /// What [`to_bytes`](Self::to_bytes) gives. Runs on a secret stack.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, KeyError> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| TextError::Length)?;
        let network = match bytes[..4].try_into() {
            Ok(MAIN) => NetworkKind::Main,
            Ok(TEST) => NetworkKind::Test,
            _ => return Err(TextError::Version.into()),
        };
        let depth = bytes[4];
        let parent = Fingerprint::from([bytes[5], bytes[6], bytes[7], bytes[8]]);
        let number = u32::from_be_bytes([bytes[9], bytes[10], bytes[11], bytes[12]]);
        if bytes[45] != 0 {
            return Err(TextError::KeyPrefix.into());
        }
        if depth == 0 && (parent != Fingerprint::default() || number != 0) {
            return Err(TextError::Root.into());
        }
        let secret = |from: usize| {
            SecretArray::from_fn_in_place(|copy| copy.copy_from_slice(&bytes[from..from + 32]))
        };
        Ok(Self {
            key: PrivateKey::from_secret(secret(46)?)?,
            chain_code: secret(13)?,
            depth,
            parent,
            child_number: ChildNumber::from(number),
            network,
        })
    }

    /// The key that `path` leads to; a copy of this one for no path.
    pub fn derive(&self, path: &[ChildNumber]) -> Result<Self, KeyError> {
        guarded(|| {
            let mut key = self.try_clone()?;
            for step in path {
                key = key.child(*step)?;
            }
            Ok(key)
        })
    }

    fn child(&self, number: ChildNumber) -> Result<Self, KeyError> {
        let depth = self.depth.checked_add(1).ok_or(KeyError::TooDeep)?;
        self.key.use_key(|key| {
            let public = key.public_key(curve());
            let index = u32::from(number).to_be_bytes();
            self.chain_code.expose_secret(|code| {
                let hash = match number.is_hardened() {
                    true => hmac_sha512(code, &[&[0], &key.secret_bytes(), &index]),
                    false => hmac_sha512(code, &[&public.serialize(), &index]),
                };
                between_steps("a child's HMAC is computed");
                let (tweak, chain_code) = halves(&hash);
                let tweak = Scalar::from_be_bytes(*tweak).map_err(|_| KeyError::NoSuchChild)?;
                let child = key.add_tweak(&tweak).map_err(|_| KeyError::NoSuchChild)?;
                Ok(Self {
                    key: into_private(child)?,
                    chain_code: SecretArray::from_fn_in_place(|code| *code = *chain_code)?,
                    depth,
                    parent: self.xpub_of(public).fingerprint(),
                    child_number: number,
                    network: self.network,
                })
            })
        })
    }

    pub fn private_key(&self) -> Result<PrivateKey, KeyError> {
        Ok(self.key.try_clone()?)
    }

    /// The public half, which shows the chain code and with it all public keys below.
    pub fn xpub(&self) -> Result<Xpub, KeyError> {
        let mut xpub = self.xpub_of(self.key.public_key()?);
        let chain_code = |code: &[u8; 32]| Declassified(ChainCode::from(*code));
        xpub.chain_code = self.chain_code.expose_secret(chain_code).0;
        Ok(xpub)
    }

    /// Without the chain code.
    fn xpub_of(&self, public_key: PublicKey) -> Xpub {
        Xpub {
            network: self.network,
            depth: self.depth,
            parent_fingerprint: self.parent,
            child_number: self.child_number,
            public_key,
            chain_code: ChainCode::from([0; 32]),
        }
    }

    /// What tells it from other keys. It shows no chain code: that of a root is in no descriptor.
    pub(crate) fn identity(&self) -> Result<String, KeyError> {
        let public = self.xpub_of(self.key.public_key()?);
        let hash = guarded(|| {
            Ok(self.chain_code.expose_secret(|code| {
                let hash = <[u8; 64]>::from(Sha512::digest(code));
                Declassified(*hash.first_chunk::<8>().expect("eight of 64"))
            }))
        })?;
        Ok(format!("{public} {:02x?}", hash.0))
    }

    /// The first four bytes of the hash of the public key.
    pub fn fingerprint(&self) -> Result<Fingerprint, KeyError> {
        Ok(self.xpub_of(self.key.public_key()?).fingerprint())
    }

    #[cfg(any(test, feature = "residue"))]
    pub(crate) fn chain_code(&self) -> &SecretArray<32> {
        &self.chain_code
    }

    /// How many steps lie between the root and this key.
    pub fn depth(&self) -> u8 {
        self.depth
    }

    /// The network that its text is for.
    pub fn network(&self) -> NetworkKind {
        self.network
    }

    /// A second key of the same content.
    pub fn try_clone(&self) -> Result<Self, LockError> {
        Ok(Self {
            key: self.key.try_clone()?,
            chain_code: SecretArray::copy_of(&self.chain_code)?,
            ..*self
        })
    }

    /// The bytes that [`parse`](Self::parse) reads, without checksum.
    pub(crate) fn to_bytes(&self) -> Result<SecretBytes, KeyError> {
        let mut bytes = SecretBytes::with_capacity(Self::SIZE)?;
        bytes.extend_from_slice(version_bytes(self.network))?;
        bytes.push(self.depth)?;
        bytes.extend_from_slice(self.parent.as_bytes())?;
        bytes.extend_from_slice(&u32::from(self.child_number).to_be_bytes())?;
        bytes.extend_from_secret(&self.chain_code)?;
        bytes.push(0)?;
        bytes.extend_from_secret(self.key.secret())?;
        Ok(bytes)
    }

    /// Its text: `xprv` or `tprv`.
    pub(crate) fn to_base58(&self) -> Result<SecretString, KeyError> {
        base58::encode_check(SecretSlice::from(&self.to_bytes()?))
    }
}

impl Releasable for ExtendedPrivateKey {}

impl fmt::Debug for ExtendedPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExtendedPrivateKey([redacted])")
    }
}

fn hmac_sha512(key: &[u8], parts: &[&[u8]]) -> [u8; 64] {
    let mut hmac = Hmac::<Sha512>::new_from_slice(key).expect("a key of any length will do");
    for part in parts {
        hmac.update(part);
    }
    hmac.finalize().into_bytes().into()
}

fn halves(hash: &[u8; 64]) -> (&[u8; 32], &[u8; 32]) {
    let (left, right) = hash.split_at(32);
    (left.try_into().expect("32 of 64"), right.try_into().expect("32 of 64"))
}

fn secret_key(number: &[u8; 32]) -> Option<SecretKey> {
    SecretKey::from_slice(number).ok()
}

fn into_private(key: SecretKey) -> Result<PrivateKey, KeyError> {
    PrivateKey::from_secret(SecretArray::from_fn_in_place(|copy| *copy = key.secret_bytes())?)
}

#[cfg(test)]
mod tests;
