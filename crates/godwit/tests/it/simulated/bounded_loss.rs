//! A power cut during a sync costs at most the last minute, and a clean end nothing.
//!
//! The network is so slow that a sync takes minutes, and the disk loses all that was not synced.

use std::ops::Range;
use std::time::Duration;

use godwit_fault_disk::Survival;
use godwit_sim::rng::Rng;

use super::driver::{BOUND, Driver};
use super::run::{LIMIT, check, tip};
use super::scenarios::{company, honest, several};
use super::timed::{Between, Delays, DiskDelays, small_node};
use super::worlds::Stage;

const SECOND: Duration = Duration::from_secs(1);

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

/// Some disk.
fn any_disk(rng: &mut Rng) -> Delays {
    let slow = rng.chance(300);
    let delays = Delays::of(rng);
    if slow { delays.with_syncs(2 * SECOND) } else { delays }
}

fn start(seed: u64, rng: &mut Rng, delays: fn(&mut Rng) -> Delays) -> Driver {
    let stage = Stage::heavy();
    let plan = small_node(seed, delays(rng));
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

fn cut_while_syncing(seeds: Range<u64>, delays: fn(&mut Rng) -> Delays) {
    let (mut cut_while_syncing, count) = (0, seeds.end - seeds.start);
    for seed in seeds {
        let rng = &mut Rng::new(seed);
        let mut driver = start(seed, rng, delays);
        let end = Duration::from_millis(rng.between(65_000, 400_000));
        let seen = run_to(&mut driver, end);
        let now = *seen.last().expect("it was looked at");
        let old = *seen.iter().rfind(|old| now.at - old.at >= BOUND).expect("minutes passed");
        let status = *driver.core().chain().status();
        assert!(status.replay <= BOUND, "{:?}", status.replay);
        driver.kill(Survival::Nothing);
        let found = look(&mut driver);
        let left = *driver.core().chain().status();
        let durable = left.verified_durable.height;
        eprintln!("seed {seed}: {old:?}, cut at {now:?}: {found:?}, verified up to {durable}");
        assert!(found.headers >= old.headers && found.stored >= old.stored, "{old:?}: {found:?}");
        assert!(durable >= old.verified, "{old:?}: {durable}");
        let replayed = durable - left.coins_durable.height;
        assert!(replayed <= status.unwritten_blocks, "{replayed} of {}", status.unwritten_blocks);
        cut_while_syncing += u64::from(old.stored < now.stored && old.verified > 0);
        let replay_ends = driver.crowd.now() + BOUND;
        let is_replayed = |driver: &mut Driver| driver.core().chain().tip_point().height >= durable;
        assert!(
            driver.run(replay_ends, is_replayed),
            "{replayed} blocks take longer than {BOUND:?}"
        );
        finish(driver);
    }
    assert!(cut_while_syncing >= count / 2, "{cut_while_syncing} cuts in a sync");
}

fn end_while_syncing(seeds: Range<u64>, delays: fn(&mut Rng) -> Delays) -> Duration {
    let mut longest = Duration::ZERO;
    for seed in seeds {
        let rng = &mut Rng::new(seed);
        let mut driver = start(seed, rng, delays);
        let end = Duration::from_millis(rng.between(65_000, 400_000));
        let verified = run_to(&mut driver, end).last().expect("it was looked at").verified;
        driver.stop();
        longest = longest.max(driver.end_took);
        let status = *driver.core().chain().status();
        assert!(status.coins_durable.height >= verified, "{status:?}, {verified} before");
        assert_eq!(status.coins_durable, status.verified_durable);
        finish(driver);
    }
    longest
}

#[test]
fn a_power_cut_costs_at_most_the_last_minute_of_a_sync() {
    cut_while_syncing(0..6, any_disk);
}

#[test]
fn a_clean_end_of_a_node_leaves_nothing_to_replay() {
    end_while_syncing(100..103, any_disk);
}

/// A slow processor besides.
fn hard_disk(_: &mut Rng) -> Delays {
    Delays { cpu: Between(Duration::ZERO, Duration::from_millis(20)), disk: DiskDelays::Hard }
}

#[test]
fn on_a_hard_disk_a_power_cut_costs_at_most_the_last_minute_of_a_sync() {
    cut_while_syncing(200..203, hard_disk);
}

/// At any moment of a sync with flushes and merges under way.
#[test]
fn on_a_hard_disk_a_node_ends_within_five_seconds_and_leaves_nothing_to_replay() {
    let took = end_while_syncing(300..305, hard_disk);
    eprintln!("{took:?} at most");
    assert!(took <= 5 * SECOND, "{took:?}");
}

#[test]
#[ignore = "soak"]
fn on_a_hard_disk_the_bounds_hold_a_hundred_times() {
    cut_while_syncing(1_000..1_100, hard_disk);
    let took = end_while_syncing(2_000..2_100, hard_disk);
    eprintln!("{took:?} at most");
    assert!(took <= 5 * SECOND, "{took:?}");
}
