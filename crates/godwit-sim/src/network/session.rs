//! One connection of a scripted peer: bytes in, bytes out, by its [`Conduct`].

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use godwit_p2p::{
    Command, Frame, Host, Inventory, InventoryKind, Locator, MAX_GARBAGE, Message, NetAddress,
    Receive, ReceiveLimits, Services, Transport, V2Secrets, Version, VersionAddress,
};
use godwit_primitives::BlockHash;
use godwit_secret::SecretArray;
use godwit_stream::DataStream;

use super::branch::Branch;
use super::conduct::{Announce, Conduct, Speech};
use super::out::Out;
use super::outbox::{Outbox, Written, small_pool};
use crate::rng::Rng;

/// Protocol version of the peers (Core `PROTOCOL_VERSION`).
const PROTOCOL_VERSION: i32 = 70_016;
/// Version of compact blocks with witnesses (BIP152).
const COMPACT_VERSION: u64 = 2;
/// Bytes read at once.
const READ_BUDGET: usize = 1 << 20;
/// A peer with more unwritten bytes of answers than this stops reading, as Core does.
const ENOUGH_QUEUED: usize = 1 << 20;

/// A peer's side of one connection.
#[derive(Debug)]
pub struct Session {
    pub(super) conduct: Arc<Conduct>,
    pub(super) rng: Rng,
    transport: Transport,
    outbox: Outbox,
    /// Answers by the time at which they are written.
    later: VecDeque<(Duration, Out)>,
    opened_it: bool,
    sent_version: bool,
    pub(super) ready: bool,
    wants_headers: bool,
    wants_compact: bool,
    announced: Option<BlockHash>,
    /// The first block that was ever asked for.
    pub(super) first_asked: Option<BlockHash>,
    pub(super) next_noise: Option<Duration>,
    leaves_at: Option<Duration>,
    /// Set while the pace forbids writing before this time.
    paced: Option<Duration>,
    alive: bool,
    pub(super) forged: u64,
    unix_start: i64,
}

impl Session {
    /// A session of a peer with this conduct. `opened_it`: the peer opened the connection.
    pub fn new(
        conduct: Arc<Conduct>,
        magic: [u8; 4],
        opened_it: bool,
        now: Duration,
        unix_start: i64,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let leaves_at = conduct.leaves.map(|(low, high)| {
            now + Duration::from_millis(
                rng.between(low.as_millis() as u64, high.as_millis() as u64),
            )
        });
        let transport = transport(conduct.speech, magic, opened_it, &mut rng);
        let mut session = Self {
            conduct,
            rng,
            transport,
            outbox: Outbox::new(magic),
            later: VecDeque::new(),
            opened_it,
            sent_version: false,
            ready: false,
            wants_headers: false,
            wants_compact: false,
            announced: None,
            first_asked: None,
            next_noise: None,
            leaves_at,
            paced: None,
            alive: true,
            forged: 0,
            unix_start,
        };
        if session.conduct.speech == Speech::Garbage {
            session.outbox.raw(&random_bytes(64 + 2 * MAX_GARBAGE, &mut session.rng));
        } else if session.opened_it {
            session.greet(now);
        }
        session
    }

    /// Whether the connection is to be kept open.
    pub fn is_alive(&self) -> bool {
        self.alive
    }

    /// Reads what has come, and prepares the answers. `false`: the connection is over.
    pub fn readable(&mut self, now: Duration, source: &mut impl Read) -> bool {
        if self.conduct.speech == Speech::Garbage {
            return self.ignore(source);
        }
        let mut budget = READ_BUDGET;
        while self.alive && budget > 0 && self.takes_more() {
            let before = self.transport.total_received();
            let limits = ReceiveLimits { expects_block: true, expects_compact: true };
            match self.transport.receive(source, &limits, budget) {
                Ok(Receive::Frame(frame)) => self.frame(now, frame),
                Ok(Receive::Discarded(_)) => {}
                Ok(Receive::Pending | Receive::BudgetUsed) => return self.alive,
                Ok(Receive::Closed) | Err(_) => self.alive = false,
            }
            let read = self.transport.total_received() - before;
            budget = budget.saturating_sub(read as usize);
        }
        self.alive
    }

    fn ignore(&mut self, source: &mut impl Read) -> bool {
        let mut ignored = [0; 4_096];
        loop {
            match source.read(&mut ignored) {
                Ok(1..) => continue,
                Ok(0) => self.alive = false,
                Err(error) => self.alive = error.kind() == ErrorKind::WouldBlock,
            }
            return self.alive;
        }
    }

    /// Whether the peer reads at the moment.
    pub fn takes_more(&self) -> bool {
        (self.conduct.reads() || !self.ready) && self.outbox.queued() < ENOUGH_QUEUED
    }

    /// Does everything that is due, and writes. `false`: the connection is over.
    pub fn writable(&mut self, now: Duration, sink: &mut impl Write) -> bool {
        self.act(now);
        self.outbox.take(&mut self.transport);
        self.paced = None;
        match self.outbox.write(now, sink) {
            Written::All | Written::Blocked => {}
            Written::Paced(until) => self.paced = Some(until),
            Written::Broken => self.alive = false,
        }
        self.alive
    }

    /// When [`writable`](Self::writable) is due at the latest, whatever arrives.
    pub fn wakeup(&self, now: Duration) -> Option<Duration> {
        let answer = self.later.front().map(|(at, _)| *at);
        let tip = self.conduct.view.next_change(now).filter(|_| self.ready);
        [answer, tip, self.next_noise, self.leaves_at, self.paced].into_iter().flatten().min()
    }

    fn act(&mut self, now: Duration) {
        if self.leaves_at.is_some_and(|at| at <= now) {
            self.alive = false;
            return;
        }
        if self.ready {
            self.announce_tip(now);
            self.make_noise(now);
        }
        while self.later.front().is_some_and(|(at, _)| *at <= now) {
            let (_, out) = self.later.pop_front().expect("just seen");
            self.put_out(now, out);
        }
    }

    fn put_out(&mut self, now: Duration, out: Out) {
        match out {
            Out::Message(message) => {
                let mut payload = DataStream::new();
                message.encode(&mut payload);
                self.outbox.message(&mut self.transport, message.command(), payload);
            }
            Out::Block(block) => {
                let payload = DataStream::from(&block.bytes[..]);
                self.outbox.message(&mut self.transport, Command::BLOCK, payload);
            }
            Out::Payload(command, payload) => {
                let payload = DataStream::from(&payload[..]);
                self.outbox.message(&mut self.transport, command, payload);
            }
            Out::Forged { command, announced, payload } => {
                self.outbox.forged_frame(command, announced, &payload);
            }
            Out::Prepared(message) => self.outbox.prepared(&mut self.transport, message),
            Out::Raw(bytes) => self.outbox.raw(&bytes),
            Out::Pace(rate) => self.outbox.slow_down(now, rate),
        }
    }

    /// Queues an answer, to be written after the peer's thinking time.
    pub(super) fn answer(&mut self, now: Duration, out: Out) {
        let due = now + self.conduct.think;
        self.later.push_back((due, out));
    }

    pub(super) fn say(&mut self, now: Duration, message: Message) {
        self.answer(now, Out::Message(message));
    }

    pub(super) fn is_backed_up(&self) -> bool {
        !self.outbox.is_empty() || self.later.len() > 1_000
    }

    pub(super) fn chain(&self, now: Duration) -> Arc<Branch> {
        Arc::clone(self.conduct.view.at(now))
    }

    fn greet(&mut self, now: Duration) {
        self.sent_version = true;
        if self.conduct.mute {
            return;
        }
        let nowhere = NetAddress::new(Host::Ipv4([0; 4]), 0);
        let version = Version {
            version: PROTOCOL_VERSION,
            services: self.conduct.services,
            timestamp: (self.unix_start + now.as_secs() as i64)
                .saturating_add(self.conduct.clock_error),
            receiver: VersionAddress { services: Services::NONE, address: nowhere },
            sender: VersionAddress { services: self.conduct.services, address: nowhere },
            nonce: self.rng.next_u64(),
            user_agent: self.conduct.user_agent.clone(),
            start_height: self.chain(now).height() as i32,
            relay: true,
        };
        self.say(now, Message::Version(Box::new(version)));
    }

    fn frame(&mut self, now: Duration, frame: Frame) {
        let payload = frame.payload.unread();
        if frame.command == Command::BLOCK {
            godwit_p2p::block_header_of(payload).expect("the node sends whole blocks");
            return;
        }
        let message =
            Message::decode(frame.command, payload).expect("the node sends good messages");
        let Some(message) = message else { return };
        match message {
            Message::Version(_) => self.version(now),
            Message::Verack => self.verack(now),
            Message::SendHeaders => self.wants_headers = true,
            Message::SendCmpct { announce, version: COMPACT_VERSION } => {
                self.wants_compact = announce;
            }
            Message::GetBlockTxn(request) => self.serve_transactions(now, &request),
            Message::Ping(Some(nonce)) => self.say(now, Message::Pong(nonce)),
            Message::GetAddr if !self.conduct.gossip.is_empty() => {
                self.say(now, Message::Addr(self.conduct.gossip.to_vec()));
            }
            Message::GetHeaders(locator) => self.serve_headers(now, &locator),
            Message::GetData(wanted) => self.serve_data(now, &wanted),
            _ => {}
        }
    }

    fn version(&mut self, now: Duration) {
        if !self.sent_version {
            self.greet(now);
        }
        if !self.conduct.mute {
            self.say(now, Message::WtxidRelay);
            self.say(now, Message::Verack);
        }
    }

    fn verack(&mut self, now: Duration) {
        self.ready = true;
        self.say(now, Message::SendHeaders);
        self.say(now, Message::SendCmpct { announce: false, version: COMPACT_VERSION });
        let chain = self.chain(now);
        self.announced = Some(chain.tip().hash);
        let locator = Locator { hashes: chain.locator(), stop: BlockHash::ZERO };
        self.say(now, Message::GetHeaders(locator));
        if let Some((_, _, pause)) = self.conduct.noise {
            self.next_noise = Some(now + pause.min(Duration::from_millis(10)));
        }
    }

    fn announce_tip(&mut self, now: Duration) {
        let chain = self.chain(now);
        let tip = chain.tip();
        let Some(before) = self.announced.replace(tip.hash) else { return };
        if before == tip.hash {
            return;
        }
        // As Core: headers when there are few that the other side does not have.
        let shared = chain.height_of(&before);
        let new = shared.map_or(usize::MAX, |height| (chain.height() - height) as usize);
        let by_headers = self.conduct.announce != Announce::Inventory && self.wants_headers;
        if self.conduct.announce == Announce::Compact && self.wants_compact && new == 1 {
            let compact = self.compact(tip);
            self.say(now, Message::CmpctBlock(compact));
        } else if by_headers && new <= 8 {
            let headers = chain.headers_after(&[before], &BlockHash::ZERO, new);
            self.say(now, Message::Headers(headers));
        } else {
            let inventory = Inventory::block(InventoryKind::BLOCK, tip.hash);
            self.say(now, Message::Inv(vec![inventory]));
        }
    }
}

/// The secrets of a scripted peer need no protection: they come from its seed.
fn transport(speech: Speech, magic: [u8; 4], opened_it: bool, rng: &mut Rng) -> Transport {
    if speech != Speech::Encrypted {
        return Transport::new_v1(magic, small_pool());
    }
    let mut key: [u8; 32] = random_bytes(32, rng).try_into().expect("as many were asked for");
    let garbage = random_bytes(rng.between(0, MAX_GARBAGE as u64) as usize, rng);
    let secrets = V2Secrets {
        encoding: key.map(|byte| !byte),
        key: SecretArray::from_plain_and_wipe(&mut key).expect("locked memory"),
        garbage,
    };
    let new = if opened_it { Transport::new_v2_initiator } else { Transport::new_v2_responder };
    new(magic, small_pool(), secrets).expect("locked memory, and a key in range")
}

fn random_bytes(len: usize, rng: &mut Rng) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}
