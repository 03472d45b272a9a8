//! The scripts of a descriptor.

use godwit_primitives::sha256::{Sha256, sha256};
use secp256k1::{Scalar, Secp256k1, XOnlyPublicKey};

use super::super::address::{Address, hash160};
use super::super::opcodes::{CHECKMULTISIG, CHECKSIG, CHECKSIGADD, ONE};
use super::key::{Key, NeedsPrivateKey};
use super::{Descriptor, Tree};

const NUMEQUAL: u8 = 0x9c;
/// Leaves are scripts of BIP342.
const LEAF_VERSION: u8 = 0xc0;

pub(super) type Expanded<T> = Result<T, NeedsPrivateKey>;

/// A number as a script pushes it; there are at most 999 keys.
fn push_number(number: usize) -> Vec<u8> {
    match number {
        1..=16 => vec![ONE + number as u8 - 1],
        ..=127 => vec![1, number as u8],
        _ => vec![2, number as u8, (number >> 8) as u8],
    }
}

fn push(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8], bytes].concat()
}

fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256(tag.as_bytes());
    let mut hash = Sha256::new();
    hash.update(&tag);
    hash.update(&tag);
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize()
}

fn witness(version: u8, program: &[u8]) -> Vec<u8> {
    Address::Witness { version, program: program.to_vec() }.script()
}

/// The output key of BIP341.
fn tweaked(internal: &XOnlyPublicKey, root: Option<[u8; 32]>) -> Expanded<XOnlyPublicKey> {
    let root = root.as_ref().map_or(&[][..], |root| root);
    let tweak = tagged("TapTweak", &[&internal.serialize(), root]);
    // Nobody can find a key for which there is no tweak.
    let tweak = Scalar::from_be_bytes(tweak).map_err(|_| NeedsPrivateKey)?;
    let added = internal.add_tweak(&Secp256k1::verification_only(), &tweak);
    added.map(|(key, _)| key).map_err(|_| NeedsPrivateKey)
}

/// The hash of a script of a taproot output.
pub(super) fn leaf_hash(script: &[u8]) -> [u8; 32] {
    let mut length: godwit_stream::DataStream = godwit_stream::DataStream::new();
    length.write_compact_size(script.len() as u64);
    tagged("TapLeaf", &[&[LEAF_VERSION], length.as_slice(), script])
}

/// The hash of two branches.
pub(super) fn branch_hash(left: [u8; 32], right: [u8; 32]) -> [u8; 32] {
    tagged("TapBranch", &[&left.min(right), &left.max(right)])
}

/// One of the paths, and a number.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) path: usize,
    pub(super) number: u32,
}

impl At {
    pub(super) fn bytes(self, key: &Key) -> Expanded<Vec<u8>> {
        key.bytes(self.path, self.number)
    }

    pub(super) fn x_only(self, key: &Key) -> Expanded<XOnlyPublicKey> {
        key.derive(self.path, self.number).map(|key| key.x_only_public_key().0)
    }

    /// The script of a leaf.
    pub(super) fn leaf(self, leaf: &Descriptor) -> Expanded<Vec<u8>> {
        let (needed, keys, sorted) = match leaf {
            Descriptor::Multisig { needed, keys, sorted } => (Some(*needed), &keys[..], *sorted),
            Descriptor::PublicKey(key) => (None, std::slice::from_ref(key), false),
            _ => unreachable!("nothing else is a leaf"),
        };
        let keys = keys.iter().map(|key| Ok(self.x_only(key)?.serialize()));
        let mut keys = keys.collect::<Expanded<Vec<_>>>()?;
        if sorted {
            keys.sort_unstable();
        }
        let mut script = Vec::new();
        for (n, key) in keys.iter().enumerate() {
            script.extend(push(key));
            script.push(if n == 0 { CHECKSIG } else { CHECKSIGADD });
        }
        if let Some(needed) = needed {
            script.extend(push_number(needed));
            script.push(NUMEQUAL);
        }
        Ok(script)
    }

    fn root(self, tree: &Tree) -> Expanded<[u8; 32]> {
        Ok(match tree {
            Tree::Leaf(leaf) => leaf_hash(&self.leaf(leaf)?),
            Tree::Branch(left, right) => branch_hash(self.root(left)?, self.root(right)?),
        })
    }

    pub(super) fn scripts(self, descriptor: &Descriptor) -> Expanded<Vec<Vec<u8>>> {
        let of_key_hash =
            |key: &Key| Ok(Address::PublicKeyHash(hash160(&self.bytes(key)?)).script());
        let of_witness_key = |key: &Key| Ok(witness(0, &hash160(&self.bytes(key)?)));
        let of_key = |key: &Key| Ok([&push(&self.bytes(key)?)[..], &[CHECKSIG]].concat());
        let of_script = |script: &[u8]| Address::ScriptHash(hash160(script)).script();
        Ok(vec![match descriptor {
            Descriptor::PublicKey(key) => of_key(key)?,
            Descriptor::PublicKeyHash(key) => of_key_hash(key)?,
            Descriptor::WitnessKeyHash(key) => of_witness_key(key)?,
            Descriptor::Combo(key) => {
                let mut scripts = vec![of_key(key)?, of_key_hash(key)?];
                if key.is_compressed() {
                    let of_witness = of_witness_key(key)?;
                    let wrapped = of_script(&of_witness);
                    scripts.extend([of_witness, wrapped]);
                }
                return Ok(scripts);
            }
            Descriptor::Multisig { needed, keys, sorted } => {
                let keys = keys.iter().map(|key| self.bytes(key));
                let mut keys = keys.collect::<Expanded<Vec<_>>>()?;
                if *sorted {
                    keys.sort_unstable();
                }
                let mut script = push_number(*needed);
                keys.iter().for_each(|key| script.extend(push(key)));
                script.extend(push_number(keys.len()));
                script.push(CHECKMULTISIG);
                script
            }
            Descriptor::ScriptHash(inner) => of_script(&self.scripts(inner)?[0]),
            Descriptor::WitnessScriptHash(inner) => witness(0, &sha256(&self.scripts(inner)?[0])),
            Descriptor::Taproot { internal, tree } => {
                let root = tree.as_ref().map(|tree| self.root(tree)).transpose()?;
                witness(1, &tweaked(&self.x_only(internal)?, root)?.serialize())
            }
            Descriptor::RawTaproot(key) => witness(1, &self.x_only(key)?.serialize()),
            Descriptor::Unused(key) => {
                // As in Core, there has to be a key.
                self.bytes(key)?;
                return Ok(Vec::new());
            }
            Descriptor::Address(address) => address.script(),
            Descriptor::Raw(script) => script.clone(),
        }])
    }
}

impl Descriptor {
    /// The scripts of this number: one, or for `combo` up to four, and none for `unused`.
    ///
    /// # Errors
    ///
    /// Only the owner of the private key can derive them.
    pub(crate) fn scripts(&self, path: usize, number: u32) -> Expanded<Vec<Vec<u8>>> {
        At { path, number }.scripts(self)
    }
}
