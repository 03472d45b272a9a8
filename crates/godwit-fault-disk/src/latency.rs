//! How long operations take.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::inline::Span;
use crate::random::SplitMix;
use crate::{Kind, Operation};

/// How long operations take.
#[derive(Clone, Debug)]
pub enum Latency {
    /// Times drawn from ranges.
    Drawn {
        /// A read, including that of a length or a directory; opening an existing file.
        read: RangeInclusive<Duration>,
        /// A write, a change of a length or a name.
        write: RangeInclusive<Duration>,
        /// Making a file or a directory durable.
        sync: RangeInclusive<Duration>,
    },
    /// The times of a disk that has to move its head.
    HardDisk(HardDisk),
}

impl Latency {
    /// Every operation takes this time.
    pub fn constant(time: Duration) -> Self {
        let range = time..=time;
        Self::Drawn { read: range.clone(), write: range.clone(), sync: range }
    }
}

/// A hard disk, below a page cache that keeps only unsynced bytes and bytes that were read ahead:
///
/// * A write takes no time. It comes to the disk with the next sync of its file, which takes a seek for each
///   stretch of bytes that was written, one for the journal of the file system, and the time of the bytes.
/// * A read takes a seek and the time of its bytes. A read that continues the last one of that file reads
///   ahead, and bytes that were read ahead take no time.
/// * A job that begins to use the disk while n others do takes n + 1 times as long; the others are not
///   slowed.
#[derive(Clone, Copy, Debug)]
pub struct HardDisk {
    /// Time to get to another place.
    pub seek: Duration,
    /// Speed of reading or writing from there on.
    pub bytes_per_second: u64,
}

impl HardDisk {
    /// A disk of 2015, with 7,200 revolutions a minute.
    pub const COMMON: Self =
        Self { seek: Duration::from_millis(10), bytes_per_second: 120_000_000 };

    fn transfer(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes * 1_000_000_000 / self.bytes_per_second)
    }
}

/// Bytes that are read ahead (Linux: `read_ahead_kb`).
const READ_AHEAD: u64 = 128 << 10;

/// The content of a hard disk's page cache, and the users of the disk.
#[derive(Default)]
pub(crate) struct Cache {
    files: BTreeMap<PathBuf, CachedFile>,
    /// Jobs, with the time at which the last operation of each ends.
    users: BTreeMap<u64, Duration>,
}

#[derive(Default)]
struct CachedFile {
    /// Disjoint stretches that were written and not synced.
    dirty: Vec<Range<u64>>,
    /// The bytes that were read last, and ahead.
    ahead: Range<u64>,
}

impl CachedFile {
    fn write(&mut self, bytes: Range<u64>) {
        let touches = |other: &mut Range<u64>| other.start <= bytes.end && bytes.start <= other.end;
        let touched: Vec<Range<u64>> = self.dirty.extract_if(.., touches).collect();
        let joined = touched
            .into_iter()
            .fold(bytes, |joined, other| joined.start.min(other.start)..joined.end.max(other.end));
        self.dirty.push(joined);
    }

    fn sync(&mut self, disk: HardDisk) -> Duration {
        let dirty = std::mem::take(&mut self.dirty);
        let bytes = dirty.iter().map(|bytes| bytes.end - bytes.start).sum();
        disk.seek * (dirty.len() as u32 + 1) + disk.transfer(bytes)
    }

    fn read(&mut self, disk: HardDisk, bytes: Range<u64>) -> Duration {
        let within = |other: &Range<u64>| other.start <= bytes.start && bytes.end <= other.end;
        if self.dirty.iter().any(within) || within(&self.ahead) {
            return Duration::ZERO;
        }
        let goes_on =
            !self.ahead.is_empty() && (self.ahead.start..=self.ahead.end).contains(&bytes.start);
        let (start, least) = match goes_on {
            true => (self.ahead.end, READ_AHEAD),
            false => (bytes.start, 0),
        };
        self.ahead = start..bytes.end.max(start + least);
        disk.seek + disk.transfer(self.ahead.end - start)
    }
}

impl Cache {
    /// The cost of an operation that begins at the start of `span`.
    fn cost(&mut self, disk: HardDisk, operation: Operation<'_>, span: Span) -> Duration {
        let alone = match operation.kind {
            Kind::Sync => self.file(operation.path).sync(disk),
            Kind::Read if operation.bytes.1 > 0 => {
                let (start, len) = operation.bytes;
                self.file(operation.path).read(disk, start..start + len)
            }
            Kind::Write if operation.bytes.1 > 0 => {
                let (start, len) = operation.bytes;
                self.file(operation.path).write(start..start + len);
                Duration::ZERO
            }
            Kind::Read | Kind::Write => Duration::ZERO,
        };
        self.users.retain(|_, until| *until > span.clock);
        let others =
            self.users.iter().filter(|(job, until)| **job != span.job && **until > span.from);
        let took = alone * (others.count() as u32 + 1);
        if !took.is_zero() {
            self.users.insert(span.job, span.from + took);
        }
        took
    }

    fn file(&mut self, path: &Path) -> &mut CachedFile {
        self.files.entry(path.to_owned()).or_default()
    }

    /// The machine has lost its memory.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Latency {
    /// The cost of an operation that begins at the start of `span`.
    pub(crate) fn cost(
        &self,
        cache: &mut Cache,
        operation: Operation<'_>,
        random: &mut SplitMix,
        span: Span,
    ) -> Duration {
        match self {
            Self::Drawn { read, write, sync } => random.within(match operation.kind {
                Kind::Read => read,
                Kind::Write => write,
                Kind::Sync => sync,
            }),
            Self::HardDisk(disk) => cache.cost(*disk, operation, span),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: HardDisk =
        HardDisk { seek: Duration::from_millis(10), bytes_per_second: 1_000_000 };

    /// Milliseconds that it takes a job that begins it at some millisecond.
    fn took(cache: &mut Cache, (job, at): (u64, u64), kind: Kind, bytes: Range<u64>) -> u128 {
        let path = Path::new("/d/f");
        let operation = Operation::new(kind, "", path).on(bytes.start, bytes.end - bytes.start);
        let from = Duration::from_millis(at);
        cache.cost(DISK, operation, Span { from, to: from, job, clock: from }).as_millis()
    }

    #[test]
    fn a_sync_takes_what_was_written_before_it() {
        let (cache, alone) = (&mut Cache::default(), (1, 0));
        for bytes in [0..1_000, 1_000..2_000, 9_000..10_000] {
            assert_eq!(took(cache, alone, Kind::Write, bytes), 0);
        }
        assert_eq!(took(cache, alone, Kind::Read, 500..1_500), 0, "from memory");
        assert_eq!(took(cache, alone, Kind::Sync, 0..0), 3 * 10 + 3);
        assert_eq!(took(cache, alone, Kind::Sync, 0..0), 10, "the journal alone");
    }

    #[test]
    fn reads_in_a_row_take_one_seek() {
        let (cache, alone) = (&mut Cache::default(), (1, 0));
        assert_eq!(took(cache, alone, Kind::Read, 0..4_000), 14);
        assert_eq!(took(cache, alone, Kind::Read, 4_000..8_000), 10 + 131);
        assert_eq!(took(cache, alone, Kind::Read, 8_000..100_000), 0, "it was read ahead");
        assert_eq!(took(cache, alone, Kind::Read, 1_000_000..1_001_000), 11);
    }

    #[test]
    fn jobs_share_it() {
        let cache = &mut Cache::default();
        assert_eq!(took(cache, (1, 0), Kind::Read, 0..5_000), 15);
        assert_eq!(took(cache, (2, 14), Kind::Read, 50_000..51_000), 22);
        assert_eq!(took(cache, (3, 36), Kind::Read, 90_000..91_000), 11, "nobody else reads");
    }
}
