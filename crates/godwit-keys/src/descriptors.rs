//! Descriptors with private keys, split into public descriptors and keys.
//!
//! The text with private keys is read where it lies, in locked memory. What comes out are descriptors
//! as Bitcoin Core's `listdescriptors` prints them: every private key replaced by its public key, an
//! extended one by that behind the last hardened step of its path, with the way to it as origin; `h` for
//! hardened, the checksum of BIP380 at the end. Only such text is shown to `miniscript`.
//!
//! A path with `<0;1>` (BIP389) makes one descriptor for each of its numbers, as in Core. A hardened
//! wildcard (`/*h`) has no public keys to derive: Core prints the extended public key with the whole
//! path, and so does this.
//!
//! Sources: Bitcoin Core, `script/descriptor.cpp` (`ToNormalizedString`); BIP380 to 389.

pub(crate) mod checksum;
mod disclosed;
mod error;
pub(crate) mod join;
pub(crate) mod key_expression;
mod multipath;
mod policy;
pub(crate) mod scan;
pub(crate) mod split;
mod watched;

use std::str::FromStr;

use bitcoin::NetworkKind;
use godwit_secret::{SecretSlice, run_on_secret_stack};
use miniscript::descriptor::{Descriptor, DescriptorPublicKey};

use crate::StoredKey;

pub use error::DescriptorError;
pub use multipath::multipath;
pub use policy::{PolicyText, policy_of};
pub use scan::MAX_DESCRIPTOR_SIZE;
pub use watched::watched_descriptors;

/// A descriptor without private keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicDescriptor {
    /// As `miniscript` has it.
    pub descriptor: Descriptor<DescriptorPublicKey>,
    /// In the form and with the checksum that Bitcoin Core prints.
    pub text: String,
}

impl PublicDescriptor {
    /// Text that has no private keys, as [`split`](split::split) makes it.
    pub(crate) fn parse(text: String) -> Result<Self, DescriptorError> {
        let refused = |error| DescriptorError::Refused(Box::new(error));
        let descriptor = Descriptor::from_str(&text).map_err(refused)?;
        descriptor.sanity_check().map_err(refused)?;
        Ok(Self { descriptor, text })
    }
}

/// A descriptor that had private keys.
pub struct SplitDescriptor {
    /// One, or as many as its paths in `<…>` have numbers.
    pub descriptors: Vec<PublicDescriptor>,
    /// Its private keys, each once; none when all its keys were public.
    pub keys: Vec<StoredKey>,
}

/// Splits a descriptor whose keys belong to `network`. When it has a checksum, that must be right.
pub fn split_private_descriptor(
    text: SecretSlice<'_>,
    network: NetworkKind,
) -> Result<SplitDescriptor, DescriptorError> {
    let parts = run_on_secret_stack(|| split::split(text, network))??;
    parts.texts.iter().try_for_each(|text| check_sh(text))?;
    let descriptors = parts.texts.into_iter().map(PublicDescriptor::parse);
    Ok(SplitDescriptor { descriptors: descriptors.collect::<Result<_, _>>()?, keys: parts.keys })
}

/// What Core takes inside of `sh()`. `miniscript` would take more, and no Core could watch it. Entries that
/// were made without this rule are read as they are.
const IN_SH: [&str; 6] = ["pk", "pkh", "multi", "sortedmulti", "wpkh", "wsh"];

/// Source: Bitcoin Core, `script/descriptor.cpp` (`ParseScript`).
fn check_sh(text: &str) -> Result<(), DescriptorError> {
    let inner = text.strip_prefix("sh(").and_then(|inner| inner.split_once('('));
    match inner {
        Some((name, _)) if !IN_SH.contains(&name) => Err(DescriptorError::MiniscriptInSh),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
