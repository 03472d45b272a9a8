//! The last events of a run, for a run that failed.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// Lines that are kept.
const LINES: usize = 400;

/// A ring of lines.
#[derive(Clone, Debug, Default)]
pub struct Trace(VecDeque<(Duration, String)>);

impl Trace {
    /// Adds a line, and forgets the oldest when there are too many.
    pub fn note(&mut self, now: Duration, line: String) {
        if self.0.len() == LINES {
            self.0.pop_front();
        }
        self.0.push_back((now, line));
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(at, line)| writeln!(f, "{:12.6} {line}", at.as_secs_f64()))
    }
}
