//! Names of files and directories of a data directory that several parts of the store know.

pub(crate) const LOCK_FILE: &str = ".lock";
pub(crate) const BLOCKS_DIR: &str = "blocks";
pub(crate) const UTXO_DIR: &str = "utxo";

/// The coins of the history below a loaded snapshot, as far as it is validated.
pub(crate) const HISTORY_DIR: &str = "utxo-history";

/// The file with the obfuscation key, beside the block files (Core 28 and later).
pub(crate) const XOR_FILE: &str = "xor.dat";

/// Bitcoin Core's lock of the directory with its block files.
pub(crate) const CORE_BLOCKS_LOCK: &str = "blocks/.lock";
