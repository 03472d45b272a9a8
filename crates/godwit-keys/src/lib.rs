//! Private keys and their uses: BIP32, BIP39 and WIF, descriptors, the encrypted key file, import
//! of Bitcoin Core's wallets, signatures and PSBTs.
//!
//! A private key is in the locked memory of `godwit-secret` from the moment its text is read.
//! Computations with it run on a secret stack ([`godwit_secret::run_on_secret_stack`]), so that
//! copies which libraries leave behind are wiped. Other crates, above all `miniscript`, see public
//! keys only.
//!
//! No public function returns a private key, a seed or their text, only public keys, public
//! descriptors, signatures and PSBTs. The one exception is export, which writes to a file
//! descriptor.

mod accounts;
mod addresses;
mod base58;
mod bip322;
mod core_wallet;
mod descriptors;
mod entry;
mod error;
mod export;
mod extended_key;
mod guarded;
mod kdf;
mod key_file;
pub mod message;
mod mnemonic;
#[cfg(any(test, feature = "residue"))]
mod needles;
mod nfkd;
mod private_key;
pub mod psbt;
mod store;
mod stored_key;
mod wif;

pub use bitcoin::NetworkKind;

pub use accounts::{
    AccountKey, account_descriptors, account_descriptors_of, account_keys, single_descriptors,
};
pub use addresses::scripts_of;
#[cfg(any(test, feature = "residue"))]
pub use core_wallet::core_wallet_needles;
pub use core_wallet::{
    CoreDescriptor, CoreWallet, CoreWalletError, DatabaseError, LeftOut, Purpose,
    import_core_wallet,
};
pub use descriptors::{
    DescriptorError, MAX_DESCRIPTOR_SIZE, PolicyText, PublicDescriptor, SplitDescriptor, multipath,
    policy_of, split_private_descriptor, watched_descriptors,
};
pub use entry::{Entry, EntryDescriptor, KeyId, MAX_LABEL, Mark, NotAKeyId, Words, is_label};
pub use error::{KeyError, MnemonicError, TextError};
pub use export::ExportError;
pub use extended_key::ExtendedPrivateKey;
pub use kdf::{KdfError, KdfParameters};
pub use key_file::{KeyFileError, MAX_KEY_FILE};
pub use mnemonic::Mnemonic;
pub use nfkd::normalizes_for_good;
pub use private_key::PrivateKey;
pub use store::{FileAction, KeyStore, StoreError};
pub use stored_key::StoredKey;
pub use wif::parse_wif;
