//! What a run of the program says in the log about its state: where it started, what it made
//! durable, and which work it was at when it ended.

use std::fmt;

/// Work that a run may be at when it is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// A memtable is written as a run.
    Flush,
    /// Runs are merged.
    Merge,
    /// Files are synced and the database transaction is made.
    Commit,
    /// An undo record is written. The log does not say: see the files.
    Undo,
    /// Blocks verified by an earlier run are applied again.
    Replay,
}

impl Phase {
    pub(crate) const ALL: [Phase; 5] =
        [Phase::Flush, Phase::Merge, Phase::Commit, Phase::Undo, Phase::Replay];

    /// How the messages of its start and end begin.
    fn messages(self) -> Option<[(&'static str, &'static str); 2]> {
        match self {
            Phase::Flush => Some([("Flush to run ", " started: "), ("Flush to run ", " done: ")]),
            Phase::Merge => {
                Some([("Merge into run ", " started: "), ("Merge into run ", " done: ")])
            }
            Phase::Commit => Some([("Commit started", ""), ("Commit done", "")]),
            Phase::Replay => Some([("Replaying ", ""), ("Replay done", "")]),
            Phase::Undo => None,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Flush => "flush",
            Phase::Merge => "merge",
            Phase::Commit => "commit",
            Phase::Undo => "undo write",
            Phase::Replay => "replay",
        })
    }
}

/// How far the chain is verified and how far its coins are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heights {
    pub(crate) verified: u64,
    pub(crate) coins: u64,
}

impl Heights {
    pub(crate) fn max(self, other: Self) -> Self {
        let (verified, coins) = (self.verified.max(other.verified), self.coins.max(other.coins));
        Self { verified, coins }
    }
}

/// What a run found when it opened the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub(crate) blocks: u64,
    pub(crate) heights: Heights,
}

/// The log of one run, perhaps cut off in the middle of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunLog<'a>(pub(crate) &'a str);

impl<'a> RunLog<'a> {
    /// Messages without their times, complete lines only.
    fn messages(self) -> impl Iterator<Item = &'a str> {
        let lines = self.0.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.filter_map(|line| Some(line.trim_end().split_once(' ')?.1))
    }

    fn count(self, (head, middle): (&str, &str)) -> usize {
        self.messages().filter(|text| text.starts_with(head) && text.contains(middle)).count()
    }

    /// How often a phase has started.
    pub(crate) fn starts(self, phase: Phase) -> usize {
        phase.messages().map_or(0, |[started, _]| self.count(started))
    }

    /// Whether the run is in a phase: it started and did not end.
    pub(crate) fn is_in(self, phase: Phase) -> bool {
        let Some([started, done]) = phase.messages() else { return false };
        self.count(started) > self.count(done)
    }

    /// Blocks connected.
    pub(crate) fn connected(self) -> usize {
        self.count(("UpdateTip: ", ""))
    }

    /// What the run found, if it came so far.
    pub(crate) fn loaded(self) -> Option<Loaded> {
        let text = self.messages().find(|text| text.starts_with("Loaded "))?;
        let numbers = numbers(text);
        let [_headers, blocks, verified, coins] = numbers[..] else {
            panic!("four numbers in {text:?}")
        };
        Some(Loaded { blocks, heights: Heights { verified, coins } })
    }

    /// What the commits that ended have made durable, at least.
    pub(crate) fn committed(self) -> Heights {
        let mut pending = Heights::default();
        let mut durable = Heights::default();
        for text in self.messages() {
            if text.starts_with("Commit started") {
                let after = |name: &str| Some(numbers(text.split_once(name)?.1)[0]);
                pending.verified = after("verified up to height ").unwrap_or(0);
                pending.coins = after("coins at height ").unwrap_or(0);
            } else if text.starts_with("Commit done") {
                durable = durable.max(pending);
            }
        }
        durable
    }
}

fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().expect("a number of the log fits")).collect()
}

#[test]
fn phases_and_heights_are_read_off_the_log() {
    let log = "\
2026-11-21T05:18:00Z Loaded 480 headers and 470 blocks: verified up to height 460, coins at height 450.
2026-11-21T05:18:00Z Replaying 10 blocks from height 451: their coins are not on disk.
2026-11-21T05:18:00Z Commit started: 6 entries of the block index, verified up to height 471, coins at height 470.
2026-11-21T05:18:00Z Commit done in 9 ms.
2026-11-21T05:18:00Z Flush to run 114 started: 43764 coins, 8 spent ones.
2026-11-21T05:18:01Z Flush to run 114 done: 2662400 bytes in 75 ms.
2026-11-21T05:18:00Z Commit started: 6 entries of the block index, verified up to height 472.
2026-11-21T05:18:02Z Merge into run 117 started: 4 segments, 552960 bytes.
2026-11-21T05:18:02Z Merge into run 117 do";
    let log = RunLog(log);
    let phases = Phase::ALL.map(|phase| (log.starts(phase), log.is_in(phase)));
    assert_eq!(phases, [(1, false), (1, true), (2, true), (0, false), (1, true)]);
    let found = Heights { verified: 460, coins: 450 };
    assert_eq!(log.loaded(), Some(Loaded { blocks: 470, heights: found }));
    assert_eq!(log.committed(), Heights { verified: 471, coins: 470 });
}
