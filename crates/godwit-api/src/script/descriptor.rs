//! Descriptors (BIP380 to BIP386): the descriptor that a script has by itself, and the scripts of a given
//! descriptor. Miniscript and private keys are not supported.

mod expand;
mod key;
mod parse;
mod specific;
#[cfg(test)]
mod tests;

use data_encoding::HEXLOWER;
use godwit_primitives::Network;
use secp256k1::XOnlyPublicKey;

use super::address::{self, Address};
use super::kind::ScriptKind;
use key::Key;
pub(crate) use parse::DESCRIPTOR_GROWTH;

/// What scripts are made of. Each key may stand for several, one for each of its paths. `Unused` is a key
/// that no script is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    PublicKey(Key),
    PublicKeyHash(Key),
    WitnessKeyHash(Key),
    Combo(Key),
    Multisig { needed: usize, keys: Vec<Key>, sorted: bool },
    ScriptHash(Box<Descriptor>),
    WitnessScriptHash(Box<Descriptor>),
    Taproot { internal: Key, tree: Option<Tree> },
    RawTaproot(Key),
    Unused(Key),
    Address(Address),
    Raw(Vec<u8>),
}

/// The scripts of a taproot output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    /// `pk` or `multi_a`.
    Leaf(Box<Descriptor>),
    Branch(Box<Tree>, Box<Tree>),
}

impl Tree {
    fn leaves(&self) -> Vec<&Descriptor> {
        match self {
            Self::Leaf(leaf) => vec![leaf],
            Self::Branch(left, right) => [left.leaves(), right.leaves()].concat(),
        }
    }
}

impl Descriptor {
    fn keys(&self) -> Vec<&Key> {
        match self {
            Self::PublicKey(key)
            | Self::PublicKeyHash(key)
            | Self::WitnessKeyHash(key)
            | Self::Combo(key)
            | Self::RawTaproot(key)
            | Self::Unused(key) => vec![key],
            Self::Multisig { keys, .. } => keys.iter().collect(),
            Self::ScriptHash(inner) | Self::WitnessScriptHash(inner) => inner.keys(),
            Self::Taproot { internal, tree } => {
                let leaves = tree.iter().flat_map(Tree::leaves);
                std::iter::once(internal).chain(leaves.flat_map(Self::keys)).collect()
            }
            Self::Address(_) | Self::Raw(_) => Vec::new(),
        }
    }

    /// Whether it stands for many scripts, by number.
    pub(crate) fn is_range(&self) -> bool {
        self.keys().iter().any(|key| key.is_range())
    }

    /// Whether it says how the scripts are spent.
    pub(crate) fn is_solvable(&self) -> bool {
        !matches!(self, Self::Address(_) | Self::Raw(_))
    }

    /// How many descriptors it stands for: more than one with several paths (BIP389).
    pub(crate) fn paths(&self) -> usize {
        self.keys().iter().map(|key| key.paths()).max().unwrap_or(1)
    }

    /// Whether the scripts of all numbers, of all of its paths, can be derived without private keys.
    pub(crate) fn is_derivable(&self) -> bool {
        self.keys().iter().all(|key| key.is_derivable())
    }

    /// Steps that are derived for the scripts of one number, of one of its paths.
    pub(crate) fn steps(&self) -> usize {
        self.keys().iter().map(|key| key.steps()).sum()
    }

    /// Bytes of memory behind it.
    pub(crate) fn memory(&self) -> usize {
        let keys: usize = self.keys().iter().map(|key| key.memory()).sum();
        match self {
            Self::Raw(script) => keys + script.capacity(),
            _ => keys,
        }
    }

    /// The canonical text for one of its paths, with checksum.
    pub(crate) fn text(&self, path: usize, network: Network) -> String {
        with_checksum(&self.body(path, network, false))
    }

    fn body(&self, path: usize, network: Network, in_leaf: bool) -> String {
        let of_key = |name: &str, key: &Key| format!("{name}({})", key.text(path, network));
        match self {
            Self::PublicKey(key) => of_key("pk", key),
            Self::PublicKeyHash(key) => of_key("pkh", key),
            Self::WitnessKeyHash(key) => of_key("wpkh", key),
            Self::Combo(key) => of_key("combo", key),
            Self::RawTaproot(key) => of_key("rawtr", key),
            Self::Unused(key) => of_key("unused", key),
            Self::Multisig { needed, keys, sorted } => {
                let (sorted, leaf) =
                    (if *sorted { "sorted" } else { "" }, if in_leaf { "_a" } else { "" });
                let keys: Vec<String> = keys.iter().map(|key| key.text(path, network)).collect();
                format!("{sorted}multi{leaf}({needed},{})", keys.join(","))
            }
            Self::ScriptHash(inner) => format!("sh({})", inner.body(path, network, false)),
            Self::WitnessScriptHash(inner) => format!("wsh({})", inner.body(path, network, false)),
            Self::Taproot { internal, tree } => {
                let internal = internal.text(path, network);
                match tree {
                    None => format!("tr({internal})"),
                    Some(tree) => format!("tr({internal},{})", tree.text(path, network)),
                }
            }
            Self::Address(address) => format!("addr({})", address.encode(network)),
            Self::Raw(script) => format!("raw({})", HEXLOWER.encode(script)),
        }
    }
}

impl Tree {
    fn text(&self, path: usize, network: Network) -> String {
        match self {
            Self::Leaf(leaf) => leaf.body(path, network, true),
            Self::Branch(left, right) => {
                format!("{{{},{}}}", left.text(path, network), right.text(path, network))
            }
        }
    }
}

const INPUT: &str = "0123456789()[],'/*abcdefgh@:$%{}IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";
const CHECKSUM: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// The eight characters behind `#` (BIP380); `None` for what can stand in no descriptor.
pub(crate) fn checksum(text: &str) -> Option<String> {
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
        ScriptKind::Multisig { needed, keys } if keys.iter().all(usable) => multi(*needed, keys),
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
    with_checksum(&text)
}

fn multi(needed: u8, keys: &[&[u8]]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| HEXLOWER.encode(key)).collect();
    format!("multi({needed},{})", keys.join(","))
}

/// The descriptor of the witness program that stands for a script with several keys, all of which are short.
pub(crate) fn infer_wsh_multi(needed: u8, keys: &[&[u8]]) -> String {
    with_checksum(&format!("wsh({})", multi(needed, keys)))
}

fn with_checksum(body: &str) -> String {
    let checksum = checksum(body).unwrap_or_default();
    format!("{body}#{checksum}")
}
