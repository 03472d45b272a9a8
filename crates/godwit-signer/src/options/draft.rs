//! Values of the signer's options as given, before they become a [`Config`](super::Config).

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use godwit_keys::message::MessageFormat;
use godwit_keys::psbt::Branch;

use super::keys::{Bip39Passphrase, Descriptor};
use super::psbt::{NamedOutput, NodeOptions};

/// `None` is "not given".
#[derive(Default)]
pub(super) struct Draft {
    pub(super) allow_unlocked_secrets: Option<bool>,
    pub(super) yes: Option<String>,
    pub(super) format: Option<MessageFormat>,
    pub(super) keys: KeysDraft,
    pub(super) psbt: PsbtDraft,
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
    pub(super) unseen_words: Option<bool>,
    pub(super) older_copy: Option<bool>,
    /// MiB.
    pub(super) kdf_memory: Option<u32>,
    pub(super) kdf_passes: Option<u32>,
    pub(super) account: Option<u32>,
    pub(super) branch: Option<Branch>,
    pub(super) range: Option<RangeInclusive<u32>>,
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
    /// Satoshi per virtual byte.
    pub(super) max_fee_rate: Option<u32>,
    pub(super) max_fee_share: Option<u8>,
    pub(super) any_sighash: Option<bool>,
    pub(super) foreign_inputs: Option<bool>,
    pub(super) any_inputs: Option<bool>,
    pub(super) unproven_amounts: Option<bool>,
    pub(super) any_outputs: Vec<NamedOutput>,
    pub(super) any_index: Vec<NamedOutput>,
    pub(super) node: Option<NodeOptions>,
}
