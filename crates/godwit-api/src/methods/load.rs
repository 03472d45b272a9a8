//! `loadtxoutset`: replaces the node's coins by those of a snapshot (Core `rpc/blockchain.cpp`,
//! `loadtxoutset`; `validation.cpp`, `ActivateSnapshot`, `PopulateAndValidateSnapshot`).

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use godwit_chain::{
    BaseFault, Chain, HeaderFault, SnapshotError, SnapshotFlaw, SnapshotHeader,
    check_snapshot_base, deletes_blocks,
};
use godwit_index::{Indexes, Status};
use godwit_primitives::{BlockHash, Network, Params};
use godwit_rpc::{Json, RpcError, code};

use super::Call;
use crate::seam::NodeState;
use crate::snapshot_load::{LoadOutcome, SnapshotLoad};

/// Between two looks whether the client still waits, and the server is not about to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Core's words where one snapshot is loaded, or about to be.
const MORE_THAN_ONCE: &str = "Can't activate a snapshot-based chainstate more than once";

pub(super) fn coins(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let path = absolute(&call.api.log_path, call.arg(0).as_text()?);
    let magic = call.node.params().magic;
    let first = first_bytes(&path)?;
    let header = SnapshotHeader::parse(&first.bytes, magic)
        .map_err(|fault| unparsed(&first, fault, call.node.params()))?;
    let _waiting = call.api.begin_wait()?;
    let (load, outcome) = SnapshotLoad::new(path.clone());
    let indexed = lowest_indexed(call.node.indexes());
    call.node
        .ask(move |node| {
            check(node, &header.base)?;
            check_indexes(node.chain(), &header.base, indexed)?;
            node.load_snapshot(load).map_err(|_| MORE_THAN_ONCE.to_owned())
        })?
        .map_err(|why| refused(&why, &path))?;
    let loaded = wait(call, &outcome)?
        .map_err(|error| refused(&format!("Population failed: {}", words(&error)), &path))?;
    Ok(Json::object([
        ("coins_loaded", loaded.coins.into()),
        ("tip_hash", loaded.base.hash.to_string().into()),
        ("base_height", loaded.base.height.into()),
        ("path", path.display().to_string().into()),
    ]))
}

/// A path that is relative is so to the network's part of the data directory, where the log is; none at all
/// stays none (Core `AbsPathForConfigVal`).
fn absolute(log: &Path, path: &str) -> PathBuf {
    match log.parent() {
        Some(dir) if !path.is_empty() => dir.join(path),
        _ => PathBuf::from(path),
    }
}

fn refused(why: &str, path: &Path) -> RpcError {
    let text = format!("Unable to load UTXO snapshot: {why}. ({})", path.display());
    RpcError::new(code::INTERNAL_ERROR, text)
}

/// The beginning of a file, as far as it can be read.
#[derive(Debug, Default)]
struct First {
    bytes: Vec<u8>,
    /// They are not the end of the file: the system could not read on.
    has_failed: bool,
}

/// A named pipe, which would have to be waited for, is not opened: coins are read from a file twice.
fn open(path: &Path) -> io::Result<File> {
    match fs::metadata(path)?.file_type().is_fifo() {
        true => Err(io::ErrorKind::NotSeekable.into()),
        false => File::open(path),
    }
}

fn first_bytes(path: &Path) -> Result<First, RpcError> {
    let file = open(path).map_err(|error| {
        log::warn!("loadtxoutset: {}: {error}", path.display());
        let text = format!("Couldn't open file {} for reading.", path.display());
        RpcError::new(code::INVALID_PARAMETER, text)
    })?;
    let mut bytes = Vec::with_capacity(SnapshotHeader::SIZE);
    let read = file.take(SnapshotHeader::SIZE as u64).read_to_end(&mut bytes);
    Ok(First { bytes, has_failed: read.is_err() })
}

fn unparsed(first: &First, fault: HeaderFault, params: &Params) -> RpcError {
    let why = match fault {
        HeaderFault::CutOff if first.has_failed => "AutoFile::read: fread failed".to_owned(),
        HeaderFault::CutOff => "AutoFile::read: end of file".to_owned(),
        HeaderFault::Magic => {
            "Invalid UTXO set snapshot magic bytes. Please check if this is indeed a snapshot file or if \
             you are using an outdated snapshot format."
                .to_owned()
        }
        HeaderFault::Version(version) => format!(
            "Version of snapshot {version} does not match any of the supported versions."
        ),
        HeaderFault::OtherNetwork(magic) => {
            match Network::ALL.into_iter().find(|network| Params::new(*network).magic == magic) {
                Some(network) => format!(
                    "The network of the snapshot ({}) does not match the network of this node ({}).",
                    network.name(),
                    params.network.name()
                ),
                None => "This snapshot has been created for an unrecognized network. This could be a \
                         custom signet, a new testnet or possibly caused by data corruption."
                    .to_owned(),
            }
        }
    };
    // What a C++ library adds to the text of such an exception.
    let text = format!("Unable to parse metadata: {why}: iostream error");
    RpcError::new(code::DESERIALIZATION_ERROR, text)
}

/// All that can be known before the run ends, in Core's order.
fn check(node: &dyn NodeState, base: &BlockHash) -> Result<(), String> {
    let chain = node.chain();
    if chain.assumed().is_some() {
        return Err(MORE_THAN_ONCE.to_owned());
    }
    let known = chain.params().assumeutxo;
    if known.iter().all(|known| known.blockhash != *base) {
        let heights: Vec<String> = known.iter().map(|known| known.height.to_string()).collect();
        return Err(format!(
            "assumeutxo block hash in snapshot metadata not recognized (hash: {base}). The following \
             snapshot heights are available: {}",
            heights.join(", ")
        ));
    }
    let fault = check_snapshot_base(chain, base).err();
    match fault.map(|fault| base_words(fault, base)) {
        Some(Of::Header(why)) => Err(why),
        // What is in a block is kept behind it for a while, and is in no mempool of Core's.
        _ if node.peers().outbox().waiting().next().is_some() => {
            Err("Can't activate a snapshot when mempool not empty".to_owned())
        }
        Some(Of::Work(why)) => Err(format!("Population failed: {why}")),
        None => Ok(()),
    }
}

/// Up to where all indexes are that blocks are kept for; `None` where there is no such index.
fn lowest_indexed(indexes: &Indexes) -> Option<u32> {
    let filters = indexes.filters.as_ref().map(|index| index.status());
    let coin_stats = indexes.coin_stats.as_ref().map(|index| index.status());
    let height = |status: &Status| status.best().map_or(0, |best| best.height);
    [filters, coin_stats].into_iter().flatten().map(height).min()
}

/// With pruning, the node would not start behind the load if one of its indexes had to read blocks below the
/// snapshot's.
fn check_indexes(chain: &Chain, base: &BlockHash, indexed: Option<u32>) -> Result<(), String> {
    let base = chain.tree().find(base).map_or(0, |id| chain.tree().node(id).height);
    match indexed.filter(|height| deletes_blocks(chain) && *height < base) {
        Some(height) => Err(format!(
            "With -prune, the indexes have to be complete up to the snapshot's height, and one is at {height}"
        )),
        None => Ok(()),
    }
}

/// Core looks at the work of a base after all else.
#[derive(Debug, PartialEq, Eq)]
enum Of {
    Header(String),
    Work(String),
}

fn base_words(fault: BaseFault, base: &BlockHash) -> Of {
    match fault {
        BaseFault::AlreadyLoaded(_) => Of::Header(MORE_THAN_ONCE.to_owned()),
        BaseFault::Unknown => Of::Header(format!(
            "The base block header ({base}) must appear in the headers chain. Make sure all headers are \
             syncing, and call loadtxoutset again"
        )),
        BaseFault::Invalid => {
            Of::Header(format!("The base block header ({base}) is part of an invalid chain"))
        }
        BaseFault::NotInBestChain(_) => Of::Header(
            "A forked headers-chain with more work than the chain with the snapshot base block header \
             exists. Please proceed to sync without AssumeUtxo."
                .to_owned(),
        ),
        BaseFault::NotAhead(_) => Of::Work("Work does not exceed active chainstate".to_owned()),
    }
}

/// What Core says of coins that it does not take.
fn words(error: &SnapshotError) -> String {
    match error {
        SnapshotError::Malformed { coins, flaw, .. } => match flaw {
            SnapshotFlaw::Format => format!(
                "Bad snapshot format or truncated snapshot after deserializing {coins} coins"
            ),
            SnapshotFlaw::Count => {
                "Mismatch in coins count in snapshot metadata and actual snapshot data".to_owned()
            }
            // Of one that cannot be spent, Core says at the end that the hash is another one.
            SnapshotFlaw::Coin | SnapshotFlaw::Unspendable => {
                format!("Bad snapshot data after deserializing {coins} coins")
            }
            SnapshotFlaw::Amount => {
                format!("Bad snapshot data after deserializing {coins} coins - bad tx out value")
            }
        },
        SnapshotError::TrailingBytes { coins, .. } => {
            format!("Bad snapshot - coins left over after deserializing {coins} coins")
        }
        SnapshotError::WrongHash { found, expected, .. } => format!(
            "Bad snapshot content hash: expected {}, got {}",
            BlockHash::from_bytes(*expected),
            BlockHash::from_bytes(*found)
        ),
        error if error.is_stop() => "Aborting after an interrupt was requested".to_owned(),
        // The file or the chain became another one meanwhile, or the disk failed.
        error => error.to_string(),
    }
}

/// Waits while the node is not there. It does not take the word back where the client goes.
fn wait(call: &Call<'_>, outcome: &Receiver<LoadOutcome>) -> Result<LoadOutcome, RpcError> {
    loop {
        match outcome.recv_timeout(LOOK_INTERVAL) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) if !(call.is_gone)() && !call.api.stage.has_ended() => {}
            Err(_) => return Err(RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down")),
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_chain::ChainError;
    use godwit_store::StoreError;

    use super::*;

    #[test]
    fn a_path_is_relative_to_the_networks_directory() {
        let path = |path| absolute(Path::new("/data/regtest/debug.log"), path);
        assert_eq!(path("utxo.dat"), Path::new("/data/regtest/utxo.dat"));
        assert_eq!(path("/utxo.dat"), Path::new("/utxo.dat"));
        assert_eq!(path(""), Path::new(""));
    }

    #[test]
    fn a_network_that_is_known_is_named() {
        let params = Params::new(Network::Regtest);
        let first = First::default();
        for network in Network::ALL {
            let fault = HeaderFault::OtherNetwork(Params::new(network).magic);
            let text = unparsed(&first, fault, &params).message;
            assert!(text.contains(&format!("snapshot ({}) does", network.name())), "{text}");
        }
        let text = unparsed(&first, HeaderFault::OtherNetwork([0; 4]), &params).message;
        assert!(text.contains("for an unrecognized network"), "{text}");
    }

    /// Core's `PopulateAndValidateSnapshot`, from its first refusal to its last.
    #[test]
    fn coins_are_refused_in_cores_words() {
        let path = || PathBuf::from("utxo.dat");
        let malformed =
            |flaw| words(&SnapshotError::Malformed { path: path(), offset: 99, coins: 7, flaw });
        assert_eq!(
            malformed(SnapshotFlaw::Count),
            "Mismatch in coins count in snapshot metadata and actual snapshot data"
        );
        for flaw in [SnapshotFlaw::Coin, SnapshotFlaw::Unspendable] {
            assert_eq!(malformed(flaw), "Bad snapshot data after deserializing 7 coins");
        }
        assert_eq!(
            malformed(SnapshotFlaw::Amount),
            "Bad snapshot data after deserializing 7 coins - bad tx out value"
        );
        assert_eq!(
            malformed(SnapshotFlaw::Format),
            "Bad snapshot format or truncated snapshot after deserializing 7 coins"
        );
        assert_eq!(
            words(&SnapshotError::TrailingBytes { path: path(), offset: 99, coins: 7 }),
            "Bad snapshot - coins left over after deserializing 7 coins"
        );
        let (mut found, mut expected) = ([0; 32], [0; 32]);
        (found[0], expected[31]) = (1, 2);
        let wrong = SnapshotError::WrongHash { path: path(), found, expected };
        assert_eq!(
            words(&wrong),
            format!("Bad snapshot content hash: expected 02{:062}, got {:062}01", 0, 0)
        );
        let stopped = SnapshotError::Chain(ChainError::Store(StoreError::Stopped));
        assert_eq!(words(&stopped), "Aborting after an interrupt was requested");
    }
}
