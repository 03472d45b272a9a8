//! Measurements over the whole run in bounded memory: when all places are used, every other sample is dropped
//! and the interval doubles.

use super::estimate::Sample;

/// Samples that are kept; each takes some hundred bytes.
const MAX_POINTS: usize = 240;

/// Seconds between samples at first.
const FIRST_INTERVAL: f64 = 1.0;

/// Samples in the order of time.
#[derive(Clone, Debug)]
pub(super) struct History {
    samples: Vec<Sample>,
    interval: f64,
}

impl Default for History {
    fn default() -> Self {
        Self::with_interval(FIRST_INTERVAL)
    }
}

impl History {
    /// Samples are at first so many seconds apart.
    pub(super) fn with_interval(seconds: f64) -> Self {
        Self { samples: Vec::with_capacity(MAX_POINTS + 1), interval: seconds }
    }

    /// The last sample is always the latest; it stays if the next one is far enough from the one before it.
    pub(super) fn push(&mut self, sample: Sample) {
        let count = self.samples.len();
        let is_near = count >= 2 && sample.at - self.samples[count - 2].at < self.interval;
        if is_near {
            self.samples.pop();
        }
        self.samples.push(sample);
        if self.samples.len() > MAX_POINTS {
            self.interval *= 2.0;
            let last = self.samples.len() - 1;
            let mut n = 0;
            self.samples.retain(|_| {
                let stays = n % 2 == 0 || n == last;
                n += 1;
                stays
            });
        }
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Of the last so many seconds, or of all if there is less.
    pub(super) fn last(&self, seconds: f64) -> Option<Sample> {
        let last = self.samples.last()?;
        let later = self.samples.partition_point(|sample| sample.at <= last.at - seconds);
        Some(last.since(self.samples.get(later.saturating_sub(1))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Sample {
        Sample { at: seconds, blocks: seconds * 2.0, ..Sample::default() }
    }

    #[test]
    fn a_year_takes_no_more_than_the_places_and_the_ends_stay() {
        let mut history = History::default();
        for n in 0..400_000 {
            history.push(at(f64::from(n) * 80.0));
            assert!(history.samples().len() <= MAX_POINTS);
        }
        let samples = history.samples();
        assert_eq!(samples[0].at, 0.0);
        assert_eq!(samples.last().map(|last| last.at), Some(399_999.0 * 80.0));
        assert!(samples.len() > MAX_POINTS / 3, "{}", samples.len());
        assert!(samples.is_sorted_by(|a, b| a.at < b.at));
        assert!(size_of_val(samples) <= MAX_POINTS * 128);
    }

    #[test]
    fn the_latest_is_always_there() {
        let mut history = History::default();
        for tenth in 0..=25 {
            history.push(at(f64::from(tenth) / 10.0));
        }
        let times: Vec<f64> = history.samples().iter().map(|sample| sample.at).collect();
        assert_eq!(times, [0.0, 0.9, 1.9, 2.5]);
        let past = history.last(1.2).expect("samples");
        assert!((past.at - 1.6).abs() < 1e-9 && (past.blocks - 3.2).abs() < 1e-9, "{past:?}");
        assert_eq!(history.last(100.0).map(|past| past.at), Some(2.5));
        assert_eq!(History::default().last(1.0), None);
    }
}
