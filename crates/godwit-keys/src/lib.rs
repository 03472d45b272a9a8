//! Private keys and what is done with them: BIP32, BIP39 and WIF, descriptors, the encrypted key file,
//! import of Bitcoin Core's wallets, signatures and PSBT.
//!
//! A private key lies in the locked memory of `godwit-secret` from the moment its text is read. What
//! computes with it runs on a secret stack ([`godwit_secret::run_on_secret_stack`]), so that the copies
//! which libraries leave behind are wiped. Other crates, `miniscript` before all, are shown public keys
//! only.
//!
//! No function of the public surface returns a private key, a seed or their text: what comes out is
//! public keys, public descriptors, signatures and PSBTs. The exception has the name export and writes
//! to a file descriptor.

mod accounts;
mod base58;
mod core_wallet;
mod descriptors;
mod entry;
mod error;
mod export;
mod extended_key;
mod guarded;
mod kdf;
mod key_file;
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

pub use accounts::{account_descriptors, single_descriptors};
#[cfg(any(test, feature = "residue"))]
pub use core_wallet::core_wallet_needles;
pub use core_wallet::{
    CoreDescriptor, CoreWallet, CoreWalletError, DatabaseError, LeftOut, Purpose,
    import_core_wallet,
};
pub use descriptors::{
    DescriptorError, MAX_DESCRIPTOR_SIZE, PublicDescriptor, SplitDescriptor,
    split_private_descriptor,
};
pub use entry::{Entry, KeyId, MAX_LABEL, NotAKeyId, Words};
pub use error::{KeyError, MnemonicError, TextError};
pub use export::ExportError;
pub use extended_key::ExtendedPrivateKey;
pub use kdf::{KdfError, KdfParameters};
pub use key_file::{KeyFileError, MAX_KEY_FILE};
pub use mnemonic::Mnemonic;
pub use private_key::PrivateKey;
pub use store::{FileAction, KeyStore, StoreError};
pub use stored_key::StoredKey;
pub use wif::parse_wif;
