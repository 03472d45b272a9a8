//! Keys of descriptors: plain ones, and extended ones (BIP32) with the keys derived from them.

use std::collections::BTreeSet;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use godwit_primitives::Network;
use hmac::{Hmac, KeyInit, Mac};
use secp256k1::{PublicKey, Scalar, Secp256k1};
use sha2::Sha512;

use super::super::address::hash160;
use super::super::base58;

/// From here on numbers of children are hardened.
const HARDENED: u32 = 1 << 31;
/// Bytes of an extended key: version, depth, fingerprint of the parent, number, chain code, key.
const EXTENDED: usize = 78;
/// Where its depth is, and behind that the fingerprint of the parent and the number.
const DEPTH: usize = 4;
const OF_PARENT: std::ops::Range<usize> = 5..13;

/// Where a key may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyContext {
    Top,
    ScriptHash,
    /// Behind a hash of a witness: keys are compressed.
    Witness,
    /// In a taproot output: the X coordinate alone will do.
    Taproot,
}

/// One key expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    origin: Option<Origin>,
    source: Source,
    /// Hardened steps are marked by an apostrophe instead of an `h`; the last of them decides.
    apostrophe: bool,
}

/// Where the key came from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    fingerprint: [u8; 4],
    path: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Plain {
        key: PublicKey,
        compressed: bool,
        /// Only the X coordinate was given.
        x_only: bool,
    },
    Extended {
        bytes: [u8; EXTENDED],
        key: PublicKey,
        /// One, or several of which each stands for a descriptor.
        paths: Vec<Vec<u32>>,
        wildcard: Wildcard,
    },
}

/// What the last step of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wildcard {
    None,
    Plain,
    Hardened,
}

/// A step is hardened: only the owner of the private key can take it. Or it leads below the last depth, where
/// nobody can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeedsPrivateKey;

fn version(network: Network) -> [u8; 4] {
    if network == Network::Main { [0x04, 0x88, 0xb2, 0x1e] } else { [0x04, 0x35, 0x87, 0xcf] }
}

/// Whether a text is a private key of any network.
fn is_private(text: &str) -> bool {
    let Some(bytes) = base58::decode_check(text, EXTENDED) else { return false };
    match bytes.len() {
        EXTENDED => matches!(bytes[..4], [0x04, 0x88, 0xad, 0xe4] | [0x04, 0x35, 0x83, 0x94]),
        33 | 34 => matches!(bytes[0], 128 | 239),
        _ => false,
    }
}

fn step(text: &str, apostrophe: &mut bool) -> Result<u32, String> {
    let (number, hardened) = match text.strip_suffix(['\'', 'h']) {
        Some(number) => {
            *apostrophe = text.ends_with('\'');
            (number, HARDENED)
        }
        None => (text, 0),
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    match number.parse::<u32>() {
        Ok(value) if digits && value < HARDENED => Ok(value | hardened),
        Ok(value) if digits => Err(format!("Key path value {value} is out of range")),
        _ => Err(format!("Key path value '{number}' is not a valid uint32")),
    }
}

/// Steps of a path at most: the depth of an extended key is one byte (BIP32).
const MAX_STEPS: usize = 255;

/// Paths that one key stands for at most.
const MAX_PATHS: usize = 1000;

/// Memory of a path beside its steps.
const PER_PATH: usize = 64;

/// The steps of a path, or of each of several.
fn steps(parts: &[&str], multipath: bool, apostrophe: &mut bool) -> Result<Vec<Vec<u32>>, String> {
    if parts.len() > MAX_STEPS {
        return Err(format!("Key path has more than {MAX_STEPS} steps"));
    }
    let mut paths = vec![Vec::new()];
    for part in parts {
        let several = part.strip_prefix('<').and_then(|part| part.strip_suffix('>'));
        let Some(several) = several else {
            let step = step(part, apostrophe)?;
            paths.iter_mut().for_each(|path| path.push(step));
            continue;
        };
        if !multipath {
            return Err(format!(
                "Key path value '{part}' specifies multipath in a section where multipath is not allowed"
            ));
        }
        if paths.len() > 1 {
            return Err("Multiple multipath key path specifiers found".to_owned());
        }
        let numbers: Vec<&str> = several.split(';').collect();
        if numbers.len() < 2 {
            return Err("Multipath key path specifiers must have at least two items".to_owned());
        }
        if numbers.len() > MAX_PATHS {
            return Err(format!(
                "Multipath key path specifiers must have at most {MAX_PATHS} items"
            ));
        }
        let before = std::mem::take(&mut paths).pop().unwrap_or_default();
        let mut seen = BTreeSet::new();
        for number in numbers {
            let step = step(number, apostrophe)?;
            if !seen.insert(step) {
                return Err(format!("Duplicated key path value {step} in multipath specifier"));
            }
            paths.push([&before[..], &[step]].concat());
        }
    }
    Ok(paths)
}

fn written(path: &[u32], apostrophe: bool) -> String {
    let mark = if apostrophe { '\'' } else { 'h' };
    let step = |step: &u32| match step & HARDENED {
        0 => format!("/{step}"),
        _ => format!("/{}{mark}", step & !HARDENED),
    };
    path.iter().map(step).collect()
}

fn is_hex(text: &str) -> bool {
    !text.is_empty()
        && text.len().is_multiple_of(2)
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Key {
    /// Reads a key with or without its origin (Core `ParsePubkey`).
    pub(super) fn parse(text: &str, context: KeyContext, network: Network) -> Result<Self, String> {
        if text.starts_with("musig(") {
            return Err("musig() is not read here".to_owned());
        }
        let parts: Vec<&str> = text.split(']').collect();
        let (origin, inner) = match parts[..] {
            [inner] => (None, inner),
            [origin, inner] => (Some(origin), inner),
            _ => return Err("Multiple ']' characters found for a single pubkey".to_owned()),
        };
        let mut apostrophe = false;
        let origin = origin.map(|text| Origin::parse(text, &mut apostrophe)).transpose()?;
        let source = Source::parse(inner, context, network, &mut apostrophe)?;
        Ok(Self { origin, source, apostrophe })
    }

    pub(super) fn is_range(&self) -> bool {
        matches!(
            self.source,
            Source::Extended { wildcard: Wildcard::Plain | Wildcard::Hardened, .. }
        )
    }

    pub(super) fn is_compressed(&self) -> bool {
        !matches!(self.source, Source::Plain { compressed: false, .. })
    }

    pub(super) fn paths(&self) -> usize {
        match &self.source {
            Source::Plain { .. } => 1,
            Source::Extended { paths, .. } => paths.len(),
        }
    }

    /// Steps of the longest of its paths.
    pub(super) fn steps(&self) -> usize {
        match &self.source {
            Source::Plain { .. } => 0,
            Source::Extended { paths, wildcard, .. } => {
                let longest = paths.iter().map(Vec::len).max().unwrap_or(0);
                longest + usize::from(*wildcard != Wildcard::None)
            }
        }
    }

    /// Bytes of memory that it takes, with the leaf or the list around it.
    pub(super) fn memory(&self) -> usize {
        let of_path = |path: &Vec<u32>| PER_PATH + size_of::<u32>() * path.capacity();
        let origin = self.origin.as_ref().map_or(0, |origin| of_path(&origin.path));
        let paths = match &self.source {
            Source::Plain { .. } => 0,
            Source::Extended { paths, .. } => paths.iter().map(of_path).sum(),
        };
        4 * size_of::<Self>() + origin + paths
    }

    pub(super) fn text(&self, path: usize, network: Network) -> String {
        let mut text = String::new();
        if let Some(origin) = &self.origin {
            let path = written(&origin.path, self.apostrophe);
            text = format!("[{}{path}]", HEXLOWER.encode(&origin.fingerprint));
        }
        match &self.source {
            Source::Plain { x_only: true, key, .. } => {
                text.push_str(&HEXLOWER.encode(&key.x_only_public_key().0.serialize()));
            }
            Source::Plain { .. } => text.push_str(&HEXLOWER.encode(&self.plain_bytes())),
            Source::Extended { bytes, paths, wildcard, .. } => {
                let mut bytes = *bytes;
                bytes[..4].copy_from_slice(&version(network));
                text.push_str(&base58::encode_check(&bytes));
                text.push_str(&written(&paths[path.min(paths.len() - 1)], self.apostrophe));
                text.push_str(match wildcard {
                    Wildcard::None => "",
                    Wildcard::Plain => "/*",
                    Wildcard::Hardened if self.apostrophe => "/*'",
                    Wildcard::Hardened => "/*h",
                });
            }
        }
        text
    }

    /// Where the key of this number came from, as `[fingerprint/path]`: without an origin, from itself.
    pub(super) fn origin_text(&self, path: usize, number: u32) -> String {
        let (root, steps) = match &self.source {
            Source::Plain { .. } => (self.plain_bytes(), Vec::new()),
            Source::Extended { bytes, paths, wildcard, .. } => {
                let mut steps = paths[path.min(paths.len() - 1)].clone();
                if *wildcard != Wildcard::None {
                    steps.push(number);
                }
                (bytes[45..].to_vec(), steps)
            }
        };
        let (fingerprint, above) = match &self.origin {
            Some(origin) => (origin.fingerprint, &origin.path[..]),
            None => {
                let [a, b, c, d, ..] = hash160(&root);
                ([a, b, c, d], &[][..])
            }
        };
        let path = [written(above, false), written(&steps, false)].concat();
        format!("[{}{path}]", HEXLOWER.encode(&fingerprint))
    }

    fn plain_bytes(&self) -> Vec<u8> {
        let (Source::Plain { key, .. } | Source::Extended { key, .. }) = &self.source;
        match self.is_compressed() {
            true => key.serialize().to_vec(),
            false => key.serialize_uncompressed().to_vec(),
        }
    }

    /// Whether the keys of all numbers, of all of its paths, can be derived.
    pub(super) fn is_derivable(&self) -> bool {
        let Source::Extended { bytes, paths, wildcard, .. } = &self.source else { return true };
        let is_public = |path: &Vec<u32>| path.iter().all(|step| *step < HARDENED);
        *wildcard != Wildcard::Hardened
            && paths.iter().all(is_public)
            && has_room_below(bytes, self.steps())
    }

    /// The key of this number, of one of the paths.
    pub(super) fn derive(&self, path: usize, number: u32) -> Result<PublicKey, NeedsPrivateKey> {
        let (bytes, key, paths, wildcard) = match &self.source {
            Source::Plain { key, .. } => return Ok(*key),
            Source::Extended { bytes, key, paths, wildcard, .. } => (bytes, key, paths, wildcard),
        };
        let last = match wildcard {
            Wildcard::None => None,
            Wildcard::Plain => Some(number),
            Wildcard::Hardened => return Err(NeedsPrivateKey),
        };
        let mut chain_code = [0; 32];
        chain_code.copy_from_slice(&bytes[13..45]);
        let steps = &paths[path.min(paths.len() - 1)];
        if !has_room_below(bytes, steps.len() + usize::from(last.is_some())) {
            return Err(NeedsPrivateKey);
        }
        steps.iter().copied().chain(last).try_fold((*key, chain_code), child).map(|(key, _)| key)
    }

    /// The bytes of that key in a script.
    pub(super) fn bytes(&self, path: usize, number: u32) -> Result<Vec<u8>, NeedsPrivateKey> {
        let key = self.derive(path, number)?;
        Ok(match self.is_compressed() {
            true => key.serialize().to_vec(),
            false => key.serialize_uncompressed().to_vec(),
        })
    }
}

/// Whether so many steps can be taken from an extended key: nothing is below the last depth (Core
/// `CExtPubKey::Derive`).
fn has_room_below(extended: &[u8; EXTENDED], steps: usize) -> bool {
    usize::from(extended[DEPTH]) + steps <= MAX_STEPS
}

/// Public derivation (BIP32).
fn child(
    (key, chain_code): (PublicKey, [u8; 32]),
    number: u32,
) -> Result<(PublicKey, [u8; 32]), NeedsPrivateKey> {
    if number >= HARDENED {
        return Err(NeedsPrivateKey);
    }
    let mut hmac = Hmac::<Sha512>::new_from_slice(&chain_code).expect("any length will do");
    hmac.update(&key.serialize());
    hmac.update(&number.to_be_bytes());
    let output: [u8; 64] = hmac.finalize().into_bytes().into();
    let (mut tweak, mut next) = ([0; 32], [0; 32]);
    tweak.copy_from_slice(&output[..32]);
    next.copy_from_slice(&output[32..]);
    // Of 2^127 numbers one has no child: nobody can find it.
    let tweak = Scalar::from_be_bytes(tweak).map_err(|_| NeedsPrivateKey)?;
    let key = key.add_exp_tweak(&Secp256k1::verification_only(), &tweak);
    Ok((key.map_err(|_| NeedsPrivateKey)?, next))
}

impl Origin {
    fn parse(text: &str, apostrophe: &mut bool) -> Result<Self, String> {
        let Some(inside) = text.strip_prefix('[') else {
            let got = text.chars().next().unwrap_or(']');
            return Err(format!(
                "Key origin start '[ character expected but not found, got '{got}' instead"
            ));
        };
        let parts: Vec<&str> = inside.split('/').collect();
        let digits = parts[0];
        if digits.len() != 8 {
            return Err(format!(
                "Fingerprint is not 4 bytes ({} characters instead of 8 characters)",
                digits.len()
            ));
        }
        if !is_hex(digits) {
            return Err(format!("Fingerprint '{digits}' is not hex"));
        }
        let bytes = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).unwrap_or_default();
        let fingerprint = bytes.try_into().expect("eight digits are four bytes");
        let paths = steps(&parts[1..], false, apostrophe)?;
        Ok(Self { fingerprint, path: paths.into_iter().next().unwrap_or_default() })
    }
}

impl Source {
    fn parse(
        text: &str,
        context: KeyContext,
        network: Network,
        apostrophe: &mut bool,
    ) -> Result<Self, String> {
        let mut parts: Vec<&str> = text.split('/').collect();
        let name = parts[0];
        if name.is_empty() {
            return Err("No key provided".to_owned());
        }
        if name.starts_with(char::is_whitespace) || name.ends_with(char::is_whitespace) {
            return Err(format!("Key '{name}' is invalid due to whitespace"));
        }
        if parts.len() == 1 && is_hex(name) {
            return Self::parse_plain(name, context);
        }
        if is_private(name) {
            return Err("Private keys are not read here".to_owned());
        }
        let invalid = || format!("key '{name}' is not valid");
        let bytes = base58::decode_check(name, EXTENDED).ok_or_else(invalid)?;
        let bytes: [u8; EXTENDED] = bytes.try_into().map_err(|_| invalid())?;
        let key = PublicKey::from_slice(&bytes[45..]).map_err(|_| invalid())?;
        // A key at the top has no parent (BIP32, Core `CExtPubKey::Decode`).
        let is_placed = bytes[DEPTH] > 0 || bytes[OF_PARENT] == [0; 8];
        if bytes[..4] != version(network) || !is_placed {
            return Err(invalid());
        }
        let wildcard = match parts.last() {
            Some(&"*") => Wildcard::Plain,
            Some(&("*'" | "*h")) => Wildcard::Hardened,
            _ => Wildcard::None,
        };
        if wildcard != Wildcard::None {
            parts.pop();
        }
        if wildcard == Wildcard::Hardened {
            *apostrophe = text.ends_with('\'');
        }
        let paths = steps(&parts[1..], true, apostrophe)?;
        Ok(Self::Extended { bytes, key, paths, wildcard })
    }

    fn parse_plain(text: &str, context: KeyContext) -> Result<Self, String> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).unwrap_or_default();
        if bytes.len() == 65 && matches!(bytes[0], 6 | 7) {
            return Err("Hybrid public keys are not allowed".to_owned());
        }
        if let (33 | 65, Ok(key)) = (bytes.len(), PublicKey::from_slice(&bytes)) {
            let compressed = bytes.len() == 33;
            if !compressed && !matches!(context, KeyContext::Top | KeyContext::ScriptHash) {
                return Err("Uncompressed keys are not allowed".to_owned());
            }
            return Ok(Self::Plain { key, compressed, x_only: false });
        }
        if bytes.len() == 32 && context == KeyContext::Taproot {
            let full = [&[2], &bytes[..]].concat();
            if let Ok(key) = PublicKey::from_slice(&full) {
                return Ok(Self::Plain { key, compressed: true, x_only: true });
            }
        }
        Err(format!("Pubkey '{text}' is invalid"))
    }
}
