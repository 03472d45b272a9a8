//! The node's loop: events in, commands out, by the real clock.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::never;
use godwit_api::{LOADING, NodeState, Server, SnapshotLoad, Zmq};
use godwit_chain::{
    Chain, ChainError, CoinAtTip, Poll, SnapshotError, StartOptions, StoredData, wait_with_both,
};
use godwit_p2p::{
    AddressNetwork, Anchors, Ban, HostRange, NetGroups, NodeCommand, Now, OwnAddressSource, Peers,
};
use godwit_primitives::{BlockHash, OutPoint};
use godwit_store::Rebuild;
use godwit_store::disk::RealDisk;
use godwit_store::exec::Threads;
use indicatif::MultiProgress;

use super::advice::{NoPeers, warn_of_clock, what_to_try};
use super::asmap;
use super::core::{NodeCore, Turn};
use super::dns::Resolver;
use super::filters::{self, FilterThread};
use super::index::ChainIndex;
use super::indexes::{Opened, RunningIndexes};
use super::notices;
use super::operated::Operated;
use super::outbox_file::OutboxFile;
use super::overview::Overview;
use super::own_addresses;
use super::peers_file::PeersFile;
use super::port_map::PortMapThread;
use super::reload::load_closed;
use super::rpc::{self, Rpc};
use super::setup::{
    check_before_rebuild, harden_for_keys, listeners, offered, peers_config, proxies,
    raise_descriptors, transport, user_agent,
};
use super::sockets::{BindError, Inbox, Sockets, SocketsConfig};
use super::tor::{TorNews, TorStartError, TorThread};
use crate::chain_log::cost_lines;
use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::open::{open_chain, says, start_options};
use crate::options::{Config, NodeOptions};
use crate::process::{StopFlag, random_bytes, seconds_since_1970};
use crate::screen::Screen;
use crate::service::{Service, StartStatus, Surroundings};

/// Most events of the network that are handled before the chain has its turn.
const EVENTS_AT_ONCE: usize = 64;

/// Longest time between two looks at the stop flag.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Longest time without a look at the sockets' thread while it has more to do than it should.
const CATCHING_UP: Duration = Duration::from_millis(2);

/// Time between writes of the address book (Core `DUMP_PEERS_INTERVAL`).
const SAVE_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// The first write: a node that was started and has found peers should find them again after a power
/// cut.
const FIRST_SAVE: Duration = Duration::from_secs(60);

/// What programs that ask, and systemd, are told until the chain is open.
const STARTING: &str = "Loading block index…";

/// The system gives no sockets.
#[derive(Debug)]
struct SocketsError(io::Error);

impl fmt::Display for SocketsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sockets cannot be used: {}", self.0)
    }
}

impl Fatal for SocketsError {
    fn exit(&self) -> Exit {
        Exit::Failure
    }
}

impl Fatal for BindError {
    fn exit(&self) -> Exit {
        Exit::CannotListen
    }
}

/// The values that all runs of the process share.
#[derive(Clone, Copy)]
struct Setting<'a> {
    config: &'a Config,
    options: &'a NodeOptions,
    bars: &'a MultiProgress,
    stop: &'a StopFlag,
    groups: &'a NetGroups,
    max_connections: usize,
    status: &'a StartStatus,
    /// What the next start makes again: only the first one anything.
    rebuild: Rebuild,
}

/// Runs the node until a signal or `-stopatheight`.
pub(crate) fn run(
    config: &Config,
    options: &NodeOptions,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let groups = asmap::groups(options.asmap.as_deref(), &config.network_dir())?;
    let max_connections = raise_descriptors(options.max_connections, rpc::most_connections(config));
    log::info!("Using at most {max_connections} automatic connections, as {}", user_agent());
    let server = rpc::start(config, options, max_connections, stop)?;
    let mut service = Service::new(&Surroundings::of_process());
    let rebuild = config.rebuild;
    let (groups, status) = (&groups, &service.start_status());
    let setting = Setting { config, options, bars, stop, groups, max_connections, status, rebuild };
    let mut running = setting.start(server, None)?;
    if running.is_none() {
        service.end();
    }
    while let Some(mut node) = running {
        let result = node.run(stop, &mut service);
        node.core.tell_notices(now(node.started));
        running = match result? {
            Ended::Load(load) => {
                let next = || setting.load_and_start(node, load);
                let next = service.alive_during(LOADING, next)?;
                if next.is_none() {
                    service.end();
                }
                next
            }
            ended => {
                service.end();
                node.end(ended)?;
                None
            }
        };
    }
    Ok(Exit::Success)
}

/// Why the loop ended.
enum Ended {
    Signal,
    StopHeight,
    /// The node starts again behind this.
    Load(SnapshotLoad),
}

impl<'a> Setting<'a> {
    /// Ends a run in order, has the snapshot loaded, and starts the node again; where it is refused, on what
    /// it had. Then the caller is told. `None` where a signal came before.
    fn load_and_start(
        self,
        node: Node<'a>,
        load: SnapshotLoad,
    ) -> Result<Option<Node<'a>>, Failure> {
        log::info!("The node pauses to load the snapshot {}.", load.path().display());
        let (operated, server) = node.pause()?;
        let says = says(server.as_ref(), self.status);
        says(LOADING);
        let outcome = load_closed(self.config, &load, server.as_ref(), &says, self.stop)?;
        let is_stopped = outcome.as_ref().is_err_and(SnapshotError::is_stop);
        // The first run has obeyed -reindex.
        let again = Self { rebuild: Rebuild::Nothing, ..self };
        let node = match is_stopped {
            true => None,
            false => again.start(server, Some(operated))?,
        };
        load.tell(outcome);
        Ok(node)
    }

    /// Opens the chain, and starts a node with what the operator had changed before, if it ran before. `None`
    /// where a signal came first.
    fn start(
        self,
        server: Option<Server>,
        before: Option<Operated>,
    ) -> Result<Option<Node<'a>>, Failure> {
        let started = Instant::now();
        let Setting { config, options, bars, stop, status, rebuild, .. } = self;
        let says = says(server.as_ref(), status);
        says(STARTING);
        if rebuild != Rebuild::Nothing {
            check_before_rebuild(config, options)?;
        }
        let start = StartOptions { rebuild, ..start_options(config, bars, stop, Some(says)) };
        let (threads, height) = (options.script_threads.get(), options.stop_at_height);
        match open_chain(config, threads, height, start) {
            // A node has no other end than a signal.
            Err(failure) if failure.exit() == Exit::Interrupted => {
                log::info!("Node {failure}.");
                Ok(None)
            }
            opened => Node::start(self, opened?, started, server, before).map(Some),
        }
    }
}

/// Dropped in this order where the node ends by a fault: methods that wait for the chain hear of the end
/// before it is closed.
struct Node<'a> {
    options: &'a NodeOptions,
    rpc: Rpc,
    indexes: RunningIndexes,
    zmq: Option<Zmq>,
    core: NodeCore,
    /// Behind the core, which asks it: ends when that is gone.
    filters: Option<FilterThread>,
    tor: Option<TorThread>,
    port_map: Option<PortMapThread>,
    sockets: Sockets,
    inbox: Inbox,
    resolver: Resolver,
    kept: Kept,
    started: Instant,
    no_peers: NoPeers,
    overview: Overview,
    screen: Screen,
}

/// The files in which the engine's knowledge is kept between runs.
struct Kept {
    peers: PeersFile,
    next_save: Duration,
    outbox: OutboxFile,
}

impl Kept {
    fn keep(&mut self, now: Duration, peers: &Peers) {
        self.outbox.keep(now, peers.outbox());
        if now >= self.next_save && !self.peers.is_saving() {
            self.next_save = now + SAVE_INTERVAL;
            self.peers.save(peers.address_book(), &peers.anchors());
        }
    }

    fn end(self, peers: &Peers) {
        self.peers.end(peers.address_book(), &peers.anchors());
        self.outbox.end(peers.outbox());
    }
}

/// Has Tor make an onion service if the options want one and those who call it are listened to.
fn start_tor(
    config: &Config,
    options: &NodeOptions,
    may_have_keys: bool,
) -> Result<Option<TorThread>, TorStartError> {
    let wanted = options.tor.as_ref().filter(|_| may_have_keys);
    if let Some(tor) = wanted.filter(|_| options.listening.onion.len() > 1) {
        log::warn!(
            "Of several addresses for Tor (-bind=…=onion) {} is that of the onion service",
            tor.target
        );
    }
    let port = config.params.default_port;
    let start = |tor| TorThread::start(tor, port, &config.network_dir());
    wanted.map(start).transpose()
}

/// The file of the outbox, whose content the engine gets.
fn open_outbox(chain: &Chain, peers: &mut Peers, dir: &Path) -> Result<OutboxFile, Failure> {
    let magic = chain.params().magic;
    let file = OutboxFile::new(Arc::new(RealDisk), &Threads::default(), dir, magic);
    let mut file = file.map_err(ChainError::Spawn)?;
    let (tree, tip) = (chain.tree(), chain.tip());
    let is_active = |hash: &BlockHash| tree.find(hash).is_some_and(|id| tree.is_ancestor(id, tip));
    let mut outbox = file.load(is_active)?;
    let stored = StoredData::of(chain);
    let is_coin = |outpoint: &OutPoint| match stored.coin(outpoint) {
        CoinAtTip::Known(coin) => Ok(coin.is_some()),
        CoinAtTip::Below(below) => below.read().map(|coin| coin.is_some()),
    };
    if let Err(error) = outbox.forget_spent(chain.tip_point().height, is_coin) {
        log::error!("A coin cannot be read: {error}");
    }
    peers.restore_outbox(outbox);
    Ok(file)
}

/// Chain and engine, as the options want them, and with these bans.
fn core_of(
    chain: Chain,
    peers: Peers,
    now: Now,
    options: &NodeOptions,
    bans: Vec<(HostRange, Ban)>,
) -> NodeCore {
    let mut core = NodeCore::new(chain, peers);
    core.set_network_active(now, options.network_active);
    for (range, ban) in bans {
        core.command(NodeCommand::Ban(range, ban));
    }
    if let Some(rate) = options.traffic.download_rate {
        core.set_max_download_rate(rate);
    }
    core
}

/// With -connect the user chooses alone: then the anchors are not touched.
fn anchors(options: &NodeOptions, peers_file: &PeersFile) -> Anchors {
    match options.connect {
        Some(_) => Anchors::default(),
        None => peers_file.load_anchors(),
    }
}

impl<'a> Node<'a> {
    fn start(
        setting: Setting<'a>,
        mut chain: Chain,
        started: Instant,
        server: Option<Server>,
        before: Option<Operated>,
    ) -> Result<Self, Failure> {
        let Setting { config, options, bars, groups, max_connections, .. } = setting;
        let listeners = listeners(options)?;
        let pool = chain.block_buffers().clone();
        let (may_have_keys, seed) = (harden_for_keys(options), random_bytes()?);
        let encrypted = may_have_keys && options.v2_transport;
        let of_sockets = SocketsConfig {
            magic: config.params.magic,
            pool: pool.clone(),
            proxies: proxies(options),
            session: random_bytes()?,
            max_download_rate: options.traffic.download_rate,
            encrypted,
        };
        let (sockets, inbox) = Sockets::start(of_sockets, listeners).map_err(SocketsError)?;
        let (dir, magic) = (config.network_dir(), config.params.magic);
        let peers_file = PeersFile::new(Arc::new(RealDisk), &Threads::default(), &dir, magic)
            .map_err(ChainError::Spawn)?;
        let book = peers_file.load(seed, groups);
        let anchors = anchors(options, &peers_file);
        let (indexes, now) = (Opened::open(config, &mut chain)?, now(started));
        let mut peers_config = peers_config(options, chain.params(), max_connections, pool, seed);
        peers_config.services =
            offered(config, &indexes, peers_config.services) | transport(encrypted);
        warn_of_clock(now, &chain);
        let mut peers = Peers::new(peers_config, book, now, &ChainIndex::new(&chain));
        peers.call_first(&anchors);
        let outbox_file = open_outbox(&chain, &mut peers, &dir)?;
        own_addresses::tell(&mut peers, now, &ChainIndex::new(&chain), &options.listening);
        let mut core = core_of(chain, peers, now, options, rpc::banned(server.as_ref(), &dir));
        if let Some(before) = before {
            before.again(now, &mut core);
        }
        let (zmq, announcer) = notices::start(config, core.chain())?.unzip();
        core.tell_of_blocks(announcer.unwrap_or_default());
        let tor = start_tor(config, options, may_have_keys)?;
        let port_map = PortMapThread::wanted(options).map_err(ChainError::Spawn)?;
        // Nothing fails from here on: the thread of the filters ends only where the core is gone before it is
        // waited for, which is so in the order of `Node` and not in that of what is dropped here.
        let (overview, target) = (Overview::new(config, options, &core, now), config.prune_bytes);
        let (readers, report) = (indexes.readers(), overview.report());
        let served = readers.filters.clone().filter(|_| config.indexes.served);
        let rpc = Rpc::new(server, &core, now, options, target, readers, report);
        let (reads, filters) = filters::start(served, rpc.seam()).unzip();
        core.read_filters(reads);
        Ok(Self {
            options,
            indexes: indexes.start(rpc.seam()),
            rpc,
            zmq,
            core,
            filters,
            tor,
            port_map,
            sockets,
            inbox,
            resolver: Resolver::new(),
            kept: Kept { peers: peers_file, next_save: FIRST_SAVE, outbox: outbox_file },
            started,
            no_peers: NoPeers::default(),
            overview,
            screen: Screen::start(bars),
        })
    }

    fn run(&mut self, stop: &StopFlag, service: &mut Service) -> Result<Ended, Failure> {
        loop {
            let now = now(self.started);
            let told_to_stop = stop.is_set();
            let mut busy = !told_to_stop && self.take_events(now);
            if !told_to_stop {
                busy |= self.rpc.answer(now, &mut self.core);
                if let Some(load) = self.core.take_load() {
                    return Ok(Ended::Load(load));
                }
            }
            let Turn::GoesOn(poll) = self.core.turn(now, told_to_stop)? else {
                return Ok(Ended::Signal);
            };
            busy |= poll == Poll::Progress;
            self.send_commands();
            self.overview.look(now, &self.core, self.rpc.answer_memory());
            self.rpc.publish(now, &self.core, self.overview.report());
            // Who hears of a block may ask for it at once.
            if !self.core.is_between() {
                self.core.tell_notices(now);
            }
            let tip = self.core.chain().tip_point();
            if self.options.stop_at_height.is_some_and(|stop| tip.height >= stop) {
                log::info!("Reached -stopatheight={}.", tip.height);
                return Ok(Ended::StopHeight);
            }
            self.housekeeping(now, service);
            let may_answer = self.sockets.has_room();
            busy |= may_answer && self.core.takes_blocks() && self.inbox.holds_back();
            if !busy {
                let until_due = self.core.next_wakeup().saturating_sub(now.monotonic);
                let longest = if may_answer { LONGEST_WAIT } else { CATCHING_UP };
                let timeout = until_due.min(longest);
                let paused = never();
                let inbox = if may_answer { self.inbox.receiver() } else { &paused };
                let questions = self.rpc.receiver();
                let began = self.core.chain().status().times.wait;
                wait_with_both(self.core.chain_mut(), inbox, questions, timeout);
                if poll == Poll::Idle {
                    let waited = self.core.chain().status().times.wait - began;
                    self.overview.note_rest(&self.core, waited);
                }
            }
        }
    }

    /// Handles events of the network and of lookups; returns whether there may be more.
    fn take_events(&mut self, now: Now) -> bool {
        for event in self.resolver.poll(Instant::now()) {
            self.core.handle(now, event);
        }
        for _ in 0..EVENTS_AT_ONCE {
            let (inbox, sockets) = (&self.inbox, &self.sockets);
            let next = |takes_blocks| match takes_blocks {
                _ if !sockets.has_room() => None,
                true => inbox.take(),
                false => inbox.take_but_blocks(),
            };
            if !self.core.handle_some(now, 1, next) {
                return false;
            }
            self.send_commands();
        }
        true
    }

    fn send_commands(&mut self) {
        self.sockets.send(self.core.take_commands());
        for host in self.core.take_lookups() {
            self.resolver.resolve(host);
        }
    }

    fn housekeeping(&mut self, now: Now, service: &mut Service) {
        self.kept.keep(now.monotonic, self.core.peers());
        self.follow_tor(now);
        self.follow_router(now);
        let summary = self.core.peers().summary();
        let connections = summary.inbound + summary.outbound;
        if self.no_peers.take_due(now.monotonic, connections)
            && let Some(line) = what_to_try(self.options)
        {
            log::warn!("{line}");
        }
        self.screen.show(now.monotonic, self.overview.report(), service);
    }

    /// Does what follows from what Tor says.
    fn follow_tor(&mut self, now: Now) {
        while let Some(news) = self.tor.as_ref().and_then(TorThread::take_news) {
            let command = match news {
                TorNews::Proxy(proxy) => {
                    self.sockets.use_onion_proxy(proxy);
                    self.options
                        .tor
                        .as_ref()
                        .filter(|tor| tor.reaches)
                        .map(|_| NodeCommand::ReachOnion)
                }
                // As in Core: peers are told nothing of a network in which none are chosen.
                TorNews::Serving(address) => self
                    .core
                    .peers()
                    .reachable()
                    .contains(AddressNetwork::Onion)
                    .then_some(NodeCommand::AddOwnAddress(address, OwnAddressSource::Manual)),
                TorNews::Lost(address) => Some(NodeCommand::RemoveOwnAddress(address.host)),
            };
            if let Some(command) = command {
                self.core.answer(now, Box::new(move |node| node.command(command)));
            }
            if let TorNews::Proxy(proxy) = news {
                self.rpc.note_onion_proxy(proxy);
            }
        }
    }

    /// Peers are told where the router forwards callers.
    fn follow_router(&mut self, now: Now) {
        while let Some(address) = self.port_map.as_ref().and_then(PortMapThread::take_news) {
            let command = NodeCommand::AddOwnAddress(address, OwnAddressSource::Mapped);
            self.core.answer(now, Box::new(move |node| node.command(command)));
        }
    }

    /// Ends for good.
    fn end(self, ended: Ended) -> Result<(), Failure> {
        let is_at_height = matches!(ended, Ended::StopHeight);
        let finished = self.finish(is_at_height, |rpc| {
            drop(rpc);
            None
        })?;
        for line in [vec![format!("Node stopped: {}", finished.summary)], finished.costs].concat() {
            log::info!("{line}");
            // On a terminal, log lines are not shown beside the bar, but the user should see the
            // result.
            if finished.on_terminal {
                godwit_program::show(&line);
            }
        }
        Ok(())
    }

    /// Ends to start again: what the operator has changed, and the server, whose clients wait.
    fn pause(self) -> Result<(Operated, Option<Server>), Failure> {
        let operated = Operated::of(&self.core);
        let finished = self.finish(false, Rpc::pause)?;
        log::info!("Node paused: {}", finished.summary);
        for line in finished.costs {
            log::info!("{line}");
        }
        Ok((operated, finished.server))
    }

    /// Ends in order: drops what is arriving from peers, keeps what the chain has verified.
    fn finish(
        mut self,
        flushes: bool,
        end_rpc: impl FnOnce(Rpc) -> Option<Server>,
    ) -> Result<Finished, Failure> {
        let on_terminal = self.screen.finish();
        drop(self.tor);
        drop(self.port_map);
        drop(self.sockets);
        let bans = self.rpc.bans();
        let server = end_rpc(self.rpc);
        drop(self.indexes);
        drop(self.zmq);
        let peers = self.core.peers();
        if let Some(bans) = bans {
            bans.end(peers.bans());
        }
        self.kept.end(peers);
        let status = *self.core.chain().status();
        let connected = status.connected;
        let tip = self.core.chain().tip_point();
        let closing = Instant::now();
        let mut chain = self.core.into_chain();
        drop(self.filters);
        if flushes {
            chain.flush()?;
        }
        chain.close()?;
        let summary = format!(
            "height {}, {} blocks connected in {:.1} s.",
            tip.height,
            connected.blocks,
            self.started.elapsed().as_secs_f64()
        );
        let costs = cost_lines(&status, closing.elapsed());
        Ok(Finished { summary, costs, on_terminal, server })
    }
}

/// The report of a finished run, and the server that outlives it.
struct Finished {
    /// What it did.
    summary: String,
    /// What that took, in lines of the log.
    costs: Vec<String>,
    on_terminal: bool,
    server: Option<Server>,
}

fn now(started: Instant) -> Now {
    Now { monotonic: started.elapsed(), unix: seconds_since_1970() }
}
