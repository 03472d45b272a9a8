//! The memory of a process: its mappings and their bytes.
//!
//! `unsafe` is here for `process_vm_readv`, which reads the own memory without touching it: an address
//! that nothing is mapped at, or whose file ends before it, is an error and not a signal.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::ptr;

use super::Finding;
use super::needle::Needle;
use super::scratch::Scratch;

/// Longest list of mappings: some twenty thousand.
const SMAPS: usize = 32 << 20;

/// Where bytes are read.
#[derive(Debug)]
pub(super) enum Source {
    /// The memory of this process.
    Own,
    /// `/proc/PID/mem`, or any file.
    File(File),
}

/// A readable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: &'a str,
    /// Left out of core dumps and wiped on fork.
    pub(super) protected: bool,
    /// Kept from swap.
    pub(super) locked: bool,
    /// Where it begins in the file of its name, if it is of one and cannot be written to.
    pub(super) file: Option<u64>,
    /// Some of its pages may be others than the file's.
    pub(super) written: bool,
}

impl Source {
    /// Reads the start of `target` from `address` on; 0 when there is nothing to be read.
    pub(super) fn read(&self, address: u64, target: &mut [u8]) -> io::Result<usize> {
        let outcome = match self {
            Self::Own => read_own(address, target),
            // The kernel's addresses are no offsets: where [vsyscall] can be read, it is up there.
            Self::File(_) if i64::try_from(address).is_err() => Ok(0),
            Self::File(file) => file.read_at(target, address),
        };
        // EFAULT and EIO: no page there, or none that may be read.
        outcome.or_else(|error| match error.raw_os_error() {
            Some(libc::EFAULT | libc::EIO) => Ok(0),
            _ => Err(error),
        })
    }
}

fn read_own(address: u64, target: &mut [u8]) -> io::Result<usize> {
    let address = ptr::without_provenance_mut(address as usize);
    let local = libc::iovec { iov_base: target.as_mut_ptr().cast(), iov_len: target.len() };
    let remote = libc::iovec { iov_base: address, iov_len: target.len() };
    // SAFETY: the kernel writes to `target` alone, at most its length; it checks the other address.
    let count = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The addresses of `bytes` if reading from `source` would find them.
pub(super) fn range_of(source: &Source, bytes: &[u8]) -> Range<u64> {
    let start = bytes.as_ptr().addr() as u64;
    match source {
        Source::Own => start..start + bytes.len() as u64,
        Source::File(_) => 0..0,
    }
}

impl Mapping<'_> {
    /// The mapping without the addresses of `hole`.
    pub(super) fn without(&self, hole: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let before = self.start..self.end.min(hole.start.max(self.start));
        let after = self.start.max(hole.end.min(self.end))..self.end;
        let parts = if hole.is_empty() { [self.start..self.end, 0..0] } else { [before, after] };
        parts.into_iter().filter(|part| !part.is_empty())
    }

    /// Whether the file that is mapped has these bytes itself: then no process has left them there.
    ///
    /// Libraries are full of English, and sixteen bytes of a mnemonic are two words of it: " stable release "
    /// is in libc. Of 11,000 random sequences of commands one had such words.
    pub(super) fn is_in_file(&self, address: u64, bytes: &[u8]) -> bool {
        let within = address.checked_sub(self.start);
        let Some((begin, within)) = self.file.zip(within) else { return false };
        let Ok(file) = File::open(self.name) else { return false };
        // Byte by byte, so that no copy is made for the next search to find.
        let mut byte = [0];
        (begin + within..)
            .zip(bytes)
            .all(|(at, expected)| file.read_exact_at(&mut byte, at).is_ok() && byte == [*expected])
    }

    pub(super) fn finding(
        &self,
        needle: &Needle,
        form: &str,
        part: Option<Range<usize>>,
        address: u64,
    ) -> Finding {
        Finding {
            needle: needle.name.clone(),
            form: form.to_owned(),
            part,
            mapping: self.name.to_owned(),
            address,
            offset: address.saturating_sub(self.start),
            protected: self.protected,
            locked: self.locked,
        }
    }
}

/// What a process's file `smaps` says.
pub(super) fn smaps(path: &str) -> io::Result<Scratch<u8>> {
    Scratch::read(SMAPS, File::open(path)?)
}

/// The readable mappings of a process.
pub(super) fn parse(smaps: &[u8]) -> io::Result<Scratch<Mapping<'_>>> {
    let smaps = std::str::from_utf8(smaps).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut mappings: Scratch<Mapping<'_>> = Scratch::with_capacity(smaps.lines().count())?;
    let mut readable = false;
    for line in smaps.lines() {
        if let Some((mut mapping, access)) = parse_head(line) {
            // A mapping that grows while the list is read is told again, as a whole.
            let told = mappings.last().map_or(0, |last| last.end);
            mapping.start = mapping.start.max(told);
            readable = access.starts_with('r') && mapping.start < mapping.end;
            if readable {
                mappings.extend(&[mapping])?;
            }
        } else if let Some(size) = line.strip_prefix("Anonymous:")
            && let Some(mapping) = mappings.last_mut().filter(|_| readable)
        {
            mapping.written = mapping.file.is_none() || size.trim() != "0 kB";
        } else if let Some(flags) = line.strip_prefix("VmFlags:")
            && let Some(mapping) = mappings.last_mut().filter(|_| readable)
        {
            let has = |flag| flags.split(' ').any(|word| word == flag);
            mapping.protected = has("dd") && has("wf");
            mapping.locked = has("lo");
        }
    }
    Ok(mappings)
}

/// `7f00-7f10 rw-p 00000000 00:00 0    [heap]`: a mapping and its access.
fn parse_head(line: &str) -> Option<(Mapping<'_>, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let (access, rest) = rest.split_once(' ')?;
    let mut words = rest.splitn(4, ' ');
    let offset = words.next()?;
    let name = words.nth(2).unwrap_or_default().trim_start();
    let is_file = name.starts_with('/') && access.get(1..2) == Some("-");
    let file = is_file.then(|| u64::from_str_radix(offset, 16).ok()).flatten();
    let name = if name.is_empty() { "anonymous" } else { name };
    let (protected, locked, written) = (false, false, true);
    Some((Mapping { start, end, name, protected, locked, file, written }, access))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::residue::{scan, scan_written};

    #[test]
    fn mappings_are_read_with_name_and_flags() {
        let text = "\
            55d0-55e0 r--p 00002000 fe:01 1234    /a path/with spaces\n\
            Size:   4 kB\n\
            Anonymous:         4 kB\n\
            VmFlags: rd mr mw me sd\n\
            55e0-55e8 rw-p 00000000 00:00 0 \n\
            Size:   4 kB\n\
            VmFlags: rd wr mr mw me lo ac dd wf sd\n\
            55e8-55f0 rw-p 00000000 00:00 0 \n\
            VmFlags: rd wr mr mw me ac dd wf sd\n\
            55f0-5600 ---p 00000000 00:00 0 \n\
            VmFlags: mr mw me dd wf sd\n\
            5600-5610 rw-p 00003000 fe:01 1234    /writable\n\
            VmFlags: rd wr mr mw me sd\n\
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0    [vsyscall]\n";
        let mapping = |start, end, name, protected, locked, file| Mapping {
            start,
            end,
            name,
            protected,
            locked,
            file,
            written: true,
        };
        let expected = [
            mapping(0x55d0, 0x55e0, "/a path/with spaces", false, false, Some(0x2000)),
            mapping(0x55e0, 0x55e8, "anonymous", true, true, None),
            mapping(0x55e8, 0x55f0, "anonymous", true, false, None),
            mapping(0x5600, 0x5610, "/writable", false, false, None),
        ];
        assert_eq!(*parse(text.as_bytes()).expect("memory"), expected);
    }

    #[test]
    fn only_what_is_of_a_file_alone_is_not_written() {
        let text = "\
            1000-2000 r-xp 00000000 fe:01 1    /untouched\n\
            Anonymous:             0 kB\n\
            2000-3000 r--p 00001000 fe:01 1    /relocated\n\
            Anonymous:            40 kB\n\
            3000-4000 rw-p 00002000 fe:01 1    /writable\n\
            Anonymous:             0 kB\n\
            4000-5000 r--p 00000000 00:00 0 \n\
            Anonymous:             0 kB\n\
            5000-6000 r--p 00000000 fe:01 1    /not told\n\
            VmFlags: rd\n";
        let seen = parse(text.as_bytes()).expect("memory");
        let seen: Vec<_> = seen.iter().map(|one| one.written).collect();
        assert_eq!(seen, [false, true, true, true, true]);
    }

    /// What the loader does to some pages: written, then no longer writable.
    #[test]
    fn a_secret_in_a_page_of_a_file_that_was_written_to_is_found() {
        let test =
            "residue::memory::tests::a_secret_in_a_page_of_a_file_that_was_written_to_is_found";
        // What other tests have mapped would be counted too.
        godwit_testdata::alone(test, search_a_page_of_a_file_that_was_written_to);
    }

    fn search_a_page_of_a_file_that_was_written_to() {
        let secret = crate::SecretArray::<32>::random().expect("memory");
        let needle = [Needle::new("page", &secret).expect("memory")];
        let program = std::env::current_exe().and_then(File::open).expect("a program has a file");
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        // SAFETY: a new private mapping of a page that the file has, at an address of the kernel's choice.
        let page =
            unsafe { libc::mmap(ptr::null_mut(), 4096, access, flags, program.as_raw_fd(), 0) };
        assert_ne!(page, libc::MAP_FAILED);
        secret.expose_secret_into(crate::Unprotected(page), |bytes, page| {
            let page = page.0.cast::<u8>();
            // SAFETY: the page is larger, and writable; nothing else points into it.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), page.add(100), 32) };
        });
        // SAFETY: the page from above, which is not written to any more.
        assert_eq!(unsafe { libc::mprotect(page, 4096, libc::PROT_READ) }, 0);
        drop(secret);
        let (whole, written) = (scan(&needle), scan_written(&needle));
        // SAFETY: the page from above, which nobody uses any more.
        unsafe { libc::munmap(page, 4096) };
        let (whole, written) = (whole.expect("a scan"), written.expect("a scan"));
        let found: Vec<_> =
            written.findings.iter().map(|found| (&found.form, found.address)).collect();
        assert_eq!(found, [(&"raw".to_owned(), page.addr() as u64 + 100)]);
        assert_eq!(whole.findings, written.findings);
        // This program and its libraries are passed over.
        assert!(
            written.searched + (1 << 20) < whole.searched,
            "{} {}",
            written.searched,
            whole.searched
        );
    }

    #[test]
    fn a_mapping_that_is_told_twice_is_searched_once() {
        let text = "\
            1000-2000 rw-p 00000000 00:00 0    [heap]\n\
            VmFlags: rd wr\n\
            1000-3000 rw-p 00000000 00:00 0    [heap]\n\
            VmFlags: rd wr\n\
            1000-3000 rw-p 00000000 00:00 0    [heap]\n\
            VmFlags: rd wr dd wf\n\
            4000-5000 rw-p 00000000 00:00 0 \n\
            VmFlags: rd wr dd wf\n";
        let seen = parse(text.as_bytes()).expect("memory");
        let seen: Vec<_> = seen.iter().map(|one| (one.start, one.end, one.protected)).collect();
        let expected = [(0x1000, 0x2000, false), (0x2000, 0x3000, false), (0x4000, 0x5000, true)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_hole_divides_a_mapping() {
        let (start, end, name) = (10, 20, "");
        let mapping = Mapping {
            start,
            end,
            name,
            protected: false,
            locked: false,
            file: None,
            written: true,
        };
        let parts = |start, end| {
            let hole = start..end;
            mapping.without(&hole).map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(parts(0, 0), [(10, 20)]);
        assert_eq!(parts(12, 15), [(10, 12), (15, 20)]);
        assert_eq!(parts(10, 15), [(15, 20)]);
        assert_eq!(parts(12, 20), [(10, 12)]);
        assert_eq!(parts(5, 25), []);
        assert_eq!(parts(20, 25), [(10, 20)]);
        assert_eq!(parts(5, 10), [(10, 20)]);
    }

    #[test]
    fn what_a_mapped_file_has_itself_is_told_from_what_was_written_there() {
        // This program's own: every one begins with these bytes.
        let path = std::env::current_exe().expect("a path");
        let name = path.to_str().expect("text");
        let of = |file| Mapping {
            start: 100,
            end: 110,
            name,
            protected: false,
            locked: false,
            file,
            written: true,
        };
        assert!(of(Some(0)).is_in_file(100, b"\x7fELF"));
        assert!(of(Some(0)).is_in_file(101, b"ELF"));
        assert!(of(Some(1)).is_in_file(101, b"LF"));
        assert!(!of(Some(0)).is_in_file(101, b"ELf"));
        assert!(!of(Some(0)).is_in_file(99, b"\x7f"), "begins before it");
        assert!(!of(Some(u64::MAX >> 1)).is_in_file(100, b"\x7f"), "behind its end");
        assert!(!of(None).is_in_file(100, b"\x7fELF"), "it can be written to");
        let gone = Mapping { name: "/gone", ..of(Some(0)) };
        assert!(!gone.is_in_file(100, b"\x7fELF"));
    }

    #[test]
    fn the_kernels_addresses_are_no_bytes() {
        let mut target = [0; 16];
        let own = Source::File(File::open("/proc/self/mem").expect("the own memory"));
        for source in [Source::Own, own] {
            assert_eq!(source.read(0xffff_ffff_ff60_0000, &mut target).expect("no error"), 0);
        }
    }

    #[test]
    fn unmapped_memory_is_no_bytes() {
        let mut target = [0; 16];
        assert_eq!(Source::Own.read(0, &mut target).expect("no other error"), 0);
        let here = [7u8; 16];
        let address = here.as_ptr().addr() as u64;
        assert_eq!(Source::Own.read(address, &mut target).expect("readable"), 16);
        assert_eq!(target, here);
    }
}
