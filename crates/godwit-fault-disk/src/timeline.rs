//! Files and names of which the crash may come before, in the middle of or behind each change.
//!
//! A job's closure runs as a whole when the job starts, so what it does to the disk is known ahead of
//! time. What readers see changes at once: no other job reads bytes that a running one has changed, which
//! [`Inode::check_alone`] asserts (of bytes alone: nothing checks who looks at a name or a length that
//! another job is still to change). What a crash leaves follows from the instants: changes that were done
//! by then count, in their order in time, a write under way is torn, and the rest never happened.
//!
//! A sync makes durable what was done when it began, and not what other jobs did while it was under way:
//! POSIX promises no more, and a commit that took the end of a file too late must lose bytes here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::change::{Change, NameChange};
use crate::inline::Span;
use crate::random::SplitMix;
use crate::{Seen, Survival};

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
    fn take_done(&mut self, now: Duration) -> impl Iterator<Item = (Span, T)> + use<T> {
        self.0.sort_by_key(|(span, _)| span.to);
        let done = self.0.partition_point(|(span, _)| span.to <= now);
        let done: Vec<(Span, T)> = self.0.drain(..done).collect();
        done.into_iter()
    }

    /// Takes what has begun before `now` out, in order of its beginning, and forgets the rest.
    fn take_begun(&mut self, now: Duration) -> impl Iterator<Item = (Span, T)> + use<T> {
        let mut begun = std::mem::take(&mut self.0);
        begun.retain(|(span, _)| span.from < now);
        begun.sort_by_key(|(span, _)| (span.from, span.job));
        begun.into_iter()
    }
}

/// An instant, and who did something then: of two jobs at the same instant the first to start comes first.
type Moment = (Duration, u64);

/// Changes that were done at these moments, in this order, and are not durable yet.
#[derive(Clone)]
struct Unsynced<T>(Vec<(Moment, T)>);

impl<T> Default for Unsynced<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Unsynced<T> {
    fn push(&mut self, span: Span, change: T) {
        self.0.push(((span.to, span.job), change));
    }

    /// Takes those out that a sync of that span makes durable.
    fn take_synced(
        &mut self,
        sync: Span,
        concerns: impl Fn(&T) -> bool,
    ) -> impl Iterator<Item = T> {
        let began = (sync.from, sync.job);
        let synced = move |(moment, change): &mut (Moment, T)| *moment <= began && concerns(change);
        self.0.extract_if(.., synced).map(|(_, change)| change)
    }

    /// Takes all out.
    fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.0).into_iter().map(|(_, change)| change)
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
    unsynced: Unsynced<Change>,
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

    /// The medium gets one change, and readers see another one of the same bytes until the crash.
    pub(crate) fn change_seen_as(&mut self, span: Span, change: Change, seen: &Change) {
        seen.apply(&mut self.current);
        self.coming.push(span, Step::Change(change));
        self.settle(span.clock);
    }

    /// Overwrites what is on the medium, as far as the file goes.
    pub(crate) fn overwrite(&mut self, at: usize, bytes: &[u8], seen: Seen) {
        let copies = match seen {
            Seen::AtOnce => vec![&mut self.durable, &mut self.current],
            Seen::AfterCrash => vec![&mut self.durable],
        };
        for copy in copies {
            let place = copy.get_mut(at..).unwrap_or_default();
            let len = place.len().min(bytes.len());
            place[..len].copy_from_slice(&bytes[..len]);
        }
    }

    pub(crate) fn sync(&mut self, span: Span) {
        self.coming.push(span, Step::Sync);
        self.settle(span.clock);
    }

    /// What a sync of that span would have made durable never will be, while readers still see it.
    pub(crate) fn forget(&mut self, span: Span) {
        self.settle(span.clock);
        self.unsynced.take_synced(span, |_| true).for_each(drop);
    }

    /// A change that only a crash will look at.
    pub(crate) fn plan_change(&mut self, span: Span, change: Change) {
        self.coming.push(span, Step::Change(change));
    }

    /// As [`Self::plan_change`].
    pub(crate) fn plan_sync(&mut self, span: Span) {
        self.coming.push(span, Step::Sync);
    }

    fn settle(&mut self, now: Duration) {
        for (span, step) in self.coming.take_done(now) {
            match step {
                Step::Change(change) => self.unsynced.push(span, change),
                Step::Sync => {
                    for change in self.unsynced.take_synced(span, |_| true) {
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
        for (span, step) in self.coming.take_begun(now) {
            if let Step::Change(Change::Write(offset, mut data)) = step {
                data.truncate(data.len() / 2);
                self.unsynced.push(span, Change::Write(offset, data));
            }
        }
        for change in self.unsynced.take() {
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
    unsynced: Unsynced<NameChange>,
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

    /// A change that only a crash will look at.
    pub(crate) fn plan_change(&mut self, span: Span, change: NameChange) {
        self.coming.push(span, NameStep::Change(change));
    }

    /// As [`Self::plan_change`].
    pub(crate) fn plan_sync_dir(&mut self, span: Span, path: PathBuf) {
        self.coming.push(span, NameStep::SyncDir(path));
    }

    /// Gives a path to a file, durably.
    pub(crate) fn link(&mut self, path: &Path, inode: usize) {
        self.current.insert(path.to_owned(), inode);
        self.durable.insert(path.to_owned(), inode);
    }

    fn settle(&mut self, now: Duration) {
        for (span, step) in self.coming.take_done(now) {
            match step {
                NameStep::Change(change) => self.unsynced.push(span, change),
                NameStep::SyncDir(path) => {
                    let inside = |change: &NameChange| change.dir() == Some(&path);
                    for change in self.unsynced.take_synced(span, inside) {
                        change.apply(&mut self.durable);
                    }
                }
            }
        }
    }

    pub(crate) fn crash(&mut self, now: Duration, survival: Survival, random: &mut SplitMix) {
        self.settle(now);
        self.coming = Coming::default();
        let mut lost: BTreeSet<PathBuf> = BTreeSet::new();
        for change in self.unsynced.take() {
            let builds_on_lost = change.paths().any(|path| lost.contains(path));
            let survives = match survival {
                Survival::All => true,
                Survival::Nothing => false,
                Survival::Part(_) => !builds_on_lost && random.coin(),
            };
            match survives {
                true => change.apply(&mut self.durable),
                false => lost.extend(change.paths().map(Path::to_owned)),
            }
        }
        self.current = self.durable.clone();
    }
}

#[cfg(test)]
mod tests;
