//! A file of the disk, and the anomalies of its operations.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use godwit_disk::DiskFile;
use godwit_stream::DataStream;

use crate::change::Change;
use crate::fault::{Anomaly, DiskError, PlannedAnomaly, Seen};
use crate::inline::Span;
use crate::random::SplitMix;
use crate::{Begun, Detail, FaultDisk, Kind, Operation, State};

/// The unit in which a disk writes, and may lose bytes or write them elsewhere.
pub(crate) const PAGE: usize = 4096;

/// An open file.
pub(crate) struct FaultFile {
    pub(crate) disk: FaultDisk,
    pub(crate) path: PathBuf,
    pub(crate) inode: usize,
    pub(crate) boot: u64,
}

impl FaultFile {
    fn begin(
        &self,
        operation: Operation<'_>,
        refused: impl FnOnce(&mut State, Span),
    ) -> io::Result<Begun<'_>> {
        self.disk.begin(operation, Some(self.boot), refused)
    }

    fn operation<'a>(
        &'a self,
        kind: Kind,
        name: &'static str,
        detail: Detail<'a>,
    ) -> Operation<'a> {
        Operation::new(kind, name, &self.path).with(detail)
    }

    fn change(&self, name: &'static str, change: Change) -> io::Result<()> {
        let operation = match &change {
            Change::Write(offset, data) => self
                .operation(Kind::Write, name, Detail::Bytes(*offset, data))
                .on(*offset, data.len() as u64),
            Change::SetLen(len) => self.operation(Kind::Write, name, Detail::Length(*len)),
        };
        let tear = |state: &mut State, span| {
            if let Change::Write(offset, data) = &change {
                let torn = Change::Write(*offset, data[..data.len() / 2].to_vec());
                state.inodes[self.inode].change(span, torn);
            }
        };
        let Begun { mut state, span, anomaly } = self.begin(operation, tear)?;
        self.check_alone(&state, span, change.range(), name);
        let end = match &change {
            Change::Write(offset, data) => offset + data.len() as u64,
            Change::SetLen(len) => *len,
        };
        if !state.has_room(self.inode, end) {
            return Err(DiskError::Full.of(Kind::Write));
        }
        let written = change.range();
        state.bad_sectors.retain(|(inode, bad)| {
            *inode != self.inode || bad.start < written.start || written.end < bad.end
        });
        match anomaly {
            Some(planned) => state.write_wrong(span, self.inode, change, planned),
            None => state.inodes[self.inode].change(span, change),
        }
        Ok(())
    }

    fn check_alone(&self, state: &State, span: Span, bytes: Range<u64>, name: &'static str) {
        let what = || Operation::new(Kind::Read, name, &self.path).describe();
        state.inodes[self.inode].check_alone(span, bytes, what);
    }
}

impl DiskFile for FaultFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.operation(Kind::Read, "read", Detail::Later).on(offset, out.len() as u64);
        let Begun { state, span, anomaly } = self.begin(read, |_, _| {})?;
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let end = start.checked_add(out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        if !is_repaired_among_readers(&self.path) {
            self.check_alone(&state, span, offset..end as u64, "read");
        }
        let wanted = (self.inode, offset..end as u64);
        if state.bad_sectors.iter().any(|bad| touches(bad, &wanted)) {
            return Err(DiskError::Device.of(Kind::Read));
        }
        let bytes = state.inodes[self.inode].current.get(start..end);
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        if let Some(PlannedAnomaly { anomaly: Anomaly::FlippedBit, seed, .. }) = anomaly {
            flip(out, &mut SplitMix(seed));
        }
        if let Some(timing) = &state.timing {
            let read = Operation::new(Kind::Read, "read", &self.path);
            timing.note(span, read.with(Detail::Bytes(offset, out)));
        }
        Ok(())
    }

    /// Every second 4 KiB of a file count as not cached, so that callers take both ways.
    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        const PAGE: u64 = 4096;
        let pages = offset / PAGE..offset.saturating_add(out.len() as u64).div_ceil(PAGE);
        let mut pages = pages.map(|page| (page + self.inode as u64).is_multiple_of(2));
        let is_in_memory = pages.all(|is_in_memory| is_in_memory);
        if is_in_memory {
            self.read_exact_at(offset, out)?;
        } else {
            out.fill(0xa5);
        }
        Ok(is_in_memory)
    }

    fn read_stream_at(&self, offset: u64, len: usize, out: &mut DataStream) -> io::Result<()> {
        let mut bytes = vec![0; len];
        let read = self.read_exact_at(offset, &mut bytes);
        // A read that fails may have read a part.
        out.write(&bytes[..if read.is_ok() { len } else { len / 2 }]);
        read
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change("write", Change::Write(offset, data.to_vec()))
    }

    fn sync(&self) -> io::Result<()> {
        let forget = |state: &mut State, span| {
            if state.faults.forget() {
                state.inodes[self.inode].forget(span);
            }
        };
        let sync = self.operation(Kind::Sync, "sync", Detail::Nothing);
        let Begun { mut state, span, .. } = self.begin(sync, forget)?;
        state.inodes[self.inode].sync(span);
        Ok(())
    }

    fn file_len(&self) -> io::Result<u64> {
        let length = self.operation(Kind::Read, "length", Detail::Nothing);
        let Begun { state, .. } = self.begin(length, |_, _| {})?;
        Ok(state.inodes[self.inode].current.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change("set length", Change::SetLen(len))
    }
}

/// Whether a file may be repaired while others read it. Damaged blocks of runs are written again in place; a
/// reader that meets half of one finds its checksum wrong, and waits (`godwit-store`,
/// `utxo/run/file/repair.rs`).
fn is_repaired_among_readers(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "run")
}

fn touches(one: &(usize, Range<u64>), other: &(usize, Range<u64>)) -> bool {
    one.0 == other.0 && one.1.start < other.1.end && other.1.start < one.1.end
}

fn flip(bytes: &mut [u8], random: &mut SplitMix) {
    if !bytes.is_empty() {
        bytes[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8);
    }
}

impl State {
    /// Changes a file wrongly, as `planned` says.
    fn write_wrong(&mut self, span: Span, inode: usize, change: Change, planned: PlannedAnomaly) {
        let Change::Write(offset, data) = &change else {
            return self.inodes[inode].change(span, change);
        };
        let random = &mut SplitMix(planned.seed);
        let (offset, mut wrong) = (*offset as usize, data.clone());
        match planned.anomaly {
            Anomaly::Stall(_) => {}
            Anomaly::FlippedBit => flip(&mut wrong, random),
            Anomaly::LostWrite | Anomaly::MisdirectedWrite => {
                let first = offset / PAGE;
                let pages = (offset + wrong.len()).div_ceil(PAGE) - first;
                let page = first + random.below(pages.max(1) as u64) as usize;
                let start = offset.max(page * PAGE);
                let end = (offset + wrong.len()).min((page + 1) * PAGE);
                let lost = &mut wrong[start - offset..end - offset];
                if planned.anomaly == Anomaly::MisdirectedWrite {
                    self.misdirect(inode, lost, planned.seen, random);
                }
                let old = self.inodes[inode].current.get(start..).unwrap_or_default();
                let kept = old.len().min(lost.len());
                lost[..kept].copy_from_slice(&old[..kept]);
                lost[kept..].fill(0);
            }
        }
        let wrong = Change::Write(offset as u64, wrong);
        match planned.seen {
            Seen::AtOnce => self.inodes[inode].change(span, wrong),
            Seen::AfterCrash => self.inodes[inode].change_seen_as(span, wrong, &change),
        }
    }

    /// Writes a page to another place within existing data.
    fn misdirect(&mut self, own: usize, page: &[u8], seen: Seen, random: &mut SplitMix) {
        let others = self.names.current.values().copied();
        let others: Vec<usize> = others
            .filter(|inode| *inode != own && !self.inodes[*inode].current.is_empty())
            .collect();
        if others.is_empty() {
            return;
        }
        let inode = &mut self.inodes[others[random.below(others.len() as u64) as usize]];
        let pages = inode.current.len().div_ceil(PAGE) as u64;
        inode.overwrite(random.below(pages) as usize * PAGE, page, seen);
    }
}
