//! The descriptor of one script of a given descriptor: with plain keys, each with its origin (Core
//! `InferDescriptor`, with what the given descriptor tells about its keys).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use godwit_primitives::Network;

use super::super::kind::kind;
use super::expand::{At, Expanded, branch_hash, leaf_hash};
use super::key::Key;
use super::{Descriptor, Tree, infer, with_checksum};

/// Where keys came from, by their bytes: of those that are named twice, the first decides.
struct Origins {
    at: At,
    texts: BTreeMap<Vec<u8>, String>,
}

/// The script of a leaf, and the hashes on its way up.
type Leaf = (Vec<u8>, Vec<[u8; 32]>);

/// A taproot tree as text, and what says which branch is written first.
struct Written {
    hash: [u8; 32],
    text: String,
    leaves: Vec<Leaf>,
}

/// Core comes to leaves by their scripts, and by the shorter way to the same one.
fn order(a: &Leaf, b: &Leaf) -> Ordering {
    (&a.0, a.1.len(), &a.1).cmp(&(&b.0, b.1.len(), &b.1))
}

impl Written {
    fn is_before(&self, other: &Self) -> bool {
        let first = |leaves: &[Leaf]| leaves.iter().min_by(|a, b| order(a, b)).cloned();
        let firsts = first(&self.leaves).zip(first(&other.leaves));
        firsts.is_some_and(|(first, second)| order(&first, &second) == Ordering::Less)
    }
}

impl Origins {
    fn of(descriptor: &Descriptor, at: At) -> Expanded<Self> {
        let mut texts = BTreeMap::new();
        for key in descriptor.keys() {
            let text = key.origin_text(at.path, at.number);
            texts.entry(at.bytes(key)?).or_insert(text);
        }
        Ok(Self { at, texts })
    }

    fn text(&self, bytes: &[u8]) -> String {
        let origin = self.texts.get(bytes).map_or("", String::as_str);
        format!("{origin}{}", HEXLOWER.encode(bytes))
    }

    fn key(&self, key: &Key) -> Expanded<String> {
        Ok(self.text(&self.at.bytes(key)?))
    }

    fn x_only(&self, key: &Key) -> Expanded<String> {
        let x_only = self.at.x_only(key)?.serialize();
        // Which of the two keys it was is not said.
        let known = [2, 3].iter().find_map(|parity| {
            let bytes = [&[*parity], &x_only[..]].concat();
            self.texts.get(&bytes)
        });
        Ok(format!("{}{}", known.map_or("", String::as_str), HEXLOWER.encode(&x_only)))
    }

    fn body(&self, descriptor: &Descriptor) -> Expanded<String> {
        Ok(match descriptor {
            Descriptor::PublicKey(key) => format!("pk({})", self.key(key)?),
            Descriptor::PublicKeyHash(key) => format!("pkh({})", self.key(key)?),
            Descriptor::WitnessKeyHash(key) => format!("wpkh({})", self.key(key)?),
            Descriptor::Multisig { needed, keys, sorted } => {
                let keys = keys.iter().map(|key| self.at.bytes(key));
                let mut keys = keys.collect::<Expanded<Vec<_>>>()?;
                if *sorted {
                    keys.sort_unstable();
                }
                let keys: Vec<String> = keys.iter().map(|key| self.text(key)).collect();
                format!("multi({needed},{})", keys.join(","))
            }
            Descriptor::ScriptHash(inner) => format!("sh({})", self.body(inner)?),
            Descriptor::WitnessScriptHash(inner) => format!("wsh({})", self.body(inner)?),
            Descriptor::RawTaproot(key) => format!("rawtr({})", self.x_only(key)?),
            Descriptor::Taproot { internal, tree } => {
                let internal = self.x_only(internal)?;
                match tree {
                    None => format!("tr({internal})"),
                    Some(tree) => format!("tr({internal},{})", self.tree(tree)?.text),
                }
            }
            Descriptor::Combo(_)
            | Descriptor::Unused(_)
            | Descriptor::Address(_)
            | Descriptor::Raw(_) => {
                unreachable!("these stand alone, and are told of before")
            }
        })
    }

    fn leaf(&self, leaf: &Descriptor) -> Expanded<String> {
        let (needed, keys, sorted) = match leaf {
            Descriptor::PublicKey(key) => return Ok(format!("pk({})", self.x_only(key)?)),
            Descriptor::Multisig { needed, keys, sorted } => (needed, keys, *sorted),
            _ => unreachable!("nothing else is a leaf"),
        };
        let keys = keys.iter().map(|key| Ok((self.at.x_only(key)?.serialize(), self.x_only(key)?)));
        let mut keys = keys.collect::<Expanded<Vec<_>>>()?;
        if sorted {
            keys.sort_unstable();
        }
        let keys: Vec<String> = keys.into_iter().map(|(_, text)| text).collect();
        Ok(format!("multi_a({needed},{})", keys.join(",")))
    }

    fn tree(&self, tree: &Tree) -> Expanded<Written> {
        let (left, right) = match tree {
            Tree::Leaf(leaf) => {
                let (script, text) = (self.at.leaf(leaf)?, self.leaf(leaf)?);
                let hash = leaf_hash(&script);
                return Ok(Written { hash, text, leaves: vec![(script, Vec::new())] });
            }
            Tree::Branch(left, right) => (self.tree(left)?, self.tree(right)?),
        };
        let hash = branch_hash(left.hash, right.hash);
        let (mut first, mut second) = (left, right);
        let hashes = (first.hash, second.hash);
        first.leaves.iter_mut().for_each(|(_, way)| way.push(hashes.1));
        second.leaves.iter_mut().for_each(|(_, way)| way.push(hashes.0));
        if second.is_before(&first) {
            std::mem::swap(&mut first, &mut second);
        }
        let text = format!("{{{},{}}}", first.text, second.text);
        first.leaves.append(&mut second.leaves);
        Ok(Written { hash, text, leaves: first.leaves })
    }
}

impl Descriptor {
    /// The descriptor of each of the scripts of this number, in their order.
    ///
    /// # Errors
    ///
    /// Only the owner of the private key can derive them.
    pub(crate) fn specific(
        &self,
        path: usize,
        number: u32,
        network: Network,
    ) -> Expanded<Vec<String>> {
        let at = At { path, number };
        if let Self::Address(_) | Self::Raw(_) = self {
            let scripts = at.scripts(self)?;
            let texts = scripts.iter().map(|script| infer(script, &kind(script), network));
            return Ok(texts.collect());
        }
        let origins = Origins::of(self, at)?;
        let bodies = match self {
            Self::Combo(key) => {
                let text = origins.key(key)?;
                let all = ["pk(_)", "pkh(_)", "wpkh(_)", "sh(wpkh(_))"];
                let count = if key.is_compressed() { all.len() } else { 2 };
                all[..count].iter().map(|form| form.replace('_', &text)).collect()
            }
            Self::Unused(_) => Vec::new(),
            descriptor => vec![origins.body(descriptor)?],
        };
        Ok(bodies.iter().map(|body| with_checksum(body)).collect())
    }
}
