use godwit_primitives::network::Network;
use godwit_primitives::{BlockHeader, MerkleRoot};
use proptest::prelude::*;

use super::*;

fn main() -> Params {
    Params::new(Network::Main)
}

fn hash_of(value: U256) -> BlockHash {
    BlockHash::from_bytes(value.to_le_bytes())
}

fn header(time: u32, bits: u32) -> BlockHeader {
    BlockHeader {
        version: 4,
        prev_blockhash: BlockHash::ZERO,
        merkle_root: MerkleRoot::ZERO,
        time,
        bits,
        nonce: 0,
    }
}

/// What a block of `time` on top of `chain`, which starts at height `first`, must claim.
fn required(chain: &[BlockHeader], first: u32, time: u32, params: &Params) -> u32 {
    let ancestor = |height: u32| chain[(height - first) as usize];
    let height = first + chain.len() as u32 - 1;
    let prev = PrevContext {
        height,
        header: *chain.last().unwrap(),
        median_time_past: 0,
        ancestor: &ancestor,
    };
    next_work_required(&prev, time, params)
}

/// Core's `pow_tests.cpp`, get_next_work*.
#[test]
fn retargets_of_core() {
    for (bits, last, first, expected) in [
        (0x1d00_ffff, 1_262_152_739i64, 1_261_130_161i64, 0x1d00_d86a),
        (0x1d00_ffff, 1_233_061_996, 1_231_006_505, 0x1d00_ffff),
        (0x1c05_a3f4, 1_279_297_671, 1_279_008_237, 0x1c01_68fd),
        (0x1c38_7f6f, 1_269_211_443, 1_263_163_443, 0x1d00_e1fd),
    ] {
        assert_eq!(retarget(bits, last - first, &main()), expected);
    }
}

#[test]
fn the_timespan_is_clamped_to_a_quarter_and_four_times() {
    let (params, bits) = (main(), 0x1b04_864c);
    let expected = i64::from(params.pow_target_timespan);
    let shortest = retarget(bits, expected / 4, &params);
    assert_eq!(retarget(bits, expected / 4 - 1, &params), shortest);
    assert_eq!(retarget(bits, -1, &params), shortest);
    assert_eq!(retarget(bits, i64::MIN, &params), shortest);
    assert!(retarget(bits, expected / 4 + 10, &params) > shortest);
    let longest = retarget(bits, expected * 4, &params);
    assert_eq!(retarget(bits, expected * 4 + 1, &params), longest);
    assert_eq!(retarget(bits, i64::MAX, &params), longest);
    assert!(retarget(bits, expected * 4 - 10, &params) < longest);
    assert_eq!(retarget(bits, expected, &params), bits);
}

/// Core's `pow_tests.cpp`, CheckProofOfWork_test_*, and the exact boundary.
#[test]
fn proof_of_work_needs_a_valid_target_and_a_hash_within_it() {
    let params = main();
    let limit = params.pow_limit;
    let bits = compact_target(limit);
    let one = hash_of(U256::ONE);
    assert!(check_proof_of_work(&one, bits, &params));
    assert!(!check_proof_of_work(&one, bits | 0x0080_0000, &params), "negative");
    assert!(!check_proof_of_work(&one, !0x0080_0000, &params), "overflow");
    assert!(!check_proof_of_work(&one, compact_target(limit * 2), &params), "too easy");
    assert!(!check_proof_of_work(&hash_of(U256::ZERO), 0, &params), "zero");
    let target = derive_target(bits, limit).unwrap();
    assert!(check_proof_of_work(&hash_of(target), bits, &params));
    assert!(!check_proof_of_work(&hash_of(target + U256::ONE), bits, &params));
}

#[test]
fn the_limit_itself_is_a_valid_target() {
    let limit = expand_target(0x1d00_ffff).target;
    assert_eq!(derive_target(0x1d00_ffff, limit), Some(limit));
    assert_eq!(derive_target(0x1d01_0000, limit), None);
    assert_eq!(derive_target(0x1d00_ffff, limit - U256::ONE), None);
}

#[test]
fn within_a_period_the_target_stays() {
    let chain = [header(100, 0x1b04_864c)];
    assert_eq!(required(&chain, 2014, 1_000_000, &main()), 0x1b04_864c);
}

#[test]
fn a_period_ends_with_the_block_before_a_multiple_of_2016() {
    let params = main();
    let mut chain = vec![header(0, 0x1b04_864c); 2016];
    chain[2015].time = params.pow_target_timespan / 2;
    assert_eq!(required(&chain[..2015], 0, 0, &params), 0x1b04_864c);
    let halved = retarget(0x1b04_864c, i64::from(params.pow_target_timespan / 2), &params);
    assert_eq!(required(&chain, 0, 0, &params), halved);
    assert_ne!(halved, 0x1b04_864c);
}

#[test]
fn bip94_retargets_from_the_first_block_of_the_period() {
    let mut params = Params::new(Network::Testnet4);
    let mut chain = vec![header(0, 0x1d00_ffff); 2016];
    chain[0].bits = 0x1b04_864c;
    chain[2015].time = params.pow_target_timespan;
    assert_eq!(required(&chain, 2016, 0, &params), 0x1b04_864c);
    params.enforce_bip94 = false;
    assert_eq!(required(&chain, 2016, 0, &params), 0x1d00_ffff);
}

#[test]
fn twenty_minutes_allow_the_easiest_target_and_not_one_second_less() {
    let params = Params::new(Network::Testnet3);
    let chain = [header(5_000, 0x1b04_864c)];
    assert_eq!(required(&chain, 2017, 5_000 + 1_200, &params), 0x1b04_864c);
    assert_eq!(required(&chain, 2017, 5_000 + 1_201, &params), 0x1d00_ffff);
    // The sum does not wrap at the end of time.
    let chain = [header(u32::MAX - 1_000, 0x1b04_864c)];
    assert_eq!(required(&chain, 2017, u32::MAX, &params), 0x1b04_864c);
    // The first block of a period is not excepted.
    let mut chain = vec![header(5_000, 0x1b04_864c); 2016];
    chain[2015].time += params.pow_target_timespan;
    assert_eq!(required(&chain, 2016, u32::MAX, &params), 0x1b04_864c);
}

#[test]
fn the_walk_back_stops_at_the_first_block_of_the_period() {
    let params = Params::new(Network::Testnet3);
    // Heights 2015 to 2017: the last block before the period has another target.
    let chain = [header(0, 0x1b04_864c), header(1_000, 0x1d00_ffff), header(2_000, 0x1d00_ffff)];
    assert_eq!(required(&chain, 2015, 2_100, &params), 0x1d00_ffff);
    // Inside one period the walk reaches that target.
    assert_eq!(required(&chain, 2017, 2_100, &params), 0x1b04_864c);
}

/// The target by the sentence of the rule, for a block that is not late.
fn retarget_free(chain: &[BlockHeader], first: u32) -> u32 {
    let mut bits = 0;
    for (header, height) in chain.iter().zip(first..) {
        if height.is_multiple_of(2016) || header.bits != 0x1d00_ffff {
            bits = header.bits;
        }
    }
    bits
}

#[test]
fn regtest_never_retargets() {
    let mut params = Params::new(Network::Regtest);
    let chain = vec![header(0, 0x2012_3456); 144];
    for bip94 in [false, true] {
        params.enforce_bip94 = bip94;
        assert_eq!(required(&chain, 144, u32::MAX, &params), 0x2012_3456);
        assert_eq!(required(&chain[..143], 144, 1_201, &params), 0x207f_ffff);
        assert_eq!(required(&chain[..143], 144, 1_200, &params), 0x2012_3456);
    }
}

/// Core's `pow_tests.cpp`, get_next_work*: what a retarget gives is permitted, and at its lower and
/// upper limit the next easier or harder target is not.
#[test]
fn permitted_transitions_of_core() {
    let permitted = |height, old, new| permitted_difficulty_transition(height, old, new, &main());
    assert!(permitted(32_256, 0x1d00_ffff, 0x1d00_d86a));
    assert!(permitted(2016, 0x1d00_ffff, 0x1d00_ffff));
    assert!(permitted(68_544, 0x1c05_a3f4, 0x1c01_68fd));
    assert!(!permitted(68_544, 0x1c05_a3f4, 0x1c01_68fc));
    assert!(permitted(46_368, 0x1c38_7f6f, 0x1d00_e1fd));
    assert!(!permitted(46_368, 0x1c38_7f6f, 0x1d00_e1fe));
}

#[test]
fn within_a_period_no_transition_is_permitted() {
    let params = main();
    let same = |height, bits| permitted_difficulty_transition(height, 0x1b04_864c, bits, &params);
    for height in [1, 2015, 2017, 4031] {
        assert!(same(height, 0x1b04_864c));
        assert!(!same(height, 0x1b04_864b) && !same(height, 0x1b04_864d), "height {height}");
    }
    assert!(same(0, 0x1b04_864d) && same(2016, 0x1b04_864d) && same(4032, 0x1b04_864d));
    // No target is easier than the limit, however far the time stretches.
    let easiest = |bits| permitted_difficulty_transition(2016, 0x1d00_8000, bits, &params);
    assert!(easiest(0x1d00_ffff) && !easiest(0x1d01_0000));
    // Zero is below every target.
    assert!(!easiest(0));
}

#[test]
fn with_the_twenty_minute_rule_every_transition_is_permitted() {
    for network in [Network::Testnet3, Network::Testnet4, Network::Regtest] {
        let params = Params::new(network);
        assert!(permitted_difficulty_transition(1, 0x1b04_864c, 0x207f_ffff, &params));
    }
    let signet = Params::new(Network::Signet);
    assert!(!permitted_difficulty_transition(1, 0x1b04_864c, 0x207f_ffff, &signet));
}

/// Core's `pow_tests.cpp`, GetBlockProofEquivalentTime_test, and its edges.
#[test]
fn work_as_time() {
    let params = main();
    let bits = 0x207f_ffff;
    let work = |blocks: u128| block_proof(bits) * U256::from(blocks);
    assert_eq!(proof_equivalent_time(work(7), work(3), bits, &params), 4 * 600);
    assert_eq!(proof_equivalent_time(work(3), work(7), bits, &params), -4 * 600);
    assert_eq!(proof_equivalent_time(work(3), work(3), bits, &params), 0);
    let much = U256::ONE << 70u32;
    assert_eq!(proof_equivalent_time(much, U256::ZERO, bits, &params), i64::MAX);
    assert_eq!(proof_equivalent_time(U256::ZERO, much, bits, &params), -i64::MAX);
    assert_eq!(proof_equivalent_time(U256::ONE, U256::ZERO, 0, &params), i64::MAX);
}

/// Retarget in schoolbook arithmetic on 40 big-endian base-256 digits.
fn naive_retarget(bits: u32, timespan: i64, params: &Params) -> u32 {
    let mut digits = [0u64; 40];
    let mantissa = (bits & 0x007f_ffff).to_be_bytes();
    let size = (bits >> 24) as usize;
    for (i, byte) in mantissa[1..].iter().enumerate() {
        if i < size {
            digits[40 - size + i] = u64::from(*byte);
        }
    }
    let expected = u64::from(params.pow_target_timespan);
    let timespan = timespan.max(expected as i64 / 4).min(expected as i64 * 4) as u64;
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        carry += *digit * timespan;
        *digit = carry & 0xff;
        carry >>= 8;
    }
    let mut rest = 0;
    for digit in digits.iter_mut() {
        rest = rest << 8 | *digit;
        *digit = rest / expected;
        rest %= expected;
    }
    let limit = params.pow_limit.to_be_bytes();
    let mut bytes: Vec<u8> = digits.iter().map(|digit| *digit as u8).collect();
    if bytes[..8].iter().any(|byte| *byte != 0) || bytes[8..] > limit[..] {
        bytes = limit.to_vec();
    }
    let mut number: Vec<u8> = bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    if number.first().is_some_and(|top| *top >= 0x80) {
        number.insert(0, 0);
    }
    let size = number.len() as u32;
    number.resize(number.len().max(3), 0);
    size << 24 | u32::from_be_bytes([0, number[0], number[1], number[2]])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn retarget_equals_schoolbook_arithmetic(
        size in 3u32..=29, mantissa in 0x8000u32..0x80_0000, timespan in -10i64..6_000_000,
        signet in any::<bool>(),
    ) {
        let params = Params::new(if signet { Network::Signet } else { Network::Main });
        let bits = size << 24 | mantissa;
        prop_assume!(derive_target(bits, params.pow_limit).is_some());
        prop_assert_eq!(
            retarget(bits, timespan, &params),
            naive_retarget(bits, timespan, &params)
        );
    }

    #[test]
    fn what_a_retarget_gives_is_permitted(
        size in 3u32..=29, mantissa in 0x8000u32..0x80_0000, timespan in any::<i32>(),
        signet in any::<bool>(), other in any::<u32>(),
    ) {
        let params = Params::new(if signet { Network::Signet } else { Network::Main });
        let bits = size << 24 | mantissa;
        prop_assume!(derive_target(bits, params.pow_limit).is_some());
        let permitted = |new| permitted_difficulty_transition(2016 * 7, bits, new, &params);
        prop_assert!(permitted(retarget(bits, i64::from(timespan), &params)));
        // As far from it as the schoolbook says, whatever the compact form.
        let target = |bits| expand_target(bits).target;
        let least = target(naive_retarget(bits, i64::MIN, &params));
        let most = target(naive_retarget(bits, i64::MAX, &params));
        for new in [other, (bits & 0xff00_0000) | (other & 0x00ff_ffff), bits + 1, bits - 1] {
            let expected = target(new) >= least && target(new) <= most;
            prop_assert_eq!(permitted(new), expected, "{:x}", new);
        }
    }

    #[test]
    fn the_walk_back_finds_the_last_block_that_did_not_use_the_rule(
        first in 0u32..2, easy in proptest::collection::vec(0u8..8, 1..60), gap in 0u32..40,
    ) {
        let params = Params::new(Network::Testnet3);
        let first = first * 2016 + 2016 - gap.min(2016);
        // One in eight has a real target, each a different one.
        let chain: Vec<BlockHeader> = easy.iter().zip(1u32..)
            .map(|(e, i)| header(1_000, if *e == 0 { 0x1b00_ffff + i } else { 0x1d00_ffff }))
            .collect();
        let last = first + chain.len() as u32 - 1;
        let covers_start = (first..=last).any(|height| height % 2016 == 0);
        prop_assume!(!(last + 1).is_multiple_of(2016));
        prop_assume!(covers_start || chain.iter().any(|h| h.bits != 0x1d00_ffff));
        prop_assert_eq!(required(&chain, first, 1_001, &params), retarget_free(&chain, first));
    }
}
