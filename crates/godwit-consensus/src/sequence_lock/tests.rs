use std::cell::RefCell;

use godwit_primitives::{Coin, Transaction};
use proptest::prelude::*;

use super::*;
use crate::fixtures::{coin, input, spend, views, with_view};

/// Median time past by height: 1,000 seconds a block.
fn time_at(height: u32) -> u32 {
    1_000_000 + height * 1_000
}

fn lock_of(version: u32, inputs: &[(u32, u32)]) -> SequenceLock {
    let tx = Transaction {
        version,
        inputs: (0..)
            .zip(inputs)
            .map(|(n, (sequence, _))| godwit_primitives::TxIn { sequence: *sequence, ..input(n) })
            .collect(),
        ..spend()
    };
    let coins: Vec<Coin> = inputs.iter().map(|(_, height)| coin(1, *height)).collect();
    with_view(&tx, |tx| sequence_lock(tx, &views(&coins), &time_at))
}

const BLOCKS: u32 = 0;
const TIME: u32 = TYPE_FLAG;

#[test]
fn heights_lock_until_that_many_blocks_later() {
    let lock = lock_of(2, &[(BLOCKS | 10, 100)]);
    assert_eq!(lock, SequenceLock { height: 109, time: -1 });
    assert!(!lock.is_met(109, u32::MAX));
    assert!(lock.is_met(110, 0));
    // Zero blocks: the same block already.
    assert!(lock_of(2, &[(BLOCKS, 100)]).is_met(100, 0));
}

#[test]
fn times_lock_from_the_median_before_the_coin() {
    let lock = lock_of(2, &[(TIME | 3, 100)]);
    let since = i64::from(time_at(99));
    assert_eq!(lock, SequenceLock { height: -1, time: since + 3 * 512 - 1 });
    assert!(!lock.is_met(u32::MAX, time_at(99) + 3 * 512 - 1));
    assert!(lock.is_met(0, time_at(99) + 3 * 512));
    // The genesis block has none before it: its own.
    assert_eq!(lock_of(2, &[(TIME, 0)]).time, i64::from(time_at(0)) - 1);
}

#[test]
fn values_have_16_bits_and_other_bits_do_not_count() {
    let ignored = !(DISABLE_FLAG | TYPE_FLAG | VALUE_MASK);
    assert_eq!(lock_of(2, &[(BLOCKS | ignored | 0xffff, 1)]).height, 0xffff);
    assert_eq!(
        lock_of(2, &[(TIME | ignored | 0xffff, 1)]).time,
        i64::from(time_at(0)) + 0xffff * 512 - 1
    );
}

#[test]
fn bit_31_disables_an_input() {
    assert_eq!(lock_of(2, &[(DISABLE_FLAG | 10, 100)]), SequenceLock::OPEN);
    assert_eq!(lock_of(2, &[(u32::MAX, 100), (BLOCKS | 1, 5)]).height, 5);
}

#[test]
fn version_2_and_above_taken_as_unsigned_are_locked() {
    assert_eq!(lock_of(1, &[(BLOCKS | 10, 100)]), SequenceLock::OPEN);
    assert_eq!(lock_of(0, &[(BLOCKS | 10, 100)]), SequenceLock::OPEN);
    assert_ne!(lock_of(2, &[(BLOCKS | 10, 100)]), SequenceLock::OPEN);
    assert_ne!(lock_of(u32::MAX, &[(BLOCKS | 10, 100)]), SequenceLock::OPEN);
}

#[test]
fn the_latest_lock_of_each_kind_counts() {
    let lock = lock_of(2, &[(BLOCKS | 10, 100), (TIME | 1, 50), (BLOCKS | 1, 105), (TIME, 60)]);
    assert_eq!(lock.height, 109);
    assert_eq!(lock.time, i64::from(time_at(59)) - 1);
}

#[test]
fn the_rule_gives_its_reason() {
    let tx = Transaction {
        inputs: vec![godwit_primitives::TxIn { sequence: 10, ..input(1) }],
        ..spend()
    };
    let coins = [coin(1, 100)];
    let at = |height| {
        with_view(&tx, |tx| {
            sequence_locks_met(tx, &TxFacts::of(tx), &views(&coins), height, 0, &time_at)
        })
    };
    assert_eq!(at(109), Err(Reject::new(RejectReason::TxnsNonfinal)));
    assert_eq!(at(110), Ok(()));
}

/// A sequence number with each of the bits that count set half the time.
fn sequence() -> impl Strategy<Value = u32> {
    (any::<u32>(), any::<bool>(), any::<bool>()).prop_map(|(bits, disabled, time)| {
        let kept = bits & !(DISABLE_FLAG | TYPE_FLAG);
        kept | if disabled { DISABLE_FLAG } else { 0 } | if time { TYPE_FLAG } else { 0 }
    })
}

proptest! {
    /// Whoever prepares the median times below exactly the coins that are said to be time-locked is asked
    /// for no other.
    #[test]
    fn times_are_asked_of_time_locked_inputs_alone(
        version in prop_oneof![0..4_u32, any::<u32>()],
        sequences in prop::collection::vec(sequence(), 1..8),
    ) {
        let inputs: Vec<(u32, u32)> = sequences.into_iter().zip(100..).collect();
        let tx = Transaction {
            version,
            inputs: (0..)
                .zip(&inputs)
                .map(|(n, (sequence, _))| godwit_primitives::TxIn { sequence: *sequence, ..input(n) })
                .collect(),
            ..spend()
        };
        let coins: Vec<Coin> = inputs.iter().map(|(_, height)| coin(1, *height)).collect();
        let asked = RefCell::new(Vec::new());
        let median_time_past = |height: u32| {
            asked.borrow_mut().push(height);
            time_at(height)
        };
        with_view(&tx, |tx| {
            assert_eq!(sequence_lock(tx, &views(&coins), &median_time_past) != SequenceLock::OPEN, TxFacts::of(tx).is_locked);
        });
        let locked = inputs.iter().filter(|(sequence, _)| is_time_locked(version, *sequence));
        let expected: Vec<u32> = locked.map(|(_, height)| height - 1).collect();
        prop_assert_eq!(asked.into_inner(), expected);
    }
}
