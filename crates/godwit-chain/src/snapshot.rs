//! UTXO snapshots in the format of Core's `dumptxoutset`, byte for byte.
//!
//! A file is a header of 51 bytes — magic `utxo\xff`, version 2 (u16), message start of the network,
//! hash of the base block, number of coins (u64) — and then for each transaction its txid, the number
//! of its coins (compact size) and for each coin the output number (compact size) and Core's
//! compressed form. Transactions come in the order of their txids as hashed, the coins of one in the
//! order of Core's database keys. Integers are little-endian. Source: Core `node/utxo_snapshot.h`,
//! `rpc/blockchain.cpp` (`WriteUTXOSnapshot`).

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_primitives::{BlockHash, Coin, OutPoint, Txid, money_range};
use godwit_store::disk::{OpenMode, StoreDisk, StoreFile};
use godwit_store::utxo::{HashedOutPoint, Layers, OutPointOrder};
use godwit_store::{ChainPoint, StoreError};
use godwit_stream::{DataStream, DecodeError, SpanReader};

use crate::chain::Chain;
use crate::coins_view::CoinsView;
use crate::error::ChainError;
use crate::reversed::Reversed;
use crate::stats::{SORT_BYTES, hash_serialized};
use crate::tree::NodeId;

const MAGIC: [u8; 5] = *b"utxo\xff";
const VERSION: u16 = 2;
const HEADER_SIZE: usize = 51;

/// Bytes that are gathered before a write, and read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// More than any entry of a valid snapshot needs: a script of 10,000 bytes and its numbers.
const ENTRY_BYTES: usize = 16 << 10;

/// Why a snapshot was not written or not loaded. A refused snapshot changes nothing.
#[derive(Debug)]
pub enum SnapshotError {
    Chain(ChainError),
    /// The file to write exists.
    Exists(PathBuf),
    /// The file does not start as a snapshot does.
    NotASnapshot(PathBuf),
    /// An unknown version.
    Version(PathBuf, u16),
    /// It belongs to another network.
    OtherNetwork(PathBuf),
    /// The header of its block is not in the datadir.
    UnknownBase(PathBuf, BlockHash),
    /// Its block or an ancestor is invalid.
    InvalidBase(PathBuf, BlockHash),
    /// A chain of headers that does not contain its block has more work: the best header of that
    /// chain.
    NotInBestChain(PathBuf, ChainPoint),
    /// The datadir's chain has at least as much work as the snapshot's block, or a stored branch
    /// has more and would replace it at once: its last block.
    NotAhead(PathBuf, ChainPoint),
    /// Neither the user nor the compiled-in list gives the expected hash.
    NoExpectedHash(PathBuf, ChainPoint),
    /// The bytes at this offset are no coin, or an impossible one.
    Malformed(PathBuf, u64),
    /// There are bytes behind the last coin.
    TrailingBytes(PathBuf, u64),
    /// Its coins do not have the expected hash.
    WrongHash {
        path: PathBuf,
        /// The hash of its coins, as the hash function gives it.
        found: [u8; 32],
        /// The expected hash.
        expected: [u8; 32],
    },
}

/// The snapshot that was written or loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The block whose coins it holds.
    pub base: ChainPoint,
    /// Number of coins.
    pub coins: u64,
    /// `hash_serialized_3`, in the order in which it is hashed.
    pub hash_serialized: [u8; 32],
    /// Transactions of the chain up to the block; zero where that is not known.
    pub chain_tx_count: u64,
}

impl Chain {
    /// Writes the coins at the tip to `path`, which must not exist.
    pub fn dump_snapshot(&mut self, path: &Path) -> Result<SnapshotInfo, SnapshotError> {
        if self.disk().open(path, OpenMode::Read).is_ok() {
            return Err(SnapshotError::Exists(path.to_path_buf()));
        }
        let stats = self.utxo_stats()?;
        let mut dump = SnapshotDump::begin(self.disk(), path)?;
        dump.write_header(self.env.params.magic, stats.tip.hash, stats.totals.txouts);
        dump.write_coins(&self.coins.layers(), SORT_BYTES, &|| false)?;
        dump.finish()?;
        Ok(SnapshotInfo {
            base: stats.tip,
            coins: stats.totals.txouts,
            hash_serialized: stats.hash_serialized,
            chain_tx_count: self.index.node(self.index.tip()).chain_tx_count,
        })
    }

    /// Replaces the coins by those of a snapshot whose block's header is known and has more work
    /// than the tip. Their hash must be `expected`, or the compiled-in one if that is `None`. The
    /// history below the block is assumed from then on. A refused snapshot leaves the datadir as it
    /// was; this chain must then be dropped.
    pub fn load_snapshot(
        &mut self,
        path: &Path,
        expected: Option<[u8; 32]>,
    ) -> Result<SnapshotInfo, SnapshotError> {
        self.flush()?;
        let mut reader = Reader::open(self.disk().open(path, OpenMode::Read)?, path)?;
        let (base, coins) = self.read_header(&mut reader)?;
        let point = self.index.point(base);
        let compiled_in =
            self.env.params.assumeutxo.iter().find(|known| known.blockhash == point.hash);
        let chain_tx_count = compiled_in.map_or(0, |known| known.chain_tx_count);
        let expected = expected
            .or(compiled_in.map(|known| known.hash_serialized))
            .ok_or_else(|| SnapshotError::NoExpectedHash(path.to_path_buf(), point))?;
        self.durability.replace_coins();
        self.forget_coins()?;
        self.add_coins(&mut reader, coins, point.height)?;
        let seal = self.coins.rotate_blocking()?;
        self.coins.wait_flushed(seal)?;
        let found = hash_serialized(&self.coins.layers())?;
        if found != expected {
            return Err(SnapshotError::WrongHash { path: path.to_path_buf(), found, expected });
        }
        self.assume(base, found);
        self.commit_snapshot(seal)?;
        Ok(SnapshotInfo { base: point, coins, hash_serialized: found, chain_tx_count })
    }

    fn read_header(&self, reader: &mut Reader) -> Result<(NodeId, u64), SnapshotError> {
        let path = reader.path.clone();
        let bytes = reader.entry()?;
        let mut header = SpanReader::new(&bytes[..bytes.len().min(HEADER_SIZE)]);
        let not_a_snapshot = |_: DecodeError| SnapshotError::NotASnapshot(path.clone());
        if header.array().map_err(not_a_snapshot)? != MAGIC {
            return Err(SnapshotError::NotASnapshot(path));
        }
        let version = header.u16().map_err(not_a_snapshot)?;
        if version != VERSION {
            return Err(SnapshotError::Version(path, version));
        }
        if header.array().map_err(not_a_snapshot)? != self.env.params.magic {
            return Err(SnapshotError::OtherNetwork(path));
        }
        let hash = header.get().map_err(not_a_snapshot)?;
        let coins = header.u64().map_err(not_a_snapshot)?;
        reader.advance(HEADER_SIZE);
        let base = self
            .index
            .tree()
            .find(&hash)
            .ok_or_else(|| SnapshotError::UnknownBase(path.clone(), hash))?;
        if self.index.node(base).failed {
            return Err(SnapshotError::InvalidBase(path, hash));
        }
        let tree = self.index.tree();
        let best = tree.best_header();
        if !tree.is_ancestor(base, best) {
            return Err(SnapshotError::NotInBestChain(path, self.index.point(best)));
        }
        let work = tree.chain_work(base);
        if work <= tree.chain_work(self.index.tip()) {
            return Err(SnapshotError::NotAhead(path, self.index.point(self.index.tip())));
        }
        if let Some(stored) = self.index.best()
            && tree.chain_work(stored) > work
            && !tree.is_ancestor(base, stored)
        {
            return Err(SnapshotError::NotAhead(path, self.index.point(stored)));
        }
        Ok((base, coins))
    }

    /// Spends every coin.
    fn forget_coins(&mut self) -> Result<(), SnapshotError> {
        let hasher = self.hasher();
        let layers = self.coins.layers();
        let mut scan = layers.scan()?;
        while let Some(entry) = scan.next()? {
            self.coins.spend(&hasher.hash(entry.outpoint))?;
            self.make_room()?;
        }
        Ok(())
    }

    fn add_coins(
        &mut self,
        reader: &mut Reader,
        coins: u64,
        base_height: u32,
    ) -> Result<(), SnapshotError> {
        let hasher = self.hasher();
        let mut left = coins;
        while left > 0 {
            let (txid, count) = reader.read(|reader| {
                let txid: Txid = reader.get()?;
                Ok((txid, reader.compact_size_any()?))
            })?;
            if count > left {
                return Err(reader.malformed());
            }
            for _ in 0..count {
                let (vout, coin) = reader.read(|reader| {
                    let vout = reader.compact_size_any()?;
                    Ok((vout, reader.get::<Coin>()?))
                })?;
                let vout = u32::try_from(vout).ok().filter(|vout| *vout < u32::MAX);
                let possible = coin.height <= base_height && money_range(coin.value);
                let Some(vout) = vout.filter(|_| possible) else { return Err(reader.malformed()) };
                let hashed: HashedOutPoint = hasher.hash(OutPoint { txid, vout });
                self.coins.add(&hashed, &coin, true);
                self.make_room()?;
            }
            left -= count;
        }
        match reader.entry()? {
            [] => Ok(()),
            _ => Err(SnapshotError::TrailingBytes(reader.path.clone(), reader.position())),
        }
    }

    fn make_room(&mut self) -> Result<(), SnapshotError> {
        if self.coins.wants_rotation() {
            self.coins.poll()?;
            self.coins.rotate_blocking()?;
        }
        Ok(())
    }

    /// Makes `base` the tip, assumed to be valid.
    fn assume(&mut self, base: NodeId, utxo_hash: [u8; 32]) {
        self.lookahead.clear();
        self.goal.set_replay(None);
        self.index.assume(base, utxo_hash);
        self.window.set_applied(base);
        self.durability.begin_history(&self.index);
    }
}

/// A snapshot that is being written: to a file of another name, until it is whole.
pub struct SnapshotDump {
    disk: StoreDisk,
    path: PathBuf,
    incomplete: PathBuf,
    writer: Writer,
}

impl SnapshotDump {
    /// Opens the file, over one that was not finished.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn begin(disk: &StoreDisk, path: &Path) -> Result<Self, StoreError> {
        let mut incomplete = OsString::from(path);
        incomplete.push(".incomplete");
        let (disk, path, incomplete) = (disk.clone(), path.to_owned(), PathBuf::from(incomplete));
        let file = disk.open(&incomplete, OpenMode::Truncate)?;
        let writer = Writer { file, offset: 0, buffer: DataStream::with_capacity(BUFFER_BYTES) };
        Ok(Self { disk, path, incomplete, writer })
    }

    /// To be called first: network, block and number of coins.
    fn write_header(&mut self, magic: [u8; 4], base: BlockHash, coins: u64) {
        let buffer = &mut self.writer.buffer;
        buffer.write(&MAGIC);
        buffer.write(&VERSION.to_le_bytes());
        buffer.write(&magic);
        buffer.put(&base);
        buffer.write_u64(coins);
    }

    fn write_coins(
        &mut self,
        layers: &Arc<Layers>,
        memory: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), StoreError> {
        let mut sorted = layers.sorted(OutPointOrder::LevelDb, memory, is_over)?;
        // The coins of one transaction are gathered, since their number precedes them.
        let mut txid = Txid::ZERO;
        let (mut count, mut coins) = (0u64, DataStream::new());
        while let Some(entry) = sorted.next()? {
            if entry.outpoint.txid != txid && count > 0 {
                if is_over() {
                    return Err(StoreError::Stopped);
                }
                self.writer.write_group(&txid, count, &coins)?;
                count = 0;
                coins.clear();
            }
            txid = entry.outpoint.txid;
            count += 1;
            coins.write_compact_size(entry.outpoint.vout.into());
            coins.write(entry.compressed);
        }
        if count > 0 {
            self.writer.write_group(&txid, count, &coins)?;
        }
        Ok(())
    }

    /// Writes the coins of a view, of which there are so many, sorted within so much memory, and gives the
    /// file its name.
    ///
    /// # Errors
    ///
    /// A failed system call or a damaged block; [`StoreError::Stopped`] once `is_over` says so. Then the
    /// file is to be removed by [`abandon`](Self::abandon).
    pub fn write(
        &mut self,
        view: &CoinsView,
        magic: [u8; 4],
        coins: u64,
        memory: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), StoreError> {
        self.write_header(magic, view.tip().hash, coins);
        self.write_coins(&view.layers, memory, is_over)?;
        self.finish()
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.writer.finish()?;
        self.disk.rename(&self.incomplete, &self.path)?;
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.map_or(Ok(()), |parent| self.disk.sync_dir(parent))
    }

    /// Removes what was written.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn abandon(self) -> Result<(), StoreError> {
        self.disk.remove(&self.incomplete)
    }
}

struct Writer {
    file: StoreFile,
    offset: u64,
    buffer: DataStream,
}

impl Writer {
    fn write_group(
        &mut self,
        txid: &Txid,
        count: u64,
        coins: &DataStream,
    ) -> Result<(), StoreError> {
        self.buffer.put(txid);
        self.buffer.write_compact_size(count);
        self.buffer.write(coins.as_slice());
        if self.buffer.as_slice().len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.file.write_all_at(self.offset, self.buffer.as_slice())?;
        self.offset += self.buffer.as_slice().len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync()
    }
}

/// Reads a file in pieces of bounded size, always with a whole entry in memory.
struct Reader {
    file: StoreFile,
    path: PathBuf,
    len: u64,
    /// Offset in the file of the buffer's end.
    read: u64,
    buffer: DataStream,
    cursor: usize,
}

impl Reader {
    fn open(file: StoreFile, path: &Path) -> Result<Self, SnapshotError> {
        let len = file.file_len()?;
        let buffer = DataStream::with_capacity(BUFFER_BYTES);
        Ok(Self { file, path: path.to_path_buf(), len, read: 0, buffer, cursor: 0 })
    }

    /// The bytes at the cursor: at least a whole entry, unless the file ends.
    fn entry(&mut self) -> Result<&[u8], SnapshotError> {
        let held = self.buffer.as_slice().len() - self.cursor;
        if held < ENTRY_BYTES && self.read < self.len {
            let rest = DataStream::from(&self.buffer.as_slice()[self.cursor..]);
            self.buffer.clear();
            self.buffer.write(rest.as_slice());
            self.cursor = 0;
            let more = (self.len - self.read).min((BUFFER_BYTES - held) as u64);
            self.file.read_stream_at(self.read, more as usize, &mut self.buffer)?;
            self.read += more;
        }
        Ok(&self.buffer.as_slice()[self.cursor..])
    }

    fn advance(&mut self, bytes: usize) {
        self.cursor += bytes;
    }

    fn read<T>(
        &mut self,
        decode: impl FnOnce(&mut SpanReader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, SnapshotError> {
        let mut reader = SpanReader::new(self.entry()?);
        match decode(&mut reader) {
            Ok(value) => {
                let consumed = reader.position();
                self.advance(consumed);
                Ok(value)
            }
            Err(_) => Err(self.malformed()),
        }
    }

    fn position(&self) -> u64 {
        self.read - (self.buffer.as_slice().len() - self.cursor) as u64
    }

    fn malformed(&self) -> SnapshotError {
        SnapshotError::Malformed(self.path.clone(), self.position())
    }
}

impl From<ChainError> for SnapshotError {
    fn from(error: ChainError) -> Self {
        Self::Chain(error)
    }
}

impl From<StoreError> for SnapshotError {
    fn from(error: StoreError) -> Self {
        Self::Chain(error.into())
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(error) => error.fmt(f),
            Self::Exists(path) => write!(f, "{} exists already", path.display()),
            Self::NotASnapshot(path) => write!(f, "{} is not a UTXO snapshot", path.display()),
            Self::Version(path, version) => {
                write!(f, "{} is a snapshot of unknown version {version}", path.display())
            }
            Self::OtherNetwork(path) => write!(f, "{} is of another network", path.display()),
            Self::UnknownBase(path, hash) => write!(
                f,
                "{}: the header of its block {hash} is not known; import headers first",
                path.display()
            ),
            Self::InvalidBase(path, hash) => {
                write!(f, "{}: its block {hash} is invalid", path.display())
            }
            Self::NotInBestChain(path, best) => write!(
                f,
                "{}: its block is not in the chain of headers with the most work, which ends in {} \
                 at height {}",
                path.display(),
                best.hash,
                best.height
            ),
            Self::NotAhead(path, tip) => write!(
                f,
                "{}: a chain that is stored here has as much work already (height {})",
                path.display(),
                tip.height
            ),
            Self::NoExpectedHash(path, base) => write!(
                f,
                "{}: no hash is known for height {}; give the one you trust with -utxohash",
                path.display(),
                base.height
            ),
            Self::Malformed(path, offset) => {
                write!(f, "{} is damaged or cut off at offset {offset}", path.display())
            }
            Self::TrailingBytes(path, offset) => {
                write!(f, "{} goes on after its last coin, at offset {offset}", path.display())
            }
            Self::WrongHash { path, found, expected } => write!(
                f,
                "{}: its coins hash to {}, not to {}",
                path.display(),
                Reversed(found),
                Reversed(expected)
            ),
        }
    }
}

impl std::error::Error for SnapshotError {}
