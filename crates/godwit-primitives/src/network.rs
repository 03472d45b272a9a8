//! The five networks and every constant that tells them apart.
//!
//! Source: Core `kernel/chainparams.cpp`, `chainparamsbase.cpp`, `deploymentinfo.cpp`.

mod chains;
mod genesis;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use ethnum::U256;
use godwit_stream::DataStream;

use crate::sha256::sha256d;
use crate::{BlockHash, BlockHeader, ScriptFlags, Work};

/// A Bitcoin network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// The network whose coins have value.
    Main,
    /// The third test network.
    Testnet3,
    /// The fourth test network (BIP94).
    Testnet4,
    /// A test network whose blocks are signed (BIP325); the default challenge or a custom one.
    Signet,
    /// A private chain of minimal difficulty.
    Regtest,
}

impl Network {
    /// All networks.
    pub const ALL: [Self; 5] =
        [Self::Main, Self::Testnet3, Self::Testnet4, Self::Signet, Self::Regtest];

    /// The name that Core's `-chain` option and RPC use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Testnet3 => "test",
            Self::Testnet4 => "testnet4",
            Self::Signet => "signet",
            Self::Regtest => "regtest",
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no [`Network`] or [`Deployment`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName;

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown name")
    }
}

impl std::error::Error for UnknownName {}

impl FromStr for Network {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|network| network.name() == text).ok_or(UnknownName)
    }
}

/// A rule change that is active from a fixed height (BIP90).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deployment {
    /// BIP34: the coinbase starts with the block's height.
    HeightInCoinbase,
    /// BIP66: strict DER signatures.
    Dersig,
    /// BIP65: OP_CHECKLOCKTIMEVERIFY.
    Cltv,
    /// BIP68, BIP112, BIP113: relative lock times and median time past.
    Csv,
    /// BIP141, BIP143, BIP147: segregated witness.
    Segwit,
}

impl Deployment {
    /// All deployments.
    pub const ALL: [Self; 5] =
        [Self::HeightInCoinbase, Self::Dersig, Self::Cltv, Self::Csv, Self::Segwit];

    /// The name that Core's `-testactivationheight` and RPC use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeightInCoinbase => "bip34",
            Self::Dersig => "dersig",
            Self::Cltv => "cltv",
            Self::Csv => "csv",
            Self::Segwit => "segwit",
        }
    }
}

impl FromStr for Deployment {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|deployment| deployment.name() == text).ok_or(UnknownName)
    }
}

/// A UTXO set whose hash is compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssumeUtxo {
    /// Height of the block whose UTXO set it is.
    pub height: u32,
    /// `hash_serialized_3` of the set, in the order in which it was hashed.
    pub hash_serialized: [u8; 32],
    /// Transactions from genesis to that block, both included.
    pub chain_tx_count: u64,
    /// That block.
    pub blockhash: BlockHash,
}

/// Transaction counts from which the progress of a sync is estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChainTxData {
    /// Seconds since 1970 of the block up to which transactions were counted.
    pub time: i64,
    /// Transactions from genesis to that block.
    pub tx_count: u64,
    /// Estimated transactions a second after that block.
    pub tx_rate: f64,
}

/// Parameters of the low-work header sync (Core `headerssync.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadersSyncParams {
    /// A commitment is stored every so many headers.
    pub commitment_period: u32,
    /// Headers held back until their commitments were seen again.
    pub redownload_buffer_size: u32,
}

/// Every constant of a network that godwit uses. Heights count from genesis = 0, times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Which network.
    pub network: Network,
    /// The first four bytes of every P2P message and block file record.
    pub magic: [u8; 4],
    /// Default P2P port.
    pub default_port: u16,
    /// Folder below the data directory; empty for [`Network::Main`].
    pub subdir: &'static str,
    /// Header of the first block.
    pub genesis: BlockHeader,
    /// Hash of the first block.
    pub genesis_hash: BlockHash,
    /// The block subsidy halves every so many blocks.
    pub subsidy_halving_interval: u32,
    /// First block under BIP34.
    pub bip34_height: u32,
    /// The block at [`Self::bip34_height`] of the known chain, where BIP34 implies BIP30.
    pub bip34_hash: Option<BlockHash>,
    /// First block under BIP65.
    pub bip65_height: u32,
    /// First block under BIP66.
    pub bip66_height: u32,
    /// First block under BIP68, BIP112 and BIP113.
    pub csv_height: u32,
    /// First block under BIP141, BIP143 and BIP147.
    pub segwit_height: u32,
    /// Blocks that the default script flags would reject, with the flags that hold there instead.
    pub script_flag_exceptions: &'static [(BlockHash, ScriptFlags)],
    /// The easiest target allowed.
    pub pow_limit: U256,
    /// Seconds that a difficulty period should take.
    pub pow_target_timespan: u32,
    /// Seconds that a block should take.
    pub pow_target_spacing: u32,
    /// The 20-minute rule: a late block may have minimal difficulty.
    pub allow_min_difficulty: bool,
    /// BIP94: retarget from the period's first block and the timewarp rule.
    pub enforce_bip94: bool,
    /// The difficulty never changes.
    pub no_retargeting: bool,
    /// The script that a block's solution satisfies (BIP325); signet only.
    pub signet_challenge: Option<Cow<'static, [u8]>>,
    /// The best chain has at least this much work.
    pub minimum_chain_work: Work,
    /// Scripts below this block are not run by default.
    pub assume_valid: Option<BlockHash>,
    /// UTXO sets that may be loaded.
    pub assumeutxo: &'static [AssumeUtxo],
    /// For estimates of progress.
    pub chain_tx_data: ChainTxData,
    /// Low-work header sync.
    pub headers_sync: HeadersSyncParams,
}

impl Params {
    /// The constants of `network`; for signet those of the default challenge.
    pub fn new(network: Network) -> Self {
        match network {
            Network::Main => chains::MAIN,
            Network::Testnet3 => chains::TESTNET3,
            Network::Testnet4 => chains::TESTNET4,
            Network::Signet => chains::SIGNET,
            Network::Regtest => chains::REGTEST,
        }
    }

    /// The signet whose blocks satisfy `challenge`. Nothing is known about its chain: no minimum
    /// work, no assumed block, no transaction counts. The magic follows from the challenge.
    pub fn with_signet_challenge(challenge: Vec<u8>) -> Self {
        Self {
            magic: signet_magic(&challenge),
            signet_challenge: Some(Cow::Owned(challenge)),
            minimum_chain_work: U256::ZERO,
            assume_valid: None,
            chain_tx_data: ChainTxData { time: 0, tx_count: 0, tx_rate: 0.0 },
            ..chains::SIGNET
        }
    }

    /// Moves the first height of `deployment` (Core's `-testactivationheight`).
    pub fn set_activation_height(&mut self, deployment: Deployment, height: u32) {
        let field = match deployment {
            Deployment::HeightInCoinbase => &mut self.bip34_height,
            Deployment::Dersig => &mut self.bip66_height,
            Deployment::Cltv => &mut self.bip65_height,
            Deployment::Csv => &mut self.csv_height,
            Deployment::Segwit => &mut self.segwit_height,
        };
        *field = height;
    }

    /// Whether `deployment` holds for the block at `height`.
    pub fn is_active(&self, deployment: Deployment, height: u32) -> bool {
        height >= self.activation_height(deployment)
    }

    /// The first height at which `deployment` holds.
    pub fn activation_height(&self, deployment: Deployment) -> u32 {
        match deployment {
            Deployment::HeightInCoinbase => self.bip34_height,
            Deployment::Dersig => self.bip66_height,
            Deployment::Cltv => self.bip65_height,
            Deployment::Csv => self.csv_height,
            Deployment::Segwit => self.segwit_height,
        }
    }

    /// Blocks in a difficulty period.
    pub fn difficulty_adjustment_interval(&self) -> u32 {
        self.pow_target_timespan / self.pow_target_spacing
    }

    /// The first block, as it is on the wire.
    pub fn genesis_block(&self) -> Vec<u8> {
        genesis::block(self.network, &self.genesis)
    }
}

/// A signet's magic: the first four bytes of the double SHA-256 of its serialised challenge (BIP325).
fn signet_magic(challenge: &[u8]) -> [u8; 4] {
    let mut serialised: DataStream = DataStream::with_capacity(challenge.len() + 9);
    serialised.write_compact_size(challenge.len() as u64);
    serialised.write(challenge);
    let hash = sha256d(serialised.as_slice());
    [hash[0], hash[1], hash[2], hash[3]]
}

#[cfg(test)]
mod tests;
