//! A planned failure: which operations count, which of them fails and how, and what happens after it; and
//! planned anomalies of operations that succeed.

use std::io;
use std::time::Duration;

use crate::{Kind, Operation};

/// The operations that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Opening and creating files.
    Opens,
    /// Reading from files.
    Reads,
    /// Writing to files, and changing their length.
    Writes,
    /// Making files and directories durable.
    Syncs,
    /// Renaming and removing files.
    Names,
    /// Every operation that changes the disk or makes a change durable.
    Changes,
}

impl Counted {
    /// All kinds but the last, which overlaps with others.
    pub const KINDS: [Self; 5] = [Self::Opens, Self::Reads, Self::Writes, Self::Syncs, Self::Names];

    const COUNT: usize = 6;

    fn has(self, operation: Operation<'_>) -> bool {
        match self {
            Self::Opens => matches!(operation.name, "open" | "create"),
            Self::Reads => operation.name == "read",
            Self::Writes => matches!(operation.name, "write" | "set length"),
            Self::Syncs => operation.kind == Kind::Sync,
            Self::Names => matches!(operation.name, "rename" | "remove"),
            Self::Changes => operation.kind != Kind::Read,
        }
    }
}

/// What happens after the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// Later operations succeed.
    Once,
    /// The counted operations fail until the crash.
    ItsKind,
    /// Everything fails until the crash.
    Everything,
}

/// The error of an operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// EIO: the device cannot do it.
    Device = 5,
    /// ENOSPC: the disk is full.
    Full = 28,
    /// No error of the system: the operation reads or writes only a part.
    Short = 0,
}

impl DiskError {
    /// The error that the caller of such an operation receives.
    pub(crate) fn of(self, kind: Kind) -> io::Error {
        match (self, kind) {
            (Self::Short, Kind::Read) => io::ErrorKind::UnexpectedEof.into(),
            (Self::Short, Kind::Write | Kind::Sync) => io::ErrorKind::WriteZero.into(),
            (Self::Device | Self::Full, _) => io::Error::from_raw_os_error(self as i32),
        }
    }
}

/// What goes wrong with an operation that succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// The operation takes this much longer.
    Stall(Duration),
    /// A bit of the bytes that are read or written is flipped.
    FlippedBit,
    /// A page of the bytes is not written: its place keeps its old content.
    LostWrite,
    /// A page of the bytes is written to another place, mostly of another file, and its own place keeps its
    /// old content.
    MisdirectedWrite,
}

/// When readers begin to see what a wrong write has left on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    AtOnce,
    /// Until the crash, the page cache still has the right bytes.
    AfterCrash,
}

/// An anomaly of one operation. A crash does not cancel it.
#[derive(Clone, Copy, Debug)]
pub struct PlannedAnomaly {
    /// The operations that are counted. Of those that neither read nor write bytes, only a stall has an
    /// effect.
    pub counted: Counted,
    /// The n-th from now on; 1 is the next.
    pub nth: u64,
    pub anomaly: Anomaly,
    pub seen: Seen,
    /// Decides which bit, page and place are affected.
    pub seed: u64,
}

/// A planned failure. A write that fails is torn in half.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The operations that are counted.
    pub counted: Counted,
    /// The n-th from now on; 1 is the next.
    pub nth: u64,
    /// The error.
    pub error: DiskError,
    /// What happens after it.
    pub lasting: Lasting,
    /// A sync that fails forgets the changes that it was to make durable, and the next one succeeds without
    /// them, as Linux does with pages that could not be written.
    pub forgets: bool,
}

/// An operation that was refused.
pub(crate) struct Refusal {
    pub(crate) error: DiskError,
    /// Whether this is the n-th operation, which has partial effects; those after it do nothing.
    pub(crate) is_first: bool,
}

/// Counts operations, and makes them fail as planned.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    counts: [u64; Counted::COUNT],
    /// The failure, with the count at which it happens.
    planned: Option<(Fault, u64)>,
    happened: bool,
    anomaly: Option<(PlannedAnomaly, u64)>,
}

impl Faults {
    /// Number of operations so far.
    pub(crate) fn count(&self, counted: Counted) -> u64 {
        self.counts[counted as usize]
    }

    pub(crate) fn plan(&mut self, fault: Fault) {
        self.planned = Some((fault, self.count(fault.counted) + fault.nth));
        self.happened = false;
    }

    pub(crate) fn have_happened(&self) -> bool {
        self.happened
    }

    /// Whether pages of a failed sync are forgotten.
    pub(crate) fn forget(&self) -> bool {
        self.planned.is_some_and(|(fault, _)| fault.forgets)
    }

    pub(crate) fn plan_anomaly(&mut self, planned: PlannedAnomaly) {
        self.anomaly = Some((planned, self.count(planned.counted) + planned.nth));
    }

    /// Whether an anomaly is still to come.
    pub(crate) fn awaits_anomaly(&self) -> bool {
        self.anomaly.is_some()
    }

    /// Cancels a failure that is planned and has not happened.
    pub(crate) fn cancel(&mut self) {
        if !self.happened {
            self.planned = None;
        }
    }

    /// Ends all failures.
    pub(crate) fn end(&mut self) {
        (self.planned, self.happened) = (None, false);
    }

    /// Counts an operation, and tells whether it fails or what is wrong with it.
    pub(crate) fn step(
        &mut self,
        operation: Operation<'_>,
    ) -> Result<Option<PlannedAnomaly>, Refusal> {
        const ALL: [Counted; Counted::COUNT] = [
            Counted::Opens,
            Counted::Reads,
            Counted::Writes,
            Counted::Syncs,
            Counted::Names,
            Counted::Changes,
        ];
        for counted in ALL {
            self.counts[counted as usize] += u64::from(counted.has(operation));
        }
        let due = |(planned, at): &mut (PlannedAnomaly, u64)| {
            planned.counted.has(operation) && self.counts[planned.counted as usize] == *at
        };
        let anomaly = self.anomaly.take_if(due).map(|(planned, _)| planned);
        self.refuse(operation).map(|()| anomaly)
    }

    fn refuse(&mut self, operation: Operation<'_>) -> Result<(), Refusal> {
        let Some((fault, at)) = self.planned else { return Ok(()) };
        let counts = fault.counted.has(operation);
        if self.happened {
            let fails = match fault.lasting {
                Lasting::Once => false,
                Lasting::ItsKind => counts,
                Lasting::Everything => true,
            };
            return match fails {
                true => Err(Refusal { error: fault.error, is_first: false }),
                false => Ok(()),
            };
        }
        if counts && self.count(fault.counted) == at {
            self.happened = true;
            return Err(Refusal { error: fault.error, is_first: true });
        }
        Ok(())
    }
}
