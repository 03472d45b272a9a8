use std::collections::HashSet;

use godwit_primitives::{COIN, Coin, Transaction, TxIn, TxOut, Txid};
use proptest::prelude::*;

use super::*;
use crate::fixtures::{coin, coinbase, input, output, spend, views, with_view};

fn check(tx: &Transaction) -> Result<(), Reject> {
    with_view(tx, check_transaction)
}

fn rejected<T>(reason: RejectReason) -> Result<T, Reject> {
    Err(Reject::new(reason))
}

#[test]
fn inputs_and_outputs_are_needed() {
    assert_eq!(check(&spend()), Ok(()));
    let no_inputs = Transaction { inputs: vec![], outputs: vec![], ..spend() };
    assert_eq!(check(&no_inputs), rejected(RejectReason::VinEmpty));
    let no_outputs = Transaction { outputs: vec![], ..spend() };
    assert_eq!(check(&no_outputs), rejected(RejectReason::VoutEmpty));
}

#[test]
fn a_million_bytes_without_witness_are_the_limit() {
    let mut tx = spend();
    tx.inputs[0].witness = vec![vec![0; 4_000_000]];
    let without_script = with_view(&tx, |tx| tx.stripped_size());
    // The script's length takes five bytes instead of one.
    tx.outputs[0].script_pubkey = vec![0; 1_000_000 - without_script - 4 + 1];
    assert_eq!(with_view(&tx, |tx| tx.stripped_size()), 1_000_000);
    assert_eq!(check(&tx), Ok(()));
    tx.outputs[0].script_pubkey.push(0);
    assert_eq!(check(&tx), rejected(RejectReason::Oversize));
}

#[test]
fn output_amounts_and_their_sum_are_in_range() {
    let of = |values: &[Amount]| {
        check(&Transaction {
            outputs: values.iter().map(|value| output(*value)).collect(),
            ..spend()
        })
    };
    assert_eq!(of(&[0]), Ok(()));
    assert_eq!(of(&[-1]), rejected(RejectReason::VoutNegative));
    assert_eq!(of(&[i64::MIN]), rejected(RejectReason::VoutNegative));
    assert_eq!(of(&[MAX_MONEY]), Ok(()));
    assert_eq!(of(&[MAX_MONEY + 1]), rejected(RejectReason::VoutTooLarge));
    assert_eq!(of(&[i64::MAX]), rejected(RejectReason::VoutTooLarge));
    assert_eq!(of(&[MAX_MONEY - 1, 1]), Ok(()));
    assert_eq!(of(&[MAX_MONEY, 1]), rejected(RejectReason::TxoutTotalTooLarge));
    // The first output that breaks a rule decides.
    assert_eq!(of(&[MAX_MONEY, MAX_MONEY, -1]), rejected(RejectReason::TxoutTotalTooLarge));
    assert_eq!(of(&[MAX_MONEY, -1]), rejected(RejectReason::VoutNegative));
}

#[test]
fn a_repeated_outpoint_is_found_wherever_it_lies() {
    for count in [2, 3, COMPARED_INPUTS as u32, COMPARED_INPUTS as u32 + 1, 40] {
        let mut tx = Transaction { inputs: (0..count).map(input).collect(), ..spend() };
        assert_eq!(check(&tx), Ok(()), "{count}");
        for first in 0..count as usize {
            for second in first + 1..count as usize {
                let kept = tx.inputs[second].prevout;
                tx.inputs[second].prevout = tx.inputs[first].prevout;
                let result = check(&tx);
                assert_eq!(result, rejected(RejectReason::InputsDuplicate), "{first} {second}");
                tx.inputs[second].prevout.vout ^= 1 << 31;
                assert_eq!(check(&tx), Ok(()), "another output of the same transaction");
                tx.inputs[second].prevout = kept;
            }
        }
    }
}

#[test]
fn outpoints_of_one_fingerprint_are_told_apart() {
    for count in [2, 40] {
        let mut tx = Transaction { inputs: (0..count).map(input).collect(), ..spend() };
        let mut twin = tx.inputs[0].prevout.txid.to_bytes();
        twin[31] ^= 1;
        tx.inputs[1].prevout = OutPoint { txid: Txid::from_bytes(twin), ..tx.inputs[0].prevout };
        let [first, second] = [0, 1].map(|i: usize| fingerprint(&tx.inputs[i].prevout));
        assert_eq!(first, second);
        assert_eq!(check(&tx), Ok(()));
        tx.inputs[1].prevout = tx.inputs[0].prevout;
        assert_eq!(check(&tx), rejected(RejectReason::InputsDuplicate));
    }
}

proptest! {
    #[test]
    fn repeated_outpoints_as_a_set_finds_them(
        names in proptest::collection::vec(0u32..60, 1..40),
    ) {
        let tx = Transaction { inputs: names.iter().map(|n| input(*n)).collect(), ..spend() };
        let distinct: HashSet<u32> = names.iter().copied().collect();
        prop_assert_eq!(check(&tx).is_ok(), distinct.len() == names.len());
    }
}

#[test]
fn coinbase_script_has_2_to_100_bytes() {
    let of = |size: usize| {
        let mut tx = coinbase(1);
        tx.inputs[0].script_sig = vec![0; size];
        check(&tx)
    };
    assert_eq!(of(1), rejected(RejectReason::BadCbLength));
    assert_eq!(of(2), Ok(()));
    assert_eq!(of(100), Ok(()));
    assert_eq!(of(101), rejected(RejectReason::BadCbLength));
}

#[test]
fn null_outpoints_are_for_coinbases() {
    let mut tx = spend();
    tx.inputs.push(input(2));
    tx.inputs[1].prevout = OutPoint::NULL;
    assert_eq!(check(&tx), rejected(RejectReason::PrevoutNull));
    // Zero txid or last output number alone are not null.
    tx.inputs[1].prevout.vout = 0;
    assert_eq!(check(&tx), Ok(()));
    // Twice null is a duplicate first.
    tx.inputs[0].prevout = OutPoint::NULL;
    tx.inputs[1].prevout = OutPoint::NULL;
    assert_eq!(check(&tx), rejected(RejectReason::InputsDuplicate));
}

#[test]
fn lock_times_are_heights_below_500_000_000_and_times_above() {
    let mut tx = spend();
    tx.inputs = vec![input(1), input(2)];
    let mut is_final_at = |lock: u32, height: u32, time: u32, sequences: [u32; 2]| {
        tx.lock_time = lock;
        tx.inputs[0].sequence = sequences[0];
        tx.inputs[1].sequence = sequences[1];
        with_view(&tx, |tx| LockTimes::default().with(tx).are_reached(height, time))
    };
    let open = [0, 0];
    assert!(is_final_at(0, 0, 0, open));
    assert!(is_final_at(99, 100, 0, open));
    assert!(!is_final_at(100, 100, u32::MAX, open));
    assert!(!is_final_at(499_999_999, 499_999_999, u32::MAX, open));
    assert!(!is_final_at(500_000_000, u32::MAX, 500_000_000, open));
    assert!(is_final_at(500_000_000, 0, 500_000_001, open));
    assert!(is_final_at(u32::MAX, 0, 0, [u32::MAX; 2]));
    assert!(!is_final_at(u32::MAX, 0, 0, [u32::MAX, u32::MAX - 1]));
}

/// One by one and together, in every order of three.
#[test]
fn transactions_are_final_when_each_of_them_is() {
    let locks = [0, 1, 99, 100, 101, 499_999_999, 500_000_000, 500_000_100, u32::MAX];
    let places = [(100, 500_000_100), (101, 500_000_101), (1, 1), (u32::MAX, u32::MAX)];
    let kinds = locks.into_iter().flat_map(|lock| [(lock, 0), (lock, u32::MAX)]);
    let kinds: Vec<(u32, u32)> = kinds.collect();
    let add = |lock_times: LockTimes, (lock, sequence): (u32, u32)| {
        let mut tx = spend();
        (tx.lock_time, tx.inputs) = (lock, vec![TxIn { sequence, ..input(1) }]);
        with_view(&tx, |tx| lock_times.with(tx))
    };
    for (height, time) in places {
        let alone = |kind| add(LockTimes::default(), kind).are_reached(height, time);
        for first in &kinds {
            for second in &kinds {
                for third in &kinds {
                    let all = [*first, *second, *third];
                    let together = all.into_iter().fold(LockTimes::default(), add);
                    let each = all.into_iter().all(alone);
                    assert_eq!(together.are_reached(height, time), each, "{all:?}");
                }
            }
        }
    }
}

/// Summed up while the rules are checked, and alone.
#[test]
fn facts_are_those_of_the_transaction() {
    let with = |version, sequences: &[u32], script_sig: &[u8]| Transaction {
        version,
        inputs: (1..)
            .zip(sequences)
            .map(|(n, sequence)| TxIn {
                sequence: *sequence,
                script_sig: script_sig.to_vec(),
                ..input(n)
            })
            .collect(),
        outputs: vec![output(3), TxOut { value: 4, script_pubkey: vec![0xac, 0xae] }],
        lock_time: 0,
    };
    for (version, sequences, is_locked) in [
        (2, &[u32::MAX, 0][..], true),
        (2, &[1 << 31, u32::MAX], false),
        (2, &[(1 << 31) - 1], true),
        (1, &[0], false),
    ] {
        for (script_sig, spending) in [(&[][..], 0), (&[0xac, 0xad], 2)] {
            let tx = with(version, sequences, script_sig);
            let own_sigops = 21 + spending * sequences.len() as u32;
            let expected = TxFacts { value_out: 7, own_sigops, is_locked };
            assert_eq!(with_view(&tx, TxFacts::of), expected);
            let checked = with_view(&tx, |tx| check_and_sum_up(tx, &mut Vec::new()));
            assert_eq!(checked, Ok(expected));
        }
    }
}

#[test]
fn outputs_of_a_transaction_that_no_rule_has_passed_are_summed_up() {
    let outputs = vec![output(i64::MAX), output(1)];
    let tx = Transaction { outputs, ..spend() };
    assert_eq!(with_view(&tx, TxFacts::of).value_out, i64::MAX);
}

fn fee(values: &[Amount], out: Amount) -> Result<Amount, Reject> {
    let coins: Vec<Coin> = values.iter().map(|value| coin(*value, 1)).collect();
    let tx = Transaction {
        inputs: (0..values.len() as u32).map(input).collect(),
        outputs: vec![output(out)],
        ..spend()
    };
    with_view(&tx, |tx| check_tx_inputs(tx, &TxFacts::of(tx), &views(&coins), 500))
}

#[test]
fn the_fee_is_what_outputs_leave_of_inputs() {
    assert_eq!(fee(&[COIN, 7], COIN), Ok(7));
    assert_eq!(fee(&[COIN], COIN), Ok(0));
    assert_eq!(fee(&[COIN - 1], COIN), rejected(RejectReason::InBelowOut));
    assert_eq!(fee(&[MAX_MONEY], 0), Ok(MAX_MONEY));
}

#[test]
fn spent_amounts_and_their_sum_are_in_range() {
    assert_eq!(fee(&[-1], 0), rejected(RejectReason::InputValuesOutOfRange));
    assert_eq!(fee(&[MAX_MONEY + 1], 0), rejected(RejectReason::InputValuesOutOfRange));
    assert_eq!(fee(&[MAX_MONEY, 1], 0), rejected(RejectReason::InputValuesOutOfRange));
    assert_eq!(fee(&[i64::MAX, i64::MAX], 0), rejected(RejectReason::InputValuesOutOfRange));
    assert_eq!(fee(&[MAX_MONEY - 1, 1], 0), Ok(MAX_MONEY));
}

#[test]
fn a_missing_coin_goes_before_everything_else() {
    let tx = Transaction { inputs: vec![input(1), input(2)], ..spend() };
    let immature = Coin { coinbase: true, ..coin(COIN, 500) };
    let of = |coins: &[Coin]| {
        with_view(&tx, |tx| check_tx_inputs(tx, &TxFacts::of(tx), &views(coins), 500))
    };
    assert_eq!(of(&[]), rejected(RejectReason::InputsMissingOrSpent));
    assert_eq!(of(std::slice::from_ref(&immature)), rejected(RejectReason::InputsMissingOrSpent));
    assert_eq!(of(&[immature, coin(1, 1)]), rejected(RejectReason::PrematureSpendOfCoinbase));
}

#[test]
fn a_coinbase_matures_after_100_blocks() {
    let at = |coinbase: bool, height: u32| {
        let coin = Coin { coinbase, ..coin(COIN, 400) };
        with_view(&spend(), |tx| {
            check_tx_inputs(tx, &TxFacts::of(tx), &[CoinView::from(&coin)], height)
        })
    };
    assert_eq!(at(true, 499), rejected(RejectReason::PrematureSpendOfCoinbase));
    assert_eq!(at(true, 500), Ok(0));
    assert_eq!(at(false, 400), Ok(0));
}
