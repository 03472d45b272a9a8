//! What a replacement has to be, in pools that are put together.

use godwit_primitives::OutPoint;

use super::*;
use crate::pool::PoolTx;

/// Coin `n` of the chain.
fn coin(n: u32) -> OutPoint {
    OutPoint { txid: Txid::from_bytes([9; 32]), vout: n }
}

/// A transaction with so many outputs.
fn bytes(prevouts: &[OutPoint], outputs: u8) -> Vec<u8> {
    let input = |prevout: &OutPoint| {
        [&prevout.txid.to_bytes()[..], &prevout.vout.to_le_bytes(), &[0], &[0xff; 4]].concat()
    };
    let inputs: Vec<u8> = prevouts.iter().flat_map(input).collect();
    let output = [&5u64.to_le_bytes()[..], &[1, 0x51]].concat();
    let counted =
        [&[prevouts.len() as u8], &inputs[..], &[outputs], &output.repeat(outputs.into())];
    [&[2, 0, 0, 0][..], &counted.concat(), &[0; 4]].concat()
}

fn in_pool(bytes: &[u8], fee: Amount, weight: u64) -> PoolTx<'_> {
    let tx = TxView::parse(bytes).expect("a transaction");
    let (txid, wtxid, vsize) = (tx.txid(), tx.wtxid(), weight.div_ceil(4));
    PoolTx { tx, txid, wtxid, fee, vsize, weight }
}

fn pool<'a>(txs: &[PoolTx<'a>]) -> Pool<'a> {
    let mut pool = Pool::default();
    txs.iter().for_each(|tx| pool.add(*tx));
    pool
}

fn output(tx: &PoolTx<'_>, vout: u32) -> OutPoint {
    OutPoint { txid: tx.txid, vout }
}

#[test]
fn a_cluster_has_so_much_weight_and_no_more() {
    let parent = bytes(&[coin(0)], 1);
    // In virtual bytes, each rounded up, they would be 101,001.
    let parent = in_pool(&parent, 1, 401_501);
    let child = bytes(&[output(&parent, 0)], 1);
    let child = TxView::parse(&child).expect("a transaction");
    let of = |weight| cluster_within_limits(child, weight, &pool(&[parent]), &BTreeSet::new());
    assert_eq!(of(2_499), Ok(()));
    assert_eq!(of(2_500), Err(Refusal::ClusterTooLarge));
}
