//! The node on the simulator's network, disk and clock.

mod lifetime;
mod peak;
mod promised;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use godwit::node::PeersFile;
use godwit::node::core::{NodeCore, Turn};
use godwit::node::sockets::{Inbox, InboxLimits, Outbox};
use godwit_chain::{BlockMemory, ChainError, Poll};
use godwit_fault_disk::{FaultDisk, InlineExecutor, Latency, Pace, Survival};
use godwit_p2p::{
    Command, ConnectFailure, DisconnectReason, Entrance, Host, NetAddress, NetEvent, Now, PeerId,
    PeersConfig, Permissions, Protocol, Reachable, SEND_PAUSE, Services, SocketId, Target,
    Whitelist,
};
use godwit_primitives::BlockHash;
use godwit_sim::network::{ConnectionId, Crowd, NodeEvent, PeerPlan, Trace};
use godwit_store::exec::Executor;
use godwit_store::utxo::CacheMinima;
use godwit_store::{BLOCK_BUFFERS, Rebuild};
use godwit_stream::{BufferPool, PoolLimits};

pub(super) use peak::Peak;
pub(super) use promised::BOUND;
use promised::Watch;

use super::sockets::{FIRST_CAPACITY, Link, queue};
use super::tap;
use super::timed::Delays;
use super::worlds::Stage;

/// The node's data directory.
pub(super) const DIR: &str = "/node";

/// Time from one look at a node that is impatient to the next.
const STEP: Duration = Duration::from_millis(1);

/// Name of the seed host that knows all peers.
const SEED_HOST: &str = "seed.invalid";

/// The node's address, which all inbound peers call.
const CALLED: NetAddress = NetAddress::new(Host::Ipv4([77, 1, 1, 1]), 8333);

const FULL_NODE: Services =
    Services(Services::NETWORK.0 | Services::WITNESS.0 | Services::NETWORK_LIMITED.0);

/// How the node hears of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discovery {
    /// A DNS seed.
    Seed,
    /// Addresses built in.
    Fixed,
    /// `-addnode`.
    AddNode,
    /// `-connect`.
    Connect,
}

/// What differs between the nodes of two runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodePlan {
    pub(super) seed: u64,
    pub(super) discovery: Discovery,
    /// Workers: so many of the chain's jobs run at once.
    pub(super) workers: usize,
    pub(super) max_inbound: usize,
    /// `-v2transport`.
    pub(super) v2: bool,
    pub(super) block_memory: BlockMemory,
    /// At how many bytes that the node has not taken nothing more is read from its peers.
    pub(super) inbox: InboxLimits,
    /// Time from one turn of the chain to the next, as if it were that slow.
    pub(super) turn: Duration,
    /// How long jobs take; `None`: no time, and a turn of the chain comes when all have ended.
    pub(super) delays: Option<Delays>,
    /// With how little memory for coins the chain works; it gets no more.
    pub(super) minima: CacheMinima,
    /// Everything that happens is noted in the executor's journal.
    pub(super) journal: bool,
    /// `-scrub`.
    pub(super) scrub: bool,
}

pub(super) enum Timer {
    /// Refused, or for want of an answer.
    ConnectFailed(PeerId, ConnectFailure),
    Resolved(String),
}

/// A peer that the node disconnected, when and why.
#[derive(Clone, Debug)]
pub(super) struct Disconnected {
    pub(super) peer: PeerPlan,
    pub(super) at: Duration,
    pub(super) why: DisconnectReason,
    /// Its links had failed: not it, but the connection was let go.
    pub(super) excused: bool,
}

impl Disconnected {
    pub(super) fn misbehaved(&self) -> bool {
        matches!(self.why, DisconnectReason::Misbehaved(_))
    }
}

/// A node and its world.
pub(super) struct Driver {
    pub(super) stage: &'static Stage,
    pub(super) plan: NodePlan,
    pub(super) crowd: Crowd,
    pub(super) core: Option<NodeCore>,
    pub(super) executor: InlineExecutor,
    pub(super) disk: FaultDisk,
    pub(super) pool: BufferPool,
    /// When the node was started.
    started: Duration,
    pub(super) links: BTreeMap<ConnectionId, Link>,
    pub(super) by_peer: HashMap<PeerId, ConnectionId>,
    /// Both ends of the queue between its connections and the node.
    pub(super) outbox: Outbox,
    pub(super) inbox: Inbox,
    timers: BTreeMap<u64, Timer>,
    next_timer: u64,
    /// The node has something to do.
    pub(super) stirred: bool,
    /// When the chain has its turn.
    next_turn: Duration,
    /// From a connection for which more bytes wait nothing is read.
    pub(super) pause_above: usize,
    /// Where the address book is, in simulations with time; in others it is handed over.
    pub(super) peers_file: Option<PeersFile>,
    pub(super) next_save: Duration,
    /// Blocks whose coins were fetched again, by nodes that have ended.
    pub(super) refetched: u64,
    /// Answers that are due in this turn.
    pub(super) due: Vec<(PeerId, Command)>,
    /// Answers that came in the turn of the question.
    pub(super) answered: u64,
    /// Of these, those that came while the chain could take no block.
    pub(super) answered_while_full: u64,
    /// Blocks that were sent to peers then.
    pub(super) served_while_full: u64,
    /// The node may give up for a fault of the disk. Another one starts, what was not synced being left
    /// as this says, on a disk without faults.
    pub(super) mended_by: Option<Survival>,
    /// Why it gave up.
    pub(super) gave_up: Option<ChainError>,
    /// What its last clean end took.
    pub(super) end_took: Duration,
    /// What the next start makes again.
    rebuild: Rebuild,
    /// The next start dies at this change of the disk, and leaves so much.
    pub(super) fail_at_start: Option<(u64, Survival)>,
    /// Kills while a merge ran.
    pub(super) killed_in_merges: u64,
    /// Kills while a run was synced that was read already.
    pub(super) killed_in_syncs: u64,
    /// Kills in a life of more than a minute, behind which was what had been there a minute before.
    pub(super) bounded_kills: u64,
    /// Kills while the node started.
    pub(super) killed_in_starts: u64,
    /// Connections that are to be read again behind the next turn.
    pub(super) held: BTreeSet<ConnectionId>,
    /// What the peers are called from which at some time nothing was read, their share of the inbox
    /// being full.
    pub(super) held_back: BTreeSet<&'static str>,
    pub(super) disconnected: Vec<Disconnected>,
    pub(super) refused: Vec<PeerPlan>,
    pub(super) peak: Peak,
    watch: Watch,
    pub(super) log_bytes: usize,
    pub(super) block_bytes: u64,
    pub(super) header_bytes: u64,
    /// Blocks that arrived since the node was started, and before.
    pub(super) arrived: HashSet<BlockHash>,
    pub(super) arrived_before: HashSet<BlockHash>,
    /// Blocks that arrived although an earlier run of the node had them.
    pub(super) fetched_again: usize,
    /// Of everything that went over the network.
    pub(super) digest: DefaultHasher,
    /// Encrypted transports that were made.
    pub(super) transports: u64,
    /// How peers turned out to speak, in this order.
    pub(super) protocols: Vec<(NetAddress, Protocol)>,
    trace: Trace,
    /// Every line of the trace is printed at once (`GODWIT_SIM_TRACE`).
    verbose: bool,
}

fn pool() -> BufferPool {
    let buffer_bytes = FIRST_CAPACITY;
    BufferPool::new(PoolLimits { buffers: 8, buffer_bytes, total_bytes: 8 * buffer_bytes })
}

/// The chain's pool, as large blocks leave it: payloads for peers come out of it. The memory of its
/// buffers is never touched.
fn block_buffers() -> BufferPool {
    let pool = BufferPool::new(BLOCK_BUFFERS);
    let PoolLimits { buffer_bytes, total_bytes, .. } = BLOCK_BUFFERS;
    let buffers: Vec<_> =
        (0..total_bytes / buffer_bytes).map(|_| pool.take_for(buffer_bytes)).collect();
    drop(buffers);
    pool
}

/// The looks at a node that is due and cannot have its turn yet, in one: nothing happens between them, and
/// one each millisecond of turns of up to ten seconds was most of the work of many runs.
fn steps_to(turn: Duration, due: Duration) -> Duration {
    let steps = turn.saturating_sub(due).as_nanos().div_ceil(STEP.as_nanos());
    STEP * u32::try_from(steps).expect("turns of seconds")
}

impl Driver {
    pub(super) fn new(
        stage: &'static Stage,
        plan: NodePlan,
        line: Option<u64>,
        peers: Vec<PeerPlan>,
    ) -> Self {
        Self::not_started(stage, plan, line, peers).begin()
    }

    pub(super) fn not_started(
        stage: &'static Stage,
        plan: NodePlan,
        line: Option<u64>,
        peers: Vec<PeerPlan>,
    ) -> Self {
        tap::open();
        let magic = stage.params.magic;
        let (pace, latency) = match plan.delays {
            Some(delays) => (delays.pace(), delays.latency()),
            None => (Pace::Instant, Latency::constant(Duration::ZERO)),
        };
        let executor = InlineExecutor::new(plan.seed, pace);
        let (outbox, inbox) = queue(plan.inbox);
        if plan.journal {
            executor.journal().open();
        }
        Self {
            stage,
            plan,
            crowd: Crowd::new(plan.seed, line, magic, stage.unix_start(), peers),
            core: None,
            disk: FaultDisk::timed(&executor, latency),
            executor,
            pool: pool(),
            started: Duration::ZERO,
            links: BTreeMap::new(),
            by_peer: HashMap::new(),
            outbox,
            inbox,
            timers: BTreeMap::new(),
            next_timer: 0,
            stirred: true,
            next_turn: Duration::ZERO,
            pause_above: SEND_PAUSE,
            peers_file: None,
            next_save: Duration::ZERO,
            refetched: 0,
            due: Vec::new(),
            answered: 0,
            answered_while_full: 0,
            served_while_full: 0,
            mended_by: None,
            gave_up: None,
            end_took: Duration::ZERO,
            rebuild: Rebuild::Nothing,
            fail_at_start: None,
            killed_in_merges: 0,
            killed_in_syncs: 0,
            killed_in_starts: 0,
            held: BTreeSet::new(),
            held_back: BTreeSet::new(),
            disconnected: Vec::new(),
            refused: Vec::new(),
            peak: Peak::default(),
            watch: Watch::default(),
            bounded_kills: 0,
            log_bytes: 0,
            block_bytes: 0,
            header_bytes: 0,
            arrived: HashSet::new(),
            arrived_before: HashSet::new(),
            fetched_again: 0,
            digest: DefaultHasher::new(),
            transports: 0,
            protocols: Vec::new(),
            trace: Trace::default(),
            verbose: std::env::var_os("GODWIT_SIM_TRACE").is_some(),
        }
    }

    fn config(&self) -> PeersConfig {
        let listening = self.crowd.plans().iter().filter(|plan| plan.listens);
        let addresses: Vec<NetAddress> = listening.map(|plan| plan.address).collect();
        let targets = || addresses.iter().map(|address| Target::Address(*address)).collect();
        let discovery = self.plan.discovery;
        let of = |other| discovery == other;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.plan.seed.to_le_bytes());
        seed[8..16].copy_from_slice(&(self.started.as_nanos() as u64).to_le_bytes());
        PeersConfig {
            params: Arc::clone(&self.stage.params),
            services: match self.plan.v2 {
                true => FULL_NODE | Services::P2P_V2,
                false => FULL_NODE,
            },
            user_agent: "/godwit:simulated/".to_owned(),
            minimum_chain_work: self.stage.params.minimum_chain_work,
            max_inbound: self.plan.max_inbound,
            max_outbound_full: 8,
            max_outbound_block_relay: 2,
            max_automatic: 125,
            listen_port: Some(18_444),
            discover: true,
            connect_only: of(Discovery::Connect).then(targets),
            add_nodes: if of(Discovery::AddNode) { targets() } else { Vec::new() },
            seed_nodes: Vec::new(),
            dns_seeds: if of(Discovery::Seed) { vec![SEED_HOST.to_owned()] } else { Vec::new() },
            fixed_seeds: if of(Discovery::Fixed) { addresses.clone() } else { Vec::new() },
            name_proxy: false,
            reachable: Reachable::CLEARNET,
            whitelist: Whitelist::default(),
            max_upload_target: None,
            pool: block_buffers(),
            seed,
        }
    }

    pub(super) fn core(&mut self) -> &mut NodeCore {
        self.core.as_mut().expect("the node runs")
    }

    /// The node's clocks.
    pub(super) fn now(&self) -> Now {
        let now = self.crowd.now();
        let unix = self.stage.unix_start() + now.as_secs() as i64;
        Now { monotonic: now - self.started, unix }
    }

    /// Until `done`, or until that time: whether it was done.
    pub(super) fn run(&mut self, end: Duration, done: impl Fn(&mut Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            if self.crowd.now() >= end {
                return false;
            }
            let mut wakeup = self.core().next_wakeup().saturating_add(self.started);
            if self.stirred {
                wakeup = wakeup.min(self.next_turn);
            }
            // Time always goes on, however impatient the node is.
            let due = wakeup.max(self.crowd.now() + STEP);
            let wakeup = due + steps_to(self.next_turn, due);
            let wakeup = wakeup.min(self.next_of_its_own().unwrap_or(wakeup));
            let event = self.crowd.next(wakeup.min(end));
            self.stirred |= self.crowd.now() > due;
            self.let_jobs_go_on();
            self.watch();
            match event {
                Some(event) => self.happen(event),
                None => self.stirred = true,
            }
            self.settle();
        }
    }

    fn happen(&mut self, event: NodeEvent) {
        self.journal(format_args!("event {event:?}"));
        match event {
            NodeEvent::Incoming(id, address) => {
                let transport = self.transport(self.plan.v2, false);
                self.add_link(id, None, address, transport);
                let socket = SocketId(id.0);
                self.note(format!("inbound {address}"));
                let entrance = Entrance::Direct(Permissions::NONE);
                self.tell(NetEvent::Inbound { socket, address, called: CALLED, entrance });
            }
            NodeEvent::Connected(id) => {
                let Some(link) = self.links.get_mut(&id) else { return };
                link.established = true;
                let (peer, address) = (link.peer.expect("the node named it"), link.address);
                self.note(format!("connected peer={} {address}", peer.0));
                self.tell(NetEvent::Connected { peer, address: Some(address) });
                // What waited on an encrypted connection that was refused.
                self.write(id);
            }
            NodeEvent::Readable(id) | NodeEvent::Ended(id) => self.read(id),
            NodeEvent::Writable(id) => self.write(id),
            NodeEvent::Timer(token) => match self.timers.remove(&token) {
                Some(Timer::ConnectFailed(peer, why)) => {
                    self.tell(NetEvent::ConnectFailed { peer, why });
                }
                Some(Timer::Resolved(host)) => {
                    let listening = self.crowd.plans().iter().filter(|plan| plan.listens);
                    let addresses = listening.map(|plan| plan.address).collect();
                    self.tell(NetEvent::Resolved { host, addresses });
                }
                None => {}
            },
        }
    }

    /// Lets the node do what it can at this time.
    fn settle(&mut self) {
        self.take_commands();
        self.let_jobs_go_on();
        while self.stirred && self.crowd.now() >= self.next_turn {
            self.stirred = false;
            self.next_turn = self.crowd.now() + self.plan.turn;
            self.turn();
            self.save_book();
            self.hear();
            self.take_events();
            self.take_commands();
            for id in std::mem::take(&mut self.held) {
                self.read(id);
            }
            self.let_jobs_go_on();
        }
        self.check_answers();
        self.measure();
    }

    fn turn(&mut self) {
        if self.plan.delays.is_none() {
            self.let_chain_finish();
        }
        let now = self.now();
        match self.core().turn(now, false) {
            Ok(Turn::GoesOn(Poll::Progress)) => self.stirred |= self.plan.delays.is_some(),
            Ok(Turn::GoesOn(Poll::Waiting | Poll::Idle)) => {}
            Ok(Turn::Stops) => self.fail("it stops and was not told to"),
            Err(error) => {
                let survival = self.give_up("running", error);
                return self.kill(survival);
            }
        }
        if self.plan.delays.is_some() && self.executor.now() != self.crowd.now() {
            self.fail("a turn took time");
        }
    }

    /// Lets all jobs end at this instant, in whatever order the seed gives: that changes nothing, for
    /// the chain's events are noticed together, when there are no more to come.
    fn let_chain_finish(&mut self) {
        let now = self.now().unix;
        loop {
            match self.core().chain_mut().poll(now) {
                Ok(Poll::Progress) => {}
                Ok(Poll::Waiting) => {
                    if !self.executor.finish_one() {
                        self.fail("the chain waits, and no job runs");
                    }
                }
                // What is left, a commit, holds up nothing but what comes next.
                Ok(Poll::Idle) if self.executor.finish_one() => {}
                Ok(Poll::Idle) => return,
                Err(error) => self.fail(&format!("the chain gives up: {error}")),
            }
        }
    }

    /// The node's log goes into the trace.
    pub(super) fn hear(&mut self) {
        for line in tap::take() {
            if !line.starts_with("DEBUG") {
                self.log_bytes += line.len();
            }
            self.trace(line);
        }
    }

    pub(super) fn set_timer(&mut self, after: Duration, timer: Timer) {
        let token = self.next_timer;
        self.next_timer += 1;
        self.timers.insert(token, timer);
        self.crowd.wake(self.crowd.now() + after, token);
    }

    /// Something that follows from the seed alone.
    pub(super) fn note(&mut self, line: String) {
        self.crowd.now().hash(&mut self.digest);
        line.hash(&mut self.digest);
        self.trace(line);
    }

    fn trace(&mut self, line: String) {
        let now = self.crowd.now();
        self.journal(format_args!("{line}"));
        if self.verbose {
            eprintln!("{:12.6} {line}", now.as_secs_f64());
        }
        self.trace.note(now, line);
    }

    /// Something that only the journal says.
    pub(super) fn journal(&self, line: fmt::Arguments<'_>) {
        self.executor.journal().note(self.crowd.now(), line);
    }

    /// Ends the test; the trace is printed when the driver is dropped.
    pub(super) fn fail(&self, why: &str) -> ! {
        panic!("seed {} after {:?}: {why}", self.plan.seed, self.crowd.now());
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // What is dropped may close its files properly.
        self.executor.disarm();
        if std::thread::panicking() {
            eprintln!("{}", self.trace);
            for plan in self.crowd.plans() {
                eprintln!("{} {} {:?}", plan.address, plan.conduct.name, plan.link);
            }
            eprintln!("{:?}; the same again: GODWIT_SIM_SEED={}", self.plan, self.plan.seed);
        }
    }
}
