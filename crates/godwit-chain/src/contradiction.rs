//! The record of an input whose signatures godwit proved valid but which Core's engine refused.
//!
//! This must not happen, because one of the two is wrong. So neither is believed: the node ends, and this
//! file in the network's directory describes the case. As long as the file exists, Core's engine judges
//! alone; the operator removes it after reading it.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use godwit_primitives::{BlockHash, Coin, ScriptFlags, Txid};
use godwit_store::StoreError;
use godwit_store::disk::{OpenMode, StoreDisk};

use crate::apply::Resolved;
use crate::structure::Structured;

/// An input about which lanes and engine differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The block that has it.
    pub block: BlockHash,
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
        let flags = resolved.flags();
        Self::of(resolved.block(), flags, tx, input, resolved.spent_by(tx))
    }

    /// The same, of a block whose transaction spends these coins, or is said to.
    pub(crate) fn of(
        block: &Structured,
        flags: ScriptFlags,
        tx: usize,
        input: usize,
        spent: &[Coin],
    ) -> Self {
        let view = block.view().tx(tx);
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

    /// Makes the record durable in a network's directory, and says so in the log first: a disk that cannot
    /// take it changes nothing of what was found.
    pub(crate) fn record(&self, disk: &StoreDisk, dir: &Path) {
        log::error!("{self}");
        if let Err(error) = self.write(disk, dir) {
            log::error!(
                "{} could not be written: {error}; start with -scriptengine=core, or with an empty file of that name.",
                dir.join(Self::FILE).display()
            );
        }
    }

    fn write(&self, disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
        let file = disk.open(&dir.join(Self::FILE), OpenMode::Truncate)?;
        file.write_all_at(0, self.report.as_bytes())?;
        file.sync()?;
        disk.sync_dir(dir)
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

/// The record of an earlier run in a network's directory, if there is one.
pub(crate) fn find(disk: &StoreDisk, dir: &Path) -> Result<Option<PathBuf>, StoreError> {
    let path = dir.join(Contradiction::FILE);
    Ok(disk.list(dir)?.contains(&path).then_some(path))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}
