//! Microseconds per check: each backend beside libsecp256k1, in turns, so that a busy machine is busy for
//! all of them.

use std::time::Instant;

use super::real;
use super::sample::{Samples, secret_key};
use crate::check::Check;
use crate::{BackendKind, Verifier};

/// Rounds of which the median and the fastest are said.
const ROUNDS: usize = 101;

#[test]
#[ignore = "a measurement"]
fn microseconds_per_check() {
    let mut samples = Samples::new(80);
    let mut kinds = vec![BackendKind::Single];
    kinds.extend(real().into_iter().map(|backend| backend.kind()));
    let mut make = |make: &dyn Fn(&mut Samples) -> Check| -> Vec<Check> {
        (0..Verifier::<()>::BATCH).map(|_| make(&mut samples)).collect()
    };
    let compressed = make(&|samples| {
        let key = secret_key(samples.scalar());
        samples.ecdsa(&key, true)
    });
    let full = make(&|samples| {
        let key = secret_key(samples.scalar());
        samples.ecdsa(&key, false)
    });
    let schnorr = make(&|samples| {
        let key = secret_key(samples.scalar());
        samples.schnorr(&key)
    });
    let commitments = make(&|samples| {
        let key = secret_key(samples.scalar());
        samples.commitment(&key)
    });
    let cases = [
        ("ECDSA, compressed key", compressed),
        ("ECDSA, full key", full),
        ("Schnorr", schnorr),
        ("commitment", commitments),
    ];
    for (name, checks) in &cases {
        for count in [8, 64] {
            let mut times = vec![Vec::new(); kinds.len()];
            let mut verifiers: Vec<Verifier<usize>> =
                kinds.iter().map(|kind| Verifier::with_backend(*kind).expect("present")).collect();
            for _ in 0..ROUNDS {
                for (verifier, times) in verifiers.iter_mut().zip(&mut times) {
                    for (id, check) in checks[..count].iter().enumerate() {
                        verifier.push(id, *check);
                    }
                    let start = Instant::now();
                    verifier.run(|_, _| {});
                    times.push(start.elapsed().as_secs_f64() * 1e6 / count as f64);
                }
            }
            let line = kinds.iter().zip(&mut times).map(|(kind, times)| {
                times.sort_by(f64::total_cmp);
                format!("{kind:?} {:.1} ({:.1})", times[ROUNDS / 2], times[0])
            });
            eprintln!("{name}, {count} at once: {}", line.collect::<Vec<_>>().join(", "));
        }
    }
}
