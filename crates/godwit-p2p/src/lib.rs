//! Bitcoin's peer-to-peer protocol as a state machine: bytes, state and time in, actions out.
//!
//! Nothing here opens a socket, reads a clock, draws entropy or judges a block. The node and the
//! simulator drive the same code; the same seed gives the same run.

mod address_book;
mod anchors;
mod asmap;
mod bans;
mod compact;
mod connection_kind;
mod discourage;
mod download;
mod frame;
mod host_allowances;
mod index;
mod inventory;
mod message;
mod net_address;
mod net_groups;
mod own_addresses;
mod peer_id;
mod peers;
mod permissions;
mod port_mapping;
mod presync;
mod rate_limit;
mod saved_file;
mod seeds;
mod services;
mod slots;
mod socks5;
mod target;
mod time;
mod tor_control;
mod transport;
mod tx_outbox;
mod v2;

pub use address_book::{AddressBook, AddressCount, Source};
pub use anchors::{Anchors, MAX_ANCHORS};
pub use asmap::{Asmap, AsmapError, AsmapVersion, MAX_ASMAP_BYTES};
pub use bans::{Ban, Bans, HostRange, MAX_BANS};
pub use compact::{CompactError, PartialBlock, block_transactions, compact_block};
pub use connection_kind::ConnectionKind;
pub use download::MAX_WINDOW_BLOCKS;
pub use frame::{Command, FRAME_HEADER_SIZE, Frame, MAX_PAYLOAD};
pub use index::{HeaderId, HeaderIndex, HeaderInfo, HistorySpan};
pub use inventory::{Inventory, InventoryKind};
pub use message::{
    BlockTransactions, BlockTransactionsRequest, CompactBlock, FilterData, FilterQuery,
    FilterRequest, Locator, MAX_HEADERS, Message, MessageError, RawTransactions, Version,
    VersionAddress, block_header_of,
};
pub use net_address::{AddressEntry, AddressNetwork, AddressParseError, Host, NetAddress};
pub use net_groups::NetGroups;
pub use own_addresses::{OwnAddress, OwnAddressSource, OwnAddresses};
pub use peer_id::PeerId;
pub use peers::{
    Action, CONNECTIONS_MEMORY, ChainEvent, ChainRequest, ConnectFailure, DisconnectReason, Event,
    FILTER_BYTES, FilterBlock, FilterRead, Misbehaviour, NetCommand, NetEvent, NodeCommand,
    PEER_MEMORY, PeerAddresses, PeerBlocks, PeerInfo, PeerSays, PeerTimes, PeerTransactions, Peers,
    PeersConfig, ReadId, RefusedHeader, SEND_PAUSE, SEND_QUEUE_MAX, SocketId, Summary, Traffic,
    TrafficTotals,
};
pub use permissions::{Binding, Entrance, PermissionError, Permissions, Whitelist};
pub use port_mapping::{
    MAPPING_NONCE_SIZE, MAX_MAPPING_PACKET, Mapping, MappingProtocol, MappingRefusal,
    MappingRequest, NATPMP_ADDRESS_REQUEST, PORT_MAPPING_PORT, natpmp_address,
};
pub use presync::{Presync, PresyncOutcome, PresyncState, memory_bound as presync_memory_bound};
pub use rate_limit::{TokenBucket, UploadStatus};
pub use saved_file::SavedFileError;
pub use seeds::{dns_seeds, fixed_seeds};
pub use services::Services;
pub use slots::{
    MAX_ADD_NODE_CONNECTIONS, MAX_OUTBOUND_BLOCK_RELAY, MAX_OUTBOUND_FULL, MAX_TRIED_CONNECTIONS,
};
pub use socks5::{Credentials, Socks5, Socks5Error};
pub use target::{Reachable, Target};
pub use time::Now;
pub use tor_control::{
    BadOnionKey, MAX_ONION_KEY, OnionKey, OnionRequest, TOR_COOKIE_SIZE, TorAction, TorBackoff,
    TorError, TorSession,
};
pub use transport::{
    Discard, DiscardReason, PACKET_COST, Protocol, Receive, ReceiveLimits, Transport,
    TransportError, Write, payload_limit,
};
pub use tx_outbox::{KEEP, MAX_OUTBOX_BYTES, OutboxChange, OutboxFull, OutboxTx, TxOutbox};
pub use v2::{MAX_GARBAGE, V2Error, V2Secrets};
