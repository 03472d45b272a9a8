//! Run files of the UTXO store. Any change of one that was written is noticed, or changes nothing; one
//! that somebody wrote with the right checksums, and whatever inside, is read to its end or refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use godwit_fault_disk::FaultDisk;
use godwit_primitives::{Coin, OutPoint, ScriptBytes, Txid};
use godwit_store::StoreError;
use godwit_store::disk::{Disk, StoreDisk};
use godwit_store::exec::{Executor, Threads};
use godwit_store::utxo::{
    CacheMinima, HashedOutPoint, Manifest, UtxoConfig, UtxoHasher, UtxoStore,
};
use godwit_stream::{DataStream, Decode, SpanReader};

use crate::input::Input;
use crate::memory::within;

const DIR: &str = "/utxo";
const BLOCK: usize = 4_096;
const BLOCK_HEADER: usize = 8;
/// The shortest entry: length, txid, vout.
const MIN_ENTRY: usize = 35;
/// Most blocks of a run that an input describes.
const MAX_BLOCKS: usize = 12;
/// Of an empty store with its two threads, and the buffer of each partition's scan.
const STORE_BYTES: usize = 16 << 20;

/// Where the run's number, the number of blocks, and the partitions in use stand in a manifest.
const MANIFEST_HEADER: usize = 26;

type Coins = BTreeMap<OutPoint, Coin>;

/// Files as a store wrote them.
struct Written {
    files: Vec<(PathBuf, Vec<u8>)>,
    manifest: Manifest,
    coins: Coins,
}

static WRITTEN: LazyLock<Written> = LazyLock::new(write_runs);

fn hasher() -> UtxoHasher {
    UtxoHasher::new(*b"sixteen byte key")
}

fn open(disk: &FaultDisk, manifest: &Manifest) -> Result<UtxoStore, StoreError> {
    let disk = StoreDisk::new(Arc::new(disk.clone()));
    let executor: Arc<dyn Executor> = Arc::new(Threads::default());
    let config = UtxoConfig { budget: 0, minima: CacheMinima::PRODUCT };
    UtxoStore::open(&disk, Path::new(DIR), hasher(), manifest, config, &executor)
}

fn disk_of(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> FaultDisk {
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new(DIR)).expect("an empty disk");
    files.into_iter().for_each(|(path, bytes)| disk.overwrite(&path, bytes));
    disk
}

/// Bit 0 of the first byte says whether changes of written runs follow, as file, place and mask, or runs
/// block by block.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 { check_changes(&mut input) } else { check_hostile(&mut input) }
}

fn check_changes(input: &mut Input<'_>) {
    let Written { files, manifest, coins } = &*WRITTEN;
    let mut files = files.clone();
    while !input.is_empty() {
        let (file, place, mask) = (input.u8(), input.u32() as usize, input.u8());
        let index = usize::from(file) % files.len();
        let bytes = &mut files[index].1;
        let place = place % bytes.len();
        bytes[place] ^= mask;
    }
    let disk = disk_of(files);
    let Ok(store) = open(&disk, manifest) else { return };
    // Blocks that are not read again are not known to be changed.
    if let Ok(read) = read_all(&store, usize::MAX) {
        assert_eq!(read, *coins);
    }
    for (outpoint, coin) in coins {
        if let Ok(found) = store.get(&hasher().hash(*outpoint)) {
            assert_eq!(found.as_ref(), Some(coin));
        }
    }
}

/// Partition bits, then runs: partitions in use, blocks; each block: kind, entry's blocks, bytes in use,
/// bytes that follow, these bytes.
fn check_hostile(input: &mut Input<'_>) {
    let bits = input.u8() % 7;
    let mut runs = Vec::new();
    for number in 0..2u64 {
        if input.is_empty() {
            break;
        }
        let partitions = input.u64();
        let blocks = usize::from(input.u8()) % (MAX_BLOCKS + 1);
        let run = (0..blocks).flat_map(|block| hostile_block(input, number, block as u32));
        runs.push((partitions, run.collect::<Vec<u8>>()));
    }
    let manifest = manifest_of(bits, &runs);
    let bytes: usize = runs.iter().map(|(_, run)| run.len()).sum();
    let files = (0..).zip(runs).map(|(number, (_, run))| (run_path(number), run));
    let disk = disk_of(files);
    within(STORE_BYTES + 16 * bytes, || {
        let Ok(store) = open(&disk, &manifest) else { return };
        let Ok(coins) = read_all(&store, bytes / MIN_ENTRY) else { return };
        let keys: Vec<HashedOutPoint> =
            coins.keys().map(|outpoint| hasher().hash(*outpoint)).collect();
        // An index that somebody made need not find them.
        let (mut found, mut present) = (Vec::new(), Vec::new());
        if store.layers().get_many(&keys, &mut found).is_ok()
            && store.layers().contains_many(&keys, &mut present).is_ok()
        {
            assert_eq!((found.len(), present.len()), (keys.len(), keys.len()));
        }
    });
}

fn hostile_block(input: &mut Input<'_>, run: u64, number: u32) -> Vec<u8> {
    let (kind, span, used, len) = (input.u8(), input.u8(), input.u16(), input.u16());
    let payload = input.bytes(usize::from(len).min(BLOCK - BLOCK_HEADER));
    let mut block = vec![0; BLOCK];
    block[4..BLOCK_HEADER].copy_from_slice(&[kind, span, used as u8, (used >> 8) as u8]);
    block[BLOCK_HEADER..][..payload.len()].copy_from_slice(payload);
    let place = [&run.to_le_bytes()[..], &number.to_le_bytes()].concat();
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&place), &block[4..]);
    block[..4].copy_from_slice(&checksum.to_le_bytes());
    block
}

fn run_path(number: u64) -> PathBuf {
    Path::new(DIR).join(format!("{number:010}.run"))
}

/// A manifest of one seal for each run.
fn manifest_of(bits: u8, runs: &[(u64, Vec<u8>)]) -> Manifest {
    let mut out = DataStream::new();
    out.put(&Manifest::empty(bits, &hasher()));
    out.truncate(MANIFEST_HEADER);
    out.write_compact_size(runs.len() as u64);
    for (number, (partitions, run)) in (0u64..).zip(runs) {
        out.write_u64(number);
        out.write_u32((run.len() / BLOCK) as u32);
        out.write_u64(number + 1);
        out.write_u64(number + 1);
        let allowed = u64::MAX >> (64 - (1u32 << bits));
        out.write_u64(partitions & allowed);
    }
    Manifest::decode(&mut SpanReader::new(out.as_slice())).expect("as the store writes it")
}

/// Everything that a scan gives, which are at most so many.
fn read_all(store: &UtxoStore, most: usize) -> Result<Coins, StoreError> {
    let mut scan = store.layers().scan()?;
    let (mut coins, mut count) = (Coins::new(), 0);
    while let Some(entry) = scan.next()? {
        count += 1;
        assert!(count <= most, "more coins than there are entries");
        if let Ok(coin) = entry.coin() {
            coins.insert(entry.outpoint, coin);
        }
    }
    Ok(coins)
}

fn write_runs() -> Written {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).expect("an empty disk");
    let mut coins = Coins::new();
    let mut manifest = None;
    for half in 0..2u32 {
        for n in half * 60..half * 60 + 60 {
            let txid = Txid::from_bytes(std::array::from_fn(|i| (n as usize * 7 + i * 31) as u8));
            let outpoint = OutPoint { txid, vout: n };
            let script = vec![0x51; if n % 50 == 9 { 9_000 } else { 20 + n as usize % 15 }];
            let script_pubkey = ScriptBytes::from_vec(script);
            let coin = Coin {
                value: 1_000 * i64::from(n),
                script_pubkey,
                height: n,
                coinbase: n % 9 == 0,
            };
            store.add(&hasher().hash(outpoint), &coin, false);
            coins.insert(outpoint, coin);
        }
        // Some of the first run's coins are tombstones in the second.
        let spent: Vec<OutPoint> =
            coins.keys().copied().step_by(13).take(half as usize * 5).collect();
        for outpoint in spent {
            store.spend(&hasher().hash(outpoint)).expect("the disk does not fail").expect("a coin");
            coins.remove(&outpoint);
        }
        let seal = store.rotate_blocking().expect("the disk does not fail");
        store.wait_flushed(seal).expect("the disk does not fail");
        let (id, named) = store.manifest(seal);
        store.committed(id).expect("the disk does not fail");
        manifest = Some(named);
    }
    drop(store);
    let names = disk.list(Path::new(DIR)).expect("the disk does not fail");
    let paths = names.iter().map(|name| Path::new(DIR).join(name));
    let mut files: Vec<_> =
        paths.map(|path| (path.clone(), disk.contents(&path).expect("it is listed"))).collect();
    files.sort();
    Written { files, manifest: manifest.expect("two were made"), coins }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut runs = vec![1, 1];
    let mut seeds = vec![vec![0], vec![0, 0, 100, 0, 0, 0, 1], vec![0, 1, 5, 16, 0, 0, 128]];
    for (_, bytes) in &WRITTEN.files {
        let mut run = u64::MAX.to_le_bytes().to_vec();
        run.push((bytes.len() / BLOCK) as u8);
        for block in bytes.chunks(BLOCK) {
            let used = u16::from_le_bytes([block[6], block[7]]);
            run.extend_from_slice(&block[4..BLOCK_HEADER]);
            run.extend_from_slice(&used.to_le_bytes());
            run.extend_from_slice(&block[BLOCK_HEADER..][..usize::from(used)]);
        }
        seeds.push([&[1, 1][..], &run].concat());
        runs.extend(run);
    }
    seeds.push(runs);
    seeds
}
