//! The node's logic: passes events of the network to the engine, the engine's requests to the chain
//! and its commands to the network, and the chain's answers back to the engine.
//!
//! It has no socket, clock or thread: the program drives it with real ones, tests with simulated
//! ones.

mod state;
mod submissions;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use godwit_api::{
    BlockOutcome, HistoryFacts, Notice, Pruning, Snapshot, SnapshotLoad, SyncReport, TipFacts,
    UnvalidatedHistory,
};
use godwit_chain::{
    Chain, ChainError, Disconnected, Event, HeaderTree, MAX_TIP_AGE, NodeId, PRUNE_ON_REQUEST,
    Poll, Source, Verdict, has_pruned, heading, history, history_memory, history_progress,
    is_at_rest, left_blocks, show_blocks, want_no_longer,
};
use godwit_p2p::{
    Action, ChainEvent, ChainRequest, Event as PeersEvent, NetCommand, NetEvent, Now, PeerId,
    Peers, ReadId, RefusedHeader,
};
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_stream::PooledStream;

use self::submissions::{Submissions, Submitted, tell_outcome};
use super::filters::FilterReads;
use super::index::ChainIndex;
use super::notices::Announcer;
use super::warnings::Warnings;
use crate::chain_log::{log_disconnected, update_tip};

/// Steps of the chain between two looks at the network: about 20 ms at worst.
const CHAIN_STEPS: usize = 8;

/// Under `-maxdownloadrate`, no more is requested than can be downloaded in this many seconds: a
/// block that waits longer at one peer could be requested from another meanwhile.
const RATED_SECONDS: u64 = 5;

/// Time between two log lines about headers.
const HEADER_LINES: Duration = Duration::from_secs(5);

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The node was told to stop: nothing was begun any more.
    Stops,
    /// The chain made its steps, or waits.
    GoesOn(Poll),
}

/// The chain and the peer engine, and what waits to pass between them.
pub struct NodeCore {
    chain: Chain,
    peers: Peers,
    for_driver: DriverWork,
    submissions: Submissions,
    decoding: Decoding,
    /// Most bytes of blocks in flight, even if the chain could take more.
    most_in_flight: u64,
    /// The chain has not been up to date since the start (Core `IsInitialBlockDownload`).
    initial_download: bool,
    seen_tip: SeenTip,
    next_header_line: Duration,
    /// What `-networkactive` or the operator said last.
    network_active: bool,
    /// The chain has nothing to do, as of its last turn.
    idle: bool,
    pending_end: PendingEnd,
    /// Of the question that is being answered.
    now: Now,
    /// Tells others of blocks and of what waits for them.
    announcer: Announcer,
    /// Reads filters for peers, if they are served.
    filters: Option<FilterReads>,
    warnings: Warnings,
}

/// The engine's requests to the driver, which takes them after each turn.
#[derive(Default)]
struct DriverWork {
    /// For the sockets.
    commands: VecDeque<NetCommand>,
    /// Names to look up.
    lookups: Vec<String>,
}

/// Blocks that are read for the engine to decode, which takes time, and not just to pass on.
#[derive(Default)]
struct Decoding {
    /// Those that are being read.
    requests: HashSet<ReadId>,
    /// Those that were read; the engine reads few at once, and at most one to be announced.
    waiting: VecDeque<(ReadId, Option<PooledStream>)>,
}

/// The tip that others see. It stays while the chain is on its way to a better one: nobody sees the
/// blocks between, as in Core, which holds its lock meanwhile (`ActivateBestChain`), and of a branch
/// that turns out to be invalid before it has more work nobody hears at all.
struct SeenTip {
    id: NodeId,
    /// The chain has moved, and the engine was not told of the latest tip.
    is_stale: bool,
}

/// Why the node is to end at its next turn.
#[derive(Default)]
struct PendingEnd {
    fault: Option<ChainError>,
    /// A snapshot for which it is started again.
    load: Option<SnapshotLoad>,
}

fn tip_facts(tree: &HeaderTree, id: NodeId) -> TipFacts {
    let node = tree.node(id);
    TipFacts {
        hash: node.hash,
        height: node.height,
        header: node.header,
        median_time: tree.median_time_past(id),
        chain_work: tree.chain_work(id),
    }
}

impl NodeCore {
    /// A node without connections.
    pub fn new(mut chain: Chain, peers: Peers) -> Self {
        // Peers have what a disk of ours has lost.
        chain.expect_copies();
        let seen_tip = SeenTip { id: chain.tip(), is_stale: true };
        let warnings = Warnings::of(chain.tree(), chain.params());
        Self {
            chain,
            peers,
            for_driver: DriverWork::default(),
            submissions: Submissions::default(),
            decoding: Decoding::default(),
            most_in_flight: u64::MAX,
            initial_download: true,
            seen_tip,
            next_header_line: Duration::ZERO,
            network_active: true,
            idle: false,
            pending_end: PendingEnd::default(),
            now: Now { monotonic: Duration::ZERO, unix: 0 },
            announcer: Announcer::default(),
            filters: None,
            warnings,
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

    /// Has `announcer` told of blocks from now on.
    pub(super) fn tell_of_blocks(&mut self, announcer: Announcer) {
        self.announcer = announcer;
    }

    /// Has filters read for peers from now on, if there is who reads them.
    pub(super) fn read_filters(&mut self, filters: Option<FilterReads>) {
        self.filters = filters;
    }

    /// Tells others of what happened in the turns before. The chain is where they may see it.
    pub(super) fn tell_notices(&mut self, now: Now) {
        self.settle(now);
        self.announcer.tell();
    }

    /// The chain has come to a better tip, or to one where it stays: what was left with blocks and is not in
    /// others by now is told of as waiting again, and then what was connected on the way.
    fn settle(&mut self, now: Now) {
        self.peers.note_settled();
        self.apply_actions(now);
        self.announcer.arrive();
    }

    /// Whether the chain has not been up to date since the start.
    pub fn is_initial_download(&self) -> bool {
        self.initial_download
    }

    /// The snapshot to end for, if there is one.
    pub(super) fn take_load(&mut self) -> Option<SnapshotLoad> {
        self.pending_end.load.take()
    }

    /// Commands for the sockets, oldest first.
    pub fn take_commands(&mut self) -> VecDeque<NetCommand> {
        std::mem::take(&mut self.for_driver.commands)
    }

    /// Host names to look up; each is to be answered with [`NetEvent::Resolved`].
    pub fn take_lookups(&mut self) -> Vec<String> {
        std::mem::take(&mut self.for_driver.lookups)
    }

    /// Latest time for the next [`turn`](Self::turn).
    pub fn next_wakeup(&self) -> Duration {
        if self.decoding.waiting.is_empty() { self.peers.next_wakeup() } else { Duration::ZERO }
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
        limit: usize,
        mut next: impl FnMut(bool) -> Option<NetEvent>,
    ) -> bool {
        for _ in 0..limit {
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
        self.network_active = active;
        self.tell(now, PeersEvent::NetworkActive(active));
        self.apply_actions(now);
    }

    /// Answers a question of an RPC method.
    pub fn answer(&mut self, now: Now, question: godwit_api::Question) {
        self.now = now;
        question(self);
    }

    /// The warnings of Bitcoin Core that apply.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.texts(self.chain.tree(), self.chain.tip(), self.peers.clock_offset())
    }

    /// The snapshot of the node that is published. `prune_target` is `-prune`.
    pub fn snapshot(&self, now: Now, prune_target: Option<u64>, sync: Arc<SyncReport>) -> Snapshot {
        let (chain, tree) = (&self.chain, self.chain.tree());
        let prune_height = chain.prune_height();
        let target = prune_target.filter(|target| *target != PRUNE_ON_REQUEST);
        let prunes = prune_target.is_some() || has_pruned(chain);
        let unvalidated = UnvalidatedHistory::of(chain).map(|UnvalidatedHistory { base, validated }| {
            format!(
                "The coins up to block {base} come from a snapshot and were not validated by this node \
                 (in the background: up to block {validated})."
            )
        });
        Snapshot {
            tip: tip_facts(tree, chain.tip()),
            left: left_blocks(chain).count(),
            headers: tree.node(tree.best_header()).height,
            progress: chain.verification_progress(chain.tip(), now.unix),
            initial_download: self.initial_download,
            bytes_on_disk: sync.bytes_on_disk,
            prune_height,
            pruning: prunes.then_some(Pruning { height: prune_height, target }),
            history: history(chain).map(|span| HistoryFacts {
                tip: tip_facts(tree, span.tip),
                base: tree.node(span.base).height,
                progress: history_progress(chain),
                coins: history_memory(chain) as u64,
            }),
            network_active: self.network_active,
            warnings: self.warnings(),
            unvalidated,
            sync,
        }
    }

    /// Handles an event of the network.
    pub fn handle(&mut self, now: Now, event: NetEvent) {
        self.tell(now, event);
        self.apply_actions(now);
    }

    fn tell(&mut self, now: Now, event: impl Into<PeersEvent>) {
        self.peers.handle(now, &ChainIndex::at_tip(&self.chain, self.seen_tip.id), event);
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
        if let Some(fault) = self.pending_end.fault.take() {
            return Err(fault);
        }
        show_blocks(&mut self.chain, !self.peers.outbox().is_empty());
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
        self.idle = poll == Poll::Idle;
        if is_at_rest(&self.chain) && self.announcer.rested() {
            self.settle(now);
        }
        self.answer_submissions(now);
        self.note_tip(now);
        // One at a time, so that requests of many peers do not hold up the chain.
        if let Some((request, bytes)) = self.decoding.waiting.pop_front() {
            self.tell(now, ChainEvent::BlockRead { request, bytes });
        }
        let room = self.chain.room().min(self.most_in_flight);
        self.tell(now, PeersEvent::Tick { room });
        self.apply_actions(now);
        Ok(if self.decoding.waiting.is_empty() { poll } else { Poll::Progress })
    }

    /// Handles an event of the chain.
    fn note(&mut self, now: Now, event: Event) {
        match event {
            Event::Connected(connected) => {
                let hash = connected.point.hash;
                self.seen_tip.is_stale = true;
                self.submissions.connected(now.monotonic, &hash);
                log::info!("{}", update_tip(&self.chain, hash, now.unix));
                let is_told = self.is_told(now);
                let tree = self.chain.tree();
                if let Some(tip) = tree.find(&hash).filter(|_| is_told) {
                    self.warnings.note_tip(tree, tip);
                }
                if self.announcer.connected(&self.chain, &hash, is_told) {
                    self.settle(now);
                }
            }
            Event::Contents(block) => {
                let view = block.view();
                let (hash, tree) = (view.hash(), self.chain.tree());
                let height = tree.find(&hash).map_or(0, |id| tree.node(id).height);
                self.peers.note_block(hash, height, view);
            }
            Event::Disconnected(Disconnected { point: left, coinbase }) => {
                self.seen_tip.is_stale = true;
                self.peers.note_block_left(&left.hash, &coinbase);
                log_disconnected(&self.chain, &left);
                let is_told = self.is_told(now);
                if self.announcer.disconnected(&self.chain, &left.hash, is_told) {
                    self.settle(now);
                }
            }
            // The chain has logged it.
            Event::Invalid { hash, reject } => {
                let tree = self.chain.tree();
                if let Some(id) = tree.find(&hash) {
                    self.warnings.note_invalid(tree, self.chain.tip(), id);
                }
                self.submissions.rejected(now.monotonic, &hash, reject);
                if self.announcer.rested() {
                    self.settle(now);
                }
                self.tell(now, ChainEvent::BlockInvalid { hash, reject });
            }
            Event::Lost { hash } => self.tell(now, ChainEvent::BlockLost { hash }),
            Event::Judged { source, hash, verdict } => self.judged(now, source, hash, verdict),
            Event::Read { ticket, bytes } => {
                let request = ReadId(ticket);
                if self.decoding.requests.remove(&request) {
                    self.decoding.waiting.push_back((request, bytes));
                } else {
                    self.tell(now, ChainEvent::BlockRead { request, bytes });
                }
            }
        }
        self.apply_actions(now);
    }

    /// Whether others are told of what happens: not during the initial download.
    fn is_told(&self, now: Now) -> bool {
        !self.initial_download || self.is_up_to_date(now)
    }

    /// A block that was refused before it was stored may be known to be invalid from now on.
    fn note_refused(&mut self, hash: &BlockHash) {
        let tree = self.chain.tree();
        if let Some(id) = tree.find(hash).filter(|id| tree.node(*id).failed) {
            self.warnings.note_invalid(tree, self.chain.tip(), id);
        }
    }

    fn judged(&mut self, now: Now, source: Source, hash: Option<BlockHash>, verdict: Verdict) {
        let Source::Peer { ticket } = source else { unreachable!("blocks come from peers alone") };
        if let (Verdict::Rejected(reject), Some(hash)) = (verdict, hash)
            && !reject.was_known()
        {
            self.note_refused(&hash);
        }
        match self.submissions.take(ticket) {
            Submitted::Engine(hash) => {
                log::debug!("block {hash} from a peer: {verdict:?}");
                self.tell(now, ChainEvent::BlockJudged { hash, verdict });
            }
            Submitted::Caller { caller, returning } => {
                if let Some(id) = returning {
                    // If these bytes were refused: no others were asked for.
                    want_no_longer(&mut self.chain, id);
                }
                let outcome = match verdict {
                    Verdict::Stored => BlockOutcome::Stored,
                    Verdict::Connected => BlockOutcome::Connected,
                    Verdict::Duplicate => BlockOutcome::Duplicate,
                    Verdict::Undecodable => BlockOutcome::Undecodable,
                    Verdict::Rejected(reject) => BlockOutcome::Rejected(reject),
                };
                match (outcome, hash) {
                    (BlockOutcome::Stored | BlockOutcome::Duplicate, Some(hash)) => {
                        self.submissions.settle(now.monotonic, hash, caller, outcome);
                    }
                    _ => tell_outcome(&caller, outcome),
                }
            }
        }
    }

    /// Answers for stored blocks once the chain is where it goes to: the blocks that were stored before and
    /// wait for one may have more work than the tip, which that one alone has not.
    fn answer_submissions(&mut self, now: Now) {
        if !self.submissions.is_settling() {
            return;
        }
        let (tree, best) = (self.chain.tree(), heading(&self.chain));
        let tip = self.chain.tip();
        let rests = self.idle || best == tip;
        self.submissions.answer(now.monotonic, rests, |hash| {
            // Nothing is told of a block below the tip: a copy of one that was lost, say.
            let is_on_the_way = |id| tree.is_ancestor(id, best) && !tree.is_ancestor(id, tip);
            tree.find(hash).is_some_and(is_on_the_way)
        });
    }

    fn note_tip(&mut self, now: Now) {
        if !self.seen_tip.is_stale || self.is_on_the_way() {
            return;
        }
        self.seen_tip = SeenTip { id: self.chain.tip(), is_stale: false };
        if self.initial_download && self.is_up_to_date(now) {
            self.initial_download = false;
            log::info!("Leaving InitialBlockDownload (latching to false)");
        }
        let initial_download = self.initial_download;
        self.tell(now, ChainEvent::TipChanged { initial_download });
        self.apply_actions(now);
    }

    /// Whether the chain is on its way from the tip that others see to one with more work.
    fn is_on_the_way(&self) -> bool {
        let (tree, tip) = (self.chain.tree(), self.chain.tip());
        // A tip that was found or declared invalid is left for one with less work, and that is the end of it.
        let may_stay = !tree.node(self.seen_tip.id).failed;
        // The other branch is as long for a moment, before it is longer.
        let is_behind = tree.chain_work(tip) <= tree.chain_work(self.seen_tip.id);
        // Not `idle`: blocks that are read for peers say nothing of where the chain goes.
        may_stay && tip != self.seen_tip.id && is_behind && !is_at_rest(&self.chain)
    }

    /// Whether the chain is between two tips of which others see the first.
    pub(super) fn is_between(&self) -> bool {
        self.chain.tip() != self.seen_tip.id
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
            Action::Net(command) => self.for_driver.commands.push_back(command),
            Action::Chain(request) => self.ask_chain(now, request),
            Action::Resolve { host } => self.for_driver.lookups.push(host),
            Action::Outbox(change) => {
                if self.is_told(now) {
                    self.announcer.hold(Notice::Outbox(change));
                }
            }
        }
    }

    fn ask_chain(&mut self, now: Now, request: ChainRequest) {
        match request {
            ChainRequest::SubmitHeaders { peer, headers } => {
                self.submit_headers(now, peer, &headers)
            }
            ChainRequest::SubmitBlock { hash, bytes, .. } => {
                self.hand_in(Submitted::Engine(hash), bytes);
            }
            ChainRequest::ReadBlock { request, id, raw, .. } => {
                let node = ChainIndex::new(&self.chain).node_id(id);
                if !raw {
                    self.decoding.requests.insert(request);
                }
                self.chain.read_block(node, request.0);
            }
            ChainRequest::ReadFilters { request, read } => {
                let filters = self.filters.as_ref();
                if filters.is_none_or(|filters| filters.try_send((request, read)).is_err()) {
                    self.tell(now, ChainEvent::FiltersRead { request, data: None });
                }
            }
        }
    }

    fn submit_headers(&mut self, now: Now, peer: PeerId, headers: &[BlockHeader]) {
        let mut result = Ok(ChainIndex::header_id(self.seen_tip.id));
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

    fn hand_in(&mut self, from: Submitted, bytes: PooledStream) {
        let ticket = self.submissions.add(from);
        self.idle = false;
        self.chain.receive_block(bytes, ticket);
    }
}
