//! The node's interfaces to programs: JSON-RPC over HTTP, as Bitcoin Core speaks it, a page for people,
//! figures for Prometheus.
//!
//! ```text
//! sockets ── godwit-api: one thread, async ──▶ bounded queue ──▶ godwit-rpc-N: run methods
//!            godwit-http: logins, limits                          │        ▲
//!                                                       Question  ▼        │ answer
//!                                                     the node's thread, within a turn
//! ```
//!
//! A method runs on a thread of its own. What it has to know of the chain it asks in one [`Question`], which
//! the node's thread answers from memory between two turns: so a reply comes from one moment, no state of the
//! chain is under a lock, and that thread waits for nobody. Reading files, decoding and writing JSON happen
//! on the method's thread. What is asked most, the [`Snapshot`], is published at the end of turns, and costs
//! the node's thread nothing more.

mod added_names;
mod answers;
mod api;
mod ban_file;
mod coin_calls;
mod cookie;
mod deprecated;
mod dispatch;
mod fee_history;
mod interfaces;
mod log_categories;
mod methods;
mod price_cache;
mod rest;
mod script;
mod seam;
mod server;
mod snapshot_load;
mod stage;
mod subnet;
mod sync;
mod whitelist;
mod zmq;

pub use answers::ANSWER_BYTES;
pub use ban_file::BanFile;
pub use cookie::{CookieError, CookieFile, CookiePermissions};
pub use deprecated::Deprecated;
pub use godwit_consensus::Reject;
pub use godwit_http::{BODY_BYTES, Credentials, RpcAuth, RpcAuthError};
pub use interfaces::{Interfaces, PageOptions};
pub use log_categories::LogCategories;
pub use seam::{
    BlockOutcome, HistoryFacts, JudgedTxs, LoadPending, NodeState, Overrule, OverruleRefusal,
    Proxies, Pruning, Publisher, Question, Questions, Seam, SendRefusal, Snapshot, TipFacts, seam,
};
pub use server::{
    MAX_CONNECTIONS, MAX_PAGE_CONNECTIONS, Server, ServerError, ServerMemory, ServerOptions,
    Starting,
};
pub use snapshot_load::{LOADING, LoadOutcome, SnapshotLoad};
pub use subnet::{Subnet, SubnetError};
pub use sync::{
    Bottleneck, Connections, Machine, MemoryFacts, PeerFacts, Schedule, SyncFacts, SyncReport,
    SyncStage, SyncWatch, Tip, UnvalidatedHistory, Verification,
};
pub use whitelist::Whitelist;
pub use zmq::{
    DEFAULT_HIGH_WATER_MARK, MAX_ZMQ_SUBSCRIBERS, Notice, NoticedBlock, Notices, Notifier, Topic,
    Zmq, ZmqAddress, ZmqAddressError, ZmqError,
};
