//! The pause before Tor is called again.

use std::time::Duration;

/// The first pause (Core `RECONNECT_TIMEOUT_START`).
const FIRST: Duration = Duration::from_secs(1);
/// Each is longer than the one before by a half (Core `RECONNECT_TIMEOUT_EXP`, 1.5).
const LONGER_BY: (u32, u32) = (3, 2);
/// The longest one (Core `RECONNECT_TIMEOUT_MAX`).
const LONGEST: Duration = Duration::from_secs(600);

/// Pauses between attempts. Core begins anew with each connection, also with those that Tor refuses; here
/// what ends the growth is a service.
#[derive(Clone, Copy, Debug)]
pub struct TorBackoff {
    next: Duration,
}

impl Default for TorBackoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl TorBackoff {
    /// The pause after an attempt that failed.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        let (numerator, denominator) = LONGER_BY;
        self.next = (pause * numerator / denominator).min(LONGEST);
        pause
    }

    /// There was a service.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_ten_minutes_and_begin_anew_after_a_service() {
        let mut backoff = TorBackoff::default();
        let millis = |backoff: &mut TorBackoff| backoff.pause().as_millis();
        let first: Vec<u128> = (0..4).map(|_| millis(&mut backoff)).collect();
        assert_eq!(first, [1000, 1500, 2250, 3375]);
        let last = (0..12).map(|_| millis(&mut backoff)).last();
        assert!(last < Some(600_000), "{last:?}");
        assert_eq!([millis(&mut backoff), millis(&mut backoff)], [600_000; 2]);
        backoff.reset();
        assert_eq!(millis(&mut backoff), 1000);
    }
}
