use std::ffi::OsString;
use std::hint::black_box;
use std::time::Duration;

use godwit_bench::harness::rounds::Here;
use godwit_bench::harness::{Counters, Epoch, Plan, Runner, Subject, callgrind, known_cost};
use godwit_bench::harness::{Figures, run_rounds};

/// How near a count of instructions has to be.
const WITHIN: f64 = 0.02;

/// Copies 4 KiB so many times: work that no reordering makes free.
fn copies(times: usize) -> Subject {
    let (from, mut to) = (vec![1u8; 4096], vec![0u8; 4096]);
    Subject::new("op", 1.0, move || {
        for _ in 0..times {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
    })
}

#[test]
fn ten_times_the_work_is_seen_as_slower() {
    let (mut fast, mut slow) = (copies(10), copies(100));
    let mut runners: Vec<Box<dyn Runner + '_>> =
        vec![Box::new(Here::new(&mut fast)), Box::new(Here::new(&mut slow))];
    let plan = Plan { epochs: 11, min_time: Duration::from_millis(50), long: false };
    let epochs = run_rounds(&mut runners, &plan, |_, _| ()).unwrap();
    let [fast, slow] = [0, 1].map(|n| Figures::of(&epochs[n], 1.0).unwrap().nanoseconds.median);
    assert!(slow > 2.0 * fast, "{slow} {fast}");
}

fn is_near(counted: f64) -> bool {
    let known = known_cost::INSTRUCTIONS as f64;
    (counted - known).abs() <= known * WITHIN
}

#[test]
fn the_processor_counts_known_instructions() {
    let Ok(mut counters) = Counters::open() else {
        godwit_testdata::skip("this system gives no hardware counters");
        return;
    };
    let epoch = Epoch::run(&mut known_cost::subject(), 20, Some(&mut counters));
    let Some(counts) = epoch.counts else {
        godwit_testdata::skip("something else has the hardware counters");
        return;
    };
    assert!(is_near(counts.instructions as f64 / 20.0), "{epoch:?}");
    assert!(counts.branches >= known_cost::INSTRUCTIONS / 2 * 20, "{epoch:?}");
}

#[test]
fn valgrind_counts_known_instructions() {
    if !callgrind::is_installed() {
        godwit_testdata::skip("valgrind is not installed");
        return;
    }
    let program = |iterations: u64| -> Vec<OsString> {
        let words = ["count", "References", "loop of two instructions", &iterations.to_string()];
        let program = [env!("CARGO_BIN_EXE_godwit-bench")];
        program.into_iter().chain(words).map(OsString::from).collect()
    };
    let counted = callgrind::instructions(3, program).unwrap();
    assert!(is_near(counted), "{counted}");
}
