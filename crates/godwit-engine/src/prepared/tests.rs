//! Counts how many copies of all spent outputs exist at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut, Txid};

use super::*;

/// Counts the existing data that holds every script.
#[derive(Default)]
pub(super) struct Copies {
    live: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

/// A copy that exists until this is dropped.
pub(super) struct Copy<'a>(&'a Copies);

impl Copies {
    pub(super) fn begin(&self) -> Copy<'_> {
        let live = self.live.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(live, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
        Copy(self)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A transaction of this many inputs, each with a signature of zeros.
fn unsigned(inputs: u8) -> Vec<u8> {
    let input = |n| TxIn {
        prevout: OutPoint { txid: Txid::from_bytes([n; 32]), vout: 0 },
        script_sig: Vec::new(),
        sequence: u32::MAX,
        witness: vec![vec![0; 64]],
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

#[test]
fn workers_that_refuse_inputs_of_one_transaction_copy_what_it_spends_one_after_another() {
    const WORKERS: u8 = 8;
    let long = vec![0x6a; 8 << 20];
    // The x coordinate of the generator: a valid key.
    let mut taproot = vec![0x51, 0x20];
    taproot.extend([
        0x79, 0xbe, 0x66, 0x7e, 0xf9, 0xdc, 0xbb, 0xac, 0x55, 0xa0, 0x62, 0x95, 0xce, 0x87, 0x0b,
        0x07, 0x02, 0x9b, 0xfc, 0xdb, 0x2d, 0xce, 0x28, 0xd9, 0x59, 0xf2, 0x81, 0x5b, 0x16, 0xf8,
        0x17, 0x98,
    ]);
    let scripts = (0..WORKERS).map(|_| &taproot).chain([&long]);
    let spent: Vec<SpentOutput<'_>> =
        scripts.map(|script| SpentOutput { value: 1, script_pubkey: script }).collect();
    let tx = PreparedTx::new(&unsigned(WORKERS + 1), spent.into_iter()).expect("it is whole");
    assert!(matches!(tx.taproot, Some(TaprootData::Blanked(_))), "one script is long");
    let together = Barrier::new(WORKERS.into());
    thread::scope(|scope| {
        for input in 0..usize::from(WORKERS) {
            let (tx, together) = (&tx, &together);
            scope.spawn(move || {
                together.wait();
                let verdict = tx.verify_input(input, ScriptFlags::ALL);
                assert_eq!(verdict, Err(ScriptError::Rejected { input }));
            });
        }
    });
    let Copies { live, most, all } = &tx.copies;
    let counts = [all, live, most].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counts, [WORKERS.into(), 0, 1]);
}
