//! Descriptors of single scripts: what can be said of a script by itself, and the forms that name one.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use godwit_primitives::Network;
use secp256k1::XOnlyPublicKey;

use super::address::{self, Address};
use super::kind::ScriptKind;

const INPUT: &str = "0123456789()[],'/*abcdefgh@:$%{}IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";
const CHECKSUM: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// The eight characters behind `#` (BIP380); `None` for what can stand in no descriptor.
fn checksum(text: &str) -> Option<String> {
    const GENERATOR: [u64; 5] =
        [0xf5_dee5_1989, 0xa9_fdca_3312, 0x1b_ab10_e32d, 0x37_06b1_677a, 0x64_4d62_6ffd];
    let step = |sum: u64, value: u64| {
        let top = sum >> 35;
        let shifted = (sum & 0x7_ffff_ffff) << 5 ^ value;
        let applied = GENERATOR.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1);
        applied.fold(shifted, |sum, (_, generator)| sum ^ generator)
    };
    let (mut sum, mut class, mut count) = (1, 0, 0);
    for character in text.chars() {
        let at = INPUT.find(character)? as u64;
        sum = step(sum, at & 31);
        (class, count) = (class * 3 + (at >> 5), count + 1);
        if count == 3 {
            sum = step(sum, class);
            (class, count) = (0, 0);
        }
    }
    if count > 0 {
        sum = step(sum, class);
    }
    sum = (0..8).fold(sum, |sum, _| step(sum, 0)) ^ 1;
    Some((0..8).map(|n| char::from(CHECKSUM[(sum >> (5 * (7 - n)) & 31) as usize])).collect())
}

/// The descriptor of a script of which nothing else is known (Core `InferDescriptor`).
pub(super) fn infer(script: &[u8], kind: &ScriptKind<'_>, network: Network) -> String {
    // A hybrid key can stand in no descriptor.
    let usable = |key: &&[u8]| !matches!(key[0], 6 | 7);
    let text = match kind {
        ScriptKind::PublicKey(key) if usable(key) => format!("pk({})", HEXLOWER.encode(key)),
        ScriptKind::Multisig { needed, keys } if keys.iter().all(usable) => {
            let keys: Vec<String> = keys.iter().map(|key| HEXLOWER.encode(key)).collect();
            format!("multi({needed},{})", keys.join(","))
        }
        ScriptKind::Witness { version: 1, program }
            if program.len() == 32 && XOnlyPublicKey::from_slice(program).is_ok() =>
        {
            format!("rawtr({})", HEXLOWER.encode(program))
        }
        kind => match address::of_script(kind) {
            Some(address) => format!("addr({})", address.encode(network)),
            None => format!("raw({})", HEXLOWER.encode(script)),
        },
    };
    let checksum = checksum(&text).unwrap_or_default();
    format!("{text}#{checksum}")
}

/// The script of `addr(...)` or `raw(...)`, with or without checksum.
///
/// # Errors
///
/// What is wrong.
pub(crate) fn script_of(text: &str, network: Network) -> Result<Vec<u8>, String> {
    let (body, given) = text.split_once('#').map_or((text, None), |(body, sum)| (body, Some(sum)));
    if let Some(given) = given {
        if given.len() != 8 {
            return Err(format!("Expected 8 character checksum, not {} characters", given.len()));
        }
        let right = checksum(body).ok_or("Invalid characters in payload")?;
        if given != right {
            return Err(format!(
                "Provided checksum '{given}' does not match computed checksum '{right}'"
            ));
        }
    }
    let inside = |name: &str| body.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    if let Some(address) = inside("addr") {
        return Address::parse(address, network)
            .map(|address| address.script())
            .map_err(|_| "Address is not valid".to_owned());
    }
    if let Some(hex) = inside("raw") {
        return HEXLOWER_PERMISSIVE
            .decode(hex.as_bytes())
            .map_err(|_| "Raw script is not hex".to_owned());
    }
    Err(format!("'{body}' is not a valid descriptor function"))
}
