use godwit_primitives::MerkleRoot;
use godwit_primitives::network::Network;

use super::*;
use crate::ResultClass;

const NOW: i64 = 2_000_000_000;

fn header(time: u32) -> BlockHeader {
    BlockHeader {
        version: 4,
        prev_blockhash: BlockHash::ZERO,
        merkle_root: MerkleRoot::ZERO,
        time,
        bits: 0x207f_ffff,
        nonce: 0,
    }
}

/// Checks `header` on top of a regtest block at `height` of time 10,000 and median time past 9,000.
fn check_on(height: u32, header: &BlockHeader, params: &Params, now: i64) -> Result<(), Reject> {
    let ancestor = |_: u32| self::header(0);
    let prev = PrevContext {
        height,
        header: self::header(10_000),
        median_time_past: 9_000,
        ancestor: &ancestor,
    };
    contextual_check_header(header, &prev, params, now)
}

fn regtest() -> Params {
    Params::new(Network::Regtest)
}

fn rejected(reason: RejectReason) -> Result<(), Reject> {
    Err(Reject::new(reason))
}

/// The eleven times of Core's definition, sorted the slow way.
fn naive_median(times: &[u32]) -> u32 {
    let rank = times.len() / 2;
    *times
        .iter()
        .find(|candidate| {
            let below = times.iter().filter(|time| time < candidate).count();
            let equal = times.iter().filter(|time| time == candidate).count();
            (below..below + equal).contains(&rank)
        })
        .unwrap()
}

#[test]
fn median_of_odd_and_even_counts() {
    assert_eq!(median_time_past(&[7]), 7);
    assert_eq!(median_time_past(&[7, 3]), 7);
    assert_eq!(median_time_past(&[7, 3, 5]), 5);
    assert_eq!(median_time_past(&[1, 2, 3, 4]), 3);
    assert_eq!(median_time_past(&[11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]), 6);
}

proptest::proptest! {
    #[test]
    fn median_equals_the_naive_one(times in proptest::collection::vec(0u32..20, 1..=11)) {
        proptest::prop_assert_eq!(median_time_past(&times), naive_median(&times));
    }
}

#[test]
fn proof_of_work_is_checked_without_context() {
    let params = Params::new(Network::Main);
    assert_eq!(check_header(&params.genesis_hash, &params.genesis, &params), Ok(()));
    let other = BlockHeader { nonce: 0, ..params.genesis };
    let result = check_header(&other.block_hash(), &other, &params);
    assert_eq!(result, rejected(RejectReason::HighHash));
    assert_eq!(result.unwrap_err().class, ResultClass::InvalidHeader);
}

#[test]
fn a_wrong_target_is_rejected_first() {
    let wrong = BlockHeader { bits: 0x207f_fffe, time: 0, version: 0, ..header(0) };
    assert_eq!(check_on(5, &wrong, &regtest(), 0), rejected(RejectReason::BadDiffbits));
}

#[test]
fn time_is_above_the_median() {
    assert_eq!(check_on(5, &header(9_001), &regtest(), NOW), Ok(()));
    assert_eq!(check_on(5, &header(9_000), &regtest(), NOW), rejected(RejectReason::TimeTooOld));
}

#[test]
fn timewarp_is_600_seconds_at_a_period_start_under_bip94() {
    let mut params = regtest();
    let warped = header(9_399);
    assert_eq!(check_on(143, &warped, &params, NOW), Ok(()));
    params.enforce_bip94 = true;
    let expected = rejected(RejectReason::TimeTimewarpAttack);
    assert_eq!(check_on(143, &warped, &params, NOW), expected);
    assert_eq!(check_on(143, &header(9_400), &params, NOW), Ok(()));
    assert_eq!(check_on(142, &warped, &params, NOW), Ok(()));
    assert_eq!(check_on(144, &warped, &params, NOW), Ok(()));
}

#[test]
fn two_hours_ahead_is_the_limit() {
    let now = 100_000;
    let params = regtest();
    assert_eq!(check_on(5, &header(107_200), &params, now), Ok(()));
    let result = check_on(5, &header(107_201), &params, now);
    assert_eq!(result, rejected(RejectReason::TimeTooNew));
    assert_eq!(result.unwrap_err().class, ResultClass::TimeFuture);
    assert_eq!(check_on(5, &header(u32::MAX), &params, i64::MAX), Ok(()));
}

#[test]
fn versions_rise_at_their_heights() {
    let mut params = regtest();
    params.bip34_height = 10;
    params.bip66_height = 20;
    params.bip65_height = 30;
    for (height, lowest) in [(9, i32::MIN), (10, 2), (19, 2), (20, 3), (29, 3), (30, 4)] {
        let of_version = |version| BlockHeader { version, ..header(10_001) };
        let check = |version| check_on(height - 1, &of_version(version), &params, NOW);
        assert_eq!(check(lowest), Ok(()), "{height}");
        assert_eq!(check(i32::MAX), Ok(()), "{height}");
        if lowest != i32::MIN {
            let below = lowest - 1;
            assert_eq!(check(below), rejected(RejectReason::BadVersion(below)), "{height}");
            assert_eq!(check(-1), rejected(RejectReason::BadVersion(-1)), "{height}");
        }
    }
}
