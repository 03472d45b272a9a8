//! Scripted peers at the level of messages. `Bn` in a name is the scenario's number in the list of
//! attacks and faults that the project works with.

mod addresses;
mod announcing;
mod blocks;
mod by_system;
mod chains;
mod compact;
mod config;
mod connections;
mod encryption;
mod filters;
mod handshake;
mod harness;
mod header_sync;
mod headers;
mod holders;
mod hostile;
mod index;
mod line;
mod memory;
mod names;
mod onion;
mod permissions;
mod requests;
mod sending;
mod serving;
mod single_tries;
mod two_nodes;
