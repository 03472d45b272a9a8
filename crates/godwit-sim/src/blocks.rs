//! Single blocks of regtest, made of transactions in godwit's own types.

use godwit_primitives::merkle::merkle_root;
use godwit_primitives::{BlockHash, BlockHeader, MerkleRoot, Transaction, work};
use godwit_stream::DataStream;

use crate::miner::{BLOCK_VERSION, REGTEST_BITS};

/// The bytes of a mined block; the first of its transactions is the coinbase.
pub fn mined(parent: BlockHash, time: u32, transactions: &[Transaction]) -> Vec<u8> {
    let (root, _) = merkle_root(transactions.iter().map(|tx| tx.txid().to_bytes()));
    let mut header = BlockHeader {
        version: BLOCK_VERSION,
        prev_blockhash: parent,
        merkle_root: MerkleRoot::from_bytes(root),
        time,
        bits: REGTEST_BITS,
        nonce: 0,
    };
    let target = work::expand_target(header.bits).target;
    while work::hash_value(&header.block_hash()) > target {
        header.nonce += 1;
    }
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&header);
    bytes.write_compact_size(transactions.len() as u64);
    transactions.iter().for_each(|tx| bytes.put(tx));
    bytes.as_slice().to_vec()
}
