//! Import of a Bitcoin Core descriptor wallet (`wallet.dat`, SQLite), encrypted or not.
//!
//! The file is read page by page into locked memory ([`sqlite`]), since a wallet without a
//! passphrase holds its private keys unencrypted. Encrypted keys are decrypted there. Every private
//! key is checked against its public key, every descriptor against its hash. Together they make the
//! private descriptor that Core would print, which is then split like one that a user typed
//! ([`split_private_descriptor`](crate::split_private_descriptor)).
//!
//! Sources: Bitcoin Core, `wallet/walletdb.cpp`, `wallet/crypter.cpp`, `wallet/scriptpubkeyman.cpp`.

mod assemble;
mod decrypt;
mod error;
#[cfg(any(test, feature = "residue"))]
mod needles;
mod records;
mod sqlite;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use bitcoin::Network;
use godwit_secret::{Releasable, SecretString, run_on_secret_stack};

use crate::StoredKey;
use crate::descriptors::split::{Parts, UniqueKeys};
use crate::descriptors::{DescriptorError, PublicDescriptor};
use records::{DescriptorRecord, Records};
use sqlite::{Column, Database, columns};

pub use error::CoreWalletError;
#[cfg(any(test, feature = "residue"))]
pub use needles::core_wallet_needles;
pub use sqlite::DatabaseError;

/// The table that holds a wallet.
const TABLE: &str = "main";

/// Flags of wallets (`wallet/walletutil.h`).
const FLAG_NO_PRIVATE_KEYS: u64 = 1 << 32;
const FLAG_DESCRIPTORS: u64 = 1 << 34;

/// The content of a wallet.
pub struct CoreWallet {
    /// The network of its coins.
    pub network: Network,
    /// In the order of the file.
    pub descriptors: Vec<CoreDescriptor>,
    /// Descriptors that godwit cannot use; their private keys are not among `keys`.
    pub left_out: Vec<LeftOut>,
    /// The private keys of `descriptors`, each once.
    pub keys: Vec<StoredKey>,
}

/// A descriptor of a wallet.
#[derive(Clone, Debug)]
pub struct CoreDescriptor {
    /// As Core's `listdescriptors` prints it.
    pub descriptor: PublicDescriptor,
    /// Earliest time at which its oldest key may have been used, in seconds since 1970.
    pub created: u64,
    /// The indexes whose scripts Core looks for.
    pub range: Range<u32>,
    /// The first index whose address was not given out.
    pub next: u32,
    /// The purpose for which Core takes new addresses from it.
    pub active: Option<Purpose>,
}

/// What addresses are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To receive payments.
    Receiving,
    Change,
}

/// A descriptor that godwit cannot use.
#[derive(Debug)]
pub struct LeftOut {
    /// As the wallet has it, without private keys.
    pub text: String,
    pub error: DescriptorError,
}

/// What is returned from the secret stack: public text, and keys in locked memory.
struct Loaded {
    network: Network,
    split: Vec<(DescriptorRecord, Result<Parts, DescriptorError>)>,
    active: BTreeMap<records::DescriptorId, bool>,
}

impl Releasable for Loaded {}

/// Reads a wallet that no other program has open. If its keys are encrypted, the passphrase is
/// needed ([`CoreWalletError::PassphraseNeeded`]); otherwise it is ignored.
pub fn import_core_wallet(
    path: &Path,
    passphrase: Option<&SecretString>,
) -> Result<CoreWallet, CoreWalletError> {
    let loaded = run_on_secret_stack(|| load(path, passphrase))??;
    let mut wallet = CoreWallet {
        network: loaded.network,
        descriptors: Vec::new(),
        left_out: Vec::new(),
        keys: Vec::new(),
    };
    let mut unique = UniqueKeys::default();
    for (record, parts) in loaded.split {
        let parsed = parts.and_then(|Parts { texts, keys }| {
            let descriptors = texts.into_iter().map(PublicDescriptor::parse);
            Ok((descriptors.collect::<Result<Vec<_>, _>>()?, keys))
        });
        match parsed {
            Ok((descriptors, keys)) => {
                for key in keys {
                    unique.insert(key).map_err(CoreWalletError::from_key)?;
                }
                for descriptor in descriptors {
                    wallet.descriptors.push(described(&record, descriptor, &loaded.active)?);
                }
            }
            Err(error) if is_unknown(&error) => {
                let text = String::from_utf8_lossy(&record.text).into_owned();
                wallet.left_out.push(LeftOut { text, error });
            }
            Err(DescriptorError::Memory(error)) => return Err(CoreWalletError::Memory(error)),
            Err(error) => return Err(CoreWalletError::Descriptor(error)),
        }
    }
    wallet.keys = unique.keys;
    Ok(wallet)
}

/// Whether a descriptor is of a kind that Core knows and godwit does not, rather than invalid.
fn is_unknown(error: &DescriptorError) -> bool {
    matches!(
        error,
        DescriptorError::Unsupported { .. }
            | DescriptorError::HardenedPublic { .. }
            | DescriptorError::Refused(_)
    )
}

fn described(
    record: &DescriptorRecord,
    descriptor: PublicDescriptor,
    active: &BTreeMap<records::DescriptorId, bool>,
) -> Result<CoreDescriptor, CoreWalletError> {
    let number = |number: i32| u32::try_from(number).map_err(|_| CoreWalletError::Record);
    Ok(CoreDescriptor {
        descriptor,
        created: record.created,
        range: number(record.start)?..number(record.end)?,
        next: number(record.next)?,
        active: active.get(&record.id).map(|change| match change {
            true => Purpose::Change,
            false => Purpose::Receiving,
        }),
    })
}

/// Reads the records of keys, which may be encrypted.
fn read(path: &Path) -> Result<(Network, Records), CoreWalletError> {
    let mut database = Database::open(path)?;
    let roots = database.roots(TABLE)?;
    let magic = database.application_id().to_be_bytes();
    let networks =
        [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];
    let network = networks.into_iter().find(|network| network.magic().to_bytes() == magic);
    let network = network.ok_or(CoreWalletError::UnknownNetwork { magic })?;

    let mut records = Records::default();
    database.rows(roots, &records::is_wanted, &mut records, &|row, records: &mut Records| {
        match columns(row).as_deref() {
            Some([Column::Bytes(key), Column::Bytes(value)]) => records.add(key, value),
            _ => Err(CoreWalletError::Record),
        }
    })?;
    if records.flags.unwrap_or(0) & FLAG_DESCRIPTORS == 0 {
        return Err(CoreWalletError::NoDescriptors);
    }
    Ok((network, records))
}

fn load(path: &Path, passphrase: Option<&SecretString>) -> Result<Loaded, CoreWalletError> {
    let (network, mut records) = read(path)?;
    assemble::unlock(&mut records, passphrase)?;
    if records.owners.iter().any(|(id, _)| !records.descriptors.iter().any(|d| d.id == *id)) {
        return Err(CoreWalletError::Missing);
    }

    let watch_only = records.flags.unwrap_or(0) & FLAG_NO_PRIVATE_KEYS != 0;
    let mut all = Vec::new();
    for record in records.descriptors {
        let split = assemble::split(&record, &records.plain, network.into(), watch_only)?;
        let split = match split {
            // Core accepts no descriptor whose scripts it cannot derive.
            Err(DescriptorError::HardenedPublic { .. }) if !watch_only => {
                return Err(CoreWalletError::Missing);
            }
            split => split,
        };
        all.push((record, split));
    }
    Ok(Loaded { network, split: all, active: records.active })
}

#[cfg(test)]
pub(crate) mod tests;
