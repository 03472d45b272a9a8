//! Who runs beside godwit in each benchmark: the C++ control, other programs, and what the machine can
//! do at most.

use std::hint::black_box;
use std::path::Path;
use std::{fs, io};

use godwit_primitives::sha256::{sha256, sha256d_many};
use godwit_primitives::{Block, BlockHash};
use godwit_rivals::flush::{CoinRecord, CoinSink, coin_sinks};
use godwit_rivals::{control, decode, limits};
use godwit_stream::DataStream;

use crate::bench::Kind;
use crate::harness::{Subject, known_cost};
use crate::workloads::coins::{PREPARED, RandomCoins};
use crate::workloads::{Input, Workload, flush};

/// Name of the group of what the machine can do, whatever a benchmark needs of it.
pub const LIMITS: &str = "Limits";

/// One that runs in this process.
pub struct Contender {
    /// Its line's name.
    pub name: String,
    /// What it is there for.
    pub kind: Kind,
    /// What runs.
    pub subject: Subject,
}

impl Contender {
    fn new(name: impl Into<String>, kind: Kind, subject: Subject) -> Self {
        Self { name: name.into(), kind, subject }
    }

    fn of_rivals(name: &str, kind: Kind, subject: godwit_rivals::Subject) -> Self {
        let godwit_rivals::Subject { unit, units_per_iteration, body, .. } = subject;
        Self::new(name, kind, Subject { unit, units_per_iteration, body })
    }
}

/// Those who run beside godwit in a workload.
pub fn beside(workload: Workload, input: &Input) -> Vec<Contender> {
    let block = input.block.as_slice();
    match workload {
        Workload::DataStreamAlloc | Workload::DataStreamSerializeScript => {
            let prefix = format!("{} ", workload.name());
            let mut all = picked(control::control_subjects(), &prefix, Kind::Control);
            all.push(copy_cached());
            all
        }
        Workload::ProcessMessageBlock => vec![hash_bytes(block)],
        Workload::DeserializeBlock => {
            let rivals = picked(decode::decode_subjects(block), "DeserializeBlock ", Kind::Rival);
            let hashing = |rival: &Contender| rival.name == "Core" || rival.name.contains("txids");
            let mut all: Vec<_> = rivals.into_iter().filter(hashing).collect();
            all.extend([hash_block(block), hash_transactions(block)]);
            all
        }
        Workload::DeserializeBlockUnhashed => {
            let rivals = picked(decode::decode_subjects(block), "DeserializeBlock ", Kind::Rival);
            let hashing = |rival: &Contender| rival.name == "Core" || rival.name.contains("txids");
            let mut all: Vec<_> = rivals.into_iter().filter(|rival| !hashing(rival)).collect();
            all.push(copy_block(block));
            all
        }
        Workload::DeserializeAndCheckBlock => {
            let prefix = "DeserializeAndCheckBlock ";
            let mut all = picked(decode::decode_subjects(block), prefix, Kind::Rival);
            all.push(hash_transactions(block));
            all
        }
        Workload::FlushGenerated => Vec::new(),
        Workload::Flush => {
            let sinks = coin_sinks().into_iter();
            let mut all: Vec<_> = sinks.map(|sink| flush_rival(sink, &input.datadir)).collect();
            all.push(write_and_sync(&input.datadir));
            all
        }
    }
}

/// All that the machine can do, behind a loop whose instructions are known.
pub fn limits() -> Vec<Contender> {
    let known = Contender::new("loop of two instructions", Kind::Limit, known_cost::subject());
    let mut all = vec![known];
    all.extend(picked(limits::limit_subjects(), "", Kind::Limit));
    all
}

/// Those whose names begin with `prefix`, which the line does not repeat.
fn picked(subjects: Vec<godwit_rivals::Subject>, prefix: &str, kind: Kind) -> Vec<Contender> {
    let named = subjects.into_iter().filter_map(|subject| {
        let name = subject.name.strip_prefix(prefix)?.to_owned();
        Some(Contender::of_rivals(&name, kind, subject))
    });
    named.collect()
}

/// What the two stream workloads copy, without a stream.
fn copy_cached() -> Contender {
    const BYTES: usize = 8192;
    const REPEATED: usize = 64;
    let (from, mut room) = (vec![0x5a_u8; BYTES], vec![0_u8; 3 * BYTES]);
    // Where source and target are the same in their last 12 bits, loads wait for the stores.
    let distance = room.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) % 4096;
    let start = (4096 + 2048 - distance) % 4096;
    let subject = Subject::new("byte", (REPEATED * BYTES) as f64, move || {
        let to = &mut room[start..start + BYTES];
        for _ in 0..REPEATED {
            to.copy_from_slice(black_box(&from));
            black_box(&mut *to);
        }
    });
    Contender::new("memcpy 8 KiB, in cache", Kind::Limit, subject)
}

fn copy_block(block: &[u8]) -> Contender {
    let (from, mut to) = (block.to_vec(), block.to_vec());
    let subject = Subject::new("block", 1.0, move || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    });
    Contender::new("memcpy of the block", Kind::Limit, subject)
}

fn hash_block(block: &[u8]) -> Contender {
    let hash = hash_bytes(block).subject;
    let subject = Subject { unit: "block", units_per_iteration: 1.0, body: hash.body };
    Contender::new("SHA-256 of the block, one message", Kind::Limit, subject)
}

fn hash_bytes(bytes: &[u8]) -> Contender {
    let bytes = bytes.to_vec();
    let subject = Subject::new("byte", bytes.len() as f64, move || {
        black_box(sha256(black_box(&bytes)));
    });
    Contender::new("SHA-256 of the block, one message", Kind::Limit, subject)
}

/// Double SHA-256 of each transaction, as many at once as godwit can.
fn hash_transactions(block: &[u8]) -> Contender {
    let block = Block::from_bytes(block).expect("the block decodes");
    let mut hashes = vec![[0; 32]; block.view().tx_count()];
    let subject = Subject::new("block", 1.0, move || {
        let transactions: Vec<_> = block.view().txs().map(|tx| tx.bytes()).collect();
        sha256d_many(black_box(&transactions), &mut hashes);
        black_box(&mut hashes);
    });
    Contender::new("SHA-256d of the transactions, many in flight", Kind::Limit, subject)
}

/// The same coins, of which Core's serialised form is made as a part of the flush: the stores have no
/// form of their own, godwit's memtable makes its own too.
fn flush_rival(sink: Box<dyn CoinSink>, datadir: &Path) -> Contender {
    let coins: Vec<_> = RandomCoins::new(0).take(PREPARED).collect();
    let dir = datadir.join(crate::bench::slug(sink.name()));
    let name = sink.name().to_owned();
    let mut all = DataStream::new();
    coins.iter().for_each(|(_, coin)| all.put(coin));
    let total = all.len();
    let subject = Subject::new("coin", PREPARED as f64, move || {
        let mut bytes = DataStream::with_capacity(total);
        let mut ends = Vec::with_capacity(coins.len());
        for (_, coin) in &coins {
            bytes.put(coin);
            ends.push(bytes.len());
        }
        let spans = std::iter::once(&0).chain(&ends).zip(&ends);
        let mut records = coins.iter().zip(spans).map(|((outpoint, _), (start, end))| {
            let mut key = [0; 36];
            key[..32].copy_from_slice(outpoint.txid.as_bytes());
            key[32..].copy_from_slice(&outpoint.vout.to_le_bytes());
            CoinRecord { outpoint: key, coin: &bytes.as_slice()[*start..*end] }
        });
        sink.flush(&dir, &mut records, [1; 32]).expect("the disk works");
    });
    Contender::new(name, Kind::Rival, subject)
}

/// What godwit's flush writes, in one file and nothing else done.
fn write_and_sync(datadir: &Path) -> Contender {
    let dir = datadir.join("limit");
    let coins = RandomCoins::new(0).take(PREPARED);
    let written = flush::flush(&dir, BlockHash::from_bytes([1; 32]), coins);
    let bytes = vec![0x5a; written.expect("the disk works") as usize];
    let file = dir.join("bytes");
    let subject = Subject::new("coin", PREPARED as f64, move || {
        write_file(&file, &bytes).expect("the disk works");
    });
    Contender::new("write and fsync of the same bytes", Kind::Limit, subject)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() {
        fs::remove_file(path)?;
    }
    let mut file = fs::File::create(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}
