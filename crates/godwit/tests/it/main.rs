//! The program as a user runs it: whole commands on whole chains, stopped at any moment.

mod bad_input;
mod blocks;
mod connections;
mod core_wallet;
mod encrypted_sockets;
mod full_disk;
mod import;
mod interop;
mod keys;
mod kill;
mod loopback;
mod memory_policy;
mod network_kill;
mod node;
mod progress;
mod psbt;
mod psbt_chain;
mod records;
mod refusals;
mod residue;
mod running;
mod simulated;
mod snapshot;
mod sockets;
mod sync;
mod verdicts;
