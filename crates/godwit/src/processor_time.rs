//! Processor time by thread, as Linux reports it.

use std::fs;
use std::time::Duration;

/// Units of `/proc/self/stat`: hundredths of a second, on every architecture.
const TICK: Duration = Duration::from_millis(10);

/// Processor time that the process has used so far.
pub(crate) struct ProcessorTime {
    /// By all threads, those included that have ended.
    all: Duration,
    /// By each that runs, the main one first: it owns the chain.
    threads: Vec<(String, Duration)>,
}

impl ProcessorTime {
    /// `None` where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        let all = ticks_of(&fs::read_to_string("/proc/self/stat").ok()?)?;
        let main = std::process::id();
        let mut threads = Vec::new();
        for entry in fs::read_dir("/proc/self/task").ok()? {
            let task = entry.ok()?.path();
            // One may have ended since it was listed.
            let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
            let Ok(used) = fs::read_to_string(task.join("schedstat")) else { continue };
            let used = Duration::from_nanos(used.split(' ').next()?.parse().ok()?);
            if task.file_name().is_some_and(|id| *id == *main.to_string()) {
                threads.insert(0, ("connector".to_owned(), used));
            } else {
                threads.push((group(name.trim()).to_owned(), used));
            }
        }
        Some(Self { all, threads })
    }

    /// The seconds that this took for each gigabyte of `bytes`; `self` is from before the chain was closed,
    /// which ends threads, and `ended` from after it. `None` if there were no bytes.
    pub(crate) fn line(&self, ended: &Self, bytes: u64) -> Option<String> {
        if bytes == 0 {
            return None;
        }
        let each = |time: Duration| time.as_secs_f64() * 1e9 / bytes as f64;
        let mut groups: Vec<(&str, Duration)> = Vec::new();
        for (name, used) in &self.threads {
            match groups.iter_mut().find(|(group, _)| group == name) {
                Some((_, sum)) => *sum += *used,
                None => groups.push((name, *used)),
            }
        }
        let listed = groups.iter().map(|(_, used)| *used).sum();
        let parts = groups.iter().map(|(name, used)| format!("{name} {:.2}", each(*used)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        Some(format!(
            "Processor seconds for each GB of blocks: {:.2}; {parts}, threads that had ended {:.2}, closing {:.2}.",
            each(ended.all),
            each(self.all.saturating_sub(listed)),
            each(ended.all.saturating_sub(self.all))
        ))
    }
}

/// Processor time of all threads together; zero if the system does not tell.
pub(crate) fn of_process() -> Duration {
    fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(ticks_of).unwrap_or_default()
}

/// The name of a thread without its number.
fn group(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((group, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => group,
        _ => name,
    }
}

/// User and system time of a line of `/proc/self/stat`.
fn ticks_of(stat: &str) -> Option<Duration> {
    // A name in brackets may have spaces; user and system time are the 12th and 13th number behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (next()? + next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_sums_by_group_and_says_the_rest() {
        let seconds = Duration::from_secs;
        let threads =
            [("connector", 2), ("godwit-worker", 3), ("godwit-worker", 4), ("utxo-flush", 1)];
        let threads = threads.map(|(name, used)| (name.to_owned(), seconds(used))).to_vec();
        let before = ProcessorTime { all: seconds(12), threads };
        let ended = ProcessorTime { all: seconds(13), threads: Vec::new() };
        assert_eq!(
            before.line(&ended, 2_000_000_000).as_deref(),
            Some(
                "Processor seconds for each GB of blocks: 6.50; connector 1.00, godwit-worker 3.50, \
                 utxo-flush 0.50, threads that had ended 1.00, closing 0.50."
            )
        );
        assert_eq!(before.line(&ended, 0), None);
    }

    #[test]
    fn what_the_system_says_is_understood() {
        let stat = "7 (a) b 1) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20";
        assert_eq!(ticks_of(stat), Some(Duration::from_millis(1750)));
        assert_eq!(
            [group("godwit-worker-12"), group("utxo-flush")],
            ["godwit-worker", "utxo-flush"]
        );
        if cfg!(target_os = "linux") {
            let now = ProcessorTime::now().expect("Linux tells");
            assert!(now.threads.iter().filter(|(name, _)| name == "connector").count() == 1);
        }
    }
}
