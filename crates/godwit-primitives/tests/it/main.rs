//! Integration tests of `godwit-primitives`.

mod allocation;
mod core_decoder;
mod data;
mod hostile_bytes;
mod real_blocks;
mod transactions;
