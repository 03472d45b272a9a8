//! The node on the simulator's network, disk and clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, never};
use godwit::node::core::NodeCore;
use godwit::node::index::ChainIndex;
use godwit_chain::{BlockMemory, Chain, ChainOptions, Poll};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_p2p::{
    AddressBook, DisconnectReason, MAX_GARBAGE, NetAddress, NetEvent, Now, PEER_MEMORY, PeerId,
    Peers, PeersConfig, Protocol, Reachable, SEND_PAUSE, SEND_QUEUE_MAX, Services, SocketId,
    Target,
};
use godwit_primitives::BlockHash;
use godwit_sim::network::{ConnectionId, Crowd, NodeEvent, PeerPlan, Trace};
use godwit_store::BLOCK_BUFFERS;
use godwit_store::exec::Threads;
use godwit_store::utxo::CacheMinima;
use godwit_stream::{BufferPool, PoolLimits};

use super::sockets::{FIRST_CAPACITY, Link};
use super::tap;
use super::worlds::Stage;

/// Name of the seed host that knows all peers.
const SEED_HOST: &str = "seed.invalid";

const FULL_NODE: Services =
    Services(Services::NETWORK.0 | Services::WITNESS.0 | Services::NETWORK_LIMITED.0);

/// Memory of a key and its garbage that wait to be written, or of garbage that is received.
const HANDSHAKE_BYTES: usize = 3 * (MAX_GARBAGE + 4_096);

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
    /// Worker threads.
    pub(super) workers: usize,
    pub(super) max_inbound: usize,
    /// `-v2transport`.
    pub(super) v2: bool,
    pub(super) block_memory: BlockMemory,
    /// Time from one turn of the chain to the next, as if it were that slow.
    pub(super) turn: Duration,
}

pub(super) enum Timer {
    ConnectFailed(PeerId),
    Resolved(String),
}

/// The most that the node held at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    /// Bytes of messages being received.
    pub(super) receiving: usize,
    /// Bytes of messages to be sent.
    pub(super) sending: usize,
    /// Memory of both.
    pub(super) memory: usize,
    /// Bytes of blocks that the chain decodes or has to accept.
    pub(super) arriving: u64,
    /// Memory of accepted blocks that wait for their turn.
    pub(super) waiting: usize,
    /// Times that a connection was not read because the chain could take no blocks.
    pub(super) held: usize,
    /// Addresses in the book.
    pub(super) addresses: usize,
    /// Connections.
    pub(super) connections: usize,
}

/// A peer that the node disconnected, when and why.
#[derive(Clone, Debug)]
pub(super) struct Disconnected {
    pub(super) peer: PeerPlan,
    pub(super) at: Duration,
    pub(super) why: DisconnectReason,
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
    core: Option<NodeCore>,
    disk: FaultDisk,
    pub(super) pool: BufferPool,
    /// When the node was started.
    started: Duration,
    pub(super) links: BTreeMap<ConnectionId, Link>,
    pub(super) by_peer: HashMap<PeerId, ConnectionId>,
    timers: BTreeMap<u64, Timer>,
    next_timer: u64,
    /// The node has something to do.
    pub(super) stirred: bool,
    /// When the chain has its turn.
    next_turn: Duration,
    /// From a connection for which more bytes wait nothing is read.
    pub(super) pause_above: usize,
    /// Connections that are not read before the chain can take blocks.
    pub(super) held: BTreeSet<ConnectionId>,
    pub(super) disconnected: Vec<Disconnected>,
    pub(super) refused: Vec<PeerPlan>,
    pub(super) peak: Peak,
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

impl Driver {
    pub(super) fn new(
        stage: &'static Stage,
        plan: NodePlan,
        line: Option<u64>,
        peers: Vec<PeerPlan>,
    ) -> Self {
        tap::open();
        let magic = stage.params.magic;
        let mut driver = Self {
            stage,
            plan,
            crowd: Crowd::new(plan.seed, line, magic, stage.unix_start(), peers),
            core: None,
            disk: FaultDisk::new(),
            pool: pool(),
            started: Duration::ZERO,
            links: BTreeMap::new(),
            by_peer: HashMap::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            stirred: true,
            next_turn: Duration::ZERO,
            pause_above: SEND_PAUSE,
            held: BTreeSet::new(),
            disconnected: Vec::new(),
            refused: Vec::new(),
            peak: Peak::default(),
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
        };
        driver.start(AddressBook::new([plan.seed as u8; 32]));
        driver
    }

    fn start(&mut self, book: AddressBook) {
        self.started = self.crowd.now();
        self.pause_above = SEND_PAUSE;
        let options = ChainOptions {
            params: Arc::clone(&self.stage.params),
            assume_valid: None,
            executor: Arc::new(Threads::default()),
            workers: self.plan.workers,
            cache_bytes: 4 << 20,
            cache_minima: CacheMinima::PRODUCT,
            stop_at_height: None,
            prune_bytes: None,
            block_memory: self.plan.block_memory,
        };
        let disk = Arc::new(self.disk.clone());
        let chain = Chain::open(disk, PathBuf::from("/node"), options, [7; 16], self.now().unix);
        let chain = chain.unwrap_or_else(|error| self.fail(&format!("opening: {error}")));
        let config = self.config();
        let peers = Peers::new(config, book, self.now(), &ChainIndex(&chain));
        self.core = Some(NodeCore::new(chain, peers));
        self.stirred = true;
        self.settle();
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
            listen_port: Some(18_444),
            connect_only: of(Discovery::Connect).then(targets),
            add_nodes: if of(Discovery::AddNode) { targets() } else { Vec::new() },
            seed_nodes: Vec::new(),
            dns_seeds: if of(Discovery::Seed) { vec![SEED_HOST.to_owned()] } else { Vec::new() },
            fixed_seeds: if of(Discovery::Fixed) { addresses.clone() } else { Vec::new() },
            name_proxy: false,
            reachable: Reachable::CLEARNET,
            max_upload_target: None,
            pool: block_buffers(),
            seed,
        }
    }

    pub(super) fn core(&mut self) -> &mut NodeCore {
        self.core.as_mut().expect("the node runs")
    }

    /// The node's clocks.
    fn now(&self) -> Now {
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
            let wakeup = wakeup.max(self.crowd.now() + Duration::from_millis(1));
            match self.crowd.next(wakeup.min(end)) {
                Some(event) => self.happen(event),
                None => self.stirred = true,
            }
            self.settle();
        }
    }

    /// The node dies, and what it had not synced is lost as `survival` says; another one starts.
    pub(super) fn kill(&mut self, survival: Survival) {
        self.note(format!("the node is killed: {survival:?}"));
        self.disk.crash(survival);
        let core = self.core.take().expect("the node runs");
        // The addresses lie in a file of their own.
        let book = core.peers().address_book().to_bytes(self.stage.params.magic);
        drop(core);
        for id in std::mem::take(&mut self.links).into_keys() {
            self.crowd.close(id);
        }
        self.by_peer.clear();
        self.held.clear();
        self.timers.clear();
        self.arrived_before.extend(self.arrived.drain());
        tap::take();
        let book = AddressBook::from_bytes(&book, self.stage.params.magic, [9; 32]);
        self.start(book.expect("its own bytes"));
    }

    fn happen(&mut self, event: NodeEvent) {
        match event {
            NodeEvent::Incoming(id, address) => {
                let transport = self.transport(self.plan.v2, false);
                self.add_link(id, None, address, transport);
                let socket = SocketId(id.0);
                self.note(format!("inbound {address}"));
                self.tell(NetEvent::Inbound { socket, address });
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
                Some(Timer::ConnectFailed(peer)) => {
                    self.tell(NetEvent::ConnectFailed { peer, local: false });
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

    pub(super) fn tell(&mut self, event: NetEvent) {
        let now = self.now();
        self.stirred = true;
        self.core().handle(now, event);
        self.hear();
        self.check_arriving();
    }

    /// Lets the node do what it can at this time.
    fn settle(&mut self) {
        self.obey();
        while self.stirred && self.crowd.now() >= self.next_turn {
            self.stirred = false;
            self.next_turn = self.crowd.now() + self.plan.turn;
            self.let_chain_finish();
            let now = self.now();
            if let Err(error) = self.core().advance(now) {
                self.fail(&format!("the node gives up: {error}"));
            }
            self.hear();
            self.obey();
            for id in std::mem::take(&mut self.held) {
                self.read(id);
            }
        }
        self.measure();
    }

    /// Waits for the chain's threads, so that how fast they are changes nothing: its events are
    /// noticed together, when there are no more to come.
    fn let_chain_finish(&mut self) {
        let (nobody, now): (Receiver<()>, i64) = (never(), self.now().unix);
        loop {
            match self.core().chain_mut().poll(now) {
                Ok(Poll::Progress) => {}
                Ok(Poll::Waiting) => {
                    self.core().chain_mut().wait_with(&nobody, Duration::from_secs(1));
                }
                Ok(Poll::Idle) => return,
                Err(error) => self.fail(&format!("the chain gives up: {error}")),
            }
        }
    }

    /// The node's log goes into the trace.
    fn hear(&mut self) {
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

    fn measure(&mut self) {
        let receiving: usize =
            self.links.values().map(|link| link.transport.buffered_bytes()).sum();
        let sending = self.links.values().map(|link| link.transport.queued_bytes()).sum();
        let queued: usize = self.links.values().map(|link| link.transport.queued_memory()).sum();
        let connections = self.links.len();
        let longest = self.links.values().map(|link| link.transport.queued_bytes()).max();
        let core = self.core();
        let addresses = core.peers().address_book().len();
        let waiting = core.chain().status().memory.kept;
        if waiting > self.plan.block_memory.waiting {
            self.fail(&format!("{waiting} bytes of blocks wait"));
        }
        // Bytes of handshakes are no messages, and are not in the engine's account.
        let memory: usize = queued + receiving;
        let account = self.core().peers().memory();
        if memory > account + connections * HANDSHAKE_BYTES || account > PEER_MEMORY {
            self.fail(&format!("{memory} bytes are held for peers, {account} in the account"));
        }
        if longest.is_some_and(|bytes| bytes > SEND_QUEUE_MAX) {
            self.fail("a send queue is too long");
        }
        let peak = &mut self.peak;
        peak.receiving = peak.receiving.max(receiving);
        peak.sending = peak.sending.max(sending);
        peak.memory = peak.memory.max(memory);
        peak.waiting = peak.waiting.max(waiting);
        peak.addresses = peak.addresses.max(addresses);
        peak.connections = peak.connections.max(connections);
    }

    /// What the chain was given before it had its turn: one block more than its limit at worst.
    fn check_arriving(&mut self) {
        let arriving = self.core().chain().receiving();
        if arriving > self.plan.block_memory.receiving + self.stage.largest_buffer {
            self.fail(&format!("{arriving} bytes of blocks are with the chain"));
        }
        self.peak.arriving = self.peak.arriving.max(arriving);
    }

    /// Something that follows from the seed alone.
    pub(super) fn note(&mut self, line: String) {
        self.crowd.now().hash(&mut self.digest);
        line.hash(&mut self.digest);
        self.trace(line);
    }

    fn trace(&mut self, line: String) {
        let now = self.crowd.now();
        if self.verbose {
            eprintln!("{:12.6} {line}", now.as_secs_f64());
        }
        self.trace.note(now, line);
    }

    /// Ends the test; the trace is printed when the driver is dropped.
    pub(super) fn fail(&self, why: &str) -> ! {
        panic!("seed {} after {:?}: {why}", self.plan.seed, self.crowd.now());
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.trace);
            for plan in self.crowd.plans() {
                eprintln!("{} {} {:?}", plan.address, plan.conduct.name, plan.link);
            }
            eprintln!("{:?}; the same again: GODWIT_SIM_SEED={}", self.plan, self.plan.seed);
        }
    }
}
