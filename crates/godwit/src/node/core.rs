//! The node's logic: passes events of the network to the engine, the engine's requests to the chain
//! and its commands to the network, and the chain's answers back to the engine.
//!
//! It has no socket, clock or thread: the program drives it with real ones, tests with simulated
//! ones.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use godwit_chain::{Chain, Event, MAX_TIP_AGE, Poll, Source, Verdict};
use godwit_p2p::{
    Action, ChainEvent, ChainRequest, Event as PeersEvent, HeaderIndex, NetCommand, NetEvent, Now,
    PeerId, Peers, ReadId, RefusedHeader,
};
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_stream::PooledStream;

use super::index::ChainIndex;
use crate::chain_log::{log_disconnected, update_tip};

/// Steps of the chain between two looks at the network: about 20 ms at worst.
const CHAIN_STEPS: usize = 8;

/// Under `-maxdownloadrate`, no more is requested than can be downloaded in this many seconds: a
/// block that waits longer at one peer could be requested from another meanwhile.
const RATED_SECONDS: u64 = 5;

/// Time between two log lines about headers.
const HEADER_LINES: Duration = Duration::from_secs(5);

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The node was told to stop: nothing was begun any more.
    Stops,
    /// The chain made its steps, or waits.
    GoesOn(Poll),
}

/// Chain and engine.
pub struct NodeCore {
    chain: Chain,
    peers: Peers,
    /// Commands for the sockets; taken after each turn.
    commands: VecDeque<NetCommand>,
    /// Names to look up; taken after each turn.
    lookups: Vec<String>,
    /// Submitted blocks without a verdict, by ticket.
    submitted: HashMap<u64, BlockHash>,
    next_ticket: u64,
    /// Reads of blocks that the engine will decode, which takes time, and not just pass on.
    to_take_apart: HashSet<ReadId>,
    /// Such blocks that were read; the engine reads few at once, and at most one to be announced.
    waiting_reads: VecDeque<(ReadId, Option<PooledStream>)>,
    /// Most bytes of blocks in flight, even if the chain could take more.
    most_in_flight: u64,
    /// The chain has not been up to date since the start (Core `IsInitialBlockDownload`).
    initial_download: bool,
    /// The engine was not told of the latest tip.
    tip_moved: bool,
    next_header_line: Duration,
}

impl NodeCore {
    /// A node without connections.
    pub fn new(mut chain: Chain, peers: Peers) -> Self {
        // Peers have what a disk of ours has lost.
        chain.expect_copies();
        Self {
            chain,
            peers,
            commands: VecDeque::new(),
            lookups: Vec::new(),
            submitted: HashMap::new(),
            next_ticket: 0,
            to_take_apart: HashSet::new(),
            waiting_reads: VecDeque::new(),
            most_in_flight: u64::MAX,
            initial_download: true,
            tip_moved: true,
            next_header_line: Duration::ZERO,
        }
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The chain, to wait for it or to read its coins.
    pub fn chain_mut(&mut self) -> &mut Chain {
        &mut self.chain
    }

    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The chain, to be closed.
    pub fn into_chain(self) -> Chain {
        self.chain
    }

    /// Whether the chain has not been up to date since the start.
    pub fn is_initial_download(&self) -> bool {
        self.initial_download
    }

    /// Commands for the sockets, oldest first.
    pub fn take_commands(&mut self) -> VecDeque<NetCommand> {
        std::mem::take(&mut self.commands)
    }

    /// Host names to look up; each is to be answered with [`NetEvent::Resolved`].
    pub fn take_lookups(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lookups)
    }

    /// Latest time for the next [`turn`](Self::turn).
    pub fn next_wakeup(&self) -> Duration {
        if self.waiting_reads.is_empty() { self.peers.next_wakeup() } else { Duration::ZERO }
    }

    /// Whether the chain can take more blocks. It may not, although only as much was requested as
    /// fits: the sizes of the requested blocks were estimates.
    pub fn takes_blocks(&self) -> bool {
        self.chain.room() > 0
    }

    /// Handles at most `limit` events; returns whether there may be more. `next` is told whether
    /// the chain can take blocks. While it cannot, `next` returns neither blocks nor what their
    /// senders sent after them; that waits in a queue that has its own limit. Other peers are
    /// served meanwhile.
    pub fn handle_some(
        &mut self,
        now: Now,
        at_most: usize,
        mut next: impl FnMut(bool) -> Option<NetEvent>,
    ) -> bool {
        for _ in 0..at_most {
            let Some(event) = next(self.takes_blocks()) else { return false };
            self.handle(now, event);
        }
        true
    }

    /// `-maxdownloadrate`, in bytes a second.
    pub fn set_max_download_rate(&mut self, rate: u64) {
        self.most_in_flight = rate.saturating_mul(RATED_SECONDS);
    }

    /// `-networkactive`.
    pub fn set_network_active(&mut self, now: Now, active: bool) {
        self.tell(now, PeersEvent::NetworkActive(active));
        self.apply_actions(now);
    }

    /// Handles an event of the network.
    pub fn handle(&mut self, now: Now, event: NetEvent) {
        self.tell(now, event);
        self.apply_actions(now);
    }

    fn tell(&mut self, now: Now, event: impl Into<PeersEvent>) {
        self.peers.handle(now, &ChainIndex(&self.chain), event);
    }

    /// Advances the chain by a few steps, and lets the engine do what is due; but stops when it is told
    /// to, whatever is under way and whatever the chain waits for.
    ///
    /// # Errors
    ///
    /// A fault of this node, which has to end.
    pub fn turn(&mut self, now: Now, told_to_stop: bool) -> Result<Turn, godwit_chain::ChainError> {
        if told_to_stop {
            log::info!("Shutdown requested.");
            return Ok(Turn::Stops);
        }
        self.advance(now).map(Turn::GoesOn)
    }

    fn advance(&mut self, now: Now) -> Result<Poll, godwit_chain::ChainError> {
        let mut poll = Poll::Progress;
        for _ in 0..CHAIN_STEPS {
            poll = self.chain.poll(now.unix)?;
            for event in self.chain.take_events() {
                self.note(now, event);
            }
            if poll != Poll::Progress {
                break;
            }
        }
        self.note_tip(now);
        // One at a time, so that requests of many peers do not hold up the chain.
        if let Some((request, bytes)) = self.waiting_reads.pop_front() {
            self.tell(now, ChainEvent::BlockRead { request, bytes });
        }
        let room = self.chain.room().min(self.most_in_flight);
        self.tell(now, PeersEvent::Tick { room });
        self.apply_actions(now);
        Ok(if self.waiting_reads.is_empty() { poll } else { Poll::Progress })
    }

    /// Handles an event of the chain.
    fn note(&mut self, now: Now, event: Event) {
        match event {
            Event::Connected(connected) => {
                self.tip_moved = true;
                log::info!("{}", update_tip(&self.chain, connected.point.hash, now.unix));
            }
            Event::Disconnected(tip) => {
                self.tip_moved = true;
                log_disconnected(&tip);
            }
            // The chain has logged it.
            Event::Invalid { hash, reject } => {
                self.tell(now, ChainEvent::BlockInvalid { hash, reject });
            }
            Event::Lost { hash } => self.tell(now, ChainEvent::BlockLost { hash }),
            Event::Judged { source, verdict, .. } => self.judged(now, source, verdict),
            Event::Read { ticket, bytes } => {
                let request = ReadId(ticket);
                if self.to_take_apart.remove(&request) {
                    self.waiting_reads.push_back((request, bytes));
                } else {
                    self.tell(now, ChainEvent::BlockRead { request, bytes });
                }
            }
        }
        self.apply_actions(now);
    }

    fn judged(&mut self, now: Now, source: Source, verdict: Verdict) {
        let Source::Peer { ticket } = source else { unreachable!("blocks come from peers alone") };
        let hash = self.submitted.remove(&ticket).expect("each ticket is answered once");
        log::debug!("block {hash} from a peer: {verdict:?}");
        self.tell(now, ChainEvent::BlockJudged { hash, verdict });
    }

    fn note_tip(&mut self, now: Now) {
        if !self.tip_moved {
            return;
        }
        self.tip_moved = false;
        if self.initial_download && self.is_up_to_date(now) {
            self.initial_download = false;
            log::info!("Leaving InitialBlockDownload (latching to false)");
        }
        let initial_download = self.initial_download;
        self.tell(now, ChainEvent::TipChanged { initial_download });
        self.apply_actions(now);
    }

    fn is_up_to_date(&self, now: Now) -> bool {
        let (tree, tip) = (self.chain.tree(), self.chain.tip());
        tree.chain_work(tip) >= self.chain.params().minimum_chain_work
            && i64::from(tree.node(tip).header.time) >= now.unix - MAX_TIP_AGE
    }

    /// Does the engine's actions, in order.
    fn apply_actions(&mut self, now: Now) {
        loop {
            let actions = self.peers.take_actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.apply_action(now, action);
            }
        }
    }

    fn apply_action(&mut self, now: Now, action: Action) {
        match action {
            Action::Net(command) => self.commands.push_back(command),
            Action::Chain(request) => self.ask_chain(now, request),
            Action::Resolve { host } => self.lookups.push(host),
        }
    }

    fn ask_chain(&mut self, now: Now, request: ChainRequest) {
        match request {
            ChainRequest::SubmitHeaders { peer, headers } => {
                self.submit_headers(now, peer, &headers)
            }
            ChainRequest::SubmitBlock { hash, bytes, .. } => self.submit_block(hash, bytes),
            ChainRequest::ReadBlock { request, id, raw, .. } => {
                let node = ChainIndex(&self.chain).node_id(id);
                if !raw {
                    self.to_take_apart.insert(request);
                }
                self.chain.read_block(node, request.0);
            }
        }
    }

    fn submit_headers(&mut self, now: Now, peer: PeerId, headers: &[BlockHeader]) {
        let mut result = Ok(ChainIndex(&self.chain).tip());
        for (n, header) in headers.iter().enumerate() {
            match self.chain.accept_header(header, header.block_hash(), now.unix) {
                Ok(id) => result = Ok(ChainIndex::header_id(id)),
                Err(reject) => {
                    result = Err(RefusedHeader { reject, index_of_bad: n });
                    break;
                }
            }
        }
        self.log_headers(now);
        self.tell(now, ChainEvent::HeadersJudged { peer, result });
    }

    /// Logs Core's line about the progress of headers, during the initial download.
    fn log_headers(&mut self, now: Now) {
        if !self.initial_download || now.monotonic < self.next_header_line {
            return;
        }
        self.next_header_line = now.monotonic + HEADER_LINES;
        let best = self.chain.tree().node(self.chain.tree().best_header());
        let spacing = i64::from(self.chain.params().pow_target_spacing);
        let missing = (now.unix - i64::from(best.header.time)).max(0) / spacing;
        let height = f64::from(best.height);
        let percent = 100.0 * height / (height + missing as f64).max(1.0);
        log::info!("Synchronizing blockheaders, height: {} (~{percent:.2}%)", best.height);
    }

    fn submit_block(&mut self, hash: BlockHash, bytes: PooledStream) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.submitted.insert(ticket, hash);
        self.chain.receive_block(bytes, ticket);
    }
}
