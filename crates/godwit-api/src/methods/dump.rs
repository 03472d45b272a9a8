//! `dumptxoutset`: writes the coins of the tip to a file that other nodes can load.

use std::path::{Path, PathBuf};

use godwit_chain::{CoinsHash, CoinsView, DumpError, SnapshotDump};
use godwit_primitives::{BlockHash, ReversedHex};
use godwit_rpc::{Json, RpcError, code};
use godwit_store::StoreError;
use godwit_store::disk::StoreDisk;

use super::Call;
use super::coins::{Space, check, count, free, in_turn, unsorted};
use super::named::Named;

fn unfit(text: String) -> RpcError {
    RpcError::new(code::INVALID_PARAMETER, text)
}

/// The block whose coins are wanted, unless those of the tip are.
fn wanted(call: &Call<'_>) -> Result<Option<Named>, RpcError> {
    let kind = match call.arg(1) {
        Json::Null => "",
        kind => kind.as_text()?,
    };
    let rollback = call.arg(2).get("rollback");
    match (rollback, kind) {
        (Some(block), "" | "rollback") => Named::parse(block).map(Some),
        (Some(_), kind) => {
            Err(unfit(format!("Invalid snapshot type \"{kind}\" specified with rollback option")))
        }
        (None, "latest") => Ok(None),
        (None, "rollback") => highest_snapshot(call).map(Some),
        (None, kind) => Err(unfit(format!(
            "Invalid snapshot type \"{kind}\" specified. Please specify \"rollback\" or \"latest\""
        ))),
    }
}

/// The highest block of the network whose coins can be loaded without further ado.
fn highest_snapshot(call: &Call<'_>) -> Result<Named, RpcError> {
    let highest = call.node.ask(|node| {
        let known = node.chain().params().assumeutxo;
        known.iter().map(|snapshot| snapshot.height).max()
    })?;
    highest.map(Named::Height).ok_or_else(not_back)
}

fn not_back() -> RpcError {
    let text = "The coins of an earlier block cannot be dumped: only those of the tip";
    RpcError::new(code::MISC_ERROR, text)
}

/// The tip, if it is named so.
fn tip_that_is(call: &Call<'_>, named: Named) -> Result<BlockHash, RpcError> {
    let (named, tip) = call.node.ask(move |node| {
        let chain = node.chain();
        let hash = |id| chain.tree().node(id).hash;
        named.find(chain).map(|id| (hash(id), hash(chain.tip())))
    })??;
    check_is(tip, Some(named)).map(|()| tip)
}

/// Fails where another block is wanted.
fn check_is(tip: BlockHash, wanted: Option<BlockHash>) -> Result<(), RpcError> {
    match wanted {
        Some(wanted) if wanted != tip => Err(not_back()),
        _ => Ok(()),
    }
}

/// What the file is made of beside the coins.
struct Base {
    disk: StoreDisk,
    magic: [u8; 4],
    chain_tx_count: u64,
}

fn base(call: &Call<'_>, view: &CoinsView) -> Result<Base, RpcError> {
    let hash = view.tip().hash;
    call.node.ask(move |node| {
        let (chain, tree) = (node.chain(), node.chain().tree());
        let tip = tree.find(&hash).expect("it was the tip");
        let (disk, magic) = (chain.disk().clone(), chain.params().magic);
        Base { disk, magic, chain_tx_count: tree.node(tip).chain_tx_count }
    })
}

fn not_writable(path: &Path) -> RpcError {
    unfit(format!("Couldn't open file {}.incomplete for writing.", path.display()))
}

/// A path that is relative is so to the network's part of the data directory, and none at all is that
/// directory itself (Core `AbsPathJoin`; `join` would put a slash behind it).
fn path_in(dir: PathBuf, path: &str) -> PathBuf {
    if path.is_empty() { dir } else { dir.join(path) }
}

/// Whether the file may be made. As in Core, a symbolic link that leads nowhere is none, and is replaced.
fn check_absent(path: &Path) -> Result<(), RpcError> {
    match path.try_exists() {
        Ok(false) => Ok(()),
        Ok(true) => Err(unfit(format!(
            "{} already exists. If you are sure this is what you want, move it out of the way first",
            path.display()
        ))),
        Err(error) => {
            log::error!("dumptxoutset: {error}");
            Err(not_writable(path))
        }
    }
}

fn begin(disk: &StoreDisk, path: &Path) -> Result<SnapshotDump, RpcError> {
    SnapshotDump::begin(disk, path).map_err(|error| {
        log::error!("dumptxoutset: {error}");
        not_writable(path)
    })
}

/// What a dump that was begun and not stopped is answered with.
fn failed(path: &Path, error: &DumpError) -> RpcError {
    match error {
        DumpError::Coins(error) => unsorted(error),
        DumpError::File(error) => {
            let text = format!("Couldn't write {}: {error}", path.display());
            log::error!("dumptxoutset: {text}");
            RpcError::new(code::MISC_ERROR, text)
        }
    }
}

pub(super) fn coins(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let wanted = wanted(call)?.map(|named| tip_that_is(call, named)).transpose()?;
    let dir = call.api.log_path.parent().map(Path::to_owned).unwrap_or_default();
    let path = path_in(dir, call.arg(0).as_text()?);
    check_absent(&path)?;
    in_turn(call, |call, view, memory| {
        // The turn may have taken minutes to come.
        check_is(view.tip().hash, wanted)?;
        let base = base(call, view)?;
        let stats = count(call, view, CoinsHash::Serialized, memory)?;
        check_absent(&path)?;
        let dump = begin(&base.disk, &path)?;
        let free = || free(view);
        let space = Space::new(&free);
        let is_over = || check(call).is_err() || space.is_short();
        let written = dump.write(view, base.magic, stats.totals.txouts, memory, &is_over);
        if let Err(error) = written {
            return Err(match error {
                DumpError::Coins(StoreError::Stopped) => {
                    space.short.take().unwrap_or_else(|| call.node.ended())
                }
                error => failed(&path, &error),
            });
        }
        Ok(Json::object([
            ("coins_written", stats.totals.txouts.into()),
            ("base_hash", view.tip().hash.to_string().into()),
            ("base_height", view.tip().height.into()),
            ("path", path.display().to_string().into()),
            ("txoutset_hash", ReversedHex(&stats.hash).to_string().into()),
            ("nchaintx", base.chain_tx_count.into()),
        ]))
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use godwit_store::error::{IoFailure, Operation};

    use super::*;

    #[test]
    fn the_coins_of_another_block_than_the_wanted_one_are_not_dumped() {
        let [one, other] = [1, 2].map(|n| BlockHash::from_bytes([n; 32]));
        assert_eq!(check_is(one, None), Ok(()));
        assert_eq!(check_is(one, Some(one)), Ok(()));
        assert_eq!(check_is(other, Some(one)), Err(not_back()));
    }

    #[test]
    fn a_path_is_relative_to_the_networks_directory() {
        for (path, of) in [("x", "/data/regtest/x"), ("/x", "/x"), ("", "/data/regtest")] {
            assert_eq!(path_in(PathBuf::from("/data/regtest"), path).display().to_string(), of);
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named_and_the_coins_are_not_blamed() {
        let path = Path::new("/full/x.dat");
        let full = io::Error::from_raw_os_error(28);
        let of = |operation| IoFailure::new(Path::new("/full/x.dat.incomplete"), operation, &full);
        for (operation, word) in
            [(Operation::Write, "write"), (Operation::Sync, "fsync"), (Operation::Rename, "rename")]
        {
            let error = failed(path, &DumpError::File(StoreError::Io(of(operation))));
            let text = format!("Couldn't write /full/x.dat: {word} /full/x.dat.incomplete: {full}");
            assert_eq!(error, RpcError::new(code::MISC_ERROR, text));
        }
        let error = failed(path, &DumpError::Coins(StoreError::Io(of(Operation::Read))));
        assert_eq!(error, RpcError::new(code::INTERNAL_ERROR, "Unable to read UTXO set"));
    }

    #[test]
    fn a_scratch_file_that_cannot_be_written_is_named_and_the_coins_are_not_blamed() {
        let (full, scratch) = (io::Error::from_raw_os_error(28), "/data/utxo/1.run");
        for operation in [Operation::Create, Operation::Write] {
            let failure = IoFailure::new(Path::new(scratch), operation, &full);
            let text = format!("Couldn't sort the UTXO set: {operation} {scratch}: {full}");
            for error in [StoreError::Io(failure.clone()), StoreError::Closed(failure)] {
                let error = failed(Path::new("/elsewhere/x.dat"), &DumpError::Coins(error));
                assert_eq!(error, RpcError::new(code::INTERNAL_ERROR, &*text));
            }
        }
    }
}
