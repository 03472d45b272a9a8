//! The node's side of its connections: what its sockets do in the program, on the simulated network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use godwit::node::sockets::{Inbox, InboxLimits, LastBlock, Outbox, Share, channel};
use godwit_fault_disk::Content;
use godwit_p2p::{
    Command, ConnectFailure, Frame, MAX_GARBAGE, NetAddress, NetCommand, NetEvent, PeerId,
    Protocol, Receive, ReceiveLimits, Target, Transport, TransportError, V2Secrets, Write,
    block_header_of,
};
use godwit_primitives::sha256::sha256d;
use godwit_secret::SecretArray;
use godwit_sim::network::ConnectionId;
use mio::{Poll, Token, Waker};

use super::driver::{Disconnected, Driver, Timer};

/// Bytes read from one connection before the next one has its turn.
const READ_TURN: usize = 256 << 10;
/// How long opening a connection may take, as in the program.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a payload may claim before twice of it has arrived.
pub(super) const FIRST_CAPACITY: usize = 64 << 10;

/// A connection as the node's sockets have it.
pub(super) struct Link {
    pub(super) peer: Option<PeerId>,
    pub(super) address: NetAddress,
    pub(super) transport: Transport,
    limits: ReceiveLimits,
    last_block: LastBlock,
    awaits_read_on: bool,
    failed: bool,
    arrival_reported: usize,
    memory_reported: usize,
    sent_reported: u64,
    pub(super) established: bool,
    protocol_told: bool,
}

/// Both ends of a new queue. The driver looks for room itself, so that nothing is to be woken.
pub(super) fn queue(limits: InboxLimits) -> (Outbox, Inbox) {
    let poll = Poll::new().expect("a poll");
    let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
    channel(Arc::new(waker), limits)
}

impl Link {
    fn share(&self, out: &Outbox) -> Share {
        self.last_block.share(&self.limits, &self.transport, out)
    }
}

impl Driver {
    /// Tells the node something that none of its connections says.
    pub(super) fn tell(&mut self, event: NetEvent) {
        self.tell_of(Share::Messages, event);
    }

    fn tell_of_link(&mut self, id: ConnectionId, event: NetEvent) {
        let share = link_mut(&mut self.links, id).share(&self.outbox);
        self.tell_of(share, event);
    }

    fn tell_of(&mut self, share: Share, event: NetEvent) {
        self.outbox.of(share).send(event);
        self.take_events();
    }

    /// Lets the node take the events that it can.
    pub(super) fn take_events(&mut self) {
        let now = self.now();
        loop {
            let Self { core, inbox, .. } = self;
            let next = |takes_blocks| match takes_blocks {
                true => inbox.take(),
                false => inbox.take_but_blocks(),
            };
            if !core.as_mut().expect("the node runs").handle_some(now, 1, next) {
                return;
            }
            self.stirred = true;
            self.hear();
            self.check_arriving();
        }
    }

    /// Reads nothing from a connection before the next turn: its share of the inbox is full.
    fn hold_back(&mut self, id: ConnectionId) {
        self.held.insert(id);
        self.peak.held += 1;
        let peer = self.crowd.peer(id);
        self.held_back.extend(peer.map(|peer| peer.conduct.name));
    }

    /// The secrets of a simulated node are no secrets: they come from its seed.
    pub(super) fn transport(&mut self, v2: bool, initiator: bool) -> Transport {
        let magic = self.stage.params.magic;
        if !v2 {
            return Transport::new_v1(magic, self.pool.clone());
        }
        self.transports += 1;
        let seed = [self.plan.seed.to_le_bytes(), self.transports.to_le_bytes()].concat();
        let mut key = sha256d(&seed);
        let secrets = V2Secrets {
            encoding: sha256d(&key),
            garbage: vec![key[0]; usize::from(key[1]) * MAX_GARBAGE / 255],
            key: SecretArray::from_plain_and_wipe(&mut key).expect("locked memory"),
        };
        let new = if initiator { Transport::new_v2_initiator } else { Transport::new_v2_responder };
        new(magic, self.pool.clone(), secrets).expect("locked memory, and a key in range")
    }

    pub(super) fn add_link(
        &mut self,
        id: ConnectionId,
        peer: Option<PeerId>,
        address: NetAddress,
        transport: Transport,
    ) {
        let link = Link {
            peer,
            address,
            transport,
            limits: ReceiveLimits::default(),
            last_block: LastBlock::default(),
            awaits_read_on: false,
            failed: false,
            arrival_reported: 0,
            memory_reported: 0,
            sent_reported: 0,
            established: peer.is_none(),
            protocol_told: false,
        };
        self.links.insert(id, link);
        if let Some(peer) = peer {
            self.by_peer.insert(peer, id);
        }
    }

    pub(super) fn read(&mut self, id: ConnectionId) {
        loop {
            let Some(link) = self.links.get_mut(&id) else { return };
            let share = link.share(&self.outbox);
            if !self.outbox.poll_room(share) {
                return self.hold_back(id);
            }
            let Some(peer) = link.peer else { return };
            if link.failed
                || link.awaits_read_on
                || link.transport.unwritten_bytes() > self.pause_above
            {
                return;
            }
            let received =
                link.transport.receive(&mut self.crowd.socket(id), &link.limits, READ_TURN);
            self.check_receiving(id);
            self.report_protocol(id, peer);
            match received {
                Ok(Receive::Frame(frame)) => self.take_frame(id, peer, frame, share),
                Ok(Receive::Discarded(discard)) => {
                    self.end_of_message(id);
                    self.note(format!("peer={} > dropped {discard:?}", peer.0));
                    self.tell_of(share, NetEvent::Discarded { peer, discard });
                }
                Ok(Receive::BudgetUsed) => {}
                Ok(Receive::Pending) => break,
                Ok(Receive::Closed) | Err(TransportError::Io(_)) => {
                    self.note(format!("peer={} has left", peer.0));
                    return self.closed(id, peer);
                }
                Err(error) => {
                    link_mut(&mut self.links, id).failed = true;
                    self.tell_of(share, NetEvent::TransportFailed { peer, error });
                    return;
                }
            }
            // A later message is received under what this one has changed.
            self.take_commands();
        }
        let link = link_mut(&mut self.links, id);
        if let Some((command, received, _)) = link.transport.incoming()
            && (command == Command::HEADERS
                || [Command::BLOCK, Command::BLOCKTXN].contains(&command)
                    && link.limits.expects_block)
        {
            self.report_arrival(id, command, received);
        }
        self.report_memory(id);
        // What was read may have made the transport answer.
        if self.links.get(&id).is_some_and(|link| link.transport.wants_write()) {
            self.write(id);
        }
    }

    fn take_frame(&mut self, id: ConnectionId, peer: PeerId, frame: Frame, share: Share) {
        let bytes = frame.payload.len();
        if frame.command == Command::BLOCK {
            self.report_arrival(id, frame.command, bytes);
            self.count_block(frame.payload.unread());
        } else if frame.command == Command::BLOCKTXN {
            self.report_arrival(id, frame.command, bytes);
        } else if frame.command == Command::HEADERS {
            self.report_arrival(id, frame.command, bytes);
            self.header_bytes += bytes as u64;
        }
        self.expect_answer(peer, frame.command, share);
        self.end_of_message(id);
        link_mut(&mut self.links, id).awaits_read_on = frame.command.stops_reading();
        self.journal(format_args!(
            "content of peer={}: {}",
            peer.0,
            Content(frame.payload.unread())
        ));
        self.note(format!("peer={} > {} {bytes}", peer.0, frame.command));
        let out = self.outbox.of(share);
        link_mut(&mut self.links, id).last_block.send_frame(peer, frame, out);
        self.take_events();
    }

    fn report_protocol(&mut self, id: ConnectionId, peer: PeerId) {
        let link = link_mut(&mut self.links, id);
        let protocol = link.transport.protocol();
        if !link.protocol_told && protocol != Protocol::Detecting {
            link.protocol_told = true;
            self.protocols.push((link.address, protocol));
            self.tell_of_link(id, NetEvent::Protocol { peer, protocol });
        }
    }

    /// The other side has closed: for good, or because it does not understand what is encrypted.
    fn closed(&mut self, id: ConnectionId, peer: PeerId) {
        let link = link_mut(&mut self.links, id);
        let (address, plain) = (link.address, link.transport.fall_back());
        let limits = link.limits;
        let share = link.share(&self.outbox);
        self.drop_link(id);
        let Some(plain) = plain else { return self.tell_of(share, NetEvent::Closed { peer }) };
        let reachable = self.crowd.is_reachable(&address);
        match reachable.then(|| self.crowd.connect(&address)).flatten() {
            Some(id) => {
                self.add_link(id, Some(peer), address, plain);
                link_mut(&mut self.links, id).limits = limits;
            }
            None => self.tell_of(share, NetEvent::Closed { peer }),
        }
    }

    fn count_block(&mut self, payload: &[u8]) {
        self.block_bytes += payload.len() as u64;
        if let Some(header) = block_header_of(payload) {
            let hash = header.block_hash();
            self.fetched_again += usize::from(self.arrived_before.contains(&hash));
            self.arrived.insert(hash);
        }
    }

    fn end_of_message(&mut self, id: ConnectionId) {
        let link = link_mut(&mut self.links, id);
        (link.arrival_reported, link.memory_reported) = (0, 0);
    }

    fn report_arrival(&mut self, id: ConnectionId, command: Command, received: usize) {
        let link = link_mut(&mut self.links, id);
        let bytes = received.saturating_sub(link.arrival_reported);
        let peer = link.peer.expect("messages are read of peers");
        if bytes > 0 {
            link.arrival_reported = received;
            self.tell_of_link(id, NetEvent::Arriving { peer, command, bytes });
        }
    }

    /// Nothing that the node would have to do anything about.
    fn report_memory(&mut self, id: ConnectionId) {
        let link = link_mut(&mut self.links, id);
        let (memory, peer) = (link.transport.buffered_bytes(), link.peer);
        let peer = peer.expect("messages are read of peers");
        if link.memory_reported != memory {
            link.memory_reported = memory;
            let stirred = self.stirred;
            self.tell_of_link(id, NetEvent::Receiving { peer, memory });
            self.stirred = stirred;
        }
    }

    pub(super) fn write(&mut self, id: ConnectionId) {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.established) else { return };
        let paused = link.transport.unwritten_bytes() > self.pause_above;
        let written = link.transport.write(&mut self.crowd.socket(id), usize::MAX);
        let Some(peer) = link.peer else { return };
        let (sent, queued) = (link.transport.total_sent_plain(), link.transport.unwritten_bytes());
        let bytes = (sent - link.sent_reported) as usize;
        if bytes > 0 {
            link.sent_reported = sent;
            self.tell_of_link(id, NetEvent::Sent { peer, bytes });
        }
        match written {
            Ok(Write::Done | Write::Pending | Write::BudgetUsed) => {
                if paused && queued <= self.pause_above {
                    self.read(id);
                }
            }
            Ok(Write::Closed) | Err(_) => {
                self.closed(id, peer);
            }
        }
    }

    fn drop_link(&mut self, id: ConnectionId) {
        if let Some(link) = self.links.remove(&id)
            && let Some(peer) = link.peer
        {
            self.by_peer.remove(&peer);
        }
        self.crowd.close(id);
    }

    pub(super) fn take_commands(&mut self) {
        loop {
            for host in self.core().take_lookups() {
                self.set_timer(Duration::from_millis(60), Timer::Resolved(host));
            }
            let commands = self.core().take_commands();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                self.apply_command(command);
            }
        }
    }

    /// Where others hold all places, that is fair, if there are so few that each is protected: four by their
    /// networks, eight by their pings, four by transactions and four by blocks (Core `SelectNodeToEvict`).
    fn note_refused(&mut self, id: ConnectionId) {
        let places = self.plan.max_inbound;
        let is_full = places <= 20 && self.core().peers().connection_counts().0 >= places;
        if let Some(peer) = self.crowd.peer(id).filter(|_| !is_full) {
            self.refused.push(peer.clone());
        }
    }

    fn apply_command(&mut self, command: NetCommand) {
        match command {
            NetCommand::Adopt { socket, peer } => {
                let id = ConnectionId(socket.0);
                match self.links.get_mut(&id) {
                    Some(link) => {
                        link.peer = Some(peer);
                        self.by_peer.insert(peer, id);
                        self.read(id);
                    }
                    None => self.tell(NetEvent::Closed { peer }),
                }
            }
            NetCommand::Refuse { socket } => {
                let id = ConnectionId(socket.0);
                self.note_refused(id);
                self.drop_link(id);
            }
            NetCommand::Connect { peer, target, v2 } => self.connect(peer, &target, v2),
            NetCommand::Send { peer, command, payload } => {
                let Some(id) = self.by_peer.get(&peer).copied() else { return };
                self.journal(format_args!(
                    "content for peer={}: {}",
                    peer.0,
                    Content(payload.unread())
                ));
                self.note(format!("peer={} < {command} {}", peer.0, payload.len()));
                self.note_answer(peer, command);
                link_mut(&mut self.links, id).transport.send(command, payload);
                self.write(id);
            }
            NetCommand::ReadOn { peer } => {
                if let Some(id) = self.by_peer.get(&peer).copied() {
                    link_mut(&mut self.links, id).awaits_read_on = false;
                    // Not here: this may be in the middle of reading it.
                    self.held.insert(id);
                }
            }
            NetCommand::PauseAbove { queued } => {
                let before = std::mem::replace(&mut self.pause_above, queued);
                let waited = |link: &Link| link.transport.unwritten_bytes() > before;
                let waiting: Vec<ConnectionId> =
                    self.links.iter().filter(|(_, link)| waited(link)).map(|(id, _)| *id).collect();
                waiting.into_iter().for_each(|id| self.read(id));
            }
            NetCommand::ExpectBlock { peer, expected } => {
                if let Some(id) = self.by_peer.get(&peer) {
                    link_mut(&mut self.links, *id).limits.expects_block = expected;
                }
            }
            NetCommand::ExpectCompact { peer, expected } => {
                if let Some(id) = self.by_peer.get(&peer) {
                    link_mut(&mut self.links, *id).limits.expects_compact = expected;
                }
            }
            NetCommand::Disconnect { peer, why } => {
                let Some(id) = self.by_peer.get(&peer).copied() else { return };
                self.note(format!("disconnecting peer={}: {why}", peer.0));
                let at = self.crowd.now();
                let excused = self.crowd.is_excused(id);
                if let Some(plan) = self.crowd.peer(id) {
                    self.disconnected.push(Disconnected { peer: plan.clone(), at, why, excused });
                }
                self.drop_link(id);
            }
        }
    }

    fn connect(&mut self, peer: PeerId, target: &Target, v2: bool) {
        if let Target::Address(address) = target
            && !self.crowd.is_reachable(address)
        {
            let timer = Timer::ConnectFailed(peer, ConnectFailure::Unanswered);
            return self.set_timer(CONNECT_TIMEOUT, timer);
        }
        let connected = match target {
            Target::Address(address) => self.crowd.connect(address).map(|id| (id, *address)),
            Target::Name { .. } => None,
        };
        match connected {
            Some((id, address)) => {
                let transport = self.transport(v2, true);
                self.add_link(id, Some(peer), address, transport);
            }
            None => {
                let timer = Timer::ConnectFailed(peer, ConnectFailure::Refused);
                self.set_timer(Duration::from_millis(100), timer);
            }
        }
    }

    /// Nothing is claimed on account of what was only announced.
    fn check_receiving(&mut self, id: ConnectionId) {
        let link = link_mut(&mut self.links, id);
        let held = link.transport.buffered_bytes();
        if let Some((command, received, announced)) = link.transport.incoming()
            && held > FIRST_CAPACITY.max(2 * received)
        {
            self.fail(&format!("{held} bytes for {received} of {announced} of a {command}"));
        }
    }
}

fn link_mut(links: &mut BTreeMap<ConnectionId, Link>, id: ConnectionId) -> &mut Link {
    links.get_mut(&id).expect("the connection is open")
}
