//! Options of the commands that hold private keys.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use godwit_keys::psbt::Branch;
use godwit_keys::{KdfParameters, KeyId};

/// Number of a file descriptor that the process inherited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor(pub u16);

/// Name of the key file inside the network's directory when `-keys` is not given.
pub const KEY_FILE: &str = "keys.godwit";

/// The key file and the source of its passphrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileOptions {
    /// `-keys`; `None`: [`KEY_FILE`] in the network's directory.
    pub file: Option<PathBuf>,
    /// `-passphrase-fd`; `None`: the terminal.
    pub passphrase: Option<Descriptor>,
    /// `-allowunlockedsecrets`.
    pub allow_unlocked_secrets: bool,
    /// `-oldercopy`: change the file though a later version of it was here.
    pub older_copy: bool,
}

/// `-kdfmemory` and `-kdfpasses`: the work that a new passphrase costs, where it is not the usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KdfCost {
    pub memory_mib: Option<u32>,
    pub passes: Option<u32>,
}

impl KdfCost {
    /// Whether an option says anything.
    pub fn is_given(self) -> bool {
        self != Self::default()
    }

    /// These costs in the place of those of `usual`.
    pub fn of(self, usual: KdfParameters) -> KdfParameters {
        usual.with_cost(self.memory_mib, self.passes).expect("the table has its limits")
    }
}

/// Where new words go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewWords {
    /// To the terminal, which asks for them.
    Terminal,
    /// `-mnemonic-fd`
    Descriptor(Descriptor),
    /// `-unseenwords`: into the key file alone.
    Unseen,
}

/// Options of `keys`.
#[derive(Debug, PartialEq, Eq)]
pub struct KeysOptions {
    pub file: KeyFileOptions,
    /// What to do with it.
    pub action: KeysAction,
    /// The work that a new passphrase costs.
    pub cost: KdfCost,
    /// `-yes`: the entry to remove, or the token of what is to be watched; `None`: ask at the terminal.
    pub yes: Option<String>,
}

/// The command behind `keys`.
#[derive(Debug, PartialEq, Eq)]
pub enum KeysAction {
    /// `keys create`
    Create {
        /// `-label`.
        label: String,
        /// `-words`.
        words: NonZeroUsize,
        /// `-mnemonic-fd` and `-unseenwords`.
        show: NewWords,
    },
    /// `keys import`
    Import {
        /// `-label`.
        label: String,
        /// `-secret-fd`; `None`: the terminal.
        secret: Option<Descriptor>,
        /// `-bip39passphrase` and `-bip39passphrase-fd`.
        bip39_passphrase: Bip39Passphrase,
    },
    /// `keys import-core-wallet WALLET`
    ImportCoreWallet {
        /// `-label`.
        label: String,
        /// The file of the wallet.
        wallet: PathBuf,
        /// `-walletpassphrase-fd`; `None`: the terminal.
        passphrase: Option<Descriptor>,
    },
    /// `keys watch FILE`
    Watch {
        /// `-label`.
        label: String,
        /// The file with descriptors or a policy.
        source: PathBuf,
    },
    /// `keys list`
    List,
    /// `keys descriptors`
    Descriptors,
    /// `keys xpub ID`
    Xpub {
        id: KeyId,
        /// `-account`.
        account: u32,
    },
    /// `keys addresses ID`
    Addresses {
        id: KeyId,
        /// `-branch`; `None`: all.
        branch: Option<Branch>,
        /// `-range`.
        indexes: RangeInclusive<u32>,
    },
    /// `keys export ID`
    Export(KeyId),
    /// `keys change-passphrase`
    ChangePassphrase {
        /// `-newpassphrase-fd`; `None`: the terminal.
        new: Option<Descriptor>,
    },
    /// `keys remove ID`
    Remove(KeyId),
}

/// Options of `residue-check`.
#[derive(Debug, PartialEq, Eq)]
pub struct ResidueCheckOptions {
    /// The user's own key file; it is included in the check only if `-keys` names it.
    pub file: KeyFileOptions,
    /// A wallet of Bitcoin Core to include in the check.
    pub wallet: Option<PathBuf>,
    /// `-walletpassphrase-fd`; `None`: the terminal.
    pub wallet_passphrase: Option<Descriptor>,
}

/// The BIP39 passphrase of an imported mnemonic, and its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bip39Passphrase {
    /// There is none.
    #[default]
    None,
    /// It is typed at the terminal.
    Terminal,
    /// It is read from this descriptor.
    Descriptor(Descriptor),
}
