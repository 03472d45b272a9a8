//! A memory policy that is slower on purpose, through the workload, the harness and the words.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::hint::black_box;
use std::ptr::NonNull;
use std::time::Duration;

use godwit_bench::bench::{Group, Kind, Line, OURS};
use godwit_bench::harness::rounds::Here;
use godwit_bench::harness::{Plan, Runner, Subject, run_rounds};
use godwit_bench::workloads::streams::alloc_in;
use godwit_stream::{AllocError, Allocator, PUBLIC_MEMORY, PublicMemory};

/// How often a block is overwritten before it is freed: many times what filling it takes.
const TIMES: usize = 50;

/// Its line.
const SLOW: &str = "godwit, zero-after-free";

/// Overwrites a block again and again before it is freed.
#[derive(Clone, Copy)]
struct Slow;

// SAFETY: memory comes from `PUBLIC_MEMORY` and goes back to it with the same layout; copies of a
// value without fields are interchangeable.
unsafe impl Allocator for Slow {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        PUBLIC_MEMORY.allocate(layout)
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        for _ in 0..TIMES {
            // SAFETY: a block of this allocator, which the caller hands back.
            unsafe { black_box(memory).write_bytes(0, layout.size()) };
        }
        // SAFETY: the caller's promises are those of `PUBLIC_MEMORY`.
        unsafe { PUBLIC_MEMORY.deallocate(memory, layout) }
    }
}

fn line(name: &str, subject: &Subject, epochs: Vec<godwit_bench::harness::Epoch>) -> Line {
    let (unit, units_per_iteration) = (subject.unit.to_owned(), subject.units_per_iteration);
    let name = name.to_owned();
    Line { name, kind: Kind::Godwit, unit, units_per_iteration, epochs, callgrind: None }
}

/// How many measurements a busy machine may disturb, one after the other.
const TRIES: usize = 50;

/// Both policies, measured once.
fn measured() -> Group {
    let (mut plain, mut slow) = (alloc_in::<PublicMemory>(PUBLIC_MEMORY), alloc_in(Slow));
    let mut runners: Vec<Box<dyn Runner + '_>> =
        vec![Box::new(Here::new(&mut plain)), Box::new(Here::new(&mut slow))];
    let plan = Plan { epochs: 11, min_time: Duration::from_millis(50), long: false };
    let mut epochs = run_rounds(&mut runners, &plan, |_, _| ()).unwrap();
    drop(runners);
    let slow_epochs = epochs.pop().unwrap();
    let lines = vec![line(OURS, &plain, epochs.pop().unwrap()), line(SLOW, &slow, slow_epochs)];
    Group { name: "DataStreamAlloc".to_owned(), lines }
}

/// Of two epochs that lose their processor to another program, no figure is sure.
#[test]
fn a_policy_that_is_slower_on_purpose_is_seen_as_slower() {
    let mut seen = Vec::new();
    let is_seen = (0..TRIES).any(|_| {
        let group = measured();
        let excess = group.excess(SLOW, OURS).unwrap();
        let difference = group.difference(SLOW, OURS).unwrap();
        let is_slower = excess.is_real() && excess.low > 100.0;
        let is_seen = is_slower && difference.is_real() && difference.low > 0.0;
        seen.push((excess, difference));
        is_seen
    });
    assert!(is_seen, "{seen:?}");
}
