//! Reads the index of filters for peers, on a thread of its own: neither the chain nor the engine waits for
//! a disk.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use godwit_api::Seam;
use godwit_index::{FilterHashes, FilterIndex, IndexError, Status, has_followed};
use godwit_p2p::{FILTER_BYTES, FilterBlock, FilterData, FilterQuery, FilterRead, ReadId};
use godwit_rpc::RpcError;
use godwit_store::ChainPoint;

/// Reads that wait at most: the engine has fewer under way.
const WAITING: usize = 16;

/// How long a read waits for an index that is on its way to the tip. Others wait behind it.
const FILTER_WAIT: Duration = Duration::from_secs(1);

/// Between two looks whether the index is there.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Between two lines of the log about reads that fail: how many fail, peers decide, and the disk may be full.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

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

/// When the log was told of a read that fails.
#[derive(Default)]
struct LastLine(Option<Instant>);

impl LastLine {
    /// Spends the line of this minute; false where it has been told.
    fn take(&mut self, now: Instant) -> bool {
        let is_over = |last| now.saturating_duration_since(last) >= LINE_INTERVAL;
        let is_left = self.0.is_none_or(is_over);
        if is_left {
            self.0 = Some(now);
        }
        is_left
    }
}

fn run(index: &FilterIndex, seam: &Seam, reads: &Receiver<(ReadId, FilterRead)>) {
    let mut last_line = LastLine::default();
    for (request, wanted) in reads {
        // What the index cannot tell, the read says.
        let is_there = || has_last(index, &wanted).unwrap_or(true);
        let followed = |best, seen| seam.ask(move |node| has_followed(node.chain(), best, seen));
        if catch_up(index.status(), FILTER_WAIT, is_there, followed).is_err() {
            return;
        }
        let data = read(index, &wanted).unwrap_or_else(|error| {
            // The index has logged its damage itself.
            if !error.is_damage() && last_line.take(Instant::now()) {
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

/// Waits, as long as what is wanted is not there, until the index has followed the chain, and no longer than
/// `longest`: the tip is announced before the indexes are told of it, and peers ask for its filter at once. A
/// request for a block that the index will not have holds up no other.
///
/// # Errors
///
/// The node ends.
fn catch_up(
    status: &Status,
    longest: Duration,
    is_there: impl Fn() -> bool,
    has_followed: impl Fn(Option<ChainPoint>, Option<u64>) -> Result<bool, RpcError>,
) -> Result<(), RpcError> {
    let deadline = Instant::now() + longest;
    while !is_there() && status.is_synced() && Instant::now() < deadline {
        let (best, seen) = status.place();
        if has_followed(best, seen)? {
            break;
        }
        status.wait_for_move(best, LOOK_INTERVAL);
    }
    Ok(())
}

/// Whether the index has the last block that an answer needs. Of checkpoints the stop block is none, as in
/// Core, unless its height is a multiple of a thousand.
fn has_last(index: &FilterIndex, wanted: &FilterRead) -> Result<bool, IndexError> {
    let last = match wanted.query {
        FilterQuery::Filters | FilterQuery::Headers => Some(&wanted.stop),
        FilterQuery::Checkpoints => wanted.blocks.last(),
    };
    last.map_or(Ok(true), |block| Ok(index.hashes(point(block))?.is_some()))
}

/// What is asked for; `None` where the index has not come to the last block, or lacks another one.
fn read(index: &FilterIndex, wanted: &FilterRead) -> Result<Option<FilterData>, IndexError> {
    if !has_last(index, wanted)? {
        return Ok(None);
    }
    let hashes = |block: &FilterBlock| index.hashes(point(block));
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use godwit_fault_disk::FaultDisk;
    use godwit_index::{FilterIndexWriter, Follower, Index, Step};
    use godwit_primitives::{Block, BlockHash, Network, Params};
    use godwit_rpc::code;
    use godwit_store::BlockUndo;
    use godwit_store::disk::StoreDisk;

    use super::*;

    /// With the genesis block alone, and that block.
    fn index() -> (FilterIndexWriter, FilterBlock) {
        let params = Params::new(Network::Regtest);
        let genesis = FilterBlock { hash: params.genesis_hash, height: 0 };
        let disk = StoreDisk::new(Arc::new(FaultDisk::new()));
        let opened = FilterIndexWriter::open(&disk, Path::new("/indexes"), genesis.hash, 0);
        let mut index = opened.expect("it opens");
        let block = Block::from_bytes(&params.genesis_block()).expect("it is compiled in");
        index.connect(point(&genesis), &block, &BlockUndo::default()).expect("no fault");
        (index, genesis)
    }

    #[test]
    fn reads_that_fail_are_told_once_a_minute() {
        let (mut last_line, start) = (LastLine::default(), Instant::now());
        for (seconds, is_told) in [(0, true), (0, false), (59, false), (60, true), (119, false)] {
            assert_eq!(last_line.take(start + Duration::from_secs(seconds)), is_told, "{seconds}");
        }
    }

    #[test]
    fn checkpoints_need_no_filter_of_the_block_that_they_are_asked_up_to() {
        let (writer, there) = index();
        let index = writer.reader();
        let header = index.hashes(point(&there)).expect("no fault").expect("it is there").header;
        let stop = FilterBlock { hash: BlockHash::from_bytes([7; 32]), height: 1_001 };
        let read = |query, blocks: &[FilterBlock]| {
            let wanted = FilterRead { query, stop, previous: None, blocks: blocks.to_vec() };
            read(&index, &wanted).expect("no fault")
        };
        let checkpoints = |blocks: &[FilterBlock]| read(FilterQuery::Checkpoints, blocks);
        assert_eq!(checkpoints(&[]), Some(FilterData::Checkpoints(Vec::new())));
        assert_eq!(checkpoints(&[there]), Some(FilterData::Checkpoints(vec![header])));
        assert_eq!(checkpoints(&[there, stop]), None);
        assert_eq!(checkpoints(&[stop, there]), None);
        for query in [FilterQuery::Filters, FilterQuery::Headers] {
            assert_eq!(read(query, &[there]), None);
        }
    }

    #[test]
    fn a_read_waits_for_an_index_that_follows_until_it_has_the_block_or_the_chain() {
        let (writer, _) = index();
        let index = writer.reader();
        let (is_there, looks) = (Cell::new(false), Cell::new(0));
        let wait_for = |longest, followed: &dyn Fn(u32) -> Result<bool, RpcError>| {
            is_there.set(false);
            looks.set(0);
            let started = Instant::now();
            let has_followed = |_, _| {
                looks.set(looks.get() + 1);
                followed(looks.get())
            };
            let waited = catch_up(index.status(), longest, || is_there.get(), has_followed);
            (waited, looks.get(), started.elapsed() >= longest)
        };
        // Longer than any machine takes for three looks.
        let wait = |followed: &dyn Fn(u32) -> _| wait_for(Duration::from_secs(600), followed);
        // It is still being built: that takes longer than anybody waits.
        assert_eq!(wait(&|_| Ok(false)), (Ok(()), 0, false));
        let mut follower = Follower::new(writer);
        follower.take(Step::AtTip { left: 0 }, &|| false).expect("no fault");
        let comes = |look: u32| {
            is_there.set(look == 2);
            Ok(false)
        };
        assert_eq!(wait(&comes), (Ok(()), 2, false));
        // It has come to the tip without the block.
        assert_eq!(wait(&|look| Ok(look == 3)), (Ok(()), 3, false));
        let (waited, looks, is_over) = wait_for(FILTER_WAIT, &|_| Ok(false));
        assert_eq!((waited, is_over), (Ok(()), true));
        assert!(looks > 1, "{looks}");
        let ends = || RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down");
        assert_eq!(wait(&|_| Err(ends())), (Err(ends()), 1, false));
    }
}
