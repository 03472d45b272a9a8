//! A passphrase becomes a key: Argon2id, version 1.3 (RFC 9106).

use std::error::Error;
use std::fmt;

use argon2::{Algorithm, Argon2, Block, Params, Version};
#[cfg(any(test, feature = "residue"))]
use godwit_secret::SecretBytes;
use godwit_secret::{
    LockError, Releasable, SecretArray, SecretString, WorkArea, between_steps, run_on_secret_stack,
};

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

    /// Least memory of a new file, in MiB: that of [`RECOMMENDED`](Self::RECOMMENDED), like the passes.
    pub const FLOOR_MEMORY_MIB: u32 = 64;
    /// Fewest passes of a new file.
    pub const FLOOR_PASSES: u32 = 3;
    /// Most memory, in MiB.
    pub const MAX_MEMORY_MIB: u32 = Self::MAX_MEMORY_KIB >> 10;

    /// At no point less than [`RECOMMENDED`](Self::RECOMMENDED).
    #[must_use]
    pub fn at_least_recommended(self) -> Self {
        let floor = Self::RECOMMENDED;
        Self {
            memory_kib: self.memory_kib.max(floor.memory_kib),
            passes: self.passes.max(floor.passes),
            lanes: self.lanes.max(floor.lanes),
        }
    }

    /// With other memory, in MiB, and passes, where these are given; `None` where that is less than the floor
    /// of new files or more than any.
    pub fn with_cost(self, memory_mib: Option<u32>, passes: Option<u32>) -> Option<Self> {
        let memory_kib = match memory_mib {
            Some(memory_mib) => memory_mib.checked_mul(1 << 10)?,
            None => self.memory_kib,
        };
        let new = Self::new(memory_kib, passes.unwrap_or(self.passes), self.lanes)?;
        (!new.is_below_recommended()).then_some(new)
    }

    /// Whether a passphrase costs less to guess than [`RECOMMENDED`](Self::RECOMMENDED).
    pub fn is_below_recommended(self) -> bool {
        self.memory_kib < Self::RECOMMENDED.memory_kib || self.passes < Self::RECOMMENDED.passes
    }

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

impl Releasable for KdfError {}

impl From<LockError> for KdfError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
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
        let mut key = SecretArray::<32>::zeroed()?;
        text.expose_secret_into(&mut key, |text, key| {
            key.expose_secret_mut(|key| argon2id(text.as_bytes(), salt, parameters, key))
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
    // The first blocks of a lane are a few hashes away from the passphrase.
    let memory = WorkArea::new(Block::new(), params.block_count(), lanes as usize);
    let mut memory = memory.map_err(|error| match error {
        LockError::Map { .. } => KdfError::Memory(memory_kib),
        error => KdfError::Lock(error),
    })?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(password, salt, key, &mut memory)
        .expect("neither a passphrase in memory nor this salt is too long");
    between_steps("a passphrase is stretched");
    Ok(())
}

/// What Argon2 begins with: the hash of everything that goes in, and the first bytes of the first block. Runs
/// on a secret stack.
#[cfg(any(test, feature = "residue"))]
pub(crate) fn argon2_start(
    passphrase: &SecretString,
    salt: &[u8; 16],
    parameters: KdfParameters,
) -> Result<[SecretBytes; 2], LockError> {
    use blake2::{Blake2b512, Digest};

    const KEY: u32 = 32;
    const VERSION: u32 = 0x13;
    const ARGON2ID: u32 = 2;
    let [memory_kib, passes, lanes] = parameters.numbers();
    let text = passphrase.expose_secret(nfkd)?;
    let hash = text.expose_secret(|text| {
        let mut hash = Blake2b512::new();
        for number in [lanes, KEY, memory_kib, passes, VERSION, ARGON2ID, text.len() as u32] {
            hash.update(number.to_le_bytes());
        }
        hash.update(text);
        hash.update((salt.len() as u32).to_le_bytes());
        hash.update(salt);
        // Neither a second secret nor associated data.
        hash.update([0; 8]);
        let hash = hash.finalize();
        SecretBytes::from_fn_in_place(64, |copy| copy.copy_from_slice(&hash))
    })?;
    let block = hash.expose_secret(|hash| {
        let mut block = Blake2b512::new();
        block.update((Block::SIZE as u32).to_le_bytes());
        block.update(hash);
        block.update([0; 8]);
        let block = block.finalize();
        SecretBytes::from_fn_in_place(32, |copy| copy.copy_from_slice(&block[..32]))
    })?;
    Ok([hash, block])
}

#[cfg(test)]
mod tests;
