//! Notifications of blocks and of sent transactions over ZeroMQ, as Bitcoin Core publishes them (`src/zmq`).
//!
//! ```text
//! the node's thread ──Notice──▶ bounded queue ──▶ godwit-zmq: reads the block, makes messages
//!                                                    ├─▶ a bounded queue for each subscriber ─▶ its socket
//! ```
//!
//! The node's thread never waits: it only queues which block it connected or disconnected, and which
//! transaction began or ceased to wait for one. What does not fit into the queue is counted, and so is what a
//! subscriber does not take. Each message carries the number of earlier messages of its kind, so that a
//! subscriber can see that it missed some.
//!
//! The protocol is ours (`wire.rs`): `zeromq`, the library, keeps 100,000 messages for each subscriber,
//! whatever their size, and knows no high-water mark.

mod outgoing;
mod publish;
mod sockets;
mod wire;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use godwit_chain::{BlockReader, StoredBlock};
use godwit_http::LogLimit;
use godwit_p2p::{MAX_OUTBOX_BYTES, OutboxChange};
use godwit_primitives::BlockHash;
use tokio::sync::{mpsc, oneshot};

use publish::Publisher;
pub use sockets::MAX_SUBSCRIBERS as MAX_ZMQ_SUBSCRIBERS;
use sockets::Sockets;

/// Notices that wait to be published.
const MAX_NOTICES: usize = 1024;

/// Bytes of sent transactions in these notices: of the whole outbox, which waits again at once when the
/// blocks that had it are disconnected.
const MAX_NOTICED_BYTES: usize = MAX_OUTBOX_BYTES;

/// Messages that wait for a subscriber at most, where nothing else is said (Core `DEFAULT_ZMQ_SNDHWM`).
pub const DEFAULT_HIGH_WATER_MARK: u32 = 1000;

/// What a notification is about, in the order in which Core sends those of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    HashBlock,
    HashTx,
    RawBlock,
    RawTx,
    Sequence,
}

impl Topic {
    pub const ALL: [Self; 5] =
        [Self::HashBlock, Self::HashTx, Self::RawBlock, Self::RawTx, Self::Sequence];

    /// As messages begin.
    pub fn name(self) -> &'static str {
        match self {
            Self::HashBlock => "hashblock",
            Self::HashTx => "hashtx",
            Self::RawBlock => "rawblock",
            Self::RawTx => "rawtx",
            Self::Sequence => "sequence",
        }
    }
}

/// Where a publisher listens: `tcp://ADDRESS:PORT`, with `*` for all addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZmqAddress {
    text: String,
    at: SocketAddr,
}

/// A text is no address of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZmqAddressError;

impl FromStr for ZmqAddress {
    type Err = ZmqAddressError;

    fn from_str(text: &str) -> Result<Self, ZmqAddressError> {
        let place = text.strip_prefix("tcp://").ok_or(ZmqAddressError)?;
        let at = match place.strip_prefix("*:") {
            Some(port) => {
                let port = port.parse().map_err(|_| ZmqAddressError)?;
                SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
            }
            None => place.parse().map_err(|_| ZmqAddressError)?,
        };
        if at.port() == 0 {
            return Err(ZmqAddressError);
        }
        Ok(Self { text: text.to_owned(), at })
    }
}

impl fmt::Display for ZmqAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is published where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notifier {
    pub topic: Topic,
    pub address: ZmqAddress,
    /// Messages that wait for a subscriber at most; zero for no limit but that of bytes. Of those that share
    /// an address the first one's counts, as in Core.
    pub high_water_mark: u32,
}

/// Why nothing is published.
#[derive(Debug)]
pub enum ZmqError {
    Bind(ZmqAddress, io::Error),
    /// No thread, or the system has no events for sockets.
    Start(io::Error),
}

impl fmt::Display for ZmqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(address, error) => {
                write!(f, "notifications cannot be published at {address}: {error} (-zmqpub...)")
            }
            Self::Start(error) => write!(f, "notifications cannot be published: {error}"),
        }
    }
}

impl std::error::Error for ZmqError {}

/// A block of which is told.
#[derive(Clone, Copy, Debug)]
pub struct NoticedBlock {
    pub hash: BlockHash,
    /// Number of its transactions.
    pub tx_count: u32,
    /// Where it is, if its bytes are there.
    pub stored: Option<StoredBlock>,
}

/// What happened to the active chain, or to what waits for it.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The chain became longer; perhaps only on its way to more work.
    Connected { block: NoticedBlock, is_new_tip: bool },
    /// It became shorter.
    Disconnected(NoticedBlock),
    /// A sent transaction began or ceased to wait for a block.
    Outbox(OutboxChange),
}

impl Notice {
    /// Messages of hashblock or rawblock, and of hashtx or rawtx. Of sequence there is one.
    fn counts(&self) -> (u32, u32) {
        match self {
            Self::Connected { block, is_new_tip } => (u32::from(*is_new_tip), block.tx_count),
            Self::Disconnected(block) => (0, block.tx_count),
            Self::Outbox(OutboxChange::Added { .. }) => (0, 1),
            Self::Outbox(OutboxChange::Removed { .. }) => (0, 0),
        }
    }

    /// Bytes that it keeps.
    fn bytes(&self) -> usize {
        match self {
            Self::Outbox(OutboxChange::Added { tx, .. }) => tx.view().bytes().len(),
            _ => 0,
        }
    }
}

/// As the log names it.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { block, .. } | Self::Disconnected(block) => {
                write!(f, "block {}", block.hash)
            }
            Self::Outbox(OutboxChange::Added { tx, .. }) => write!(f, "transaction {}", tx.txid),
            Self::Outbox(OutboxChange::Removed { txid, .. }) => write!(f, "transaction {txid}"),
        }
    }
}

/// Bytes of the notices that wait. And messages that were not made, because their notices did not fit: they
/// count as if they had been sent.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    missed_changes: AtomicU32,
    missed_tips: AtomicU32,
    missed_transactions: AtomicU32,
}

impl Waiting {
    /// Room for a notice's bytes, if there is some; only the node's thread takes it.
    fn take(&self, bytes: usize) -> bool {
        let has_room = self.bytes.load(Ordering::Acquire) + bytes <= MAX_NOTICED_BYTES;
        if has_room {
            self.bytes.fetch_add(bytes, Ordering::AcqRel);
        }
        has_room
    }

    fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    fn miss(&self, notice: &Notice) {
        let (tips, transactions) = notice.counts();
        self.missed_changes.fetch_add(1, Ordering::Relaxed);
        self.missed_tips.fetch_add(tips, Ordering::Relaxed);
        self.missed_transactions.fetch_add(transactions, Ordering::Relaxed);
    }

    /// How many of a topic were not made.
    fn missed(&self, topic: Topic) -> u32 {
        let count = match topic {
            Topic::HashBlock | Topic::RawBlock => &self.missed_tips,
            Topic::HashTx | Topic::RawTx => &self.missed_transactions,
            Topic::Sequence => &self.missed_changes,
        };
        count.load(Ordering::Relaxed)
    }
}

/// The node's end of the queue.
pub struct Notices {
    to: mpsc::Sender<Notice>,
    waiting: Arc<Waiting>,
    overflows: LogLimit,
}

impl Notices {
    /// Has something published, soon. It does not wait.
    pub fn tell(&self, notice: Notice) {
        let bytes = notice.bytes();
        let refused = match self.waiting.take(bytes) {
            false => notice,
            true => match self.to.try_send(notice) {
                Ok(()) => return,
                Err(error) => {
                    self.waiting.give_back(bytes);
                    error.into_inner()
                }
            },
        };
        self.waiting.miss(&refused);
        self.overflows.warn(|| format!("ZMQ: no notifications of {refused}: too many wait"));
    }
}

/// The running publisher. Dropped, it ends, and what waits is not sent.
pub struct Zmq {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Zmq {
    /// Whether all addresses can be listened on now. Nothing listens there afterwards.
    ///
    /// # Errors
    ///
    /// One of them cannot.
    pub fn check(notifiers: &[Notifier]) -> Result<(), ZmqError> {
        notifiers.iter().try_for_each(|notifier| sockets::bind(&notifier.address).map(drop))
    }

    /// Listens, and publishes what it is told; `waiting_bytes` is the memory of messages that wait.
    ///
    /// # Errors
    ///
    /// An address cannot be listened on, or the system gives no thread.
    pub fn start(
        notifiers: &[Notifier],
        reader: BlockReader,
        waiting_bytes: usize,
    ) -> Result<(Self, Notices), ZmqError> {
        let listeners = sockets::listen(notifiers)?;
        let (to, notices) = mpsc::channel(MAX_NOTICES);
        let (stop, stopped) = oneshot::channel();
        let waiting = Arc::new(Waiting::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ZmqError::Start)?;
        let (notifiers, counted) = (notifiers.to_vec(), Arc::clone(&waiting));
        let run = move || {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let Some(sockets) = Sockets::start(listeners, waiting_bytes) else { return };
                let publisher = Publisher::new(&notifiers, sockets, reader, counted);
                tokio::select! {
                    () = publisher.run(notices) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("godwit-zmq".to_owned())
            .spawn(run)
            .map_err(ZmqError::Start)?;
        let notices = Notices { to, waiting, overflows: LogLimit::default() };
        Ok((Self { stop: Some(stop), thread: Some(thread) }, notices))
    }
}

impl Drop for Zmq {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of the ZMQ publisher panicked");
        }
    }
}

#[cfg(test)]
mod tests;
