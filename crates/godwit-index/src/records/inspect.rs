//! Reads the files of an index that is made of records from end to end.

use std::path::Path;

use godwit_store::StoreError;
use godwit_store::disk::{OpenMode, StoreDisk};

use super::{ACTIVE, HEADER, Layout, PART, STALE, UNFINISHED, check_header, checksum, read_stale};
use crate::error::IndexError;
use crate::reading::Reading;

/// Takes a record that holds: of the index's chain with its height, otherwise of a block that was left.
pub(crate) type Visit<'v> =
    dyn FnMut(&mut Reading<'_>, Option<u32>, &[u8]) -> Result<(), StoreError> + 'v;

/// Tells what of the files of a directory is damaged, and hands `visit` the records that hold.
pub(crate) fn inspect(
    dir: &Path,
    layout: &Layout,
    reading: &mut Reading<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), StoreError> {
    if is_begun(dir, reading)? {
        return Ok(());
    }
    let active = inspect_active(dir, layout, reading, visit);
    reading.note(active)?;
    match inspect_stale(dir, layout, reading, visit) {
        // As a whole, too.
        Err(error) if error.is_damage() => {
            reading.note_left_blocks(error);
            Ok(())
        }
        stale => reading.note(stale).map(drop),
    }
}

/// Whether there is nothing but what a crash leaves of an index as it is begun: no record is lost.
fn is_begun(dir: &Path, reading: &Reading<'_>) -> Result<bool, StoreError> {
    for path in reading.disk.list(dir)? {
        let is_empty = path == dir.join(UNFINISHED)
            || path == dir.join(ACTIVE)
                && reading.disk.open(&path, OpenMode::Read)?.file_len()? <= HEADER;
        if !is_empty {
            return Ok(false);
        }
    }
    Ok(true)
}

fn inspect_active(
    dir: &Path,
    layout: &Layout,
    reading: &mut Reading<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), IndexError> {
    let path = dir.join(ACTIVE);
    let file = reading.disk.open(&path, OpenMode::Read)?;
    check_header(&file, layout)?;
    let stored = layout.stored();
    let whole = file.file_len()?.saturating_sub(HEADER) / stored as u64;
    let whole = u32::try_from(whole).map_err(|_| IndexError::damaged(&path, 0))?;
    let mut first_bad = None;
    for first in (0..whole).step_by(PART) {
        let count = (whole - first).min(PART as u32) as usize;
        let mut bytes = vec![0; count * stored];
        file.read_exact_at(layout.offset(first), &mut bytes)?;
        reading.add(bytes.len() as u64)?;
        for (height, stored) in (first..).zip(bytes.chunks_exact(stored)) {
            let (payload, sum) = stored.split_at(layout.size);
            if *sum == checksum(height, payload) {
                visit(reading, Some(height), payload)?;
            } else {
                first_bad.get_or_insert(height);
            }
        }
    }
    match first_bad {
        // What a crash has left of the last part, which may have holes: a start cuts it off.
        Some(bad) if bad < reading.lowest || whole - bad > PART as u32 => {
            Err(IndexError::damaged(&path, layout.offset(bad)))
        }
        _ => Ok(()),
    }
}

fn inspect_stale(
    dir: &Path,
    layout: &Layout,
    reading: &mut Reading<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), IndexError> {
    let (records, end) = read_stale(&reading.disk, dir, layout)?;
    for (_, record) in &records {
        visit(reading, None, record)?;
    }
    let path = dir.join(STALE);
    let file = reading.disk.open(&path, OpenMode::Read)?;
    let mut behind = vec![0; file.file_len()?.saturating_sub(end) as usize];
    file.read_exact_at(end, &mut behind)?;
    for record in behind.chunks_exact(layout.stored_stale()) {
        let (height, rest) = record.split_first_chunk::<4>().expect("it begins with a height");
        let (height, (payload, sum)) = (u32::from_le_bytes(*height), rest.split_at(layout.size));
        // Otherwise it is what a crash has left, which may have holes: no block was cut off yet.
        if *sum == checksum(height, payload)
            && !is_active(&reading.disk, dir, layout, (height, payload))?
        {
            reading.note_left_blocks(IndexError::damaged(&path, end));
            break;
        }
    }
    Ok(reading.add(end + behind.len() as u64)?)
}

/// Whether the index's chain has this record at this height.
fn is_active(
    disk: &StoreDisk,
    dir: &Path,
    layout: &Layout,
    (height, record): (u32, &[u8]),
) -> Result<bool, StoreError> {
    let file = match disk.open(&dir.join(ACTIVE), OpenMode::Read) {
        Err(error) if error.is_not_found() => return Ok(false),
        file => file?,
    };
    let (start, mut bytes) = (layout.offset(height), vec![0; layout.size]);
    if file.file_len()? < start + bytes.len() as u64 {
        return Ok(false);
    }
    file.read_exact_at(start, &mut bytes)?;
    Ok(bytes == record)
}
