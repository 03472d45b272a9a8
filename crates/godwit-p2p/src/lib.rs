//! Bitcoin's peer-to-peer protocol as a state machine: bytes, state and time in, actions out.
//!
//! Nothing here opens a socket, reads a clock, asks for entropy or judges a block. The node and the
//! simulator drive the same code, and one seed gives one run.

mod address_book;
mod compact;
mod discourage;
mod download;
mod frame;
mod index;
mod inventory;
mod message;
mod net_address;
mod peers;
mod presync;
mod rate_limit;
mod seeds;
mod slots;
mod socks5;
mod spent;
mod time;
mod transport;
mod v2;

pub use address_book::{
    AddressBook, AddressBookError, Candidate, MAX_ENTRIES, SAMPLE_ADDRESSES, SAMPLE_PERCENT,
    Source, TIME_PENALTY,
};
pub use compact::{CompactError, PartialBlock, block_transactions, compact_block};
pub use discourage::{DISCOURAGED_HOSTS, Discouraged};
pub use download::{Downloads, Overdue, OverdueReason, PeerTraits, Receipt};
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
    Action, BlockJudgement, ConnectionKind, DisconnectReason, HeaderFault, Misbehaviour, PeerInfo,
    Peers, PeersConfig, Reachable, ReadId, SEND_PAUSE, SEND_QUEUE_MAX, Summary, Target,
};
pub use presync::{Presync, PresyncOutcome, PresyncState, memory_bound as presync_memory_bound};
pub use rate_limit::{
    ADDRESS_BURST, INVENTORY_BURST, LOG_BURST, PEER_LOG_BURST, TokenBucket, UPLOAD_CYCLE,
    UploadTarget,
};
pub use seeds::{
    FIXED_SEEDS, MAX_SEED_ADDRESSES, SEED_SERVICES, dns_seed_entries, dns_seeds, filtered_name,
    fixed_seed_entries, fixed_seeds,
};
pub use slots::{
    EvictionCandidate, MAX_ADD_NODE_CONNECTIONS, MAX_OUTBOUND_BLOCK_RELAY, MAX_OUTBOUND_FULL,
    MINIMUM_CONNECT_TIME, Opening, OutboundPeer, Situation, SlotPeer, Slots, SlotsConfig,
    extra_block_relay_peer, extra_full_peer, select_to_evict,
};
pub use socks5::{Credentials, Socks5, Socks5Error};
pub use time::Now;
pub use transport::{
    Discard, DiscardReason, MAX_SMALL_PAYLOAD, PACKET_COST, Protocol, Receive, ReceiveLimits,
    Transport, TransportError, Write, payload_limit,
};
pub use v2::{MAX_GARBAGE, V2Error, V2Secrets};

/// A peer's name. Never used twice: 64 bits do not run out (Core's counter of addresses did,
/// CVE-2024-52919).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);
