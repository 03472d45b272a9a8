//! A failure that is planned: of which operations the n-th fails, how, and what comes after it; and what may
//! be wrong with an operation that succeeds.

use std::io;
use std::time::Duration;

use crate::{Kind, Operation};

/// Which operations count.
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
    /// Whatever changes the disk or makes it durable.
    Changes,
}

impl Counted {
    /// All but the last, which overlaps with others.
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

/// What comes after the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// All is well again.
    Once,
    /// What counts fails until the crash.
    ItsKind,
    /// Everything fails until the crash.
    Everything,
}

/// What the system says of an operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// EIO: the device cannot do it.
    Device = 5,
    /// ENOSPC: the disk is full.
    Full = 28,
    /// No error of the system: it reads or writes a part, and no more.
    Short = 0,
}

impl DiskError {
    /// What the caller of an operation of that kind is told.
    pub(crate) fn of(self, kind: Kind) -> io::Error {
        match (self, kind) {
            (Self::Short, Kind::Read) => io::ErrorKind::UnexpectedEof.into(),
            (Self::Short, Kind::Write | Kind::Sync) => io::ErrorKind::WriteZero.into(),
            (Self::Device | Self::Full, _) => io::Error::from_raw_os_error(self as i32),
        }
    }
}

/// What is wrong with an operation although it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// It takes so much longer.
    Stall(Duration),
    /// A bit of what it reads or writes is flipped.
    FlippedBit,
    /// A page of what it writes is not written: its place stays as it was.
    LostWrite,
    /// A page of what it writes lands at another place, mostly of another file, and its own stays as it was.
    MisdirectedWrite,
}

/// From when on readers see what a write has left on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    AtOnce,
    /// Until the crash the page cache has what was written.
    AfterCrash,
}

/// An anomaly of one operation, which a crash does not cancel.
#[derive(Clone, Copy, Debug)]
pub struct PlannedAnomaly {
    /// Of which operations; of those that are neither a read nor a write of bytes, only a stall is noticed.
    pub counted: Counted,
    /// The n-th from now on; 1 is the next.
    pub nth: u64,
    pub anomaly: Anomaly,
    pub seen: Seen,
    /// Decides which bit, page and place it is.
    pub seed: u64,
}

/// A failure. A write that fails is torn in half.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Of which operations.
    pub counted: Counted,
    /// The n-th from now on; 1 is the next.
    pub nth: u64,
    /// What it says.
    pub error: DiskError,
    /// What comes after it.
    pub lasting: Lasting,
    /// A sync that fails forgets what it was to make durable, and the next one succeeds without it: what
    /// Linux does with pages that could not be written.
    pub forgets: bool,
}

/// An operation that was refused.
pub(crate) struct Refusal {
    pub(crate) error: DiskError,
    /// It is the n-th, which leaves traces; those after it do nothing.
    pub(crate) is_first: bool,
}

/// Counts operations, and lets them fail as planned.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    counts: [u64; Counted::COUNT],
    /// With the count at which it happens.
    planned: Option<(Fault, u64)>,
    happened: bool,
    anomaly: Option<(PlannedAnomaly, u64)>,
}

impl Faults {
    /// Operations so far.
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

    /// What is planned and has not happened does not.
    pub(crate) fn cancel(&mut self) {
        if !self.happened {
            self.planned = None;
        }
    }

    /// Nothing fails any more.
    pub(crate) fn end(&mut self) {
        (self.planned, self.happened) = (None, false);
    }

    /// Counts an operation; what is wrong with it, or that it fails.
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
