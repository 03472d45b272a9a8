//! The methods that each user may call (`-rpcwhitelist`).

use std::collections::{BTreeMap, BTreeSet};

/// Which methods a user may call (`-rpcwhitelist`, `-rpcwhitelistdefault`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whitelist {
    users: BTreeMap<String, BTreeSet<String>>,
    /// A user who is not in the list may call nothing.
    strict: bool,
}

impl Whitelist {
    /// Parses the values of the options. A user who is named several times may call only the methods that all
    /// of these values name.
    pub fn new(lines: &[String], strict: Option<bool>) -> Self {
        let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines {
            let (user, methods) =
                line.split_once(':').map_or((line.as_str(), None), |(u, m)| (u, Some(m)));
            let Some(methods) = methods else {
                users.entry(user.to_owned()).or_default();
                continue;
            };
            let mut named: BTreeSet<String> =
                methods.split([',', ' ']).map(str::to_owned).collect();
            if let Some(before) = users.get(user) {
                named.retain(|method| before.contains(method));
            }
            users.insert(user.to_owned(), named);
        }
        Self { strict: strict.unwrap_or(!lines.is_empty()), users }
    }

    /// Whether the user may call nothing at all.
    pub(crate) fn excludes(&self, user: &str) -> bool {
        self.strict && !self.users.contains_key(user)
    }

    pub(crate) fn allows(&self, user: &str, method: &str) -> bool {
        match self.users.get(user) {
            Some(methods) => methods.contains(method),
            None => !self.strict,
        }
    }

    /// Whether the user's methods are listed.
    pub(crate) fn lists(&self, user: &str) -> bool {
        self.users.contains_key(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_methods_narrow_each_other() {
        let list = |lines: &[&str], strict| {
            Whitelist::new(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>(), strict)
        };
        let none = list(&[], None);
        assert!(none.allows("u", "stop") && !none.excludes("u"));
        let one = list(&["u:a,b", "u:b,c", "v"], None);
        assert!(one.allows("u", "b") && !one.allows("u", "a") && !one.allows("v", "a"));
        assert!(one.excludes("w") && !one.allows("w", "a"));
        assert!(list(&["u:a"], Some(false)).allows("w", "x"));
        assert!(list(&[], Some(true)).excludes("u"));
    }
}
