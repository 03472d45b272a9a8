//! The categories of additional log lines, by Core's names.

use std::sync::atomic::{AtomicU32, Ordering};

/// Core's, in the order in which they are listed. Those of which godwit has no lines are kept as they are
/// set, for programs that read them back.
const NAMES: [&str; 29] = [
    "addrman",
    "bench",
    "blockstorage",
    "cmpctblock",
    "coindb",
    "estimatefee",
    "http",
    "i2p",
    "ipc",
    "kernel",
    "leveldb",
    "mempool",
    "mempoolrej",
    "net",
    "privatebroadcast",
    "proxy",
    "prune",
    "qt",
    "rand",
    "reindex",
    "rpc",
    "scan",
    "selectcoins",
    "tor",
    "txpackages",
    "txreconciliation",
    "validation",
    "walletdb",
    "zmq",
];

/// The category of the lines of a module and those below it; the first that fits counts.
const MODULES: [(&str, &str); 11] = [
    ("godwit_chain::reads", "blockstorage"),
    ("godwit_chain", "validation"),
    ("godwit_store", "coindb"),
    ("godwit_http", "http"),
    ("godwit_api::server", "http"),
    ("godwit_api::zmq", "zmq"),
    ("godwit_api", "rpc"),
    ("godwit_p2p::tor_control", "tor"),
    ("godwit_p2p", "net"),
    ("godwit::node::tor", "tor"),
    ("godwit::node", "net"),
];

/// A category that Core had: it is accepted, and turns nothing on or off.
const FORMER: &str = "libevent";

/// Of how many lines the log has more than always: a bit for each category.
pub struct LogCategories(AtomicU32);

fn bit(name: &str) -> Option<u32> {
    NAMES.iter().position(|known| *known == name).map(|place| 1 << place)
}

impl LogCategories {
    /// None of them.
    pub const fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The category of a debugging line of this module, if it is logged.
    pub fn of_line(&self, module: &str) -> Option<&'static str> {
        let is_within = |of: &str| {
            module.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let (_, name) = MODULES.iter().find(|(of, _)| is_within(of))?;
        bit(name).filter(|bit| self.0.load(Ordering::Relaxed) & bit != 0).map(|_| *name)
    }

    /// Whether the log has any of them.
    pub(crate) fn are_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Turns a category on or off, or all of them; `false` if there is none of this name.
    pub(crate) fn set(&self, name: &str, on: bool) -> bool {
        let bits = match name {
            "" | "1" | "all" => (1 << NAMES.len()) - 1,
            FORMER => {
                log::warn!(
                    "The logging category `{FORMER}` is deprecated, does nothing, and will be removed in a \
                     future version"
                );
                0
            }
            name => match bit(name) {
                Some(bit) => bit,
                None => return false,
            },
        };
        if on {
            self.0.fetch_or(bits, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!bits, Ordering::Relaxed);
        }
        true
    }

    /// All of them, and whether they are on.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let bits = self.0.load(Ordering::Relaxed);
        NAMES.iter().enumerate().map(move |(place, name)| (*name, bits >> place & 1 == 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_the_category_of_its_module() {
        let categories = LogCategories::none();
        assert!(!categories.are_any());
        assert!(categories.set("all", true));
        for (module, name) in [
            ("godwit_p2p::peers::headers", Some("net")),
            ("godwit_p2p", Some("net")),
            ("godwit::node::sockets", Some("net")),
            ("godwit::node", Some("net")),
            ("godwit::node::tor", Some("tor")),
            ("godwit::nodes", None),
            ("godwit", None),
            ("godwit_chain::chain", Some("validation")),
            ("godwit_chain::reads", Some("blockstorage")),
            ("godwit_http::connection", Some("http")),
            ("godwit_api::server::workers", Some("http")),
            ("godwit_store::utxo::background", Some("coindb")),
            ("hyper::proto", None),
            ("", None),
        ] {
            assert_eq!(categories.of_line(module), name, "{module}");
        }
        assert!(categories.set("net", false));
        assert_eq!(categories.of_line("godwit_p2p"), None);
        assert!(categories.of_line("godwit_chain").is_some());
        assert!(categories.set("1", false) && !categories.are_any());
        assert!(categories.set("libevent", true) && !categories.are_any());
        assert!(!categories.set("none", true) && !categories.set("NET", true));
        assert!(MODULES.iter().all(|(_, name)| bit(name).is_some()));
        assert!(NAMES.is_sorted());
    }
}
