//! One observed use of keys: invents its secrets and says when memory is to be searched.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bitcoin::hashes::{Hash, HashEngine, sha256};
use godwit_secret::residue::{self, Finding, Needle, ScanError, observe_steps};
use godwit_secret::{Declassified, SecretArray, SecretBytes, SecretString, run_on_secret_stack};

use super::CheckError;
use crate::keys::input::Input;
use crate::options::Descriptor;

/// Length of an invented passphrase, in letters.
const PASSPHRASE_LETTERS: usize = 32;
/// A user's passphrase with fewer bytes is not searched for.
const SHORTEST_OWN: usize = 16;

/// Searches this process's memory, or has another process search it.
pub trait Observer {
    /// The secrets of `needles` are in use: copies may be in locked memory, and nowhere else.
    fn unlocked(&mut self, name: &'static str, needles: &[Needle]) -> Result<(), CheckError>;

    /// The secrets of `needles` are no longer in use: there must be no copy.
    fn locked(&mut self, name: &'static str, needles: Vec<Needle>) -> Result<(), CheckError>;

    /// Whether this process is also to search itself between the steps of operations.
    fn looks_inside(&self) -> bool {
        false
    }

    /// What it has found there.
    fn inside(&mut self, _: Inside) {}
}

/// Searches between the steps of the operations of one use.
#[derive(Default)]
pub struct Inside {
    /// Searches made.
    pub searches: usize,
    /// The steps that memory was searched at.
    pub steps: BTreeMap<&'static str, Step>,
    /// Copies outside of the memory for secrets.
    pub findings: Vec<Finding>,
    /// The first search that failed.
    pub error: Option<ScanError>,
}

/// How often a step came, and how many needles there were when memory was searched at it last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    times: u64,
    needles: usize,
}

impl Inside {
    /// Searches at the first, fourth, sixteenth time of a step, and whenever there is more to find than at
    /// its last search.
    pub(super) fn at(&mut self, step: &'static str, needles: &[Needle]) {
        let seen = self.steps.entry(step).or_default();
        seen.times += 1;
        if needles.is_empty() || !is_power_of_four(seen.times) && needles.len() <= seen.needles {
            return;
        }
        seen.needles = needles.len();
        self.searches += 1;
        // The pages of files are searched when the use has ended.
        match residue::scan_written(needles) {
            Ok(report) => {
                self.findings.extend(report.findings.into_iter().filter(|found| !found.protected));
            }
            Err(error) => self.error = self.error.take().or(Some(error)),
        }
    }
}

fn is_power_of_four(number: u64) -> bool {
    number.is_power_of_two() && number.trailing_zeros().is_multiple_of(2)
}

/// What the use and the observer of its steps have in common.
type Shared<T> = Arc<Mutex<T>>;

fn lock<T>(shared: &Shared<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Invents secrets from a seed, so that two processes can invent the same ones.
pub(super) struct Invention<'a> {
    seed: &'a SecretArray<32>,
    count: u64,
}

impl<'a> Invention<'a> {
    pub(super) fn new(seed: &'a SecretArray<32>) -> Self {
        Self { seed, count: 0 }
    }

    fn next(&mut self) -> Result<SecretArray<32>, CheckError> {
        self.count += 1;
        Ok(run_on_secret_stack(|| {
            self.seed.expose_secret(|seed| {
                let mut engine = sha256::Hash::engine();
                engine.input(seed);
                engine.input(&self.count.to_le_bytes());
                let hash = sha256::Hash::from_engine(engine).to_byte_array();
                SecretArray::from_fn_in_place(|secret| *secret = hash)
            })
        })??)
    }
}

/// A use of keys under way. Every secret that it invents or derives is planted: memory will be
/// searched for a needle of it.
pub(super) struct Case<'a, 'b> {
    name: &'static str,
    directory: &'a Path,
    invention: &'a mut Invention<'b>,
    observer: &'a mut dyn Observer,
    needles: Shared<Vec<Needle>>,
}

impl<'a, 'b> Case<'a, 'b> {
    /// Runs `body`, then has memory searched for its secrets.
    pub(super) fn run(
        name: &'static str,
        directory: &'a Path,
        invention: &'a mut Invention<'b>,
        observer: &'a mut dyn Observer,
        body: impl FnOnce(&mut Case<'a, 'b>) -> Result<(), CheckError>,
    ) -> Result<(), CheckError> {
        Self::run_with(name, directory, invention, observer, |_| {}, body)
    }

    /// The same with `before` called between steps, before memory is searched there.
    pub(super) fn run_with(
        name: &'static str,
        directory: &'a Path,
        invention: &'a mut Invention<'b>,
        observer: &'a mut dyn Observer,
        mut before: impl FnMut(&'static str) + Send + 'static,
        body: impl FnOnce(&mut Case<'a, 'b>) -> Result<(), CheckError>,
    ) -> Result<(), CheckError> {
        let mut case = Self { name, directory, invention, observer, needles: Shared::default() };
        let inside = Shared::<Inside>::default();
        let observed = case.observer.looks_inside().then(|| {
            let (needles, inside) = (Arc::clone(&case.needles), Arc::clone(&inside));
            observe_steps(move |step| {
                before(step);
                lock(&inside).at(step, &lock(&needles));
            })
        });
        let outcome = body(&mut case);
        drop(observed);
        outcome?;
        let inside = std::mem::take(&mut *lock(&inside));
        if let Some(error) = inside.error {
            return Err(error.into());
        }
        case.observer.inside(inside);
        let needles = std::mem::take(&mut *lock(&case.needles));
        case.observer.locked(name, needles)
    }

    /// Path of a file of this use.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    pub(super) fn plant(&mut self, needle: Needle) {
        lock(&self.needles).push(needle);
    }

    pub(super) fn plant_all(&mut self, needles: impl IntoIterator<Item = Needle>) {
        let needles: Vec<_> = needles.into_iter().collect();
        lock(&self.needles).extend(needles);
    }

    /// Invents a number and plants it.
    pub(super) fn number(&mut self, name: &str) -> Result<SecretArray<32>, CheckError> {
        let number = self.invention.next()?;
        self.plant(Needle::new(name, &number)?);
        Ok(number)
    }

    /// Invents a passphrase and plants it.
    pub(super) fn passphrase(&mut self, name: &str) -> Result<SecretString, CheckError> {
        let number = self.invention.next()?;
        let letters = number.expose_secret(|number| {
            SecretBytes::from_fn_in_place(PASSPHRASE_LETTERS, |letters| {
                for (letter, byte) in letters.iter_mut().zip(number) {
                    *letter = b'a' + byte % 26;
                }
            })
        })?;
        let text =
            SecretString::from_utf8(letters).map_err(|_| CheckError::Unexpected(self.name))?;
        self.plant(Needle::new(name, &text)?);
        Ok(text)
    }

    /// Plants a passphrase of the user's, unless it is so short that it may be an ordinary word
    /// found in memory anyway.
    pub(super) fn plant_own_passphrase(
        &mut self,
        passphrase: &SecretString,
    ) -> Result<(), CheckError> {
        if passphrase.len() >= SHORTEST_OWN {
            self.plant(Needle::new("passphrase", passphrase)?.without_parts());
        }
        Ok(())
    }

    /// Has memory searched while the planted secrets are in use.
    pub(super) fn unlocked(&mut self) -> Result<(), CheckError> {
        self.observer.unlocked(self.name, &lock(&self.needles))
    }

    /// The error of a use whose result is wrong.
    pub(super) fn unexpected(&self) -> CheckError {
        CheckError::Unexpected(self.name)
    }
}

/// Reads what `write` writes to a pipe, the way a command reads its secrets. It must fit the pipe's
/// buffer.
pub(super) fn through_a_pipe(
    write: impl FnOnce(&PipeWriter) -> Result<(), CheckError>,
) -> Result<SecretString, CheckError> {
    let (reader, writer) = std::io::pipe()?;
    write(&writer)?;
    drop(writer);
    let (input, descriptor) = input_of(reader);
    Ok(input.secret(Some(descriptor), "")?)
}

/// A command's input with this pipe as its only descriptor.
fn input_of(reader: PipeReader) -> (Input, Descriptor) {
    let descriptor = Descriptor(0);
    (Input::of_file(File::from(OwnedFd::from(reader)), descriptor), descriptor)
}

/// A command's input from which `secret` is read.
pub(super) fn input_with(secret: &SecretString) -> Result<(Input, Descriptor), CheckError> {
    let (reader, writer) = std::io::pipe()?;
    let write = |text: &str| Declassified(rustix::io::write(&writer, text.as_bytes()));
    let written = secret.expose_secret(write).0.map_err(io::Error::from)?;
    match written == secret.len() {
        true => Ok(input_of(reader)),
        false => Err(CheckError::Io(io::ErrorKind::WriteZero.into())),
    }
}
