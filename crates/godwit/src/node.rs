//! The node: what runs when no command is named.
//!
//! [`core`] is its logic, [`sockets`] the thread that owns the network. The driver owns the clock,
//! name lookups, `peers.dat`, `anchors.dat` and `outbox.dat`, and runs the loop that connects them all. The
//! thread that has an onion service made is `tor`, that which has the router forward a port `port_map`.
//!
//! A process can run a node several times in a row: a snapshot is loaded into the closed data directory
//! between two runs (`reload`). The RPC server and the connection to systemd outlive a run.

mod advice;
mod asmap;
pub mod core;
mod dns;
mod driver;
mod filters;
pub mod index;
mod indexes;
mod notices;
mod operated;
mod outbox_file;
mod overview;
mod own_addresses;
mod peers_file;
mod port_map;
mod reload;
mod rpc;
mod setup;
pub mod sockets;
mod tor;
mod warnings;

pub(crate) use driver::run;
pub use outbox_file::{OUTBOX_FILE, OutboxFile};
pub use peers_file::{PEERS_FILE, PeersFile};
