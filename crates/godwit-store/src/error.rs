//! Failures below the chain: a system call failed, or bytes on disk are not what was written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use godwit_primitives::BlockHash;
use godwit_stream::DecodeError;
use rustix::io::Errno;

use crate::names::{UTXO_DIR, XOR_FILE};

/// The system call family that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening a file for reading.
    Open,
    /// Opening a file for writing, which creates it when absent.
    Create,
    /// A positional read.
    Read,
    /// A positional write.
    Write,
    /// `fdatasync` of a file.
    Sync,
    /// Asking for a file's length, or whether there is one.
    Length,
    /// Truncating or extending a file.
    SetLength,
    /// Asking whether a directory may be changed.
    Access,
    /// Creating a directory and its parents.
    CreateDir,
    /// `fsync` of a directory.
    SyncDir,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Listing a directory.
    List,
    /// Locking the data directory.
    Lock,
    /// Starting a background thread.
    Spawn,
}

impl Operation {
    /// Whether a failure leaves unknown what is on disk. After a failed write or fsync the kernel
    /// may drop the dirty pages and report success to a second fsync, so these close the store.
    pub fn changes_disk(self) -> bool {
        match self {
            Operation::Create
            | Operation::Write
            | Operation::Sync
            | Operation::SetLength
            | Operation::CreateDir
            | Operation::SyncDir
            | Operation::Rename
            | Operation::Remove => true,
            Operation::Open
            | Operation::Read
            | Operation::Length
            | Operation::List
            | Operation::Access
            | Operation::Lock
            | Operation::Spawn => false,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Create => "open for writing",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "fsync",
            Operation::Length => "stat",
            Operation::SetLength => "truncate",
            Operation::Access => "change",
            Operation::CreateDir => "create directory",
            Operation::SyncDir => "fsync directory",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::List => "list",
            Operation::Lock => "lock",
            Operation::Spawn => "start a thread for",
        })
    }
}

/// One failed system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoFailure {
    /// The file or directory operated on.
    pub path: PathBuf,
    pub operation: Operation,
    /// The standard library's classification.
    pub kind: io::ErrorKind,
    /// `errno`, when the failure came from the operating system.
    pub os_error: Option<i32>,
    /// What it says where it did not.
    pub text: Option<String>,
}

impl IoFailure {
    /// Records `error` with the place where it happened.
    pub fn new(path: &Path, operation: Operation, error: &io::Error) -> Self {
        let (kind, os_error) = (error.kind(), error.raw_os_error());
        let text = error.get_ref().map(ToString::to_string);
        IoFailure { path: path.to_owned(), operation, kind, os_error, text }
    }

    /// The volume or the user's quota is exhausted (ENOSPC, EDQUOT).
    pub fn is_disk_full(&self) -> bool {
        matches!(self.kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// The system does not let this process use the file, or the file is of the wrong kind.
    fn is_refusal(&self) -> bool {
        matches!(
            self.kind,
            io::ErrorKind::PermissionDenied
                | io::ErrorKind::ReadOnlyFilesystem
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::NotSeekable
        )
    }
}

impl fmt::Display for IoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.operation, self.path.display())?;
        match (self.os_error, &self.text) {
            (Some(code), _) => io::Error::from_raw_os_error(code).fmt(f),
            (None, Some(text)) => f.write_str(text),
            (None, None) => self.kind.fmt(f),
        }
    }
}

/// A range of coins, by the keyed hashes of their outpoints, both ends included. It may be larger than the
/// damage, never smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The partition that all of them belong to.
    pub partition: u8,
    pub first: u64,
    pub last: u64,
}

/// Why stored bytes are not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A checksum over the bytes does not match.
    Checksum,
    /// A block of coins in a run does not match its checksum, and parity cannot restore it. All other blocks
    /// can be read.
    Coins(KeyRange),
    /// A merge did not write what it read: a fault of the memory, or of the program.
    EntrySum,
    /// The file ends before bytes that a commit has named.
    Short,
    /// The database is older than the last commit: its own repair has rolled it back, or a copy from another
    /// time was put in its place.
    RolledBack,
    /// A file that a commit has named does not exist.
    MissingFile,
    /// The bytes do not decode.
    Decode(DecodeError),
    /// Bytes are left over after the value.
    TrailingBytes,
    /// A magic number, version or fixed field has another value than the format demands.
    Format,
    /// `redb` found its file or its pages inconsistent.
    Database,
    /// `redb` lacks a table or an entry that every committed database has.
    MissingEntry,
    /// Two parts that must agree do not, though all checksums hold.
    Disagreement(&'static str),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Checksum => f.write_str("checksum mismatch"),
            Damage::Coins(KeyRange { partition, first, last }) => write!(
                f,
                "checksum mismatch, too much to be repaired from parity: coins of partition \
                 {partition}, keys {first:016x} to {last:016x}"
            ),
            Damage::EntrySum => {
                f.write_str("a merge wrote other coins than it read: is the memory sound?")
            }
            Damage::Short => f.write_str("file ends before committed bytes"),
            Damage::RolledBack => f.write_str("the database is older than the last commit"),
            Damage::MissingFile => f.write_str("the file is missing"),
            Damage::Decode(error) => write!(f, "undecodable: {error}"),
            Damage::TrailingBytes => f.write_str("bytes left over after the value"),
            Damage::Format => f.write_str("not in the expected format"),
            Damage::Database => f.write_str("the database file is inconsistent"),
            Damage::MissingEntry => f.write_str("the database lacks an entry it must have"),
            Damage::Disagreement(what) => f.write_str(what),
        }
    }
}

/// The part of a data directory that is damaged, distinguished by what rebuilds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagedPart {
    /// Runs of coins.
    Coins,
    /// The database, or the block files that it describes.
    Index,
}

impl DamagedPart {
    /// What rebuilds this part; `whole` is the result of [`crate::has_whole_history`].
    pub fn remedy(self, whole: bool) -> Remedy {
        match (self, whole) {
            (DamagedPart::Coins, true) => Remedy::FromBlocks,
            (DamagedPart::Index, true) => Remedy::Reindex,
            (_, false) => Remedy::Download,
        }
    }
}

/// What repairs damage. `Display` is for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing is left to do: it was repaired just now.
    Done,
    /// `verify -repair`, from the stored data.
    Repair,
    /// `verify -repair`, which reads all blocks to restore the coins.
    FromBlocks,
    /// The next start of the node, from the block files.
    Restart,
    /// The node, which validates the history below a loaded snapshot from genesis again.
    Validation,
    /// The node fetches the block again when it reads it.
    Peers,
    /// The node fetches this block again on request; it would not read the block by itself for a long time.
    OnRequest(BlockHash),
    /// The node, from the blocks that created the coins, when it disconnects the block. `-reindex-chainstate`
    /// does it for all such blocks at once.
    WhenDisconnected,
    /// `verify -repair`, but only for undo records whose coins come from stored blocks; not all blocks are
    /// stored.
    RepairWhereStored,
    /// `verify -repair`, after the node has fetched the damaged blocks that may have created the coins.
    RepairOnceFetched,
    /// For undo records that `verify -repair` could not rebuild: nothing, or a download if something needs
    /// them.
    LacksCoins,
    ReindexChainstate,
    Reindex,
    /// `-reindex`, which downloads the blocks that the block files lack.
    Download,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Remedy::Done => "repaired",
            Remedy::Repair => "`godwit verify -repair` repairs it",
            Remedy::FromBlocks => "`godwit verify -repair` makes the coins again from the block files",
            Remedy::Restart => "the next start makes it again from the block files",
            Remedy::Validation => {
                "the history below the snapshot has to be validated from genesis again, which `godwit verify -repair` \
                 has the next start begin"
            }
            Remedy::Peers => {
                "the node fetches it again from a peer when it needs it, and sends it to nobody before"
            }
            Remedy::OnRequest(hash) => {
                return write!(
                    f,
                    "a node with peers fetches it again when it is asked for it, by `godwit-cli getblock {hash} 0`, and \
                     `godwit import -reindex-chainstate PATH` takes it from block files that have it"
                );
            }
            Remedy::WhenDisconnected => {
                "the node makes it again from the blocks when it disconnects one of these; \
                 `godwit -reindex-chainstate` makes all of them again"
            }
            Remedy::RepairWhereStored => {
                "`godwit verify -repair` makes it again, as far as the blocks that created its coins are stored"
            }
            Remedy::RepairOnceFetched => {
                "`godwit verify -repair` makes it again once the node has fetched the damaged blocks"
            }
            Remedy::LacksCoins => {
                "`godwit verify -repair` does not make it again; a reorganisation that disconnects its block, \
                 optional indexes, hand-over, and methods that tell what the block spent need it: for these, \
                 `godwit -reindex` downloads the chain again"
            }
            Remedy::ReindexChainstate => {
                "`godwit -reindex-chainstate` makes the coins again from the block files"
            }
            Remedy::Reindex => {
                "`godwit -reindex` makes index and coins again from the block files"
            }
            Remedy::Download => {
                "old blocks are not stored here: `godwit -reindex` deletes the others and downloads the \
                 chain again"
            }
        })
    }
}

/// Magic and genesis block of the network that a data directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkId {
    /// The four message start bytes (`pchMessageStart`).
    pub magic: [u8; 4],
    /// Hash of the genesis block, internal byte order.
    pub genesis: [u8; 32],
}

/// Every failure of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// A system call failed just now.
    Io(IoFailure),
    /// An earlier write or fsync failed (named inside): the store stays closed until restart.
    Closed(IoFailure),
    /// Another process holds the data directory's lock file.
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// Stored bytes are damaged.
    Damaged {
        path: PathBuf,
        /// Byte offset in it where the damage was noticed, 0 when it concerns the whole file.
        offset: u64,
        damage: Damage,
    },
    /// None of the files that the last commit names exists. Their disk is more likely not mounted than all of
    /// them lost.
    AllMissing {
        /// The directory that they belong in.
        dir: PathBuf,
        part: DamagedPart,
        /// How many are named.
        named: usize,
        /// Whether the lost files can be rebuilt from the stored data, as [`crate::has_whole_history`] says.
        whole: bool,
    },
    /// The data directory belongs to another network.
    OtherNetwork {
        /// The database that says so.
        path: PathBuf,
        /// Network of the data directory.
        found: NetworkId,
        /// Network that was asked for.
        expected: NetworkId,
    },
    /// A newer godwit wrote this data directory.
    NewerSchema {
        /// The database that says so.
        path: PathBuf,
        /// Its schema version.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// The directory is Bitcoin Core's own: godwit would append to its block files.
    CoreDirectory {
        /// What only Core's data directory contains.
        path: PathBuf,
    },
    /// Bitcoin Core was started on godwit's directory, and may be running.
    CoreStarted {
        /// What only Core's data directory contains.
        path: PathBuf,
        /// The network's directory.
        dir: PathBuf,
    },
    /// Nothing shows that the directory is godwit's, and one of its block or undo files cannot be: godwit
    /// would cut it off as torn.
    ForeignFile {
        /// The first one.
        path: PathBuf,
    },
    /// Another program's key lies beside godwit's block files, which may have been obfuscated with it.
    ObfuscatedFiles {
        /// The file with the key.
        key: PathBuf,
    },
    /// The file system does not do what the store relies on.
    UnsuitableFileSystem {
        /// The network's directory.
        dir: PathBuf,
        /// The missing property, for the message to the user.
        lacks: &'static str,
    },
    /// The coins were to be rebuilt from the block files, which lack blocks: they were pruned, or never
    /// stored because the coins were loaded from a snapshot.
    IncompleteHistory {
        /// The network's directory.
        dir: PathBuf,
    },
    /// The caller asked to stop. What was done so far stays.
    Stopped,
    /// A directory given as a source of blocks holds no `blk*.dat` file.
    NoBlockFiles { path: PathBuf },
    /// A background thread panicked, which is a bug. Its work is unfinished.
    Panicked { thread: &'static str },
    /// The disk lacks the room for files that are to be written anew, so that was not begun.
    LacksRoom {
        /// The directory that it belongs in.
        dir: PathBuf,
        /// Bytes that have to be free.
        needed: u64,
        /// Bytes that are.
        free: u64,
    },
    /// A record longer than its file format can carry was handed in.
    RecordTooLarge {
        /// Its length in bytes.
        len: u64,
    },
}

impl StoreError {
    pub(crate) fn damaged(path: &Path, offset: u64, damage: Damage) -> Self {
        StoreError::Damaged { path: path.to_owned(), offset, damage }
    }

    /// The volume is full: the one failure that the user can repair without replacing hardware.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Io(failure) | StoreError::Closed(failure) => failure.is_disk_full(),
            StoreError::LacksRoom { .. } => true,
            _ => false,
        }
    }

    /// The path that this process may not use, or that is of the wrong kind. Further attempts fail in the
    /// same way until the operator changes that.
    pub fn unusable_path(&self) -> Option<&Path> {
        match self {
            StoreError::Io(failure) | StoreError::Closed(failure) if failure.is_refusal() => {
                Some(&failure.path)
            }
            _ => None,
        }
    }

    /// The damaged part, if this error reports damage.
    pub fn damaged_part(&self) -> Option<DamagedPart> {
        let StoreError::Damaged { path, .. } = self else { return None };
        if path.file_name().is_some_and(|name| name == XOR_FILE) {
            return None;
        }
        let is_of_coins = |path: &Path| path.file_name().is_some_and(|name| name == UTXO_DIR);
        let of_coins = is_of_coins(path) || path.parent().is_some_and(is_of_coins);
        Some(if of_coins { DamagedPart::Coins } else { DamagedPart::Index })
    }

    /// The file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, StoreError::Io(failure) if failure.kind == io::ErrorKind::NotFound)
    }

    /// Whether a read failed because of the place that was read: the file ends before it, or the medium does
    /// not return it.
    pub fn is_unreadable(&self) -> bool {
        let StoreError::Io(failure) = self else { return false };
        failure.kind == io::ErrorKind::UnexpectedEof
            || failure.os_error == Some(Errno::IO.raw_os_error())
    }

    /// Whether a read failed because the written bytes are gone: the medium does not return them, their file
    /// is gone, or they have changed. Only a copy helps then, not another attempt.
    pub fn is_rotten(&self) -> bool {
        self.is_unreadable() || self.is_not_found() || matches!(self, StoreError::Damaged { .. })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Io(failure) => failure.fmt(f),
            StoreError::Closed(failure) => {
                write!(f, "store closed by an earlier failure ({failure}); restart to recover")
            }
            StoreError::Locked { path } => {
                write!(f, "{} is locked: another process uses this directory", path.display())
            }
            StoreError::Damaged { path, offset, damage } => {
                write!(f, "{} at byte {offset}: {damage}", path.display())
            }
            StoreError::AllMissing { dir, part, named, whole } => {
                f.write_str(&all_missing(dir, *part, *named, *whole))
            }
            StoreError::OtherNetwork { path, found, expected } => write!(
                f,
                "{} belongs to another network (magic {:02x?}, expected {:02x?})",
                path.display(),
                found.magic,
                expected.magic
            ),
            StoreError::NewerSchema { path, found, supported } => write!(
                f,
                "{} has schema version {found}, this program reads up to {supported}; use the newer one that wrote it",
                path.display()
            ),
            StoreError::CoreDirectory { path } => write!(
                f,
                "{} belongs to Bitcoin Core; godwit needs a data directory of its own",
                path.display()
            ),
            StoreError::CoreStarted { path, dir } => f.write_str(&core_started(path, dir)),
            StoreError::ForeignFile { path } => write!(
                f,
                "{} is not one that godwit wrote for this network: it is Bitcoin Core's, obfuscated, or of another \
                 network (or signet challenge); godwit needs a data directory of its own",
                path.display()
            ),
            StoreError::ObfuscatedFiles { key } => f.write_str(&obfuscated(key)),
            StoreError::UnsuitableFileSystem { dir, lacks } => write!(
                f,
                "{}: the file system {lacks}, without which a power cut could cost everything; put the data \
                 directory on another one",
                dir.display()
            ),
            StoreError::IncompleteHistory { dir } => write!(
                f,
                "{}: -reindex-chainstate needs all blocks, and old ones are not stored here (they were \
                 pruned, or the coins came from a snapshot): use -reindex, which deletes the others and \
                 downloads the whole chain again",
                dir.display()
            ),
            StoreError::Stopped => f.write_str("stopped; the next start resumes it"),
            StoreError::NoBlockFiles { path } => {
                write!(f, "{} contains no blk*.dat file", path.display())
            }
            StoreError::Panicked { thread } => write!(f, "the thread {thread} panicked"),
            StoreError::LacksRoom { dir, needed, free } => write!(
                f,
                "{}: coins have to be written anew, and the disk lacks {} MiB of {} MiB that have to be free for it",
                dir.display(),
                needed.saturating_sub(*free).div_ceil(1 << 20),
                needed.div_ceil(1 << 20)
            ),
            StoreError::RecordTooLarge { len } => {
                write!(f, "a record of {len} bytes exceeds the file format")
            }
        }
    }
}

/// Tells the user what to do if a directory that should be full is empty.
fn all_missing(dir: &Path, part: DamagedPart, named: usize, whole: bool) -> String {
    let (what, remedy) = match part {
        // Not from the block files, as where some are left.
        DamagedPart::Index => {
            ("block file", "`godwit -reindex` downloads the chain again".to_owned())
        }
        DamagedPart::Coins => ("file of coins", part.remedy(whole).to_string()),
    };
    format!(
        "{} holds no {what}, and the last commit names {named}: is its disk mounted? Only if they are lost: {remedy}",
        dir.display()
    )
}

/// Tells the user what to do after bitcoind was started on godwit's directory.
fn core_started(path: &Path, dir: &Path) -> String {
    format!(
        "{} was made by a bitcoind that was started on godwit's directory: make sure that none runs, delete \
         chainstate, blocks/index and blocks/.lock in {}, and start again; blocks that it has overwritten are \
         fetched again",
        path.display(),
        dir.display()
    )
}

/// Tells the user what to do after Core's files took the place of godwit's.
fn obfuscated(key: &Path) -> String {
    format!(
        "{} has a key, and no block file beside it begins as godwit's do: they are Bitcoin Core's, obfuscated. Move \
         all of them to another directory, which `godwit import` reads; if they are godwit's, and damaged, delete \
         that file alone",
        key.display()
    )
}

impl std::error::Error for StoreError {}
