//! The hashes of scripts other than those that signatures sign.

use std::sync::LazyLock;

use godwit_primitives::sha256::{Sha256, sha256};
use ripemd::{Digest, Ripemd160};

/// RIPEMD-160 of the SHA-256 (OP_HASH160).
pub(crate) fn hash160(data: &[u8]) -> [u8; 20] {
    Ripemd160::digest(sha256(data)).into()
}

/// A hasher that has taken the hash of the tag twice (BIP340).
fn tagged(tag: &str) -> Sha256 {
    let tag = sha256(tag.as_bytes());
    let mut hasher = Sha256::new();
    hasher.update(&tag);
    hasher.update(&tag);
    hasher
}

/// BIP341's hashers with their tags, made once: each saves a block of 64 bytes.
pub(crate) struct Tagged {
    pub(crate) sighash: Sha256,
    pub(crate) leaf: Sha256,
    pub(crate) branch: Sha256,
    pub(crate) tweak: Sha256,
}

pub(crate) static TAGGED: LazyLock<Tagged> = LazyLock::new(|| Tagged {
    sighash: tagged("TapSighash"),
    leaf: tagged("TapLeaf"),
    branch: tagged("TapBranch"),
    tweak: tagged("TapTweak"),
});

/// Continues `hasher` with `parts` and finishes it.
pub(crate) fn finish(hasher: &Sha256, parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = hasher.clone();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}
