use godwit_stream::DataStream;

use super::*;

const HASHER: [u8; 16] = [7; 16];

/// What a page is that was never written, or a file that got its length back.
#[test]
fn c5_zeros_in_place_of_a_block_are_no_block() {
    let hash = BlockHash::from_bytes([5; 32]);
    for len in [81, 82, 4096] {
        for witnesses in [WitnessCheck::Skip, WitnessCheck::BeforeSegwit, WitnessCheck::Segwit] {
            let zeros = PooledStream::from(DataStream::from(&vec![0; len][..]));
            let hasher = UtxoHasher::new(HASHER);
            let read = Structured::from_own_file(zeros, hash, witnesses, &hasher);
            assert!(read.is_none(), "{len} zeros, {witnesses:?}");
        }
    }
}
