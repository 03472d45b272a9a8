use ethnum::U256;
use godwit_primitives::network::Network;

use super::*;

/// Work of regtest's easiest target: two hashes a block.
const BITS: u32 = 0x207f_ffff;

/// A block of height 10 below `blocks` more in the best chain.
fn below(blocks: u32) -> ScriptCheckContext {
    ScriptCheckContext {
        height: 10,
        chain_work: U256::new(22),
        in_best_chain: true,
        best_chain_work: U256::new(22 + 2 * u128::from(blocks)),
        best_bits: BITS,
    }
}

const ASSUMED: AssumedBlock = AssumedBlock::Known { height: 20, descends: true };

fn reason(
    assumed: AssumedBlock,
    block: &ScriptCheckContext,
    minimum: u128,
) -> Option<ScriptCheckReason> {
    script_check_reason(assumed, block, U256::new(minimum), &Params::new(Network::Regtest))
}

#[test]
fn more_than_two_weeks_of_blocks_above_are_needed() {
    assert_eq!(reason(ASSUMED, &below(2_016), 0), Some(ScriptCheckReason::TooRecent));
    assert_eq!(reason(ASSUMED, &below(2_017), 0), None);
}

#[test]
fn each_condition_in_core_order() {
    use ScriptCheckReason::*;
    let block = below(3_000);
    let apart = ScriptCheckContext { in_best_chain: false, ..block };
    let known = |height| AssumedBlock::Known { height, descends: false };
    assert_eq!(reason(AssumedBlock::None, &apart, u128::MAX), Some(AlwaysVerify));
    assert_eq!(reason(AssumedBlock::Unknown, &apart, u128::MAX), Some(NotInHeaders));
    assert_eq!(reason(known(9), &apart, u128::MAX), Some(AboveAssumedHeight));
    assert_eq!(reason(known(10), &apart, u128::MAX), Some(NotInAssumedChain));
    assert_eq!(reason(ASSUMED, &apart, u128::MAX), Some(NotInBestHeaderChain));
    assert_eq!(reason(ASSUMED, &block, u128::MAX), Some(BestHeaderLowWork));
    assert_eq!(reason(ASSUMED, &block, 6_022), None);
    assert_eq!(reason(ASSUMED, &block, 6_023), Some(BestHeaderLowWork));
}

#[test]
fn the_words_are_those_of_core() {
    let text = ScriptCheckReason::NotInHeaders.to_string();
    assert_eq!(text, "assumevalid hash not in headers");
}
