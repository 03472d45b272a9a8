//! A small chain in memory, blocks that continue it, and block files with any content.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::LazyLock;

use godwit_primitives::{Amount, BlockHeader, COIN, OutPoint, Transaction, TxIn, TxOut};
use godwit_sim::blocks::mined;
use godwit_sim::chain::generated;
use godwit_sim::miner::{self, REGTEST_MAGIC};
use godwit_sim::plan::ChainPlan;
use godwit_stream::SpanReader;

/// Generated regtest blocks from height 1 on.
pub(crate) fn small_chain() -> &'static [Vec<u8>] {
    static BLOCKS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| generated(&ChainPlan::small(1)));
    &BLOCKS
}

/// A block as a record of a regtest block file.
pub(crate) fn record(block: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    miner::write_record(&mut record, block).expect("a vector grows");
    record
}

/// Writes a regtest block file.
pub(crate) fn write_dat<'b>(path: &Path, blocks: impl IntoIterator<Item = &'b Vec<u8>>) {
    let mut file = BufWriter::new(File::create(path).expect("a temporary file"));
    for block in blocks {
        miner::write_record(&mut file, block).expect("there is room");
    }
    file.flush().expect("there is room");
}

/// The blocks of a file of whole records, whatever their magic.
pub(crate) fn blocks_of(file: &[u8]) -> Vec<&[u8]> {
    let mut blocks = Vec::new();
    let mut rest = file;
    while let Some((frame, behind)) = rest.split_at_checked(REGTEST_MAGIC.len() + 4) {
        let length = u32::from_le_bytes(frame[4..].try_into().expect("four bytes"));
        let (block, next) = behind.split_at(length as usize);
        blocks.push(block);
        rest = next;
    }
    blocks
}

/// The header of a block.
pub(crate) fn header(block: &[u8]) -> BlockHeader {
    SpanReader::new(block).get().expect("a block starts with a header")
}

/// A valid header and a coinbase that takes `satoshi`, on top of `parent` at `height`, which is
/// between 128 and 32,767.
pub(crate) fn child(parent: &[u8], height: u16, satoshi: Amount) -> Vec<u8> {
    child_paying(parent, height, TxOut { value: satoshi, script_pubkey: vec![0x51] })
}

/// The same with any output.
pub(crate) fn child_paying(parent: &[u8], height: u16, output: TxOut) -> Vec<u8> {
    let input = TxIn {
        prevout: OutPoint::NULL,
        script_sig: coinbase_script(height),
        sequence: u32::MAX,
        witness: Vec::new(),
    };
    let coinbase =
        Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 };
    let parent = header(parent);
    mined(parent.block_hash(), parent.time + miner::BLOCK_SPACING, &[coinbase])
}

/// BIP34's height as a script number of two bytes, and a push for the length.
fn coinbase_script(height: u16) -> Vec<u8> {
    let [low, high] = height.to_le_bytes();
    vec![2, low, high, 1, 7]
}

/// The transactions of a block in one on top of `parent` at `height`, whose coinbase takes nothing.
pub(crate) fn moved(block: &[u8], parent: &[u8], height: u16) -> Vec<u8> {
    let mut reader = SpanReader::new(block);
    let _: BlockHeader = reader.get().expect("a block starts with a header");
    let count = reader.compact_size().expect("a count");
    let mut transactions: Vec<Transaction> =
        (0..count).map(|_| reader.get().expect("a transaction")).collect();
    transactions[0].inputs[0].script_sig = coinbase_script(height);
    transactions[0].outputs[0].value = 0;
    let parent = header(parent);
    mined(parent.block_hash(), parent.time + miner::BLOCK_SPACING, &transactions)
}

/// The subsidy of the heights behind [`small_chain`].
pub(crate) const SUBSIDY: Amount = 25 * COIN;
