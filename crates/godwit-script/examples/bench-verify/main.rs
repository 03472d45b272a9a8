//! Microseconds per check: libsecp256k1, as the crate in use bundles it, as Bitcoin Core's kernel library
//! does and as its newest release does, and each backend of this processor, in turns, so that a busy
//! machine is busy for all of them.
//! `make bench-verify` runs it.
//!
//! The fastest round counts: what other programs take shows in all the others. The hashes of an input
//! follow, which come to the check.

use std::thread;
use std::time::Instant;

use godwit_verify::{Answer, BackendKind, Check, Verifier};
use secp256k1::Secp256k1;
use secp256k1_newest as newest;

use crate::checks::KINDS;

#[path = "../../../godwit-verify/examples/count-checks/checks.rs"]
mod checks;
mod hashes;
mod kernel;

/// Checks that wait when the lanes are asked.
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 64, 512];
/// Of these the fastest counts.
const ROUNDS: usize = 31;

fn main() {
    let backends = [
        BackendKind::Single,
        BackendKind::Neon,
        BackendKind::Avx2,
        BackendKind::Avx512,
        BackendKind::Ifma256,
        BackendKind::Ifma512,
    ]
    .into_iter()
    .filter(|kind| Verifier::<()>::with_backend(*kind).is_some())
    .map(Contestant::Backend);
    let contestants: Vec<Contestant> =
        backends.chain([Contestant::Kernel, Contestant::Newest]).collect();
    let secp = Secp256k1::new();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    println!("Microseconds of one thread per check; in brackets, times libsecp256k1's speed.\n");
    for (name, make) in KINDS {
        let largest = BATCHES[BATCHES.len() - 1];
        let checks: Vec<Check> = (0..largest).map(|i| make(&secp, i)).collect();
        print!("| {name}, waiting |");
        contestants.iter().for_each(|one| print!(" {} |", one.name()));
        println!("\n| ---: |{}", " ---: |".repeat(contestants.len()));
        for count in BATCHES {
            row(&count.to_string(), &in_turns(&contestants, &checks[..count]));
        }
        let label = format!("{largest} in each of {threads} threads");
        row(&label, &on_all(&contestants, &checks, threads));
        println!();
    }
    hashes::report();
}

/// What is measured.
#[derive(Clone, Copy)]
enum Contestant {
    Backend(BackendKind),
    /// libsecp256k1 inside the kernel library, which Bitcoin Core's engine calls.
    Kernel,
    /// libsecp256k1 of the newest release of the crate `secp256k1`.
    Newest,
}

impl Contestant {
    fn name(self) -> String {
        match self {
            Contestant::Backend(BackendKind::Single) => "libsecp256k1 0.4.1".to_owned(),
            Contestant::Backend(kind) => format!("{kind:?}"),
            Contestant::Kernel => "libsecp256k1 0.7.2, the kernel's".to_owned(),
            Contestant::Newest => "libsecp256k1 0.8.0".to_owned(),
        }
    }

    /// Ready to run: known answers are asked here.
    fn start(self) -> Runner {
        match self {
            Contestant::Backend(kind) => {
                Runner::Verifier(Verifier::with_backend(kind).expect("the processor has it"))
            }
            Contestant::Kernel => Runner::Each(kernel::verify),
            Contestant::Newest => Runner::Each(|check| verify_by_newest(check).is_ok()),
        }
    }
}

enum Runner {
    Verifier(Verifier<()>),
    Each(fn(&Check) -> bool),
}

impl Runner {
    /// Microseconds per check of one run.
    fn round(&mut self, checks: &[Check]) -> f64 {
        if let Runner::Verifier(verifier) = self {
            checks.iter().for_each(|check| verifier.push((), *check));
        }
        let start = Instant::now();
        match self {
            Runner::Verifier(verifier) => {
                verifier.run(|(), answer| assert_eq!(answer, Answer::Yes))
            }
            Runner::Each(verify) => assert!(checks.iter().all(verify)),
        }
        start.elapsed().as_secs_f64() * 1e6 / checks.len() as f64
    }
}

fn verify_by_newest(check: &Check) -> Result<(), newest::Error> {
    match check {
        Check::Ecdsa { key, signature, message } => {
            let key = newest::PublicKey::from_slice(key.as_slice())?;
            let mut signature = newest::ecdsa::Signature::from_compact(signature)?;
            signature.normalize_s();
            signature.verify(newest::Message::from_digest(*message), &key)
        }
        Check::Schnorr { key, signature, message } => {
            let key = newest::XOnlyPublicKey::from_byte_array(*key)?;
            newest::schnorr::Signature::from_byte_array(*signature).verify(message, &key)
        }
        Check::Commitment { internal_key, tweak, output_key, odd } => {
            let internal = newest::XOnlyPublicKey::from_byte_array(*internal_key)?;
            let output = newest::XOnlyPublicKey::from_byte_array(*output_key)?;
            let parity = if *odd { newest::Parity::Odd } else { newest::Parity::Even };
            let tweak = newest::Scalar::from_be_bytes(*tweak).expect("a hash is below n");
            match internal.tweak_add_check(&output, parity, tweak) {
                true => Ok(()),
                false => Err(newest::Error::IncorrectSignature),
            }
        }
    }
}

fn row(label: &str, times: &[f64]) {
    print!("| {label} |");
    for time in times {
        print!(" {time:.1} ({:.2}) |", times[0] / time);
    }
    println!();
}

/// The fastest round of each on one thread.
fn in_turns(contestants: &[Contestant], checks: &[Check]) -> Vec<f64> {
    let mut runners: Vec<Runner> = contestants.iter().map(|one| one.start()).collect();
    fastest(contestants.len(), |i| runners[i].round(checks))
}

/// The same with as many threads as processors, each with all checks to do: the time of the slowest.
fn on_all(contestants: &[Contestant], checks: &[Check], threads: usize) -> Vec<f64> {
    fastest(contestants.len(), |i| {
        thread::scope(|scope| {
            let run = || contestants[i].start().round(checks);
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            let times = running.into_iter().map(|thread| thread.join().expect("it only verifies"));
            times.fold(0.0, f64::max)
        })
    })
}

fn fastest(count: usize, mut round: impl FnMut(usize) -> f64) -> Vec<f64> {
    let mut fastest = vec![f64::MAX; count];
    for _ in 0..ROUNDS {
        for (i, fastest) in fastest.iter_mut().enumerate() {
            *fastest = fastest.min(round(i));
        }
    }
    fastest
}
