//! `verifychain`: checks the last blocks and their coins again.

use godwit_chain::{BlockInPlace, CheckLevel, Recheck, RecheckFault, block_in_place, median_times};
use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError};

use super::{Call, coins, cost, parse};

/// Core's `DEFAULT_CHECKLEVEL` and `DEFAULT_CHECKBLOCKS`.
const LEVEL: i32 = 3;
const BLOCKS: i32 = 6;

/// Blocks whose places are asked for at once.
const AT_ONCE: u32 = 64;

/// Of the answers' memory, the coins of blocks that are taken back leave half to others.
const SHARE: usize = 2;

fn level(number: i32) -> CheckLevel {
    match number {
        ..=0 => CheckLevel::Read,
        1 => CheckLevel::Rules,
        2 => CheckLevel::Undo,
        3 => CheckLevel::Coins,
        4.. => CheckLevel::Scripts,
    }
}

/// A block of the chain below a tip, and the places of some from it down; `None` of one that is not stored.
type Blocks = Vec<(u32, Option<BlockInPlace>)>;

fn blocks(
    call: &Call<'_>,
    tip: BlockHash,
    heights: std::ops::Range<u32>,
) -> Result<Blocks, RpcError> {
    call.node.ask(move |node| {
        let (chain, tree) = (node.chain(), node.chain().tree());
        let tip = tree.find(&tip).expect("it was the tip");
        let at = |height| tree.ancestor(tip, height).expect("not above it");
        heights.rev().map(|height| (height, block_in_place(chain, at(height)))).collect()
    })
}

/// Looks at one block, within memory for reading it. What is not as it was left is logged.
fn is_intact(
    call: &mut Call<'_>,
    recheck: &mut Recheck,
    block: &BlockInPlace,
) -> Result<bool, RpcError> {
    let before = call.room.bytes();
    call.room.grow(2 * cost::DECODED * block.size())?;
    let (seam, id) = (call.node.clone(), block.id());
    let mut times =
        |heights: Vec<u32>| seam.ask(move |node| median_times(node.chain(), id, &heights)).ok();
    let checked = recheck.check(block, &mut times);
    call.room.shrink_to(before);
    let Err(fault) = checked else { return Ok(true) };
    let point = block.point();
    log::error!("Verification: block {} at height {}: {fault}", point.hash, point.height);
    if let RecheckFault::Unreadable(unreadable) = fault {
        call.node.ask(move |node| node.note_unreadable(&unreadable))?;
    }
    Ok(false)
}

/// Whether the coins that are given back have room; where not, they are forgotten.
fn keeps_coins(call: &mut Call<'_>, recheck: &mut Recheck, charged: &mut usize) -> bool {
    let memory = recheck.memory();
    let more = memory.saturating_sub(*charged);
    if memory <= call.room.limit() / SHARE && call.room.try_grow(more) {
        *charged += more;
        return true;
    }
    log::warn!("Verification of coins is skipped: too many are given back.");
    recheck.forget_coins();
    false
}

pub(super) fn verify_chain(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let level = level(parse::integer(call.arg(0), LEVEL)?);
    let wanted: i32 = parse::integer(call.arg(1), BLOCKS)?;
    let _waiting = call.api.begin_wait()?;
    let view = if level >= CheckLevel::Coins { Some(coins::view(call)?) } else { None };
    let known = view.as_ref().map(godwit_chain::CoinsView::tip);
    let (tip, mut recheck) = call.node.ask(move |node| {
        let chain = node.chain();
        (known.unwrap_or(chain.tip_point()), Recheck::new(chain, level, view))
    })?;
    let count = u32::try_from(wanted).ok().filter(|count| (1..=tip.height).contains(count));
    let lowest = tip.height + 1 - count.unwrap_or(tip.height);
    log::info!("Verifying the last {} blocks ({level:?})", tip.height + 1 - lowest);
    let (mut next, mut charged, mut is_whole) = (tip.height + 1, 0, true);
    while next > lowest {
        let from = next.saturating_sub(AT_ONCE).max(lowest);
        for (height, block) in blocks(call, tip.hash, from..next)? {
            coins::check(call)?;
            let Some(block) = block else {
                log::info!("Verification stops at height {height}: the block is not stored.");
                return Ok(false.into());
            };
            if !is_intact(call, &mut recheck, &block)? {
                return Ok(false.into());
            }
            is_whole &= keeps_coins(call, &mut recheck, &mut charged);
        }
        next = from;
    }
    Ok(is_whole.into())
}
