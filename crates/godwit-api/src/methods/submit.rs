//! Takes blocks and headers from callers, and the operator's verdicts about blocks.

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use godwit_consensus::commitment_output;
use godwit_primitives::network::Deployment;
use godwit_primitives::{Block, BlockHash, BlockHeader, HEADER_SIZE};
use godwit_rpc::{Json, RpcError, code};
use godwit_stream::{DataStream, Encode, SpanReader};

use super::{Call, block_not_found, is_active, parse};
use crate::seam::{BlockOutcome, Overrule, OverruleRefusal, Seam};

fn header_of(bytes: &[u8]) -> Option<BlockHeader> {
    let bytes = bytes.get(..HEADER_SIZE)?;
    SpanReader::new(bytes).get().ok()
}

/// Hands in a block and waits for what becomes of it.
pub(super) fn submit(node: &Seam, bytes: &[u8]) -> Result<BlockOutcome, RpcError> {
    submit_for(node, bytes, &|| false)
}

/// The same, while the client waits for it.
fn submit_for(
    node: &Seam,
    bytes: &[u8],
    is_gone: &dyn Fn() -> bool,
) -> Result<BlockOutcome, RpcError> {
    let stream = DataStream::from(bytes).into();
    let (sender, outcome) = bounded(1);
    node.post(move |node| node.submit_block(stream, sender))?;
    let outcome = node.wait_for(&outcome, is_gone)?;
    // Answered behind the turn in which that was found, and so behind its snapshot: the next call sees it. At
    // -stopatheight that turn may have been the last one, and nobody asks any more.
    let (Ok(()) | Err(_)) = node.ask(|_| ());
    Ok(outcome)
}

/// What is said of a block that was generated and is not accepted.
pub(super) fn not_accepted() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "ProcessNewBlock, block not accepted")
}

/// Hands in blocks that follow the tip, one upon the other, and waits until the last one is in the active
/// chain and the next question sees it; or until the chain stays where it is, on a branch that was better,
/// or has connected other blocks for [`SETTLING`]. Returns how many are accepted: all, or those up to the tip
/// at which the node ends.
pub(super) fn extend_tip(
    node: &Seam,
    is_gone: &dyn Fn() -> bool,
    blocks: Vec<(BlockHeader, Vec<u8>)>,
) -> Result<usize, RpcError> {
    let hashes: Vec<BlockHash> = blocks.iter().map(|(header, _)| header.block_hash()).collect();
    let Some(last) = hashes.last().copied() else { return Ok(0) };
    // At -stopatheight the turn that connected one of them may have been the last one. Its snapshot is there.
    let up_to_the_end = |error: RpcError| {
        let (tip, ends) = (node.snapshot().tip.hash, error.code == code::CLIENT_NOT_CONNECTED);
        let at = hashes.iter().position(|hash| ends && *hash == tip);
        at.map(|at| at + 1).ok_or(error)
    };
    let (mut handed, mut outcomes) = (Vec::new(), Vec::new());
    for (header, bytes) in blocks {
        let (sender, outcome) = bounded(1);
        handed.push((header, DataStream::from(&bytes[..]).into(), sender));
        outcomes.push(outcome);
    }
    node.post(move |node| {
        for (header, stream, sender) in handed {
            // The blocks may arrive in another order than their headers. What is wrong with one, its block
            // is told.
            let (Ok(()) | Err(_)) = node.accept_header(&header);
            node.submit_block(stream, sender);
        }
    })?;
    for outcome in outcomes {
        // One that came before its parent is stored at first.
        match node.wait_for(&outcome, is_gone) {
            Ok(BlockOutcome::Connected | BlockOutcome::Stored | BlockOutcome::Duplicate) => {}
            Ok(outcome) => {
                log::warn!("A block that was generated is not accepted: {outcome:?}");
                return Err(not_accepted());
            }
            Err(error) => return up_to_the_end(error),
        }
    }
    let started = Instant::now();
    loop {
        // Answered behind the turn in which the last one became the tip, and so behind its snapshot.
        let asked = node.ask(move |node| {
            let chain = node.chain();
            let id = chain.tree().find(&last);
            let is_there = id.is_some_and(|id| is_active(chain, id));
            (node.is_idle(), is_there, id.is_none_or(|id| chain.tree().node(id).failed))
        });
        let (is_idle, is_there, failed) = match asked {
            Ok(asked) => asked,
            Err(error) => return up_to_the_end(error),
        };
        if is_there || is_idle || started.elapsed() > SETTLING {
            return if failed { Err(not_accepted()) } else { Ok(hashes.len()) };
        }
        std::thread::sleep(POLL);
    }
}

/// The block with 32 zero bytes as its coinbase's witness, if the coinbase commits to witnesses and has
/// none: miners may leave that to the node (Core `UpdateUncommittedBlockStructures`).
fn with_reserved_value(block: &Block) -> Option<Vec<u8>> {
    let view = block.view();
    if view.tx_count() == 0 {
        return None;
    }
    let coinbase = view.tx(0);
    if coinbase.has_witness() || commitment_output(coinbase).is_none() {
        return None;
    }
    let mut completed = coinbase.to_owned();
    completed.inputs.first_mut()?.witness = vec![vec![0; 32]];
    let mut bytes: DataStream = DataStream::new();
    bytes.write(&block.header().to_bytes());
    bytes.write_compact_size(view.tx_count() as u64);
    completed.encode(&mut bytes);
    view.txs().skip(1).for_each(|tx| bytes.write(tx.bytes()));
    Some(bytes.as_slice().to_vec())
}

pub(super) fn block(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let undecodable = || RpcError::new(code::DESERIALIZATION_ERROR, "Block decode failed");
    let bytes = parse::hex(call.arg(0).as_text()?).ok_or_else(undecodable)?;
    let block = Block::from_bytes(&bytes).map_err(|_| undecodable())?;
    let prev = block.header().prev_blockhash;
    let height = call.node.ask(move |node| {
        let tree = node.chain().tree();
        tree.find(&prev).map(|id| tree.node(id).height + 1)
    })?;
    let segwit = call.node.params().activation_height(Deployment::Segwit);
    let with_witness = match height {
        Some(height) if height >= segwit => with_reserved_value(&block),
        _ => None,
    };
    match submit_for(&call.node, with_witness.as_deref().unwrap_or(&bytes), call.is_gone)? {
        BlockOutcome::Connected => Ok(Json::Null),
        BlockOutcome::Stored => Ok("inconclusive".into()),
        BlockOutcome::Duplicate => Ok("duplicate".into()),
        BlockOutcome::Undecodable => Err(undecodable()),
        BlockOutcome::Rejected(reject) => Ok(reject.to_string().into()),
    }
}

pub(super) fn header(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let undecodable = || RpcError::new(code::DESERIALIZATION_ERROR, "Block header decode failed");
    let bytes = parse::hex(call.arg(0).as_text()?).ok_or_else(undecodable)?;
    let header = header_of(&bytes).ok_or_else(undecodable)?;
    call.node.change(move |node| {
        let prev = header.prev_blockhash;
        if node.chain().tree().find(&prev).is_none() {
            let text = format!("Must submit previous header ({prev}) first");
            return Err(RpcError::new(code::VERIFY_ERROR, text));
        }
        match node.accept_header(&header) {
            Ok(()) => Ok(Json::Null),
            Err(reject) => Err(RpcError::new(code::VERIFY_ERROR, reject.to_string())),
        }
    })?
}

/// Between two looks whether the chain has come to rest.
const POLL: Duration = Duration::from_millis(5);

/// How long the chain may go on to connect other blocks before the caller is answered.
const SETTLING: Duration = Duration::from_secs(10);

fn overrule(call: &mut Call<'_>, overrule: Overrule) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "blockhash")?;
    match call.node.ask(move |node| node.overrule(&hash, overrule))? {
        Ok(()) => {}
        // As Core: nothing happens.
        Err(OverruleRefusal::Genesis) => return Ok(Json::Null),
        Err(OverruleRefusal::UnknownBlock) => return Err(block_not_found()),
        Err(OverruleRefusal::Refused(text)) => {
            return Err(RpcError::new(code::DATABASE_ERROR, text));
        }
    }
    let started = Instant::now();
    loop {
        let (is_idle, is_left) = call
            .node
            .ask(|node| (node.is_idle(), !node.chain().tree().node(node.chain().tip()).failed))?;
        if is_idle || (is_left && started.elapsed() > SETTLING) {
            return Ok(Json::Null);
        }
        std::thread::sleep(POLL);
    }
}

pub(super) fn invalidate(call: &mut Call<'_>) -> Result<Json, RpcError> {
    overrule(call, Overrule::Invalidate)
}

pub(super) fn reconsider(call: &mut Call<'_>) -> Result<Json, RpcError> {
    overrule(call, Overrule::Reconsider)
}

pub(super) fn prefer(call: &mut Call<'_>) -> Result<Json, RpcError> {
    overrule(call, Overrule::Prefer)
}

#[cfg(test)]
mod tests {
    use godwit_primitives::network::{Network, Params};

    use super::*;

    /// A header, and that there is no transaction: the chain refuses it.
    #[test]
    fn a_block_without_transactions_is_left_as_it_is() {
        let genesis = Params::new(Network::Regtest).genesis_block();
        let empty = [&genesis[..HEADER_SIZE], &[0]].concat();
        let block = Block::from_bytes(&empty).expect("a block");
        assert_eq!(with_reserved_value(&block), None);
    }
}
