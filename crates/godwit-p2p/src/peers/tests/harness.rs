//! A driver for one engine, with scripted peers at the level of messages.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use godwit_primitives::{BlockHash, BlockHeader};
use godwit_stream::{DataStream, PooledStream};

pub(super) use super::config::config;
use super::index::{TestBlock, TestIndex};
use crate::frame::FRAME_HEADER_SIZE;
use crate::peers::connections::Attempt;
use crate::peers::peer::Peer;
use crate::peers::reading;
use crate::{
    Action, AddressBook, ChainEvent, ChainRequest, Command, ConnectionKind, Discard, DiscardReason,
    DisconnectReason, Entrance, Event, Frame, HeaderIndex, Host, Inventory, InventoryKind, Message,
    NetAddress, NetCommand, NetEvent, Now, OutboxChange, PEER_MEMORY, PeerId, Peers, PeersConfig,
    Permissions, ReadId, Services, SocketId, Target, Version, VersionAddress,
};

/// When the tests begin, in seconds since 1970, and what full nodes offer.
pub(super) const START: i64 = 1_700_000_000;
pub(super) const FULL: Services = Services(1 | 8 | 1024);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sent {
    Message(Message),
    Block(Vec<u8>),
    Filters(Command, Vec<u8>),
    Transaction(Vec<u8>),
}

pub(super) struct Harness {
    pub(super) peers: Peers,
    pub(super) index: TestIndex,
    pub(super) now: Now,
    pub(super) room: u64,
    pub(super) initial_download: bool,
    /// The address of ours that inbound peers call.
    pub(super) called: NetAddress,
    pub(super) sent: BTreeMap<PeerId, VecDeque<Sent>>,
    pub(super) gone: BTreeMap<PeerId, DisconnectReason>,
    /// What the driver was told of when to pause, in this order.
    pub(super) pauses: Vec<usize>,
    pub(super) connects: Vec<(PeerId, Target, ConnectionKind)>,
    /// Of each of them, and of those that were taken out.
    pub(super) begun_with_v2: Vec<bool>,
    pub(super) resolves: Vec<String>,
    pub(super) outbox_changes: Vec<OutboxChange>,
    pub(super) expects: BTreeMap<PeerId, bool>,
    pub(super) expects_compact: BTreeMap<PeerId, bool>,
    /// Reads are answered at once, or by the test.
    pub(super) hold_reads: bool,
    pub(super) reads: VecDeque<(ReadId, PeerId, crate::HeaderId)>,
    pub(super) filters: VecDeque<(ReadId, crate::FilterRead)>,
    /// The driver's queues count as written as soon as they are filled.
    pub(super) reads_everything: bool,
    /// Pings are answered at once, by everybody.
    pub(super) answers_pings: bool,
    pongs: Vec<(PeerId, u64)>,
    /// What was said by those of whom nothing is read.
    pub(super) unread: BTreeMap<PeerId, VecDeque<(Command, Vec<u8>)>>,
    /// What was said by those of whom is read again.
    readable: VecDeque<(PeerId, Command, Vec<u8>)>,
    pub(super) submitted_blocks: Vec<(PeerId, BlockHash)>,
    pub(super) submitted_headers: Vec<(PeerId, usize)>,
    next_host: u32,
}

pub(super) fn address(n: u8) -> NetAddress {
    NetAddress::new(Host::Ipv4([99, n, 3, 4]), 8333)
}

impl Harness {
    pub(super) fn new(config: PeersConfig) -> Self {
        Self::with_chain(config, &[])
    }

    pub(super) fn with_chain(config: PeersConfig, blocks: &[TestBlock]) -> Self {
        let mut index = TestIndex::new();
        index.extend(blocks);
        let now = Now { monotonic: Duration::from_secs(1_000), unix: START };
        let peers = Peers::new(config, AddressBook::new([3; 32]), now, &index);
        Self {
            peers,
            index,
            now,
            room: 100_000_000,
            initial_download: blocks.is_empty(),
            sent: BTreeMap::new(),
            gone: BTreeMap::new(),
            pauses: Vec::new(),
            connects: Vec::new(),
            begun_with_v2: Vec::new(),
            resolves: Vec::new(),
            outbox_changes: Vec::new(),
            expects: BTreeMap::new(),
            expects_compact: BTreeMap::new(),
            hold_reads: false,
            reads: VecDeque::new(),
            filters: VecDeque::new(),
            reads_everything: true,
            answers_pings: true,
            pongs: Vec::new(),
            unread: BTreeMap::new(),
            readable: VecDeque::new(),
            submitted_blocks: Vec::new(),
            submitted_headers: Vec::new(),
            next_host: 0,
            called: NetAddress::new(Host::Ipv4([77, 1, 1, 1]), 8333),
        }
        .started()
    }

    fn started(mut self) -> Self {
        let initial_download = self.initial_download;
        self.tell(ChainEvent::TipChanged { initial_download });
        self
    }

    /// Something happens; what is to be done about it is left to [`pump`](Self::pump).
    pub(super) fn tell(&mut self, event: impl Into<Event>) {
        self.peers.handle(self.now, &self.index, event);
        assert!(self.held_by_peers() <= PEER_MEMORY, "{}", self.held_by_peers());
    }

    /// Somebody connects; `None` when it is refused. What else is to be done then is left to
    /// [`pump`](Self::pump).
    pub(super) fn accept(&mut self, address: NetAddress) -> Option<PeerId> {
        self.accept_with(address, Permissions::NONE)
    }

    /// The same at a socket that gives permissions.
    pub(super) fn accept_with(
        &mut self,
        address: NetAddress,
        permissions: Permissions,
    ) -> Option<PeerId> {
        self.accept_at(address, Entrance::Direct(permissions))
    }

    /// The same at a socket of any kind.
    pub(super) fn accept_at(&mut self, address: NetAddress, entrance: Entrance) -> Option<PeerId> {
        let (socket, called) = (SocketId(0), self.called);
        self.tell(NetEvent::Inbound { socket, address, called, entrance });
        let mut adopted = None;
        for action in self.peers.take_actions() {
            match action {
                Action::Net(NetCommand::Adopt { peer, .. }) => adopted = Some(peer),
                Action::Net(NetCommand::Refuse { .. }) => {}
                other => self.act(other),
            }
        }
        adopted
    }

    /// Spends a line of the log at the expense of the peer.
    pub(super) fn takes_log_line(&mut self, id: PeerId) -> bool {
        self.peers.now = self.now;
        self.peers.lend(&self.index).1.take_log_line(id)
    }

    /// The peer owes a block.
    pub(super) fn expect_block(&mut self, id: PeerId) {
        self.peers.now = self.now;
        reading::expect_block(&mut self.peers.lend(&self.index).1, id, true);
    }

    /// The peer owes no block any longer.
    pub(super) fn withdraw_request(&mut self, id: PeerId) {
        self.peers.now = self.now;
        reading::expect_block(&mut self.peers.lend(&self.index).1, id, false);
    }

    /// Memory that is compared with the budget of peers.
    pub(super) fn held_by_peers(&mut self) -> usize {
        let Peers { memory, table, .. } = &mut self.peers;
        let usage = memory.usage(table);
        assert_eq!(usage.total(), memory.total(table), "the running sum");
        usage.of_peers()
    }

    /// Requests of the peer that wait; none when it is gone.
    pub(super) fn waiting_requests(&self, id: PeerId) -> usize {
        self.peers.table.get(id).map_or(0, |peer| peer.serving.waiting_requests())
    }

    pub(super) fn peer_state(&self, id: PeerId) -> &Peer {
        self.peers.table.get(id).expect("it is connected")
    }

    /// Each is of another group, as far as there are as many.
    pub(super) fn fresh_address(&mut self) -> NetAddress {
        self.next_host += 1;
        let [_, b, c, d] = self.next_host.to_be_bytes();
        NetAddress::new(Host::Ipv4([20 + b, d, c, 1]), 8333)
    }

    /// A peer that connected to us and said nothing so far.
    pub(super) fn inbound(&mut self) -> PeerId {
        let address = self.fresh_address();
        self.accept(address).expect("there is a place")
    }

    /// A peer that we connected to; our `version` is on its way.
    pub(super) fn outbound(&mut self, kind: ConnectionKind) -> PeerId {
        let address = self.fresh_address();
        self.outbound_to(address, kind)
    }

    pub(super) fn outbound_to(&mut self, address: NetAddress, kind: ConnectionKind) -> PeerId {
        let id = self.peers.table.next_id();
        let attempt = Attempt {
            target: Target::Address(address),
            kind,
            address: Some(address),
            left: Vec::new(),
            nonce: 77 + id.0,
            count_failure: true,
            begun: self.now.monotonic,
            resolving: false,
        };
        self.peers.parts.connections.attempts().insert(id, attempt);
        self.tell(NetEvent::Connected { peer: id, address: Some(address) });
        self.pump();
        id
    }

    pub(super) fn version(&self) -> Version {
        let nobody = NetAddress::new(Host::UNSPECIFIED, 0);
        Version {
            version: 70_016,
            services: FULL,
            timestamp: self.now.unix,
            receiver: VersionAddress { services: Services::NONE, address: nobody },
            sender: VersionAddress { services: FULL, address: nobody },
            nonce: 12_345,
            user_agent: "/test/".into(),
            start_height: 0,
            relay: true,
        }
    }

    /// A peer that has said hello; what the engine sent it so far is forgotten.
    pub(super) fn full_peer(&mut self) -> PeerId {
        let id = self.outbound(ConnectionKind::OutboundFull);
        self.greet(id);
        id
    }

    pub(super) fn inbound_peer(&mut self) -> PeerId {
        let id = self.inbound();
        self.greet(id);
        id
    }

    pub(super) fn peer(&mut self, kind: ConnectionKind) -> PeerId {
        let id = self.outbound(kind);
        self.greet(id);
        id
    }

    pub(super) fn greet(&mut self, id: PeerId) {
        let version = self.version();
        self.greet_as(id, version);
    }

    pub(super) fn greet_as(&mut self, id: PeerId, version: Version) {
        self.says(id, Message::Version(Box::new(version)));
        self.says(id, Message::WtxidRelay);
        self.says(id, Message::SendAddrV2);
        self.says(id, Message::Verack);
    }

    pub(super) fn says(&mut self, id: PeerId, message: Message) {
        let mut payload: DataStream = DataStream::new();
        message.encode(&mut payload);
        self.raw(id, message.command(), payload.as_slice());
    }

    pub(super) fn raw(&mut self, id: PeerId, command: Command, payload: &[u8]) {
        self.deliver(id, command, payload);
        self.pump();
    }

    fn deliver(&mut self, id: PeerId, command: Command, payload: &[u8]) {
        if let Some(unread) = self.unread.get_mut(&id) {
            return unread.push_back((command, payload.to_vec()));
        }
        if command.stops_reading() {
            self.unread.insert(id, VecDeque::new());
        }
        if [Command::BLOCK, Command::BLOCKTXN, Command::HEADERS].contains(&command) {
            self.tell(NetEvent::Arriving { peer: id, command, bytes: payload.len() });
        }
        let payload = PooledStream::from(DataStream::from(payload));
        self.tell(NetEvent::Frame { peer: id, frame: Frame { command, payload } });
    }

    pub(super) fn gives(&mut self, id: PeerId, block: &TestBlock) {
        self.raw(id, Command::BLOCK, &block.bytes);
    }

    /// Sends a block without regard to whether it was asked for.
    pub(super) fn pushes(&mut self, id: PeerId, block: &TestBlock) {
        if self.expects.get(&id) == Some(&true) {
            return self.gives(id, block);
        }
        let (command, why) = (Command::BLOCK, DiscardReason::UnexpectedBlock);
        let (bytes, block) = (block.bytes.len(), Some(block.hash));
        let discard = Discard { command, bytes, why, block };
        self.tell(NetEvent::Discarded { peer: id, discard });
        self.pump();
    }

    pub(super) fn headers(&mut self, id: PeerId, blocks: &[TestBlock]) {
        let headers: Vec<BlockHeader> = blocks.iter().map(|block| block.header).collect();
        self.says(id, Message::Headers(headers));
    }

    pub(super) fn discard(&mut self, id: PeerId, command: Command, bytes: usize) {
        let discard = Discard { command, bytes, why: DiscardReason::Unknown, block: None };
        self.tell(NetEvent::Discarded { peer: id, discard });
        self.pump();
    }

    /// Takes what was sent to a peer.
    pub(super) fn take(&mut self, id: PeerId) -> Vec<Sent> {
        self.sent.remove(&id).unwrap_or_default().into()
    }

    /// Takes what was sent to a peer, decoded messages of one command.
    pub(super) fn take_only(&mut self, id: PeerId, command: Command) -> Vec<Message> {
        let messages = self.take(id).into_iter().filter_map(|sent| match sent {
            Sent::Message(message) => Some(message),
            Sent::Block(_) | Sent::Transaction(_) | Sent::Filters(..) => None,
        });
        messages.filter(|message| message.command() == command).collect()
    }

    /// Blocks that the peer was asked for.
    pub(super) fn requested(&mut self, id: PeerId) -> Vec<BlockHash> {
        let getdata = self.take_only(id, Command::GETDATA).into_iter();
        getdata
            .flat_map(|message| match message {
                Message::GetData(entries) => entries,
                _ => Vec::new(),
            })
            .map(|entry| entry.block_hash())
            .collect()
    }

    /// Does what the engine wants until it wants nothing more.
    pub(super) fn pump(&mut self) {
        loop {
            let actions = self.peers.take_actions();
            if actions.is_empty() {
                if let Some((id, command, payload)) = self.readable.pop_front() {
                    self.deliver(id, command, &payload);
                } else if let Some((id, nonce)) = self.pongs.pop() {
                    self.deliver(id, Command::PONG, &nonce.to_le_bytes());
                } else {
                    return;
                }
            }
            for action in actions {
                self.act(action);
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Net(command) => self.on_network(command),
            Action::Chain(request) => self.on_chain(request),
            Action::Resolve { host } => self.resolves.push(host),
            Action::Outbox(change) => self.outbox_changes.push(change),
        }
    }

    fn on_network(&mut self, command: NetCommand) {
        match command {
            NetCommand::Adopt { .. } | NetCommand::Refuse { .. } => {
                unreachable!("connections come by `accept`");
            }
            NetCommand::Send { peer, command, payload } => self.sent(peer, command, payload),
            NetCommand::Disconnect { peer, why } => {
                assert!(self.gone.insert(peer, why).is_none(), "once");
            }
            NetCommand::Connect { peer, target, v2 } => {
                let kind = self.peers.parts.connections.attempts()[&peer].kind;
                self.connects.push((peer, target, kind));
                self.begun_with_v2.push(v2);
            }
            NetCommand::PauseAbove { queued } => self.pauses.push(queued),
            NetCommand::ReadOn { peer } => {
                let unread = self.unread.remove(&peer).expect("after a message that stops reading");
                self.readable
                    .extend(unread.into_iter().map(|(command, payload)| (peer, command, payload)));
            }
            NetCommand::ExpectCompact { peer, expected } => {
                self.expects_compact.insert(peer, expected);
            }
            NetCommand::ExpectBlock { peer, expected } => {
                assert_ne!(self.expects.insert(peer, expected), Some(expected));
            }
        }
    }

    fn on_chain(&mut self, request: ChainRequest) {
        match request {
            ChainRequest::SubmitHeaders { peer, headers } => {
                assert!(!headers.is_empty());
                self.submitted_headers.push((peer, headers.len()));
                let result = self.index.accept(&headers);
                self.tell(ChainEvent::HeadersJudged { peer, result });
            }
            ChainRequest::SubmitBlock { peer, hash, bytes } => {
                self.submitted_blocks.push((peer, hash));
                let verdict = self.index.judge(hash, bytes.unread());
                self.tell(ChainEvent::BlockJudged { hash, verdict });
                if verdict == godwit_consensus::Verdict::Stored {
                    self.connect();
                }
            }
            ChainRequest::ReadBlock { request, peer, id, .. } => {
                if self.hold_reads {
                    self.reads.push_back((request, peer, id));
                } else {
                    self.answer_read(request, id);
                }
            }
            ChainRequest::ReadFilters { request, read } => self.filters.push_back((request, read)),
        }
    }

    pub(super) fn answer_read(&mut self, request: ReadId, id: crate::HeaderId) {
        let bytes = PooledStream::from(DataStream::from(self.index.bytes(id)));
        self.tell(ChainEvent::BlockRead { request, bytes: Some(bytes) });
    }

    fn sent(&mut self, peer: PeerId, command: Command, payload: PooledStream) {
        let bytes = payload.unread();
        let size = bytes.len();
        let sent = if command == Command::BLOCK {
            Sent::Block(bytes.to_vec())
        } else if command.as_str().starts_with("cf") {
            Sent::Filters(command, bytes.to_vec())
        } else if command == Command::TX {
            Sent::Transaction(bytes.to_vec())
        } else {
            let message = Message::decode(command, bytes).expect("it decodes").expect("it means");
            if matches!(message, Message::GetData(_)) {
                assert_eq!(self.expects.get(&peer), Some(&true), "told before it is asked for");
            }
            if let (true, Message::Ping(Some(nonce))) = (self.answers_pings, &message) {
                self.pongs.push((peer, *nonce));
            }
            Sent::Message(message)
        };
        self.sent.entry(peer).or_default().push_back(sent);
        if self.reads_everything {
            self.tell(NetEvent::Sent { peer, bytes: FRAME_HEADER_SIZE + size });
        }
    }

    pub(super) fn connect(&mut self) {
        for hash in self.index.connect() {
            let reject = godwit_consensus::Reject::new(godwit_consensus::RejectReason::BadCbAmount);
            self.tell(ChainEvent::BlockInvalid { hash, reject });
        }
        let initial_download = self.initial_download;
        self.tell(ChainEvent::TipChanged { initial_download });
    }

    /// Blocks that appear here by no peer's doing, as if mined.
    pub(super) fn mined(&mut self, blocks: &[TestBlock]) {
        self.index.extend(blocks);
        self.connect();
        self.pump();
    }

    pub(super) fn tick(&mut self) {
        self.tell(Event::Tick { room: self.room });
        self.pump();
    }

    /// Lets time pass, ticking every half second.
    pub(super) fn advance(&mut self, time: Duration) {
        self.advance_in(time, Duration::from_millis(500));
    }

    pub(super) fn advance_in(&mut self, time: Duration, step: Duration) {
        let end = self.now.monotonic + time;
        while self.now.monotonic < end {
            let before = self.now.monotonic;
            self.now.monotonic = (before + step).min(end);
            self.now.unix =
                START + (self.now.monotonic - Duration::from_secs(1_000)).as_secs() as i64;
            self.tick();
        }
    }

    /// Lets time pass while peers answer what they are asked out of `blocks`; `answer` may hold back or
    /// change blocks.
    pub(super) fn serve(
        &mut self,
        ids: &[PeerId],
        blocks: &[TestBlock],
        seconds: u64,
        mut answer: impl FnMut(PeerId, &TestBlock) -> Option<TestBlock>,
    ) {
        for _ in 0..seconds * 2 {
            self.advance(Duration::from_millis(500));
            for &id in ids {
                self.answer_questions(id, blocks, |block| answer(id, block));
            }
        }
    }

    pub(super) fn answer_questions(
        &mut self,
        id: PeerId,
        blocks: &[TestBlock],
        mut answer: impl FnMut(&TestBlock) -> Option<TestBlock>,
    ) {
        let place = |hash: BlockHash| blocks.iter().position(|block| block.hash == hash);
        for sent in self.take(id) {
            if self.is_gone(id).is_some() {
                return;
            }
            match sent {
                Sent::Message(Message::GetData(entries)) => {
                    for entry in entries {
                        match place(entry.block_hash()).map(|place| answer(&blocks[place])) {
                            Some(Some(block)) => self.gives(id, &block),
                            Some(None) => {}
                            None => self.says(id, Message::NotFound(vec![entry])),
                        }
                    }
                }
                Sent::Message(Message::GetHeaders(locator)) => {
                    let next = locator.hashes.iter().find_map(|&hash| place(hash));
                    let next = next.map_or(0, |place| place + 1);
                    let end = blocks.len().min(next + crate::MAX_HEADERS);
                    self.headers(id, &blocks[next..end]);
                }
                Sent::Message(_) | Sent::Block(_) | Sent::Transaction(_) | Sent::Filters(..) => {}
            }
        }
    }

    /// What the connections are for.
    pub(super) fn kinds(&self) -> impl Iterator<Item = ConnectionKind> {
        self.peers.table.iter().map(|peer| peer.kind)
    }

    pub(super) fn address_of(&self, id: PeerId) -> NetAddress {
        self.peer_state(id).address.expect("it has one")
    }

    /// Hosts that are discouraged.
    pub(super) fn discouraged(&self) -> usize {
        self.peers.table.discouraged().len()
    }

    /// How far the chain of a peer was measured, when such a look goes on.
    pub(super) fn presync_height(&self) -> Option<u32> {
        let presyncs = self.peers.table.iter().filter_map(|peer| peer.headers.presync());
        presyncs.map(|presync| presync.height()).max()
    }

    pub(super) fn is_gone(&self, id: PeerId) -> Option<DisconnectReason> {
        self.gone.get(&id).copied()
    }

    pub(super) fn tip(&self) -> BlockHash {
        self.index.get(self.index.tip()).hash
    }
}

pub(super) fn block_entry(hash: BlockHash) -> Inventory {
    Inventory::block(InventoryKind::WITNESS_BLOCK, hash)
}

pub(super) fn block_inv(hash: BlockHash) -> Inventory {
    Inventory::block(InventoryKind::BLOCK, hash)
}

pub(super) fn recent() -> u32 {
    START as u32
}

/// A chain of `count` blocks whose end is as old as it is said, in seconds.
pub(super) fn chain(count: u32, age: u32) -> Vec<TestBlock> {
    TestBlock::chain(&TestBlock::genesis(), count, recent() - age, 1)
}
