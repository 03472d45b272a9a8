//! What the table says about commands and options.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use godwit_primitives::network::Deployment;
use godwit_primitives::{BlockHash, Network, Work};

use super::keys::Bip39Passphrase;
use super::values::{Descriptor, HostPort, UtxoHash};

/// Values of options before they are brought together; `None` is "not given".
#[derive(Default)]
pub(super) struct Draft {
    pub(super) chain: Option<Network>,
    pub(super) testnet3: Option<bool>,
    pub(super) testnet4: Option<bool>,
    pub(super) signet: Option<bool>,
    pub(super) regtest: Option<bool>,
    pub(super) datadir: Option<PathBuf>,
    pub(super) conf: Option<PathBuf>,
    pub(super) dbcache_mib: Option<u64>,
    pub(super) par: Option<i32>,
    pub(super) assume_valid: Option<Option<BlockHash>>,
    pub(super) stop_at_height: Option<u32>,
    pub(super) prune_mib: Option<u64>,
    pub(super) verdicts: Option<PathBuf>,
    pub(super) utxo_hash: Option<UtxoHash>,
    pub(super) connections: ConnectionDraft,
    pub(super) keys: KeysDraft,
    pub(super) psbt: PsbtDraft,
    pub(super) minimum_chain_work: Option<Work>,
    pub(super) signet_challenge: Option<Vec<u8>>,
    pub(super) activation_heights: Vec<(Deployment, u32)>,
    pub(super) bip94: bool,
    pub(super) help: bool,
    pub(super) version: bool,
}

/// The part of the draft that concerns peers.
#[derive(Default)]
pub(super) struct ConnectionDraft {
    pub(super) listen: Option<bool>,
    pub(super) bind: Vec<HostPort>,
    pub(super) port: Option<u16>,
    pub(super) max_connections: Option<u32>,
    pub(super) network_active: Option<bool>,
    /// `Some` and empty: connect to nobody.
    pub(super) connect: Option<Vec<HostPort>>,
    pub(super) add_nodes: Vec<HostPort>,
    pub(super) seed_nodes: Vec<HostPort>,
    pub(super) dns_seed: Option<bool>,
    /// `Some(None)`: switched off.
    pub(super) proxy: Option<Option<HostPort>>,
    pub(super) onion: Option<Option<HostPort>>,
    pub(super) v2_transport: Option<bool>,
    pub(super) allow_unlocked_secrets: Option<bool>,
    pub(super) max_upload_target: Option<u64>,
    pub(super) max_download_rate: Option<u64>,
}

/// The part of the draft that concerns the key file.
#[derive(Default)]
pub(super) struct KeysDraft {
    pub(super) file: Option<PathBuf>,
    pub(super) passphrase: Option<Descriptor>,
    pub(super) new_passphrase: Option<Descriptor>,
    pub(super) label: String,
    pub(super) words: Option<NonZeroUsize>,
    pub(super) show: Option<Descriptor>,
    pub(super) secret: Option<Descriptor>,
    pub(super) wallet_passphrase: Option<Descriptor>,
    pub(super) bip39_passphrase: Bip39Passphrase,
}

/// The part of the draft that concerns PSBTs.
#[derive(Default)]
pub(super) struct PsbtDraft {
    pub(super) out: Option<PathBuf>,
    /// Satoshi.
    pub(super) max_fee: Option<u64>,
    /// Satoshi for a virtual byte.
    pub(super) max_fee_rate: Option<u32>,
    pub(super) any_sighash: Option<bool>,
    pub(super) foreign_inputs: Option<bool>,
    pub(super) unproven_amounts: Option<bool>,
}

impl Draft {
    pub(super) fn network_flags(&self) -> [(Network, Option<bool>); 4] {
        [
            (Network::Testnet3, self.testnet3),
            (Network::Testnet4, self.testnet4),
            (Network::Signet, self.signet),
            (Network::Regtest, self.regtest),
        ]
    }
}

/// A command of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandName {
    Node,
    Import,
    UtxoStats,
    UtxoDump,
    UtxoLoad,
    KeysCreate,
    KeysImport,
    KeysImportCoreWallet,
    KeysList,
    KeysExport,
    KeysChangePassphrase,
    KeysRemove,
    PsbtInspect,
    PsbtSign,
    PsbtCombine,
    PsbtFinalize,
    PsbtExtract,
    KeysResidueCheck,
}

/// Words, operands and purpose of a command. The node has no words.
pub(super) struct CommandSpec {
    pub(super) command: CommandName,
    pub(super) words: &'static str,
    pub(super) operands: &'static str,
    pub(super) help: &'static str,
}

impl CommandSpec {
    /// How messages call it.
    pub(super) fn name(&self) -> &'static str {
        if self.words.is_empty() { "the node" } else { self.words }
    }
}

/// What may follow an option's name.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// `-name`, `-noname`, `-name=0`, `-name=1`.
    Flag,
    /// `-name=value` or `-name value`; `-noname` stands for the value `off`, if there is one.
    Value { placeholder: &'static str, expected: &'static str, off: Option<&'static str> },
}

/// Where an option may be given besides the command line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePlace {
    /// Not in the file.
    Nowhere,
    /// Before the first network section: it decides which section counts.
    Top,
    /// There and in the network sections.
    Anywhere,
}

/// Sections of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    General,
    Network,
    Testing,
    Validation,
    Connections,
    Import,
    Utxo,
    Keys,
    Psbt,
}

/// One option.
pub(super) struct OptionSpec {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) form: Form,
    pub(super) file: FilePlace,
    pub(super) commands: &'static [CommandName],
    /// Networks on which giving it makes sense.
    pub(super) networks: &'static [Network],
    pub(super) group: Group,
    /// Several values add up; without it the last one counts.
    pub(super) repeats: bool,
    pub(super) help: &'static str,
    /// Puts the value into the draft; `None` refuses it.
    pub(super) set: fn(&mut Draft, &OsStr) -> Option<()>,
}

impl OptionSpec {
    /// The value that `-noname` stands for.
    pub(super) fn off(&self) -> Option<&'static str> {
        match self.form {
            Form::Flag => Some("0"),
            Form::Value { off, .. } => off,
        }
    }

    /// What the option takes, for messages.
    pub(super) fn expected(&self) -> &'static str {
        match self.form {
            Form::Flag => "0 or 1",
            Form::Value { expected, .. } => expected,
        }
    }
}
