use godwit_primitives::Txid;
use godwit_store::{BlockPosition, UndoPosition};
use proptest::prelude::*;

use super::*;

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut out: DataStream = DataStream::new();
    out.put(value);
    out.as_slice().to_vec()
}

fn header() -> BlockHeader {
    godwit_primitives::Params::new(godwit_primitives::Network::Regtest).genesis
}

fn block(status: BlockStatus, tx_count: u32, stored: bool, undo: bool) -> BlockRecord {
    let position = BlockPosition { file: 3, offset: 300, len: 285 };
    let undo_position = UndoPosition { file: 3, offset: 20_000, len: 1 };
    BlockRecord {
        header: header(),
        height: 200,
        status,
        tx_count,
        sequence: 9,
        position: stored.then_some(position),
        checksum: None,
        undo: undo.then_some(undo_position),
    }
}

/// `CBlockIndex::nStatus` by how far a block has come in godwit.
#[test]
fn status_is_that_of_core() {
    let status = |block: &BlockRecord, segwit| IndexRecord::new(block, segwit).unwrap().status;
    let (header, structured, scripts) =
        (BlockStatus::HEADER, BlockStatus::STRUCTURED, BlockStatus::SCRIPTS);
    assert_eq!(status(&block(header, 0, false, false), true), 2);
    assert_eq!(status(&block(header | BlockStatus::FAILED, 0, false, false), true), 2 | 32);
    assert_eq!(status(&block(structured, 1, true, false), true), 3 | 8 | 128);
    assert_eq!(status(&block(structured, 1, true, false), false), 3 | 8);
    assert_eq!(status(&block(scripts, 1, true, true), true), 5 | 8 | 16 | 128);
    assert_eq!(
        status(&block(scripts | BlockStatus::FAILED, 1, true, true), true),
        5 | 8 | 16 | 160
    );
    // Pruned: Core has no undo data without the block.
    assert_eq!(status(&block(scripts, 1, false, false), true), 5 | 128);
    assert_eq!(status(&block(scripts, 1, false, true), true), 5 | 128);
}

#[test]
fn positions_beyond_32_bits_are_told() {
    let mut far = block(BlockStatus::SCRIPTS, 1, true, true);
    let at = |offset| Some(UndoPosition { file: 3, offset, len: 1 });
    far.undo = at(u32::MAX.into());
    assert_eq!(IndexRecord::new(&far, true).unwrap().undo_pos, u32::MAX);
    far.undo = at(u64::from(u32::MAX) + 1);
    assert_eq!(IndexRecord::new(&far, true), Err(BeyondReach));
}

#[test]
fn fields_that_are_not_there_take_no_bytes() {
    let len = |tx_count, stored, undo| {
        let status = if tx_count > 0 { BlockStatus::SCRIPTS } else { BlockStatus::HEADER };
        encoded(&IndexRecord::new(&block(status, tx_count, stored, undo), false).unwrap()).len()
    };
    // Version 3, height 2, status 1, transactions 1, header 80.
    assert_eq!(len(0, false, false), 87);
    // File 1, place 2.
    assert_eq!(len(1, true, false), 87 + 3);
    // Place 3.
    assert_eq!(len(1, true, true), 87 + 6);
}

#[test]
fn a_file_counts_its_blocks() {
    let mut info = FileInfo::default();
    assert_eq!(encoded(&info), [0; 7]);
    info.add(7, 1_000);
    assert_eq!((info.blocks, info.heights, info.times), (1, (7, 7), (1_000, 1_000)));
    info.add(0, 2_000);
    info.add(9, 500);
    assert_eq!((info.blocks, info.heights, info.times), (3, (0, 9), (500, 2_000)));
}

#[test]
fn keys_are_those_of_core() {
    let hash = BlockHash::from_bytes([7; 32]);
    assert_eq!(block_key(&hash).as_slice(), [&b"b"[..], &[7; 32]].concat());
    assert_eq!(file_key(258), [b'f', 2, 1, 0, 0]);
    assert_eq!(flag_key(PRUNED_FLAG), b"F\x10prunedblockfiles");
    assert_eq!(OBFUSCATION_KEY.len(), 15);
    let value = obfuscation_value([1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(value, [8, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(obfuscation_of(&value), Some([1, 2, 3, 4, 5, 6, 7, 8]));
    assert_eq!(obfuscation_of(&value[..8]), None);
    assert_eq!(obfuscation_of(&[7; 9]), None);
}

proptest! {
    #[test]
    fn a_coins_key_names_its_outpoint(txid: [u8; 32], vout: u32) {
        let outpoint = OutPoint { txid: Txid::from_bytes(txid), vout };
        let mut key = DataStream::new();
        coin_key(&outpoint, &mut key);
        prop_assert_eq!(key.as_slice()[0], b'C');
        prop_assert_eq!(outpoint_of(key.as_slice()), Ok(outpoint));
    }

    #[test]
    fn any_bytes_are_an_outpoint_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
        if let Ok(outpoint) = outpoint_of(&bytes) {
            let mut key = DataStream::new();
            coin_key(&outpoint, &mut key);
            prop_assert_eq!(&key.as_slice()[1..], &bytes[1..]);
        }
    }
}
