//! Runs 64 checks ROUNDS times and measures nothing, for a program that counts the instructions of a whole
//! process: `tools/test-arm`. Arguments: BACKEND KIND ROUNDS, as in `Neon Schnorr 3`.

use std::env;

use godwit_verify::{Answer, BackendKind, Check, Verifier};
use secp256k1::Secp256k1;

use crate::checks::KINDS;

mod checks;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [backend, kind, rounds] = arguments.as_slice() else { panic!("BACKEND KIND ROUNDS") };
    let backend = BackendKind::ALL.into_iter().find(|known| format!("{known:?}") == *backend);
    let backend = backend.expect("BACKEND is one of BackendKind");
    let (_, make) = KINDS.into_iter().find(|(name, _)| name == kind).expect("KIND is one of KINDS");
    let secp = Secp256k1::new();
    let checks: Vec<Check> = (0..64).map(|i| make(&secp, i)).collect();
    let mut verifier = Verifier::with_backend(backend).expect("the processor has it");
    for _ in 0..rounds.parse().expect("ROUNDS is a number") {
        checks.iter().for_each(|check| verifier.push((), *check));
        verifier.run(|(), answer| assert_eq!(answer, Answer::Yes));
    }
}
