//! Time, memory and bytes that one sync took, and the seconds of each stage of the connector.

use serde::{Deserialize, Serialize};

use crate::rounds::Run;

/// Seconds of godwit's connector in each of its stages, to a tenth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Taking blocks in: header, tree, checks without coins.
    pub accept: f64,
    /// Spending and adding coins.
    pub apply: f64,
    /// Writing coins to the disk.
    pub flush: f64,
    /// Waiting for what other threads do.
    pub waiting: f64,
    /// The last flush and the end.
    pub closing: f64,
}

impl Stages {
    /// Names of the fields.
    pub const NAMES: [&str; 5] = ["accept", "apply", "flush", "waiting", "closing"];

    /// Reads `accept 0.6 s, apply 3.4 s, ...`; `None` when a stage lacks.
    pub fn parse(line: &str) -> Option<Self> {
        let parts = line.trim_end_matches('.').split(", ");
        let mut seconds = parts.filter_map(|part| {
            let (name, rest) = part.split_once(' ')?;
            Some((name, rest.strip_suffix(" s")?.parse::<f64>().ok()?))
        });
        let mut next = |name| seconds.next().filter(|(found, _)| *found == name).map(|(_, s)| s);
        let [accept, apply, flush, waiting, closing] = Self::NAMES.map(&mut next);
        Some(Self {
            accept: accept?,
            apply: apply?,
            flush: flush?,
            waiting: waiting?,
            closing: closing?,
        })
    }

    /// The fields, in the order of their names.
    pub fn values(self) -> [f64; 5] {
        let Self { accept, apply, flush, waiting, closing } = self;
        [accept, apply, flush, waiting, closing]
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds from start to exit.
    pub seconds: f64,
    /// Seconds of processor time in its own code, all threads.
    pub user_seconds: f64,
    /// Seconds of processor time in the kernel on its behalf.
    pub system_seconds: f64,
    /// Most bytes that were ever resident.
    pub peak_memory: u64,
    /// Bytes that it caused to be sent to the disk.
    pub written: u64,
    /// Seconds of processor time of everything else meanwhile, the server aside.
    pub others_seconds: f64,
    /// Seconds of processor time of the server, if there is one.
    pub server_seconds: Option<f64>,
    /// godwit's stages.
    pub stages: Option<Stages>,
}

impl Sample {
    /// Seconds of processor time, own code and kernel.
    pub fn processor_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Share of all processors' time that everything else took, from 0 to 1.
    pub fn others_share(&self, cores: usize) -> f64 {
        self.others_seconds / (self.seconds * cores as f64)
    }
}

impl From<&Run> for Sample {
    fn from(run: &Run) -> Self {
        let measured = run.measured;
        Self {
            seconds: measured.seconds,
            user_seconds: measured.user_seconds,
            system_seconds: measured.system_seconds,
            peak_memory: measured.peak_memory,
            written: measured.written,
            others_seconds: measured.others_seconds,
            server_seconds: run.server_seconds,
            stages: run.log.connector.as_deref().and_then(Stages::parse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_of_the_connectors_line() {
        let line = "accept 0.6 s, apply 3.4 s, flush 0.0 s, waiting 3.9 s, closing 0.4 s.";
        let stages = Stages::parse(line).unwrap();
        assert_eq!(stages.values(), [0.6, 3.4, 0.0, 3.9, 0.4]);
        for wrong in
            ["", "accept 0.6 s.", &line.replace("flush", "rush"), &line.replace("3.4", "x")]
        {
            assert_eq!(Stages::parse(wrong), None, "{wrong}");
        }
    }
}
