//! The record of an input whose signatures hold although Core's engine refuses it.
//!
//! It must not happen: one of the two is wrong. Then neither is believed, the node ends, and this file in
//! the network's directory says what it was about. As long as the file is there, Core's engine judges
//! alone: whoever has read it removes it.

use std::fmt::{self, Write};
use std::path::PathBuf;

use godwit_primitives::{BlockHash, Txid};
use godwit_store::disk::OpenMode;
use godwit_store::{Store, StoreError};

use crate::apply::Resolved;

/// An input about which lanes and engine differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The block that has it.
    pub block: BlockHash,
    /// Its transaction.
    pub txid: Txid,
    /// Its index there.
    pub input: usize,
    /// All that decides about it, for the file.
    report: String,
}

impl Contradiction {
    /// Name of the file, in the network's own directory.
    pub const FILE: &'static str = "script-contradiction.txt";

    /// Input `input` of transaction `tx` of a block.
    pub(crate) fn new(resolved: &Resolved, tx: usize, input: usize) -> Self {
        let (block, flags) = (resolved.block(), resolved.flags());
        let (view, spent) = (block.view().tx(tx), resolved.spent_by(tx));
        let (hash, txid) = (block.hash(), view.txid());
        let mut report = format!(
            "Signatures that make this input valid hold, but Bitcoin Core's script engine refuses it.\n\
             Please report this file to the makers of godwit. While it is here, godwit asks the engine alone.\n\
             Blocks that were connected before are not verified again: an empty data directory and\n\
             -scriptengine=core do that.\n\
             block {hash}\ntxid {txid}\ninput {input}\nflags {:#x}\ntx {}\n",
            flags.bits(),
            hex(view.bytes()),
        );
        for coin in spent {
            let line = writeln!(report, "spent {} {}", coin.value, hex(&coin.script_pubkey));
            line.expect("a string takes everything");
        }
        Self { block: hash, txid, input, report }
    }

    /// Makes the record durable, and says so in the log first: a disk that cannot take it changes nothing
    /// of what was found.
    pub(crate) fn record(&self, store: &Store) {
        log::error!("{self}");
        if let Err(error) = self.write(store) {
            log::error!(
                "{} could not be written: {error}; start with -scriptengine=core, or with an empty file of that name.",
                path(store).display()
            );
        }
    }

    fn write(&self, store: &Store) -> Result<(), StoreError> {
        let (disk, path) = (store.disk(), path(store));
        let file = disk.open(&path, OpenMode::Truncate)?;
        file.write_all_at(0, self.report.as_bytes())?;
        file.sync()?;
        disk.sync_dir(store.dir())
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, txid, input, .. } = self;
        write!(
            f,
            "input {input} of transaction {txid} in block {block}: its signatures hold, but Bitcoin \
             Core's script engine refuses it; please report the file {} in the directory of the \
             network, and start again: while it is there, the engine judges alone",
            Self::FILE
        )
    }
}

/// The record of an earlier run, if there is one.
pub(crate) fn find(store: &Store) -> Result<Option<PathBuf>, StoreError> {
    let path = path(store);
    let entries = store.disk().list(store.dir())?;
    Ok(entries.contains(&path).then_some(path))
}

fn path(store: &Store) -> PathBuf {
    store.dir().join(Contradiction::FILE)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}
