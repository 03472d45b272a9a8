//! The C++ library's steady clock, as Core's library reads it before `main`.
//!
//! That library has a static object that seeds Core's random number generator, and strengthens the seed with
//! SHA-512 until this clock has gone on by 100 ms (`Strengthen` in Core's `src/random.cpp`). So every process
//! that the library is linked into was busy for a tenth of a second before it began: each start of the node,
//! each command of the signer. Strengthening is for seeds that can be guessed. This one has 32 bytes of the
//! system's `getrandom`, and godwit takes nothing from that generator: what is random in it comes from the
//! system.
//!
//! `unsafe` is here because a function gets the name of one of libstdc++, which the linker takes in its
//! place, and calls the system.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// The reading behind the first round of a thousand hashes. Before it, one goes into the seed, and one says
/// when strengthening ends.
const BEHIND_FIRST_ROUND: u64 = 3;

/// For how long Core strengthens a seed, in nanoseconds.
const STRENGTHENED_FOR: i64 = 100_000_000;

const NANOSECONDS: i64 = 1_000_000_000;

/// Readings so far.
static READINGS: AtomicU64 = AtomicU64::new(0);

/// `std::chrono::steady_clock::now()`: nanoseconds of the monotonic clock, as in libstdc++. One reading,
/// before `main` and not seen by anything else, is ahead by what Core would wait for.
#[unsafe(export_name = "_ZNSt6chrono3_V212steady_clock3nowEv")]
extern "C" fn steady_clock_now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes one `timespec`. It has this clock, so that there is no failure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let now = time.tv_sec * NANOSECONDS + time.tv_nsec;
    let reading = READINGS.fetch_add(1, Ordering::Relaxed) + 1;
    if reading == BEHIND_FIRST_ROUND { now + STRENGTHENED_FOR } else { now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PreparedTx, ScriptError};

    /// If the clock were not the one that Core's library reads, there would be no reading; if it did not go
    /// on, one for each of a hundred rounds.
    #[test]
    fn a_seed_is_strengthened_in_one_round() {
        // Core's library is linked.
        let nothing = PreparedTx::new(&[], [].into_iter());
        assert!(matches!(nothing, Err(ScriptError::MalformedTransaction)));
        assert_eq!(READINGS.load(Ordering::Relaxed), BEHIND_FIRST_ROUND);
    }
}
