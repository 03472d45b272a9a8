//! Which outputs are ours. That a script names a key of ours says little: somebody else's key beside it
//! may spend the coin as well, or nobody may. What a public descriptor of the key file derives is ours.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use bitcoin::NetworkKind;
use bitcoin::bip32::{ChildNumber, KeySource};
use bitcoin::{Script, ScriptBuf};
use miniscript::{Descriptor, DescriptorPublicKey};

use crate::entry::KeyId;
use crate::store::KeyStore;

/// Highest index at which descriptors are derived: a coin at a higher one is hard to find again, since
/// wallets look a gap limit ahead of the last used index.
pub const MAX_OWN_INDEX: u32 = 100_000;

/// By what a script is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnScript {
    pub entry: KeyId,
    /// The place of the descriptor in its entry, from 1.
    pub place: usize,
    pub descriptor: String,
    /// Where it has a wildcard.
    pub index: Option<u32>,
}

/// What the scripts of a descriptor are for, by the step before its wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    Receive,
    Change,
    Other,
}

impl OwnScript {
    /// BIP44's meaning of the last step.
    pub fn branch(&self) -> Branch {
        let has = |end: &str| self.descriptor.contains(end);
        match (has("/0/*"), has("/1/*")) {
            (true, false) => Branch::Receive,
            (false, true) => Branch::Change,
            _ => Branch::Other,
        }
    }
}

/// A descriptor and where it stands.
struct Placed {
    entry: KeyId,
    place: usize,
    text: String,
    descriptor: Descriptor<DescriptorPublicKey>,
}

impl Placed {
    fn own(&self, index: Option<u32>) -> OwnScript {
        OwnScript { entry: self.entry, place: self.place, descriptor: self.text.clone(), index }
    }
}

/// The scripts of outputs that the descriptors of a key file derive.
pub struct OwnScripts {
    /// Those with a wildcard.
    ranged: Vec<Placed>,
    /// Scripts of those without.
    fixed: HashMap<ScriptBuf, OwnScript>,
    /// Scripts of the ranged ones by the indexes that were asked for, and the number of the descriptor.
    at_index: BTreeMap<u32, HashMap<ScriptBuf, usize>>,
}

impl OwnScripts {
    /// Of the entries of a network.
    pub fn of(store: &KeyStore, network: NetworkKind) -> Self {
        Self::of_descriptors(store.entries_of(network).flat_map(|entry| {
            let id = entry.id();
            let numbered = (1..).zip(&entry.descriptors);
            numbered.map(move |(place, text)| (id, place, text.as_str()))
        }))
    }

    /// Text that is no descriptor of public keys derives nothing.
    pub(super) fn of_descriptors<'a>(texts: impl Iterator<Item = (KeyId, usize, &'a str)>) -> Self {
        let parsed = texts.filter_map(|(entry, place, text)| {
            let descriptor = Descriptor::from_str(text).ok()?;
            Some(Placed { entry, place, text: text.to_owned(), descriptor })
        });
        let (ranged, without): (Vec<_>, Vec<_>) =
            parsed.partition(|placed| placed.descriptor.has_wildcard());
        let fixed =
            without.iter().filter_map(|placed| Some((script_at(placed, 0)?, placed.own(None))));
        OwnScripts { fixed: fixed.collect(), ranged, at_index: BTreeMap::new() }
    }

    /// The descriptor that derives `script`, at the last step of one of the paths for a ranged one.
    pub fn find<'a>(
        &mut self,
        script: &Script,
        paths: impl IntoIterator<Item = &'a KeySource>,
    ) -> Option<OwnScript> {
        if let Some(own) = self.fixed.get(script) {
            return Some(own.clone());
        }
        let indexes = paths.into_iter().filter_map(|(_, path)| match path[..] {
            [.., ChildNumber::Normal { index }] if index <= MAX_OWN_INDEX => Some(index),
            _ => None,
        });
        for index in indexes {
            let ranged = &self.ranged;
            let scripts = self.at_index.entry(index).or_insert_with(|| scripts_at(ranged, index));
            if let Some(number) = scripts.get(script) {
                return Some(ranged[*number].own(Some(index)));
            }
        }
        None
    }
}

fn scripts_at(ranged: &[Placed], index: u32) -> HashMap<ScriptBuf, usize> {
    let numbered = ranged.iter().enumerate();
    numbered.filter_map(|(number, placed)| Some((script_at(placed, index)?, number))).collect()
}

/// A hardened wildcard has no public keys to derive.
fn script_at(placed: &Placed, index: u32) -> Option<ScriptBuf> {
    let derived = placed.descriptor.at_derivation_index(index).ok()?;
    Some(derived.script_pubkey())
}
