//! Microseconds per check: libsecp256k1 and each backend of this processor, in turns, so that a busy machine
//! is busy for all of them. `make bench-verify` runs it.
//!
//! The fastest round counts: what other programs take shows in all the others.
//!
//! With the arguments BACKEND KIND ROUNDS, as in `Neon Schnorr 3`, it measures nothing and runs 64 checks that
//! often, for a program that counts the instructions of a whole process: `tools/test-neon`.

use std::time::Instant;
use std::{env, thread};

use godwit_verify::{BackendKind, Check, KeyBytes, Verifier};
use secp256k1::{All, Keypair, Message, Parity, Scalar, Secp256k1, SecretKey};
use sha2::{Digest, Sha256};

/// Checks that wait when the lanes are asked.
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 64, 512];
/// Of these the fastest counts.
const ROUNDS: usize = 31;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => measure(),
        [backend, kind, rounds] => run_only(backend, kind, rounds),
        _ => panic!("BACKEND KIND ROUNDS, or nothing"),
    }
}

fn run_only(backend: &str, kind: &str, rounds: &str) {
    let backend = BackendKind::ALL.into_iter().find(|known| format!("{known:?}") == backend);
    let mut verifier = verifier(backend.expect("BACKEND is one of BackendKind"));
    let (_, make) =
        KINDS.into_iter().find(|(name, _)| *name == kind).expect("KIND is one of KINDS");
    let secp = Secp256k1::new();
    let checks: Vec<Check> = (0..64).map(|i| make(&secp, i)).collect();
    for _ in 0..rounds.parse().expect("ROUNDS is a number") {
        round(&mut verifier, &checks);
    }
}

fn measure() {
    let backends: Vec<BackendKind> = [
        BackendKind::Single,
        BackendKind::Neon,
        BackendKind::Avx2,
        BackendKind::Avx512,
        BackendKind::Ifma256,
        BackendKind::Ifma512,
    ]
    .into_iter()
    .filter(|kind| Verifier::<()>::with_backend(*kind).is_some())
    .collect();
    let secp = Secp256k1::new();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    println!("Microseconds of one thread per check; in brackets, times libsecp256k1's speed.\n");
    for (name, make) in KINDS {
        let largest = BATCHES[BATCHES.len() - 1];
        let checks: Vec<Check> = (0..largest).map(|i| make(&secp, i)).collect();
        print!("| {name}, waiting |");
        backends.iter().for_each(|kind| print!(" {kind:?} |"));
        println!("\n| ---: |{}", " ---: |".repeat(backends.len()));
        for count in BATCHES {
            row(&count.to_string(), &in_turns(&backends, &checks[..count]));
        }
        let label = format!("{largest} in each of {threads} threads");
        row(&label, &on_all(&backends, &checks, threads));
        println!();
    }
}

fn row(label: &str, times: &[f64]) {
    print!("| {label} |");
    for time in times {
        print!(" {time:.1} ({:.2}) |", times[0] / time);
    }
    println!();
}

/// The fastest round of each backend on one thread, by check.
fn in_turns(backends: &[BackendKind], checks: &[Check]) -> Vec<f64> {
    let mut verifiers: Vec<Verifier<()>> = backends.iter().map(|kind| verifier(*kind)).collect();
    let mut fastest = vec![f64::MAX; backends.len()];
    for _ in 0..ROUNDS {
        for (verifier, fastest) in verifiers.iter_mut().zip(&mut fastest) {
            *fastest = fastest.min(round(verifier, checks));
        }
    }
    fastest
}

/// The same with as many threads as processors, each with checks of its own to do: the time of the slowest.
fn on_all(backends: &[BackendKind], checks: &[Check], threads: usize) -> Vec<f64> {
    let together = |kind: BackendKind| {
        thread::scope(|scope| {
            let run = || scope.spawn(move || round(&mut verifier(kind), checks));
            let running: Vec<_> = (0..threads).map(|_| run()).collect();
            let times = running.into_iter().map(|thread| thread.join().expect("it only verifies"));
            times.fold(0.0, f64::max)
        })
    };
    let mut fastest = vec![f64::MAX; backends.len()];
    for _ in 0..ROUNDS {
        for (kind, fastest) in backends.iter().zip(&mut fastest) {
            *fastest = fastest.min(together(*kind));
        }
    }
    fastest
}

fn verifier(kind: BackendKind) -> Verifier<()> {
    Verifier::with_backend(kind).expect("the processor has it")
}

/// Microseconds per check of one run.
fn round(verifier: &mut Verifier<()>, checks: &[Check]) -> f64 {
    for check in checks {
        verifier.push((), *check);
    }
    let start = Instant::now();
    verifier.run(|(), _| {});
    start.elapsed().as_secs_f64() * 1e6 / checks.len() as f64
}

type Make = fn(&Secp256k1<All>, usize) -> Check;

const KINDS: [(&str, Make); 4] = [
    ("ECDSA, compressed key", |secp, i| ecdsa(secp, i, true)),
    ("ECDSA, full key", |secp, i| ecdsa(secp, i, false)),
    ("Schnorr", schnorr),
    ("commitment", commitment),
];

/// A number that nobody chose.
fn number(purpose: &str, i: usize) -> [u8; 32] {
    Sha256::digest(format!("{purpose} {i}")).into()
}

fn secret_key(i: usize) -> SecretKey {
    SecretKey::from_slice(&number("key", i)).expect("a hash is not 0, nor n or more")
}

fn ecdsa(secp: &Secp256k1<All>, i: usize, compressed: bool) -> Check {
    let (key, message) = (secret_key(i), number("message", i));
    let signature = secp.sign_ecdsa(&Message::from_digest(message), &key).serialize_compact();
    let public = key.public_key(secp);
    let key = match compressed {
        true => KeyBytes::Compressed(public.serialize()),
        false => KeyBytes::Full(public.serialize_uncompressed()),
    };
    Check::Ecdsa { key, signature, message }
}

fn schnorr(secp: &Secp256k1<All>, i: usize) -> Check {
    let (pair, message) = (Keypair::from_secret_key(secp, &secret_key(i)), number("message", i));
    let signature = secp.sign_schnorr_no_aux_rand(&Message::from_digest(message), &pair);
    let key = pair.x_only_public_key().0.serialize();
    Check::Schnorr { key, signature: signature.serialize(), message }
}

fn commitment(secp: &Secp256k1<All>, i: usize) -> Check {
    let (internal, _) = secret_key(i).x_only_public_key(secp);
    let tweak = number("tweak", i);
    let scalar = Scalar::from_be_bytes(tweak).expect("a hash is below n");
    let (output, parity) = internal.add_tweak(secp, &scalar).expect("not infinity");
    Check::Commitment {
        internal_key: internal.serialize(),
        tweak,
        output_key: output.serialize(),
        odd: parity == Parity::Odd,
    }
}
