//! An estimate of some differences and what is known of it, without a belief in bell curves: runs that
//! a machine disturbs are rare and far off.
//!
//! The estimate is Hodges and Lehmann's: the median of the means of all pairs, each number with itself
//! among them. Its interval is the one that Wilcoxon's signed-rank test gives: the values which the
//! test, with its exact distribution, does not refuse. Both assume that differences lie evenly around
//! their median, which those of paired runs do when pairs differ by chance alone.

use serde::{Deserialize, Serialize};

/// How sure an interval is at least.
const CONFIDENCE: f64 = 0.95;

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The median of the means of all pairs.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of observations.
    pub count: usize,
}

impl Interval {
    /// Of independent observations, none of them NaN; `None` of fewer than six, of which no interval is
    /// so sure.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let outside = outside(numbers.len())?;
        let mut means: Vec<f64> = Vec::with_capacity(numbers.len() * (numbers.len() + 1) / 2);
        for (index, one) in numbers.iter().enumerate() {
            means.extend(numbers[index..].iter().map(|other| f64::midpoint(*one, *other)));
        }
        means.sort_by(f64::total_cmp);
        let last = means.len() - 1;
        Some(Self {
            estimate: f64::midpoint(means[last / 2], means[last - last / 2]),
            low: means[outside],
            high: means[last - outside],
            count: numbers.len(),
        })
    }

    /// Of ratios: a half and a double lie equally far from one.
    pub fn of_ratios(ratios: &[f64]) -> Option<Self> {
        Self::of_logarithms(ratios, f64::exp)
    }

    /// Of ratios, as percent more than one.
    pub fn of_excess(ratios: &[f64]) -> Option<Self> {
        Self::of_logarithms(ratios, |logarithm| logarithm.exp_m1() * 100.0)
    }

    fn of_logarithms(ratios: &[f64], back: fn(f64) -> f64) -> Option<Self> {
        let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let Self { estimate, low, high, count } = Self::of(&logarithms)?;
        Some(Self { estimate: back(estimate), low: back(low), high: back(high), count })
    }

    /// Whether zero lies outside.
    pub fn is_real(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// How many of the sorted means lie outside the interval at either end: the largest sum of ranks that
/// the test calls too small.
fn outside(count: usize) -> Option<usize> {
    // Of sums of ranks 1 to `count`, each rank in it or not with the same probability.
    let mut probability = vec![1.0];
    for rank in 1..=count {
        let mut next = vec![0.0; probability.len() + rank];
        for (sum, p) in probability.iter().enumerate() {
            next[sum] += p / 2.0;
            next[sum + rank] += p / 2.0;
        }
        probability = next;
    }
    let mut up_to = 0.0;
    let too_likely = probability.iter().position(|p| {
        up_to += p;
        up_to > (1.0 - CONFIDENCE) / 2.0
    })?;
    too_likely.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_the_printed_tables() {
        // Wilcoxon's table, two-sided 5 %: the largest sum of ranks that is significant.
        let table = [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (11, 10), (12, 13), (20, 52)];
        for (count, ranks) in table {
            assert_eq!(outside(count), Some(ranks), "{count}");
        }
        assert_eq!((0..6).filter_map(outside).count(), 0);
    }

    #[test]
    fn an_interval_by_hand() {
        // Six numbers leave no mean outside: the interval is their range. Of the 21 means of 1 to 6
        // the median is 3.5.
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(interval, Interval { estimate: 3.5, low: 1.0, high: 6.0, count: 6 });
        // Seven leave two: 0, 0.5 below; 6, 5.5 above.
        let interval = Interval::of(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!((interval.low, interval.estimate, interval.high), (1.0, 3.0, 5.0));
        assert!(interval.is_real());
    }

    #[test]
    fn one_disturbed_run_moves_little() {
        let mut numbers: Vec<f64> = (-8..=8).map(|n| f64::from(n) / 10.0).collect();
        let quiet = Interval::of(&numbers).unwrap();
        numbers.push(50.0);
        let disturbed = Interval::of(&numbers).unwrap();
        assert!((disturbed.estimate - quiet.estimate).abs() < 0.1, "{disturbed:?}");
        assert!(disturbed.high < 0.5 && !disturbed.is_real(), "{disturbed:?}");
    }

    #[test]
    fn what_holds_zero_is_not_real_and_five_numbers_have_no_interval() {
        assert!(Interval::of(&[-1.0, -1.1, -0.9, -1.2, -0.8, -1.3]).unwrap().is_real());
        assert!(!Interval::of(&[-1.0, 1.0, 2.0, -2.0, 3.0, -3.0]).unwrap().is_real());
        assert_eq!(Interval::of(&[1.0; 5]), None);
    }

    #[test]
    fn half_and_double_lie_equally_far_off() {
        let ratios = [0.5, 2.0, 0.5, 2.0, 0.5, 2.0];
        let Interval { estimate, low, high, .. } = Interval::of_excess(&ratios).unwrap();
        assert!(estimate.abs() < 1e-9, "{estimate}");
        assert!((low + 50.0).abs() < 1e-9 && (high - 100.0).abs() < 1e-9, "{low} {high}");
        let Interval { estimate, low, high, .. } = Interval::of_ratios(&ratios).unwrap();
        assert!((estimate - 1.0).abs() < 1e-9, "{estimate}");
        assert!((low - 0.5).abs() < 1e-9 && (high - 2.0).abs() < 1e-9, "{low} {high}");
    }
}
