//! A power cut during a sync costs at most the last minute, and a clean end nothing.
//!
//! The network is so slow that a sync takes minutes, and the disk loses all that was not synced.

use std::time::Duration;

use godwit_fault_disk::Survival;
use godwit_sim::rng::Rng;

use super::driver::Driver;
use super::run::{LIMIT, check, tip};
use super::scenarios::{company, honest, several};
use super::timed::{Between, Delays, small_node};
use super::worlds::Stage;

const SECOND: Duration = Duration::from_secs(1);

/// What must survive a power cut that comes so much later.
const BOUND: Duration = Duration::from_secs(60);

/// The node at some time.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at: Duration,
    headers: usize,
    stored: usize,
    verified: u32,
}

fn look(driver: &mut Driver) -> Seen {
    let at = driver.crowd.now();
    let chain = driver.core().chain();
    let (headers, stored) = (chain.tree().len(), chain.tree().stored());
    Seen { at, headers, stored, verified: chain.tip_point().height }
}

fn start(seed: u64, rng: &mut Rng) -> Driver {
    let stage = Stage::heavy();
    let slow = Between(Duration::ZERO, Duration::from_secs(2));
    let delays = match rng.chance(300) {
        true => Delays { sync: slow, ..Delays::of(rng) },
        false => Delays::of(rng),
    };
    let plan = small_node(seed, delays);
    Driver::new(stage, plan, None, company(several(2, &honest(stage)), 6_000))
}

/// Lets the node run until that time, or until its chain is the best; as the real one, it looks at its
/// clock at least once a second.
fn run_to(driver: &mut Driver, end: Duration) -> Vec<Seen> {
    let mut seen = vec![look(driver)];
    while driver.crowd.now() < end {
        driver.run(driver.crowd.now() + SECOND, |_| false);
        driver.stirred = true;
        seen.push(look(driver));
    }
    seen
}

fn finish(mut driver: Driver) {
    let stage = Stage::heavy();
    let best = stage.world.best.tip().hash;
    if !driver.run(LIMIT, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached");
    }
    check(&mut driver, stage);
}

#[test]
fn a_power_cut_costs_at_most_the_last_minute_of_a_sync() {
    let mut cut_while_syncing = 0;
    for seed in 0..6 {
        let rng = &mut Rng::new(seed);
        let mut driver = start(seed, rng);
        let end = Duration::from_millis(rng.between(65_000, 400_000));
        let seen = run_to(&mut driver, end);
        let now = *seen.last().expect("it was looked at");
        let old = *seen.iter().rfind(|old| now.at - old.at >= BOUND).expect("minutes passed");
        let unwritten = driver.core().chain().status().unwritten_blocks;
        driver.kill(Survival::Nothing);
        let found = look(&mut driver);
        let status = *driver.core().chain().status();
        let durable = status.verified_durable.height;
        eprintln!("seed {seed}: {old:?}, cut at {now:?}: {found:?}, verified up to {durable}");
        assert!(found.headers >= old.headers && found.stored >= old.stored, "{old:?}: {found:?}");
        assert!(durable >= old.verified, "{old:?}: {durable}");
        let replayed = durable - status.coins_durable.height;
        assert!(replayed <= unwritten, "{replayed} of {unwritten}");
        cut_while_syncing += u32::from(old.stored < now.stored && old.verified > 0);
        finish(driver);
    }
    assert!(cut_while_syncing >= 3, "{cut_while_syncing} cuts in a sync");
}

#[test]
fn a_clean_end_of_a_node_leaves_nothing_to_replay() {
    for seed in 0..3 {
        let rng = &mut Rng::new(100 + seed);
        let mut driver = start(seed, rng);
        let end = Duration::from_millis(rng.between(65_000, 400_000));
        let verified = run_to(&mut driver, end).last().expect("it was looked at").verified;
        driver.stop();
        let status = *driver.core().chain().status();
        assert!(status.coins_durable.height >= verified, "{status:?}, {verified} before");
        assert_eq!(status.coins_durable, status.verified_durable);
        finish(driver);
    }
}
