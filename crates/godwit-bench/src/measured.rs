//! One process, timed and watched from outside.
//!
//! A process that has ended stays in `/proc` until its parent collects it, with its final processor time and
//! its final count of bytes written, so both are exact. Peak memory disappears earlier, with the address
//! space. It is therefore sampled; since the kernel itself keeps the high-water mark, a sample misses only
//! what is new since the one before.

use std::fs;
use std::io::{self, ErrorKind};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Serialize;

use crate::failure::Failure;
use crate::leash::Leash;

/// Time between two looks at a running process: about 20 microseconds of work each.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// What a process took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Seconds from before its start to its end.
    pub seconds: f64,
    /// Seconds of processor time in its own code, all threads.
    pub user_seconds: f64,
    /// Seconds of processor time in the kernel on its behalf.
    pub system_seconds: f64,
    /// Most bytes that were ever resident, pages of mapped files included.
    pub peak_memory: u64,
    /// Bytes that it caused to be sent to the disk.
    pub written: u64,
    /// Seconds of processor time that everything else took meanwhile, the kernel's own threads and
    /// other virtual machines on the same processors included, the benchmark's servers not: what
    /// tells a quiet machine.
    pub others_seconds: f64,
}

impl Measured {
    /// Seconds of processor time, own code and kernel.
    pub fn processor_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Share of all processors' time that everything else took, from 0 to 1.
    pub fn others_share(&self, cores: usize) -> f64 {
        self.others_seconds / (self.seconds * cores as f64)
    }
}

/// Runs `command` to its end.
pub fn measure(command: &mut Command) -> Result<(ExitStatus, Measured), Failure> {
    let program = command.get_program().to_owned();
    let failed = |error| Failure::Start(program.clone().into(), error);
    let busy_before = busy_seconds().map_err(failed)?;
    let started = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let _leash = Leash::of(&child).map_err(failed)?;
    let (ended, end) = channel();
    let pid = child.id();
    let sampler = std::thread::spawn(move || sample_peak_memory(pid, &end));
    let waited = wait_for_end(&child);
    let seconds = started.elapsed().as_secs_f64();
    let busy_after = busy_seconds().map_err(failed)?;
    drop(ended);
    let peak_memory = sampler.join().unwrap_or_default();
    waited.map_err(|errno| failed(errno.into()))?;
    let (user_seconds, system_seconds) = processor_time(pid).map_err(failed)?;
    let written = bytes_written(pid).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    // Both counts are in ticks, so that the difference of an idle machine may lie below zero.
    let others = busy_after - busy_before - user_seconds - system_seconds;
    let measured = Measured {
        seconds,
        user_seconds,
        system_seconds,
        peak_memory,
        written,
        others_seconds: others.max(0.0),
    };
    Ok((status, measured))
}

/// Seconds of processor time that a running process has taken, all threads.
pub fn processor_seconds(pid: u32) -> io::Result<f64> {
    processor_time(pid).map(|(user, system)| user + system)
}

/// Waits without collecting the process.
fn wait_for_end(child: &Child) -> rustix::io::Result<()> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(child)), options).map(|_| ())
}

/// The highest high-water mark seen until the other end of `end` is dropped.
fn sample_peak_memory(pid: u32, end: &Receiver<()>) -> u64 {
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        peak = peak_memory_in(&status).unwrap_or_default().max(peak);
        if end.recv_timeout(SAMPLE_INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return peak;
        }
    }
}

fn peak_memory_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn processor_time(pid: u32) -> io::Result<(f64, f64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (user, system) = processor_ticks_in(&stat).ok_or(ErrorKind::InvalidData)?;
    Ok((seconds(user), seconds(system)))
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

/// Seconds that all processors together were busy since the system started.
fn busy_seconds() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    Ok(seconds(busy_ticks_in(&stat).ok_or(ErrorKind::InvalidData)?))
}

/// The first line sums up all processors: user, nice, system, idle, iowait, irq, softirq, steal.
/// What follows is part of the first two.
fn busy_ticks_in(stat: &str) -> Option<u64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, _, _, irq, softirq, steal] = ticks[..] else { return None };
    Some(user + nice + system + irq + softirq + steal)
}

/// The name of the program, in parentheses, may hold anything: fields count from the last one.
fn processor_ticks_in(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn bytes_written(pid: u32) -> io::Result<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.and_then(|bytes| bytes.parse().ok()).ok_or(ErrorKind::InvalidData)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let stat = "7 (a) b (c)) Z 1 7 7 0 -1 4194304 90 0 1 0 12 34 0 0 20 0 1 0 5 0 0";
        assert_eq!(processor_ticks_in(stat), Some((12, 34)));
        assert_eq!(peak_memory_in("VmPeak:\t  9 kB\nVmHWM:\t  5124 kB\n"), Some(5124 * 1024));
        let busy = "cpu  1 2 4 1000 2000 8 16 32 5000 6000\ncpu0 9 9 9 9 9 9 9 9 9 9\n";
        assert_eq!(busy_ticks_in(busy), Some(63));
        assert_eq!(busy_ticks_in("intr 1 2\n"), None);
        assert_eq!(peak_memory_in("State:\tZ (zombie)\n"), None);
    }

    #[test]
    fn a_process_is_measured_to_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3"]);
        let (status, measured) = measure(&mut command).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(measured.peak_memory > 100_000, "{measured:?}");
    }

    #[test]
    fn what_is_not_there_cannot_be_started() {
        let failure = measure(&mut Command::new("/nowhere/at-all")).unwrap_err();
        assert!(matches!(failure, Failure::Start(..)), "{failure}");
    }
}
