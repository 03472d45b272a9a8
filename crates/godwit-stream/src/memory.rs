//! The memory of public data, chosen when the crate is compiled.
//!
//! What ships takes it from [`Global`] and neither zeroes it before use nor wipes it after. The features
//! `zero-after-free` and `barrier-only` put one of the two baselines of Bitcoin Core's pull request
//! 30987 in its place, for measuring alone: the whole product then runs on it, so that a comparison
//! measures the product and not a copy of it.

#[cfg(feature = "barrier-only")]
use crate::baseline::BarrierOnly;
#[cfg(feature = "zero-after-free")]
use crate::baseline::ZeroAfterFree;

#[cfg(all(feature = "zero-after-free", feature = "barrier-only"))]
compile_error!("public data has one memory policy: choose zero-after-free or barrier-only");

/// Where the buffers of public data come from: plain memory, unless a baseline is measured.
#[cfg(not(any(feature = "zero-after-free", feature = "barrier-only")))]
pub type PublicMemory = allocator_api2::alloc::Global;
/// Where the buffers of public data come from: memory that is wiped when it is freed.
#[cfg(feature = "zero-after-free")]
pub type PublicMemory = ZeroAfterFree;
/// Where the buffers of public data come from: memory that only looks wiped to the optimiser.
#[cfg(all(feature = "barrier-only", not(feature = "zero-after-free")))]
pub type PublicMemory = BarrierOnly;

/// The one value of [`PublicMemory`].
#[cfg(not(any(feature = "zero-after-free", feature = "barrier-only")))]
pub const PUBLIC_MEMORY: PublicMemory = allocator_api2::alloc::Global;
/// The one value of [`PublicMemory`].
#[cfg(feature = "zero-after-free")]
pub const PUBLIC_MEMORY: PublicMemory = ZeroAfterFree(allocator_api2::alloc::Global);
/// The one value of [`PublicMemory`].
#[cfg(all(feature = "barrier-only", not(feature = "zero-after-free")))]
pub const PUBLIC_MEMORY: PublicMemory = BarrierOnly(allocator_api2::alloc::Global);
