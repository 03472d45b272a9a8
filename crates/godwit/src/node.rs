//! The node: what runs when no command is named.
//!
//! [`core`] is its logic; [`sockets`] the thread that owns the network; the driver has
//! the clock, the names and the disk beside them, and the loop that brings all together.

pub mod core;
mod dns;
mod driver;
pub mod index;
mod peers_file;
mod setup;
pub mod sockets;

pub(crate) use driver::run;
pub use peers_file::{PEERS_FILE, PeersFile};
