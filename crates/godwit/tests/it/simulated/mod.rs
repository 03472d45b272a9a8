//! The whole node in a simulated world: real code of node, engine, chain and store; network, clock, disk
//! and execution of the simulator; one thread that runs it all; one seed.

mod bounded_loss;
mod driver;
mod encrypted;
mod failing_disk;
mod floods;
mod lying_disk;
mod outages;
mod replay;
mod rot;
mod run;
mod scenarios;
mod scrub;
mod seeds;
mod slow_disk;
mod sockets;
mod tap;
mod timed;
mod worlds;
