//! A chain in a temporary datadir.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use godwit_chain::{
    BadRecord, Chain, ChainOptions, CoinsMemory, Event, ImportObserver, ImportSummary, Verdict,
    import, plan, structure,
};
use godwit_primitives::network::{Network, Params};
use godwit_sim::chain::generated;
use godwit_sim::plan::ChainPlan;
use godwit_store::disk::RealDisk;
use godwit_store::exec::Threads;
use godwit_store::scan::{BlockFileScanner, SkippedBytes};
use godwit_stream::DataStream;

/// After every chain of the tests, so that no block lies in the future.
pub(crate) fn clock() -> i64 {
    2_000_000_000
}

pub(crate) fn options(params: Params) -> ChainOptions {
    let (params, executor) = (Arc::new(params), Arc::new(Threads::default()));
    ChainOptions::new(params, executor, 2, CoinsMemory::Fixed(16 << 20))
}

pub(crate) fn open_with(dir: &Path, options: ChainOptions) -> Chain {
    Chain::open(Arc::new(RealDisk), dir.to_path_buf(), options, [7; 16], clock())
        .expect("datadir opens")
}

pub(crate) fn open(dir: &Path, network: Network) -> Chain {
    open_with(dir, options(Params::new(network)))
}

/// The blocks of the small plan, without genesis. Made once: most of that is signing.
pub(crate) fn small_chain() -> Vec<Vec<u8>> {
    static BLOCKS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| generated(&ChainPlan::small(1)));
    BLOCKS.clone()
}

/// Ends a chain, as by a kill, once its index is durable, and its coins are not.
pub(crate) fn end_after_checkpoint(mut chain: Chain) {
    while chain.status().verified_durable != chain.tip_point() {
        chain.poll(clock() + 60).expect("no local fault");
        chain.wait_with(&crossbeam_channel::never::<()>(), Duration::from_millis(10));
    }
    assert_ne!(chain.status().coins_durable, chain.tip_point());
}

/// Judges one block.
pub(crate) fn submit(chain: &mut Chain, block: &[u8]) -> Verdict {
    submit_at(chain, block, clock())
}

/// Judges one block at that time.
pub(crate) fn submit_at(chain: &mut Chain, block: &[u8], now: i64) -> Verdict {
    let received =
        structure(DataStream::from(block), &Arc::clone(chain.params()), &chain.hasher(), None);
    chain.submit(received, now).expect("no local fault")
}

/// The blocks of a file in Core's framing.
pub(crate) fn records(file: &[u8]) -> Vec<&[u8]> {
    let mut rest = file;
    let mut blocks = Vec::new();
    while rest.len() >= 8 {
        let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        blocks.push(&rest[8..8 + len]);
        rest = &rest[8 + len..];
    }
    blocks
}

/// Collects bad records and gives events to a closure.
pub(crate) struct Watch<F> {
    pub(crate) bad: Vec<BadRecord>,
    pub(crate) on_event: F,
}

impl<F: FnMut(&Chain, Event)> ImportObserver for Watch<F> {
    fn now(&self) -> i64 {
        clock()
    }

    fn progress(&mut self, chain: &mut Chain) {
        for event in chain.take_events() {
            (self.on_event)(chain, event);
        }
    }

    fn bad_record(&mut self, bad: &BadRecord) {
        self.bad.push(bad.clone());
    }

    fn skipped_bytes(&mut self, path: &Path, skipped: &SkippedBytes) {
        panic!("{}: {skipped:?}", path.display());
    }
}

/// Imports a file and flushes; every event goes to `on_event`.
pub(crate) fn import_file(
    chain: &mut Chain,
    file: &Path,
    on_event: impl FnMut(&Chain, Event),
) -> (ImportSummary, Vec<BadRecord>) {
    let magic = chain.params().magic;
    let scanner = BlockFileScanner::open(chain.disk(), file, magic).expect("the file can be read");
    let mut watch = Watch { bad: Vec::new(), on_event };
    let stop = Arc::new(AtomicBool::new(false));
    let plan = plan(chain, vec![scanner], &mut watch, &stop).expect("no local fault");
    let summary = import(chain, plan, &mut watch, &stop).expect("no local fault");
    chain.flush().expect("no local fault");
    watch.progress(chain);
    (summary, watch.bad)
}
