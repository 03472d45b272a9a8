//! A passphrase becomes a key: Argon2id, version 1.3 (RFC 9106).

use std::error::Error;
use std::fmt;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use godwit_secret::{LockError, SecretArray, SecretString, run_on_secret_stack};
use zeroize::Zeroize;

use crate::nfkd::nfkd;

/// How much work a passphrase costs, both its owner and whoever guesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KdfParameters {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

impl KdfParameters {
    /// The second choice of RFC 9106, section 4: 64 MiB, three passes, four lanes.
    pub const RECOMMENDED: Self = Self { memory_kib: 64 << 10, passes: 3, lanes: 4 };
    /// Most memory, in KiB. It and the next two bound what a hostile file can cost: this memory and some
    /// seconds.
    pub const MAX_MEMORY_KIB: u32 = 256 << 10;
    /// Most passes over the memory.
    pub const MAX_PASSES: u32 = 16;
    /// Most lanes.
    pub const MAX_LANES: u32 = 16;
    /// Least memory for each lane, in KiB, by RFC 9106.
    pub const MIN_KIB_PER_LANE: u32 = 8;

    /// `None` outside of the limits.
    pub fn new(memory_kib: u32, passes: u32, lanes: u32) -> Option<Self> {
        let fits = (1..=Self::MAX_LANES).contains(&lanes)
            && (1..=Self::MAX_PASSES).contains(&passes)
            && (Self::MIN_KIB_PER_LANE * lanes..=Self::MAX_MEMORY_KIB).contains(&memory_kib);
        fits.then_some(Self { memory_kib, passes, lanes })
    }

    /// Memory in KiB, passes, lanes.
    pub(crate) fn numbers(self) -> [u32; 3] {
        [self.memory_kib, self.passes, self.lanes]
    }
}

/// Why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KdfError {
    /// There is no locked memory for it.
    Lock(LockError),
    /// There is not so much memory to work in, in KiB.
    Memory(u32),
}

impl fmt::Display for KdfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Memory(kib) => {
                write!(f, "no memory to stretch the passphrase in, {} MiB", kib.div_ceil(1024))
            }
        }
    }
}

impl Error for KdfError {}

impl From<LockError> for KdfError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// What Argon2 works in. It is too large to lock; it is wiped whatever happens.
struct WorkingMemory {
    blocks: Vec<Block>,
}

impl WorkingMemory {
    fn of(kib: u32, count: usize) -> Result<Self, KdfError> {
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(count).map_err(|_| KdfError::Memory(kib))?;
        blocks.resize(count, Block::new());
        Ok(Self { blocks })
    }
}

impl Drop for WorkingMemory {
    fn drop(&mut self) {
        self.blocks.iter_mut().zeroize();
    }
}

/// The key of `passphrase` in Unicode's normal form KD, so that it does not depend on the keyboard.
pub(crate) fn derive_key(
    passphrase: &SecretString,
    salt: &[u8; 16],
    parameters: KdfParameters,
) -> Result<SecretArray<32>, KdfError> {
    run_on_secret_stack(|| {
        let text = passphrase.expose_secret(nfkd)?;
        let mut key = SecretArray::zeroed()?;
        key.expose_secret_mut(|key: &mut [u8; 32]| {
            text.expose_secret(|text| argon2id(text.as_bytes(), salt, parameters, key))
        })?;
        Ok(key)
    })?
}

fn argon2id(
    password: &[u8],
    salt: &[u8],
    parameters: KdfParameters,
    key: &mut [u8],
) -> Result<(), KdfError> {
    let [memory_kib, passes, lanes] = parameters.numbers();
    let params = Params::new(memory_kib, passes, lanes, Some(key.len()));
    let params = params.expect("godwit's limits lie inside of Argon2's");
    let mut memory = WorkingMemory::of(memory_kib, params.block_count())?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(password, salt, key, &mut memory.blocks)
        .expect("neither a passphrase in memory nor this salt is too long");
    Ok(())
}

#[cfg(test)]
mod tests;
