//! Agreement on the keys of a connection.
//!
//! Source: BIP324 "Shared secret", "Keys and session ID derivation", Core `bip324.cpp`.

use std::fmt;
use std::sync::LazyLock;

use godwit_secret::{
    Declassified, LockError, Releasable, SecretArray, SecretBox, between_steps, cleanse,
};
use hkdf::Hkdf;
use secp256k1::ellswift::{ElligatorSwift, ElligatorSwiftParty};
use secp256k1::{Secp256k1, SecretKey, VerifyOnly};
use sha2::Sha256;

use super::cipher::{Key, LengthCipher, Opener, Sealer};
use super::mac::Mac;
use super::session::{Session, TERMINATOR_SIZE};
use super::stack::on_wiped_stack;

/// Length of an encoded public key, in bytes.
pub(crate) const PUBLIC_KEY_SIZE: usize = 64;

/// Longest garbage before it, in bytes.
pub const MAX_GARBAGE: usize = 4_095;

/// More stack than an agreement uses, in bytes.
pub(super) const HANDSHAKE_STACK: usize = 32 << 10;

const SALT: &[u8] = b"bitcoin_v2_shared_secret";

/// Computes public keys. It is not blinded, so it holds nothing secret: blinding protects a key that
/// is used again and again from an observer who measures that, and each of these keys is used once.
static CONTEXT: LazyLock<Secp256k1<VerifyOnly>> = LazyLock::new(Secp256k1::verification_only);

/// What one connection needs of the system's randomness.
#[derive(Debug)]
pub struct V2Secrets {
    /// The private key of this connection.
    pub key: SecretArray<32>,
    /// Chooses one of the encodings of the public key. It goes into what is sent; it is no secret.
    pub encoding: [u8; 32],
    /// Sent behind the key so that the other side's length tells nothing: at most [`MAX_GARBAGE`]
    /// bytes, in number and content random.
    pub garbage: Vec<u8>,
}

/// Why a connection cannot be encrypted.
#[derive(Debug)]
pub enum V2Error {
    /// There is no locked memory for its keys.
    Lock(LockError),
    /// The private key is not in the range of keys: one of 2¹²⁸ random ones.
    Key,
    /// The garbage is longer than [`MAX_GARBAGE`].
    Garbage,
}

impl fmt::Display for V2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Key => f.write_str("the private key is out of range"),
            Self::Garbage => f.write_str("the garbage is too long"),
        }
    }
}

impl std::error::Error for V2Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lock(error) => Some(error),
            Self::Key | Self::Garbage => None,
        }
    }
}

impl From<LockError> for V2Error {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// One side before it knows the other's key. All locked memory of the connection is taken here, so
/// that nothing is lacking later.
pub(crate) struct Handshake {
    key: SecretArray<32>,
    public: [u8; PUBLIC_KEY_SIZE],
    initiator: bool,
    magic: [u8; 4],
    keys: Keys,
}

/// Room for the keys of the connection.
struct Keys {
    send_length: Key,
    send_packet: Key,
    receive_length: Key,
    receive_packet: Key,
    mac: SecretBox<Mac>,
}

impl Releasable for Keys {}

impl Keys {
    fn zeroed() -> Result<Self, LockError> {
        Ok(Self {
            send_length: Key::zeroed()?,
            send_packet: Key::zeroed()?,
            receive_length: Key::zeroed()?,
            receive_packet: Key::zeroed()?,
            mac: SecretBox::new(Mac::idle())?,
        })
    }
}

impl Handshake {
    pub(crate) fn new(
        key: SecretArray<32>,
        encoding: [u8; 32],
        initiator: bool,
        magic: [u8; 4],
    ) -> Result<Self, V2Error> {
        let public = on_wiped_stack::<HANDSHAKE_STACK, _>(|| {
            key.expose_secret(|key| public_key(key, encoding).map(Declassified))
        });
        Self::with_public_key(key, public.ok_or(V2Error::Key)?.0, initiator, magic)
    }

    /// `public` must be an encoding of `key`'s public key.
    pub(super) fn with_public_key(
        key: SecretArray<32>,
        public: [u8; PUBLIC_KEY_SIZE],
        initiator: bool,
        magic: [u8; 4],
    ) -> Result<Self, V2Error> {
        Ok(Self { key, public, initiator, magic, keys: Keys::zeroed()? })
    }

    pub(crate) fn public_key(&self) -> &[u8; PUBLIC_KEY_SIZE] {
        &self.public
    }

    /// The other side's key is there: the keys of the connection. The private key is wiped.
    pub(crate) fn agree(self, theirs: &[u8; PUBLIC_KEY_SIZE]) -> Session {
        let session = on_wiped_stack::<HANDSHAKE_STACK, _>(|| self.derive(theirs));
        between_steps("a connection has its keys");
        session
    }

    pub(super) fn derive(self, theirs: &[u8; PUBLIC_KEY_SIZE]) -> Session {
        let Self { key, public, initiator, magic, keys } = self;
        key.expose_secret_into(keys, |key, keys| {
            let mut shared = shared_secret(key, public, *theirs, initiator);
            let hkdf = Hkdf::<Sha256>::new(Some(&[SALT, &magic].concat()), &shared);
            cleanse(&mut shared);
            session(&hkdf, keys, initiator)
        })
    }
}

/// The keys of a session, into the room for them.
fn session(hkdf: &Hkdf<Sha256>, keys: Keys, initiator: bool) -> Session {
    let expand = |label: &str, target: &mut [u8; 32]| {
        hkdf.expand(label.as_bytes(), target).expect("32 bytes are not too many");
    };
    let Keys { mut send_length, mut send_packet, mut receive_length, mut receive_packet, mac } =
        keys;
    let (ours, others) = match initiator {
        true => (["initiator_L", "initiator_P"], ["responder_L", "responder_P"]),
        false => (["responder_L", "responder_P"], ["initiator_L", "initiator_P"]),
    };
    send_length.expose_secret_mut(|key| expand(ours[0], key));
    send_packet.expose_secret_mut(|key| expand(ours[1], key));
    receive_length.expose_secret_mut(|key| expand(others[0], key));
    receive_packet.expose_secret_mut(|key| expand(others[1], key));
    let (mut terminators, mut session_id) = ([0; 32], [0; 32]);
    expand("garbage_terminators", &mut terminators);
    expand("session_id", &mut session_id);
    let (first, second) = terminators.split_at(TERMINATOR_SIZE);
    let (send, receive) = if initiator { (first, second) } else { (second, first) };
    Session {
        send_length: LengthCipher::new(send_length),
        send_packet: Sealer::new(send_packet),
        receive_length: LengthCipher::new(receive_length),
        receive_packet: Opener::new(receive_packet, mac),
        send_terminator: send.try_into().expect("half of the bytes"),
        receive_terminator: receive.try_into().expect("half of the bytes"),
        session_id,
    }
}

fn shared_secret(
    key: &[u8; 32],
    ours: [u8; PUBLIC_KEY_SIZE],
    theirs: [u8; PUBLIC_KEY_SIZE],
    initiator: bool,
) -> [u8; 32] {
    let mut key = SecretKey::from_slice(key).expect("in range: it has a public key");
    let ours = ElligatorSwift::from_array(ours);
    let theirs = ElligatorSwift::from_array(theirs);
    let (first, second, party) = match initiator {
        true => (ours, theirs, ElligatorSwiftParty::A),
        false => (theirs, ours, ElligatorSwiftParty::B),
    };
    let shared = ElligatorSwift::shared_secret(first, second, key, party, None);
    key.non_secure_erase();
    shared.to_secret_bytes()
}

/// `None` for a number that is no private key.
pub(super) fn public_key(key: &[u8; 32], encoding: [u8; 32]) -> Option<[u8; PUBLIC_KEY_SIZE]> {
    let mut key = SecretKey::from_slice(key).ok()?;
    let public = ElligatorSwift::from_seckey(&CONTEXT, key, Some(encoding)).to_array();
    key.non_secure_erase();
    Some(public)
}

#[cfg(test)]
mod tests;
