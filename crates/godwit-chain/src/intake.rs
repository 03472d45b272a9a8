//! The intake: the only entrance for blocks, whether from peers, from files of an import, or from a caller
//! that waits for the verdict. Any number may be under way, in any order, with any content.
//!
//! A worker decodes a block's bytes and applies the structural rules; the result waits here until
//! the index judges it by its place. A malformed block leaves no trace: its bytes may be a forged
//! copy of a good block.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use godwit_store::exec::Priority;
use godwit_stream::PooledStream;

use crate::environment::Environment;
use crate::event::Source;
use crate::job_sender::JobSender;
use crate::limits::DECODE_JOBS;
use crate::permits::Permit;
use crate::status::ChainStatus;
use crate::structure::{Received, structure};

/// A block that arrived, judged as far as it can be by itself.
pub(crate) struct Arrival {
    pub(crate) source: Source,
    pub(crate) received: Received,
    /// Length of the block, where bytes follow it.
    pub(crate) ends_early: Option<u32>,
    /// Bytes that it counts towards [`Intake::receiving`].
    pub(crate) charge: u64,
    /// What it holds of an import's budget, also where the block itself is gone: so many records at
    /// most are on their way here.
    pub(crate) permit: Option<Permit>,
}

/// Blocks on their way to their verdict.
pub(crate) struct Intake {
    /// Blocks of peers that no worker has yet; `receiving` counts their bytes.
    queue: VecDeque<(u64, PooledStream)>,
    /// Blocks of peers that workers have.
    jobs: usize,
    /// In the order in which they were decoded; counted like those before.
    arrivals: VecDeque<Arrival>,
    /// Records of an import, which are taken in the order of the plan. Each holds a permit.
    records: BTreeMap<u64, Arrival>,
    next_record: u64,
    records_arrived: u64,
    /// Records that have bytes behind their block, and its length. At most the records of the import.
    end_early: Vec<(u64, u32)>,
    /// Memory of peers' blocks that are not stored or refused yet.
    receiving: u64,
    limit: u64,
    handle: IntakeHandle,
}

/// Hands blocks to the intake from another thread.
#[derive(Clone)]
pub(crate) struct IntakeHandle {
    env: Environment,
    job_sender: JobSender<Arrival>,
}

impl IntakeHandle {
    /// Has record `sequence` of an import decoded; `permit` bounds how many there are.
    pub(crate) fn take_record(&self, sequence: u64, bytes: PooledStream, permit: Permit) {
        self.decode(Source::Record { sequence }, bytes, 0, Some(permit));
    }

    fn decode(&self, source: Source, bytes: PooledStream, charge: u64, permit: Option<Permit>) {
        let Environment { params, hasher, .. } = &self.env;
        let (params, hasher) = (Arc::clone(params), *hasher);
        self.job_sender.run(Priority::Urgent, "decode", move || {
            let len = bytes.as_slice().len();
            let received = structure(bytes, &params, &hasher, permit.clone());
            let ends_early = received.block_len().filter(|end| *end < len).map(|end| end as u32);
            Arrival { source, received, ends_early, charge, permit }
        });
    }
}

impl Intake {
    pub(crate) fn new(env: &Environment, limit: u64, job_sender: JobSender<Arrival>) -> Self {
        Self {
            queue: VecDeque::new(),
            jobs: 0,
            arrivals: VecDeque::new(),
            records: BTreeMap::new(),
            next_record: 0,
            records_arrived: 0,
            end_early: Vec::new(),
            receiving: 0,
            limit,
            handle: IntakeHandle { env: env.clone(), job_sender },
        }
    }

    /// Takes the bytes of one block of a peer; bytes behind it are ignored.
    pub(crate) fn take(&mut self, ticket: u64, bytes: PooledStream) {
        let bytes = bytes.in_proportion();
        self.receiving += bytes.capacity() as u64;
        self.queue.push_back((ticket, bytes));
        self.start();
    }

    /// For the thread that reads an import's files.
    pub(crate) fn handle(&self) -> IntakeHandle {
        self.handle.clone()
    }

    fn start(&mut self) {
        while self.jobs < DECODE_JOBS
            && let Some((ticket, bytes)) = self.queue.pop_front()
        {
            self.jobs += 1;
            let charge = bytes.capacity() as u64;
            self.handle.decode(Source::Peer { ticket }, bytes, charge, None);
        }
    }

    /// A block is decoded.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        match arrival.source {
            Source::Peer { .. } => {
                self.jobs -= 1;
                self.start();
                self.arrivals.push_back(arrival);
            }
            Source::Record { sequence } => {
                self.records_arrived += 1;
                self.end_early.extend(arrival.ends_early.map(|len| (sequence, len)));
                self.records.insert(sequence, arrival);
            }
            Source::Caller => self.arrivals.push_back(arrival),
        }
    }

    /// The block that is to be judged next.
    pub(crate) fn next(&self) -> Option<&Arrival> {
        self.records.get(&self.next_record).or_else(|| self.arrivals.front())
    }

    /// Takes it out.
    pub(crate) fn pop(&mut self) -> Option<Arrival> {
        match self.records.remove(&self.next_record) {
            Some(record) => {
                self.next_record += 1;
                Some(record)
            }
            None => self.arrivals.pop_front(),
        }
    }

    /// A block that was taken out is stored or refused, and its bytes count no more.
    pub(crate) fn release_charge(&mut self, charge: u64) {
        self.receiving -= charge;
    }

    /// Records of the import that are decoded.
    pub(crate) fn records_arrived(&self) -> u64 {
        self.records_arrived
    }

    /// An import is over; records of the next one count from 0. Returns those that had bytes behind their
    /// block, with its length.
    pub(crate) fn forget_records(&mut self) -> Vec<(u64, u32)> {
        self.records.clear();
        (self.next_record, self.records_arrived) = (0, 0);
        std::mem::take(&mut self.end_early)
    }

    /// Bytes of blocks that can be taken without exceeding the limit.
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.receiving)
    }

    /// Bytes of peers' blocks that are being decoded, wait to be accepted or are being written.
    pub(crate) fn receiving(&self) -> u64 {
        self.receiving
    }

    pub(crate) fn status(&self, status: &mut ChainStatus) {
        status.memory.receiving = self.receiving;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.jobs == 0 && self.next().is_none()
    }
}
