//! The two nodes, and the coins that each says it has.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Node {
    /// `godwit`.
    Godwit,
    /// Bitcoin Core's `bitcoind`.
    Bitcoind,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Godwit => "godwit",
            Self::Bitcoind => "bitcoind",
        })
    }
}

impl Node {
    /// Where it keeps what it knows of regtest.
    pub fn network_dir(datadir: &Path) -> PathBuf {
        datadir.join("regtest")
    }

    /// Name of the directory of its UTXO set there.
    pub fn utxo_dir(self) -> &'static str {
        match self {
            Self::Godwit => "utxo",
            Self::Bitcoind => "chainstate",
        }
    }
}

/// The coins at the tip, as `gettxoutsetinfo` describes them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UtxoSet {
    /// Height of the tip.
    pub height: u32,
    pub bestblock: String,
    /// Number of coins.
    pub txouts: u64,
    /// Size that does not depend on a database.
    pub bogosize: u64,
    /// Their MuHash, or the hash of them all one after the other where that was asked for.
    #[serde(alias = "hash_serialized_3")]
    pub muhash: String,
    /// Their value in bitcoin, with eight places.
    pub total_amount: serde_json::Number,
}

impl UtxoSet {
    /// From what `godwit utxo stats` prints, both hashes: bitcoind prints the one that is asked for.
    pub(crate) fn of_godwit(mut stats: serde_json::Value) -> serde_json::Result<Self> {
        stats.as_object_mut().map(|stats| stats.remove("hash_serialized_3"));
        serde_json::from_value(stats)
    }
}

impl fmt::Display for UtxoSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { height, bestblock, txouts, muhash, .. } = self;
        write!(f, "height {height} ({bestblock}), {txouts} coins, muhash {muhash}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_hashes_it_is_the_muhash() {
        let stats = r#"{"height":1,"bestblock":"aa","txouts":2,"bogosize":3,"hash_serialized_3":"cc",
            "muhash":"bb","total_amount":0.10000000}"#;
        let stats: serde_json::Value = serde_json::from_str(stats).unwrap();
        assert!(serde_json::from_value::<UtxoSet>(stats.clone()).is_err(), "both are one field");
        let set = UtxoSet::of_godwit(stats).unwrap();
        assert_eq!(
            (set.muhash.as_str(), set.total_amount.to_string().as_str()),
            ("bb", "0.10000000")
        );
    }
}
