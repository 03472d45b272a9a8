//! The whole node in a simulated world: real code of node, engine, chain and store; network, clock
//! and disk of the simulator; one thread that drives them; one seed.
//!
//! The chain's workers are threads, but nothing is seen of them: after each event the driver waits
//! until the chain has nothing more to do.

mod driver;
mod encrypted;
mod floods;
mod run;
mod scenarios;
mod seeds;
mod sockets;
mod tap;
mod worlds;
