//! Converts addresses from text and from scripts, with Core's error messages.

use godwit_primitives::Network;
use godwit_primitives::sha256::sha256;
use ripemd::{Digest, Ripemd160};

use super::kind::ScriptKind;
use super::opcodes::{CHECKSIG, DUP, EQUAL, EQUALVERIFY, HASH160, ONE};
use super::{base58, bech32};

/// Where coins can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    PublicKeyHash([u8; 20]),
    ScriptHash([u8; 20]),
    Witness { version: u8, program: Vec<u8> },
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoAddress {
    /// In Core's words.
    pub(crate) why: String,
    /// The bytes of the text that are wrong, where that is known of single ones.
    pub(crate) at: Vec<usize>,
}

impl From<String> for NoAddress {
    fn from(why: String) -> Self {
        Self { why, at: Vec::new() }
    }
}

/// RIPEMD-160 of SHA-256.
pub(crate) fn hash160(data: &[u8]) -> [u8; 20] {
    Ripemd160::digest(sha256(data)).into()
}

/// The first characters of addresses with witness.
fn prefix(network: Network) -> &'static str {
    match network {
        Network::Main => "bc",
        Network::Testnet3 | Network::Testnet4 | Network::Signet => "tb",
        Network::Regtest => "bcrt",
    }
}

/// The first byte of the others: of a key's hash and of a script's.
fn versions(network: Network) -> [u8; 2] {
    if network == Network::Main { [0, 5] } else { [111, 196] }
}

/// The address of a locking script, if it has one.
pub(crate) fn of_script(kind: &ScriptKind<'_>) -> Option<Address> {
    Some(match kind {
        ScriptKind::PublicKeyHash(hash) => Address::PublicKeyHash(*hash),
        ScriptKind::ScriptHash(hash) => Address::ScriptHash(*hash),
        ScriptKind::Witness { version, program } => {
            Address::Witness { version: *version, program: program.to_vec() }
        }
        _ => return None,
    })
}

impl Address {
    pub(crate) fn encode(&self, network: Network) -> String {
        let [of_key, of_script] = versions(network);
        let versioned = |version: u8, hash: &[u8; 20]| {
            let mut bytes = vec![version];
            bytes.extend_from_slice(hash);
            base58::encode_check(&bytes)
        };
        match self {
            Self::PublicKeyHash(hash) => versioned(of_key, hash),
            Self::ScriptHash(hash) => versioned(of_script, hash),
            Self::Witness { version, program } => {
                bech32::encode(prefix(network), *version, program)
            }
        }
    }

    /// The script that locks coins sent there.
    pub(crate) fn script(&self) -> Vec<u8> {
        match self {
            Self::PublicKeyHash(hash) => {
                [&[DUP, HASH160, 20][..], hash, &[EQUALVERIFY, CHECKSIG]].concat()
            }
            Self::ScriptHash(hash) => [&[HASH160, 20][..], hash, &[EQUAL]].concat(),
            Self::Witness { version, program } => {
                let op = if *version == 0 { 0 } else { ONE + version - 1 };
                [&[op, program.len() as u8][..], program].concat()
            }
        }
    }

    /// Reads an address of a network.
    ///
    /// # Errors
    ///
    /// What Core says is wrong with it, and where (`DecodeDestination`).
    pub(crate) fn parse(text: &str, network: Network) -> Result<Self, NoAddress> {
        let start = text.get(..prefix(network).len()).unwrap_or_default();
        if start.eq_ignore_ascii_case(prefix(network)) {
            return parse_witness(text, prefix(network));
        }
        let Some(bytes) = base58::decode_check(text, 21) else {
            return Err(match base58::decode(text, 100) {
                None => "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                Some(_) => "Invalid checksum or length of Base58 address (P2PKH or P2SH)",
            }
            .to_owned()
            .into());
        };
        let [of_key, of_script] = versions(network);
        match bytes.split_first() {
            Some((version, hash)) if *version == of_key || *version == of_script => {
                let wrong = |_| "Invalid length for Base58 address (P2PKH or P2SH)".to_owned();
                let hash = hash.try_into().map_err(wrong)?;
                Ok(if *version == of_key {
                    Self::PublicKeyHash(hash)
                } else {
                    Self::ScriptHash(hash)
                })
            }
            _ => Err("Invalid or unsupported Base58-encoded address.".to_owned().into()),
        }
    }
}

fn parse_witness(text: &str, prefix: &str) -> Result<Address, NoAddress> {
    let decoded = bech32::decode(text)
        .map_err(|bech32::Malformed { why, at }| NoAddress { why: why.to_owned(), at })?;
    Ok(of_decoded(decoded, prefix)?)
}

/// The address with witness that a text with this content is.
fn of_decoded(decoded: bech32::Decoded, prefix: &str) -> Result<Address, String> {
    let Some((&version, groups)) = decoded.data.split_first() else {
        return Err("Empty Bech32 data section".to_owned());
    };
    if decoded.prefix != prefix {
        let got = decoded.prefix;
        return Err(format!(
            "Invalid or unsupported prefix for Segwit (Bech32) address (expected {prefix}, got {got})."
        ));
    }
    match (version, decoded.code) {
        (0, bech32::Code::Bech32m) => {
            return Err("Version 0 witness address must use Bech32 checksum".to_owned());
        }
        (1.., bech32::Code::Bech32) => {
            return Err("Version 1+ witness address must use Bech32m checksum".to_owned());
        }
        _ => {}
    }
    let Some(program) = bech32::bytes(groups) else {
        return Err("Invalid padding in Bech32 data section".to_owned());
    };
    let bytes = if program.len() == 1 { "byte" } else { "bytes" };
    if version == 0 && !matches!(program.len(), 20 | 32) {
        let size = program.len();
        return Err(format!("Invalid Bech32 v0 address program size ({size} {bytes}), per BIP141"));
    }
    if version > 16 {
        return Err("Invalid Bech32 address witness version".to_owned());
    }
    if !(2..=40).contains(&program.len()) {
        return Err(format!("Invalid Bech32 address program size ({} {bytes})", program.len()));
    }
    Ok(Address::Witness { version, program })
}
