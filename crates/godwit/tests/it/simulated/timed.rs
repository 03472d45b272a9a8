//! Nodes whose jobs and disk take time.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use godwit::node::PeersFile;
use godwit::node::sockets::Share;
use godwit_fault_disk::{HardDisk, Latency, Pace};
use godwit_p2p::{AddressBook, Anchors, Command, NetGroups, PeerId};
use godwit_sim::network::NodeEvent;
use godwit_sim::rng::Rng;
use godwit_store::exec::Executor;
use godwit_store::utxo::CacheMinima;

use super::driver::{DIR, Discovery, Driver, NodePlan};
use super::run::{BLOCK_MEMORY, LIMIT, survival, tip};
use super::scenarios::node;

/// So little that a chain of 200 small blocks makes flushes and merges: an empty memtable takes some 60
/// KiB, a merge 52. (With 128 KiB a merge would never fit beside a memtable, and the coins store wait
/// for it for ever.)
pub(super) const SMALL_CACHE: CacheMinima =
    CacheMinima { budget: 144 << 10, active: 62 << 10, io_buffer: 4 << 10, arena_step: 1 << 10 };

/// A node whose jobs and disk take time, with so little memory that it flushes and merges.
pub(super) fn small_node(seed: u64, delays: Delays) -> NodePlan {
    NodePlan {
        workers: 2,
        block_memory: BLOCK_MEMORY,
        delays: Some(delays),
        minima: SMALL_CACHE,
        ..node(seed, Discovery::Connect)
    }
}

/// Time between two copies of the address book on the disk.
const SAVE_INTERVAL: Duration = Duration::from_secs(20);

/// Changes of the disk among which one fails when a node is killed while it starts.
const CHANGES_OF_A_START: u64 = 30;

/// The least and the most that something takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between(pub(super) Duration, pub(super) Duration);

impl Between {
    pub(super) const NOTHING: Self = Self(Duration::ZERO, Duration::ZERO);

    /// Nothing to so much, of which any order of magnitude is as likely as another.
    fn up_to(rng: &mut Rng, most: Duration) -> Self {
        Self(Duration::ZERO, Duration::from_micros(rng.log_between(1, most.as_micros() as u64)))
    }

    fn range(self) -> RangeInclusive<Duration> {
        self.0..=self.1
    }
}

/// What jobs take, and what their disk operations take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub(super) cpu: Between,
    pub(super) disk: DiskDelays,
}

/// What operations of the disk take.
#[derive(Clone, Copy, Debug)]
pub(super) enum DiskDelays {
    Between {
        read: Between,
        write: Between,
        sync: Between,
    },
    /// That of a hard disk.
    Hard,
}

impl Delays {
    /// Those of some machine, from one with a fast disk to one with a bad one.
    pub(super) fn of(rng: &mut Rng) -> Self {
        Self {
            cpu: Between::up_to(rng, Duration::from_millis(50)),
            disk: DiskDelays::Between {
                read: Between::up_to(rng, Duration::from_millis(50)),
                write: Between::up_to(rng, Duration::from_millis(50)),
                sync: Between::up_to(rng, Duration::from_secs(1)),
            },
        }
    }

    /// Those of a machine with a fast disk, on which much is under way at once all the same.
    pub(super) fn short() -> Self {
        let up_to = |millis| Between(Duration::ZERO, Duration::from_millis(millis));
        let disk = DiskDelays::Between { read: up_to(2), write: up_to(2), sync: up_to(20) };
        Self { cpu: up_to(2), disk }
    }

    /// The same, with syncs of at most so long.
    pub(super) fn with_syncs(self, longest: Duration) -> Self {
        match self.disk {
            DiskDelays::Between { read, write, .. } => {
                let sync = Between(Duration::ZERO, longest);
                Self { disk: DiskDelays::Between { read, write, sync }, ..self }
            }
            DiskDelays::Hard => self,
        }
    }

    pub(super) fn pace(&self) -> Pace {
        Pace::Timed(self.cpu.range())
    }

    pub(super) fn latency(&self) -> Latency {
        match self.disk {
            DiskDelays::Between { read, write, sync } => {
                let (read, write, sync) = (read.range(), write.range(), sync.range());
                Latency::Drawn { read, write, sync }
            }
            DiskDelays::Hard => Latency::HardDisk(HardDisk::COMMON),
        }
    }
}

/// When a node is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// So long after the last time.
    After(Duration),
    /// In the middle of a job, when so many of that name have ended since the last time.
    During { job: &'static str, ended: u64, permille: u32 },
}

impl Kill {
    /// One that comes before the chain is there.
    fn first(rng: &mut Rng) -> Self {
        let job = *rng.weighted(&[(1, "commit"), (1, "append"), (2, "flush"), (1, "sync")]);
        Self::During { job, ended: rng.below(4), permille: rng.between(1, 999) as u32 }
    }

    fn of(rng: &mut Rng) -> Self {
        if rng.chance(300) {
            return Self::After(Duration::from_millis(rng.log_between(300, 60_000)));
        }
        let job = *rng.weighted(&[
            (3, "commit"),
            (3, "append"),
            (3, "flush"),
            (2, "sync"),
            (2, "merge"),
            (2, "push out"),
        ]);
        Self::During { job, ended: rng.below(4), permille: rng.between(1, 999) as u32 }
    }
}

impl Driver {
    /// In a simulation with time: lets jobs start and end up to now.
    pub(super) fn let_jobs_go_on(&mut self) {
        if self.plan.delays.is_some() && self.executor.run_until(self.crowd.now()) {
            self.stirred = true;
            self.hear();
        }
    }

    /// The next thing that the node does by itself, not asked by the network.
    pub(super) fn next_of_its_own(&self) -> Option<Duration> {
        self.plan.delays?;
        let file = self.peers_file.as_ref().filter(|file| !file.is_saving());
        let save = file.map(|_| self.next_save.max(self.crowd.now() + Duration::from_millis(1)));
        self.executor.next_end().into_iter().chain(save).min()
    }

    /// Nobody was there while the last node waited for its disk.
    pub(super) fn miss_events(&mut self) {
        let now = self.executor.now();
        while now > self.crowd.now() {
            if let Some(NodeEvent::Incoming(id, _)) = self.crowd.next(now) {
                self.crowd.close(id);
            }
        }
    }

    /// The address book as it is on the disk, in simulations with time.
    pub(super) fn load_book(&mut self) -> Option<AddressBook> {
        self.plan.delays?;
        let (disk, magic) = (Arc::new(self.disk.clone()), self.stage.params.magic);
        let file = PeersFile::new(disk, &self.executor, Path::new(DIR), magic);
        let file = file.expect("no thread is needed");
        let book = file.load([self.plan.seed as u8; 32], &NetGroups::default());
        self.peers_file = Some(file);
        self.next_save = self.crowd.now() + SAVE_INTERVAL;
        Some(book)
    }

    /// Those that lie beside the book.
    pub(super) fn load_anchors(&self) -> Anchors {
        self.peers_file.as_ref().map_or_else(Anchors::default, PeersFile::load_anchors)
    }

    pub(super) fn save_book(&mut self) {
        let now = self.crowd.now();
        let (Some(file), Some(core)) = (&self.peers_file, &self.core) else { return };
        if now >= self.next_save && !file.is_saving() {
            self.next_save = now + SAVE_INTERVAL;
            file.save(core.peers().address_book(), &core.peers().anchors());
        }
    }

    /// What a node answers without its disk, it answers at once, but for what waits behind a block that
    /// the chain cannot take.
    pub(super) fn expect_answer(&mut self, peer: PeerId, question: Command, share: Share) {
        let answer = match question {
            Command::PING => Command::PONG,
            Command::GETHEADERS => Command::HEADERS,
            _ => return,
        };
        let waits = share == Share::Blocks && !self.core().takes_blocks();
        if self.plan.delays.is_some() && !waits {
            self.due.push((peer, answer));
        }
    }

    pub(super) fn note_answer(&mut self, peer: PeerId, answer: Command) {
        self.served_while_full +=
            u64::from(answer == Command::BLOCK && !self.core().takes_blocks());
        if let Some(at) = self.due.iter().position(|due| *due == (peer, answer)) {
            self.due.swap_remove(at);
            self.answered += 1;
            self.answered_while_full += u64::from(!self.core().takes_blocks());
        }
    }

    pub(super) fn check_answers(&mut self) {
        let connected = &self.by_peer;
        self.due.retain(|(peer, _)| connected.contains_key(peer));
        if let Some((peer, answer)) = self.due.first() {
            self.fail(&format!("peer={} waits for its {answer}", peer.0));
        }
    }

    /// Kills the node so many times at most, until it has synchronised. How often it was killed.
    pub(super) fn kill_often(&mut self, rng: &mut Rng, most: u64) -> u64 {
        for killed in 0..most {
            let kill = if killed == 0 { Kill::first(rng) } else { Kill::of(rng) };
            if self.run_to(kill) {
                return killed;
            }
            if rng.chance(300) {
                self.fail_at_start = Some((rng.between(1, CHANGES_OF_A_START), survival(rng)));
            }
            let promised = self.promised();
            self.kill(survival(rng));
            if let Some(promised) = promised {
                self.check_promised(promised);
                self.bounded_kills += 1;
            }
        }
        most
    }

    /// Whether the best chain was reached before.
    fn run_to(&mut self, kill: Kill) -> bool {
        let best = self.stage.world.best.tip().hash;
        match kill {
            Kill::After(time) => self.run(self.crowd.now() + time, |driver| tip(driver) == best),
            Kill::During { job, ended, permille } => {
                let ended = self.executor.ended(job) + ended;
                let runs = |driver: &mut Self| {
                    driver.executor.ended(job) >= ended && driver.executor.running(job).is_some()
                };
                self.run(LIMIT, |driver| runs(driver) || tip(driver) == best);
                let Some(time) = self.executor.running(job).filter(|_| tip(self) != best) else {
                    return true;
                };
                let end = time.start + (time.end - time.start) * permille / 1_000;
                self.run(end.max(self.crowd.now()), |driver| tip(driver) == best)
            }
        }
    }
}
