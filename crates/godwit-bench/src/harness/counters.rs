//! The processor's own counters, in user mode.

use std::io;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter, Group};

use super::Counts;

/// Four counters that run together. Virtual machines and containers often have none.
pub struct Counters {
    group: Group,
    instructions: Counter,
    cycles: Counter,
    branches: Counter,
    branch_misses: Counter,
}

impl Counters {
    /// The counters of the calling thread.
    ///
    /// # Errors
    ///
    /// What the kernel says; `perf_event_paranoid` above 2 or no hardware behind it.
    pub fn open() -> io::Result<Self> {
        let mut group = Group::new()?;
        let mut add = |event| group.add(&Builder::new(event));
        let instructions = add(Hardware::INSTRUCTIONS)?;
        let cycles = add(Hardware::CPU_CYCLES)?;
        let branches = add(Hardware::BRANCH_INSTRUCTIONS)?;
        let branch_misses = add(Hardware::BRANCH_MISSES)?;
        Ok(Self { group, instructions, cycles, branches, branch_misses })
    }

    /// Starts from zero. A counter that does not start gives no count at [`Self::stop`].
    pub fn start(&mut self) {
        let started = self.group.reset().and_then(|()| self.group.enable());
        debug_assert!(started.is_ok(), "an open group counts");
    }

    /// What was counted since [`Self::start`]; `None` when something else had the counters.
    pub fn stop(&mut self) -> Option<Counts> {
        self.group.disable().ok()?;
        let read = self.group.read().ok()?;
        let counts = Counts {
            instructions: read[&self.instructions],
            cycles: read[&self.cycles],
            branches: read[&self.branches],
            branch_misses: read[&self.branch_misses],
        };
        (counts.instructions > 0 && counts.cycles > 0).then_some(counts)
    }
}
