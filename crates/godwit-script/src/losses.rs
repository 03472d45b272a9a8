//! Decides when making claims is worth the time.
//!
//! An attacker can make any number of inputs whose claims hold and are still not proven by lanes: then the
//! lanes' time is lost, and the engine's time comes on top. Claims of honest inputs are practically always
//! proven. So lost time is remembered until it is made up for, and no claims are made while more than
//! [`PATIENCE`] is lost:
//!
//! ```text
//! made up for = an eighth of the engine's time + half of the time of claims that were proven
//! ```
//!
//! Let P be the time of proven claims and E the engine's time for all other inputs. If the lanes are at least
//! 1.5 times as fast as the engine, the engine alone would take at least 1.5 P + E. With claims the time is
//! P + E + losses, at most 1.5 P + 1.125 E + PATIENCE + the losses of one share. Nothing but time depends on
//! this.

use std::time::Duration;

use crate::queue::Effort;

/// One part in this many of the engine's time makes up for lost time.
const ENGINE_PART: u32 = 8;
/// One part in this many of the time of proven claims makes up for lost time.
const PROVEN_PART: u32 = 2;
/// Time that may be lost at first. One invalid input does not matter: it ends its block.
const PATIENCE: Duration = Duration::from_millis(20);
/// Once a share has this many checks in vain, and they are more than half of all its checks, it makes no more
/// claims.
const VAIN_CHECKS: u64 = 64;

/// Time that claims took in vain and that is not made up for yet.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    open: Duration,
}

impl Losses {
    #[cfg(test)]
    pub(crate) fn of(open: Duration) -> Self {
        Self { open }
    }

    #[cfg(test)]
    pub(crate) fn open(&self) -> Duration {
        self.open
    }

    /// Whether the next share should make claims.
    pub(crate) fn are_small(&self) -> bool {
        self.open <= PATIENCE
    }

    /// Counts the time of a share's claims. If no check was made, all of it was in vain.
    pub(crate) fn claims_took(&mut self, time: Duration, effort: Effort) {
        let vain = match effort.checks {
            0 => time,
            checks => time.mul_f64(effort.vain as f64 / checks as f64),
        };
        self.open += vain;
        self.make_up((time - vain) / PROVEN_PART);
    }

    /// Counts the time of the engine. Waiting is excluded, both for memory that others hold and for
    /// transactions that other threads have the engine read: it is not time of this thread's engine, and
    /// claims cost nothing during it.
    pub(crate) fn engine_took(&mut self, time: Duration) {
        self.make_up(time / ENGINE_PART);
    }

    fn make_up(&mut self, time: Duration) {
        self.open = self.open.saturating_sub(time);
    }
}

impl Effort {
    /// Whether a share should make no more claims.
    pub(crate) fn is_in_vain(self) -> bool {
        self.vain >= VAIN_CHECKS && 2 * self.vain > self.checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn lost(vain: u64, checks: u64) -> Losses {
        let mut losses = Losses::default();
        losses.claims_took(100 * MILLISECOND, Effort { checks, vain });
        losses
    }

    #[test]
    fn losses_are_made_up_for_by_eight_times_the_engine() {
        assert!(Losses::default().are_small());
        for (vain, checks) in [(64, 64), (0, 0)] {
            let mut losses = lost(vain, checks);
            assert!(!losses.are_small());
            losses.engine_took(639 * MILLISECOND);
            assert!(!losses.are_small());
            losses.engine_took(MILLISECOND);
            assert!(losses.are_small());
        }
    }

    #[test]
    fn what_is_proven_makes_up_for_half_as_much() {
        // 46 in vain, less 27.
        assert!(lost(46, 100).are_small());
        // 47, less 26.5.
        let mut losses = lost(47, 100);
        assert!(!losses.are_small());
        losses.engine_took(4 * MILLISECOND);
        assert!(losses.are_small());
    }

    #[test]
    fn nothing_is_saved_for_later_losses() {
        let mut losses = Losses::default();
        losses.engine_took(10_000 * MILLISECOND);
        losses.claims_took(PATIENCE + MILLISECOND, Effort { checks: 9, vain: 9 });
        assert!(!losses.are_small());
    }

    #[test]
    fn a_share_goes_on_until_a_batch_was_in_vain() {
        for (vain, checks, expected) in
            [(63, 63, false), (64, 64, true), (64, 127, true), (64, 128, false), (0, 0, false)]
        {
            assert_eq!(Effort { checks, vain }.is_in_vain(), expected, "{vain} of {checks}");
        }
    }
}
