//! Summarises the epochs of one subject.

use crate::spread::Spread;

use super::Epoch;

/// Median absolute percentage error above which a figure is marked as unstable, as nanobench has it.
pub const UNSTABLE: f64 = 0.05;

/// The columns of nanobench's table. Figures are per unit and medians over the epochs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Nanoseconds, with the fastest and the slowest epoch.
    pub nanoseconds: Spread,
    /// Median absolute percentage error of the nanoseconds: 0.01 is 1 %.
    pub error: f64,
    /// What the counters say; `None` without them.
    pub counted: Option<Counted>,
    /// Seconds of all epochs together.
    pub total_seconds: f64,
}

/// Figures of the hardware counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Instructions per unit.
    pub instructions: f64,
    /// Cycles per unit.
    pub cycles: f64,
    /// Branches per unit.
    pub branches: f64,
    /// Mispredicted branches among all branches.
    pub miss_rate: f64,
}

impl Counted {
    /// Instructions in each cycle.
    pub fn instructions_per_cycle(&self) -> f64 {
        self.instructions / self.cycles
    }
}

impl Figures {
    /// `None` of no epochs.
    pub fn of(epochs: &[Epoch], units_per_iteration: f64) -> Option<Self> {
        let per_unit = |epoch: &Epoch| epoch.per_iteration() / units_per_iteration;
        let nanoseconds = Spread::of(epochs.iter().map(per_unit))?;
        let off = |epoch| (per_unit(epoch) - nanoseconds.median).abs() / nanoseconds.median;
        Some(Self {
            nanoseconds,
            error: Spread::of(epochs.iter().map(off))?.median,
            counted: counted(epochs, units_per_iteration),
            total_seconds: epochs.iter().map(|epoch| epoch.nanoseconds as f64 / 1e9).sum(),
        })
    }

    /// Whether the epochs differ too much for the median to be relied on.
    pub fn is_unstable(&self) -> bool {
        self.error > UNSTABLE
    }
}

fn counted(epochs: &[Epoch], units_per_iteration: f64) -> Option<Counted> {
    let counts: Vec<_> = epochs
        .iter()
        .map(|epoch| Some((epoch.counts?, epoch.iterations as f64 * units_per_iteration)))
        .collect::<Option<_>>()?;
    let median = |value: fn(&super::Counts) -> u64| {
        let per_unit = counts.iter().map(|(counts, units)| value(counts) as f64 / units);
        Spread::of(per_unit).map(|spread| spread.median)
    };
    let rates = counts.iter().map(|(c, _)| c.branch_misses as f64 / c.branches.max(1) as f64);
    Some(Counted {
        instructions: median(|c| c.instructions)?,
        cycles: median(|c| c.cycles)?,
        branches: median(|c| c.branches)?,
        miss_rate: Spread::of(rates)?.median,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Counts;

    fn epochs(nanoseconds: &[u64]) -> Vec<Epoch> {
        let epoch = |n: &u64| Epoch { iterations: 10, nanoseconds: *n, counts: None };
        nanoseconds.iter().map(epoch).collect()
    }

    #[test]
    fn medians_per_unit() {
        let figures = Figures::of(&epochs(&[100, 110, 90, 300, 100]), 2.0).unwrap();
        assert_eq!(figures.nanoseconds, Spread { median: 5.0, min: 4.5, max: 15.0 });
        // Deviations 0, 0.1, 0.1, 2 and 0.
        assert!((figures.error - 0.1).abs() < 1e-9);
        assert!(figures.is_unstable() && figures.counted.is_none());
        assert!((figures.total_seconds - 700e-9).abs() < 1e-15);
        assert_eq!(Figures::of(&[], 1.0), None);
    }

    #[test]
    fn counters_per_unit() {
        let counts = Counts { instructions: 400, cycles: 100, branches: 80, branch_misses: 4 };
        let epoch = Epoch { iterations: 10, nanoseconds: 50, counts: Some(counts) };
        let counted = Figures::of(&[epoch; 3], 4.0).unwrap().counted.unwrap();
        assert_eq!(counted.instructions, 10.0);
        assert_eq!(counted.instructions_per_cycle(), 4.0);
        assert_eq!((counted.branches, counted.miss_rate), (2.0, 0.05));
        let without = Epoch { counts: None, ..epoch };
        assert_eq!(Figures::of(&[epoch, without], 4.0).unwrap().counted, None);
    }
}
