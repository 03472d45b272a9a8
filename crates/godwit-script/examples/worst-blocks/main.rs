//! What the worst blocks cost: claims with Core's engine behind them, beside the engine alone, on one thread
//! in turns. `make bench-worst` runs it; the first argument chooses the kinds whose name contains it, a
//! second one, `avx2`, narrower lanes.
//!
//! Inputs are verified as `godwit-chain` does it: transactions are split into parts, some 256 inputs make a
//! share, and a share is verified together. Each pass has a verifier of its own, which has met no block
//! before; a pass is repeated until the processor's clock, whose ticks may be 4 milliseconds, can tell its
//! time.

mod exceptional;
mod kinds;
mod spend;

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{
    BackendKind, Counts, Group, Precomputed, Scripts, SpendingTx, SpentOutput, Verdict, Work,
};

use crate::kinds::{KINDS, Kind};
use crate::spend::Tx;

/// The limits of `godwit-chain`.
const INPUTS_PER_PART: usize = 96;
const PARTS_PER_TX: usize = 16;
const SHARED_INPUTS: usize = 256;
/// Of so many ratios, the second and the last but one bound the median with a confidence of 96 %.
const ROUNDS: usize = 9;
/// 60 ticks of the slowest clock: the time of a round is known to some 2 %.
const SHORTEST: Duration = Duration::from_millis(250);

fn main() {
    let mut args = std::env::args().skip(1);
    let chosen = args.next().unwrap_or_default();
    let lanes = args.next().unwrap_or_default();
    let start = || match lanes.as_str() {
        "" => Scripts::new(),
        "avx2" => Scripts::with_backend(BackendKind::Avx2).expect("the processor has AVX2"),
        other => panic!("{other:?}: lanes are avx2, or the fastest by default"),
    };
    println!(
        "| kind | inputs | engine alone, ms | with claims, ms | ratio | 96 % | each judged twice | 96 % | \
         proven, unclaimed, unproven |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | --- | ---: | --- | --- |");
    for kind in KINDS.iter().filter(|kind| kind.name.contains(&chosen)) {
        report(kind, start);
    }
}

fn report(kind: &Kind, start: impl Fn() -> Scripts) {
    let txs = (kind.make)();
    let shares = shares(&txs);
    let mut times = [const { Vec::new() }; 3];
    let mut counts = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(repeated(kind, &txs, &shares, None, Scripts::engine_only).0);
        let (claims, counted) = repeated(kind, &txs, &shares, None, &start);
        counts = counted;
        times[1].push(claims);
        times[2].push(repeated(kind, &txs, &shares, Some(NonZeroU32::MIN), &start).0);
    }
    let inputs: usize = txs.iter().map(|tx| tx.spent.len()).sum();
    let over_engine = |claims: &[f64]| {
        // An engine that refuses the first input takes no time that could be compared.
        if !kind.is_valid {
            return "- | -".to_owned();
        }
        let ratios =
            sorted(claims.iter().zip(&times[0]).map(|(with, without)| with / without).collect());
        let [middle, low, high] = [ROUNDS / 2, 1, ROUNDS - 2].map(|at| ratios[at]);
        format!("{middle:.2} | {low:.2} to {high:.2}")
    };
    let [ratio, twice] = [over_engine(&times[1]), over_engine(&times[2])];
    let [alone, with_claims, _] = times;
    println!(
        "| {} | {inputs} | {:.2} | {:.2} | {ratio} | {twice} | {}, {}, {} |",
        kind.name,
        sorted(alone)[ROUNDS / 2],
        sorted(with_claims)[ROUNDS / 2],
        counts.proven,
        counts.unclaimed,
        counts.unproven
    );
}

fn sorted(mut numbers: Vec<f64>) -> Vec<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// A transaction's place in the block, and some of its inputs.
type Part = (usize, Range<usize>);

/// As `godwit-chain` splits a block, but that small transactions do not share a part.
fn shares(txs: &[Tx]) -> Vec<Vec<Part>> {
    let mut shares = vec![Vec::new()];
    let mut waiting = 0;
    for (at, tx) in txs.iter().enumerate() {
        let count = tx.spent.len();
        let step = match count > 2 * INPUTS_PER_PART {
            true => INPUTS_PER_PART.max(count.div_ceil(PARTS_PER_TX)),
            false => count,
        };
        for from in (0..count).step_by(step) {
            if waiting >= SHARED_INPUTS {
                shares.push(Vec::new());
                waiting = 0;
            }
            let inputs = from..count.min(from + step);
            waiting += inputs.len();
            shares.last_mut().expect("there is one").push((at, inputs));
        }
    }
    shares
}

/// Time that this thread ran, which other programs disturb less than the time that passed (Linux; accurate to
/// a tick of some milliseconds).
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanoseconds = stat.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}

/// Milliseconds of a pass, the mean of as many as it takes, and what the verifier counted in one.
fn repeated(
    kind: &Kind,
    txs: &[Tx],
    shares: &[Vec<Part>],
    crosscheck: Option<NonZeroU32>,
    start: impl Fn() -> Scripts,
) -> (f64, Counts) {
    let (mut total, mut passes) = (Duration::ZERO, 0.0);
    loop {
        let mut scripts = start();
        total += pass(&mut scripts, txs, shares, crosscheck, kind.is_valid);
        passes += 1.0;
        if total >= SHORTEST {
            return (total.as_secs_f64() * 1e3 / passes, scripts.counts());
        }
    }
}

/// The time of one pass, with that of reading the transactions, as a worker does it.
fn pass(
    scripts: &mut Scripts,
    txs: &[Tx],
    shares: &[Vec<Part>],
    crosscheck: Option<NonZeroU32>,
    is_valid: bool,
) -> Duration {
    let start = processor_time();
    let views: Vec<TxView<'_>> =
        txs.iter().map(|tx| TxView::parse(&tx.bytes).expect("well-formed")).collect();
    let precomputed: Vec<_> =
        views.iter().map(|view| Arc::new(Precomputed::of(view.txid()))).collect();
    for share in shares {
        let spending: Vec<SpendingTx<'_>> = share
            .iter()
            .map(|(at, _)| {
                let spent = txs[*at].spent.iter().map(|output| SpentOutput {
                    value: output.value,
                    script_pubkey: &output.script_pubkey,
                });
                SpendingTx::with_precomputed(views[*at], spent, &precomputed[*at])
                    .expect("one output an input")
            })
            .collect();
        let groups: Vec<Group<'_, '_>> = share
            .iter()
            .zip(&spending)
            .map(|((_, inputs), tx)| Group {
                works: vec![Work { tx, inputs: inputs.clone() }],
                flags: ScriptFlags::ALL,
                crosscheck,
            })
            .collect();
        let verdicts = scripts.verify(&groups);
        assert_eq!(verdicts.iter().all(Verdict::is_ok), is_valid, "{verdicts:?}");
    }
    processor_time() - start
}
