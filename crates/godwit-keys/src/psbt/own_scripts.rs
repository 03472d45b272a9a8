//! Which outputs are ours. That a script names a key of ours says little: somebody else's key beside it
//! may spend the coin as well, or nobody may. What a public descriptor of the key file derives is ours.

use std::collections::{HashMap, HashSet};

use bitcoin::NetworkKind;
use bitcoin::bip32::{ChildNumber, KeySource};
use bitcoin::{Script, ScriptBuf};
use miniscript::{Descriptor, DescriptorPublicKey};

use super::cosigners::{Standing, standings};
use crate::addresses::script_at;
use crate::entry::{EntryDescriptor, KeyId};
use crate::error::KeyError;
use crate::store::KeyStore;

/// Highest index at which descriptors are derived: a coin at a higher one is hard to find again, since
/// wallets look a gap limit ahead of the last used index.
pub const MAX_OWN_INDEX: u32 = 100_000;

/// So many indexes are looked at for an address that the user names.
pub const SEARCHED: u32 = 1_000;

/// By what a script is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnScript {
    pub entry: KeyId,
    /// The place of the descriptor in its entry, from 1.
    pub place: usize,
    pub descriptor: String,
    /// Whether our key alone may be too little to spend it, or may not be the only one that can: it has other
    /// keys too, or hashes, or times.
    pub shared: bool,
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

impl Branch {
    /// BIP44's meaning of the step before the wildcard.
    pub fn of(descriptor: &str) -> Self {
        match (descriptor.contains("/0/*"), descriptor.contains("/1/*")) {
            (true, false) => Self::Receive,
            (false, true) => Self::Change,
            _ => Self::Other,
        }
    }
}

impl OwnScript {
    pub fn branch(&self) -> Branch {
        Branch::of(&self.descriptor)
    }

    pub(super) fn account(&self) -> String {
        account_of(&self.descriptor)
    }
}

/// What a descriptor has in common with the other branch of its account, whatever entries they are in: Core
/// writes them as two descriptors, which may be imported one by one. It is script and keys; an origin says
/// only where others find these.
fn account_of(descriptor: &str) -> String {
    let text = descriptor.split('#').next().expect("there is a first part");
    let mut parts = text.split('[');
    let mut account = parts.next().expect("there is a first part").to_owned();
    account.extend(parts.map(|part| part.split_once(']').map_or(part, |(_, key)| key)));
    account.replace("/0/*", "/*").replace("/1/*", "/*")
}

/// Whether one key spends what a descriptor derives, by a signature and nothing else. The descriptor is one
/// that was parsed.
fn takes_one_signature(descriptor: &str) -> bool {
    const KINDS: [&str; 4] = ["pk(", "pkh(", "wpkh(", "sh(wpkh("];
    let is_key_path = descriptor.starts_with("tr(") && !descriptor.contains(',');
    is_key_path || KINDS.iter().any(|kind| descriptor.starts_with(kind))
}

/// A descriptor and where it stands.
struct Placed {
    entry: KeyId,
    place: usize,
    text: String,
    /// As in [`OwnScript`].
    shared: bool,
    descriptor: Descriptor<DescriptorPublicKey>,
}

impl Placed {
    fn own(&self, index: Option<u32>) -> OwnScript {
        let Self { entry, place, shared, .. } = *self;
        OwnScript { entry, place, descriptor: self.text.clone(), shared, index }
    }
}

/// The scripts of outputs that the descriptors of a key file derive.
pub struct OwnScripts {
    /// Those with a wildcard.
    ranged: Vec<Placed>,
    /// Scripts of those without.
    fixed: HashMap<ScriptBuf, OwnScript>,
    /// Scripts of the ranged ones at the indexes that were asked for: number of the descriptor, and index.
    derived: HashMap<ScriptBuf, (usize, u32)>,
    /// These indexes.
    indexes: HashSet<u32>,
    /// All below this one are among them.
    next: u32,
    /// The last index that was given out of each account, where it is known that one was.
    given_out: HashMap<String, u32>,
}

impl OwnScripts {
    /// Of the entries of a network. A descriptor without a key of ours is watched alone, and is not ours; nor
    /// is one in which another key says that it is ours.
    ///
    /// # Errors
    ///
    /// If there is no memory to compute keys with.
    pub fn of(store: &KeyStore, network: NetworkKind) -> Result<Self, KeyError> {
        let mut ours = Vec::new();
        for entry in store.entries_of(network) {
            for (place, descriptor) in (1..).zip(&entry.descriptors) {
                let keys = standings(store, network, &descriptor.text)?;
                let has = |standing| keys.iter().any(|key| key.standing == standing);
                if has(Standing::Ours) && !has(Standing::Misplaced) {
                    ours.push((entry.id(), place, descriptor));
                }
            }
        }
        Ok(Self::of_descriptors(ours.into_iter()))
    }

    /// Text that is no descriptor of public keys derives nothing.
    pub(super) fn of_descriptors<'a>(
        descriptors: impl Iterator<Item = (KeyId, usize, &'a EntryDescriptor)>,
    ) -> Self {
        let mut given_out = HashMap::new();
        let parsed =
            descriptors.filter_map(|(entry, place, EntryDescriptor { text, next_index, .. })| {
                let descriptor: Descriptor<DescriptorPublicKey> = text.parse().ok()?;
                if let Some(index) = next_index.checked_sub(1) {
                    let last = given_out.entry(account_of(text)).or_insert(index);
                    *last = index.max(*last);
                }
                let shared = !takes_one_signature(text);
                Some(Placed { entry, place, text: text.clone(), shared, descriptor })
            });
        let (ranged, without): (Vec<_>, Vec<_>) =
            parsed.partition(|placed| placed.descriptor.has_wildcard());
        let fixed = without
            .iter()
            .filter_map(|placed| Some((script_at(&placed.descriptor, 0)?, placed.own(None))));
        let fixed = fixed.collect();
        let (derived, indexes) = (HashMap::new(), HashSet::new());
        OwnScripts { fixed, ranged, derived, indexes, next: 0, given_out }
    }

    /// The last index that was given out of each account, where it is known that one was.
    pub(super) fn given_out(&self) -> &HashMap<String, u32> {
        &self.given_out
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
        let indexes: Vec<u32> = indexes.collect();
        indexes.iter().for_each(|index| self.derive_at(*index));
        self.derived_script(script).filter(|own| own.index.is_some_and(|at| indexes.contains(&at)))
    }

    /// The descriptor that derives `script` at an index that may have been given out: among the first
    /// [`SEARCHED`], or so many behind the last one that is known to have been.
    pub fn search(&mut self, script: &Script) -> Option<OwnScript> {
        let last = self.given_out.values().copied().max().unwrap_or(0);
        self.find_up_to(script, last.saturating_add(SEARCHED - 1))
    }

    /// The descriptor that derives `script` at any index up to `highest`, whatever a PSBT says of it.
    pub(super) fn find_up_to(&mut self, script: &Script, highest: u32) -> Option<OwnScript> {
        while self.next <= highest.min(MAX_OWN_INDEX) {
            self.derive_at(self.next);
            self.next += 1;
        }
        self.fixed.get(script).cloned().or_else(|| self.derived_script(script))
    }

    fn derived_script(&self, script: &Script) -> Option<OwnScript> {
        let (number, index) = self.derived.get(script)?;
        Some(self.ranged[*number].own(Some(*index)))
    }

    fn derive_at(&mut self, index: u32) {
        if !self.indexes.insert(index) {
            return;
        }
        for (number, placed) in self.ranged.iter().enumerate() {
            if let Some(script) = script_at(&placed.descriptor, index) {
                self.derived.entry(script).or_insert((number, index));
            }
        }
    }
}
