//! Blocks that rot on the disk of a node with peers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use godwit_fault_disk::Survival;
use godwit_primitives::BlockHash;
use godwit_sim::network::{Conduct, View};
use godwit_sim::rng::Rng;

use super::driver::{DIR, Discovery, Driver};
use super::run::{LIMIT, check, tip};
use super::scenarios::{company, honest, node, several};
use super::worlds::Stage;

/// Flips a bit of some connected blocks, wherever they are; returns them.
fn rot(driver: &mut Driver, rng: &mut Rng) -> Vec<BlockHash> {
    let height = driver.core().chain().tip_point().height;
    let heights: Vec<u32> = (0..5).map(|_| rng.between(1, height.into()) as u32).collect();
    rot_at(driver, &heights, rng)
}

/// Flips a bit of each of the blocks at these heights; returns them.
fn rot_at(driver: &mut Driver, heights: &[u32], rng: &mut Rng) -> Vec<BlockHash> {
    let chain = driver.core().chain();
    let ids = heights.iter().filter_map(|height| chain.tree().ancestor(chain.tip(), *height));
    let nodes: Vec<_> = ids.map(|id| chain.tree().node(id)).collect();
    for node in &nodes {
        let at = node.position.expect("nothing was pruned");
        let path = Path::new(DIR).join(format!("blocks/blk{:05}.dat", at.file));
        let mut bytes = driver.disk.contents(&path).expect("the file of a stored block");
        bytes[at.offset as usize + rng.below(at.len.into()) as usize] ^= 1 << rng.below(8);
        driver.disk.overwrite(&path, bytes);
    }
    nodes.iter().map(|node| node.hash).collect()
}

#[test]
fn c5_rotted_blocks_are_fetched_again_from_peers_and_nothing_ends() {
    let mut fetched = 0;
    for seed in 0..4 {
        let rng = &mut Rng::new(seed);
        let stage = Stage::mixed();
        let peers = company(several(3, &honest(stage)), 50_000);
        let mut driver = Driver::new(stage, node(seed, Discovery::Connect), None, peers);
        let best = stage.world.best.tip().hash;
        if !driver.run(LIMIT, |driver| tip(driver) == best) {
            driver.fail("the best chain was not reached");
        }
        // So that all of it is verified, and will be applied again.
        let now = driver.crowd.now();
        driver.run(now + Duration::from_secs(120), |_| false);
        let rotten = rot(&mut driver, rng);
        driver.kill(Survival::All);
        driver.arrived.clear();
        let now = driver.crowd.now();
        if !driver.run(now + LIMIT, |driver| tip(driver) == best) {
            driver.fail("the best chain was not reached again");
        }
        fetched += rotten.iter().filter(|hash| driver.arrived.contains(hash)).count();
        let now = driver.crowd.now();
        driver.run(now + Duration::from_secs(60), |_| false);
        check(&mut driver, stage);
    }
    assert!(fetched >= 8, "{fetched} rotted blocks were fetched again");
}

/// The peers have left the chain whose last blocks have rotted here, and give them all the same.
#[test]
fn c5_a_rotted_tip_that_the_peers_have_left_is_fetched_again_before_it_is_left() {
    const CHANGE: Duration = Duration::from_secs(300);
    for seed in 0..4 {
        let rng = &mut Rng::new(seed);
        let stage = Stage::mixed();
        let (best, old) = (&stage.world.best, &stage.world.stale[1]);
        let view = View::constant(Arc::clone(old)).then(CHANGE, Arc::clone(best));
        let peers = company(several(3, &Conduct::honest(view)), 50_000);
        let mut driver = Driver::new(stage, node(seed, Discovery::Connect), None, peers);
        let old = old.tip().hash;
        if !driver.run(CHANGE, |driver| tip(driver) == old) {
            driver.fail("the first chain was not reached");
        }
        let height = driver.core().chain().tip_point().height;
        let rotten = rot_at(&mut driver, &[height, height - 1], rng);
        driver.arrived.clear();
        let best = best.tip().hash;
        if !driver.run(CHANGE + LIMIT, |driver| tip(driver) == best) {
            driver.fail("the best chain was not reached");
        }
        assert!(rotten.iter().all(|hash| driver.arrived.contains(hash)), "{rotten:?}");
        let now = driver.crowd.now();
        driver.run(now + Duration::from_secs(60), |_| false);
        check(&mut driver, stage);
    }
}
