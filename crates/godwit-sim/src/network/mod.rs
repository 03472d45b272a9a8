//! A simulated network: one thread, one seed, a clock that jumps from event to event.
//!
//! [`Network`] moves bytes over links of a given latency and rate and cuts them at random places, as TCP
//! does; links, or the node's whole line, fail as a list of [`Fault`]s says. On its far side sit scripted
//! peers ([`Crowd`], [`Session`]), which speak real bytes through `godwit-p2p`'s transport and codecs, each
//! according to its [`Conduct`]: honest, broken or hostile. On its near side sits the node under test,
//! which its driver feeds with what [`Crowd::next`] returns.
//!
//! A [`Session`] knows nothing of the network: tests on real sockets use the same peers.

mod branch;
mod conduct;
mod crowd;
mod faults;
pub mod forge;
mod link;
mod mix;
mod net;
mod noise;
mod out;
mod outbox;
mod serve;
mod session;
mod tcp;
#[cfg(test)]
mod tests;
mod trace;
mod world;

pub use branch::{Branch, StoredBlock, View};
pub use conduct::{Announce, BlockConduct, Conduct, HeaderConduct, Noise, Speech};
pub use crowd::{Crowd, NodeEvent, PeerPlan};
pub use faults::{Fault, FaultKind, Lost, Noticed};
pub use link::LinkSpec;
pub use mix::{Mix, faulty_mix, mix};
pub use net::{ConnectionId, End, Happening, Network, Socket};
pub use outbox::Written;
pub use session::Session;
pub use tcp::TcpPeer;
pub use trace::Trace;
pub use world::World;
