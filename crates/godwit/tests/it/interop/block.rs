//! Blocks on any parent, put together from godwit's own types.

use godwit_primitives::sha256::sha256d;
use godwit_primitives::{Block, OutPoint, Transaction, TxIn, TxOut, merkle};
use godwit_sim::blocks::mined;
use godwit_sim::miner;
use godwit_stream::DataStream;

use crate::blocks::header;

/// Seconds between blocks on top of a chain, so that a few of them stay below the two hours that a
/// block may lie in the future.
const SPACING: u32 = 1;

/// `OP_TRUE`.
const ANYONE: u8 = 0x51;

/// The coin that is spent, its satoshi, and what is shown for it.
pub(super) fn spend(outpoint: OutPoint, satoshi: i64, witness: Vec<Vec<u8>>) -> Transaction {
    let input = TxIn { prevout: outpoint, script_sig: Vec::new(), sequence: u32::MAX, witness };
    let output = TxOut { value: satoshi, script_pubkey: vec![ANYONE] };
    Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 }
}

/// A transaction as RPC methods take it.
pub(super) fn hex_of(transaction: &Transaction) -> String {
    let mut bytes: DataStream = DataStream::new();
    bytes.put(transaction);
    hex::encode(bytes.as_slice())
}

/// A mined block with these transactions, which pay no fee; `height` is between 128 and 32,767.
/// `nonce` makes blocks at the same height differ.
pub(super) fn on(parent: &[u8], height: u32, nonce: u8, transactions: &[Transaction]) -> Vec<u8> {
    after(SPACING, parent, height, nonce, transactions)
}

/// The same, that many seconds after its parent.
pub(super) fn after(
    spacing: u32,
    parent: &[u8],
    height: u32,
    nonce: u8,
    transactions: &[Transaction],
) -> Vec<u8> {
    let coinbase = coinbase(height, nonce, transactions);
    let all = [&[coinbase][..], transactions].concat();
    let parent = header(parent);
    mined(parent.block_hash(), parent.time + spacing, &all)
}

/// The same block, but the coinbase has no witness although it commits to those of all.
pub(super) fn without_reserved_value(block: &[u8]) -> Vec<u8> {
    let block = Block::from_bytes(block).expect("it is a block");
    let mut coinbase = block.view().tx(0).to_owned();
    coinbase.inputs[0].witness.clear();
    let mut bytes: DataStream = DataStream::new();
    bytes.put(block.header());
    bytes.write_compact_size(block.view().tx_count() as u64);
    bytes.put(&coinbase);
    block.view().txs().skip(1).for_each(|tx| bytes.write(tx.bytes()));
    bytes.as_slice().to_vec()
}

/// With BIP34's height and BIP141's commitment.
fn coinbase(height: u32, nonce: u8, transactions: &[Transaction]) -> Transaction {
    let reserved = [0; 32];
    let wtxids = transactions.iter().map(|tx| tx.wtxid().to_bytes());
    let (witness_root, _) = merkle::merkle_root(std::iter::once([0; 32]).chain(wtxids));
    let mut commitment = vec![0x6a, 36, 0xaa, 0x21, 0xa9, 0xed];
    commitment.extend(sha256d(&[witness_root, reserved].concat()));
    let [low, high, ..] = height.to_le_bytes();
    let input = TxIn {
        prevout: OutPoint::NULL,
        script_sig: vec![2, low, high, 1, nonce],
        sequence: u32::MAX,
        witness: vec![reserved.to_vec()],
    };
    let value = i64::try_from(miner::subsidy(height)).expect("an amount fits");
    let subsidy = TxOut { value, script_pubkey: vec![ANYONE] };
    let committing = TxOut { value: 0, script_pubkey: commitment };
    Transaction {
        version: 2,
        inputs: vec![input],
        outputs: vec![subsidy, committing],
        lock_time: 0,
    }
}
