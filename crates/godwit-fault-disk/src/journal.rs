//! The events of a simulation, line by line: two runs of one seed must give the same bytes.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The lines; clones are the same journal. Nothing is noted before the journal is opened.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Option<String>>>);

impl Journal {
    fn text(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes lines from now on.
    pub fn open(&self) {
        *self.text() = Some(String::new());
    }

    /// Whether lines are noted.
    pub fn is_open(&self) -> bool {
        self.text().is_some()
    }

    /// Adds a line, with the time in seconds.
    pub fn note(&self, at: Duration, line: fmt::Arguments<'_>) {
        if let Some(text) = &mut *self.text() {
            writeln!(text, "{}.{:09} {line}", at.as_secs(), at.subsec_nanos()).expect("a string");
        }
    }

    /// Stops noting, and returns the lines noted since it was opened.
    pub fn close(&self) -> String {
        self.text().take().unwrap_or_default()
    }
}

/// Bytes in a line: how many, and a hash that is the same in all processes.
pub struct Content<'a>(pub &'a [u8]);

impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.0);
        write!(f, "{} bytes {:016x}", self.0.len(), hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_noted_between_opening_and_closing() {
        let journal = Journal::default();
        let note = |line: &str| journal.note(Duration::from_millis(1_500), format_args!("{line}"));
        note("before");
        assert!(!journal.is_open());
        journal.open();
        note("one");
        note("two");
        assert_eq!(journal.close(), "1.500000000 one\n1.500000000 two\n");
        note("behind");
        assert_eq!(journal.close(), "");
    }

    #[test]
    fn content_is_told_from_other_content_of_the_same_length() {
        assert_eq!(Content(b"a").to_string(), Content(b"a").to_string());
        assert_ne!(Content(b"a").to_string(), Content(b"b").to_string());
        // The same in all processes, so it is a constant.
        assert_eq!(Content(b"").to_string(), "0 bytes d1fba762150c532c");
    }
}
