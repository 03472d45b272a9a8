//! The C++20 control of the stream benchmarks: what `std::vector<std::byte, A>` costs for four
//! allocators, at three ways to compile it.
//!
//! bitcoin/bitcoin#30987 compared zero-after-free, a barrier without memset, and `std::allocator`.
//! The fourth, a custom allocator that does nothing of its own, separates what wiping costs from
//! what merely *not being* `std::allocator` costs in libstdc++: for any other allocator it fills a
//! vector by a loop that constructs one byte after the other. Where the compiler turns that loop
//! into one memcpy, nothing is lost. Where it does not, the loop takes five instructions per byte,
//! as in the pull request's tables for two of its three machines. [`Level::O2Loops`] is that case.
//!
//! Compiled with the flags that Core's own build gives GCC, hardening included, as `build.rs` lists
//! them; the levels share no code. Each workload is one call for many iterations, so what it
//! takes to cross from Rust does not show.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Mutex;

use crate::{Subject, scrambled};

/// What one iteration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A stream made from a span of 8,192 bytes, and dropped.
    Alloc = 0,
    /// A script of 1,002 bytes written to an empty stream as Core writes it: two writes for its
    /// compact size (1 and 2 bytes), one for its bytes, no room reserved; dropped.
    SerializeScript = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// Core's `zero_after_free_allocator`: memset and a compiler barrier before the block is freed.
    ZeroAfterFree = 0,
    /// The barrier without the memset.
    BarrierOnly = 1,
    /// Forwards to `std::allocator`, does nothing else.
    CustomNothing = 2,
    /// `std::allocator` itself.
    Standard = 3,
}

/// How the compiler optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Core's, for its builds with and without debug information.
    O2,
    /// The same, but a loop that copies stays a loop; loops begin at multiples of 32 bytes, so that none
    /// of them lies across two cache lines, which would make it half as fast.
    O2Loops,
    /// One above Core's.
    O3,
}

impl Workload {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Alloc, Self::SerializeScript];

    /// The benchmark's name in the pull request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alloc => "DataStreamAlloc",
            Self::SerializeScript => "DataStreamSerializeScript",
        }
    }

    /// Payload of one iteration in bytes, as the pull request counts it: without the three bytes of
    /// the compact size.
    pub const fn bytes(self) -> usize {
        self.input().len()
    }

    const fn input(self) -> &'static [u8] {
        match self {
            Self::Alloc => &ALLOC_INPUT,
            Self::SerializeScript => &SCRIPT,
        }
    }
}

impl Allocator {
    /// All four.
    pub const ALL: [Self; 4] =
        [Self::ZeroAfterFree, Self::BarrierOnly, Self::CustomNothing, Self::Standard];

    /// What the report calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ZeroAfterFree => "zero-after-free",
            Self::BarrierOnly => "barrier only",
            Self::CustomNothing => "custom, nothing",
            Self::Standard => "std::allocator",
        }
    }
}

impl Level {
    /// All three.
    pub const ALL: [Self; 3] = [Self::O2, Self::O2Loops, Self::O3];

    /// The compiler's options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::O2 => "-O2",
            Self::O2Loops => "-O2 -fno-tree-loop-distribute-patterns",
            Self::O3 => "-O3",
        }
    }
}

/// Iterations in one call of a [`Subject`]'s body.
const BATCH: u64 = 64;

static ALLOC_INPUT: [u8; 8192] = scrambled(1);

/// What Core's `RandScript(1000)` gives: a push of 999 bytes with a two-byte length.
static SCRIPT: [u8; 1002] = {
    let mut script = scrambled(2);
    [script[0], script[1], script[2]] = [0x4d, 0xe7, 0x03];
    script
};

type Run = unsafe extern "C" fn(c_int, c_int, *const c_void, usize, u64);

// SAFETY: the signatures are those of cpp/control.cpp.
unsafe extern "C" {
    fn control_O2_run(w: c_int, a: c_int, input: *const c_void, size: usize, iterations: u64);
    fn control_O2_loops_run(w: c_int, a: c_int, input: *const c_void, size: usize, iterations: u64);
    fn control_O3_run(w: c_int, a: c_int, input: *const c_void, size: usize, iterations: u64);
    fn control_inspect_run(w: c_int, a: c_int, input: *const c_void, size: usize, iterations: u64);
    fn control_inspect_take_counts(returned: *mut u64, not_zero: *mut u64);
}

/// Runs a workload so many times, in one call.
fn control_batch(workload: Workload, allocator: Allocator, level: Level, iterations: u64) {
    match level {
        Level::O2 => call(control_O2_run, workload, allocator, iterations),
        Level::O2Loops => call(control_O2_loops_run, workload, allocator, iterations),
        Level::O3 => call(control_O3_run, workload, allocator, iterations),
    }
}

fn call(run: Run, workload: Workload, allocator: Allocator, iterations: u64) {
    let input = workload.input();
    // SAFETY: `run` is one of the four functions above. It reads `input.len()` bytes from `input`
    // and keeps nothing. It throws only when the heap has no 8 KiB left, which ends the process.
    unsafe {
        run(workload as c_int, allocator as c_int, input.as_ptr().cast(), input.len(), iterations);
    }
}

/// Both workloads × four allocators × three levels, named as in
/// `DataStreamAlloc C++ zero-after-free -O2`.
pub fn control_subjects() -> Vec<Subject> {
    let mut subjects = Vec::new();
    for workload in Workload::ALL {
        for level in Level::ALL {
            for allocator in Allocator::ALL {
                let names = [workload.name(), "C++", allocator.name(), level.name()];
                let bytes = (BATCH * workload.bytes() as u64) as f64;
                let body = move || control_batch(workload, allocator, level, BATCH);
                subjects.push(Subject::new(names.join(" "), "byte", bytes, body));
            }
        }
    }
    subjects
}

/// What an allocator gave back to the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Bytes in all blocks.
    pub bytes: u64,
    /// How many of them were not zero.
    pub not_zero: u64,
}

/// Runs a workload in a build of the unit where each allocator, after its policy, looks at the block
/// it is about to return.
pub fn inspect(workload: Workload, allocator: Allocator, iterations: u64) -> Returned {
    // The counts are plain globals.
    static COUNTS: Mutex<()> = Mutex::new(());
    let _alone = COUNTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    call(control_inspect_run, workload, allocator, iterations);
    let mut counts = Returned { bytes: 0, not_zero: 0 };
    // SAFETY: it writes through both pointers; the lock keeps others from the counts.
    unsafe { control_inspect_take_counts(&mut counts.bytes, &mut counts.not_zero) };
    counts
}
