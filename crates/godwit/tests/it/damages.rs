//! Data directories that are damaged at random, one harm to one file of any kind that lies there, and started
//! with peers on loopback.
//!
//! The program ends at the peers' tip with their coins, and asks for no block but those that the harm took;
//! or it stops with one line that names file, place and command, and by that command it comes there.
//! `verify` finds the damage while it is there, and nothing at the end. It never panics, hangs, or has
//! other coins.

mod directory;
mod harm;
mod trial;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use godwit_sim::plan::ChainPlan;
use godwit_sim::rng::Rng;

use crate::kill::print;
use crate::sync::stops_in_time;

use directory::{files, kind};
use harm::Harm;
use trial::{Case, Trial, Work};
use world::{Masters, World};

/// Cases under way at once.
const THREADS: usize = 2;

/// What made the directory whole again, by kind of file and harm, and how often.
type Matrix = BTreeMap<(String, Harm), BTreeMap<String, usize>>;

/// These random harms to each kind of file; all of a seed are numbered from 0.
fn damages(world: &World, numbers: Range<u64>, seed: u64) {
    let serving = world.serve();
    let masters = Masters::make(world);
    let whole = masters.whole.node.network_dir();
    let mut kinds: Vec<String> = files(&whole).iter().map(|file| kind(file)).collect();
    kinds.sort();
    kinds.dedup();
    let kinds = &kinds;
    let cases: Vec<Case> = numbers
        .flat_map(|n| {
            (0..kinds.len()).map(move |place| Case {
                kind: kinds[place].clone(),
                // Each harm to each kind, by and by.
                first_harm: place + n as usize,
                seed: Rng::new(seed ^ (n << 8) ^ place as u64).next_u64(),
            })
        })
        .collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let matrix = Mutex::new(Matrix::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let work = Work::new();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match Trial::new(world, &masters, &work, case).run() {
                        Ok(Some((harm, by))) => {
                            let mut matrix = matrix.lock().expect("nobody panicked");
                            let cell = matrix.entry((case.kind.clone(), harm)).or_default();
                            *cell.entry(by).or_default() += 1;
                        }
                        Ok(None) => {}
                        Err(failure) => {
                            print(&format!("{failure}\n"));
                            failures.lock().expect("nobody panicked").push(failure);
                        }
                    }
                }
            });
        }
    });
    serving.into_iter().for_each(stops_in_time);
    show(&matrix.into_inner().expect("nobody panicked"));
    let failures = failures.into_inner().expect("nobody panicked");
    assert!(failures.is_empty(), "{} of {} cases: {failures:#?}", failures.len(), cases.len());
}

fn show(matrix: &Matrix) {
    let mut text = String::new();
    for ((kind, harm), cell) in matrix {
        let of = |(by, times): (&String, &usize)| format!("{by} ({times})");
        let cell: Vec<String> = cell.iter().map(of).collect();
        writeln!(text, "{kind:16} {:14} {}", format!("{harm:?}"), cell.join(", "))
            .expect("a string grows");
    }
    print(&text);
}

#[test]
fn five_random_damages_of_each_kind_of_file_end_in_the_peers_coins() {
    damages(&World::small(), 0..5, 1);
}

#[test]
#[ignore = "soak"]
fn two_hundred_random_damages_of_each_kind_of_file_end_in_the_peers_coins() {
    damages(&World::small(), 0..200, 2);
}

/// Of a directory of 540 MB. `GODWIT_DAMAGES_FROM` and `GODWIT_DAMAGES_TO` are the first number and the one
/// behind the last: one night is too short for all.
#[test]
#[ignore = "soak: hours"]
fn two_hundred_random_damages_of_each_kind_of_file_of_a_large_directory_end_in_the_peers_coins() {
    let number = |name, otherwise| {
        std::env::var(name).map_or(otherwise, |number| number.parse().expect("a number"))
    };
    let numbers = number("GODWIT_DAMAGES_FROM", 0)..number("GODWIT_DAMAGES_TO", 200);
    damages(&World::large(&ChainPlan::third(1), 270), numbers, 3);
}
