//! UTXO snapshots in the format of Core's `dumptxoutset`, byte for byte.
//!
//! A file is a header of 51 bytes — magic `utxo\xff`, version 2 (u16), message start of the network,
//! hash of the base block, number of coins (u64) — and then for each transaction its txid, the number
//! of its coins (compact size) and for each coin the output number (compact size) and Core's
//! compressed form. Transactions come in the order of their txids as hashed, the coins of one in the
//! order of Core's database keys. Integers are little-endian. Source: Core `node/utxo_snapshot.h`,
//! `rpc/blockchain.cpp` (`WriteUTXOSnapshot`).

mod error;
mod header;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_primitives::coin::is_unspendable;
use godwit_primitives::{BlockHash, Coin, OutPoint, Txid, money_range};
use godwit_store::disk::{OpenMode, StoreDisk, StoreFile};
use godwit_store::utxo::{HashedOutPoint, Layers, OutPointOrder};
use godwit_store::{ChainPoint, StoreError};
use godwit_stream::{DataStream, DecodeError, SpanReader};

use crate::chain::Chain;
use crate::coins_view::CoinsView;
use crate::stats::{SORT_BYTES, hash_serialized};
use crate::tree::NodeId;

pub use error::{DumpError, SnapshotError, SnapshotFlaw};
pub use header::{BaseFault, HeaderFault, SnapshotHeader, check_snapshot_base};
use header::{MAGIC, VERSION, find_base};

/// Bytes that are gathered before a write, and read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// More than any entry of a valid snapshot needs: a script of 10,000 bytes and its numbers.
const ENTRY_BYTES: usize = 16 << 10;

/// Coins between two looks whether a load goes on.
const LOOK_EVERY: u64 = 1 << 10;

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// The coins that were there are given up.
    Forgetting,
    /// So many coins of the snapshot are read, of so many.
    Coins { loaded: u64, all: u64 },
    /// They are hashed.
    Hashing,
}

/// Is told how far a load is, often enough to stop it in time: it goes on where this says so.
pub type LoadWatch<'a> = &'a dyn Fn(Loading) -> ControlFlow<()>;

/// Fails where the load is to stop.
fn look(watch: LoadWatch<'_>, at: Loading) -> Result<(), StoreError> {
    match watch(at) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(StoreError::Stopped),
    }
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
    /// Writes the coins at the tip to `path`, which nothing may have as its name: the file gets it in the
    /// end, in place of whatever is there, readable or not. Where it fails, nothing is left of it.
    pub fn dump_snapshot(&mut self, path: &Path) -> Result<SnapshotInfo, SnapshotError> {
        if self.disk().has_name(path)? {
            return Err(SnapshotError::Exists(path.to_path_buf()));
        }
        let stats = self.utxo_stats()?;
        let mut dump = SnapshotDump::begin(self.disk(), path)?;
        dump.write_header(self.env.params.magic, stats.tip.hash, stats.totals.txouts);
        dump.complete(&self.coins.layers(), SORT_BYTES, &|| false)?;
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
    ///
    /// # Errors
    ///
    /// The snapshot is refused, a local fault, or [`StoreError::Stopped`] once `watch` says so.
    pub fn load_snapshot(
        &mut self,
        path: &Path,
        expected: Option<[u8; 32]>,
        watch: LoadWatch<'_>,
    ) -> Result<SnapshotInfo, SnapshotError> {
        look(watch, Loading::Forgetting)?;
        self.flush()?;
        let mut reader = Reader::open(self.disk().open(path, OpenMode::Read)?, path)?;
        let SnapshotHeader { base: hash, coins } = self.read_header(&mut reader)?;
        let base = find_base(self, &hash)
            .map_err(|fault| SnapshotError::of_base(path.to_path_buf(), hash, fault))?;
        let point = self.index.point(base);
        let compiled_in =
            self.env.params.assumeutxo.iter().find(|known| known.blockhash == point.hash);
        let chain_tx_count = compiled_in.map_or(0, |known| known.chain_tx_count);
        let expected = expected
            .or(compiled_in.map(|known| known.hash_serialized))
            .ok_or_else(|| SnapshotError::NoExpectedHash(path.to_path_buf(), point))?;
        self.durability.replace_coins();
        self.forget_coins(watch)?;
        self.add_coins(&mut reader, coins, point.height, watch)?;
        let seal = self.coins.rotate_blocking()?;
        self.coins.wait_flushed(seal)?;
        let is_over = || watch(Loading::Hashing).is_break();
        let found = hash_serialized(&self.coins.layers(), &is_over)?;
        if found != expected {
            return Err(SnapshotError::WrongHash { path: path.to_path_buf(), found, expected });
        }
        // From here on it is one commit, or none of it.
        self.assume(base, found);
        self.commit_snapshot(seal)?;
        Ok(SnapshotInfo { base: point, coins, hash_serialized: found, chain_tx_count })
    }

    fn read_header(&self, reader: &mut Reader) -> Result<SnapshotHeader, SnapshotError> {
        let path = reader.path.clone();
        let header = SnapshotHeader::parse(reader.entry()?, self.env.params.magic)
            .map_err(|fault| SnapshotError::of_header(path, fault))?;
        reader.advance(SnapshotHeader::SIZE);
        Ok(header)
    }

    /// Spends every coin.
    fn forget_coins(&mut self, watch: LoadWatch<'_>) -> Result<(), SnapshotError> {
        let hasher = self.hasher();
        let layers = self.coins.layers();
        let (mut scan, mut forgotten) = (layers.scan()?, 0_u64);
        while let Some(entry) = scan.next()? {
            if forgotten.is_multiple_of(LOOK_EVERY) {
                look(watch, Loading::Forgetting)?;
            }
            forgotten += 1;
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
        watch: LoadWatch<'_>,
    ) -> Result<(), SnapshotError> {
        let hasher = self.hasher();
        while reader.coins < coins {
            let (txid, count) = reader.read(|reader| {
                let txid: Txid = reader.get()?;
                Ok((txid, reader.compact_size()?))
            })?;
            if count > coins - reader.coins {
                return Err(reader.malformed(SnapshotFlaw::Count));
            }
            for _ in 0..count {
                if reader.coins.is_multiple_of(LOOK_EVERY) {
                    look(watch, Loading::Coins { loaded: reader.coins, all: coins })?;
                }
                let (vout, coin) = reader.read(|reader| {
                    let vout = reader.compact_size()?;
                    Ok((vout, reader.get::<Coin>()?))
                })?;
                if coin.height > base_height {
                    return Err(reader.malformed(SnapshotFlaw::Coin));
                }
                if !money_range(coin.value) {
                    return Err(reader.malformed(SnapshotFlaw::Amount));
                }
                if is_unspendable(&coin.script_pubkey) {
                    return Err(reader.malformed(SnapshotFlaw::Unspendable));
                }
                let vout = u32::try_from(vout).expect("a compact size is at most 32 MiB");
                let hashed: HashedOutPoint = hasher.hash(OutPoint { txid, vout });
                self.coins.add(&hashed, &coin, true);
                self.make_room()?;
                reader.coins += 1;
            }
        }
        match reader.entry()? {
            [] => Ok(()),
            _ => {
                let (path, offset) = (reader.path.clone(), reader.position());
                Err(SnapshotError::TrailingBytes { path, offset, coins })
            }
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
    /// The name that it has now.
    name: PathBuf,
    writer: Writer,
}

impl SnapshotDump {
    /// Opens the file, over one that was not finished.
    ///
    /// # Errors
    ///
    /// It cannot be opened.
    pub fn begin(disk: &StoreDisk, path: &Path) -> Result<Self, StoreError> {
        let mut name = OsString::from(path);
        name.push(".incomplete");
        // A disk that fails here is no reason to close the store.
        let (disk, path, name) = (disk.apart(), path.to_owned(), PathBuf::from(name));
        let file = disk.open(&name, OpenMode::Truncate)?;
        let writer = Writer { file, offset: 0, buffer: DataStream::with_capacity(BUFFER_BYTES) };
        Ok(Self { disk, path, name, writer })
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
    ) -> Result<(), DumpError> {
        let sorted = layers.sorted(OutPointOrder::LevelDb, memory, is_over);
        let mut sorted = sorted.map_err(DumpError::Coins)?;
        // The coins of one transaction are gathered, since their number precedes them.
        let mut txid = Txid::ZERO;
        let (mut count, mut coins) = (0u64, DataStream::new());
        while let Some(entry) = sorted.next().map_err(DumpError::Coins)? {
            if entry.outpoint.txid != txid && count > 0 {
                if is_over() {
                    return Err(DumpError::Coins(StoreError::Stopped));
                }
                self.writer.write_group(&txid, count, &coins).map_err(DumpError::File)?;
                count = 0;
                coins.clear();
            }
            txid = entry.outpoint.txid;
            count += 1;
            coins.write_compact_size(entry.outpoint.vout.into());
            coins.write(entry.compressed);
        }
        if count > 0 {
            self.writer.write_group(&txid, count, &coins).map_err(DumpError::File)?;
        }
        Ok(())
    }

    /// Writes the coins of a view, of which there are so many, sorted within so much memory, and gives the
    /// file its name.
    ///
    /// # Errors
    ///
    /// A failed system call or a damaged block; [`StoreError::Stopped`] once `is_over` says so. Then the
    /// file is removed.
    pub fn write(
        mut self,
        view: &CoinsView,
        magic: [u8; 4],
        coins: u64,
        memory: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), DumpError> {
        self.write_header(magic, view.tip().hash, coins);
        self.complete(&view.layers, memory, is_over)
    }

    /// To be called behind the header.
    fn complete(
        mut self,
        layers: &Arc<Layers>,
        memory: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), DumpError> {
        let written = self.write_coins(layers, memory, is_over);
        let done = written.and_then(|()| self.finish().map_err(DumpError::File));
        if done.is_err() {
            self.abandon();
        }
        done
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.writer.finish()?;
        self.disk.rename(&self.name, &self.path)?;
        self.name.clone_from(&self.path);
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.map_or(Ok(()), |parent| self.disk.sync_dir(parent))
    }

    /// Removes what was written.
    fn abandon(&self) {
        // After a write that failed, the latch of this disk refuses the removal, too.
        if let Err(error) = self.disk.apart().remove(&self.name) {
            log::warn!("a snapshot that is not whole is left: {error}");
        }
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
    /// That were read.
    coins: u64,
}

impl Reader {
    fn open(file: StoreFile, path: &Path) -> Result<Self, SnapshotError> {
        let len = file.file_len()?;
        let buffer = DataStream::with_capacity(BUFFER_BYTES);
        Ok(Self { file, path: path.to_path_buf(), len, read: 0, buffer, cursor: 0, coins: 0 })
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
            Err(_) => Err(self.malformed(SnapshotFlaw::Format)),
        }
    }

    fn position(&self) -> u64 {
        self.read - (self.buffer.as_slice().len() - self.cursor) as u64
    }

    fn malformed(&self, flaw: SnapshotFlaw) -> SnapshotError {
        let (path, offset) = (self.path.clone(), self.position());
        SnapshotError::Malformed { path, offset, coins: self.coins, flaw }
    }
}
