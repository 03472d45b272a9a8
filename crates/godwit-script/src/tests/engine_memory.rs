//! What Core's engine makes of transactions with very many witness items.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use godwit_engine::EngineMemory;
use godwit_primitives::{OutPoint, ScriptFlags, Transaction, TxIn, TxOut, TxView, Txid};
use godwit_stream::DataStream;

use crate::losses::Losses;
use crate::{Group, Precomputed, ScriptError, Scripts, SpendingTx, SpentOutput, Verdict, Work};

/// A program of a witness version without rules: every witness is right.
const ANY_WITNESS: &[u8] = &[0x60, 2, 1, 1];
/// OP_0, which no witness may spend.
const NO_WITNESS: &[u8] = &[0];
/// Items of an input: some 3.6 MB in the engine.
const ITEMS: usize = 70_000;
const THREADS: usize = 4;

fn memory(limit: usize) -> &'static EngineMemory {
    Box::leak(Box::new(EngineMemory::new(limit)))
}

/// A transaction whose inputs have so many empty witness items each.
fn tx(inputs: u8) -> Vec<u8> {
    let input = |n| TxIn {
        prevout: OutPoint { txid: Txid::from_bytes([n; 32]), vout: 0 },
        script_sig: Vec::new(),
        sequence: u32::MAX,
        witness: vec![Vec::new(); ITEMS],
    };
    let tx = Transaction {
        version: 2,
        inputs: (1..=inputs).map(input).collect(),
        outputs: vec![TxOut { value: 0, script_pubkey: vec![0x51] }],
        lock_time: 0,
    };
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&tx);
    bytes.as_slice().to_vec()
}

fn spent<'a>(scripts: &[&'static [u8]]) -> impl Iterator<Item = SpentOutput<'a>> {
    scripts.iter().map(|&script_pubkey| SpentOutput { value: 1, script_pubkey })
}

/// A worker's share: transactions of one input, one of which is wrong, around parts of one that all workers
/// share.
fn share(worker: usize, shared: &Arc<Precomputed>, memory: &'static EngineMemory) -> Vec<Verdict> {
    let (one, two) = (tx(1), tx(2));
    let (one, two) = (TxView::parse(&one).unwrap(), TxView::parse(&two).unwrap());
    let alone = |script| SpendingTx::new(one, spent(&[script])).unwrap();
    let txs: Vec<_> = [ANY_WITNESS, NO_WITNESS, ANY_WITNESS, ANY_WITNESS].map(alone).into();
    let split = SpendingTx::with_precomputed(two, spent(&[ANY_WITNESS, NO_WITNESS]), shared);
    let split = split.unwrap();
    let group = |works| Group { works, flags: ScriptFlags::ALL, crosscheck: None };
    let mut groups: Vec<_> = txs.iter().map(|tx| group(vec![Work { tx, inputs: 0..1 }])).collect();
    for input in 0..2 {
        let part = group(vec![Work { tx: &split, inputs: input..input + 1 }]);
        groups.insert((worker + 2 * input) % groups.len(), part);
    }
    // Two in one group, where the first error counts.
    let of = |at: usize| Work { tx: &txs[at], inputs: 0..1 };
    groups.push(group(vec![of(0), of(1), of(1)]));
    Scripts::engine_only().within(memory).verify(&groups)
}

fn by_threads(limit: usize) -> (Vec<Vec<Verdict>>, usize) {
    let memory = memory(limit);
    let shared = Arc::new(Precomputed::of(TxView::parse(&tx(2)).unwrap().txid()));
    let verdicts = thread::scope(|scope| {
        let shared = &shared;
        let start = |worker| scope.spawn(move || share(worker, shared, memory));
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (verdicts, memory.most())
}

/// Bytes that are estimated for a transaction of so many inputs.
fn estimate(inputs: u8) -> usize {
    let memory = memory(usize::MAX);
    let bytes = tx(inputs);
    let scripts = usize::from(inputs) * ANY_WITNESS.len();
    assert!(memory.take(&bytes, scripts).is_some(), "it is counted");
    memory.most()
}

/// The most memory that one thread has for these transactions, which it judges three times.
fn most(limit: usize, txs: &[SpendingTx<'_>]) -> usize {
    let memory = memory(limit);
    let group = || Group {
        works: txs.iter().map(|tx| Work { tx, inputs: 0..1 }).collect(),
        flags: ScriptFlags::ALL,
        crosscheck: None,
    };
    let mut scripts = Scripts::engine_only().within(memory);
    assert_eq!(scripts.verify(&[group(), group()]), [Ok(()), Ok(())]);
    assert_eq!(scripts.verify(&[group()]), [Ok(())]);
    memory.most()
}

#[test]
fn what_the_engine_makes_of_a_transaction_goes_when_it_is_judged() {
    let bytes = tx(1);
    let view = TxView::parse(&bytes).unwrap();
    let alone = || SpendingTx::new(view, spent(&[ANY_WITNESS])).unwrap();
    let one = estimate(1);
    let txs: Vec<_> = (0..8).map(|_| alone()).collect();
    assert_eq!(most(usize::MAX, &txs), one, "one at a time");
    // One of which workers verify parts stays if there is room, and else goes, too.
    for (limit, expected) in [(4 * one, 2 * one), (4 * one - 1, one)] {
        let shared = Arc::new(Precomputed::of(view.txid()));
        let part = || SpendingTx::with_precomputed(view, spent(&[ANY_WITNESS]), &shared).unwrap();
        assert_eq!(most(limit, &[part(), alone(), part(), alone()]), expected, "{limit}");
    }
}

#[test]
fn threads_share_one_limit_and_say_what_they_say_without_it() {
    let (verdicts, _) = by_threads(usize::MAX);
    let refused = |at| Err((at, ScriptError::Rejected { input: 0 }));
    for verdicts in &verdicts {
        assert_eq!(verdicts.len(), 7);
        assert_eq!(verdicts[6], refused(1), "the first of two");
        let count = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
        let second_input = Err((0, ScriptError::Rejected { input: 1 }));
        assert_eq!([count(Ok(())), count(refused(0)), count(second_input)], [4, 1, 1]);
    }
    let (one, two) = (estimate(1), estimate(2));
    for limit in [1, one, two, one + two, 4 * one, 4 * two] {
        let (limited, most) = by_threads(limit);
        assert_eq!(limited, verdicts, "{limit}");
        // A quarter is for what is kept.
        assert!(most <= limit.max(two + limit / 4), "{most} of {limit}");
    }
}

#[test]
fn what_a_thread_waits_for_memory_is_no_time_of_its_engine() {
    const OPEN: Duration = Duration::from_secs(3_600);
    let memory = memory(1);
    let bytes = tx(1);
    let held = memory.take(&bytes, 0).expect("it is counted");
    let judged = || {
        let view = TxView::parse(&bytes).unwrap();
        let tx = SpendingTx::new(view, spent(&[ANY_WITNESS])).unwrap();
        let works = vec![Work { tx: &tx, inputs: 0..1 }];
        let mut scripts = Scripts::engine_only().within(memory);
        *scripts.losses() = Losses::of(OPEN);
        let start = Instant::now();
        let group = Group { works, flags: ScriptFlags::ALL, crosscheck: None };
        assert_eq!(scripts.verify(&[group]), [Ok(())]);
        (start.elapsed(), OPEN - scripts.losses().open(), scripts.waited())
    };
    thread::scope(|scope| {
        let thread = scope.spawn(judged);
        while memory.waiting() == 0 {
            thread::yield_now();
        }
        let start = Instant::now();
        thread::sleep(Duration::from_millis(50));
        // It began to wait before, and ends it behind.
        let least = start.elapsed();
        drop(held);
        let (took, made_up, waited) = thread.join().unwrap();
        assert!(waited >= least, "{waited:?} of {least:?}");
        // An eighth of the engine's time.
        assert!(8 * made_up + waited <= took, "{made_up:?}, {waited:?} and {took:?}");
    });
}
