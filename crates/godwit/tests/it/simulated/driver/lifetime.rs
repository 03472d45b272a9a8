//! The node's starts and ends.

use std::path::PathBuf;
use std::sync::Arc;

use godwit::node::core::{NodeCore, Turn};
use godwit::node::index::ChainIndex;
use godwit_chain::{
    Chain, ChainError, ChainOptions, CoinsMemory, SCRUB_BYTES_PER_SECOND, ScriptOptions,
    StartOptions,
};
use godwit_fault_disk::Survival;
use godwit_p2p::{AddressBook, NetGroups, Peers, SEND_PAUSE};
use godwit_store::Rebuild;
use godwit_store::error::DamagedPart;
use godwit_store::exec::Executor;

use super::promised::Watch;
use super::{DIR, Driver, queue, tap};

/// Bytes that a node pushes out at once: the chains are small.
const PUSH_BYTES: u64 = 16 << 10;

impl Driver {
    /// The node's first start.
    pub(in crate::simulated) fn begin(mut self) -> Self {
        self.start(AddressBook::new([self.plan.seed as u8; 32]));
        self
    }

    fn start(&mut self, book: AddressBook) {
        self.started = self.crowd.now();
        self.pause_above = SEND_PAUSE;
        let chain = self.open_chain();
        let book = self.load_book().unwrap_or(book);
        let config = self.config();
        let mut peers = Peers::new(config, book, self.now(), &ChainIndex::new(&chain));
        peers.call_first(&self.load_anchors());
        self.core = Some(NodeCore::new(chain, peers));
        self.watch = Watch::default();
        self.executor.arm();
        self.stirred = true;
        self.settle();
    }

    /// A planned failure of the disk kills the node in the middle of opening; another one starts.
    fn open_chain(&mut self) -> Chain {
        let planned = self.fail_at_start.take();
        if let Some((change, _)) = planned {
            self.disk.fail_change(change);
        }
        loop {
            match (self.try_to_open(), planned) {
                (Ok(chain), None) => return chain,
                (Ok(chain), Some(_)) => {
                    self.disk.fail_nothing();
                    return chain;
                }
                (Err(error), Some((_, survival))) if self.disk.has_failed() => {
                    self.note(format!("the node is killed while it starts: {error}; {survival:?}"));
                    self.killed_in_starts += 1;
                    self.executor.kill();
                    self.disk.crash(survival);
                }
                (Err(error), _) => {
                    let survival = self.give_up("opening", error);
                    self.executor.kill();
                    self.disk.crash(survival);
                }
            }
        }
    }

    /// The node ends with an error, if it may; what is then left of the disk.
    pub(super) fn give_up(&mut self, while_it: &str, error: ChainError) -> Survival {
        let Some(survival) = self.mended_by.take() else {
            self.fail(&format!("{while_it}: {error}"));
        };
        self.note(format!("the node gives up, {while_it}: {error}; {survival:?}"));
        // What the user does then.
        self.rebuild = match &error {
            ChainError::Store(error) => match error.damaged_part() {
                Some(DamagedPart::Coins) => Rebuild::Coins,
                Some(DamagedPart::Index) => Rebuild::Index,
                None => Rebuild::Nothing,
            },
            _ => Rebuild::Nothing,
        };
        self.gave_up = Some(error);
        survival
    }

    fn try_to_open(&mut self) -> Result<Chain, ChainError> {
        let rebuild = std::mem::take(&mut self.rebuild);
        let options = ChainOptions {
            // Core's engine judging each input besides took a third of the time: that both agree is for tests
            // of scripts to show.
            scripts: ScriptOptions {
                crosscheck_recent: ScriptOptions::default().crosscheck_download,
                ..ScriptOptions::default()
            },
            cache_minima: self.plan.minima,
            block_memory: self.plan.block_memory,
            scrub: self.plan.scrub.then_some(SCRUB_BYTES_PER_SECOND),
            push_bytes: PUSH_BYTES,
            start: StartOptions { rebuild, ..StartOptions::default() },
            ..ChainOptions::new(
                Arc::clone(&self.stage.params),
                Arc::new(self.executor.clone()),
                self.plan.workers,
                CoinsMemory::Fixed(self.plan.minima.budget),
            )
        };
        let disk = Arc::new(self.disk.clone());
        Chain::open(disk, PathBuf::from(DIR), options, [7; 16], self.now().unix)
    }

    /// The node dies, and what it had not synced is lost as `survival` says; another one starts.
    pub(in crate::simulated) fn kill(&mut self, survival: Survival) {
        self.note(format!("the node is killed: {survival:?}"));
        self.killed_in_merges += u64::from(self.executor.running("merge").is_some());
        self.killed_in_syncs += u64::from(self.executor.running("sync").is_some());
        self.executor.kill();
        self.disk.crash(survival);
        let core = self.core.take().expect("the node runs");
        // The addresses lie in a file of their own.
        let book = core.peers().address_book().to_bytes(self.stage.params.magic);
        self.peers_file = None;
        self.refetched += core.chain().status().refetched;
        drop(core);
        let (magic, groups) = (self.stage.params.magic, NetGroups::default());
        let book = AddressBook::from_bytes(&book, magic, [9; 32], groups);
        self.begin_anew(book.expect("its own bytes"));
    }

    /// The node is told to stop between two turns, and does in the next one; another one starts.
    pub(in crate::simulated) fn stop(&mut self) {
        self.note("the node is told to stop".to_owned());
        let now = self.now();
        let told = self.executor.now();
        match self.core().turn(now, true) {
            Ok(Turn::Stops) => {}
            Ok(other) => self.fail(&format!("told to stop, it goes on: {other:?}")),
            Err(error) => {
                let survival = self.give_up("told to stop", error);
                return self.kill(survival);
            }
        }
        self.hear();
        self.executor.disarm();
        let core = self.core.take().expect("the node runs");
        if let Some(file) = self.peers_file.take() {
            file.end(core.peers().address_book(), &core.peers().anchors());
        }
        self.refetched += core.chain().status().refetched;
        if let Err(error) = core.into_chain().close() {
            let survival = self.give_up("closing", error);
            self.executor.kill();
            self.disk.crash(survival);
        }
        self.end_took = self.executor.now() - told;
        self.journal(format_args!("the node has stopped"));
        self.begin_anew(AddressBook::new([self.plan.seed as u8; 32]));
    }

    fn begin_anew(&mut self, book: AddressBook) {
        for id in std::mem::take(&mut self.links).into_keys() {
            self.crowd.close(id);
        }
        self.by_peer.clear();
        (self.outbox, self.inbox) = queue(self.plan.inbox);
        self.held.clear();
        self.timers.clear();
        self.arrived_before.extend(self.arrived.drain());
        self.due.clear();
        tap::take();
        self.miss_events();
        self.start(book);
    }
}
