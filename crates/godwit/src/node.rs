//! The node: what runs when no command is named.
//!
//! [`core`] is its logic, [`sockets`] the thread that owns the network. The driver owns the clock,
//! name lookups, `peers.dat`, `anchors.dat` and `outbox.dat`, and runs the loop that connects them all. The
//! thread that has an onion service made is `tor`.

mod advice;
pub mod core;
mod dns;
mod driver;
mod filters;
pub mod index;
mod indexes;
mod notices;
mod outbox_file;
mod overview;
mod own_addresses;
mod peers_file;
mod rpc;
mod setup;
pub mod sockets;
mod tor;

pub(crate) use driver::run;
pub use outbox_file::{OUTBOX_FILE, OutboxFile};
pub use peers_file::{PEERS_FILE, PeersFile};
