//! What does not fit into the queue is counted, and the queue keeps no more than it should.

use godwit_p2p::OutboxTx;
use godwit_primitives::{Transaction, TxIn, TxOut, TxView, Txid};
use godwit_stream::{DataStream, Encode};

use super::*;

fn queue() -> (Notices, mpsc::Receiver<Notice>) {
    let (to, notices) = mpsc::channel(MAX_NOTICES);
    (Notices { to, waiting: Arc::default(), overflows: LogLimit::default() }, notices)
}

fn added(bytes: usize) -> Notice {
    let input = TxIn {
        prevout: godwit_primitives::OutPoint { txid: Txid::from_bytes([7; 32]), vout: 0 },
        script_sig: Vec::new(),
        sequence: 0,
        witness: Vec::new(),
    };
    let output = |script: usize| TxOut { value: 1, script_pubkey: vec![0x51; script] };
    let encoded = |script| {
        let (inputs, outputs) = (vec![input.clone()], vec![output(script)]);
        let mut out: DataStream = DataStream::new();
        Transaction { version: 2, inputs, outputs, lock_time: 0 }.encode(&mut out);
        out
    };
    let beside = encoded(70_000).len() - 70_000;
    let encoded = encoded(bytes - beside);
    let tx = TxView::parse(encoded.as_slice()).expect("a transaction");
    let tx = Arc::new(OutboxTx::new(tx, 1, 1, 0, 0));
    Notice::Outbox(OutboxChange::Added { tx, sequence: 1 })
}

fn removed() -> Notice {
    Notice::Outbox(OutboxChange::Removed { txid: Txid::from_bytes([7; 32]), sequence: 1 })
}

fn missed(notices: &Notices) -> [u32; 3] {
    [Topic::HashBlock, Topic::RawTx, Topic::Sequence].map(|topic| notices.waiting.missed(topic))
}

#[test]
fn so_many_bytes_of_transactions_wait_and_no_more() {
    let (notices, mut queue) = queue();
    let size = MAX_NOTICED_BYTES / 32;
    (0..32).for_each(|_| notices.tell(added(size)));
    assert_eq!(missed(&notices), [0; 3]);
    notices.tell(added(100_000));
    assert_eq!(missed(&notices), [0, 1, 1]);
    // What has no bytes fits.
    notices.tell(removed());
    assert_eq!((missed(&notices), queue.len()), ([0, 1, 1], 33));
    // As much as was taken out.
    let taken = queue.try_recv().expect("a notice");
    assert_eq!(taken.bytes(), size);
    notices.waiting.give_back(taken.bytes());
    notices.tell(added(size + 1));
    assert_eq!(missed(&notices), [0, 2, 2]);
    notices.tell(added(size));
    assert_eq!((missed(&notices), queue.len()), ([0, 2, 2], 33));
}

#[test]
fn so_many_notices_wait_and_no_more() {
    let (notices, queue) = queue();
    (0..MAX_NOTICES).for_each(|_| notices.tell(removed()));
    assert_eq!(missed(&notices), [0; 3]);
    notices.tell(removed());
    notices.tell(added(70_100));
    let block = NoticedBlock { hash: BlockHash::from_bytes([1; 32]), tx_count: 5, stored: None };
    notices.tell(Notice::Connected { block, is_new_tip: true });
    notices.tell(Notice::Connected { block, is_new_tip: false });
    notices.tell(Notice::Disconnected(block));
    assert_eq!((missed(&notices), queue.len()), ([1, 16, 5], MAX_NOTICES));
    assert_eq!(notices.waiting.bytes.load(Ordering::Relaxed), 0, "nothing is kept of them");
}
