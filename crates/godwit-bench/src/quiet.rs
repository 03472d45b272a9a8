//! Tells whether the machine was otherwise idle: a busy one slows all programs, but not by the same factor.

use crate::spread::Spread;

/// Share of the processors' time that others may take in a run on a machine called quiet; the kernel's
/// own threads, which write the pages back, take one or two percent.
const QUIET_SHARE: f64 = 0.05;

/// A sentence for a report's page of what else ran, from the shares of all processors' time, from 0 to
/// 1, that it took in each run. `run` names one.
pub(crate) fn verdict(shares: Spread, run: &str) -> String {
    let Spread { median, min, max } = shares;
    let verdict = match max <= QUIET_SHARE {
        true => "The machine was quiet.",
        false => {
            "**The machine was not quiet all the time: times are too long, and ratios uncertain.**"
        }
    };
    format!(
        "Everything else took {:.1} % ({:.1}–{:.1}) of the processors' time during {run}. {verdict}",
        median * 100.0,
        min * 100.0,
        max * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_named() {
        for (max, end) in [(QUIET_SHARE, " quiet."), (QUIET_SHARE + 0.01, " uncertain.**")] {
            let text = verdict(Spread { median: 0.01, min: 0.0, max }, "an import");
            assert!(text.starts_with("Everything else took 1.0 % (0.0–"), "{text}");
            assert!(text.contains(" during an import. ") && text.ends_with(end), "{text}");
        }
    }
}
