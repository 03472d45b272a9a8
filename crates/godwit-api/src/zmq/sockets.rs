//! The publisher's sockets and its subscribers, all owned by one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use godwit_http::LogLimit;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, timeout_at};

use super::outgoing::{Kept, Limits, Message, Outgoing};
use super::wire::{self, Incoming, Said, Subscriptions, WireError};
use super::{Notifier, Topic, ZmqAddress, ZmqError};

/// Subscribers at once, at all addresses.
pub const MAX_SUBSCRIBERS: usize = 32;

/// The part of the memory of messages that one subscriber may take.
const SUBSCRIBER_SHARE: usize = 4;

/// A subscriber has said who he is by then.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Before the next attempt to accept a connection after one that failed.
const FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// Messages that wait for a subscriber before they are handed to the system.
const BATCH: usize = 32;

/// Bytes that are read of a subscriber at once.
const READ_BYTES: usize = 1024;

/// An address with a socket that listens there.
pub(super) struct Listening {
    address: ZmqAddress,
    high_water_mark: usize,
    listener: std::net::TcpListener,
}

/// The place of a notifier's address among those that are listened at.
pub(super) fn place(notifiers: &[Notifier], of: &Notifier) -> usize {
    let firsts = notifiers.iter().enumerate().filter(|(n, notifier)| {
        notifiers[..*n].iter().all(|before| before.address != notifier.address)
    });
    firsts.take_while(|(_, first)| first.address != of.address).count()
}

/// Listens at an address.
pub(super) fn bind(address: &ZmqAddress) -> Result<std::net::TcpListener, ZmqError> {
    std::net::TcpListener::bind(address.at)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| ZmqError::Bind(address.clone(), error))
}

/// Listens at each address once, in the order in which they are named.
pub(super) fn listen(notifiers: &[Notifier]) -> Result<Vec<Listening>, ZmqError> {
    let mut all: Vec<Listening> = Vec::new();
    for Notifier { address, high_water_mark, .. } in notifiers {
        if all.iter().any(|listening| listening.address == *address) {
            continue;
        }
        let listener = bind(address)?;
        log::info!("Publishing notifications at {address}");
        if !address.at.ip().is_loopback() {
            log::warn!("{address} is open to whoever reaches it: notifications have no password");
        }
        let high_water_mark = *high_water_mark as usize;
        all.push(Listening { address: address.clone(), high_water_mark, listener });
    }
    Ok(all)
}

/// All of them.
pub(super) struct Sockets(Rc<Shared>);

struct Shared {
    subscribers: RefCell<Vec<Rc<Subscriber>>>,
    kept: Rc<Kept>,
    /// Bytes of all messages that wait: who keeps most of them is cut off.
    waiting_bytes: usize,
    /// A subscriber has taken a message, wants less, or is gone.
    room: Notify,
    dropped: LogLimit,
}

struct Subscriber {
    stream: TcpStream,
    peer: SocketAddr,
    /// The place of the address at which it connected.
    at: usize,
    state: RefCell<State>,
    /// The socket takes nothing from now on, or it is the end.
    wake: Notify,
    is_cut_off: Cell<bool>,
}

struct State {
    subscriptions: Subscriptions,
    outgoing: Outgoing,
    /// The socket takes nothing at present.
    is_blocked: bool,
    /// It was waited for in vain. Nobody does again until all is sent.
    is_slow: bool,
}

impl Subscriber {
    /// Hands to the socket what it takes; whether a message less waits. To one that is cut off nothing is
    /// sent any more: it might be in the middle of a message whose rest is forgotten.
    fn flush(&self) -> bool {
        if self.is_cut_off.get() {
            return false;
        }
        let mut state = self.state.borrow_mut();
        let (waited, was_blocked) = (state.outgoing.len(), state.is_blocked);
        match state.outgoing.flush(|slices| self.stream.try_write_vectored(slices)) {
            Ok(is_all) => {
                state.is_blocked = !is_all;
                state.is_slow &= !is_all;
            }
            Err(error) => {
                log::debug!("ZMQ subscriber {}: {error}", self.peer);
                self.is_cut_off.set(true);
            }
        }
        // A subscriber that was blocked before already waits for the socket.
        if (state.is_blocked && !was_blocked) || self.is_cut_off.get() {
            self.wake.notify_one();
        }
        state.outgoing.len() < waited
    }

    /// Whether a message would be dropped that it can still be waited for.
    fn is_full(&self, bytes: usize) -> bool {
        let is_full = || {
            let state = self.state.borrow();
            !state.is_slow && state.outgoing.is_full(bytes)
        };
        if is_full() {
            self.flush();
        }
        is_full()
    }

    fn wants(&self, topic: Topic) -> bool {
        !self.is_cut_off.get() && self.state.borrow().subscriptions.want(topic.name().as_bytes())
    }

    fn bytes(&self) -> usize {
        self.state.borrow().outgoing.bytes()
    }

    fn cut_off(&self) {
        self.is_cut_off.set(true);
        self.wake.notify_one();
    }
}

impl Sockets {
    /// Accepts subscribers from now on; `None` if the system gives no events for a socket.
    pub(super) fn start(listeners: Vec<Listening>, waiting_bytes: usize) -> Option<Self> {
        let shared = Rc::new(Shared {
            subscribers: RefCell::default(),
            kept: Rc::default(),
            waiting_bytes,
            room: Notify::new(),
            dropped: LogLimit::default(),
        });
        for (at, listening) in listeners.into_iter().enumerate() {
            let Listening { address, high_water_mark, listener } = listening;
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let bytes = waiting_bytes / SUBSCRIBER_SHARE;
                    let limits = Limits { high_water_mark, bytes };
                    let accept = accept(listener, at, limits, Rc::clone(&shared));
                    drop(spawn_local(accept));
                }
                Err(error) => {
                    log::error!("ZMQ: nothing is published at {address}: {error}");
                    return None;
                }
            }
        }
        Some(Self(shared))
    }

    /// Who gets a topic at an address.
    fn audience(&self, at: usize, topic: Topic) -> Vec<Rc<Subscriber>> {
        let all = self.0.subscribers.borrow();
        let hears = |subscriber: &&Rc<Subscriber>| subscriber.at == at && subscriber.wants(topic);
        all.iter().filter(hears).cloned().collect()
    }

    /// Whether anybody has subscribed to a topic at an address.
    pub(super) fn are_any(&self, at: usize, topic: Topic) -> bool {
        !self.audience(at, topic).is_empty()
    }

    /// Waits for who is to get the next message and has no room for it, until the deadline at most.
    pub(super) async fn wait_for_room(
        &self,
        at: usize,
        topic: Topic,
        bytes: usize,
        deadline: Instant,
    ) {
        loop {
            let mut full = self.audience(at, topic);
            full.retain(|subscriber| subscriber.is_full(bytes));
            if full.is_empty() {
                return;
            }
            if timeout_at(deadline, self.0.room.notified()).await.is_err() {
                full.iter().for_each(|subscriber| subscriber.state.borrow_mut().is_slow = true);
            }
        }
    }

    /// Sends a message to all at an address who subscribed to its topic.
    pub(super) fn send(&self, at: usize, topic: Topic, message: Vec<u8>) {
        let Shared { kept, dropped, .. } = &*self.0;
        self.make_room(message.capacity());
        let message = Rc::new(Message::new(message, kept));
        for subscriber in self.audience(at, topic) {
            let mut state = subscriber.state.borrow_mut();
            let is_kept = state.outgoing.push(&message);
            let is_batch = state.outgoing.len() >= BATCH && !state.is_blocked;
            drop(state);
            if !is_kept {
                let peer = subscriber.peer;
                dropped.warn(|| format!("ZMQ subscriber {peer} is slow: a message is dropped"));
            }
            if is_batch {
                subscriber.flush();
            }
        }
    }

    /// Disconnects the subscribers that keep most, until there is memory for so much more.
    fn make_room(&self, bytes: usize) {
        while self.0.kept.bytes() + bytes > self.0.waiting_bytes {
            let all = self.0.subscribers.borrow();
            let most = all.iter().max_by_key(|subscriber| subscriber.bytes());
            let Some(most) = most.filter(|most| most.bytes() > 0) else { return };
            log::warn!(
                "ZMQ subscriber {} is disconnected: it does not keep up, and the memory for waiting messages is \
                 used up",
                most.peer
            );
            most.state.borrow_mut().outgoing.clear();
            most.cut_off();
        }
    }

    /// Hands to the sockets what they take.
    pub(super) fn flush(&self) {
        let all = self.0.subscribers.borrow().clone();
        for subscriber in all {
            subscriber.flush();
        }
    }
}

async fn accept(listener: TcpListener, at: usize, limits: Limits, shared: Rc<Shared>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                log::debug!("ZMQ: no subscriber accepted: {error}");
                sleep(FAILED_ACCEPT).await;
                continue;
            }
        };
        if shared.subscribers.borrow().len() >= MAX_SUBSCRIBERS {
            shared.dropped.warn(|| format!("ZMQ subscriber {peer} is refused: there are many"));
            continue;
        }
        let options = SockRef::from(&stream);
        if options.set_tcp_nodelay(true).and_then(|()| options.set_keepalive(true)).is_err() {
            continue;
        }
        let subscriber = Rc::new(Subscriber {
            stream,
            peer,
            at,
            state: RefCell::new(State {
                subscriptions: Subscriptions::default(),
                outgoing: Outgoing::new(limits),
                is_blocked: false,
                is_slow: false,
            }),
            wake: Notify::new(),
            is_cut_off: Cell::new(false),
        });
        shared.subscribers.borrow_mut().push(Rc::clone(&subscriber));
        let shared = Rc::clone(&shared);
        drop(spawn_local(async move {
            log::debug!("ZMQ subscriber {peer} connected");
            let why = serve(&subscriber, &shared).await;
            log::debug!("ZMQ subscriber {peer} is gone: {why}");
            shared.subscribers.borrow_mut().retain(|other| !Rc::ptr_eq(other, &subscriber));
            shared.room.notify_one();
        }));
    }
}

/// Listens to a subscriber, and sends what waits for it, until it is gone; why it is.
async fn serve(subscriber: &Subscriber, shared: &Shared) -> String {
    let (mut incoming, deadline) = (Incoming::default(), Instant::now() + HANDSHAKE);
    subscriber.state.borrow_mut().outgoing.say(&wire::greeting());
    subscriber.flush();
    loop {
        let turned = match incoming.is_ready() {
            true => turn(subscriber, &mut incoming, &shared.room).await,
            false => {
                match timeout_at(deadline, turn(subscriber, &mut incoming, &shared.room)).await {
                    Ok(turned) => turned,
                    Err(_) => return "it says nothing".to_owned(),
                }
            }
        };
        match turned {
            Ok(true) => {}
            Ok(false) => return "it has closed".to_owned(),
            Err(why) => return why,
        }
    }
}

/// Waits for a socket, and reads or sends once; whether it is still open.
async fn turn(
    subscriber: &Subscriber,
    incoming: &mut Incoming,
    room: &Notify,
) -> Result<bool, String> {
    let interest = match subscriber.state.borrow().is_blocked {
        true => Interest::READABLE | Interest::WRITABLE,
        false => Interest::READABLE,
    };
    let ready = tokio::select! {
        ready = subscriber.stream.ready(interest) => ready.map_err(|error| error.to_string())?,
        () = subscriber.wake.notified() => {
            return if subscriber.is_cut_off.get() { Err("it is cut off".to_owned()) } else { Ok(true) };
        }
    };
    if ready.is_writable() && subscriber.flush() {
        room.notify_one();
    }
    if ready.is_readable() || ready.is_read_closed() {
        let mut bytes = [0; READ_BYTES];
        match subscriber.stream.try_read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                incoming.push(&bytes[..count]);
                if hear(subscriber, incoming).map_err(|error| error.to_string())? {
                    room.notify_one();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(true)
}

/// Does what a subscriber says; whether it need not be waited for as long.
fn hear(subscriber: &Subscriber, incoming: &mut Incoming) -> Result<bool, WireError> {
    let mut wants_less = false;
    loop {
        let had_greeted = incoming.has_greeted();
        let said = incoming.next()?;
        let mut state = subscriber.state.borrow_mut();
        if incoming.has_greeted() && !had_greeted {
            state.outgoing.say(&wire::ready());
        }
        match said {
            None => break,
            Some(Said::Subscribe(topic)) => state.subscriptions.add(topic)?,
            Some(Said::Cancel(topic)) => {
                state.subscriptions.cancel(&topic);
                wants_less = true;
            }
            Some(Said::Ping(context)) => state.outgoing.say(&wire::pong(&context)),
            Some(Said::Other) => {}
        }
    }
    Ok(subscriber.flush() || wants_less)
}

#[cfg(test)]
mod tests;
