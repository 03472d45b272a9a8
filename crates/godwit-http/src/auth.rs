//! Authentication of clients: users and their passwords.
//!
//! Only hashes of passwords are kept. The hash of a received password is compared in constant time.

use std::fmt;
use std::io;

use data_encoding::{BASE64, HEXLOWER};
use godwit_secret::{Releasable, SecretArray, cleanse};
use hmac::{Hmac, KeyInit, Mac};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// A user as `-rpcauth` names it: `name:salt$hash`, where the hash is HMAC-SHA-256 of the password with the
/// salt as its key, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcAuth {
    user: String,
    salt: String,
    hash: String,
}

/// The text is not in the form that `-rpcauth` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcAuthError;

impl fmt::Display for RpcAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NAME:SALT$HASH")
    }
}

impl std::error::Error for RpcAuthError {}

impl RpcAuth {
    /// # Errors
    ///
    /// The text does not consist of one colon and one dollar sign behind it.
    pub fn parse(text: &str) -> Result<Self, RpcAuthError> {
        let parts: Vec<&str> = text.split(':').collect();
        let [user, rest] = parts[..] else { return Err(RpcAuthError) };
        let parts: Vec<&str> = rest.split('$').collect();
        let [salt, hash] = parts[..] else { return Err(RpcAuthError) };
        Ok(Self { user: user.to_owned(), salt: salt.to_owned(), hash: hash.to_owned() })
    }

    /// Makes a user from a known password: only its hash is kept, with a new random salt.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn of_password(user: &str, password: &str) -> io::Result<Self> {
        let mut salt = [0; 16];
        fill_random(&mut salt)?;
        let salt = HEXLOWER.encode(&salt);
        let hash = hash(&salt, password.as_bytes());
        Ok(Self { user: user.to_owned(), salt, hash })
    }

    fn allows(&self, user: &[u8], password: &[u8]) -> bool {
        bool::from(self.user.as_bytes().ct_eq(user))
            && bool::from(self.hash.as_bytes().ct_eq(hash(&self.salt, password).as_bytes()))
    }
}

fn hash(salt: &str, password: &[u8]) -> String {
    let key = salt.as_bytes();
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    hmac.update(password);
    HEXLOWER.encode(&hmac.finalize().into_bytes())
}

/// The users who may log in.
#[derive(Clone, Debug, Default)]
pub struct Credentials(pub Vec<RpcAuth>);

impl Credentials {
    /// The user whom an `Authorization` header names, if the password is right.
    pub fn user(&self, header: &[u8]) -> Option<String> {
        let encoded = header.strip_prefix(b"Basic ")?.trim_ascii();
        let mut pair = vec![0; BASE64.decode_len(encoded.len()).ok()?];
        let decoded = BASE64.decode_mut(encoded, &mut pair).ok();
        let user = decoded.and_then(|len| {
            let colon = pair[..len].iter().position(|byte| *byte == b':')?;
            let (user, password) = (&pair[..colon], &pair[colon + 1..len]);
            let allowed = self.0.iter().any(|known| known.allows(user, password));
            allowed.then(|| String::from_utf8_lossy(user).into_owned())
        });
        cleanse(&mut pair);
        user
    }
}

/// Length of a generated password: 32 random bytes in hexadecimal.
const PASSWORD_LEN: usize = 64;

/// Passes a new password to `with`. It lies in locked memory if the system provides some, and is wiped in any
/// case. Without locked memory the server still starts: the cookie file holds the password in plain text
/// anyway.
///
/// # Errors
///
/// The system gives no random bytes.
pub fn with_random_password<R: Releasable>(with: impl Fn(&str) -> R + Sync) -> io::Result<R> {
    let text =
        |hex: &[u8; PASSWORD_LEN]| with(str::from_utf8(hex).expect("hexadecimal digits are text"));
    match SecretArray::<PASSWORD_LEN>::zeroed() {
        Ok(mut hex) => {
            hex.expose_secret_mut(|hex| fill_with_password(hex).map_err(|error| error.kind()))?;
            Ok(hex.expose_secret(text))
        }
        Err(error) => {
            log::warn!("The RPC password is made in memory that is not locked: {error}");
            let mut hex = [0; PASSWORD_LEN];
            let made = fill_with_password(&mut hex).map(|()| text(&hex));
            cleanse(&mut hex);
            made
        }
    }
}

fn fill_with_password(hex: &mut [u8; PASSWORD_LEN]) -> io::Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // The bytes in the second half are replaced by their digits, starting from the first byte.
    let half = PASSWORD_LEN / 2;
    fill_random(&mut hex[half..])?;
    for n in 0..half {
        let byte = hex[half + n];
        hex[2 * n] = DIGITS[usize::from(byte >> 4)];
        hex[2 * n + 1] = DIGITS[usize::from(byte & 15)];
    }
    Ok(())
}

fn fill_random(mut target: &mut [u8]) -> io::Result<()> {
    while !target.is_empty() {
        match rustix::rand::getrandom(&mut *target, GetRandomFlags::empty()) {
            Ok(filled) => target = &mut target[filled..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use godwit_secret::Declassified;

    use super::*;

    /// From Core's `share/rpcauth`: user `rt`, password `cA773lm788buwYe4g4WT+05pKyNruVKjQ25x3n0DQcM=`.
    const RT: &str = "rt:93648e835a54c573682c2eb19f882535$7681e9c5b74bdd85e78166031d2058e1069b3ed7ed967c93fc63abba06f31144";

    fn header(pair: &str) -> Vec<u8> {
        format!("Basic {}", BASE64.encode(pair.as_bytes())).into_bytes()
    }

    #[test]
    fn a_user_of_cores_script_is_let_in() {
        let credentials = Credentials(vec![RpcAuth::parse(RT).unwrap()]);
        let right = "rt:cA773lm788buwYe4g4WT+05pKyNruVKjQ25x3n0DQcM=";
        assert_eq!(credentials.user(&header(right)).as_deref(), Some("rt"));
        for wrong in [
            header("rt:cA773lm788buwYe4g4WT+05pKyNruVKjQ25x3n0DQcM"),
            header("rtt:cA773lm788buwYe4g4WT+05pKyNruVKjQ25x3n0DQcM="),
            header("rt"),
            b"Basic !!!".to_vec(),
            b"Bearer abc".to_vec(),
            b"".to_vec(),
        ] {
            assert_eq!(credentials.user(&wrong), None);
        }
    }

    #[test]
    fn what_is_no_rpcauth_is_refused() {
        for text in ["", "a", "a:b", "a:b$c$d", "a:b:c$d"] {
            assert_eq!(RpcAuth::parse(text), Err(RpcAuthError), "{text}");
        }
    }

    #[test]
    fn random_passwords_are_digits_that_differ() {
        let copy = |password: &str| Declassified(password.to_owned());
        let password = || with_random_password(copy).expect("random bytes").0;
        let (a, b) = (password(), password());
        assert_ne!(a, b);
        for part in a.as_bytes().chunks(16).zip(b.as_bytes().chunks(16)) {
            assert_ne!(part.0, part.1);
        }
        let is_digit = |c: char| c.is_ascii_hexdigit() && !c.is_ascii_uppercase();
        assert!(a.len() == PASSWORD_LEN && a.chars().all(is_digit), "{a}");
    }

    #[test]
    fn passwords_may_have_colons() {
        let credentials =
            Credentials(vec![RpcAuth::of_password("u", "a:b").expect("random bytes")]);
        assert!(credentials.user(&header("u:a:b")).is_some());
        assert!(credentials.user(&header("u:a")).is_none());
    }
}
