//! Values of the options that every program has: help, version, configuration file, data directory, network.

use std::path::PathBuf;

use godwit_primitives::Network;

/// Title of the group of options that belong to no other group.
pub const GENERAL: &str = "Options";
/// Title of the options that choose a network.
pub const NETWORK: &str = "Choice of network";

/// Values of these options; `None` is "not given".
#[derive(Default)]
pub struct General {
    pub(super) help: bool,
    pub(super) version: bool,
    pub(super) conf: Option<PathBuf>,
    pub(super) allow_ignored_conf: bool,
    pub(super) datadir: Option<PathBuf>,
    pub(super) chain: Option<Network>,
    pub(super) testnet3: Option<bool>,
    pub(super) testnet4: Option<bool>,
    pub(super) signet: Option<bool>,
    pub(super) regtest: Option<bool>,
}

impl General {
    /// The flags that choose a network, by name.
    pub(super) fn network_flags(&self) -> [(&'static str, Network, Option<bool>); 4] {
        [
            ("testnet", Network::Testnet3, self.testnet3),
            ("testnet4", Network::Testnet4, self.testnet4),
            ("signet", Network::Signet, self.signet),
            ("regtest", Network::Regtest, self.regtest),
        ]
    }
}
