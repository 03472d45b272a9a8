//! The program as a user runs it.

mod core;
mod core_wallet;
mod keys;
mod message;
mod multisig;
mod psbt;
mod residue;

use godwit_sim::programs::Datadir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_godwit-signer");

/// The program with a data directory of its own.
fn signer(chain: &'static str) -> Datadir {
    Datadir::new(PROGRAM, chain)
}
