//! A command under way, and the moments at which to interrupt it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use godwit::log_format::LOG_FILE;
use godwit_sim::rng::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::node::Node;
use crate::progress::{Phase, RunLog};
use crate::records;

/// Between two looks at the log.
const POLL: Duration = Duration::from_micros(100);

/// A command under way.
pub(crate) struct Running<'a> {
    node: &'a Node,
    child: Child,
    log: Option<File>,
    /// Length of the log when this run started.
    log_start: u64,
    written: Vec<u8>,
    /// Bytes of undo files when they were seen to grow.
    pub(crate) undo_growing: Option<u64>,
}

impl<'a> Running<'a> {
    pub(crate) fn start(node: &'a Node, words: &[&dyn AsRef<OsStr>]) -> Self {
        Self::spawn(node, node.command(words))
    }

    /// `command` runs the program on the node's data directory.
    pub(crate) fn spawn(node: &'a Node, mut command: Command) -> Self {
        let log_start = fs::metadata(node.network_dir().join(LOG_FILE)).map_or(0, |log| log.len());
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the program starts");
        Self { node, child, log: None, log_start, written: Vec::new(), undo_growing: None }
    }

    /// The log with what was added to it.
    pub(crate) fn log(&mut self) -> RunLog<'_> {
        self.read_log();
        RunLog(std::str::from_utf8(&self.written).expect("the log is text"))
    }

    /// Whether anything was added to the log.
    fn read_log(&mut self) -> bool {
        if self.log.is_none() {
            self.log = File::open(self.node.network_dir().join(LOG_FILE)).ok();
            if let Some(log) = &mut self.log {
                log.seek(SeekFrom::Start(self.log_start)).expect("the log is a file");
            }
        }
        let Some(log) = &mut self.log else { return false };
        log.read_to_end(&mut self.written).expect("the log is readable") > 0
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// A line of `/proc/PID/status`, in bytes.
    pub(crate) fn memory(&self, name: &str) -> usize {
        let path = format!("/proc/{}/status", self.pid().as_raw_nonzero());
        let status = fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells it");
        let kib = line.trim_matches([':', ' ', '\t', 'k', 'B']);
        kib.parse::<usize>().expect("a number of kB") << 10
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits for a moment; `false` when the command ended before.
    pub(crate) fn wait_for(&mut self, moment: Moment) -> bool {
        let started = Instant::now();
        // Of what was read before, too.
        let mut is_news = true;
        while self.is_alive() {
            is_news |= !matches!(moment, Moment::After(_)) && self.read_log();
            let is_now = match moment {
                Moment::After(delay) => started.elapsed() >= delay,
                // The whole log is looked through.
                _ if !is_news => false,
                Moment::Start(phase, nth) => self.log().starts(phase) >= nth,
                Moment::HandOver(step) => self.log().0.contains(&format!("Hand-over: {step}.")),
                Moment::UndoWrite { blocks } if self.log().connected() < blocks => false,
                Moment::UndoWrite { .. } => return self.wait_for_undo_write(),
            };
            if is_now {
                return true;
            }
            is_news = false;
            thread::sleep(POLL);
        }
        false
    }

    /// Without sleeping: an undo record is written in some hundred microseconds.
    fn wait_for_undo_write(&mut self) -> bool {
        let before = records::undo_bytes(self.node);
        while self.is_alive() {
            let now = records::undo_bytes(self.node);
            if now > before {
                self.undo_growing = Some(now);
                return true;
            }
        }
        false
    }

    /// Kills the process; `false` when it had ended before by itself.
    pub(crate) fn kill(&mut self) -> bool {
        self.child.kill().expect("it is this process's child");
        self.wait().signal() == Some(Signal::KILL.as_raw())
    }

    /// Holds the process for so long.
    pub(crate) fn hold(&self, time: Duration) {
        kill_process(self.pid(), Signal::STOP).expect("a child is signalled");
        thread::sleep(time);
        kill_process(self.pid(), Signal::CONT).expect("a child is signalled");
    }

    /// Tells the process to stop; how long that took and how it ended.
    pub(crate) fn terminate(&mut self) -> (Duration, ExitStatus) {
        self.stop(Signal::TERM)
    }

    /// The same by any signal.
    pub(crate) fn stop(&mut self, signal: Signal) -> (Duration, ExitStatus) {
        let started = Instant::now();
        kill_process(self.pid(), signal).expect("a child is signalled");
        let status = self.wait();
        (started.elapsed(), status)
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child can be waited for")
    }
}

/// A test that fails leaves no process behind.
impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_alive() {
            self.kill();
        }
    }
}

/// When to interrupt an import.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moment {
    After(Duration),
    /// As soon as the log says that a phase has started for the n-th time.
    Start(Phase, usize),
    /// As soon as the log says that a hand-over has come to this step.
    HandOver(&'static str),
    /// As soon as an undo file grows, after so many blocks.
    UndoWrite {
        blocks: usize,
    },
}

impl Moment {
    /// A moment in a phase, or one that nothing chooses.
    pub(crate) fn of(phase: Option<Phase>, rng: &mut Rng) -> Self {
        match phase {
            None => Self::After(Duration::from_millis(rng.between(10, 2_500))),
            Some(Phase::Replay) => Self::Start(Phase::Replay, 1),
            Some(Phase::Undo) => Self::UndoWrite { blocks: rng.between(1, 10) as usize },
            Some(phase) => Self::Start(phase, rng.between(1, 4) as usize),
        }
    }
}
