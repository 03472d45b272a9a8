//! The cases of Core's `sigopcount_tests.cpp`, and a twin of the counter.

use godwit_primitives::{Coin, OutPoint, Transaction};
use godwit_stream::DataStream;
use proptest::prelude::*;

use super::*;
use crate::fixtures::{coin_of, output, spend, views, with_view};
use crate::script::{OP_0, OP_EQUAL, OP_HASH160, push_data};

const OP_2: u8 = OP_1 + 1;
const BOTH: ScriptFlags =
    ScriptFlags::ALL.without(ScriptFlags::TAPROOT).without(ScriptFlags::DERSIG);

fn pushed(data: &[u8]) -> Vec<u8> {
    let mut script = Vec::new();
    push_data(&mut script, data);
    script
}

/// `1 <key> <key> 2 <op>`
fn multisig(op: u8) -> Vec<u8> {
    let key = pushed(&[2; 33]);
    [&[OP_1][..], &key, &key, &[OP_2, op]].concat()
}

fn pay_to_script_hash() -> Vec<u8> {
    [&[OP_HASH160][..], &pushed(&[7; 20]), &[OP_EQUAL]].concat()
}

fn witness_output(version: u8, size: usize) -> Vec<u8> {
    [&[version][..], &pushed(&vec![7; size])].concat()
}

/// A transaction that spends a coin of `script_pubkey` with that script and witness.
fn cost(script_pubkey: &[u8], script_sig: &[u8], witness: &[&[u8]], flags: ScriptFlags) -> u64 {
    let tx = spending(script_sig, witness);
    cost_of(&tx, &[coin_of(1, 1, script_pubkey)], flags)
}

/// Over coins with their scripts, and over the same coins as they are stored.
fn cost_of(tx: &Transaction, coins: &[Coin], flags: ScriptFlags) -> u64 {
    let over =
        |coins: &[CoinView<'_>]| with_view(tx, |tx| sigop_cost(tx, &TxFacts::of(tx), coins, flags));
    let stored: Vec<Vec<u8>> = coins.iter().map(stored).collect();
    let lying: Vec<CoinView<'_>> =
        stored.iter().map(|bytes| CoinView::from_compressed(bytes).unwrap()).collect();
    let cost = over(&views(coins));
    assert_eq!(over(&lying), cost);
    cost
}

fn stored(coin: &Coin) -> Vec<u8> {
    let mut bytes: DataStream = DataStream::new();
    bytes.put(coin);
    bytes.as_slice().to_vec()
}

fn spending(script_sig: &[u8], witness: &[&[u8]]) -> Transaction {
    let mut tx = spend();
    tx.inputs[0].script_sig = script_sig.to_vec();
    tx.inputs[0].witness = witness.iter().map(|item| item.to_vec()).collect();
    tx
}

#[test]
fn scripts_alone() {
    let mut script = [&[OP_1][..], &pushed(&[0; 20]), &pushed(&[0; 20])].concat();
    script.extend([OP_2, OP_CHECKMULTISIG]);
    assert_eq!(count_sigops(&[], Multisig::Worst), 0);
    assert_eq!(count_sigops(&[], Multisig::Pushed), 0);
    assert_eq!(count_sigops(&script, Multisig::Pushed), 2);
    script.extend([0x63, OP_CHECKSIG, 0x68]);
    assert_eq!(count_sigops(&script, Multisig::Pushed), 3);
    assert_eq!(count_sigops(&script, Multisig::Worst), 21);
    // A truncated push ends the count.
    assert_eq!(count_sigops(&[OP_CHECKSIG, 0x05, OP_CHECKSIG], Multisig::Worst), 1);
    // Sixteen is the highest number, and a number must be the operation before.
    assert_eq!(count_sigops(&[OP_16, OP_CHECKMULTISIGVERIFY], Multisig::Pushed), 16);
    assert_eq!(count_sigops(&[OP_0, OP_CHECKMULTISIG], Multisig::Pushed), 20);
    assert_eq!(count_sigops(&[OP_2, 0x61, OP_CHECKMULTISIG], Multisig::Pushed), 20);
    assert_eq!(count_sigops(&[0x01, OP_2, OP_CHECKMULTISIG], Multisig::Pushed), 20);
}

#[test]
fn own_scripts_count_four_times_and_multisig_twenty() {
    let creating = Transaction {
        outputs: vec![
            godwit_primitives::TxOut {
                script_pubkey: multisig(OP_CHECKMULTISIGVERIFY),
                ..output(1)
            };
            2
        ],
        ..spend()
    };
    assert_eq!(with_view(&creating, legacy_sigop_count), 40);
    let coins = [coin_of(1, 1, &[])];
    assert_eq!(cost_of(&creating, &coins, BOTH), 160);
    assert_eq!(cost(&multisig(OP_CHECKMULTISIGVERIFY), &[OP_0, OP_0], &[], BOTH), 0);
    assert_eq!(cost(&[], &[OP_CHECKSIG, OP_CHECKSIGVERIFY], &[], ScriptFlags::NONE), 8);
}

#[test]
fn behind_p2sh_the_pushed_number_counts() {
    let redeem = multisig(OP_CHECKMULTISIGVERIFY);
    let script_sig = [&[OP_0, OP_0][..], &pushed(&redeem)].concat();
    assert_eq!(cost(&pay_to_script_hash(), &script_sig, &[], BOTH), 8);
    assert_eq!(cost(&pay_to_script_hash(), &script_sig, &[], ScriptFlags::P2SH), 8);
    assert_eq!(cost(&pay_to_script_hash(), &script_sig, &[], ScriptFlags::NONE), 0);
    // Something else than a push, or a truncated one, hides the script.
    let not_pushed = [&[0x61][..], &script_sig].concat();
    assert_eq!(cost(&pay_to_script_hash(), &not_pushed, &[], BOTH), 0);
    let truncated = &script_sig[..script_sig.len() - 1];
    assert_eq!(cost(&pay_to_script_hash(), truncated, &[], BOTH), 0);
    // A number after it is the last push, of nothing.
    let number_last = [&script_sig[..], &[OP_16]].concat();
    assert_eq!(cost(&pay_to_script_hash(), &number_last, &[], BOTH), 0);
}

#[test]
fn witness_programs_count_once() {
    let script = multisig(OP_CHECKMULTISIG);
    let p2wpkh = witness_output(OP_0, 20);
    let p2wsh = witness_output(OP_0, 32);
    assert_eq!(cost(&p2wpkh, &[], &[&[], &[]], BOTH), 1);
    assert_eq!(cost(&p2wpkh, &[], &[], BOTH), 1);
    assert_eq!(cost(&p2wsh, &[], &[&[], &[], &script], BOTH), 2);
    assert_eq!(cost(&p2wsh, &[], &[&script, &[]], BOTH), 0, "the last item is the script");
    assert_eq!(cost(&p2wsh, &[], &[], BOTH), 0);
    for script_pubkey in [&p2wpkh, &p2wsh] {
        assert_eq!(cost(script_pubkey, &[], &[&script], ScriptFlags::P2SH), 0);
    }
    assert_eq!(cost(&witness_output(OP_1, 20), &[], &[&script], BOTH), 0);
    assert_eq!(cost(&witness_output(OP_1, 32), &[], &[&script], BOTH), 0);
    for size in [2, 19, 21, 31, 33, 40] {
        assert_eq!(cost(&witness_output(OP_0, size), &[], &[&script], BOTH), 0, "{size}");
    }
}

#[test]
fn witness_programs_behind_p2sh_count_once() {
    let script = multisig(OP_CHECKMULTISIG);
    let nested = |program: &[u8], witness: &[&[u8]], flags| {
        cost(&pay_to_script_hash(), &pushed(program), witness, flags)
    };
    assert_eq!(nested(&witness_output(OP_0, 20), &[&[], &[]], BOTH), 1);
    assert_eq!(nested(&witness_output(OP_0, 32), &[&[], &[], &script], BOTH), 2);
    assert_eq!(nested(&witness_output(OP_0, 32), &[&script], ScriptFlags::P2SH), 0);
}

#[test]
fn a_coinbase_counts_its_own_scripts_only() {
    let mut tx = spending(&[OP_CHECKSIG], &[&[], &[]]);
    tx.inputs[0].prevout = OutPoint::NULL;
    let coins = [coin_of(1, 1, &witness_output(OP_0, 20))];
    assert_eq!(cost_of(&tx, &coins, BOTH), 4);
    assert_eq!(cost_of(&tx, &[], BOTH), 4);
}

/// The counter by index, with every operation's end worked out apart.
fn naive_count(script: &[u8], pushed: bool) -> u64 {
    let mut ops = Vec::new();
    let mut at = 0;
    while at < script.len() {
        let opcode = script[at];
        let (width, direct) = match opcode {
            0x4c => (1, 0),
            0x4d => (2, 0),
            0x4e => (4, 0),
            0..=0x4b => (0, usize::from(opcode)),
            _ => (0, 0),
        };
        if script.len() - at - 1 < width {
            break;
        }
        let length = (0..width).fold(direct, |n, i| n | usize::from(script[at + 1 + i]) << (8 * i));
        if script.len() - at - 1 - width < length {
            break;
        }
        at += 1 + width + length;
        ops.push(opcode);
    }
    let mut count = 0;
    for (i, opcode) in ops.iter().enumerate() {
        count += match opcode {
            0xac | 0xad => 1,
            0xae | 0xaf if pushed && i > 0 && (0x51..=0x60).contains(&ops[i - 1]) => {
                u64::from(ops[i - 1]) - 0x50
            }
            0xae | 0xaf => 20,
            _ => 0,
        };
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_script_is_counted_as_the_twin_does(
        script in proptest::collection::vec(
            prop_oneof![any::<u8>(), 0x4cu8..=0x62, 0xacu8..=0xaf, 0u8..4], 0..60),
    ) {
        prop_assert_eq!(count_sigops(&script, Multisig::Worst), naive_count(&script, false));
        prop_assert_eq!(count_sigops(&script, Multisig::Pushed), naive_count(&script, true));
    }

    /// The usual forms of output scripts, one byte of them perhaps another one, perhaps cut short.
    #[test]
    fn usual_outputs_are_counted_as_the_twin_does(
        form in 0..6usize,
        payload in proptest::collection::vec(prop_oneof![any::<u8>(), 0xacu8..=0xaf], 32),
        change in proptest::option::of((0..40usize, any::<u8>())),
        cut in 0..2usize,
    ) {
        let mut script = match form {
            0 => [&[0x76, 0xa9, 20], &payload[..20], &[0x88, 0xac]].concat(),
            1 => [&[0xa9, 20], &payload[..20], &[0x87]].concat(),
            2 => [&[0, 20], &payload[..20]].concat(),
            3 => [&[0, 32], &payload[..]].concat(),
            4 => [&[0x51, 32], &payload[..]].concat(),
            _ => [&[0x52, 32], &payload[..]].concat(),
        };
        if let Some((at, byte)) = change
            && let Some(place) = script.get_mut(at)
        {
            *place = byte;
        }
        script.truncate(script.len() - cut);
        prop_assert_eq!(output_sigops(&script), naive_count(&script, false));
    }
}
