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
    let child = |weight| in_pool(&child, 1, weight);
    let of = |tx, other| cluster_within_limits(&tx, &pool(&[other]), &BTreeSet::new());
    assert_eq!(of(child(2_499), parent), Ok(()));
    assert_eq!(of(child(2_500), parent), Err(Refusal::ClusterTooLarge));
    // The child may have waited before.
    assert_eq!(of(parent, child(2_499)), Ok(()));
    assert_eq!(of(parent, child(2_500)), Err(Refusal::ClusterTooLarge));
}

/// Those that spend from one another, as a reorganisation may leave them without the first of them.
#[test]
fn what_waits_for_its_parent_counts_when_the_parent_comes() {
    let parent = bytes(&[coin(0)], 64);
    let parent = in_pool(&parent, 1_000, 1_000);
    let children: Vec<Vec<u8>> = (0..64).map(|n| bytes(&[output(&parent, n)], 1)).collect();
    let children: Vec<PoolTx<'_>> = children.iter().map(|tx| in_pool(tx, 1_000, 400)).collect();
    let comes =
        |children: &[PoolTx<'_>]| replaced(&parent, &pool(children), &BTreeSet::new()).map(drop);
    assert_eq!(comes(&children[1..]), Ok(()));
    assert_eq!(comes(&children), Err(Refusal::ClusterTooLarge));
}

#[test]
fn conflicts_that_are_connected_count_once() {
    let coins: Vec<OutPoint> = (0..101).map(coin).collect();
    let replacement = bytes(&coins, 1);
    let replacement = in_pool(&replacement, 100_000, 17_000);
    let judged = |txs: &[Vec<u8>]| {
        let txs: Vec<PoolTx<'_>> = txs.iter().map(|bytes| in_pool(bytes, 100, 400)).collect();
        let pool = pool(&txs);
        let spenders = coins.iter().filter_map(|coin| pool.spender(coin)).collect();
        replaced(&replacement, &pool, &spenders).map(|all| all.len())
    };
    let apart: Vec<Vec<u8>> = coins.iter().map(|coin| bytes(&[*coin], 1)).collect();
    assert_eq!(judged(&apart[1..]), Ok(100));
    assert_eq!(
        judged(&apart),
        Err(Refusal::TooManyReplaced(format!(
            "rejecting replacement {}; too many conflicting clusters (101 > 100)",
            replacement.txid
        )))
    );
    // The first two depend on one that stays.
    let parent = bytes(&[coin(200)], 2);
    let txid = TxView::parse(&parent).expect("a transaction").txid();
    let child = |n: u32| bytes(&[coin(n), OutPoint { txid, vout: n }], 1);
    let connected = [&[parent, child(0), child(1)], &apart[2..]].concat();
    assert_eq!(judged(&connected), Ok(101));
}

/// In Core's order: the fee, what it would be connected with, its rate.
#[test]
fn the_first_reason_is_given() {
    let (parent, conflict) = (bytes(&[coin(0)], 65), bytes(&[coin(1)], 1));
    let (parent, conflict) = (in_pool(&parent, 1_000, 400), in_pool(&conflict, 1_000, 400));
    let children: Vec<Vec<u8>> = (1..64).map(|n| bytes(&[output(&parent, n)], 1)).collect();
    let children: Vec<PoolTx<'_>> = children.iter().map(|tx| in_pool(tx, 1_000, 400)).collect();
    let judged = |fee, children: &[PoolTx<'_>]| {
        let bytes = bytes(&[coin(1), output(&parent, 0)], 1);
        let pool = pool(&[&[parent, conflict], children].concat());
        replaced(&in_pool(&bytes, fee, 4_000), &pool, &BTreeSet::from([conflict.txid]))
    };
    let is_poor = |refused| matches!(refused, Err(Refusal::InsufficientFee(_)));
    assert!(is_poor(judged(1_099, &children)));
    assert_eq!(judged(1_100, &children), Err(Refusal::ClusterTooLarge));
    assert_eq!(judged(1_100, &children[1..]), Err(Refusal::ReplacementFailed));
    assert_eq!(judged(10_001, &children[1..]), Ok(BTreeSet::from([conflict.txid])));
}

/// C is replaced by a transaction that also spends P, which is large and cheap: with C a block took no P.
#[test]
fn a_cheap_ancestor_that_the_conflict_lacks_counts() {
    let (cheap, conflict) = (bytes(&[coin(0)], 2), bytes(&[coin(1)], 1));
    let (cheap, conflict) = (in_pool(&cheap, 1_000, 16_000), in_pool(&conflict, 1_000, 440));
    let (of_both, alone) = (bytes(&[coin(1), output(&cheap, 0)], 1), bytes(&[coin(1)], 2));
    let conflicts = BTreeSet::from([conflict.txid]);
    let judged = |tx: &[u8], fee, weight, pool: &Pool<'_>| {
        let tx = in_pool(tx, fee, weight);
        replaced(&tx, pool, &conflicts).map(drop)
    };
    let with = |cheap| pool(&[cheap, conflict]);
    assert_eq!(judged(&alone, 2_100, 600, &with(cheap)), Ok(()));
    assert_eq!(judged(&alone, 1_363, 600, &with(cheap)), Err(Refusal::ReplacementFailed));
    assert_eq!(judged(&alone, 1_364, 600, &with(cheap)), Ok(()));
    assert_eq!(judged(&of_both, 2_100, 600, &with(cheap)), Err(Refusal::ReplacementFailed));
    // With P they pay (36,728 + 1,000) / 16,600 for a unit of weight, C pays 1,000 / 440.
    assert_eq!(judged(&of_both, 36_727, 600, &with(cheap)), Err(Refusal::ReplacementFailed));
    assert_eq!(judged(&of_both, 36_728, 600, &with(cheap)), Ok(()));
    // An ancestor that pays as much as C does may be spent.
    let dear = PoolTx { fee: 37_000, ..cheap };
    assert_eq!(judged(&of_both, 2_100, 600, &with(dear)), Ok(()));
}

/// A child pays for its parent, and a better one for the same.
#[test]
fn the_parent_of_what_is_replaced_does_not_count() {
    let parent = bytes(&[coin(0)], 2);
    let parent = in_pool(&parent, 1_000, 16_000);
    let child = bytes(&[output(&parent, 0), coin(1)], 1);
    let child = in_pool(&child, 1_000, 440);
    let other = bytes(&[coin(2)], 1);
    let other = in_pool(&other, 1_000, 440);
    let pool = pool(&[parent, child, other]);
    let judged = |prevouts: &[OutPoint], conflicts: &[Txid]| {
        let (bytes, conflicts) = (bytes(prevouts, 1), conflicts.iter().copied().collect());
        let tx = in_pool(&bytes, 3_100, 600);
        replaced(&tx, &pool, &conflicts).map(drop)
    };
    assert_eq!(judged(&[output(&parent, 0)], &[child.txid]), Ok(()));
    assert_eq!(judged(&[output(&parent, 1), coin(1)], &[child.txid]), Ok(()));
    let both = [child.txid, other.txid];
    let refused = Err(Refusal::ReplacementFailed);
    assert_eq!(judged(&[output(&parent, 0), coin(2)], &both), refused, "the other one has none");
    assert_eq!(judged(&[coin(1), coin(2)], &both), Ok(()));
}

/// Fees and weights of all that a block can take of a pool: with each transaction, those that it spends from.
fn parts(pool: &Pool<'_>, txids: &[Txid]) -> Vec<(i128, i128)> {
    let sets = (0..1u32 << txids.len()).map(|set| {
        let has = |(n, _): &(usize, &Txid)| set >> n & 1 == 1;
        txids.iter().enumerate().filter(has).map(|(_, txid)| *txid).collect::<BTreeSet<_>>()
    });
    let whole = sets.filter(|set| pool.with_ancestors(set.clone()) == *set);
    let sums = |set: BTreeSet<Txid>| {
        let txs = set.iter().filter_map(|txid| pool.get(txid));
        txs.fold((0, 0), |(fee, weight), tx| {
            (fee + i128::from(tx.fee), weight + i128::from(tx.weight))
        })
    };
    whole.map(sums).collect()
}

/// Whether each of `old` is no better than a mixture of two of `new`, and more fee is there in all.
fn is_better(old: &[(i128, i128)], mut new: Vec<(i128, i128)>) -> bool {
    let most = |parts: &[(i128, i128)]| parts.iter().map(|part| part.0).max().unwrap_or(0);
    let total = most(&new);
    // All of them, and room that is left.
    new.push((total, 1 << 40));
    let is_below = |&(fee, weight): &(i128, i128)| {
        new.iter().any(|&(low_fee, low)| {
            new.iter().any(|&(high_fee, high)| {
                low <= weight
                    && weight <= high
                    && if low == high {
                        fee <= low_fee.max(high_fee)
                    } else {
                        (fee - low_fee) * (high - low) <= (high_fee - low_fee) * (weight - low)
                    }
            })
        })
    };
    total > most(old) && old.iter().all(is_below)
}

/// Pools of five, and a sixth transaction that conflicts with some and spends from some: what is taken makes
/// Core's diagram better.
#[test]
fn what_is_taken_improves_the_diagram_of_small_pools() {
    let mut state = 1u64;
    let mut below = |limit: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let (mut taken, mut refused) = ([0, 0], 0);
    for _ in 0..6_000 {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for n in 0..6 {
            // Output `n` of each is for the `n`th; the last one may take what another one spends.
            let txid = |bytes: &Vec<u8>| TxView::parse(bytes).expect("a transaction").txid();
            let mut prevouts = vec![coin(n)];
            for (from, bytes) in all.iter().enumerate() {
                if n == 5 && below(3) == 0 {
                    prevouts.push(coin(from as u32));
                } else if below(3) == 0 {
                    prevouts.push(OutPoint { txid: txid(bytes), vout: n });
                }
            }
            all.push(bytes(&prevouts, 6));
        }
        let mut txs: Vec<PoolTx<'_>> = Vec::new();
        for bytes in &all {
            txs.push(in_pool(bytes, below(12) as Amount * 100, 400 + 400 * below(5)));
        }
        let mut tx = txs.pop().expect("six");
        tx.fee *= 3;
        let old = pool(&txs);
        let conflicts: BTreeSet<Txid> =
            tx.tx.inputs().filter_map(|input| old.spender(&input.prevout)).collect();
        let judged =
            keeps_its_parents(tx.tx, &old, &conflicts).and_then(|()| outbid(&tx, &old, &conflicts));
        let Ok(replaced) = judged else { continue };
        if replaced.is_empty() || !old.with_ancestors(old.parents(tx.tx)).is_disjoint(&replaced) {
            continue;
        }
        let mut new = old.clone();
        replaced.iter().for_each(|txid| new.remove(txid));
        new.add(tx);
        let before: Vec<Txid> = txs.iter().map(|tx| tx.txid).collect();
        let left = before.iter().chain([&tx.txid]).filter(|txid| !replaced.contains(txid));
        let after: Vec<Txid> = left.copied().collect();
        let is_better = is_better(&parts(&old, &before), parts(&new, &after));
        match improves(&tx, &old, &conflicts, &replaced) {
            Ok(()) => {
                assert!(is_better, "{tx:?} {txs:?}");
                taken[usize::from(old.parents(tx.tx).is_empty())] += 1;
            }
            Err(_) => refused += usize::from(is_better),
        }
    }
    // Few are refused although they are better.
    assert!(taken[0] > 100 && taken[1] > 100, "{taken:?}");
    assert!(refused * 5 < taken[0] + taken[1], "{refused} of {taken:?}");
}
