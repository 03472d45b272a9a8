//! Bitcoin's peer-to-peer protocol as a state machine: bytes, state and time in, actions out.
//!
//! Nothing here opens a socket, reads a clock, asks for entropy or judges a block. The node and the
//! simulator drive the same code, and one seed gives one run.

mod frame;
mod index;
mod inventory;
mod message;
mod net_address;
mod peers;
mod time;
mod transport;

pub use frame::{Command, FRAME_HEADER_SIZE, Frame, MAX_PAYLOAD, sanitized};
pub use index::{HeaderId, HeaderIndex, HeaderInfo, is_ancestor, last_common_ancestor, locator};
pub use inventory::{Inventory, InventoryKind};
pub use message::{
    BlockTransactions, BlockTransactionsRequest, CompactBlock, Locator, MAX_ADDRESSES,
    MAX_COMPACT_TRANSACTIONS, MAX_HEADERS, MAX_INVENTORY, MAX_LOCATOR, MAX_USER_AGENT, Message,
    MessageError, RawTransactions, Services, ShortIdKeys, Version, VersionAddress, block_header_of,
};
pub use net_address::{
    AddressEntry, AddressNetwork, AddressParseError, Host, NetAddress, NetGroup, Reachability,
};
pub use peers::{
    Action, BlockJudgement, ConnectionKind, DisconnectReason, HeaderFault, Misbehaviour, PeersConfig,
    Reachable, ReadId, Target,
};
pub use time::Now;
pub use transport::{
    Discard, DiscardReason, MAX_SMALL_PAYLOAD, Receive, ReceiveLimits, Transport, TransportError,
    Write, payload_limit,
};

/// A peer's name. Never used twice: 64 bits do not run out (Core's counter of addresses did,
/// CVE-2024-52919).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);
