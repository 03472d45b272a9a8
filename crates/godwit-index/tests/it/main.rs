//! Indexes beside a real chain on a simulated disk.

mod beside;
mod filters;
mod transactions;
