//! Blocks that rot on the disk of a node with peers.

use std::path::Path;
use std::time::Duration;

use godwit_fault_disk::Survival;
use godwit_primitives::BlockHash;
use godwit_sim::rng::Rng;

use super::driver::{DIR, Discovery, Driver};
use super::run::{LIMIT, check, tip};
use super::scenarios::{company, honest, node, several};
use super::worlds::Stage;

/// Flips a bit of some connected blocks, wherever they are; returns them.
fn rot(driver: &mut Driver, rng: &mut Rng) -> Vec<BlockHash> {
    let chain = driver.core().chain();
    let height = chain.tip_point().height;
    let heights = (0..5).map(|_| rng.between(1, height.into()) as u32);
    let ids = heights.filter_map(|height| chain.tree().ancestor(chain.tip(), height));
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
