use bitcoin::bip152::{BlockTransactions as OracleAnswer, HeaderAndShortIds};
use bitcoin::consensus::encode::{deserialize, serialize};
use godwit_primitives::MerkleRoot;
use godwit_testdata::shared_file;
use proptest::prelude::*;

use super::*;
use crate::{Command, Message};

/// Real blocks with and without witnesses, small and large.
const BLOCKS: [&str; 5] = [
    "blocks/mainnet_170.blk.zst",
    "blocks/mainnet_300025.blk.zst",
    "blocks/mainnet_481824.blk.zst",
    "blocks/mainnet_866342.blk.zst",
    "blocks/testnet3_32768.blk.zst",
];

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = DataStream::new();
    message.encode(&mut out);
    out.as_slice().to_vec()
}

/// As it arrives.
fn sent(block: CompactBlock) -> CompactBlock {
    let payload = encoded(&Message::CmpctBlock(block));
    match Message::decode(Command::CMPCTBLOCK, &payload) {
        Ok(Some(Message::CmpctBlock(block))) => block,
        other => panic!("{other:?}"),
    }
}

fn complete(partial: PartialBlock, missing: &RawTransactions) -> Result<Vec<u8>, CompactError> {
    let mut out = DataStream::new();
    partial.complete(missing, &mut out).map(|()| out.as_slice().to_vec())
}

fn answer(block: &Block, partial: &PartialBlock) -> RawTransactions {
    let Some(request) = partial.request() else { return RawTransactions::new() };
    block_transactions(block.view(), &request).expect("positions of the block").transactions
}

/// A block of `count` transactions that nobody mined: a coinbase, and spends of nothing real. With
/// `same`, the last two are equal (CVE-2012-2459).
fn made_block(count: u8, same: bool) -> Block {
    let transaction = |n: u8| {
        let coinbase = n == 0;
        let mut tx = vec![1, 0, 0, 0, 1];
        tx.extend(if coinbase { [0; 32] } else { [n; 32] });
        tx.extend(if coinbase { [0xff; 4] } else { [0, 0, 0, 0] });
        tx.extend([2, 0x51, n, 0xff, 0xff, 0xff, 0xff, 1]);
        tx.extend([0; 8]);
        tx.extend([1, 0x51, 0, 0, 0, 0]);
        tx
    };
    let mut transactions: Vec<_> = (0..count).map(transaction).collect();
    if same {
        transactions.extend(transactions.last().cloned());
    }
    let mut bytes = vec![0; 80];
    bytes[72..76].copy_from_slice(&0x207f_ffff_u32.to_le_bytes());
    bytes.push(transactions.len() as u8);
    bytes.extend(transactions.concat());
    let block = Block::from_bytes(&bytes).expect("well-formed");
    let (root, _) = merkle_root(block.view().txids().iter().map(|txid| txid.to_bytes()));
    bytes[36..68].copy_from_slice(&root);
    Block::from_bytes(&bytes).expect("well-formed")
}

fn partial(block: &Block, nonce: u64) -> PartialBlock {
    PartialBlock::new(sent(compact_block(block.view(), nonce))).expect("valid")
}

#[test]
fn real_blocks_as_a_second_implementation_makes_them() {
    for name in BLOCKS {
        let Some(bytes) = shared_file(name) else { return };
        let block = Block::from_bytes(&bytes).expect("a real block");
        let oracle: bitcoin::Block = deserialize(&bytes).expect("a real block");
        for nonce in [0, 0x0123_4567_89ab_cdef] {
            let expected =
                HeaderAndShortIds::from_block(&oracle, nonce, 2, &[]).expect("version 2");
            let payload = encoded(&Message::CmpctBlock(compact_block(block.view(), nonce)));
            assert_eq!(payload, serialize(&expected), "{name}");
        }
    }
}

#[test]
fn real_blocks_come_back() {
    for name in BLOCKS {
        let Some(bytes) = shared_file(name) else { return };
        let block = Block::from_bytes(&bytes).expect("a real block");
        let oracle: bitcoin::Block = deserialize(&bytes).expect("a real block");
        // Some in full, as a peer that knows what we lack would send them.
        let last = oracle.txdata.len() - 1;
        for prefill in [vec![], vec![last], vec![1, last / 2]] {
            let mut prefill: Vec<_> =
                prefill.into_iter().filter(|&at| at > 0 && at <= last).collect();
            prefill.dedup();
            let payload =
                HeaderAndShortIds::from_block(&oracle, 5, 2, &prefill).expect("version 2");
            let Ok(Some(Message::CmpctBlock(compact))) =
                Message::decode(Command::CMPCTBLOCK, &serialize(&payload))
            else {
                panic!("{name}: not decoded")
            };
            let partial = PartialBlock::new(compact).expect("valid");
            assert_eq!((partial.hash(), partial.header()), (block.hash(), block.header()));
            let missing = partial.request().map_or(0, |request| request.positions.len());
            assert_eq!(missing, last - prefill.len());
            let transactions = answer(&block, &partial);
            assert_eq!(complete(partial, &transactions), Ok(bytes.clone()), "{name}");
        }
    }
}

#[test]
fn answers_as_a_second_implementation_gives_them() {
    let Some(bytes) = shared_file("blocks/mainnet_481824.blk.zst") else { return };
    let block = Block::from_bytes(&bytes).expect("a real block");
    let oracle: bitcoin::Block = deserialize(&bytes).expect("a real block");
    let positions = vec![0, 1, 7, block.view().tx_count() as u16 - 1];
    let request = BlockTransactionsRequest { block_hash: block.hash(), positions };
    let payload = encoded(&Message::GetBlockTxn(request.clone()));
    let expected = OracleAnswer::from_request(&deserialize(&payload).expect("a request"), &oracle);
    let answer = block_transactions(block.view(), &request).expect("inside");
    assert_eq!(encoded(&Message::BlockTxn(answer)), serialize(&expected.expect("inside")));
    let beyond =
        BlockTransactionsRequest { positions: vec![0, block.view().tx_count() as u16], ..request };
    assert_eq!(block_transactions(block.view(), &beyond), None);
}

#[test]
fn compact_block_of_testnet3_leads_to_its_block() {
    let Some(payload) = shared_file("p2p/compact_block_898352_testnet3.bin") else { return };
    let Some(bytes) = shared_file("blocks/testnet3_898352.blk.zst") else { return };
    let block = Block::from_bytes(&bytes).expect("a real block");
    let Ok(Some(Message::CmpctBlock(compact))) = Message::decode(Command::CMPCTBLOCK, &payload)
    else {
        panic!("not decoded")
    };
    let partial = PartialBlock::new(compact).expect("valid");
    assert_eq!(partial.hash(), block.hash());
    let transactions = answer(&block, &partial);
    assert_eq!(complete(partial, &transactions), Ok(bytes));
}

#[test]
fn block_of_a_coinbase_alone_needs_no_answer() {
    let block = made_block(1, false);
    let partial = partial(&block, 1);
    assert_eq!(partial.request(), None);
    let bytes = complete(partial, &RawTransactions::new()).expect("complete");
    assert_eq!(bytes, block.view().bytes());
}

#[test]
fn block_is_appended_to_what_is_there() {
    let block = made_block(3, false);
    let partial = partial(&block, 1);
    let mut out = DataStream::from(&b"before"[..]);
    let transactions = answer(&block, &partial);
    partial.complete(&transactions, &mut out).expect("complete");
    assert_eq!(out.as_slice(), [b"before", block.view().bytes()].concat());
}

#[test]
fn b15_wrong_number_of_transactions_is_invalid() {
    let block = made_block(5, false);
    for count in (0..8).filter(|&count| count != 4) {
        let mut transactions = RawTransactions::new();
        (0..count).for_each(|_| transactions.push(block.view().tx(1).bytes()));
        assert_eq!(complete(partial(&block, 1), &transactions), Err(CompactError::Invalid));
    }
}

#[test]
fn b15_other_transactions_fail_without_blame() {
    let block = made_block(5, false);
    let other = made_block(9, false);
    for wrong in 0..4 {
        let mut transactions = RawTransactions::new();
        for at in 0..4 {
            let from = if at == wrong { &other.view() } else { &block.view() };
            transactions.push(from.tx(if at == wrong { 8 } else { at + 1 }).bytes());
        }
        assert_eq!(complete(partial(&block, 1), &transactions), Err(CompactError::Failed));
    }
}

#[test]
fn b15_repeated_transactions_collide_and_are_no_block() {
    let mutated = made_block(5, true);
    let honest = made_block(5, false);
    assert_eq!(mutated.hash(), honest.hash(), "CVE-2012-2459");
    let compact = compact_block(mutated.view(), 1);
    assert_eq!(PartialBlock::new(compact.clone()).map(|_| ()), Err(CompactError::Failed));
    // Even with all of them sent along, so that no ids collide.
    let mut prefilled = RawTransactions::new();
    mutated.view().txs().for_each(|tx| prefilled.push(tx.bytes()));
    let positions = (0..6).collect();
    let full =
        CompactBlock { short_ids: vec![], prefilled_positions: positions, prefilled, ..compact };
    let partial = PartialBlock::new(sent(full)).expect("well-formed");
    assert_eq!(complete(partial, &RawTransactions::new()), Err(CompactError::Failed));
}

#[test]
fn b15_equal_short_ids_fail() {
    let block = made_block(5, false);
    let mut compact = compact_block(block.view(), 1);
    compact.short_ids[3] = compact.short_ids[0];
    assert_eq!(PartialBlock::new(compact).map(|_| ()), Err(CompactError::Failed));
}

#[test]
fn b15_positions_that_do_not_add_up_are_invalid() {
    let block = made_block(5, false);
    let good = compact_block(block.view(), 1);
    let invalid = |change: &dyn Fn(&mut CompactBlock)| {
        let mut compact = good.clone();
        change(&mut compact);
        assert_eq!(PartialBlock::new(compact).map(|_| ()), Err(CompactError::Invalid));
    };
    invalid(&|compact| compact.prefilled_positions[0] = 5);
    invalid(&|compact| compact.prefilled_positions.push(1));
    invalid(&|compact| compact.header.bits = 0);
    invalid(&|compact| {
        compact.prefilled.push(block.view().tx(1).bytes());
        compact.prefilled_positions = vec![1, 1];
    });
    invalid(&|compact| {
        (compact.short_ids, compact.prefilled_positions) = (vec![], vec![]);
        compact.prefilled = RawTransactions::new();
    });
    invalid(&|compact| {
        // Neither inputs nor outputs.
        compact.prefilled = RawTransactions::new();
        compact.prefilled.push(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    });
    let last = CompactBlock { prefilled_positions: vec![4], ..good };
    PartialBlock::new(last).expect("the last position exists");
}

#[test]
fn witnesses_other_than_the_committed_ones_fail() {
    let Some(bytes) = shared_file("blocks/mainnet_866342.blk.zst") else { return };
    let block = Block::from_bytes(&bytes).expect("a real block");
    let partial = partial(&block, 1);
    let request = partial.request().expect("many are missing");
    let mut transactions = RawTransactions::new();
    let mut changed = false;
    for &position in &request.positions {
        let tx = block.view().tx(position.into());
        let mut raw = tx.bytes().to_vec();
        if tx.has_witness() && !changed {
            // The last byte before the lock time belongs to the last witness item, if it has any.
            let at = raw.len() - 5;
            raw[at] ^= 1;
            changed = TxView::parse(&raw).is_ok_and(|other| other.txid() == tx.txid());
            raw[at] ^= u8::from(!changed);
        }
        transactions.push(&raw);
    }
    assert!(changed);
    assert_eq!(complete(partial, &transactions), Err(CompactError::Failed));
}

#[test]
fn b15_block_without_coinbase_and_with_an_ambiguous_transaction_fails() {
    let mut bytes = made_block(2, false).view().bytes().to_vec();
    let first = 81;
    // A spend in place of the coinbase, and its input script so long that the whole has 64 bytes.
    let mut tx = vec![1, 0, 0, 0, 1];
    tx.extend([3; 36]);
    tx.extend([4, 0x51, 0x51, 0x51, 0x51, 0xff, 0xff, 0xff, 0xff, 1]);
    tx.extend([0; 9]);
    tx.extend([0; 4]);
    assert_eq!(tx.len(), 64);
    bytes.truncate(first);
    bytes[80] = 1;
    bytes.extend(&tx);
    let root = Block::from_bytes(&bytes).expect("well-formed").view().txids()[0].to_bytes();
    bytes[36..68].copy_from_slice(&root);
    let block = Block::from_bytes(&bytes).expect("well-formed");
    assert_eq!(block.header().merkle_root, MerkleRoot::from_bytes(root));
    let partial = partial(&block, 1);
    assert_eq!(complete(partial, &RawTransactions::new()), Err(CompactError::Failed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_prefilled_set_gives_the_block_back(
        count in 1..40u8, nonce in any::<u64>(), given in prop::collection::vec(any::<bool>(), 40),
    ) {
        let block = made_block(count, false);
        let view = block.view();
        let keys = ShortIdKeys::new(block.header(), nonce);
        let wtxids = view.wtxids();
        let (mut short_ids, mut prefilled) = (vec![], RawTransactions::new());
        let mut prefilled_positions = vec![];
        for at in 0..usize::from(count) {
            if given[at] {
                prefilled.push(view.tx(at).bytes());
                prefilled_positions.push(at as u16);
            } else {
                short_ids.push(keys.short_id(&wtxids[at]));
            }
        }
        let header = *block.header();
        let compact = CompactBlock { header, nonce, short_ids, prefilled_positions, prefilled };
        let partial = PartialBlock::new(sent(compact)).expect("valid");
        let transactions = answer(&block, &partial);
        prop_assert_eq!(complete(partial, &transactions), Ok(view.bytes().to_vec()));
    }

    #[test]
    fn b15_hostile_messages_give_errors_or_the_header_they_claim(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        answers in prop::collection::vec(0..6u8, 0..8),
    ) {
        let block = made_block(6, false);
        let mut payload = encoded(&Message::CmpctBlock(compact_block(block.view(), 1)));
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        let decoded = Message::decode(Command::CMPCTBLOCK, &payload);
        if let Ok(Some(Message::CmpctBlock(compact))) = decoded
            && let Ok(partial) = PartialBlock::new(compact)
        {
            let hash = partial.hash();
            let mut transactions = RawTransactions::new();
            answers.iter().for_each(|&at| transactions.push(block.view().tx(at.into()).bytes()));
            if let Ok(bytes) = complete(partial, &transactions) {
                prop_assert_eq!(Block::from_bytes(&bytes).expect("complete").hash(), hash);
            }
        }
    }
}
