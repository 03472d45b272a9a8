//! Transactions of this node's users: who is told of them, and who gets them.

use std::time::Duration;

use godwit_primitives::{Amount, MAX_MONEY, OutPoint, Transaction, TxIn, TxOut, Txid};
use godwit_stream::{DataStream, Encode};

use super::harness::{Harness, Sent, chain, config};
use crate::tx_outbox::{KEEP, MAX_OUTBOX, OutboxTx, TxOutbox};
use crate::{
    Command, ConnectionKind, Inventory, InventoryKind, Message, OutboxChange, PeerId,
    PeerTransactions, SEND_PAUSE, Version,
};

/// Longer than any delay before a peer is told.
const TOLD: Duration = Duration::from_secs(60);

fn transaction(n: u32, script: usize) -> (Transaction, Vec<u8>) {
    spending(OutPoint { txid: Txid::from_bytes([9; 32]), vout: n }, script)
}

fn spending(prevout: OutPoint, script: usize) -> (Transaction, Vec<u8>) {
    let input = TxIn { prevout, script_sig: Vec::new(), sequence: 7, witness: vec![vec![1, 2, 3]] };
    let outputs = vec![TxOut { value: 5, script_pubkey: vec![0x51; script] }];
    let tx = Transaction { version: 2, inputs: vec![input], outputs, lock_time: 0 };
    let mut bytes: DataStream = DataStream::new();
    tx.encode(&mut bytes);
    (tx, bytes.as_slice().to_vec())
}

/// Sends so many transactions with scripts of a length; one of them pays 1,000 satoshi for 100 virtual bytes.
pub(super) fn send(node: &mut Harness, count: u32, script: usize) -> Vec<(Transaction, Vec<u8>)> {
    let all: Vec<_> = (0..count).map(|n| transaction(n, script)).collect();
    let time = node.now.unix;
    let kept = all.iter().map(|(_, bytes)| {
        let view = godwit_primitives::TxView::parse(bytes).expect("a transaction");
        OutboxTx::new(view, 1_000, 100, time, 3)
    });
    node.peers.send_transactions(kept.collect(), &[]).expect("there is room");
    all
}

fn by_wtxid(tx: &Transaction) -> Inventory {
    Inventory { kind: InventoryKind::WTX, hash: tx.wtxid().to_bytes() }
}

fn by_txid(tx: &Transaction, kind: InventoryKind) -> Inventory {
    Inventory { kind, hash: tx.txid().to_bytes() }
}

/// What the peer was told of.
pub(super) fn told(node: &mut Harness, id: PeerId) -> Vec<Inventory> {
    let messages = node.take_only(id, Command::INV).into_iter();
    messages
        .flat_map(|message| match message {
            Message::Inv(entries) => entries,
            _ => Vec::new(),
        })
        .filter(|entry| entry.kind.is_transaction())
        .collect()
}

#[test]
fn who_wants_transactions_is_told_and_gets_them_once() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let peers = [node.full_peer(), node.inbound_peer(), node.peer(ConnectionKind::Manual)];
    let all = send(&mut node, 2, 10);
    node.advance(TOLD);
    let entries: Vec<Inventory> = all.iter().map(|(tx, _)| by_wtxid(tx)).collect();
    for id in peers {
        assert_eq!(told(&mut node, id), entries);
    }
    for id in peers {
        node.says(id, Message::GetData(entries.clone()));
        let given: Vec<Sent> =
            all.iter().map(|(_, bytes)| Sent::Transaction(bytes.clone())).collect();
        assert_eq!(node.take(id), given);
        node.says(id, Message::GetData(entries.clone()));
        assert_eq!(node.take(id), [Sent::Message(Message::NotFound(entries.clone()))]);
    }
    assert!(all.iter().all(|(tx, _)| node.peers.outbox().was_fetched(&tx.txid())));
}

#[test]
fn who_is_not_told_gets_nothing() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let block_relay = node.peer(ConnectionKind::BlockRelay);
    let address_fetch = node.peer(ConnectionKind::AddrFetch);
    let silent = node.inbound();
    let version = Version { relay: false, ..node.version() };
    node.greet_as(silent, version);
    let choosy = node.inbound_peer();
    node.says(choosy, Message::FeeFilter(10_001));
    let late = node.inbound();
    let (tx, _) = send(&mut node, 1, 10).remove(0);
    let told_to_others = node.full_peer();
    node.advance(TOLD);
    assert_eq!(told(&mut node, told_to_others), [by_wtxid(&tx)]);
    node.greet(late);
    for id in [block_relay, address_fetch, silent, choosy, late] {
        if node.is_gone(id).is_some() {
            continue;
        }
        assert_eq!(told(&mut node, id), [], "{id:?}");
        for entry in [by_wtxid(&tx), by_txid(&tx, InventoryKind::WITNESS_TX)] {
            node.says(id, Message::GetData(vec![entry]));
        }
        let given = node.take(id).into_iter().filter(|sent| matches!(sent, Sent::Transaction(_)));
        assert_eq!(given.count(), 0, "{id:?}");
    }
    assert!(!node.peers.outbox().was_fetched(&tx.txid()));
}

#[test]
fn a_fee_filter_lets_the_rate_pass_that_it_names() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    node.says(id, Message::FeeFilter(10_000));
    // No transaction can have these, and they are ignored.
    node.says(id, Message::FeeFilter(-1));
    node.says(id, Message::FeeFilter(MAX_MONEY + 1));
    let (tx, _) = send(&mut node, 1, 10).remove(0);
    node.advance(TOLD);
    assert_eq!(told(&mut node, id), [by_wtxid(&tx)]);
}

#[test]
fn the_operator_sees_what_a_peer_is_told_of_transactions_and_what_it_wants() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let (id, blocks_alone) = (node.inbound_peer(), node.peer(ConnectionKind::BlockRelay));
    let infos = |node: &Harness| -> Vec<PeerTransactions> {
        node.peers.infos().iter().map(|info| info.transactions).collect()
    };
    let nothing = PeerTransactions::default();
    let state =
        |least_fee, to_tell, told_before| PeerTransactions { least_fee, to_tell, told_before };
    assert_eq!(infos(&node), [state(0, 0, 1), nothing]);
    for peer in [id, blocks_alone] {
        node.says(peer, Message::FeeFilter(MAX_MONEY));
        node.says(peer, Message::FeeFilter(1_000));
    }
    assert_eq!(infos(&node), [state(1_000, 0, 1), nothing]);
    send(&mut node, 2, 10);
    node.advance(Duration::from_nanos(1));
    assert_eq!(infos(&node), [state(1_000, 2, 1), nothing]);
    node.advance(TOLD);
    assert_eq!(infos(&node), [state(1_000, 0, 3), nothing]);
}

#[test]
fn who_is_told_of_a_child_gets_its_parents_below_the_fee_filter_at_each_announcement() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    node.says(id, Message::FeeFilter(1_000));
    // Each spends the one before it; only the last one pays.
    let mut family: Vec<(Transaction, Vec<u8>)> = Vec::new();
    for fee in [0, 0, 1_000] {
        let txid = family.last().map_or(Txid::from_bytes([9; 32]), |(tx, _)| tx.txid());
        let (tx, bytes) = spending(OutPoint { txid, vout: 0 }, 10);
        send_one(&mut node, &bytes, fee);
        family.push((tx, bytes));
    }
    let (stranger, _) = transaction(1, 10);
    for _ in 0..2 {
        node.peers.announce_again(&family[2].0.txid());
        node.advance(TOLD);
        assert_eq!(told(&mut node, id), [by_wtxid(&family[2].0)]);
        for (tx, bytes) in family.iter().rev() {
            node.says(id, Message::GetData(vec![by_txid(tx, InventoryKind::WITNESS_TX)]));
            assert_eq!(node.take(id), [Sent::Transaction(bytes.clone())]);
        }
        let not_there = [&family[0].0, &stranger].map(|tx| by_txid(tx, InventoryKind::WITNESS_TX));
        node.says(id, Message::GetData(not_there.to_vec()));
        assert_eq!(node.take(id), [Sent::Message(Message::NotFound(not_there.to_vec()))]);
    }
}

fn send_one(node: &mut Harness, bytes: &[u8], fee: Amount) {
    let view = godwit_primitives::TxView::parse(bytes).expect("a transaction");
    let kept = OutboxTx::new(view, fee, 100, node.now.unix, 3);
    node.peers.send_transactions(vec![kept], &[]).expect("there is room");
}

/// Sends so many transactions, each of which spends the one before it.
fn send_chain(node: &mut Harness, count: usize) -> Vec<(Transaction, Vec<u8>)> {
    let mut chain: Vec<(Transaction, Vec<u8>)> = Vec::new();
    for _ in 0..count {
        let txid = chain.last().map_or(Txid::from_bytes([9; 32]), |(tx, _)| tx.txid());
        chain.push(spending(OutPoint { txid, vout: 0 }, 10));
    }
    chain.iter().for_each(|(_, bytes)| send_one(node, bytes, 1_000));
    chain
}

/// Core refuses the parent that pays too little, keeps the child as an orphan, and asks for the parent again.
#[test]
fn a_parent_that_was_refused_is_given_once_more_after_its_child() {
    for again in [InventoryKind::WITNESS_TX, InventoryKind::WTX] {
        let mut node = Harness::with_chain(config(), &chain(3, 60));
        let id = node.inbound_peer();
        let family = send_chain(&mut node, 2);
        let [(parent, parent_bytes), (child, child_bytes)] = &family[..] else { panic!("two") };
        let parent_again = match again {
            InventoryKind::WTX => by_wtxid(parent),
            kind => by_txid(parent, kind),
        };
        for _ in 0..2 {
            node.advance(TOLD);
            assert_eq!(told(&mut node, id), [by_wtxid(parent), by_wtxid(child)]);
            node.says(id, Message::GetData(vec![by_wtxid(parent), by_wtxid(child)]));
            let given = [parent_bytes, child_bytes].map(|bytes| Sent::Transaction(bytes.clone()));
            assert_eq!(node.take(id), given);
            node.says(id, Message::GetData(vec![parent_again]));
            assert_eq!(node.take(id), [Sent::Transaction(parent_bytes.clone())]);
            let no_more = vec![parent_again, by_wtxid(parent), by_wtxid(child)];
            node.says(id, Message::GetData(no_more.clone()));
            assert_eq!(node.take(id), [Sent::Message(Message::NotFound(no_more))]);
            family.iter().for_each(|(tx, _)| node.peers.announce_again(&tx.txid()));
        }
    }
}

/// As after a reorganisation, which may leave a child without its parent.
#[test]
fn a_child_that_waited_is_announced_again_behind_its_parent() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    let (parent, parent_bytes) = transaction(0, 10);
    let (child, child_bytes) = spending(OutPoint { txid: parent.txid(), vout: 0 }, 10);
    send_one(&mut node, &child_bytes, 1_000);
    node.advance(TOLD);
    assert_eq!(told(&mut node, id), [by_wtxid(&child)]);
    send_one(&mut node, &parent_bytes, 1_000);
    node.advance(TOLD);
    assert_eq!(told(&mut node, id), [by_wtxid(&parent), by_wtxid(&child)]);
    node.says(id, Message::GetData(vec![by_wtxid(&child)]));
    assert_eq!(node.take(id), [Sent::Transaction(child_bytes)]);
}

/// If each that is fetched brought its ancestors back, a chain of 64 would be asked for without end.
#[test]
fn a_chain_gives_each_once_and_once_more_for_each_descendant_that_was_announced() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    let all = send_chain(&mut node, 3);
    node.advance(TOLD);
    assert_eq!(told(&mut node, id).len(), 3);
    let asked = |node: &mut Harness, n: usize| {
        node.says(id, Message::GetData(vec![by_wtxid(&all[n].0)]));
        matches!(node.take(id)[..], [Sent::Transaction(_)])
    };
    for n in [0, 1, 0, 2, 0, 1] {
        assert!(asked(&mut node, n), "{n}");
    }
    for n in [0, 1, 2] {
        assert!(!asked(&mut node, n), "{n}");
    }
}

#[test]
fn who_knows_no_wtxids_is_told_txids_and_may_ask_for_no_witness() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound();
    let version = node.version();
    node.says(id, Message::Version(Box::new(version)));
    node.says(id, Message::Verack);
    let (tx, bytes) = send(&mut node, 1, 10).remove(0);
    node.advance(TOLD);
    assert_eq!(told(&mut node, id), [by_txid(&tx, InventoryKind::TX)]);
    node.says(id, Message::GetData(vec![by_txid(&tx, InventoryKind::TX)]));
    let mut stripped: DataStream = DataStream::new();
    tx.encode_stripped(&mut stripped);
    assert_eq!(node.take(id), [Sent::Transaction(stripped.as_slice().to_vec())]);
    // The next time it asks for all of it.
    node.peers.announce_again(&tx.txid());
    node.advance(TOLD);
    assert_eq!(told(&mut node, id), [by_txid(&tx, InventoryKind::TX)]);
    node.says(id, Message::GetData(vec![by_txid(&tx, InventoryKind::WITNESS_TX)]));
    assert_eq!(node.take(id), [Sent::Transaction(bytes)]);
}

/// As in Core: both sides must have a version of the protocol with it (BIP339).
#[test]
fn who_speaks_a_version_without_wtxids_is_told_txids_whatever_it_says() {
    for (version, kind) in [(70_015, InventoryKind::TX), (70_016, InventoryKind::WTX)] {
        let mut node = Harness::with_chain(config(), &chain(3, 60));
        let id = node.inbound();
        let version = Version { version, ..node.version() };
        node.greet_as(id, version);
        send(&mut node, 1, 10);
        node.advance(TOLD);
        let kinds: Vec<InventoryKind> =
            told(&mut node, id).iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [kind]);
    }
}

#[test]
fn a_peer_is_told_once_until_one_has_asked_and_then_rarely() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    let (tx, _) = send(&mut node, 1, 10).remove(0);
    let hour = Duration::from_secs(3_600);
    node.advance_in(hour, Duration::from_secs(5));
    assert_eq!(told(&mut node, id).len(), 1, "once, although it does not ask");
    // Whom it came too late for, and who wanted a higher fee.
    let (late, choosy) = (node.inbound_peer(), node.inbound_peer());
    node.says(choosy, Message::FeeFilter(10_001));
    node.advance(TOLD);
    assert_eq!((told(&mut node, late).len(), told(&mut node, choosy).len()), (1, 0));
    node.says(choosy, Message::FeeFilter(0));
    node.advance_in(hour, Duration::from_secs(5));
    let again = [id, late, choosy].map(|id| told(&mut node, id).len());
    assert_eq!(again, [0, 0, 1]);

    node.says(id, Message::GetData(vec![by_wtxid(&tx)]));
    node.take(id);
    node.advance_in(hour, Duration::from_secs(5));
    let late = node.inbound_peer();
    node.advance_in(10 * hour, Duration::from_secs(20));
    assert!(told(&mut node, id).is_empty() && told(&mut node, late).is_empty());
    node.advance_in(9 * hour, Duration::from_secs(20));
    assert_eq!((told(&mut node, id).len(), told(&mut node, late).len()), (1, 1));
}

/// The first one may be there to see who sends what.
#[test]
fn who_comes_soon_after_one_that_has_asked_is_told_as_well() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let (tx, _) = send(&mut node, 1, 10).remove(0);
    let first = node.inbound_peer();
    node.advance(TOLD);
    assert_eq!(told(&mut node, first), [by_wtxid(&tx)]);
    node.says(first, Message::GetData(vec![by_wtxid(&tx)]));
    let soon = node.full_peer();
    node.advance(TOLD);
    assert_eq!(told(&mut node, soon), [by_wtxid(&tx)]);
    node.advance_in(Duration::from_secs(15 * 60), Duration::from_secs(5));
    let late = node.full_peer();
    node.advance(TOLD);
    assert_eq!(told(&mut node, late), []);
}

/// Every peer of the new process would learn that this node sent it.
#[test]
fn what_a_peer_has_asked_for_is_not_announced_at_once_by_the_next_process() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let all = send(&mut node, 2, 10);
    let id = node.full_peer();
    node.advance(TOLD);
    assert_eq!(told(&mut node, id).len(), 2);
    let before = node.peers.outbox().version();
    node.says(id, Message::GetData(vec![by_wtxid(&all[0].0)]));
    assert_ne!(node.peers.outbox().version(), before, "it is saved again");
    let saved = node.peers.outbox().to_bytes([1; 4]);
    let outbox = TxOutbox::from_bytes(&saved, [1; 4], |_| false).expect("its own bytes");
    assert_eq!(outbox.to_bytes([1; 4]), saved);

    let mut node = Harness::with_chain(config(), &chain(3, 60));
    node.peers.restore_outbox(outbox);
    let id = node.inbound_peer();
    node.advance_in(Duration::from_secs(11 * 3_600), Duration::from_secs(20));
    assert_eq!(told(&mut node, id), [by_wtxid(&all[1].0)]);
    node.advance_in(Duration::from_secs(8 * 3_600), Duration::from_secs(20));
    assert_eq!(told(&mut node, id), [by_wtxid(&all[0].0)]);
}

#[test]
fn nobody_is_told_after_fourteen_days() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    send(&mut node, 1, 10);
    let keep = Duration::from_secs(KEEP as u64);
    node.advance_in(keep, Duration::from_secs(600));
    assert!(!node.peers.outbox().is_empty());
    node.advance_in(Duration::from_secs(2), Duration::from_secs(1));
    assert!(node.peers.outbox().is_empty());
    let [OutboxChange::Added { tx, sequence: 1 }, OutboxChange::Removed { txid, sequence: 2 }] =
        &node.outbox_changes[..]
    else {
        panic!("{:?}", node.outbox_changes)
    };
    assert_eq!(tx.txid, *txid);
    let id = node.inbound_peer();
    node.advance(TOLD);
    assert_eq!(told(&mut node, id), []);
}

#[test]
fn what_waits_at_the_start_is_told_to_the_first_who_comes() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let (tx, _) = send(&mut node, 1, 10).remove(0);
    node.advance(TOLD);
    let id = node.full_peer();
    node.advance(TOLD);
    assert_eq!(told(&mut node, id), [by_wtxid(&tx)]);
}

#[test]
fn a_flood_of_requests_gets_each_transaction_once_and_only_as_fast_as_it_is_taken() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    let all = send(&mut node, 30, 99_000);
    node.advance(TOLD);
    let entries: Vec<Inventory> = all.iter().map(|(tx, _)| by_wtxid(tx)).collect();
    assert_eq!(told(&mut node, id), entries);
    node.reads_everything = false;
    let flood = |n: usize| entries.iter().copied().cycle().take(n).collect::<Vec<_>>();
    node.says(id, Message::GetData(flood(50_000)));
    let footprint = node.peer_state(id).flow.footprint.queued();
    assert!((SEND_PAUSE..SEND_PAUSE + 200_000).contains(&footprint), "{footprint}");
    assert!(node.waiting_requests(id) > 40_000, "the others wait");
    let given = |node: &mut Harness| {
        node.take(id).into_iter().filter(|sent| matches!(sent, Sent::Transaction(_))).count()
    };
    let mut all_given = given(&mut node);
    for _ in 0..10 {
        let queued = node.peer_state(id).flow.footprint.queued();
        node.tell(crate::NetEvent::Sent { peer: id, bytes: queued });
        node.pump();
        all_given += given(&mut node);
    }
    assert_eq!((all_given, node.is_gone(id)), (all.len(), None));
}

#[test]
fn what_is_remembered_of_a_peer_is_bounded() {
    let mut node = Harness::with_chain(config(), &chain(3, 60));
    let id = node.inbound_peer();
    send(&mut node, MAX_OUTBOX as u32, 10);
    for _ in 0..5 {
        node.advance_in(Duration::from_secs(3_600), Duration::from_secs(5));
    }
    let memory = node.peer_state(id).serving.transactions.memory();
    assert!((8 * MAX_OUTBOX..=8 * 8 * MAX_OUTBOX).contains(&memory), "{memory}");
}
