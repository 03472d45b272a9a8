//! Syncs of a chain like main's on machines that do not exist: what a sample says at each step follows
//! from rates that are drawn, and that change on the way.

use super::super::ahead::{Schedule, Stretch};
use super::{Machine, Sample};

/// SplitMix64.
pub(super) struct Draw(pub(super) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Evenly by the logarithm.
    pub(super) fn about(&mut self, low: f64, high: f64) -> f64 {
        self.within(low.ln(), high.ln()).exp()
    }

    fn chance(&mut self, share: f64) -> bool {
        self.within(0.0, 1.0) < share
    }

    pub(super) fn one_of<const N: usize>(&mut self, values: [f64; N]) -> f64 {
        values[(self.next() % N as u64) as usize]
    }
}

/// A sync from its beginning to its end, and where it was at each moment as a node knows it.
pub(super) struct Sync {
    pub(super) name: String,
    pub(super) machine: Machine,
    pub(super) schedule: Schedule,
    pub(super) samples: Vec<(Sample, Stretch)>,
}

const BEST: u32 = 977_000;
const STEPS: f64 = 400.0;

/// A machine, its line, and what happens to them.
struct Conditions {
    machine: Machine,
    /// Seconds of a script, of a byte on the line, of a byte on all processors, of a coin for the connector.
    script: f64,
    line: f64,
    by_byte: f64,
    by_coin: f64,
    /// From this height on coins are not all in memory, and what one costs rises up to so many times as much.
    in_memory: f64,
    cold: f64,
    scripts_from: u32,
    /// At this share of the work the line becomes so many times as slow.
    changes_at: f64,
    change: f64,
    /// Main is larger than the table says.
    larger: f64,
    /// How much rates wander from step to step.
    wander: f64,
}

impl Conditions {
    fn drawn(draw: &mut Draw) -> Self {
        let processors = draw.one_of([2.0, 2.0, 4.0, 4.0, 8.0]);
        let script = draw.one_of([11.2e-6, 22e-6, 31.7e-6, 49.4e-6]);
        Self {
            machine: Machine { processors, script },
            script: script * draw.about(0.7, 1.5),
            line: 1.0 / draw.about(4e6, 150e6),
            by_byte: 8.3e-9 * draw.about(0.7, 1.8),
            by_coin: 0.32e-6 * draw.about(0.7, 1.8),
            in_memory: draw.within(300_000.0, f64::from(BEST)),
            cold: draw.about(1.0, 2.2),
            scripts_from: if draw.chance(0.5) { 0 } else { 938_344 },
            changes_at: if draw.chance(0.4) { draw.within(0.05, 0.95) } else { 2.0 },
            change: draw.about(0.5, 2.0),
            larger: draw.within(0.94, 1.06),
            wander: draw.within(0.02, 0.12),
        }
    }

    fn warmth(&self, height: u32) -> f64 {
        let beyond = (f64::from(height) - self.in_memory).max(0.0);
        1.0 + (self.cold - 1.0) * beyond / (f64::from(BEST) - self.in_memory + 1.0)
    }

    /// Adds so many bytes of blocks up to a height.
    fn step(&self, sample: &mut Sample, draw: &mut Draw, (bytes, height): (f64, u32), wander: f64) {
        let all = main_bytes(BEST);
        let line = match sample.work.bytes / all > self.changes_at {
            true => self.line * self.change,
            false => self.line,
        };
        let coins = bytes * 8.9e-3 * draw.within(0.85, 1.15);
        let scripts = if height >= self.scripts_from { bytes * 4.3e-3 } else { 0.0 };
        let warmth = self.warmth(height);
        let script_time = scripts * self.script;
        let processor = bytes * self.by_byte * warmth + script_time;
        let connector = coins * self.by_coin * warmth;
        let by_line = bytes * line * wander;
        let computing = (processor / self.machine.processors * 1.1).max(connector);
        let by_others = computing * (1.0 + (wander - 1.0) / 2.0);
        let took = by_line.max(by_others) + by_line.min(by_others) * 0.1;
        sample.at += took;
        sample.work.fetched += bytes;
        sample.work.bytes += bytes;
        sample.work.coins += coins;
        sample.work.scripts += scripts;
        sample.starved += (took - by_others).max(0.0);
        sample.processor += processor;
        sample.scripts += script_time;
        sample.stages.apply += connector;
    }
}

fn main_bytes(height: u32) -> f64 {
    let all = Stretch { first: 0, tip: 0, best: height, scripts_from: 0 };
    Schedule::Main.ahead(&all, &[])[1].bytes
}

/// One sync of main.
pub(super) fn main(seed: u64) -> Sync {
    let mut draw = Draw(seed);
    let conditions = Conditions::drawn(&mut draw);
    let at = |tip: u32| {
        let scripts_from = conditions.scripts_from.max(tip + 1);
        Stretch { first: 0, tip, best: BEST, scripts_from }
    };
    let (mut sample, mut tip, mut wander) = (Sample::default(), 0, 0.0);
    let mut samples = vec![(sample, at(tip))];
    while tip < BEST {
        let from = tip;
        // Steps of equal bytes.
        while main_bytes(tip) - main_bytes(from) < main_bytes(BEST) / STEPS && tip < BEST {
            tip = (tip + 500).min(BEST);
        }
        let bytes = (main_bytes(tip) - main_bytes(from)) * conditions.larger;
        wander = wander * 0.95 + draw.within(-conditions.wander, conditions.wander);
        conditions.step(&mut sample, &mut draw, (bytes, tip), wander.exp());
        sample.blocks += f64::from(tip - from);
        samples.push((sample, at(tip)));
    }
    let name = format!("main, seed {seed}");
    Sync { name, machine: conditions.machine, schedule: Schedule::Main, samples }
}
