//! Microseconds per check: libsecp256k1, as the crate in use bundles it and as its newest release does,
//! and each backend of this processor, in turns, so that a busy machine is busy for all of them.
//! `make bench-verify` runs it.
//!
//! The fastest round counts: what other programs take shows in all the others.
//!
//! With the arguments BACKEND KIND ROUNDS, as in `Neon Schnorr 3`, it measures nothing and runs 64 checks
//! that often, for a program that counts the instructions of a whole process: `tools/test-neon`.

use std::time::Instant;
use std::{env, thread};

use godwit_verify::{Answer, BackendKind, Check, KeyBytes, Verifier};
use secp256k1::{All, Keypair, Message, Parity, Scalar, Secp256k1, SecretKey};
use secp256k1_newest as newest;
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
    let contestant = Contestant::Backend(backend.expect("BACKEND is one of BackendKind"));
    let (_, make) =
        KINDS.into_iter().find(|(name, _)| *name == kind).expect("KIND is one of KINDS");
    let secp = Secp256k1::new();
    let checks: Vec<Check> = (0..64).map(|i| make(&secp, i)).collect();
    let mut runner = contestant.start();
    for _ in 0..rounds.parse().expect("ROUNDS is a number") {
        runner.round(&checks);
    }
}

fn measure() {
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
    let contestants: Vec<Contestant> = backends.chain([Contestant::Newest]).collect();
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
}

/// What is measured.
#[derive(Clone, Copy)]
enum Contestant {
    Backend(BackendKind),
    /// libsecp256k1 of the newest release of the crate `secp256k1`.
    Newest,
}

impl Contestant {
    fn name(self) -> String {
        match self {
            Contestant::Backend(BackendKind::Single) => "libsecp256k1 0.4.1".to_owned(),
            Contestant::Backend(kind) => format!("{kind:?}"),
            Contestant::Newest => "libsecp256k1 0.8.0".to_owned(),
        }
    }

    /// Ready to run: known answers are asked here.
    fn start(self) -> Runner {
        match self {
            Contestant::Backend(kind) => {
                Runner::Verifier(Verifier::with_backend(kind).expect("the processor has it"))
            }
            Contestant::Newest => Runner::Newest,
        }
    }
}

enum Runner {
    Verifier(Verifier<()>),
    Newest,
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
            Runner::Newest => {
                assert!(checks.iter().all(|check| verify_by_newest(check).is_ok()));
            }
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
