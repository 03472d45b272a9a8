//! The contenders beside godwit in each benchmark: the C++ control, other programs, and references.

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
use crate::workloads::coins::{GENERATED, PREPARED, RandomCoins, THRESHOLD};
use crate::workloads::{Input, Workload, flush};

/// Name of the group of what parts of the work cost on this machine, whatever a benchmark needs of it.
pub const REFERENCES: &str = "References";

/// The line of what godwit hashes, beside the library's.
pub const OWN_HASHING: &str = "godwit's own hashing alone, many in flight";

/// One that runs in this process.
pub struct Contender {
    /// Its line's name.
    pub name: String,
    /// What it is there for.
    pub kind: Kind,
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
    let mut all = others(workload, input);
    all.extend(references_beside(workload, input));
    all
}

/// The control and other programs.
fn others(workload: Workload, input: &Input) -> Vec<Contender> {
    let block = input.block.as_slice();
    let decoders = |prefix: &str| picked(decode::decode_subjects(block), prefix, Kind::Rival);
    let hashing = |rival: &Contender| rival.name == "Core" || rival.name.contains("txids");
    match workload {
        Workload::DataStreamAlloc | Workload::DataStreamSerializeScript => {
            let prefix = format!("{} ", workload.name());
            picked(control::control_subjects(), &prefix, Kind::Control)
        }
        Workload::DeserializeBlock => {
            decoders("DeserializeBlock ").into_iter().filter(hashing).collect()
        }
        Workload::DeserializeBlockUnhashed => {
            decoders("DeserializeBlock ").into_iter().filter(|rival| !hashing(rival)).collect()
        }
        Workload::DeserializeAndCheckBlock => decoders("DeserializeAndCheckBlock "),
        Workload::Flush => {
            let sinks = coin_sinks().into_iter();
            sinks.map(|sink| flush_rival(sink, &input.datadir)).collect()
        }
        Workload::ProcessMessageBlock | Workload::FlushGenerated => Vec::new(),
    }
}

/// Parts of the same work alone, in the same unit.
pub(crate) fn references_beside(workload: Workload, input: &Input) -> Vec<Contender> {
    let (block, datadir) = (input.block.as_slice(), &input.datadir);
    match workload {
        Workload::DataStreamAlloc | Workload::DataStreamSerializeScript => vec![copy_cached()],
        Workload::ProcessMessageBlock => vec![hash_bytes(block)],
        Workload::DeserializeBlock => {
            let mut all = vec![hash_block(block)];
            all.extend(hash_transactions(block));
            all
        }
        Workload::DeserializeBlockUnhashed => vec![copy_block(block)],
        Workload::DeserializeAndCheckBlock => hash_transactions(block).into(),
        Workload::FlushGenerated => {
            vec![write_and_sync(datadir, GENERATED, "byte", THRESHOLD as f64)]
        }
        Workload::Flush => vec![write_and_sync(datadir, PREPARED, "coin", PREPARED as f64)],
    }
}

/// What parts of the work cost, behind a loop whose instructions are known.
pub fn references() -> Vec<Contender> {
    let known = Contender::new("loop of two instructions", Kind::Reference, known_cost::subject());
    let mut all = vec![known];
    all.extend(picked(limits::limit_subjects(), "", Kind::Reference));
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
    Contender::new("memcpy 8 KiB, in cache", Kind::Reference, subject)
}

fn copy_block(block: &[u8]) -> Contender {
    let (from, mut to) = (block.to_vec(), block.to_vec());
    let subject = Subject::new("block", 1.0, move || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    });
    Contender::new("memcpy of the block", Kind::Reference, subject)
}

fn hash_block(block: &[u8]) -> Contender {
    let hash = hash_bytes(block).subject;
    let subject = Subject { unit: "block", units_per_iteration: 1.0, body: hash.body };
    Contender::new("SHA-256 of the block, one message", Kind::Reference, subject)
}

fn hash_bytes(bytes: &[u8]) -> Contender {
    let bytes = bytes.to_vec();
    let subject = Subject::new("byte", bytes.len() as f64, move || {
        black_box(sha256(black_box(&bytes)));
    });
    Contender::new("SHA-256 of the block, one message", Kind::Reference, subject)
}

/// Double SHA-256 of each transaction: by a library, one after the other, and as many at once as godwit
/// can. No library in this run hashes several messages at once, so the second is godwit's own hashing without
/// the rest.
fn hash_transactions(block: &[u8]) -> [Contender; 2] {
    let block = Block::from_bytes(block).expect("the block decodes");
    let transactions = block.view().txs().map(|tx| tx.bytes().to_vec()).collect();
    let library = limits::transaction_hashes("block", transactions);
    let library = Contender::of_rivals(&library.name.clone(), Kind::Reference, library);
    let mut hashes = vec![[0; 32]; block.view().tx_count()];
    let subject = Subject::new("block", 1.0, move || {
        let transactions: Vec<_> = block.view().txs().map(|tx| tx.bytes()).collect();
        sha256d_many(black_box(&transactions), &mut hashes);
        black_box(&mut hashes);
    });
    [library, Contender::new(OWN_HASHING, Kind::Reference, subject)]
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

/// As many bytes as godwit's flush of so many coins writes, in one file and nothing else done.
fn write_and_sync(datadir: &Path, coins: usize, unit: &'static str, units: f64) -> Contender {
    let dir = datadir.join("limit");
    let file = dir.join("bytes");
    let mut bytes = Vec::new();
    let subject = Subject::new(unit, units, move || {
        // In the first iteration, which is not timed.
        if bytes.is_empty() {
            let coins = RandomCoins::new(0).take(coins);
            let written = flush::flush(&dir, BlockHash::from_bytes([1; 32]), coins);
            bytes.resize(written.expect("the disk works") as usize, 0x5a);
        }
        write_file(&file, &bytes).expect("the disk works");
    });
    Contender::new("write and fsync of as many bytes", Kind::Reference, subject)
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() {
        fs::remove_file(path)?;
    }
    let mut file = fs::File::create(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}
