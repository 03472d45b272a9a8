//! The disk that holds the coins: its limits, and its use by a run.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::OFlags;
use serde::Serialize;

use crate::failure::Failure;

/// Bytes of a read, and what its place and memory are multiples of.
const BLOCK: usize = 4096;
/// How long the disk is read for a rate.
const PROBE_TIME: Duration = Duration::from_secs(3);
/// Time between two looks at the queue.
const SAMPLE_TIME: Duration = Duration::from_millis(100);

/// Reads of [`BLOCK`] bytes at random places, page cache avoided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Rate {
    /// Threads that read one block after the other.
    pub(super) depth: usize,
    pub(super) reads_per_second: f64,
}

/// What a disk's queue had in it while a program ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Queue {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    /// Reads that were on their way, on average over the time in which there was one.
    pub(super) in_flight: f64,
    /// Milliseconds that a read took, on average.
    pub(super) read_milliseconds: f64,
    /// Reads a second: of the samples with any, the median, and what nine in ten are above.
    pub(super) median_rate: f64,
    pub(super) low_rate: f64,
}

/// The disk of some files.
pub(super) struct Disk {
    files: Vec<PathBuf>,
    statistics: PathBuf,
}

/// Counters of a disk (`Documentation/block/stat.rst` of Linux).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    reads: u64,
    sectors: u64,
    read_milliseconds: u64,
    busy_milliseconds: u64,
}

impl Counters {
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self {
            reads: *fields.first()?,
            sectors: *fields.get(2)?,
            read_milliseconds: *fields.get(3)?,
            busy_milliseconds: *fields.get(9)?,
        })
    }
}

/// Looks at the disk from time to time until it is stopped.
pub(super) struct Watch {
    end: Sender<()>,
    samples: JoinHandle<io::Result<Vec<(Instant, Counters)>>>,
    statistics: PathBuf,
}

impl Disk {
    /// The one of the runs in `dir`.
    pub(super) fn under(dir: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::File(dir.to_owned(), error);
        let device = fs::metadata(dir).map_err(failed)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let mut files = vec![];
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "run") {
                files.push(path);
            }
        }
        Ok(Self { files, statistics: format!("/sys/dev/block/{major}:{minor}/stat").into() })
    }

    /// How fast `depth` threads read it.
    pub(super) fn rate(&self, depth: usize) -> Result<Rate, Failure> {
        let failed = |error| Failure::File(self.statistics.clone(), error);
        let open = |path: &PathBuf| {
            let flags = OFlags::DIRECT.bits().cast_signed();
            let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
            let blocks = file.metadata()?.len() / BLOCK as u64;
            Ok((file, blocks))
        };
        let files = self.files.iter().map(open).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let start = Instant::now();
        let reads = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..depth as u64)
                .map(|seed| {
                    scope.spawn({
                        let files = &files;
                        move || read_at_random(files, seed, start)
                    })
                })
                .collect();
            let counts = threads.into_iter().map(|thread| thread.join().expect("it only reads"));
            counts.sum::<io::Result<u64>>()
        });
        let reads = reads.map_err(failed)?;
        Ok(Rate { depth, reads_per_second: reads as f64 / start.elapsed().as_secs_f64() })
    }

    /// Begins to look at its queue.
    pub(super) fn watch(&self) -> Watch {
        let (end, ended) = channel();
        let path = self.statistics.clone();
        let samples = std::thread::spawn(move || {
            let mut samples = vec![];
            loop {
                let text = fs::read_to_string(&path)?;
                let counters = Counters::parse(&text).ok_or(io::ErrorKind::InvalidData)?;
                samples.push((Instant::now(), counters));
                if ended.recv_timeout(SAMPLE_TIME) != Err(RecvTimeoutError::Timeout) {
                    return Ok(samples);
                }
            }
        });
        Watch { end, samples, statistics: self.statistics.clone() }
    }
}

impl Watch {
    pub(super) fn stop(self) -> Result<Queue, Failure> {
        drop(self.end);
        let samples = self.samples.join().expect("it only reads");
        let samples = samples.map_err(|error| Failure::File(self.statistics, error))?;
        let seconds = |(at, counters): &(Instant, Counters)| {
            (at.duration_since(samples[0].0).as_secs_f64(), *counters)
        };
        Ok(Queue::of(&samples.iter().map(seconds).collect::<Vec<_>>()))
    }
}

impl Queue {
    /// Of counters with the seconds at which they were read.
    fn of(samples: &[(f64, Counters)]) -> Self {
        let (Some((_, first)), Some((_, last))) = (samples.first(), samples.last()) else {
            return Self::default();
        };
        let reads = last.reads - first.reads;
        let read_milliseconds = (last.read_milliseconds - first.read_milliseconds) as f64;
        let busy = (last.busy_milliseconds - first.busy_milliseconds) as f64;
        let rate = |pair: &[(f64, Counters)]| {
            (pair[1].1.reads - pair[0].1.reads) as f64 / (pair[1].0 - pair[0].0)
        };
        let mut rates: Vec<f64> = samples.windows(2).map(rate).filter(|rate| *rate > 0.0).collect();
        rates.sort_by(f64::total_cmp);
        let at = |share: usize| rates.get(rates.len() * share / 100).copied().unwrap_or_default();
        Self {
            reads,
            read_bytes: (last.sectors - first.sectors) * 512,
            in_flight: read_milliseconds / busy.max(1.0),
            read_milliseconds: read_milliseconds / (reads as f64).max(1.0),
            median_rate: at(50),
            low_rate: at(10),
        }
    }
}

fn read_at_random(files: &[(File, u64)], seed: u64, start: Instant) -> io::Result<u64> {
    let mut memory = vec![0; 2 * BLOCK];
    let aligned = memory.as_ptr().align_offset(BLOCK);
    let block = &mut memory[aligned..aligned + BLOCK];
    let blocks: u64 = files.iter().map(|(_, blocks)| blocks).sum();
    let (mut rng, mut reads) = (StdRng::seed_from_u64(seed), 0);
    while blocks > 0 && start.elapsed() < PROBE_TIME {
        let mut place = rng.random_range(0..blocks);
        for (file, blocks) in files {
            if place < *blocks {
                file.read_exact_at(block, place * BLOCK as u64)?;
                break;
            }
            place -= blocks;
        }
        reads += 1;
    }
    Ok(reads)
}

/// Drops what the system keeps of files. Wants root.
pub(super) fn drop_page_cache() -> Result<(), Failure> {
    let path = Path::new("/proc/sys/vm/drop_caches");
    fs::write(path, "3").map_err(|error| Failure::File(path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_from_its_counters() {
        let text = "  100 1 800 50 7 8 9 10 2 400 90 0 0 0 0 0 0\n";
        let first = Counters::parse(text).unwrap();
        let [reads, sectors] = [100, 800];
        assert_eq!(
            first,
            Counters { reads, sectors, read_milliseconds: 50, busy_milliseconds: 400 }
        );
        assert_eq!(Counters::parse("1 2 3"), None);
        let later = |reads| Counters {
            reads: first.reads + reads,
            sectors: first.sectors + 8 * reads,
            read_milliseconds: first.read_milliseconds + 2 * reads,
            busy_milliseconds: first.busy_milliseconds + reads / 4,
        };
        // 100 and 900 a tenth of a second, then nothing.
        let samples = [(0.0, later(0)), (0.1, later(100)), (0.2, later(1000)), (0.3, later(1000))];
        let queue = Queue::of(&samples);
        assert_eq!((queue.reads, queue.read_bytes), (1000, 4_096_000));
        assert_eq!((queue.in_flight, queue.read_milliseconds), (8.0, 2.0));
        assert!(
            (queue.low_rate - 1000.0).abs() < 1e-6 && (queue.median_rate - 9000.0).abs() < 1e-6
        );
        assert_eq!(Queue::of(&[]), Queue::default());
    }

    #[test]
    fn a_disk_that_is_there() {
        let dir = tempfile::tempdir_in(".").unwrap();
        fs::write(dir.path().join("0000000001.run"), vec![1; 8 * BLOCK]).unwrap();
        fs::write(dir.path().join("other"), b"").unwrap();
        let disk = Disk::under(dir.path()).unwrap();
        assert_eq!(disk.files.len(), 1);
        match disk.rate(2) {
            Ok(rate) => assert!(rate.reads_per_second > 0.0),
            // A file system in memory has no way around its page cache.
            Err(error) => godwit_testdata::skip(&format!("no O_DIRECT here: {error}")),
        }
    }
}
