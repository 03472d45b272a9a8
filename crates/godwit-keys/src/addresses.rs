//! The addresses of public descriptors.

use std::ops::RangeInclusive;

use bitcoin::ScriptBuf;
use miniscript::{Descriptor, DescriptorPublicKey};

/// The scripts of a public descriptor at these indexes; of one without a wildcard its only one. What stands
/// behind a hardened wildcard needs the private key, and text that is no descriptor has none.
pub fn scripts_of(
    descriptor: &str,
    indexes: RangeInclusive<u32>,
) -> impl Iterator<Item = (Option<u32>, ScriptBuf)> + use<> {
    let parsed = descriptor.parse::<Descriptor<DescriptorPublicKey>>().ok();
    let has_wildcard = parsed.as_ref().is_some_and(Descriptor::has_wildcard);
    let indexes = if has_wildcard { indexes } else { 0..=0 };
    indexes.filter_map(move |index| {
        let script = script_at(parsed.as_ref()?, index)?;
        Some((has_wildcard.then_some(index), script))
    })
}

/// `None` behind a hardened wildcard.
pub(crate) fn script_at(
    descriptor: &Descriptor<DescriptorPublicKey>,
    index: u32,
) -> Option<ScriptBuf> {
    let derived = descriptor.at_derivation_index(index).ok()?;
    Some(derived.script_pubkey())
}
