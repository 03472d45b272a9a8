//! A mean and what is known of it: Student's t.

use serde::{Deserialize, Serialize};

/// How sure an interval is.
const CONFIDENCE: f64 = 0.95;

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of observations.
    pub count: usize,
}

impl Interval {
    /// Of independent observations; `None` of fewer than two, whose spread is unknown.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let degrees = u32::try_from(numbers.len()).ok()?.checked_sub(1).filter(|n| *n > 0)?;
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>();
        let error_of_mean = (squares / f64::from(degrees) / count).sqrt();
        let half = quantile(CONFIDENCE, degrees) * error_of_mean;
        Some(Self { mean, low: mean - half, high: mean + half, count: numbers.len() })
    }

    /// Whether zero lies outside.
    pub fn is_real(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The number that the absolute value of Student's t stays below with this probability.
fn quantile(probability: f64, degrees: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while within(high, degrees) < probability {
        high *= 2.0;
    }
    // One bit of the result each.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match within(middle, degrees) < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// The probability that the absolute value of Student's t is at most `t`: the finite series for whole
/// degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn within(t: f64, degrees: u32) -> f64 {
    let angle = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    let (mut term, first) = if odd { (cosine, 2) } else { (1.0, 1) };
    let mut sum = 0.0;
    for k in (first..degrees).step_by(2) {
        sum += term;
        term *= cosine * cosine * f64::from(k) / f64::from(k + 1);
    }
    match odd {
        true => (angle + sine * sum) * std::f64::consts::FRAC_2_PI,
        false => sine * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_printed_tables() {
        for (degrees, expected) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (9, 2.262),
            (10, 2.228),
            (14, 2.145),
            (29, 2.045),
            (30, 2.042),
            (120, 1.980),
        ] {
            let found = quantile(0.95, degrees);
            assert!((found - expected).abs() < 0.000_51, "{degrees}: {found}, not {expected}");
        }
        assert!((quantile(0.99, 9) - 3.250).abs() < 0.000_51);
    }

    #[test]
    fn an_interval_by_hand() {
        // Mean 3; deviations -2 -1 0 1 2, squares 10, variance 2.5, error of the mean
        // sqrt(2.5 / 5) = 0.70711, times 2.77645.
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((interval.mean, interval.count), (3.0, 5));
        assert!((interval.high - 4.963_24).abs() < 1e-4, "{interval:?}");
        assert!((interval.low - 1.036_76).abs() < 1e-4, "{interval:?}");
        assert!(interval.is_real());
    }

    #[test]
    fn what_holds_zero_is_not_real_and_one_number_has_no_interval() {
        assert!(!Interval::of(&[-1.0, 1.0, 2.0]).unwrap().is_real());
        assert!(Interval::of(&[-1.0, -1.1, -0.9]).unwrap().is_real());
        assert_eq!(Interval::of(&[1.0]), None);
        assert_eq!(Interval::of(&[]), None);
    }
}
