//! The engine: everything that a node says to its peers, and why.
//!
//! [`Peers`] owns the state of all connections. The driver tells it what happened (a frame came, a
//! block was judged, time passed) and does what it answers ([`Action`]). One event is handed in at a
//! time; after each the driver takes the actions and does them in order.

mod action;
mod config;
mod fault;

pub use action::{Action, BlockJudgement, ConnectionKind, HeaderFault, ReadId};
pub use config::{PeersConfig, Reachable, Target};
pub use fault::{DisconnectReason, Misbehaviour};

// // ---------------------------------------------------------------------------------------------
// // PUBLIC API of helper E, for helper N. Bodies follow. Signatures are meant to stay.
// // ---------------------------------------------------------------------------------------------
// impl Peers {
//     /// An engine without peers. `book` holds the addresses of earlier runs (or is new), `index` the
//     /// chain as it is.
//     pub fn new(config: PeersConfig, book: AddressBook, now: Now, index: &dyn HeaderIndex) -> Self;
//
//     // ---- connections
//
//     /// Somebody connected. `None`: refuse, close the socket at once (slots full, discouraged).
//     /// An eviction that makes room comes as [`Action::Disconnect`].
//     pub fn accept_inbound(&mut self, now: Now, index: &dyn HeaderIndex, address: NetAddress) -> Option<PeerId>;
//     /// An [`Action::Connect`] succeeded (through a proxy: the proxy's answer was good).
//     /// `address`: to whom, when known (not for a name behind a proxy).
//     pub fn connected(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, address: Option<NetAddress>);
//     /// An [`Action::Connect`] failed. `local`: our own network or proxy failed, not the peer; then
//     /// its address gets no bad mark.
//     pub fn connect_failed(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, local: bool);
//     /// The connection ended without our doing.
//     pub fn closed(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId);
//     /// The transport failed: bad magic, oversized message. Not for `TransportError::Io` (`closed`).
//     /// The engine answers with [`Action::Disconnect`].
//     pub fn transport_failed(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, why: &TransportError);
//
//     // ---- from the wire
//
//     /// A message arrived.
//     pub fn frame(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, frame: Frame);
//     /// Bytes of a `block` payload arrived, the message need not be complete: rates are measured.
//     /// The sum over a message is its payload length (the driver reports the rest before `frame`).
//     pub fn block_bytes(&mut self, now: Now, peer: PeerId, bytes: usize);
//     /// A message was skimmed off by the transport.
//     pub fn discarded(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, discard: &Discard);
//     /// Bytes now queued for sending to the peer: back-pressure for serving. To be told after every
//     /// write and after every `Action::Send` batch.
//     pub fn send_queue(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, bytes: usize);
//     /// Bytes written to the peer's socket since the last call (upload target).
//     pub fn bytes_sent(&mut self, now: Now, peer: PeerId, bytes: usize);
//
//     // ---- answers of the chain
//
//     /// Answer to [`Action::SubmitHeaders`]: the last header taken (or known before), or the fault.
//     pub fn headers_judged(&mut self, now: Now, index: &dyn HeaderIndex, peer: PeerId, result: Result<HeaderId, HeaderFault>);
//     /// Answer to [`Action::SubmitBlock`].
//     pub fn block_judged(&mut self, now: Now, index: &dyn HeaderIndex, hash: BlockHash, judgement: BlockJudgement);
//     /// A stored block turned out invalid when it was connected.
//     pub fn block_invalid(&mut self, now: Now, index: &dyn HeaderIndex, hash: BlockHash, reject: Reject);
//     /// The tip moved (once per batch of connected blocks is enough), or the initial download ended.
//     pub fn tip_changed(&mut self, now: Now, index: &dyn HeaderIndex, initial_block_download: bool);
//     /// Answer to [`Action::ReadBlock`]: the block's bytes; `None` when it is gone (pruned) or unreadable.
//     pub fn block_read(&mut self, now: Now, index: &dyn HeaderIndex, request: ReadId, bytes: Option<PooledStream>);
//     /// Answer to [`Action::Resolve`].
//     pub fn resolved(&mut self, now: Now, host: &str, addresses: Vec<NetAddress>); // port of the addresses is ignored (default port / that of the target)
//
//     // ---- time
//
//     /// To be called at `next_wakeup`, and after each batch of other events. `room`: bytes of blocks
//     /// that the chain can take beyond what was requested so far (see Downloads::schedule).
//     pub fn tick(&mut self, now: Now, index: &dyn HeaderIndex, room: u64);
//     /// When `tick` is due at the latest, on the monotonic clock.
//     pub fn next_wakeup(&self) -> Duration;
//     /// The actions since the last call, in the order in which to do them.
//     pub fn take_actions(&mut self) -> VecDeque<Action>;
//
//     // ---- for the driver's own use
//
//     /// `-networkactive`: false disconnects everybody and opens nothing.
//     pub fn set_network_active(&mut self, now: Now, index: &dyn HeaderIndex, active: bool);
//     /// The address book, to be written to disk now and then (Core: every 15 minutes) and at the end.
//     pub fn address_book(&self) -> &AddressBook;
//     /// Numbers for progress lines.
//     pub fn summary(&self) -> Summary; // { inbound, outbound (handshake done), connecting, headers_presync: Option<height>, best_known_height, blocks_in_flight }
//     /// Peers, for status output.
//     pub fn peers(&self) -> impl Iterator<Item = PeerInfo>;
// }
