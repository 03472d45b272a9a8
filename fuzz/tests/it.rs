//! The targets over their seeds, without a fuzzer.

use godwit_fuzz::{TARGETS, Target};

/// One after another: they count the memory of the process.
#[test]
fn every_target_holds_for_its_seeds_and_what_is_near_them() {
    for Target { name, check, seeds } in TARGETS {
        let seeds = seeds();
        assert!(!seeds.is_empty(), "{name} has seeds");
        check(&[]);
        for seed in &seeds {
            check(seed);
            near(seed).iter().for_each(|input| check(input));
        }
        println!("{name}: {} seeds", seeds.len());
    }
}

/// The seed cut short, with a bit flipped and with a byte set, in places that its length gives.
fn near(seed: &[u8]) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for step in 1..=8u64 {
        let place = (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (seed.len() as u64 + 1)) as usize;
        inputs.push(seed[..place].to_vec());
        if let Some(byte) = seed.get(place) {
            for other in [byte ^ 1 << (step - 1), 0xff] {
                let mut input = seed.to_vec();
                input[place] = other;
                inputs.push(input);
            }
        }
    }
    inputs
}
