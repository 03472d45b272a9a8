use godwit_rivals::decode::{decode_subjects, tx_counts, txids};
use godwit_rivals::fallback_block;

use crate::assert_runs;

#[test]
fn decoders_agree_on_the_fallback_block() {
    assert_agree(fallback_block(), 2500);
}

#[test]
fn decoders_agree_on_the_pull_requests_block() {
    let path = "blocks/mainnet_413567.blk.zst";
    let Some(block) = godwit_testdata::shared_file(path) else { return };
    assert_agree(&block, 1557);
}

fn assert_agree(block: &[u8], txs: usize) {
    assert_eq!(tx_counts(block), [txs; 3]);
    let [core, owned, slices] = txids(block);
    assert_eq!(core.len(), txs);
    assert_eq!(core, owned);
    assert_eq!(core, slices);
    assert_runs(decode_subjects(block));
}

/// The check really checks: with the header's merkle root changed, Core refuses the block.
#[test]
#[should_panic(expected = "not valid to Core")]
fn a_block_that_core_refuses_does_not_pass() {
    let mut block = fallback_block().to_vec();
    block[36] ^= 1;
    for mut subject in decode_subjects(&block) {
        (subject.body)();
    }
}
