//! A program that runs beside the measured one. It is stopped at the latest when this program fails or ends.

use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;
use crate::leash::Leash;
use crate::measured::processor_seconds;

/// A child process that is killed when it is dropped while it runs.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    program: PathBuf,
    /// Dropped after the child was collected.
    _leash: Leash,
}

impl Daemon {
    /// Starts `command`.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self, Failure> {
        let program = PathBuf::from(command.get_program());
        let failed = |error| Failure::Start(program.clone(), error);
        let child = command.spawn().map_err(failed)?;
        let leash = Leash::of(&child).map_err(failed)?;
        Ok(Self { child, program, _leash: leash })
    }

    /// Whether it has ended by itself; if so, its process is reaped.
    pub(crate) fn try_wait(&mut self) -> Result<bool, Failure> {
        let ended = self.child.try_wait();
        ended.map(|status| status.is_some()).map_err(|error| self.failed(error))
    }

    /// Seconds of processor time that it has taken.
    pub(crate) fn processor_seconds(&self) -> Result<f64, Failure> {
        processor_seconds(self.child.id()).map_err(|error| self.failed(error))
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Result<(), Failure> {
        self.child.wait().map(|_| ()).map_err(|error| self.failed(error))
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn stop(self) -> Result<(), Failure> {
        let asked = kill_process(Pid::from_child(&self.child), Signal::TERM);
        asked.map_err(|errno| self.failed(errno.into()))?;
        self.wait()
    }

    fn failed(&self, error: std::io::Error) -> Failure {
        Failure::Start(self.program.clone(), error)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait()
            && let Err(error) = self.child.kill().and_then(|()| self.child.wait())
        {
            eprintln!("{} could not be stopped: {error}", self.program.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn sleeping() -> Daemon {
        Daemon::spawn(Command::new("sleep").arg("1000")).unwrap()
    }

    #[test]
    fn one_that_runs_is_killed_with_its_owner() {
        let mut daemon = sleeping();
        assert!(!daemon.try_wait().unwrap() && daemon.processor_seconds().unwrap() < 1.0);
        let process = format!("/proc/{}", daemon.child.id());
        assert!(fs::exists(&process).unwrap());
        drop(daemon);
        assert!(!fs::exists(&process).unwrap(), "killed and collected");
    }

    #[test]
    fn one_is_asked_to_end_or_ends_by_itself() {
        sleeping().stop().unwrap();
        Daemon::spawn(&mut Command::new("true")).unwrap().wait().unwrap();
        let failure = Daemon::spawn(&mut Command::new("/nowhere/at-all")).unwrap_err();
        assert!(matches!(failure, Failure::Start(..)), "{failure}");
    }
}
