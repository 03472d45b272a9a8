//! A compact block that a node sent, against the block that it stands for.

use godwit_primitives::{Block, Wtxid};

use super::*;

#[test]
fn a_real_compact_block_names_the_transactions_of_its_block() {
    let Some(payload) = godwit_testdata::shared_file("p2p/compact_block_898352_testnet3.bin")
    else {
        return;
    };
    let bytes = godwit_testdata::shared_file("blocks/testnet3_898352.blk.zst").expect("beside it");
    let block = Block::from_bytes(&bytes).expect("a block");
    let compact = match decoded(Command::CMPCTBLOCK, &payload) {
        Ok(Message::CmpctBlock(compact)) => compact,
        other => panic!("{other:?}"),
    };
    assert_eq!(encoded(&Message::CmpctBlock(compact.clone())), payload);
    assert_eq!(compact.header, *block.header());
    let view = block.view();
    assert_eq!(compact.transaction_count(), view.tx_count());
    assert_eq!(compact.prefilled_positions, [0]);
    // It is from the time of BIP152 version 1: without witness, ids over the txid.
    let coinbase = view.tx(0);
    assert_eq!(compact.prefilled.get(0).expect("the coinbase").len(), coinbase.stripped_size());
    let keys = ShortIdKeys::new(&compact.header, compact.nonce);
    for (id, txid) in compact.short_ids.iter().zip(&view.txids()[1..]) {
        assert_eq!(keys.short_id(&Wtxid::from_bytes(txid.to_bytes())), *id);
    }
}
