//! Reads the index of filters for peers, on a thread of its own: neither the chain nor the engine waits for
//! a disk.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use godwit_api::Seam;
use godwit_index::{FilterHashes, FilterIndex, IndexError};
use godwit_p2p::{FILTER_BYTES, FilterBlock, FilterData, FilterQuery, FilterRead, ReadId};
use godwit_store::ChainPoint;

/// Reads that wait at most: the engine has fewer under way.
const WAITING: usize = 16;

/// To the thread.
pub(super) type FilterReads = Sender<(ReadId, FilterRead)>;

/// Waits in its end for the thread, which ends when nobody can ask it any more.
pub(super) struct FilterThread(Option<JoinHandle<()>>);

impl Drop for FilterThread {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A thread that panicked has ended the process.
            let (Ok(()) | Err(_)) = thread.join();
        }
    }
}

/// Starts the thread, if there is an index to be served; the answers come as questions of its.
pub(super) fn start(
    index: Option<Arc<FilterIndex>>,
    seam: Option<&Seam>,
) -> Option<(FilterReads, FilterThread)> {
    let (index, seam) = index.zip(seam.cloned())?;
    let (sender, reads) = bounded(WAITING);
    let thread = thread::Builder::new().name("godwit-filters".to_owned());
    let spawned = thread.spawn(move || run(&index, &seam, &reads));
    let spawned =
        spawned.map_err(|error| log::error!("Block filters are not served to peers: {error}")).ok();
    spawned.map(|thread| (sender, FilterThread(Some(thread))))
}

fn run(index: &FilterIndex, seam: &Seam, reads: &Receiver<(ReadId, FilterRead)>) {
    for (request, wanted) in reads {
        let data = read(index, &wanted).unwrap_or_else(|error| {
            // The index has logged its damage itself.
            if !error.is_damage() {
                log::error!("A filter for a peer cannot be read: {error}");
            }
            None
        });
        if seam.post(move |node| node.filters_read(request, data)).is_err() {
            return;
        }
    }
}

fn point(block: &FilterBlock) -> ChainPoint {
    ChainPoint { hash: block.hash, height: block.height }
}

/// What is asked for; `None` where the index has not come to the last block, or lacks another one.
fn read(index: &FilterIndex, wanted: &FilterRead) -> Result<Option<FilterData>, IndexError> {
    let hashes = |block: &FilterBlock| index.hashes(point(block));
    if hashes(&wanted.stop)?.is_none() {
        return Ok(None);
    }
    let of_blocks = |part: fn(FilterHashes) -> [u8; 32]| {
        let found = wanted.blocks.iter().map(|block| Ok(hashes(block)?.map(part)));
        found.collect::<Result<Option<Vec<_>>, IndexError>>()
    };
    Ok(match wanted.query {
        FilterQuery::Filters => filters(index, &wanted.blocks)?,
        FilterQuery::Headers => {
            let previous = wanted.previous.as_ref().map_or(Ok(Some([0; 32])), |block| {
                hashes(block).map(|hashes| hashes.map(|hashes| hashes.header))
            })?;
            let hashes = of_blocks(|hashes| hashes.hash)?;
            previous.zip(hashes).map(|(previous, hashes)| FilterData::Headers { previous, hashes })
        }
        FilterQuery::Checkpoints => of_blocks(|hashes| hashes.header)?.map(FilterData::Checkpoints),
    })
}

fn filters(index: &FilterIndex, blocks: &[FilterBlock]) -> Result<Option<FilterData>, IndexError> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for block in blocks {
        let Some(filter) = index.filter(point(block))? else { return Ok(None) };
        bytes += filter.bytes.len();
        found.push((block.hash, filter.bytes));
        if bytes >= FILTER_BYTES {
            break;
        }
    }
    Ok(Some(FilterData::Filters(found)))
}
