//! Wallet policies (BIP388): a descriptor with placeholders, and the keys in their places.

use miniscript::descriptor::{Descriptor, DescriptorPublicKey, KeyInfo, WalletPolicy};

use super::DescriptorError;

/// A descriptor in the form of BIP388.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyText {
    /// As `wsh(sortedmulti(2,@0/**,@1/**))`.
    pub template: String,
    /// The key of each placeholder, behind its origin.
    pub keys: Vec<String>,
}

/// The policy of a public descriptor; `None` if it has none: BIP388 knows accounts of two branches alone.
pub fn policy_of(descriptor: &str) -> Option<PolicyText> {
    let descriptor: Descriptor<DescriptorPublicKey> = descriptor.parse().ok()?;
    let policy = WalletPolicy::from_descriptor(&descriptor).ok()?;
    let keys = policy.key_info().iter().map(|key| key.to_string().replace('\'', "h"));
    Some(PolicyText { template: policy.to_string(), keys: keys.collect() })
}

/// The descriptor that a template and its keys stand for, without checksum.
pub(super) fn descriptor_of(template: &str, keys: &[&str]) -> Result<String, DescriptorError> {
    let refused = |error: &dyn std::fmt::Display| DescriptorError::Policy(error.to_string());
    let mut policy: WalletPolicy = template.parse().map_err(|error| refused(&error))?;
    let parsed = keys.iter().map(|key| key.parse::<KeyInfo>());
    let keys = parsed.collect::<Result<Vec<_>, _>>().map_err(|error| refused(&error))?;
    policy.set_key_info(keys).map_err(|error| refused(&error))?;
    let descriptor = policy.into_descriptor().map_err(|error| refused(&error))?;
    Ok(format!("{descriptor:#}"))
}
