//! Searches block files for blocks: after the ends that a commit has named, or in whole files.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_primitives::merkle::merkle_root;
use godwit_primitives::{Block, BlockHeader, HEADER_SIZE};
use godwit_stream::SpanReader;

use super::{
    FETCHED_AGAIN, FRAME_SIZE, MAX_BLOCK_FILE_SIZE, MAX_BLOCK_SERIALIZED_SIZE, RecoveredBlock,
    block_file_number, frame,
};
use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, NetworkId, StoreError};
use crate::record::BlockPosition;

/// Bytes read at once in search of a record.
pub(super) const SEARCH_WINDOW: u32 = 64 << 10;

/// What a medium that has lost a sector still gives back around it is read by pages.
const PAGE: u64 = 4096;

/// Collects the complete records from `start` on and returns the end of the last one. What lies between two
/// records stays: no crash has left it, since records are written one after the other, but damage.
pub(super) fn recover(
    handle: &StoreFile,
    magic: [u8; 4],
    file: u32,
    start: u32,
    recovered: &mut Vec<RecoveredBlock>,
    stop: &AtomicBool,
) -> Result<u32, StoreError> {
    let mut len = handle.file_len()?;
    if len < u64::from(start) {
        if len > 0 {
            let short = StoreError::damaged(handle.path(), len, Damage::Short);
            log::error!("{short}. {FETCHED_AGAIN}");
        }
        len = start.into();
        handle.set_len(len)?;
        handle.sync()?;
    }
    let mut end = start;
    while let Some(Next { block, has_frame }) = next_block(handle, magic, file, end, len)? {
        if stop.load(Ordering::Relaxed) {
            return Err(StoreError::Stopped);
        }
        if !has_frame {
            let path = handle.path().display();
            log::warn!("{path}: the {FRAME_SIZE} bytes at byte {end} were damaged; written again.");
            handle.write_all_at(end.into(), &frame(magic, block.position.len))?;
            handle.sync()?;
        }
        let gap = block.position.offset - FRAME_SIZE - end;
        if gap > 0 {
            let path = handle.path().display();
            log::warn!(
                "{path}: {gap} bytes at byte {end} are damaged; there are blocks behind them."
            );
        }
        recovered.push(block);
        end = block.position.offset + block.position.len;
    }
    Ok(end)
}

/// What became of the bytes behind the last record.
pub(super) enum Cut {
    /// There are none any more.
    Done,
    /// They are still there.
    Kept,
}

/// Cuts off what follows the last record, which ends at `end`: a record that a crash has torn. What cannot be
/// read may hold blocks, and be readable at the next start: it stays, and no block is written over it. So
/// does a file that nothing says is godwit's: it has neither a record nor what a crash leaves of one.
pub(super) fn cut_tail(handle: &StoreFile, magic: [u8; 4], end: u32) -> Result<Cut, StoreError> {
    let len = handle.file_len()?;
    if len <= u64::from(end) {
        return Ok(Cut::Done);
    }
    let path = handle.path().display();
    match read_through(handle, end.into()..len) {
        Err(error) if error.is_unreadable() => {
            log::error!(
                "{path}: what follows byte {end} cannot be read ({error}). It is left as it is, and blocks go \
                 to the next file."
            );
            return Ok(Cut::Kept);
        }
        read => read?,
    }
    if end == 0 && !is_left_by_crash(handle, magic, len)? {
        log::error!(
            "{path}: there is no block in it, and nothing that a power cut leaves of one. It is left as it is, and \
             blocks go to the next file."
        );
        return Ok(Cut::Kept);
    }
    log::info!("{path}: cutting off a torn record at byte {end}");
    handle.set_len(u64::from(end))?;
    handle.sync()?;
    Ok(Cut::Done)
}

/// Whether a block file can be one that godwit wrote: it has a record, the beginning of one, or nothing.
pub(crate) fn may_be_own(handle: &StoreFile, magic: [u8; 4]) -> Result<bool, StoreError> {
    let len = handle.file_len()?;
    Ok(is_torn(handle, magic, len)?
        || is_zero(handle, len)?
        || next_record(handle, magic, 0, 0, len)?.is_some())
}

/// Whether the beginning of an undo file can be one that godwit wrote.
pub(crate) fn may_be_own_undo(handle: &StoreFile, magic: [u8; 4]) -> Result<bool, StoreError> {
    let len = handle.file_len()?;
    let (start, there) = first_bytes(handle, len)?;
    Ok(magic.starts_with(&start[..there.min(magic.len())]) || is_zero(handle, len)?)
}

/// Whether a power cut can have left this file of `len` bytes, in which no record is complete: it is the
/// beginning of one, or its own beginning was never written.
fn is_left_by_crash(handle: &StoreFile, magic: [u8; 4], len: u64) -> Result<bool, StoreError> {
    let (start, there) = first_bytes(handle, len)?;
    Ok(start[..there].iter().all(|byte| *byte == 0) || is_torn(handle, magic, len)?)
}

/// Whether a file of `len` bytes, in which no record is complete, is the beginning of one.
fn is_torn(handle: &StoreFile, magic: [u8; 4], len: u64) -> Result<bool, StoreError> {
    let (start, there) = first_bytes(handle, len)?;
    let (found, block_len) = start[..there].split_at(there.min(magic.len()));
    let claims_more = match block_len.try_into().map(u32::from_le_bytes) {
        Ok(block_len) => {
            is_plausible(block_len) && len < u64::from(FRAME_SIZE) + u64::from(block_len)
        }
        // Within the frame.
        Err(_) => true,
    };
    Ok(magic.starts_with(found) && claims_more)
}

/// The first bytes of a file of `len` bytes, as many as a frame has, and how many there are.
fn first_bytes(
    handle: &StoreFile,
    len: u64,
) -> Result<([u8; FRAME_SIZE as usize], usize), StoreError> {
    let mut start = [0; FRAME_SIZE as usize];
    let there = len.min(start.len() as u64) as usize;
    read_readable(handle, 0, &mut start[..there])?;
    Ok((start, there))
}

/// Whether there is nothing but zeros in a file of `len` bytes.
fn is_zero(handle: &StoreFile, len: u64) -> Result<bool, StoreError> {
    let mut window = vec![0; SEARCH_WINDOW as usize];
    for at in (0..len).step_by(window.len()) {
        let wanted = (len - at).min(window.len() as u64) as usize;
        read_readable(handle, at, &mut window[..wanted])?;
        if window[..wanted].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a block can have so many bytes.
fn is_plausible(block_len: u32) -> bool {
    (HEADER_SIZE as u32..=MAX_BLOCK_SERIALIZED_SIZE).contains(&block_len)
}

/// A block that was found.
struct Next {
    block: RecoveredBlock,
    has_frame: bool,
}

/// The first block at `from` or behind it. One there whose frame is damaged counts: a frame whose length was
/// another one would hide the next block too.
fn next_block(
    handle: &StoreFile,
    magic: [u8; 4],
    file: u32,
    from: u32,
    len: u64,
) -> Result<Option<Next>, StoreError> {
    let framed = read_record(handle, magic, file, from, len)?;
    if let Some(block) = framed
        && is_record_or_end(handle, magic, block.position.offset + block.position.len, len)?
    {
        return Ok(Some(Next { block, has_frame: true }));
    }
    if let Some(block) = unframed_block(handle, file, from, len)?
        && framed.is_none_or(|framed| framed.position != block.position)
    {
        return Ok(Some(Next { block, has_frame: false }));
    }
    let found = match framed {
        Some(_) => framed,
        None => next_record(handle, magic, file, from, len)?,
    };
    Ok(found.map(|block| Next { block, has_frame: true }))
}

/// Whether a file of `len` bytes ends at `at`, or may have a record there.
fn is_record_or_end(
    handle: &StoreFile,
    magic: [u8; 4],
    at: u32,
    len: u64,
) -> Result<bool, StoreError> {
    let mut found = [0; 4];
    let there = len.saturating_sub(at.into()).min(found.len() as u64) as usize;
    read_readable(handle, at.into(), &mut found[..there])?;
    Ok(there == 0 || found == magic)
}

/// The block behind a frame at `at` that is not right: its transactions, which its header commits to, tell
/// where it ends.
fn unframed_block(
    handle: &StoreFile,
    file: u32,
    at: u32,
    len: u64,
) -> Result<Option<RecoveredBlock>, StoreError> {
    let offset = at.saturating_add(FRAME_SIZE);
    let there = len.saturating_sub(offset.into()).min(MAX_BLOCK_SERIALIZED_SIZE.into()) as usize;
    if there <= HEADER_SIZE || at > MAX_BLOCK_FILE_SIZE {
        return Ok(None);
    }
    let mut bytes = vec![0; there];
    read_readable(handle, offset.into(), &mut bytes)?;
    let Ok(block) = Block::from_bytes(&bytes) else { return Ok(None) };
    let (header, txids) = (*block.header(), block.view().txids());
    let (root, mutated) = merkle_root(txids.iter().map(|txid| txid.to_bytes()));
    if txids.is_empty() || mutated || root != header.merkle_root.to_bytes() {
        return Ok(None);
    }
    let position = BlockPosition { file, offset, len: block.block_len() as u32 };
    Ok(Some(RecoveredBlock { position, header }))
}

/// The first complete record at `from` or behind it.
///
/// Where none begins at `from` the next one is searched for as in [`crate::scan`]. What a block
/// holds may look like a record then; it is handed back as one, and it is for the caller to find out that
/// it is no block of the chain.
fn next_record(
    handle: &StoreFile,
    magic: [u8; 4],
    file: u32,
    from: u32,
    len: u64,
) -> Result<Option<RecoveredBlock>, StoreError> {
    let mut at = from;
    loop {
        if let Some(block) = read_record(handle, magic, file, at, len)? {
            return Ok(Some(block));
        }
        // Behind the first byte of what is no record.
        let (next, end) = (u64::from(at) + 1, len.min(MAX_BLOCK_FILE_SIZE.into()));
        match find_magic(handle, magic, next, end)? {
            Some(place) => at = place as u32,
            None => return Ok(None),
        }
    }
}

/// Where a frame may begin, at `from` or behind it and well before `end`.
pub(crate) fn find_magic(
    handle: &StoreFile,
    magic: [u8; 4],
    from: u64,
    end: u64,
) -> Result<Option<u64>, StoreError> {
    let (mut next, mut window) = (from, Vec::new());
    loop {
        let wanted = end.saturating_sub(next).min(SEARCH_WINDOW.into());
        if wanted < FRAME_SIZE.into() {
            return Ok(None);
        }
        window.resize(wanted as usize, 0);
        read_readable(handle, next, &mut window)?;
        if let Some(place) = window.windows(magic.len()).position(|bytes| bytes == magic) {
            return Ok(Some(next + place as u64));
        }
        // The last bytes may begin a magic.
        next += wanted - (magic.len() as u64 - 1);
    }
}

/// The record at `at`, if it is complete within `len` bytes of file.
fn read_record(
    handle: &StoreFile,
    magic: [u8; 4],
    file: u32,
    at: u32,
    len: u64,
) -> Result<Option<RecoveredBlock>, StoreError> {
    const PREFIX: usize = FRAME_SIZE as usize + HEADER_SIZE;
    if u64::from(at) + PREFIX as u64 > len || at > MAX_BLOCK_FILE_SIZE {
        return Ok(None);
    }
    let mut prefix = [0; PREFIX];
    read_readable(handle, at.into(), &mut prefix)?;
    let mut reader = SpanReader::new(&prefix);
    let parsed = (|| Ok((reader.array::<4>()?, reader.u32()?, reader.get::<BlockHeader>()?)))();
    let (found, block_len, header) = parsed
        .map_err(|error| StoreError::damaged(handle.path(), at.into(), Damage::Decode(error)))?;
    let offset = at + FRAME_SIZE;
    let complete = u64::from(offset) + u64::from(block_len) <= len;
    if found != magic || !is_plausible(block_len) || !complete {
        return Ok(None);
    }
    Ok(Some(RecoveredBlock { position: BlockPosition { file, offset, len: block_len }, header }))
}

/// Whether a block that follows genesis lies in any file: then blocks connect to what is stored. It may lie
/// behind blocks that a directory grown from a snapshot had first.
pub(crate) fn has_first_block(
    disk: &StoreDisk,
    dir: &Path,
    network: &NetworkId,
) -> Result<bool, StoreError> {
    let found = find_headers(disk, dir, network.magic, &mut |header| {
        Ok(match header.prev_blockhash.to_bytes() == network.genesis {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    Ok(found.is_break())
}

/// Hands `visit` the header of each block of the files, in their order, and changes nothing. Returns whether
/// it was broken off.
pub(crate) fn find_headers(
    disk: &StoreDisk,
    dir: &Path,
    magic: [u8; 4],
    visit: &mut dyn FnMut(BlockHeader) -> Result<ControlFlow<()>, StoreError>,
) -> Result<ControlFlow<()>, StoreError> {
    let mut files: Vec<(u32, PathBuf)> = disk
        .list_if_there(dir)?
        .into_iter()
        .filter_map(|path| Some((block_file_number(&path)?, path)))
        .collect();
    files.sort_unstable();
    for (number, path) in files {
        let file = disk.open(&path, OpenMode::Read)?;
        let (len, mut end) = (file.file_len()?, 0);
        while let Some(Next { block, .. }) = next_block(&file, magic, number, end, len)? {
            if visit(block.header)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            end = block.position.offset + block.position.len;
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Fails where a byte cannot be read.
fn read_through(handle: &StoreFile, bytes: Range<u64>) -> Result<(), StoreError> {
    let mut window = vec![0; SEARCH_WINDOW as usize];
    for at in bytes.clone().step_by(window.len()) {
        let wanted = (bytes.end - at).min(window.len() as u64) as usize;
        handle.read_exact_at(at, &mut window[..wanted])?;
    }
    Ok(())
}

/// Reads what the medium gives back; what it does not is zeros, page by page.
pub(crate) fn read_readable(handle: &StoreFile, at: u64, out: &mut [u8]) -> Result<(), StoreError> {
    match handle.read_exact_at(at, out) {
        Err(error) if error.is_unreadable() => {}
        other => return other,
    }
    let mut done = 0;
    while done < out.len() {
        let place = at + done as u64;
        let end = out.len().min(done + (PAGE - place % PAGE) as usize);
        match handle.read_exact_at(place, &mut out[done..end]) {
            Err(error) if error.is_unreadable() => out[done..end].fill(0),
            other => other?,
        }
        done = end;
    }
    Ok(())
}
