//! Integration tests of the script door.

mod asm;
mod conditions;
mod cost;
mod crowd;
mod data;
mod generated;
mod hostile;
mod mixed;
mod native;
mod native_blocks;
mod plan;
mod real_blocks;
mod script_vectors;
mod scripts;
mod sighash;
mod taproot_assets;
mod twin;
mod tx_vectors;
