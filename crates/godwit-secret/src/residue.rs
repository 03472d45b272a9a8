//! A search for secrets in the memory of a process: what a type cannot promise about the libraries that
//! it calls, a look can disprove.
//!
//! [`scan`] reads every readable mapping of its own process, also one that is not dumpable, and looks
//! for each [`Needle`] in all its forms, and for any sixteen bytes of one: an allocator writes over the start
//! of a block that is freed. It proves itself each time: it also looks for a random value that it has just
//! put into memory, and fails when it does not find that. Beside the bookkeeping of locked memory it takes
//! nothing from the heap until it has found something, or a block that somebody has freed would be written
//! over before it is searched. [`scan_other`] does the same from outside, [`scan_file`] with a core dump or a
//! log.
//!
//! [`observe_steps`] is for searches inside of operations, which call
//! [`between_steps`](crate::between_steps).
//!
//! What is searched for is kept masked and in locked memory, as are the bytes that are read, so that
//! the search does not find itself.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use crate::bytes::SecretBytes;
use crate::error::LockError;
use crate::random::RandomError;
use crate::releasable::{Declassified, Unprotected};

mod encodings;
mod memory;
mod needle;
mod pattern;
mod scratch;
mod steps;

pub use needle::{Needle, NeedleError, SHORTEST_PART};
pub(crate) use steps::tell;
pub use steps::{Observed, observe_steps};

use memory::{Mapping, Source};
use pattern::Patterns;
use scratch::Scratch;

/// How much is read at once.
const STEP: usize = 64 * 1024;
/// Unreadable memory is passed over in pieces of this size.
const PAGE: u64 = 4096;
/// Of what each search has to find.
const PROOF_BYTES: usize = 32;

/// What a scan saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Where secrets lie, in the order of addresses.
    pub findings: Vec<Finding>,
    /// Bytes that were searched.
    pub searched: u64,
    /// Bytes of readable mappings that the system did not give (device memory, pages behind the end of
    /// a mapped file).
    pub unreadable: u64,
}

/// A secret in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the needle.
    pub needle: String,
    /// The form in which it lies there: `raw`, `hex`, `words of 8`, …
    pub form: String,
    /// Which bytes of the form lie there, unless it is whole.
    pub part: Option<Range<usize>>,
    /// The mapping as `/proc/PID/maps` names it (`[heap]`, `[stack]`, a path) or `anonymous`; the path
    /// of a searched file.
    pub mapping: String,
    /// Where its first byte lies; in a file, its offset.
    pub address: u64,
    /// The same from the start of the mapping.
    pub offset: u64,
    /// Whether the mapping is left out of core dumps and wiped on fork: the arena and the secret stacks
    /// are, and nothing else in this program.
    pub protected: bool,
    /// Whether the mapping is locked into memory.
    pub locked: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { needle, form, part, mapping, address, offset, protected, locked } = self;
        let place = match (protected, locked) {
            (true, true) => "the memory for secrets",
            (true, false) => "the memory for secrets, which is not locked,",
            (false, _) => mapping,
        };
        write!(f, "{needle} ({form}")?;
        if let Some(Range { start, end }) = part {
            write!(f, ", bytes {start} to {end}")?;
        }
        write!(f, ") in {place} at {address:#x}, offset {offset:#x}")
    }
}

/// Why a scan says nothing.
#[derive(Debug)]
pub enum ScanError {
    /// There is no locked memory for what is searched for.
    Needle(NeedleError),
    /// There is no locked memory to read into.
    Memory(LockError),
    /// The mappings or the memory cannot be read.
    Read(io::Error),
    /// The scan did not find what it had put into memory itself.
    Blind,
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needle(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Read(error) => write!(f, "cannot read the memory of the process ({error})"),
            Self::Blind => {
                f.write_str("the scan does not find a value that it put into memory itself")
            }
        }
    }
}

impl Error for ScanError {}

impl From<NeedleError> for ScanError {
    fn from(error: NeedleError) -> Self {
        Self::Needle(error)
    }
}

impl From<RandomError> for ScanError {
    fn from(error: RandomError) -> Self {
        Self::Needle(NeedleError::Memory(error))
    }
}

impl From<LockError> for ScanError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// A random value that each search of this process looks for, beside what it is to find.
fn proof() -> Result<&'static Needle, NeedleError> {
    static PROOF: OnceLock<Needle> = OnceLock::new();
    if let Some(proof) = PROOF.get() {
        return Ok(proof);
    }
    let canary = SecretBytes::random(PROOF_BYTES).map_err(NeedleError::Memory)?;
    let proof = Needle::raw("proof", &canary)?;
    Ok(PROOF.get_or_init(|| proof))
}

/// Searches the memory of this process.
pub fn scan(needles: &[Needle]) -> Result<Report, ScanError> {
    scan_those(needles, |_| true)
}

/// Searches the memory of this process but for the pages that are still those of a file: the program's and
/// its libraries', half of what there is. They hold the same at every search, so that one [`scan`] behind
/// many of these sees what is in them.
pub fn scan_written(needles: &[Needle]) -> Result<Report, ScanError> {
    scan_those(needles, |mapping| mapping.written)
}

fn scan_those(
    needles: &[Needle],
    is_wanted: fn(&Mapping<'_>) -> bool,
) -> Result<Report, ScanError> {
    let proof = proof()?;
    let mut planted = Scratch::with_capacity(PROOF_BYTES)?;
    for at in 0..PROOF_BYTES {
        planted.extend(&[proof.forms[0].byte(at)])?;
    }
    let patterns = Patterns::new(needles.iter().chain([proof]))?;
    let smaps = memory::smaps("/proc/self/smaps")?;
    let mappings = memory::parse(&smaps)?;
    let proof = Proof { form: patterns.len() - 1, address: planted.as_ptr().addr() as u64 };
    let mappings = mappings.iter().filter(|mapping| is_wanted(mapping));
    match Search::run(&Source::Own, mappings, &patterns, Some(proof))? {
        (report, true) => Ok(report),
        (_, false) => Err(ScanError::Blind),
    }
}

/// Searches the memory of the process `pid`, which must be dumpable and of the same user, or the caller
/// privileged.
pub fn scan_other(pid: u32, needles: &[Needle]) -> Result<Report, ScanError> {
    let patterns = Patterns::new(needles)?;
    let source = Source::File(File::open(format!("/proc/{pid}/mem"))?);
    let smaps = memory::smaps(&format!("/proc/{pid}/smaps"))?;
    let mappings = memory::parse(&smaps)?;
    Ok(Search::run(&source, mappings.iter(), &patterns, None)?.0)
}

/// Searches a file: a core dump, a log.
pub fn scan_file(path: &Path, needles: &[Needle]) -> Result<Report, ScanError> {
    let patterns = Patterns::new(needles)?;
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let name = path.display().to_string();
    let (protected, locked, written) = (false, false, true);
    let whole = Mapping { start: 0, end, name: &name, protected, locked, file: None, written };
    Ok(Search::run(&Source::File(file), [&whole], &patterns, None)?.0)
}

/// What a search has to find, and is no finding.
#[derive(Clone, Copy)]
struct Proof {
    /// The number of its form.
    form: usize,
    address: u64,
}

/// A scan under way.
struct Search<'a> {
    patterns: &'a Patterns<'a>,
    /// In locked memory: the end of what was searched, then what is read.
    window: SecretBytes,
    /// Bytes that are kept from one read to the next, for what lies across.
    overlap: usize,
    proof: Option<Proof>,
    /// Whether it was found.
    proven: bool,
    /// With the number of bytes that were found.
    findings: Vec<(usize, Finding)>,
    report: Report,
}

/// Findings in the order of addresses, without those that lie in another one of the same needle: the first
/// bytes of one that goes on in the next read, or what two forms have in common.
fn told_once(mut findings: Vec<(usize, Finding)>) -> Vec<Finding> {
    findings.sort_by(|(len, one), (other_len, other)| {
        (one.address, other_len, &one.form).cmp(&(other.address, len, &other.form))
    });
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    findings.retain(|(len, finding)| {
        let end = finding.address + *len as u64;
        let told = ends.entry(finding.needle.clone()).or_default();
        let new = end > *told;
        *told = end.max(*told);
        new
    });
    findings.into_iter().map(|(_, finding)| finding).collect()
}

impl<'a> Search<'a> {
    fn run<'m>(
        source: &Source,
        mappings: impl IntoIterator<Item = &'m Mapping<'m>>,
        patterns: &'a Patterns<'a>,
        proof: Option<Proof>,
    ) -> Result<(Report, bool), ScanError> {
        let overlap = patterns.longest() - 1;
        let window = SecretBytes::from_fn_in_place(overlap + STEP, |_| {})?;
        let (findings, report) = (Vec::new(), Report::default());
        let mut search = Self { patterns, window, overlap, proof, proven: false, findings, report };
        let range = |window: &[u8]| Declassified(memory::range_of(source, window));
        let own = search.window.expose_secret(range).0;
        let mut kept = 0;
        let mut end_before = None;
        for mapping in mappings {
            // Neighbours in memory are searched as one: the system splits mappings as it likes.
            if end_before != Some(mapping.start) {
                kept = 0;
            }
            for part in mapping.without(&own) {
                kept = if part.start == mapping.start { kept } else { 0 };
                kept = search.part(source, mapping, part, kept)?;
            }
            end_before = Some(mapping.end);
        }
        search.report.findings = told_once(search.findings);
        Ok((search.report, search.proven))
    }

    /// Searches a range of a mapping, with the last `kept` bytes in front of it, and returns how many of
    /// its own are kept.
    fn part(
        &mut self,
        source: &Source,
        mapping: &Mapping<'_>,
        part: std::ops::Range<u64>,
        mut kept: usize,
    ) -> Result<usize, ScanError> {
        let mut at = part.start;
        while at < part.end {
            let wanted = (part.end - at).min(STEP as u64) as usize;
            let start = self.overlap;
            let outcome = self.window.expose_secret_mut(|window| {
                Declassified(source.read(at, &mut window[start..start + wanted]))
            });
            match outcome.0? {
                0 => {
                    let skipped = (PAGE - at % PAGE).min(part.end - at);
                    self.report.unreadable += skipped;
                    at += skipped;
                    kept = 0;
                }
                count => {
                    kept = self.look(mapping, at, kept, count);
                    self.report.searched += count as u64;
                    at += count as u64;
                }
            }
        }
        Ok(kept)
    }

    /// Searches `count` bytes that were read from `address` on, and the `kept` ones in front of them.
    fn look(&mut self, mapping: &Mapping<'_>, address: u64, kept: usize, count: usize) -> usize {
        let Self { patterns, window, proven, findings, .. } = self;
        let (overlap, proof) = (self.overlap, self.proof);
        let (start, end) = (overlap - kept, overlap + count);
        let keep = (kept + count).min(overlap);
        window.expose_secret_mut_into(Unprotected((proven, findings)), |window, told| {
            let (proven, findings) = told.0;
            let bytes = &window[start..end];
            patterns.search(bytes, |offset, index, run| {
                let (needle, form) = patterns.form(index);
                // What ends in the kept bytes was found before.
                if offset + run.len() > kept {
                    let address = address - kept as u64 + offset as u64;
                    if let Some(proof) = proof.filter(|proof| proof.form == index) {
                        *proven |= proof.address == address && run == (0..PROOF_BYTES);
                        return;
                    }
                    let part = (run != (0..form.len())).then_some(run.clone());
                    let seen = &bytes[offset..offset + run.len()];
                    if part.is_some() && mapping.is_in_file(address, seen) {
                        return;
                    }
                    let finding = mapping.finding(needle, &form.name, part, address);
                    findings.push((run.len(), finding));
                }
            });
            window.copy_within(end - keep..end, overlap - keep);
        });
        keep
    }
}

#[cfg(test)]
mod tests;
