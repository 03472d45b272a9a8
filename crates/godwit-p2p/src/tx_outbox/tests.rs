//! What the outbox keeps, and what it forgets.

use godwit_primitives::merkle::merkle_root;
use godwit_primitives::{Block, BlockHeader, MerkleRoot, Transaction, TxIn, TxOut};
use godwit_stream::{DataStream, Encode};

use super::*;
use crate::saved_file::{self, SavedFileError};

const MAGIC: [u8; 4] = [1, 2, 3, 4];

/// A coinbase that nothing spends.
const UNSPENT: Txid = Txid::ZERO;

/// No chain: no block is in it.
fn nowhere(_: &BlockHash) -> bool {
    false
}

fn spending(prevouts: &[OutPoint], script: usize) -> Transaction {
    let input = |prevout: &OutPoint| TxIn {
        prevout: *prevout,
        script_sig: Vec::new(),
        sequence: 7,
        witness: Vec::new(),
    };
    let outputs = vec![TxOut { value: 5, script_pubkey: vec![0x51; script] }];
    let inputs = prevouts.iter().map(input).collect();
    Transaction { version: 2, inputs, outputs, lock_time: 0 }
}

fn coin(n: u32) -> OutPoint {
    OutPoint { txid: Txid::from_bytes([9; 32]), vout: n }
}

fn output(tx: &Transaction) -> OutPoint {
    OutPoint { txid: tx.txid(), vout: 0 }
}

/// Both clocks.
fn at(seconds: u64, unix: i64) -> Now {
    Now { monotonic: Duration::from_secs(seconds), unix }
}

fn kept(tx: &Transaction, time: i64) -> OutboxTx {
    let mut bytes: DataStream = DataStream::new();
    tx.encode(&mut bytes);
    OutboxTx::new(TxView::parse(bytes.as_slice()).expect("a transaction"), 100, 60, time, 3)
}

fn put(outbox: &mut TxOutbox, txs: &[&Transaction]) -> Result<(), OutboxFull> {
    outbox.put(txs.iter().map(|tx| kept(tx, 1_000)).collect(), &[]).map(drop)
}

fn block(txs: &[&Transaction]) -> Block {
    let coinbase = spending(&[OutPoint::NULL], 1);
    let all: Vec<&Transaction> = std::iter::once(&coinbase).chain(txs.iter().copied()).collect();
    let (root, _) = merkle_root(all.iter().map(|tx| tx.txid().to_bytes()));
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&BlockHeader {
        version: 4,
        prev_blockhash: BlockHash::from_bytes([1; 32]),
        merkle_root: MerkleRoot::from_bytes(root),
        time: 1,
        bits: 0x207f_ffff,
        nonce: 0,
    });
    bytes.write_compact_size(all.len() as u64);
    all.iter().for_each(|tx| tx.encode(&mut bytes));
    Block::from_bytes(bytes.as_slice()).expect("a block")
}

fn txids(outbox: &TxOutbox) -> Vec<Txid> {
    outbox.waiting().map(|tx| tx.txid).collect()
}

/// A parent, its child, and one that has nothing to do with them.
fn family() -> [Transaction; 3] {
    let parent = spending(&[coin(0)], 1);
    let child = spending(&[output(&parent), coin(1)], 1);
    [parent, child, spending(&[coin(2)], 1)]
}

#[test]
fn what_a_block_has_waits_no_longer_and_waits_again_when_the_block_is_left() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child, &other]), Ok(()));
    let all = txids(&outbox);
    assert_eq!(all, [&parent, &child, &other].map(Transaction::txid));
    let block = block(&[&parent, &other]);
    outbox.note_block(block.hash(), 10, block.view());
    assert_eq!((txids(&outbox), outbox.get(&parent.txid())), (vec![child.txid()], None));
    outbox.note_left(&BlockHash::from_bytes([2; 32]), &UNSPENT);
    assert_eq!(txids(&outbox), [child.txid()]);
    outbox.note_left(&block.hash(), &UNSPENT);
    assert_eq!(txids(&outbox), all);
}

#[test]
fn what_is_deep_in_the_chain_is_forgotten() {
    let [parent, child, _] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child]), Ok(()));
    let own = block(&[&parent, &child]);
    outbox.note_block(own.hash(), 10, own.view());
    let empty = block(&[]);
    outbox.note_block(empty.hash(), 10 + FORGET_DEPTH - 1, empty.view());
    assert!(!outbox.is_empty() && outbox.memory() > 0);
    outbox.note_block(empty.hash(), 10 + FORGET_DEPTH, empty.view());
    assert!(outbox.is_empty());
    assert_eq!((outbox.memory(), outbox.by_txid.len(), outbox.spenders.len()), (0, 0, 0));
}

#[test]
fn what_spends_what_a_block_spends_is_forgotten_with_all_that_depends_on_it() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child, &other]), Ok(()));
    let rival = block(&[&spending(&[coin(0)], 2)]);
    outbox.note_block(rival.hash(), 10, rival.view());
    assert_eq!(txids(&outbox), [other.txid()]);
    assert!(!outbox.is_spent(&coin(1)) && outbox.is_spent(&coin(2)));
}

#[test]
fn what_cannot_come_into_a_block_any_more_is_forgotten_at_the_start() {
    let [parent, child, other] = family();
    let left = |coins: &[OutPoint], height| {
        let mut outbox = TxOutbox::default();
        assert_eq!(put(&mut outbox, &[&parent, &child, &other]), Ok(()));
        let found = outbox.forget_spent(height, |outpoint| Ok::<_, ()>(coins.contains(outpoint)));
        assert_eq!(found, Ok(()));
        txids(&outbox)
    };
    let all = [&parent, &child, &other].map(Transaction::txid);
    assert_eq!(left(&[coin(0), coin(1), coin(2)], 3), all);
    // A block has the parent; another one spends what it spends.
    assert_eq!(left(&[output(&parent), coin(1), coin(2)], 3), all[1..]);
    assert_eq!(left(&[coin(1), coin(2)], 3), all[2..]);
    assert_eq!(left(&[coin(0), coin(2)], 3), [all[0], all[2]]);
    // Blocks that this node had are missing.
    assert_eq!(left(&[], 2), all);
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child, &other]), Ok(()));
    assert_eq!(outbox.forget_spent(3, |_| Err(7)), Err(7));
    assert_eq!(txids(&outbox), all);
}

/// The coins that it spends may be in no block of the new branch yet.
#[test]
fn what_waited_when_blocks_were_left_is_not_forgotten_at_the_start_for_want_of_inputs() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    // The outbox never had the parent.
    assert_eq!(put(&mut outbox, &[&child, &other]), Ok(()));
    let left = block(&[&parent, &child]);
    outbox.note_block(left.hash(), 10, left.view());
    let before = outbox.to_bytes(MAGIC);
    let read = |bytes: &[u8]| TxOutbox::from_bytes(bytes, MAGIC, nowhere).expect("it is undamaged");
    let stays = |mut outbox: TxOutbox, coins: &[OutPoint]| {
        let found = outbox.forget_spent(3, |outpoint| Ok::<_, ()>(coins.contains(outpoint)));
        assert_eq!(found, Ok(()));
        txids(&outbox)
    };
    let both = [child.txid(), other.txid()];
    // It was not saved since: that its own block was left is seen.
    assert_eq!(stays(read(&before), &[]), both[..1]);
    let version = outbox.version();
    outbox.note_left(&left.hash(), &UNSPENT);
    assert_ne!(outbox.version(), version, "it is saved again");
    let after = outbox.to_bytes(MAGIC);
    assert_eq!(read(&after).to_bytes(MAGIC), after);
    assert_eq!(stays(read(&after), &[]), both);
    // A block has it, with what it spends from.
    assert_eq!(stays(read(&after), &[output(&child)]), both[1..]);
    let mut with_parent = read(&after);
    assert_eq!(put(&mut with_parent, &[&parent]), Ok(()));
    with_parent.note_left(&left.hash(), &UNSPENT);
    assert_eq!(stays(with_parent, &[output(&child)]), both[1..]);
    // A block that has it again ends that.
    let mut alone = TxOutbox::default();
    assert_eq!(put(&mut alone, &[&child]), Ok(()));
    alone.note_block(left.hash(), 10, left.view());
    let in_block = alone.to_bytes(MAGIC);
    alone.note_left(&left.hash(), &UNSPENT);
    alone.note_block(left.hash(), 10, left.view());
    assert_eq!(alone.to_bytes(MAGIC), in_block);
}

/// Another branch has another coinbase: what spends this one can never come into a block there.
#[test]
fn what_spends_the_coinbase_of_a_block_that_was_left_is_forgotten_with_all_that_depends_on_it() {
    let coinbase = spending(&[OutPoint::NULL], 1);
    let spender = spending(&[output(&coinbase)], 1);
    let [child, other] = [spending(&[output(&spender)], 2), spending(&[coin(1)], 1)];
    let all = [&spender, &child, &other];
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &all), Ok(()));
    // One is in a block above, which is left before.
    let above = block(&[&spender]);
    outbox.note_block(above.hash(), 110, above.view());
    outbox.note_left(&above.hash(), &UNSPENT);
    let left = block(&[]);
    outbox.note_left(&left.hash(), &coinbase.txid());
    // A block of the new branch that has the same coinbase keeps them.
    let twin = block(&[&coinbase]);
    outbox.note_block(twin.hash(), 10, twin.view());
    assert_eq!(told(outbox.note_settled(), &all), [('+', 0, 5)]);
    outbox.note_block(above.hash(), 110, above.view());
    outbox.note_left(&above.hash(), &UNSPENT);
    outbox.note_left(&twin.hash(), &coinbase.txid());
    // Nobody was told that the first one waits again.
    let removed = [OutboxChange::Removed { txid: child.txid(), sequence: 7 }];
    assert_eq!(outbox.note_settled(), removed);
    assert_eq!(txids(&outbox), [other.txid()]);
    assert_eq!(outbox.note_settled(), []);
}

#[test]
fn what_was_replaced_leaves_with_all_that_depends_on_it() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child, &other]), Ok(()));
    let new = spending(&[coin(0)], 2);
    assert!(outbox.put(vec![kept(&new, 1)], &[parent.txid()]).is_ok());
    assert_eq!(txids(&outbox), [other.txid(), new.txid()]);
}

/// A block had both, but the outbox only the child.
#[test]
fn a_parent_that_comes_after_what_spends_it_stands_before_it() {
    let [parent, child, other] = family();
    let grandchild = spending(&[output(&child)], 1);
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&child, &grandchild, &other]), Ok(()));
    let block = block(&[&parent, &child]);
    outbox.note_block(block.hash(), 10, block.view());
    outbox.note_left(&block.hash(), &UNSPENT);
    assert_eq!(put(&mut outbox, &[&parent]), Ok(()));
    let all = [&other, &parent, &child, &grandchild];
    assert_eq!(txids(&outbox), all.map(Transaction::txid));
    // It returns under its new id, and is found and leaves as before.
    assert_eq!(told(outbox.note_settled(), &all), [('+', 2, 6)]);
    assert!(outbox.find_wtxid(&child.wtxid()) > outbox.find_txid(&parent.txid()));
    assert!(outbox.put(Vec::new(), &[parent.txid()]).is_ok());
    assert_eq!(txids(&outbox), [other.txid()]);
    assert!(!outbox.is_spent(&coin(1)) && !outbox.is_spent(&output(&child)));
}

#[test]
fn fourteen_days_are_waited_and_no_longer() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    let txs = vec![kept(&parent, 1_000), kept(&child, 2_000), kept(&other, 2_000)];
    assert!(outbox.put(txs, &[]).is_ok());
    outbox.expire(at(0, 1_000 + KEEP));
    assert_eq!(txids(&outbox).len(), 3);
    outbox.expire(at(1, 1_001 + KEEP));
    assert_eq!(txids(&outbox), [other.txid()]);
    // What a block has is not forgotten for its age.
    let block = block(&[&other]);
    outbox.note_block(block.hash(), 10, block.view());
    outbox.expire(at(KEEP as u64 * 2, i64::MAX));
    assert!(!outbox.is_empty());
}

/// Ten years for a moment, or from a moment when the clock was that far behind.
#[test]
fn a_clock_that_jumps_makes_nothing_old() {
    const YEARS: i64 = 10 * 365 * 24 * 60 * 60;
    const DAY: u64 = 24 * 60 * 60;
    let [parent, child, other] = family();
    for jump in [YEARS, -YEARS] {
        let start = 2 * YEARS;
        let mut outbox = TxOutbox::default();
        // One of them has waited for four days at the start.
        let four_days = 4 * DAY as i64;
        let txs = [kept(&parent, start - four_days), kept(&child, start), kept(&other, start)];
        assert!(outbox.put(txs.into(), &[]).is_ok());
        outbox.expire(at(5, start));
        outbox.expire(at(6, start + jump));
        outbox.expire(at(10 * DAY + 5, start));
        assert_eq!(txids(&outbox).len(), 3, "{jump}");
        outbox.expire(at(10 * DAY + 6, start + jump));
        assert_eq!(txids(&outbox), [other.txid()], "{jump}");
        outbox.expire(at(14 * DAY + 6, start));
        assert!(outbox.is_empty(), "{jump}");
    }
    // What was written down long ago is forgotten at the start.
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&other]), Ok(()));
    outbox.expire(at(0, i64::MAX));
    assert!(outbox.is_empty());
}

/// Changes as `+` or `-`, the place of the transaction among these, and the number.
fn told(changes: Vec<OutboxChange>, of: &[&Transaction]) -> Vec<(char, usize, u64)> {
    let place = |txid| of.iter().position(|tx| tx.txid() == txid).expect("one of them");
    let told = changes.into_iter().map(|change| match change {
        OutboxChange::Added { tx, sequence } => ('+', place(tx.txid), sequence),
        OutboxChange::Removed { txid, sequence } => ('-', place(txid), sequence),
    });
    told.collect()
}

#[test]
fn what_begins_and_ceases_to_wait_is_told_with_numbers_as_cores_mempool_gives_them() {
    let [parent, child, other] = family();
    let (new, rival) = (spending(&[coin(0)], 2), spending(&[coin(2)], 3));
    let all = [&parent, &child, &other, &new, &rival];
    let mut outbox = TxOutbox::default();
    assert_eq!(outbox.next_sequence(), 1);
    let put = |outbox: &mut TxOutbox, tx, replaced: &[Txid]| {
        told(outbox.put(vec![kept(tx, 1_000)], replaced).expect("there is room"), &all)
    };
    assert_eq!(put(&mut outbox, &parent, &[]), [('+', 0, 1)]);
    assert_eq!(put(&mut outbox, &child, &[]), [('+', 1, 2)]);
    assert_eq!(put(&mut outbox, &child, &[]), [], "it is known");
    assert_eq!(put(&mut outbox, &other, &[]), [('+', 2, 3)]);
    // What it replaces leaves first, and what depends on that.
    let replaced = [('-', 0, 4), ('-', 1, 5), ('+', 3, 6)];
    assert_eq!(put(&mut outbox, &new, &[parent.txid()]), replaced);
    // Of what a block has the block tells; but it is counted.
    let block = block(&[&new, &rival]);
    let changes = outbox.note_block(block.hash(), 10, block.view());
    assert_eq!((told(changes, &all), outbox.next_sequence()), (vec![('-', 2, 8)], 9));
    // And what was not known to wait is not.
    let again = outbox.note_block(block.hash(), 10, block.view());
    assert_eq!((again, outbox.next_sequence()), (Vec::new(), 9));
    outbox.note_left(&block.hash(), &UNSPENT);
    assert_eq!(told(outbox.note_settled(), &all), [('+', 3, 9)]);
    assert_eq!(told(outbox.note_settled(), &all), []);
    assert_eq!(told(outbox.expire(at(0, 1_001 + KEEP)), &all), [('-', 3, 10)]);
    assert!(outbox.is_empty());
    assert_eq!(put(&mut outbox, &other, &[]), [('+', 2, 11)], "an empty outbox counts on");
}

#[test]
fn of_what_the_other_branch_has_too_or_makes_impossible_nothing_is_told() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &other]), Ok(()));
    let left = block(&[&parent, &other]);
    assert_eq!(outbox.note_block(left.hash(), 10, left.view()), []);
    assert_eq!(outbox.next_sequence(), 5);
    // Meanwhile one more is sent, which depends on one that has not been told to wait again.
    outbox.note_left(&left.hash(), &UNSPENT);
    assert_eq!(put(&mut outbox, &[&child]), Ok(()));
    let joined = block(&[&spending(&[coin(0)], 2), &other]);
    let changes = outbox.note_block(joined.hash(), 10, joined.view());
    assert_eq!(told(changes, &[&child]), [('-', 0, 6)]);
    assert_eq!((outbox.note_settled(), outbox.next_sequence()), (Vec::new(), 7));
    assert_eq!(txids(&outbox), []);
    assert!(!outbox.is_empty(), "a block has the other one");
}

#[test]
fn what_leaves_a_block_in_which_it_is_forgotten_was_told_by_the_block() {
    let [parent, child, _] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child]), Ok(()));
    let own = block(&[&parent, &child]);
    assert_eq!(outbox.note_block(own.hash(), 10, own.view()), []);
    let empty = block(&[]);
    let changes = outbox.note_block(empty.hash(), 10 + FORGET_DEPTH, empty.view());
    assert_eq!((changes, outbox.is_empty(), outbox.next_sequence()), (Vec::new(), true, 5));
}

#[test]
fn a_file_gives_those_that_wait_the_first_numbers() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child, &other]), Ok(()));
    let block = block(&[&parent]);
    outbox.note_block(block.hash(), 10, block.view());
    let is_active = |hash: &BlockHash| *hash == block.hash();
    let read = TxOutbox::from_bytes(&outbox.to_bytes(MAGIC), MAGIC, is_active);
    assert_eq!(read.expect("it is undamaged").next_sequence(), 3);
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let mut outbox = TxOutbox::default();
    for n in 0..MAX_OUTBOX as u32 {
        assert_eq!(put(&mut outbox, &[&spending(&[coin(n)], 1)]), Ok(()));
    }
    let more = spending(&[coin(5_000)], 1);
    let before = (txids(&outbox), outbox.version());
    assert_eq!(put(&mut outbox, &[&more]), Err(OutboxFull));
    assert_eq!((txids(&outbox), outbox.version()), before);
    // In another one's place there is.
    assert!(outbox.put(vec![kept(&more, 1)], &before.0[..1]).is_ok());
    assert_eq!(txids(&outbox).len(), MAX_OUTBOX);
}

#[test]
fn what_blocks_have_makes_room_for_what_waits_the_deepest_first() {
    let mut outbox = TxOutbox::default();
    let all: Vec<Transaction> = (0..MAX_OUTBOX as u32).map(|n| spending(&[coin(n)], 1)).collect();
    assert_eq!(put(&mut outbox, &all.iter().collect::<Vec<_>>()), Ok(()));
    let (high, deep) = (block(&[&all[0]]), block(&[&all[1], &all[2]]));
    outbox.note_block(high.hash(), 11, high.view());
    outbox.note_block(deep.hash(), 10, deep.view());
    let more: Vec<Transaction> = (5_000..5_004).map(|n| spending(&[coin(n)], 1)).collect();
    let before = outbox.version();
    assert_eq!(put(&mut outbox, &more.iter().collect::<Vec<_>>()), Err(OutboxFull));
    assert_eq!(outbox.version(), before);
    let left = |outbox: &TxOutbox| {
        let is_there = |tx: &&Transaction| outbox.by_txid.contains_key(&tx.txid());
        all[..3].iter().filter(is_there).map(Transaction::txid).collect::<Vec<_>>()
    };
    assert_eq!(put(&mut outbox, &[&more[0]]), Ok(()));
    assert_eq!(left(&outbox), [all[0].txid(), all[2].txid()]);
    assert_eq!(put(&mut outbox, &[&more[1]]), Ok(()));
    assert_eq!(left(&outbox), [all[0].txid()]);
    assert_eq!(put(&mut outbox, &[&more[2]]), Ok(()));
    assert_eq!((left(&outbox), txids(&outbox).len()), (Vec::new(), MAX_OUTBOX));
    assert_eq!(put(&mut outbox, &[&more[3]]), Err(OutboxFull));
}

#[test]
fn there_is_room_for_so_many_bytes_and_no_more() {
    let size = |tx: &Transaction| kept(tx, 1).memory();
    let mut outbox = TxOutbox::default();
    let large = |n| spending(&[coin(n)], 99_000);
    let count = (MAX_OUTBOX_BYTES / size(&large(0))) as u32;
    for n in 0..count {
        assert_eq!(put(&mut outbox, &[&large(n)]), Ok(()));
    }
    let left = MAX_OUTBOX_BYTES - outbox.memory();
    let empty = size(&spending(&[coin(0)], 0));
    let fits = (0..left).rev().find(|script| size(&spending(&[coin(0)], *script)) <= left);
    let fits = fits.expect("some do");
    assert!(fits > 0 && empty < left);
    assert_eq!(put(&mut outbox, &[&spending(&[coin(count)], fits + 1)]), Err(OutboxFull));
    assert_eq!(put(&mut outbox, &[&spending(&[coin(count)], fits)]), Ok(()));
    assert!(outbox.memory() <= MAX_OUTBOX_BYTES);
}

#[test]
fn the_file_gives_back_what_was_written() {
    let [parent, child, other] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child, &other]), Ok(()));
    let block = block(&[&parent]);
    outbox.note_block(block.hash(), 10, block.view());
    let bytes = outbox.to_bytes(MAGIC);
    let read = TxOutbox::from_bytes(&bytes, MAGIC, nowhere).expect("it is undamaged");
    // No chain has the block: what was in it waits.
    let waiting: Vec<OutboxTx> = read.waiting().map(|tx| OutboxTx::clone(tx)).collect();
    assert_eq!(waiting, [kept(&parent, 1_000), kept(&child, 1_000), kept(&other, 1_000)]);
    assert_eq!(read.memory(), outbox.memory());
    // With a chain that has it, only the others do.
    let is_active = |hash: &BlockHash| *hash == block.hash();
    let read = TxOutbox::from_bytes(&bytes, MAGIC, is_active).expect("it is undamaged");
    let waiting: Vec<OutboxTx> = read.waiting().map(|tx| OutboxTx::clone(tx)).collect();
    assert_eq!(waiting, [kept(&child, 1_000), kept(&other, 1_000)]);
    let empty = TxOutbox::default().to_bytes(MAGIC);
    assert!(TxOutbox::from_bytes(&empty, MAGIC, nowhere).expect("it is empty").is_empty());
}

#[test]
fn any_damage_of_the_file_is_noticed() {
    let [parent, child, _] = family();
    let mut outbox = TxOutbox::default();
    assert_eq!(put(&mut outbox, &[&parent, &child]), Ok(()));
    let bytes = outbox.to_bytes(MAGIC);
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        assert!(TxOutbox::from_bytes(&damaged, MAGIC, nowhere).is_err(), "byte {place}");
        assert!(TxOutbox::from_bytes(&bytes[..place], MAGIC, nowhere).is_err(), "{place} bytes");
    }
    assert!(TxOutbox::from_bytes(&[&bytes[..], &[0]].concat(), MAGIC, nowhere).is_err());
    assert!(TxOutbox::from_bytes(&bytes, [0; 4], nowhere).is_err(), "another network's");
}

/// Up to three units of weight are lost in virtual bytes.
#[test]
fn a_weight_that_signature_operations_decide_is_kept() {
    let mut tx = spending(&[coin(0)], 1);
    tx.inputs[0].witness = vec![vec![7]];
    let mut bytes: DataStream = DataStream::new();
    tx.encode(&mut bytes);
    let view = TxView::parse(bytes.as_slice()).expect("a transaction");
    let own = view.weight() as u64;
    assert!(!own.is_multiple_of(4));
    let vsize = own.div_ceil(4);
    for (vsize, weight) in [(vsize, own), (vsize, 4 * vsize), (vsize + 5, 4 * vsize + 20)] {
        let mut kept = OutboxTx::new(view, 100, vsize, 1, 3);
        kept.weight = weight;
        let mut outbox = TxOutbox::default();
        outbox.put(vec![kept.clone()], &[]).expect("there is room");
        let read = TxOutbox::from_bytes(&outbox.to_bytes(MAGIC), MAGIC, nowhere).expect("a file");
        assert_eq!(read.get(&kept.txid).map(|tx| &**tx), Some(&kept));
    }
}

#[test]
fn a_file_that_contradicts_itself_is_refused() {
    let [parent, child, _] = family();
    let written = |txs: &[OutboxTx]| {
        saved_file::seal(MAGIC, |out| {
            out.write_u32(txs.len() as u32);
            for tx in txs {
                out.write_i64(tx.time);
                out.write_u32(tx.height);
                out.write_i64(tx.fee);
                out.write_u64(tx.vsize);
                out.write(&[0; 36]);
                out.write_u32(tx.bytes.len() as u32);
                out.write(&tx.bytes);
            }
        })
    };
    let read = |txs: &[OutboxTx]| TxOutbox::from_bytes(&written(txs), MAGIC, nowhere).map(drop);
    let good = kept(&parent, 1);
    assert_eq!(read(&[good.clone(), kept(&child, 1)]), Ok(()));
    let refused = Err(SavedFileError::Inconsistent);
    assert_eq!(read(&[good.clone(), good.clone()]), refused);
    assert_eq!(read(&[good.clone(), kept(&spending(&[coin(0)], 2), 1)]), refused);
    assert_eq!(read(&[OutboxTx { vsize: 0, ..good.clone() }]), refused);
    assert_eq!(read(&[OutboxTx { fee: -1, ..good.clone() }]), refused);
    assert_eq!(
        read(&[OutboxTx { bytes: [&good.bytes[..], &[0]].concat().into(), ..good }]),
        refused
    );
    let many: Vec<OutboxTx> =
        (0..=MAX_OUTBOX as u32).map(|n| kept(&spending(&[coin(n)], 1), 1)).collect();
    assert_eq!(read(&many), refused);
    assert_eq!(read(&many[1..]), Ok(()));
}
