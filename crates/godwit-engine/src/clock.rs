//! Replaces the C++ library's steady clock, which Core's library reads before `main`.
//!
//! Core's library has a static object that seeds Core's random number generator, and strengthens the seed
//! with SHA-512 until this clock has advanced by 100 ms (`Strengthen` in Core's `src/random.cpp`). So every
//! process that the library is linked into was busy for a tenth of a second before `main`: each start of the
//! node, each command of the signer. Strengthening is for seeds that can be guessed. This seed has 32 bytes
//! of the system's `getrandom`, and godwit takes nothing from that generator: all its randomness comes from
//! the system.
//!
//! `unsafe` is needed to export a function under the name of one in libstdc++, which the linker then uses
//! instead, and to call the system.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the reading after the first round of a thousand hashes. Of the two readings before it, one
/// goes into the seed, and one sets the time at which strengthening ends.
const BEHIND_FIRST_ROUND: u64 = 3;

/// For how long Core strengthens a seed, in nanoseconds.
const STRENGTHENED_FOR: i64 = 100_000_000;

const NANOSECONDS: i64 = 1_000_000_000;

/// Number of readings so far.
static READINGS: AtomicU64 = AtomicU64::new(0);

/// `std::chrono::steady_clock::now()`: nanoseconds of the monotonic clock, as in libstdc++. One reading,
/// which happens before `main` and which only Core's strengthening sees, is ahead by the time that Core would
/// strengthen for.
#[unsafe(export_name = "_ZNSt6chrono3_V212steady_clock3nowEv")]
extern "C" fn steady_clock_now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes one `timespec`. It has this clock, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    let now = time.tv_sec * NANOSECONDS + time.tv_nsec;
    let reading = READINGS.fetch_add(1, Ordering::Relaxed) + 1;
    if reading == BEHIND_FIRST_ROUND { now + STRENGTHENED_FOR } else { now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PreparedTx, ScriptError};

    /// If Core's library read another clock, there would be no readings; if this one did not jump ahead,
    /// there would be one for each of some hundred rounds.
    #[test]
    fn a_seed_is_strengthened_in_one_round() {
        // Makes the linker include Core's library.
        let nothing = PreparedTx::new(&[], [].into_iter());
        assert!(matches!(nothing, Err(ScriptError::MalformedTransaction)));
        assert_eq!(READINGS.load(Ordering::Relaxed), BEHIND_FIRST_ROUND);
    }
}
