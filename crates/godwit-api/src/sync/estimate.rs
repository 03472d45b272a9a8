//! When a sync ends, from measured rates by kind of work.
//!
//! A stretch of the chain takes what its bottleneck takes: the line its bytes, all processors what they
//! have to compute, the connector its coins. What each kind costs is measured, and so is the time that
//! was lost besides: the factor by which the time that passed exceeds the costs' own. Of blocks ahead the
//! kinds are known ([`Schedule`](super::Schedule)), so an estimate follows when the mix changes, as where
//! `-assumevalid` ends.

/// Work of blocks, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// To be fetched.
    pub bytes: f64,
    /// To be spent and created.
    pub coins: f64,
    /// To be run: inputs with scripts.
    pub scripts: f64,
}

/// What was done and what it took since the start of the run, in seconds. Each number never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    pub at: f64,
    /// Connected.
    pub blocks: f64,
    pub work: Work,
    /// The connector had nothing to do, because blocks were missing.
    pub starved: f64,
    /// All threads together.
    pub processor: f64,
    /// Of these, scripts.
    pub scripts: f64,
    pub stages: Stages,
}

/// Where the connector's time goes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stages {
    pub accept: f64,
    pub apply: f64,
    pub flush: f64,
    /// For jobs and for blocks.
    pub wait: f64,
}

impl Stages {
    /// Not waiting.
    pub fn computing(&self) -> f64 {
        self.accept + self.apply + self.flush
    }
}

/// What the estimate has to know of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    pub processors: f64,
    /// Processor seconds of a script, until that is measured.
    pub script: f64,
}

/// Time left, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub left: f64,
    /// The band: the end is expected within it in nine of ten syncs.
    pub least: f64,
    pub most: f64,
}

/// The share of the past time whose rates count as the recent ones, and how much they count.
const RECENT: f64 = 0.3;
const RECENT_WEIGHT: f64 = 0.65;

/// By how much the time left may be longer, as a share: without any change of the rates, for each unit by
/// which they varied, at most, and more while little has passed. What comes later is seldom faster: coins
/// leave the memory, peers tire. So the band goes less far down.
const LEAST_SPREAD: f64 = 0.22;
const SPREAD_OF_CHANGE: f64 = 1.2;
const MOST_SPREAD: f64 = 1.2;
const EARLY_SPREAD: f64 = 0.6;
const DOWNWARDS: f64 = 0.9;

/// Half of the band as a share of the whole time: at least, and at most once a fifth of time or
/// work is over.
const LEAST_OF_ALL: f64 = 0.06;
const MOST_OF_ALL: f64 = 0.22;
const EARLY: f64 = 0.2;

/// Slices of the past time by which the change of rates is told.
const SLICES: usize = 8;

/// Fewer scripts tell nothing of what one costs.
const ENOUGH_SCRIPTS: f64 = 2_000.0;

/// The share of a time in which blocks were missing from which on the line decides how long it takes.
const STARVING: f64 = 0.25;

/// Seconds for each unit of work.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Of the line; zero where it is not what takes the time.
    line: f64,
    /// Of all processors together, scripts aside, for each byte.
    processor: f64,
    /// Of all processors together, for each script.
    script: f64,
    /// Of the connector, for each coin.
    coin: f64,
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Sample {
    /// What lies between two samples.
    pub fn since(&self, before: &Self) -> Self {
        let work = Work {
            bytes: self.work.bytes - before.work.bytes,
            coins: self.work.coins - before.work.coins,
            scripts: self.work.scripts - before.work.scripts,
        };
        Self {
            at: self.at - before.at,
            blocks: self.blocks - before.blocks,
            work,
            starved: self.starved - before.starved,
            processor: self.processor - before.processor,
            scripts: self.scripts - before.scripts,
            stages: Stages {
                accept: self.stages.accept - before.stages.accept,
                apply: self.stages.apply - before.stages.apply,
                flush: self.stages.flush - before.stages.flush,
                wait: self.stages.wait - before.stages.wait,
            },
        }
    }
}

impl Costs {
    fn measured(past: &Sample, machine: &Machine) -> Self {
        let Work { bytes, coins, scripts } = past.work;
        let is_starving = past.starved > STARVING * past.at;
        Self {
            line: if is_starving { ratio(past.at, bytes) } else { 0.0 },
            processor: ratio((past.processor - past.scripts).max(0.0), bytes),
            script: match scripts >= ENOUGH_SCRIPTS {
                true => past.scripts / scripts,
                false => machine.script,
            },
            coin: ratio(past.stages.computing(), coins),
        }
    }

    /// Seconds that the bottleneck of this work takes, at best.
    fn of(&self, work: &Work, machine: &Machine) -> f64 {
        let computed = self.processor * work.bytes + self.script * work.scripts;
        let by_processors = computed / machine.processors.max(1.0);
        by_processors.max(self.line * work.bytes).max(self.coin * work.coins)
    }
}

/// What the work ahead takes by the rates of a time that has passed.
fn by_rates(past: &Sample, ahead: &[Work], machine: &Machine) -> Option<f64> {
    let costs = Costs::measured(past, machine);
    let at_best = costs.of(&past.work, machine);
    if at_best <= 0.0 || past.at <= 0.0 {
        return None;
    }
    let lost = past.at / at_best;
    Some(ahead.iter().map(|work| costs.of(work, machine) * lost).sum())
}

/// The last moment that is so many seconds before the end of the history, or its beginning.
fn before(history: &[Sample], seconds: f64) -> Option<&Sample> {
    let now = history.last()?.at;
    let first_later = history.partition_point(|sample| sample.at <= now - seconds);
    history.get(first_later.saturating_sub(1))
}

/// By how much the price of a byte changed from slice to slice: the root of the mean square of its
/// logarithm's distance from the mean.
fn change(history: &[Sample]) -> f64 {
    let (Some(first), Some(last)) = (history.first(), history.last()) else { return 0.0 };
    let length = (last.at - first.at) / SLICES as f64;
    let mut prices = Vec::with_capacity(SLICES);
    for slice in 0..SLICES {
        let (Some(from), Some(to)) = (
            before(history, length * (SLICES - slice) as f64),
            before(history, length * (SLICES - slice - 1) as f64),
        ) else {
            continue;
        };
        let past = to.since(from);
        if past.work.bytes > 0.0 && past.at > 0.0 {
            prices.push((past.at / past.work.bytes).ln());
        }
    }
    let count = prices.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = prices.iter().sum::<f64>() / count;
    let squares: f64 = prices.iter().map(|price| (price - mean).powi(2)).sum();
    (squares / count).sqrt()
}

/// The time that is left, by a history in the order of time; `None` while nothing can be said.
pub(super) fn estimate(history: &[Sample], ahead: &[Work], machine: &Machine) -> Option<Estimate> {
    let (first, last) = (history.first()?, history.last()?);
    if ahead.iter().all(|work| work.bytes <= 0.0) {
        return Some(Estimate { left: 0.0, least: 0.0, most: 0.0 });
    }
    let passed = last.at - first.at;
    let whole = by_rates(&last.since(first), ahead, machine)?;
    let recent = before(history, passed * RECENT)
        .and_then(|from| by_rates(&last.since(from), ahead, machine))
        .unwrap_or(whole);
    // The mean of the logarithms: half and twice the rate are equally far.
    let left = recent.powf(RECENT_WEIGHT) * whole.powf(1.0 - RECENT_WEIGHT);
    let all = passed + left;
    let bytes: f64 = ahead.iter().map(|work| work.bytes).sum();
    let done = last.work.bytes - first.work.bytes;
    let progress = (passed / all).max(done / (done + bytes));
    let early = EARLY_SPREAD * (1.0 - progress / EARLY).max(0.0);
    let spread = (LEAST_SPREAD + SPREAD_OF_CHANGE * change(history) + early).min(MOST_SPREAD);
    let (mut below, mut above) = (left - left / (1.0 + DOWNWARDS * spread), left * spread);
    if progress > EARLY {
        below = below.min(MOST_OF_ALL * all);
        above = above.min(MOST_OF_ALL * all);
    }
    // Near the end the rest is small, and what a last flush takes is not.
    below = below.max(LEAST_OF_ALL * all);
    above = above.max(LEAST_OF_ALL * all);
    Some(Estimate { left, least: (left - below).max(0.0), most: left + above })
}

/// The share of all work that is done, from 0 to 1, by the same costs; `done` includes what earlier runs did.
pub(super) fn share_done(
    history: &[Sample],
    done: &Work,
    ahead: &[Work],
    machine: &Machine,
) -> f64 {
    let past = match (history.first(), history.last()) {
        (Some(first), Some(last)) => last.since(first),
        _ => Sample::default(),
    };
    let costs = Costs::measured(&past, machine);
    let seconds = |work: &Work| match costs.of(work, machine) {
        measured if measured > 0.0 => measured,
        _ => work.bytes,
    };
    let left: f64 = ahead.iter().map(seconds).sum();
    let done = seconds(done);
    if left <= 0.0 { 1.0 } else { ratio(done, done + left) }
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
