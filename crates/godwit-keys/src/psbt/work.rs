//! Counts expensive operations, so that tests can check how often they run.

use std::cell::Cell;

use bitcoin::psbt::Input;

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { txids: 0, legacy_hashes: 0, keys: 0 }) };
}

/// What this thread has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    /// Previous transactions hashed.
    pub(super) txids: usize,
    /// Transactions hashed for signatures of legacy scripts.
    pub(super) legacy_hashes: usize,
    /// Keys that inputs name and that the finalizer was shown: it hashes each.
    pub(super) keys: usize,
}

pub(super) fn note_txid() {
    change(|counts| counts.txids += 1);
}

pub(super) fn note_legacy_hash() {
    change(|counts| counts.legacy_hashes += 1);
}

pub(super) fn note_keys(inputs: &[Input]) {
    let keys =
        inputs.iter().map(|input| input.bip32_derivation.len() + input.tap_key_origins.len());
    change(|counts| counts.keys += keys.sum::<usize>());
}

fn change(note: impl FnOnce(&mut Counts)) {
    let mut counts = COUNTS.get();
    note(&mut counts);
    COUNTS.set(counts);
}

/// What `work` does.
pub(super) fn counted<R>(work: impl FnOnce() -> R) -> (R, Counts) {
    let before = COUNTS.get();
    let outcome = work();
    let after = COUNTS.get();
    let counts = Counts {
        txids: after.txids - before.txids,
        legacy_hashes: after.legacy_hashes - before.legacy_hashes,
        keys: after.keys - before.keys,
    };
    (outcome, counts)
}
