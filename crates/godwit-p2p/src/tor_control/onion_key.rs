//! The private key of an onion service, as Tor writes it.

use std::error::Error;
use std::fmt;

use godwit_secret::{Declassified, Releasable, SecretBytes};

/// Most bytes of a key's text; Tor's has 99.
pub const MAX_ONION_KEY: usize = 200;
/// How the text begins: the kind of the key.
const KIND: &[u8] = b"ED25519-V3:";

/// The text of a key, which can be part of a command: it has no space and no end of a line.
#[derive(Debug)]
pub struct OnionKey(SecretBytes);

impl Releasable for OnionKey {}

/// The bytes are no key of an onion service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOnionKey;

impl fmt::Display for BadOnionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is no key of an onion service")
    }
}

impl Error for BadOnionKey {}

impl OnionKey {
    /// Of a reply, or of the file in which it was kept; an end of a line is cut off.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub fn parse(mut text: SecretBytes) -> Result<Self, BadOnionKey> {
        let length = text.expose_secret(|text| {
            let key = text.trim_ascii_end();
            let length = key.len();
            let of_base64 =
                |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
            let encoded = key.strip_prefix(KIND).filter(|_| length <= MAX_ONION_KEY);
            let is_key = encoded.is_some_and(|key| !key.is_empty() && key.iter().all(of_base64));
            is_key.then_some(Declassified(length))
        });
        text.truncate(length.ok_or(BadOnionKey)?.0);
        Ok(Self(text))
    }

    /// The text, without an end of a line.
    pub fn secret(&self) -> &SecretBytes {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> Result<usize, BadOnionKey> {
        let mut plain = text.to_vec();
        let secret = SecretBytes::from_plain_and_wipe(&mut plain).expect("memory");
        OnionKey::parse(secret).map(|key| key.secret().len())
    }

    #[test]
    fn a_key_is_of_one_kind_and_breaks_no_command() {
        let key = format!("ED25519-V3:{}+/==", "a".repeat(84));
        assert_eq!(parse(key.as_bytes()), Ok(99));
        assert_eq!(parse(format!("{key}\r\n").as_bytes()), Ok(99));
        let longest = |more: usize| format!("ED25519-V3:{}", "a".repeat(MAX_ONION_KEY - 11 + more));
        assert_eq!(parse(longest(0).as_bytes()), Ok(MAX_ONION_KEY));
        for text in [
            "",
            "\n",
            "ED25519-V3:",
            "ED25519-V3:\n",
            "RSA1024:abc",
            "NEW:ED25519-V3",
            "ED25519-V3:ab c",
            "ED25519-V3:abc\r\nSIGNAL HALT",
            "ED25519-V3:abc Flags=DiscardPK",
            "ED25519-V3:ab\u{e4}",
            &longest(1),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(BadOnionKey), "{text:?}");
        }
        assert_eq!(parse(b"ED25519-V3:ab\0c"), Err(BadOnionKey));
    }
}
