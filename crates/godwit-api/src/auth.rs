//! Who may ask.
//!
//! Only hashes of passwords are kept. What arrives with a request is compared in constant time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use data_encoding::{BASE64, HEXLOWER};
use godwit_secret::{RandomError, SecretArray, SecretBytes, SecretString, cleanse};
use hmac::{Hmac, KeyInit, Mac};
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

/// The text is no `-rpcauth`.
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
    /// Not one colon with one dollar behind it.
    pub fn parse(text: &str) -> Result<Self, RpcAuthError> {
        let parts: Vec<&str> = text.split(':').collect();
        let [user, rest] = parts[..] else { return Err(RpcAuthError) };
        let parts: Vec<&str> = rest.split('$').collect();
        let [salt, hash] = parts[..] else { return Err(RpcAuthError) };
        Ok(Self { user: user.to_owned(), salt: salt.to_owned(), hash: hash.to_owned() })
    }

    /// Of a password that is known: only its hash is kept, with a salt of its own.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes or no locked memory.
    pub fn of_password(user: &str, password: &SecretString) -> Result<Self, RandomError> {
        let salt = SecretArray::<16>::random()?.expose_secret(|salt| HEXLOWER.encode(salt));
        let hash = password.expose_secret(|password| hash(&salt, password.as_bytes()));
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

/// All users.
#[derive(Clone, Debug, Default)]
pub struct Credentials(pub Vec<RpcAuth>);

impl Credentials {
    /// The user whom an `Authorization` header names, if the password is right.
    pub(crate) fn user(&self, header: &[u8]) -> Option<String> {
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

/// Which methods a user may call (`-rpcwhitelist`, `-rpcwhitelistdefault`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whitelist {
    users: BTreeMap<String, BTreeSet<String>>,
    /// Who is not in the list may call nothing.
    strict: bool,
}

impl Whitelist {
    /// Of the values of the options. A user who is named several times may call what all of them name.
    pub fn new(lines: &[String], strict: Option<bool>) -> Self {
        let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines {
            let (user, methods) =
                line.split_once(':').map_or((line.as_str(), None), |(u, m)| (u, Some(m)));
            let Some(methods) = methods else {
                users.entry(user.to_owned()).or_default();
                continue;
            };
            let mut named: BTreeSet<String> =
                methods.split([',', ' ']).map(str::to_owned).collect();
            if let Some(before) = users.get(user) {
                named.retain(|method| before.contains(method));
            }
            users.insert(user.to_owned(), named);
        }
        Self { strict: strict.unwrap_or(!lines.is_empty()), users }
    }

    /// Whether the user may call nothing at all.
    pub(crate) fn excludes(&self, user: &str) -> bool {
        self.strict && !self.users.contains_key(user)
    }

    pub(crate) fn allows(&self, user: &str, method: &str) -> bool {
        match self.users.get(user) {
            Some(methods) => methods.contains(method),
            None => !self.strict,
        }
    }

    /// Whether the user's methods are listed.
    pub(crate) fn lists(&self, user: &str) -> bool {
        self.users.contains_key(user)
    }
}

/// Random bytes in hexadecimal, in locked memory: a password that nobody chose.
pub(crate) fn random_password() -> Result<SecretString, RandomError> {
    let bytes = SecretArray::<32>::random()?;
    let mut hex = SecretBytes::with_capacity(64)?;
    bytes.expose_secret(|bytes| {
        bytes.iter().try_for_each(|byte| {
            let digits = b"0123456789abcdef";
            hex.extend_from_slice(&[digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]])
        })
    })?;
    Ok(SecretString::from_utf8(hex).expect("hexadecimal digits are text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of Core's `share/rpcauth`: user `rt`, password `cA773lm788buwYe4g4WT+05pKyNruVKjQ25x3n0DQcM=`.
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
    fn passwords_may_have_colons() {
        let password =
            SecretString::from_plain_and_wipe(&mut "a:b".to_owned()).expect("locked memory");
        let credentials =
            Credentials(vec![RpcAuth::of_password("u", &password).expect("random bytes")]);
        assert!(credentials.user(&header("u:a:b")).is_some());
        assert!(credentials.user(&header("u:a")).is_none());
    }

    #[test]
    fn lists_of_methods_narrow_each_other() {
        let list = |lines: &[&str], strict| {
            Whitelist::new(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), strict)
        };
        let none = list(&[], None);
        assert!(none.allows("u", "stop") && !none.excludes("u"));
        let one = list(&["u:a,b", "u:b,c", "v"], None);
        assert!(one.allows("u", "b") && !one.allows("u", "a") && !one.allows("v", "a"));
        assert!(one.excludes("w") && !one.allows("w", "a"));
        assert!(list(&["u:a"], Some(false)).allows("w", "x"));
        assert!(list(&[], Some(true)).excludes("u"));
    }
}
