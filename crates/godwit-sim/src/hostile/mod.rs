//! Hostile and boundary blocks: for each reject reason that a regtest node can give for a block
//! at least one block, and for each boundary a block on both sides.
//!
//! A [`Suite`] is a chain that its cases continue: the base first, then each case's blocks in
//! order on the same chainstate. A block that is accepted becomes the tip of what follows, so that
//! hundreds of cases need only a handful of chainstates.
//!
//! The expected verdicts were derived by reading Bitcoin Core; they are what keeps the chain
//! together, but the judge of a disagreement is Bitcoin Core itself.
//!
//! Reasons in Bitcoin Core's source that no block on regtest can reach: `bad-signet-blksig`;
//! `bad-txns-oversize` (the block is over its own limit first);
//! `bad-txns-inputvalues-outofrange`, `bad-txns-fee-outofrange` and
//! `bad-txns-accumulated-fee-outofrange` (regtest never has 21 million coins);
//! `too-little-chainwork` (regtest demands no minimum). `time-timewarp-attack` needs the option
//! that enforces BIP94.

mod activation;
mod asm;
mod header;
mod inputs;
mod locks;
mod reorg;
mod scripts;
mod sigops;
mod stage;
mod structure;
mod tree;
mod weight;
mod witness;

pub use reorg::{Reorganisation, reorganisations};
use stage::Stage;

/// Verdict of `submitblock`: `None` accepts. Of `block-script-verify-flag-failed (…)` the part
/// before the parenthesis.
pub type Verdict = Option<&'static str>;

/// Start options of a node that judges a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainOptions {
    /// `-test=bip94`.
    pub bip94: bool,
    /// `-testactivationheight=NAME@HEIGHT`.
    pub activation: Vec<(&'static str, u32)>,
}

/// Cases that run one after the other on one chainstate.
#[derive(Clone, Debug)]
pub struct Suite {
    /// What the cases are about.
    pub name: &'static str,
    /// Options of the node. `libbitcoinkernel` has no such options: suites with any need bitcoind.
    pub options: ChainOptions,
    /// Blocks from height 1 on, all accepted.
    pub base: Vec<Vec<u8>>,
    /// The cases in order.
    pub cases: Vec<HostileCase>,
}

/// Blocks to submit, and what is expected of each.
#[derive(Clone, Debug)]
pub struct HostileCase {
    /// Unique in its suite.
    pub name: String,
    /// Serialised blocks in order of submission; some do not decode.
    pub blocks: Vec<Vec<u8>>,
    /// The verdict on each.
    pub expect: Vec<Verdict>,
}

/// All suites. `now` is the time of the judging node's clock, which the two-hours rule needs;
/// everything else depends on nothing.
pub fn suites(now: u32) -> Vec<Suite> {
    let stage = Stage::new();
    let mut suites = vec![
        header::suite(stage.named("header")),
        header::future_suite(stage.named("future"), now),
        tree::suite(stage.named("tree")),
        structure::suite(stage.named("structure")),
        structure::encoding_suite(stage.named("encoding")),
        inputs::suite(stage.named("inputs")),
        locks::suite(stage.named("locks")),
        witness::suite(stage.named("witness")),
        weight::suite(stage.named("weight")),
        sigops::suite(stage.named("sigops")),
    ];
    suites.extend(scripts::suites(&stage));
    suites.extend(activation::suites(&stage));
    suites
}
