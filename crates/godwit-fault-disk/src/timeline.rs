//! Files and names of which the crash may come before, in the middle of or behind each change.
//!
//! A job's closure runs as a whole when the job starts, so what it does to the disk is known ahead of
//! time. What readers see changes at once: no other job reads what a running one has changed, which
//! [`Inode::check_alone`] asserts. What a crash leaves follows from the instants: changes that were done
//! by then count, in their order in time, a write under way is torn, and the rest never happened.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Survival;
use crate::change::{Change, NameChange};
use crate::inline::Span;
use crate::random::SplitMix;

/// Steps that are not done yet.
#[derive(Clone)]
struct Coming<T>(Vec<(Span, T)>);

impl<T> Default for Coming<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Coming<T> {
    fn push(&mut self, span: Span, step: T) {
        self.0.push((span, step));
    }

    /// Takes what is done by `now` out, in order of its end; equal ones in the order of their pushes.
    fn take_done(&mut self, now: Duration) -> impl Iterator<Item = T> + use<T> {
        self.0.sort_by_key(|(span, _)| span.to);
        let done = self.0.partition_point(|(span, _)| span.to <= now);
        let done: Vec<(Span, T)> = self.0.drain(..done).collect();
        done.into_iter().map(|(_, step)| step)
    }

    /// Takes what has begun before `now` out, in order of its beginning, and forgets the rest.
    fn take_begun(&mut self, now: Duration) -> impl Iterator<Item = T> + use<T> {
        let mut begun = std::mem::take(&mut self.0);
        begun.retain(|(span, _)| span.from < now);
        begun.sort_by_key(|(span, _)| (span.from, span.job));
        begun.into_iter().map(|(_, step)| step)
    }
}

#[derive(Clone)]
enum Step {
    Change(Change),
    Sync,
}

/// A file.
#[derive(Clone, Default)]
pub(crate) struct Inode {
    /// As readers see it.
    pub(crate) current: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    coming: Coming<Step>,
}

impl Inode {
    /// A file whose bytes are durable.
    pub(crate) fn durable(bytes: Vec<u8>) -> Self {
        Self { current: bytes.clone(), durable: bytes, ..Self::default() }
    }

    pub(crate) fn change(&mut self, span: Span, change: Change) {
        change.apply(&mut self.current);
        self.coming.push(span, Step::Change(change));
        self.settle(span.clock);
    }

    pub(crate) fn sync(&mut self, span: Span) {
        self.coming.push(span, Step::Sync);
        self.settle(span.clock);
    }

    fn settle(&mut self, now: Duration) {
        for step in self.coming.take_done(now) {
            match step {
                Step::Change(change) => self.unsynced.push(change),
                Step::Sync => {
                    for change in std::mem::take(&mut self.unsynced) {
                        change.apply(&mut self.durable);
                    }
                }
            }
        }
    }

    /// Fails where a job touches bytes that another one is still to write.
    pub(crate) fn check_alone(&self, span: Span, bytes: Range<u64>, what: impl FnOnce() -> String) {
        let changes = |(other, step): &(Span, Step)| match step {
            Step::Change(change) => {
                let range = change.range();
                let apart = range.end <= bytes.start || bytes.end <= range.start;
                other.job != span.job && other.to > span.from && !apart
            }
            Step::Sync => false,
        };
        if span.job != 0 && self.coming.0.iter().any(changes) {
            panic!("{}: another job is still to write there", what());
        }
    }

    pub(crate) fn crash(&mut self, now: Duration, survival: Survival, random: &mut SplitMix) {
        self.settle(now);
        for step in self.coming.take_begun(now) {
            if let Step::Change(Change::Write(offset, mut data)) = step {
                data.truncate(data.len() / 2);
                self.unsynced.push(Change::Write(offset, data));
            }
        }
        for change in std::mem::take(&mut self.unsynced) {
            match survival {
                Survival::All => change.apply(&mut self.durable),
                Survival::Nothing => {}
                Survival::Part(_) => change.apply_part(&mut self.durable, random),
            }
        }
        self.current = self.durable.clone();
    }
}

#[derive(Clone)]
enum NameStep {
    Change(NameChange),
    SyncDir(PathBuf),
}

/// Which file has which path.
#[derive(Clone, Default)]
pub(crate) struct Names {
    /// As everybody sees it.
    pub(crate) current: BTreeMap<PathBuf, usize>,
    durable: BTreeMap<PathBuf, usize>,
    unsynced: Vec<NameChange>,
    coming: Coming<NameStep>,
}

impl Names {
    pub(crate) fn change(&mut self, span: Span, change: NameChange) {
        change.apply(&mut self.current);
        self.coming.push(span, NameStep::Change(change));
        self.settle(span.clock);
    }

    pub(crate) fn sync_dir(&mut self, span: Span, path: &Path) {
        self.coming.push(span, NameStep::SyncDir(path.to_owned()));
        self.settle(span.clock);
    }

    /// Gives a path to a file, durably.
    pub(crate) fn link(&mut self, path: &Path, inode: usize) {
        self.current.insert(path.to_owned(), inode);
        self.durable.insert(path.to_owned(), inode);
    }

    fn settle(&mut self, now: Duration) {
        for step in self.coming.take_done(now) {
            match step {
                NameStep::Change(change) => self.unsynced.push(change),
                NameStep::SyncDir(path) => {
                    for change in std::mem::take(&mut self.unsynced) {
                        if change.dir() == Some(&path) {
                            change.apply(&mut self.durable);
                        } else {
                            self.unsynced.push(change);
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn crash(&mut self, now: Duration, survival: Survival, random: &mut SplitMix) {
        self.settle(now);
        self.coming = Coming::default();
        let unsynced = std::mem::take(&mut self.unsynced);
        let kept = match survival {
            Survival::All => unsynced.len(),
            Survival::Nothing => 0,
            Survival::Part(_) => (random.next() % (unsynced.len() as u64 + 1)) as usize,
        };
        for change in &unsynced[..kept] {
            change.apply(&mut self.durable);
        }
        self.current = self.durable.clone();
    }
}

#[cfg(test)]
mod tests;
