//! Bytes for tests that look like blocks to the store: a header and a body of any kind.

use godwit_primitives::{BlockHash, BlockHeader, Coin, MerkleRoot};
use godwit_stream::BufferPool;

use crate::record::{BlockPosition, BlockRecord, BlockStatus, ChainPoint, UndoPosition};
use crate::utxo::CompressedCoins;
use crate::{Store, StoreError, UndoRecord};

pub(crate) const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

pub(crate) fn header(nonce: u32) -> BlockHeader {
    BlockHeader {
        version: 1,
        prev_blockhash: BlockHash::ZERO,
        merkle_root: MerkleRoot::from_bytes([7; 32]),
        time: 1_296_688_602,
        bits: 0x207f_ffff,
        nonce,
    }
}

/// `len` bytes, at least a header's 80, that differ for each `nonce`.
pub(crate) fn block(nonce: u32, len: usize) -> Vec<u8> {
    let mut bytes = header(nonce).to_bytes().to_vec();
    bytes.extend((bytes.len()..len).map(|i| (i as u32).wrapping_mul(31).wrapping_add(nonce) as u8));
    bytes
}

pub(crate) fn framed(block: &[u8]) -> Vec<u8> {
    let len = (block.len() as u32).to_le_bytes();
    [&MAGIC[..], &len, block].concat()
}

pub(crate) fn record(nonce: u32, height: u32) -> BlockRecord {
    BlockRecord {
        header: header(nonce),
        height,
        status: BlockStatus::STRUCTURED,
        tx_count: 1,
        sequence: u64::from(nonce),
        position: None,
        checksum: None,
        undo: None,
    }
}

pub(crate) fn point(nonce: u32, height: u32) -> ChainPoint {
    ChainPoint { hash: header(nonce).block_hash(), height }
}

pub(crate) fn coin(n: u32) -> Coin {
    let script = (0..n % 90).map(|i| (i * n) as u8).collect();
    Coin {
        value: i64::from(n) * 1000,
        script_pubkey: script,
        height: n / 2,
        coinbase: n.is_multiple_of(3),
    }
}

/// The undo record of a block whose transactions spent these coins.
pub(crate) fn undo_record(prev: &BlockHash, spent: &[Vec<Coin>], pool: &BufferPool) -> UndoRecord {
    let (mut coins, counts) = (CompressedCoins::default(), spent.iter().map(Vec::len));
    coins.extend(spent.iter().flatten());
    UndoRecord::encode(MAGIC, prev, &coins, counts, pool).unwrap()
}

/// All steps of an append, as the chain takes them one by one.
pub(crate) fn append_block(store: &Store, block: &[u8]) -> Result<BlockPosition, StoreError> {
    let position = store.reserve_block(block.len(), false)?;
    store.note_written(store.write_block(position, block)?);
    Ok(position)
}

/// The same for a block's undo record.
pub(crate) fn append_undo(
    store: &Store,
    block: BlockPosition,
    record: &UndoRecord,
) -> Result<UndoPosition, StoreError> {
    let position = store.reserve_undo(block, record);
    store.note_written(store.write_undo(position, record)?);
    Ok(position)
}
