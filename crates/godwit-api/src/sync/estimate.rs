//! Estimates when a sync ends, from measured rates by kind of work.
//!
//! A stretch of the chain takes the time of its bottleneck: the line for its bytes, all processors for its
//! computation, the connector for its coins. The cost of each kind is measured, and so is the time lost
//! besides: the factor by which elapsed time exceeds those costs. The mix of kinds in the blocks ahead is
//! known ([`Schedule`](super::Schedule)), so that an estimate takes changes of it into account, as where
//! `-assumevalid` ends.

/// Work of blocks, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes to be fetched. Of what was done, blocks that came before earlier ones are part of it, and are
    /// not of the rest.
    pub fetched: f64,
    /// Bytes to be decoded and connected.
    pub bytes: f64,
    /// To be spent and created.
    pub coins: f64,
    /// To be run: inputs with scripts.
    pub scripts: f64,
}

impl Work {
    /// Of what was done, bytes that were fetched and wait for earlier blocks.
    pub fn stored_ahead(&self) -> f64 {
        (self.fetched - self.bytes).max(0.0)
    }
}

/// The work done since the start of the run, and the seconds that it took. No number ever falls.
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
    /// Processor seconds of scripts, included in `processor`.
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

/// Properties of the machine that the estimate needs.
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

/// The share of the past time whose rates count as the recent ones, and how much they count besides: a rate
/// may have changed for good, but most of what differs comes and goes.
const RECENT: f64 = 0.5;
const RECENT_WEIGHT: f64 = 0.35;

/// Slices of the past time whose rates are compared.
const SLICES: usize = 8;

/// How restless rates are, in seconds: their variance, as a share of the mean rate's square, times the time
/// for which a rate stays. Those of lines are off by two fifths for five seconds, or so. In the first minute
/// slices are no longer than that, and say too little of it.
const UNREST: f64 = 0.8;

/// By what share the rate of the time left is off (one standard deviation) for reasons of which the past
/// says nothing: coins leave the memory, a peer goes, somebody else uses the line.
const LASTING: f64 = 0.17;

/// So many standard deviations on both sides hold nine in ten, of what is normally distributed.
const NINE_IN_TEN: f64 = 1.645;

/// Seconds by which no end is known better: of a last block, a last flush.
const EDGE: f64 = 1.0;

/// With fewer scripts than this, the cost of one is unknown.
const ENOUGH_SCRIPTS: f64 = 2_000.0;

/// The share of a time in which blocks were missing from which on the line decides how long it takes.
const STARVING: f64 = 0.25;

/// Seconds of blocks, see [`is_settled`].
const SETTLED: f64 = 120.0;

/// Seconds for each unit of work.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// Of the line, for each byte that is fetched; zero where it is not what takes the time.
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
    /// The difference between two samples.
    pub fn since(&self, before: &Self) -> Self {
        let work = Work {
            fetched: self.work.fetched - before.work.fetched,
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
        let Work { fetched, bytes, coins, scripts } = past.work;
        let is_starving = past.starved > STARVING * past.at;
        Self {
            line: if is_starving { ratio(past.at, fetched) } else { 0.0 },
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
        by_processors.max(self.line * work.fetched).max(self.coin * work.coins)
    }
}

/// The time that the work ahead takes at the rates of a past period.
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

/// From where blocks began to come: connections and headers, which come first, say nothing of them.
fn at_work(history: &[Sample]) -> &[Sample] {
    let Some(first) = history.first().map(|sample| sample.work) else { return history };
    let is_idle =
        |sample: &Sample| sample.work.fetched <= first.fetched && sample.work.bytes <= first.bytes;
    &history[history.partition_point(is_idle).saturating_sub(1)..]
}

/// The variance of the rates of the slices, as a share of the mean rate's square. Slices in which nothing
/// came count as such.
fn change(history: &[Sample], machine: &Machine) -> f64 {
    let (Some(first), Some(last)) = (history.first(), history.last()) else { return 0.0 };
    let past = last.since(first);
    let costs = Costs::measured(&past, machine);
    let done = |sample: &Sample| costs.of(&sample.since(first).work, machine);
    // Between samples, of which there are few at first, at an even rate.
    let done_by = |at: f64| {
        let after = history.partition_point(|sample| sample.at < at).min(history.len() - 1);
        let (from, to) = (&history[after.saturating_sub(1)], &history[after]);
        let share = ratio(at - from.at, to.at - from.at).clamp(0.0, 1.0);
        done(from) + (done(to) - done(from)) * share
    };
    let end = |slice: usize| done_by(first.at + past.at * slice as f64 / SLICES as f64);
    let mean = done(last) / SLICES as f64;
    let off = |slice: usize| ratio(end(slice + 1) - end(slice), mean) - 1.0;
    let squares: f64 = (0..SLICES).map(|slice| off(slice).powi(2)).sum();
    squares / (SLICES - 1) as f64
}

/// The time that is left, by a history in the order of time; `None` while nothing can be said.
///
/// The band is that of a mean: the past one is measured over the time that has passed, and the one to come
/// will be one over the time that is left. How much either may be off follows from how much the rates of
/// slices differ, and falls with the time that it is taken over.
pub(super) fn estimate(history: &[Sample], ahead: &[Work], machine: &Machine) -> Option<Estimate> {
    if ahead.iter().all(|work| work.bytes <= 0.0) {
        return Some(Estimate { left: 0.0, least: 0.0, most: 0.0 });
    }
    let history = at_work(history);
    let (first, last) = (history.first()?, history.last()?);
    let passed = last.at - first.at;
    let whole = by_rates(&last.since(first), ahead, machine)?;
    let recent = before(history, passed * RECENT)
        .and_then(|from| by_rates(&last.since(from), ahead, machine))
        .unwrap_or(whole);
    // The mean of the logarithms: half and twice the rate are equally far.
    let left = recent.powf(RECENT_WEIGHT) * whole.powf(1.0 - RECENT_WEIGHT);
    let of_mean = UNREST / passed + change(history, machine) / SLICES as f64;
    let of_both = of_mean * left * (left + passed);
    let off = NINE_IN_TEN * (of_both + (LASTING * left).powi(2)).sqrt();
    // Half the rate is as likely as twice the rate, so that the band goes further up than down.
    let least = left * ratio(left, left + off) - EDGE;
    let most = left + off + EDGE;
    most.is_finite().then_some(Estimate { left, least: least.max(0.0), most })
}

/// The share of all work that is done, from 0 to 1, by the same costs; `done` includes what earlier runs did.
/// `None` while what some of it costs is not known: seconds and bytes have no sum.
pub(super) fn share_done(
    history: &[Sample],
    done: &Work,
    ahead: &[Work],
    machine: &Machine,
) -> Option<f64> {
    let past = match (history.first(), history.last()) {
        (Some(first), Some(last)) => last.since(first),
        _ => Sample::default(),
    };
    let costs = Costs::measured(&past, machine);
    let seconds = |work: &Work| {
        let seconds = costs.of(work, machine);
        (seconds > 0.0 || work.bytes <= 0.0).then_some(seconds)
    };
    let left = ahead.iter().map(seconds).sum::<Option<f64>>()?;
    Some(share(seconds(done)?, left))
}

/// The share of all bytes, used as long as [`share_done`] is `None`.
pub(super) fn share_of_bytes(done: &Work, ahead: &[Work]) -> f64 {
    share(done.bytes, ahead.iter().map(|work| work.bytes).sum())
}

fn share(done: f64, left: f64) -> f64 {
    if left <= 0.0 { 1.0 } else { ratio(done, done + left) }
}

/// Whether blocks have come for so long that the rates are no longer those of the start: there, peers are
/// few, and no coins are in memory.
pub(super) fn is_settled(history: &[Sample]) -> bool {
    let at_work = at_work(history);
    let (Some(first), Some(last)) = (at_work.first(), at_work.last()) else { return false };
    last.at - first.at >= SETTLED && last.work.bytes > first.work.bytes
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
