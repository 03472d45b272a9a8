//! Which instructions a processor has, and the entry point of each backend.
//!
//! The outermost function of a backend enables its features; all that it calls is inlined into it, or is
//! a function with the same features.

#![allow(unsafe_code)]

use crate::field::outlined::Outlined;
use crate::field::products::{Fused, Ifma};
use crate::field::radix29::Radix29;
use crate::field::radix52::Radix52;
use crate::generator::{GeneratorTables, tables};
use crate::group::{GROUPS, Group, prove};
use crate::vector::model::Model;
#[cfg(target_arch = "x86_64")]
use crate::vector::pair::Pair;
use crate::verdict::Proven;

#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_256;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_512;

#[cfg(target_arch = "aarch64")]
use aarch64::Neon;
#[cfg(target_arch = "x86_64")]
use {x86_256::V256, x86_512::V512};

/// What the lanes are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Eight lanes of AVX-512 IFMA: Ice Lake servers, Zen 4 and later.
    Ifma512,
    /// Eight lanes of AVX-512F.
    Avx512,
    /// Eight lanes of AVX2 with FMA, in pairs of registers.
    Avx2,
    /// Four lanes of IFMA in its 256-bit form, for tests: the code that processors with AVX-IFMA alone will
    /// run, which nobody could measure so far. Never chosen by itself.
    Ifma256,
    /// Four lanes of NEON. Not chosen by itself before somebody has measured it on such a processor.
    Neon,
    /// The IFMA backend in plain `u64`, eight lanes, for tests. Never chosen by itself.
    ModelIfma,
    /// AVX-512F's and AVX2's in plain `u64` and `f64`, eight lanes, for tests. Never chosen by itself.
    ModelFused,
    /// NEON's in plain `u64`, eight lanes, for tests. Never chosen by itself.
    ModelNeon,
    /// No lanes: libsecp256k1, one check after another.
    Single,
}

impl BackendKind {
    /// All of them.
    pub const ALL: [BackendKind; 9] = [
        BackendKind::Ifma512,
        BackendKind::Avx512,
        BackendKind::Avx2,
        BackendKind::Ifma256,
        BackendKind::Neon,
        BackendKind::ModelIfma,
        BackendKind::ModelFused,
        BackendKind::ModelNeon,
        BackendKind::Single,
    ];

    /// Those that may be chosen by themselves, fastest first.
    pub const BY_SPEED: [BackendKind; 4] =
        [BackendKind::Ifma512, BackendKind::Avx512, BackendKind::Avx2, BackendKind::Single];

    /// Checks side by side; 0 of [`BackendKind::Single`].
    pub fn lanes(self) -> usize {
        match self {
            BackendKind::Ifma512
            | BackendKind::Avx512
            | BackendKind::Avx2
            | BackendKind::ModelIfma
            | BackendKind::ModelFused
            | BackendKind::ModelNeon => 8,
            BackendKind::Ifma256 | BackendKind::Neon => 4,
            BackendKind::Single => 0,
        }
    }

    /// Whether this processor has every feature that the backend's functions enable.
    #[cfg(target_arch = "x86_64")]
    fn is_present(self) -> bool {
        match self {
            BackendKind::Ifma512 => {
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")
            }
            BackendKind::Avx512 => is_x86_feature_detected!("avx512f"),
            BackendKind::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
            }
            BackendKind::Ifma256 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("avx512ifma")
                    && is_x86_feature_detected!("avx512vl")
            }
            BackendKind::Neon => false,
            BackendKind::ModelIfma
            | BackendKind::ModelFused
            | BackendKind::ModelNeon
            | BackendKind::Single => true,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_present(self) -> bool {
        match self {
            BackendKind::Ifma512 | BackendKind::Avx512 => false,
            BackendKind::Avx2 | BackendKind::Ifma256 => false,
            #[cfg(target_arch = "aarch64")]
            BackendKind::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(not(target_arch = "aarch64"))]
            BackendKind::Neon => false,
            BackendKind::ModelIfma
            | BackendKind::ModelFused
            | BackendKind::ModelNeon
            | BackendKind::Single => true,
        }
    }
}

/// A backend that this processor can run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    kind: BackendKind,
}

impl Backend {
    /// `None` where the processor lacks a feature.
    pub(crate) fn detect(kind: BackendKind) -> Option<Backend> {
        kind.is_present().then_some(Backend { kind })
    }

    /// No lanes.
    pub(crate) fn single() -> Backend {
        Backend { kind: BackendKind::Single }
    }

    pub(crate) fn kind(self) -> BackendKind {
        self.kind
    }

    /// Which lanes of each group are proven; at most [`GROUPS`] of them.
    pub(crate) fn prove(self, groups: &[Group]) -> [Proven; GROUPS] {
        let tables = tables();
        // SAFETY: a `Backend` exists only if `is_present` found the features that the function of its kind
        // enables.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            match self.kind {
                BackendKind::Ifma512 => return ifma512(groups, tables),
                BackendKind::Avx512 => return avx512(groups, tables),
                BackendKind::Avx2 => return avx2(groups, tables),
                BackendKind::Ifma256 => return ifma256(groups, tables),
                BackendKind::Neon => {}
                BackendKind::ModelIfma
                | BackendKind::ModelFused
                | BackendKind::ModelNeon
                | BackendKind::Single => {}
            }
        }
        #[cfg(target_arch = "aarch64")]
        if self.kind == BackendKind::Neon {
            // SAFETY: as above.
            return unsafe { neon(groups, tables) };
        }
        match self.kind {
            BackendKind::ModelIfma => prove::<Outlined<Radix52<Model<8>, Ifma>>>(groups, tables),
            BackendKind::ModelFused => prove::<Outlined<Radix52<Model<8>, Fused>>>(groups, tables),
            BackendKind::ModelNeon => prove::<Outlined<Radix29<Model<8>>>>(groups, tables),
            _ => [Proven::default(); GROUPS],
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512ifma")]
fn ifma512(groups: &[Group], tables: &GeneratorTables) -> [Proven; GROUPS] {
    prove::<Radix52<V512, Ifma>>(groups, tables)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512ifma,avx512vl")]
fn ifma256(groups: &[Group], tables: &GeneratorTables) -> [Proven; GROUPS] {
    prove::<Radix52<V256, Ifma>>(groups, tables)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512(groups: &[Group], tables: &GeneratorTables) -> [Proven; GROUPS] {
    prove::<Radix52<V512, Fused>>(groups, tables)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(groups: &[Group], tables: &GeneratorTables) -> [Proven; GROUPS] {
    prove::<Radix52<Pair<V256>, Fused>>(groups, tables)
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn neon(groups: &[Group], tables: &GeneratorTables) -> [Proven; GROUPS] {
    prove::<Radix29<Neon>>(groups, tables)
}
