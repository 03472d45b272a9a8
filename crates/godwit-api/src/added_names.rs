//! The peers given to `addnode`, by the names under which they were given.

use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_p2p::Target;
use godwit_rpc::{RpcError, code};

/// Peers of `addnode` as they were given, which may be names that are none. Those of the configuration are
/// not among them.
#[derive(Default)]
pub(crate) struct AddedNames(Mutex<Vec<Added>>);

/// Names that are no peers at most.
const MAX_UNUSABLE_NAMES: usize = 100;

/// Names at most: those of as many peers as the engine takes, and the unusable ones. A peer may have several.
const MAX_NAMES: usize = 1_000 + MAX_UNUSABLE_NAMES;

/// Characters of a name at most: the longest of the DNS, and a port.
const MAX_NAME: usize = 255 + 6;

/// One of them.
#[derive(Clone)]
pub(crate) struct Added {
    pub(crate) name: String,
    /// `None` for what is neither an address nor a name.
    pub(crate) target: Option<Target>,
}

impl AddedNames {
    fn lock(&self) -> MutexGuard<'_, Vec<Added>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With those that the engine has besides.
    pub(crate) fn with(&self, targets: Vec<Target>) -> Vec<Added> {
        let mut all = self.lock().clone();
        for target in targets {
            if all.iter().all(|added| added.target.as_ref() != Some(&target)) {
                all.push(Added { name: named(&target), target: Some(target) });
            }
        }
        all
    }

    /// The one of these that a name means, which stands for `target`: the one that was given so. How those of
    /// the configuration were written is not kept, and with or without the usual port each is meant.
    pub(crate) fn find<'a>(
        &self,
        known: &'a [Added],
        name: &str,
        target: Option<&Target>,
    ) -> Option<&'a Added> {
        let is_meant = |added: &&Added| {
            target.is_some() && added.target.as_ref() == target && !self.has(&added.name)
        };
        known.iter().find(|added| added.name == name).or_else(|| known.iter().find(is_meant))
    }

    /// Whether a name was given so; those of the configuration were not.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.lock().iter().any(|added| added.name == name)
    }

    /// Adds a name that is not there.
    ///
    /// # Errors
    ///
    /// It is too long, or there are too many.
    pub(crate) fn add(&self, added: Added) -> Result<(), RpcError> {
        let mut all = self.lock();
        let unusable = all.iter().filter(|added| added.target.is_none()).count();
        let are_unusable = added.target.is_none() && unusable >= MAX_UNUSABLE_NAMES;
        if added.name.len() > MAX_NAME || all.len() >= MAX_NAMES || are_unusable {
            return Err(too_many_nodes());
        }
        all.push(added);
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) {
        self.lock().retain(|added| added.name != name);
    }
}

pub(crate) fn too_many_nodes() -> RpcError {
    RpcError::new(code::LIMIT_EXCEEDED, "Error: Too many nodes are added")
}

pub(crate) fn named(target: &Target) -> String {
    match target {
        Target::Address(address) => address.to_string(),
        Target::Name { host, port } => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_few_and_short() {
        let names = AddedNames::default();
        let add = |name: String| names.add(Added { name, target: None });
        assert!(add("a".repeat(MAX_NAME + 1)).is_err());
        assert!(add("a".repeat(MAX_NAME)).is_ok());
        assert!((1..MAX_UNUSABLE_NAMES).all(|n| add(n.to_string()).is_ok()));
        assert!(add("one more".to_owned()).is_err());
        names.remove("1");
        assert!(add("one more".to_owned()).is_ok());
    }

    #[test]
    fn peers_of_the_configuration_are_found_however_they_were_written() {
        let names = AddedNames::default();
        let of = |host: &str| Target::Name { host: host.to_owned(), port: 8333 };
        let (told, configured) = (of("told"), of("configured"));
        names.add(Added { name: "told".to_owned(), target: Some(told.clone()) }).expect("room");
        let known = names.with(vec![told.clone(), configured.clone()]);
        let found = |name: &str, target: &Target| {
            names.find(&known, name, Some(target)).map(|added| added.name.clone())
        };
        for name in ["configured", "configured:8333"] {
            assert_eq!(found(name, &configured).as_deref(), Some("configured:8333"));
        }
        assert_eq!(found("told", &told).as_deref(), Some("told"));
        // As in Core, which compares texts.
        assert_eq!(found("told:8333", &told), None);
        assert_eq!(found("other", &of("other")), None);
        assert!(names.find(&known, "no name!", None).is_none());
    }

    #[test]
    fn of_the_same_peer_there_are_not_any_number_of_names() {
        let names = AddedNames::default();
        let target = Some(Target::Name { host: "a".to_owned(), port: 1 });
        let add =
            |n: usize| names.add(Added { name: format!("a:{n:0>9}"), target: target.clone() });
        assert!((0..MAX_NAMES).all(|n| add(n).is_ok()));
        assert!(add(MAX_NAMES).is_err());
        names.remove("a:000000007");
        assert!(add(MAX_NAMES).is_ok());
    }
}
