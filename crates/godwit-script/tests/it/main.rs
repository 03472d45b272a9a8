//! Integration tests of the script door.

mod asm;
mod cost;
mod data;
mod hostile;
mod mixed;
mod real_blocks;
mod script_vectors;
mod taproot_assets;
mod twin;
mod tx_vectors;
