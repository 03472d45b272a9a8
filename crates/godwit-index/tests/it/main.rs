//! Indexes beside a real chain on a simulated disk.

mod beside;
mod coin_stats;
mod detours;
mod filters;
mod inspection;
mod missing_blocks;
mod per_block;
mod transactions;
