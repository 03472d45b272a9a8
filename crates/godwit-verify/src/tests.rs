//! Tests of the whole and of the parts that are not public.

mod adversarial;
mod compiled;
mod differential;
mod edges;
mod instructions;
mod intervals;
mod parts;
mod products;
mod sample;
mod start;
mod twin;
mod vectors;

use crate::backend::{Backend, BackendKind};
use crate::check::Check;
use crate::lanes::prove;

/// The real instructions that this machine has. What it lacks, of its architecture's, is said.
fn real() -> Vec<Backend> {
    use BackendKind::{Avx2, Avx512, Ifma256, Ifma512, Neon};
    let kinds = match cfg!(target_arch = "aarch64") {
        true => vec![Neon],
        false => vec![Ifma512, Ifma256, Avx512, Avx2],
    };
    let mut present = Vec::new();
    for kind in kinds {
        match Backend::detect(kind) {
            Some(backend) => present.push(backend),
            None => godwit_testdata::skip(&format!("the processor cannot run {kind:?}")),
        }
    }
    present
}

/// The real instructions and the models.
fn all() -> Vec<Backend> {
    let models = [BackendKind::ModelIfma, BackendKind::ModelFused, BackendKind::ModelNeon];
    let models = models.map(|kind| Backend::detect(kind).expect("a model runs everywhere"));
    models.into_iter().chain(real()).collect()
}

/// Which checks the lanes prove, in any number of batches.
fn lanes(backend: Backend, checks: &[Check]) -> Vec<bool> {
    checks.chunks(64).flat_map(|batch| prove(backend, batch.iter()).proven()).collect()
}
