//! Chains with other timestamps, without signing anything again.
//!
//! Nothing in a generated transaction depends on a timestamp, so only headers change: a chain of
//! hundreds of megabytes that took minutes to make ends now again within seconds.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use bitcoin::block::Header;
use bitcoin::consensus::{deserialize, serialize};

use crate::chain::GenerateError;
use crate::miner::{self, MAX_BLOCK_WEIGHT, REGTEST_MAGIC};
use crate::summary::Summary;

/// Bytes of a header at the start of a block.
const HEADER_SIZE: usize = 80;

/// Writes the generated chain in the block file `from` to `to`, moved in time so that the last
/// block's timestamp is `end_time`, seconds since 1970: what
/// [`ending_at`](crate::plan::ChainPlan::ending_at) makes of the same plan. Returns the summary of
/// the new chain, made from that of the old one. An `end_time` that would put the first block before
/// the genesis block is an error.
pub fn restamp(
    from: &Path,
    to: &Path,
    summary: &Summary,
    end_time: u32,
) -> Result<Summary, GenerateError> {
    let mut input = BufReader::with_capacity(1 << 20, File::open(from)?);
    let mut output = BufWriter::with_capacity(1 << 20, File::create(to)?);
    let mut tip = miner::genesis_tip();
    let mut last_busy_block = String::new();
    let mut block = Vec::new();
    while read_record(&mut input, &mut block)? {
        let (raw, _) = block.split_first_chunk_mut::<HEADER_SIZE>().ok_or_else(broken)?;
        let mut header: Header = deserialize(raw).map_err(|_| broken())?;
        let before_end = summary.tip_time.checked_sub(header.time).ok_or_else(broken)?;
        let time = end_time.checked_sub(before_end).filter(|time| *time > tip.time);
        let time = time.ok_or(ErrorKind::InvalidInput).map_err(io::Error::from)?;
        (header.prev_blockhash, header.time, header.nonce) = (tip.hash, time, 0);
        miner::mine(&mut header);
        raw.copy_from_slice(&serialize(&header));
        tip = miner::Tip { hash: header.block_hash(), height: tip.height + 1, time };
        if tip.height == summary.last_busy_height {
            last_busy_block = tip.hash.to_string();
        }
        miner::write_record(&mut output, &block)?;
    }
    output.flush()?;
    if tip.height != summary.height || tip.time != end_time {
        return Err(broken().into());
    }
    Ok(Summary {
        tip: tip.hash.to_string(),
        tip_time: end_time,
        last_busy_block,
        ..summary.clone()
    })
}

/// The next block of a file that [`miner::write_record`] wrote; `false` at its end.
fn read_record(input: &mut impl Read, block: &mut Vec<u8>) -> io::Result<bool> {
    let mut frame = Vec::new();
    let framing = REGTEST_MAGIC.len() + 4;
    input.take(framing as u64).read_to_end(&mut frame)?;
    if frame.is_empty() {
        return Ok(false);
    }
    let length = frame.strip_prefix(&REGTEST_MAGIC).and_then(|rest| rest.try_into().ok());
    let length = u64::from(u32::from_le_bytes(length.ok_or_else(broken)?));
    if length > MAX_BLOCK_WEIGHT {
        return Err(broken());
    }
    block.clear();
    if input.take(length).read_to_end(block)? as u64 != length {
        return Err(broken());
    }
    Ok(true)
}

fn broken() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "not the block file that the summary describes")
}
