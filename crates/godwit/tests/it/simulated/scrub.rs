//! What rots on the disk of a node that runs is found by its scrub, and is as it was soon after.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use godwit_chain::{CoinsMemory, InspectOptions, RepairPace, ScrubStatus, StartOptions, inspect};
use godwit_sim::rng::Rng;
use godwit_store::ScrubPlace;
use godwit_store::disk::Disk;
use godwit_store::exec::Threads;
use godwit_store::inspect::{Found, Stage as InspectStage, Watch};

use super::driver::{DIR, Discovery, Driver, NodePlan};
use super::run::{LIMIT, check, tip};
use super::scenarios::{company, honest, node, several};
use super::timed::{Delays, SMALL_CACHE, small_node};
use super::worlds::Stage;

const SECOND: Duration = Duration::from_secs(1);
const PAGE: usize = 4096;

fn scrub(driver: &mut Driver) -> ScrubStatus {
    driver.core().chain().status().scrub
}

fn place(driver: &mut Driver) -> Option<ScrubPlace> {
    scrub(driver).pass.map(|pass| pass.place)
}

/// Lets the node run until `done`; as the real one, it looks at its clock at least once a second.
fn run_until(driver: &mut Driver, done: impl Fn(&mut Driver) -> bool) {
    let end = driver.crowd.now() + LIMIT;
    while !done(driver) {
        if driver.crowd.now() > end {
            driver.fail("the scrub does not get there");
        }
        driver.run(driver.crowd.now() + SECOND, |driver| done(driver));
        driver.stirred = true;
    }
}

/// A node that has the best chain, and has read nothing of it again on the way.
fn synced(plan: NodePlan, stage: &'static Stage) -> Driver {
    let peers = company(several(3, &honest(stage)), 200_000);
    let mut driver = Driver::new(stage, plan, None, peers);
    let best = stage.world.best.tip().hash;
    let reached = driver.run(LIMIT, |driver| {
        let there = tip(driver) == best;
        if !there && scrub(driver) != ScrubStatus::default() {
            driver.fail("the scrub does not wait for the end of the sync");
        }
        there
    });
    if !reached {
        driver.fail("the best chain was not reached");
    }
    driver
}

fn files(driver: &Driver, dir: &str, extension: &str) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join(dir);
    // It is the test that looks.
    driver.executor.disarm();
    let names = driver.disk.list(&dir).expect("a directory");
    driver.executor.arm();
    let mut paths: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths
}

#[derive(Default)]
struct Notes(Vec<Found>);

impl Watch for Notes {
    fn found(&mut self, found: Found) {
        self.0.push(found);
    }

    fn progress(&mut self, _: InspectStage, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// What `verify` finds in the directory of the node, which has ended.
fn damage(driver: &Driver) -> Vec<Found> {
    let options = InspectOptions {
        params: Arc::clone(&driver.stage.params),
        executor: Arc::new(Threads::default()),
        threads: 1,
        repair: false,
        memory: CoinsMemory::Fixed(4 << 20),
        pace: RepairPace::default(),
        start: StartOptions::default(),
        audit: None,
    };
    let (disk, mut notes): (Arc<dyn Disk>, _) = (Arc::new(driver.disk.copy()), Notes::default());
    inspect(&disk, Path::new(DIR), options, &mut notes).expect("it can be read");
    notes.0
}

/// Ends the node and looks at all that it has left.
fn finish(mut driver: Driver, stage: &Stage) {
    check(&mut driver, stage);
    // A run that a merge has replaced is not read any more, and named until the next commit of coins.
    driver.core().chain_mut().flush().expect("no fault");
    driver.stop();
    driver.executor.disarm();
    drop(driver.core.take());
    assert_eq!(damage(&driver), []);
}

#[test]
fn c5_rotted_blocks_and_undo_records_are_found_by_a_node_that_nobody_asks_for_them() {
    for seed in 0..4 {
        let (rng, stage) = (&mut Rng::new(seed), Stage::mixed());
        let mut driver = synced(node(seed, Discovery::Connect), stage);
        let before = driver.disk.contents(&files(&driver, "blocks", "dat")[0]).expect("blocks");
        let chain = driver.core().chain();
        let height = u64::from(chain.tip_point().height);
        let heights = (0..5).map(|_| rng.between(1, height) as u32);
        let ids = heights.filter_map(|height| chain.tree().ancestor(chain.tip(), height));
        let mut nodes: Vec<_> = ids.map(|id| chain.tree().node(id)).collect();
        nodes.dedup_by_key(|node| node.height);
        for (n, node) in nodes.iter().enumerate() {
            let (at, undo) = (node.position.expect("stored"), node.undo.expect("connected"));
            let (name, offset, len) = match n % 2 {
                0 => ("blk", u64::from(at.offset), at.len),
                _ => ("rev", undo.offset, undo.len),
            };
            let path = Path::new(DIR).join(format!("blocks/{name}{:05}.dat", at.file));
            let mut bytes = driver.disk.contents(&path).expect("a file");
            bytes[offset as usize + rng.below(len.into()) as usize] ^= 1 << rng.below(8);
            driver.disk.overwrite(&path, bytes);
        }
        driver.arrived.clear();
        run_until(&mut driver, |driver| place(driver) == Some(ScrubPlace::Done));
        let found = scrub(&mut driver);
        eprintln!("seed {seed}: {found:?}");
        assert!(found.lost >= 2 && found.repaired >= 1 && found.left == 0, "{found:?}");
        assert!(nodes.iter().step_by(2).all(|node| driver.arrived.contains(&node.hash)));
        let after = driver.disk.contents(&files(&driver, "blocks", "dat")[0]).expect("blocks");
        assert!(before == after, "the blocks are as they were");
        finish(driver, stage);
    }
}

#[test]
fn c5_rotted_runs_and_parity_are_repaired_in_a_node_that_does_not_need_them() {
    for seed in 0..4 {
        let (rng, stage) = (&mut Rng::new(seed), Stage::light());
        let timed = seed % 2 == 1;
        let plan = match timed {
            true => small_node(seed, Delays::of(rng)),
            false => NodePlan { minima: SMALL_CACHE, ..node(seed, Discovery::Connect) },
        };
        let mut driver = synced(plan, stage);
        run_until(&mut driver, |driver| matches!(place(driver), Some(ScrubPlace::Blocks { .. })));
        let runs = files(&driver, "utxo", "run");
        assert!(runs.len() >= 2, "{runs:?}");
        for path in &runs {
            let mut bytes = driver.disk.contents(path).expect("a run");
            bytes[rng.below(PAGE as u64) as usize] ^= 1 << rng.below(8);
            driver.disk.overwrite(path, bytes);
            let path = path.with_extension("parity");
            let mut bytes = driver.disk.contents(&path).expect("its parity");
            if bytes.len() > PAGE {
                bytes[PAGE + rng.below(PAGE as u64) as usize] ^= 1 << rng.below(8);
                driver.disk.overwrite(&path, bytes);
            }
        }
        run_until(&mut driver, |driver| place(driver) == Some(ScrubPlace::Done));
        let found = scrub(&mut driver);
        eprintln!("seed {seed}: {} runs, {found:?}", runs.len());
        assert!(found.repaired > 0 && found.left == 0, "{found:?}");
        finish(driver, stage);
    }
}
