use godwit_primitives::network::Network;
use godwit_primitives::{MAX_MONEY, Transaction};

use super::*;
use crate::fixtures::{coinbase, output, regtest, with_view};

fn main() -> Params {
    Params::new(Network::Main)
}

fn block_hash(text: &str) -> BlockHash {
    text.parse().unwrap()
}

/// Core's `validation_tests.cpp`, block_subsidy_test.
#[test]
fn the_subsidy_halves_64_times() {
    for interval in [210_000, 150, 1_000] {
        let params = Params { subsidy_halving_interval: interval, ..main() };
        let mut previous = 100 * COIN;
        for halvings in 0..64 {
            let subsidy = block_subsidy(halvings * interval, &params);
            assert_eq!(subsidy, previous / 2);
            assert_eq!(block_subsidy((halvings + 1) * interval - 1, &params), subsidy);
            previous = subsidy;
        }
        assert_eq!(block_subsidy(64 * interval, &params), 0);
    }
    assert_eq!(block_subsidy(u32::MAX, &main()), 0);
    assert_eq!(block_subsidy(u32::MAX, &regtest()), 0);
}

/// Core's `validation_tests.cpp`, subsidy_limit_test.
#[test]
fn all_subsidies_sum_to_less_than_the_money_limit() {
    let sum: Amount =
        (0..14_000_000).step_by(1_000).map(|height| block_subsidy(height, &main()) * 1_000).sum();
    assert_eq!(sum, 2_099_999_997_690_000);
    assert!(sum < MAX_MONEY);
}

#[test]
fn flags_rise_at_their_heights() {
    let base = ScriptFlags::P2SH | ScriptFlags::WITNESS | ScriptFlags::TAPROOT;
    let dersig = base | ScriptFlags::DERSIG;
    let cltv = dersig | ScriptFlags::CHECKLOCKTIMEVERIFY;
    let csv = cltv | ScriptFlags::CHECKSEQUENCEVERIFY;
    for (height, flags) in [
        (0, base),
        (363_724, base),
        (363_725, dersig),
        (388_380, dersig),
        (388_381, cltv),
        (419_327, cltv),
        (419_328, csv),
        (481_823, csv),
        (481_824, ScriptFlags::ALL),
        (u32::MAX, ScriptFlags::ALL),
    ] {
        assert_eq!(script_flags(height, &BlockHash::ZERO, &main()), flags, "{height}");
    }
}

#[test]
fn exceptions_keep_the_flags_of_their_height() {
    let bip16 = block_hash("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22");
    assert_eq!(script_flags(170_060, &bip16, &main()), ScriptFlags::NONE);
    let taproot = block_hash("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad");
    let all_but_taproot = ScriptFlags::ALL.without(ScriptFlags::TAPROOT);
    assert_eq!(script_flags(692_261, &taproot, &main()), all_but_taproot);
    let bip16 = block_hash("00000000dd30457c001f4095d208cc1296b0eed002427aa599874af7a432b105");
    let testnet3 = Params::new(Network::Testnet3);
    assert_eq!(script_flags(500, &bip16, &testnet3), ScriptFlags::NONE);
    assert_ne!(script_flags(500, &bip16, &main()), ScriptFlags::NONE);
}

#[test]
fn bip30_is_waived_for_two_blocks_at_their_heights() {
    let repeats = [
        (91_842, "00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec"),
        (91_880, "00000000000743f190a18c5577a3c2d2a1f610ae9601ac046a38084ccb7cd721"),
    ];
    let overwritten = [
        (91_722, "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e"),
        (91_812, "00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f"),
    ];
    let never = |_: u32| -> BlockHash { panic!("below the BIP34 height") };
    for (height, hash) in repeats {
        let hash = block_hash(hash);
        assert!(is_bip30_repeat(height, &hash) && !is_bip30_unspendable(height, &hash));
        assert!(!enforces_bip30(height, &hash, &never, &main()));
        assert!(enforces_bip30(height + 1, &hash, &never, &main()));
    }
    for (height, hash) in overwritten {
        let hash = block_hash(hash);
        assert!(!is_bip30_repeat(height, &hash) && is_bip30_unspendable(height, &hash));
        assert!(!is_bip30_unspendable(height + 1, &hash));
        assert!(enforces_bip30(height, &hash, &never, &main()));
    }
}

#[test]
fn bip34_implies_bip30_on_the_known_chain_up_to_a_height() {
    let params = main();
    let known = params.bip34_hash.unwrap();
    let at = |height: u32, ancestor: BlockHash| {
        let ancestor_at = |asked: u32| {
            assert_eq!(asked, params.bip34_height);
            ancestor
        };
        enforces_bip30(height, &BlockHash::ZERO, &ancestor_at, &params)
    };
    assert!(at(227_930, known));
    assert!(at(227_931, known), "the BIP34 block itself has no BIP34 block below it");
    assert!(!at(227_932, known));
    assert!(at(227_932, BlockHash::ZERO), "another chain");
    assert!(!at(1_983_701, known));
    assert!(at(1_983_702, known));
    // Networks without a BIP34 block always look.
    let never = |_: u32| -> BlockHash { panic!("no BIP34 block to compare") };
    assert!(enforces_bip30(1_000_000, &BlockHash::ZERO, &never, &regtest()));
}

#[test]
fn fees_add_up_to_the_money_limit() {
    assert_eq!(add_fee(3, 4), Ok(7));
    assert_eq!(add_fee(MAX_MONEY - 1, 1), Ok(MAX_MONEY));
    assert_eq!(add_fee(MAX_MONEY, 1), Err(Reject::new(RejectReason::AccumulatedFeeOutOfRange)));
}

#[test]
fn sigops_cost_80_000_at_most() {
    assert_eq!(sigop_cost_within_limit(80_000), Ok(()));
    assert_eq!(sigop_cost_within_limit(80_001), Err(Reject::new(RejectReason::BadBlkSigops)));
}

#[test]
fn a_coinbase_claims_subsidy_and_fees_at_most() {
    let claims = |height: u32, fees: Amount, values: &[Amount]| {
        let outputs = values.iter().map(|value| output(*value)).collect();
        let tx = Transaction { outputs, ..coinbase(height) };
        let facts = with_view(&tx, TxFacts::of);
        check_coinbase_amount(&facts, fees, height, &regtest())
    };
    let too_much = Err(Reject::new(RejectReason::BadCbAmount));
    assert_eq!(claims(149, 0, &[50 * COIN]), Ok(()));
    assert_eq!(claims(149, 0, &[50 * COIN, 1]), too_much);
    assert_eq!(claims(149, 0, &[0]), Ok(()));
    assert_eq!(claims(150, 7, &[25 * COIN, 7]), Ok(()));
    assert_eq!(claims(150, 7, &[25 * COIN + 1, 7]), too_much);
}
