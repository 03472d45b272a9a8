//! A few measurements of the same thing.

use serde::{Deserialize, Serialize};

/// Median and range of some numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean of the two in the middle where their number is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of some numbers, none of them NaN; `None` of nothing.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        };
        Some(Self { median, min, max })
    }

    /// As [`Self::with_range`]; nothing of nothing.
    pub fn text_of(numbers: impl IntoIterator<Item = f64>, digits: usize) -> String {
        Self::of(numbers).map_or_else(String::new, |spread| spread.with_range(digits))
    }

    /// As in `20.7 (20.1–21.4)`.
    pub fn with_range(self, digits: usize) -> String {
        let Self { median, min, max } = self;
        format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_even_and_none() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread { median: 2.0, min: 1.25, max: 3.0 }.with_range(1), "2.0 (1.2–3.0)");
    }
}
