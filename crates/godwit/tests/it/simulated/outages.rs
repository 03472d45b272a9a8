//! Links that fail: reset, stalled, or silently dead; one, or all of them at once, which is the node's own
//! line. No honest peer is let go for that, and the synchronisation ends.

use std::ops::Range;
use std::time::Duration;

use super::run::run_faulty;
use super::seeds::{check, in_parallel};

fn run_all(seeds: Range<u64>) {
    if let Ok(seed) = std::env::var("GODWIT_SIM_SEED") {
        let seed = seed.parse().expect("GODWIT_SIM_SEED is a number");
        eprintln!("{:?}", run_faulty(seed));
        return;
    }
    let outcomes = in_parallel(seeds, |seed| {
        let outcome = run_faulty(seed);
        check(seed, &outcome);
        outcome
    });
    let took: Duration = outcomes.iter().map(|(_, outcome)| outcome.took).sum();
    let longest = outcomes.iter().map(|(seed, outcome)| (outcome.took.as_secs(), *seed)).max();
    let most = outcomes.iter().map(|(_, outcome)| outcome.peak.connections).max();
    let memory = outcomes.iter().map(|(_, outcome)| outcome.peak.memory).max();
    let gone: usize = outcomes.iter().map(|(_, outcome)| outcome.disconnected).sum();
    eprintln!(
        "{} runs, {} s of simulated time (longest, and its seed: {longest:?}), at most {most:?} connections \
         and {memory:?} bytes held for them, {gone} disconnections",
        outcomes.len(),
        took.as_secs(),
    );
    assert!(most.is_some_and(|most| most > 50), "a hundred peers are among them");
}

#[test]
fn no_honest_peer_is_let_go_when_links_or_the_line_fail() {
    run_all(0..20);
}

#[test]
#[ignore = "soak"]
fn a_thousand_companies_whose_links_fail() {
    run_all(20..1_020);
}
