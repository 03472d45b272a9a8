//! The rules on real headers, blocks and chains, on Core's vectors, and beside Core's own code.

mod blocks;
mod chains;
mod data;
mod headers;
mod kernel;
mod mutations;
mod speed;
mod vectors;
