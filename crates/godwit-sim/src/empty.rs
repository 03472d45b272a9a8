//! Blocks without transactions, in numbers as on main, to measure the cost of the index of headers.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use bitcoin::consensus::serialize;
use bitcoin::{Amount, ScriptBuf};

use crate::miner::{self, Tip};

/// Writes `count` blocks with nothing but a coinbase on top of `tip` to a block file. Their timestamps are a
/// second apart, so that a million of them still end in the past. Returns the last one.
pub fn write_empty(mut tip: Tip, count: u32, to: &Path) -> io::Result<Tip> {
    let mut output = BufWriter::with_capacity(1 << 20, File::create(to)?);
    for height in (tip.height + 1..).take(count as usize) {
        // A coin of its own in each, as on main.
        let script = ScriptBuf::new_p2a();
        let value = Amount::from_sat(miner::subsidy(height)).to_sat();
        let coinbase = miner::coinbase(height, u64::from(height), value, script);
        let mut block = miner::draft(&tip, vec![coinbase]);
        block.header.time = tip.time + 1;
        miner::seal(&mut block);
        tip = tip.extended_by(&block);
        miner::write_record(&mut output, &serialize(&block))?;
    }
    output.flush()?;
    Ok(tip)
}

#[cfg(test)]
mod tests {
    use bitcoin::Block;
    use bitcoin::consensus::deserialize_partial;

    use super::*;

    #[test]
    fn each_block_stands_on_the_one_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("empty.dat");
        let end = write_empty(miner::genesis_tip(), 300, &path).expect("room");
        let bytes = std::fs::read(&path).expect("just written");
        let (mut at, mut tip) = (0, miner::genesis_tip());
        while at < bytes.len() {
            let (block, len) = deserialize_partial::<Block>(&bytes[at + 8..]).expect("a block");
            assert_eq!((block.header.prev_blockhash, block.header.time), (tip.hash, tip.time + 1));
            // The library cannot read the lowest heights, which are pushed by an opcode.
            let height = block.bip34_block_height().ok();
            assert!(height == Some(u64::from(tip.height) + 1) || tip.height < 16);
            (at, tip) = (at + 8 + len, tip.extended_by(&block));
        }
        assert_eq!((tip, tip.height), (end, 300));
    }
}
