//! Which outputs are ours. That a script names a key of ours says little: somebody else's key beside it
//! may spend the coin as well, or nobody may. What a public descriptor of the key file derives is ours.

use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;

use bitcoin::NetworkKind;
use bitcoin::bip32::{ChildNumber, KeySource};
use bitcoin::{Script, ScriptBuf};
use miniscript::{Descriptor, DescriptorPublicKey};

use crate::store::KeyStore;

/// Highest index at which descriptors are derived: a coin at a higher one is hard to find again, since
/// wallets look a gap limit ahead of the last used index.
pub const MAX_OWN_INDEX: u32 = 100_000;

/// The scripts of outputs that the descriptors of a key file derive.
pub struct OwnScripts {
    /// Those with a wildcard.
    ranged: Vec<Descriptor<DescriptorPublicKey>>,
    /// Scripts of those without.
    fixed: HashSet<ScriptBuf>,
    /// Scripts of the ranged ones by the indexes that were asked for.
    at_index: BTreeMap<u32, HashSet<ScriptBuf>>,
}

impl OwnScripts {
    /// Of the entries of a network.
    pub fn of(store: &KeyStore, network: NetworkKind) -> Self {
        let descriptors = store.entries_of(network).flat_map(|entry| &entry.descriptors);
        Self::of_descriptors(descriptors.map(String::as_str))
    }

    /// Text that is no descriptor of public keys derives nothing.
    pub(super) fn of_descriptors<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let parsed = texts.filter_map(|text| Descriptor::from_str(text).ok());
        let (ranged, fixed): (Vec<_>, Vec<_>) = parsed
            .partition(|descriptor: &Descriptor<DescriptorPublicKey>| descriptor.has_wildcard());
        let fixed = scripts_at(&fixed, 0);
        OwnScripts { ranged, fixed, at_index: BTreeMap::new() }
    }

    /// Whether a descriptor derives `script`, at the last step of one of the paths for a ranged one.
    pub fn derive<'a>(
        &mut self,
        script: &Script,
        paths: impl IntoIterator<Item = &'a KeySource>,
    ) -> bool {
        let indexes = paths.into_iter().filter_map(|(_, path)| match path[..] {
            [.., ChildNumber::Normal { index }] if index <= MAX_OWN_INDEX => Some(index),
            _ => None,
        });
        let mut at_index = |index| {
            let scripts = self.at_index.entry(index);
            scripts.or_insert_with(|| scripts_at(&self.ranged, index)).contains(script)
        };
        self.fixed.contains(script) || indexes.into_iter().any(&mut at_index)
    }
}

/// A hardened wildcard has no public keys to derive.
fn scripts_at(descriptors: &[Descriptor<DescriptorPublicKey>], index: u32) -> HashSet<ScriptBuf> {
    let derived = descriptors.iter().filter_map(|all| all.at_derivation_index(index).ok());
    derived.map(|descriptor| descriptor.script_pubkey()).collect()
}
