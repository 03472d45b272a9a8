//! Blocks that are looked at again, and coins that are not as these left them.

use std::collections::BTreeSet;

use godwit_primitives::{Coin, OutPoint};
use godwit_store::BlockUndo;

use super::*;
use crate::coins_view::CoinsView;
use crate::inspect::audit::ClaimError;
use crate::recheck::{
    BlockInPlace, CheckLevel, Recheck, RecheckFault, block_in_place, check_rules, median_times,
};
use crate::stored_data::StoredData;
use crate::structure::{Structured, structure};
use crate::view::view_coins;

const LEVELS: [CheckLevel; 5] =
    [CheckLevel::Read, CheckLevel::Rules, CheckLevel::Undo, CheckLevel::Coins, CheckLevel::Scripts];

fn synced() -> Chain {
    let mut chain = chain_with(&FaultDisk::new(), SMALL_CACHE);
    for (ticket, block) in (0..).zip(&blocks()) {
        give(&mut chain, block, ticket);
    }
    let (_, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
    result.expect("a valid chain");
    // A seal that is under way would be shown without what a test changes.
    chain.flush().expect("no fault");
    chain
}

fn view(chain: &mut Chain) -> CoinsView {
    let (sender, view) = bounded(1);
    let sender = Arc::new(sender);
    view_coins(chain, Arc::downgrade(&sender));
    let (_, result) = poll_until(chain, |_, _| !view.is_empty());
    result.expect("no fault");
    view.try_recv().expect("it is there")
}

/// Looks at so many of the last blocks; the first fault.
fn look(chain: &Chain, recheck: &mut Recheck, count: u32) -> Result<(), RecheckFault> {
    let mut walk = chain.tip();
    for _ in 0..count {
        let block = block_in_place(chain, walk).expect("it is stored");
        let mut times = |heights: Vec<u32>| Some(median_times(chain, walk, &heights));
        recheck.check(&block, &mut times)?;
        walk = chain.tree().node(walk).parent().expect("above genesis");
    }
    Ok(())
}

/// The last block that spends older coins, how deep it lies, and what it spent.
fn spending(chain: &Chain) -> (BlockInPlace, u32, BlockUndo) {
    let mut walk = chain.tip();
    for depth in 1.. {
        let stored = StoredData::of(chain).block(walk).expect("it is stored");
        let undo =
            StoredData::of(chain).reader().undo(&stored).expect("no fault").expect("a record");
        if undo.coins().iter().any(|coin| coin.height < chain.tree().node(walk).height) {
            return (block_in_place(chain, walk).expect("it is stored"), depth, undo);
        }
        walk = chain.tree().node(walk).parent().expect("a block spends");
    }
    unreachable!("the chain ends");
}

fn structured(chain: &Chain, block: &BlockInPlace) -> Arc<Structured> {
    let stored = StoredData::of(chain).block(block.id()).expect("it is stored");
    let bytes = StoredData::of(chain).reader().block(&stored).expect("no fault");
    match structure(bytes, &chain.env.params, &chain.env.hasher, None) {
        Received::Structured(structured) => structured,
        _ => panic!("it was valid"),
    }
}

#[test]
fn a_chain_that_is_intact_is_found_so_at_every_level() {
    let mut chain = synced();
    let height = chain.tip_point().height;
    for level in LEVELS {
        let view = view(&mut chain);
        let mut recheck = Recheck::new(&chain, level, Some(view));
        look(&chain, &mut recheck, height).expect("intact");
    }
    // Coins that are given back are taken again by the blocks that created them.
    let view = view(&mut chain);
    let mut recheck = Recheck::new(&chain, CheckLevel::Coins, Some(view));
    let (_, depth, _) = spending(&chain);
    look(&chain, &mut recheck, depth).expect("intact");
    assert!(recheck.memory() > 0);
    recheck.forget_coins();
    assert_eq!(recheck.memory(), 0);
}

#[test]
fn coins_that_are_not_as_blocks_left_them_are_found_from_level_three_on() {
    let faults = |change: &dyn Fn(&mut Chain) -> OutPoint| {
        LEVELS.map(|level| {
            let mut chain = synced();
            let outpoint = change(&mut chain);
            let view = view(&mut chain);
            let mut recheck = Recheck::new(&chain, level, Some(view));
            let (_, depth, _) = spending(&chain);
            (look(&chain, &mut recheck, depth), outpoint)
        })
    };
    let created = |chain: &Chain| {
        let tip = block_in_place(chain, chain.tip()).expect("it is stored");
        let tip = structured(chain, &tip);
        tip.creates()[tip.created()[0] as usize]
    };
    let missing = |chain: &mut Chain| {
        let coin = created(chain);
        chain.coins.spend(&coin).expect("it is there");
        coin.outpoint
    };
    let changed = |chain: &mut Chain| {
        let key = created(chain);
        let mut coin = chain.coins.spend(&key).expect("no fault").expect("it is there");
        coin.value += 1;
        chain.coins.add(&key, &coin, true);
        key.outpoint
    };
    let back_as = |chain: &mut Chain, change: &dyn Fn(&mut Coin)| {
        let (block, _, undo) = spending(chain);
        let block = structured(chain, &block);
        let inside: BTreeSet<u32> = block.inside().iter().map(|own| own.input).collect();
        let input = (0..).find(|input| !inside.contains(input)).expect("it spends older coins");
        let mut coin = undo.coins()[input as usize].clone();
        change(&mut coin);
        chain.coins.add(&block.spends()[0], &coin, true);
        block.spends()[0].outpoint
    };
    let back = |chain: &mut Chain| back_as(chain, &|_| ());
    // No block that is taken back has created it.
    let back_from_above = |chain: &mut Chain| {
        let tip = chain.tip_point().height;
        back_as(chain, &|coin| coin.height = tip + 1)
    };
    let is_created = |fault: &RecheckFault, of: OutPoint| matches!(fault, RecheckFault::Created(found) if *found == of);
    let is_spent = |fault: &RecheckFault, of: OutPoint| matches!(fault, RecheckFault::Spent(found) if *found == of);
    type Change<'a> = dyn Fn(&mut Chain) -> OutPoint + 'a;
    type Is = dyn Fn(&RecheckFault, OutPoint) -> bool;
    let cases: [(&Change<'_>, &Is); 4] = [
        (&missing, &is_created),
        (&changed, &is_created),
        (&back, &is_spent),
        (&back_from_above, &is_spent),
    ];
    for (change, is_expected) in cases {
        for ((found, outpoint), level) in faults(change).into_iter().zip(LEVELS) {
            match found {
                Ok(()) => assert!(level < CheckLevel::Coins, "{level:?}"),
                Err(fault) => {
                    assert!(level >= CheckLevel::Coins && is_expected(&fault, outpoint), "{fault}");
                }
            }
        }
    }
}

#[test]
fn what_an_undo_record_claims_has_to_keep_the_rules() {
    let chain = synced();
    let (block, _, undo) = spending(&chain);
    let structured = structured(&chain, &block);
    let check = |coins: &[Coin]| {
        let mut times = |heights: Vec<u32>| Some(median_times(&chain, block.id(), &heights));
        check_rules(&block, &structured, coins, &mut times)
    };
    let mut coins = undo.into_coins();
    check(&coins).expect("intact");
    let value = std::mem::take(&mut coins[0].value);
    assert!(matches!(check(&coins), Err(RecheckFault::Claim(ClaimError::Rule(_)))));
    coins[0].value = value;
    coins[0].height = block.point().height + 1;
    let found = check(&coins);
    assert!(matches!(found, Err(RecheckFault::Claim(ClaimError::Early { input: 0, .. }))));
}
