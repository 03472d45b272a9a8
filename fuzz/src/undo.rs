//! Undo data of a block: read as they would be from a file, and the same again when they are written.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use godwit_primitives::sha256::sha256d;
use godwit_primitives::{BlockHash, Coin, ScriptBytes, money_range};
use godwit_store::error::NetworkId;
use godwit_store::{BLOCK_BUFFERS, Rebuild, Store, StoreOptions, UndoPosition};
use godwit_stream::DataStream;

use crate::disk::OneFileDisk;
use crate::input::Input;
use crate::memory::within;

const MAGIC: [u8; 4] = *b"undo";
const PREV: BlockHash = BlockHash::from_bytes([7; 32]);

/// Magic and length, before the undo data.
const FRAME: usize = 8;

/// Bytes that reading holds for each byte of the record: a coin of three bytes takes 72, and three times
/// as many while the vector grows.
const FACTOR: usize = 96;

/// One open store, whose undo file is what each input says.
static STORE: LazyLock<(Store, OneFileDisk)> = LazyLock::new(|| {
    let disk = OneFileDisk::new(Path::new("/data/blocks/rev00000.dat"));
    let options = StoreOptions {
        dir: PathBuf::from("/data"),
        network: NetworkId { magic: MAGIC, genesis: [0; 32] },
        new_hash_key: [0; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    let (store, _) = Store::open(Arc::new(disk.clone()), options).expect("an empty disk");
    (store, disk)
});

/// Whether the checksum is mended; then the undo data, with their checksum unless it is mended.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let mends = input.u8() & 1 != 0;
    let mut record = input.rest().to_vec();
    if mends {
        let checksum = sha256d(&[PREV.as_bytes(), &record[..]].concat());
        record.extend(checksum);
    }
    let Some(len) = record.len().checked_sub(32) else { return };
    let (data, checksum) = record.split_at(len);
    let (store, disk) = &*STORE;
    disk.set([&[0; FRAME][..], &record].concat());
    let position = UndoPosition { file: 0, offset: FRAME as u64, len: len as u32 };
    let read = within(4_096 + FACTOR * record.len(), || store.read_undo(position, &PREV));
    let Ok(undo) = read else { return };
    assert_eq!(sha256d(&[PREV.as_bytes(), data].concat()), checksum, "it was not checked");
    let coins: Vec<&Coin> = undo.transactions().flatten().collect();
    assert_eq!(coins, undo.coins().iter().collect::<Vec<_>>());
    // Of other amounts the short form is not unique, as in Core.
    if undo.coins().iter().all(|coin| money_range(coin.value)) {
        let transactions: Vec<&[Coin]> = undo.transactions().collect();
        let again = encoded(&transactions);
        let checksum = sha256d(&[PREV.as_bytes(), &again[..]].concat());
        disk.set([&[0; FRAME][..], &again, &checksum].concat());
        let position = UndoPosition { len: again.len() as u32, ..position };
        assert_eq!(store.read_undo(position, &PREV).expect("it was just written"), undo);
    }
}

/// Core's `CBlockUndo`.
fn encoded(transactions: &[&[Coin]]) -> Vec<u8> {
    let mut out = DataStream::new();
    out.write_compact_size(transactions.len() as u64);
    for coins in transactions {
        out.write_compact_size(coins.len() as u64);
        coins.iter().for_each(|coin| coin.encode_undo(&mut out));
    }
    out.as_slice().to_vec()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let coin = |value, script: &[u8], height, coinbase| Coin {
        value,
        script_pubkey: ScriptBytes::from_slice(script),
        height,
        coinbase,
    };
    let p2pkh = [&[0x76, 0xa9, 20][..], &[5; 20], &[0x88, 0xac]].concat();
    let p2sh = [&[0xa9, 20][..], &[6; 20], &[0x87]].concat();
    let p2pk = [&[33, 2][..], &[0x11; 32], &[0xac]].concat();
    let p2tr = [&[0x51, 32][..], &[7; 32]].concat();
    let first = [coin(5_000_000_000, &p2pk, 1, true), coin(546, &p2pkh, 800_000, false)];
    let second = [coin(0, &p2sh, 0, false), coin(1, &p2tr, 300, false), coin(7, &[], 9, true)];
    let data = &encoded(&[&first[..], &second])[..];
    // A key of 65 bytes: its x alone is written.
    let uncompressed = [&[1, 1, 0, 4][..], &[0x79, 0xbe, 0x66, 0x7e], &[0x11; 28]].concat();
    let checksum = sha256d(&[PREV.as_bytes(), data].concat());
    let mended = [&[1][..], data].concat();
    let unmended = [&[0][..], data, &checksum].concat();
    vec![mended, unmended, [&[1, 1][..], &uncompressed].concat(), vec![1, 0]]
}
