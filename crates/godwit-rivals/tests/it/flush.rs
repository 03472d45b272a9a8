use godwit_rivals::flush::leveldb::LevelDb;
use godwit_rivals::flush::{CoinRecord, CoinSink, coin_sinks};

const TIP: [u8; 32] = [0xab; 32];

/// Distinct outpoints in no order, and coins of 56-byte scripts as the benchmark has them.
fn coins(count: u32) -> impl Iterator<Item = CoinRecord<'static>> {
    static COIN: [u8; 66] = [0x5a; 66];
    (0..count).map(|i| {
        let mut outpoint = [0; 36];
        outpoint[..4].copy_from_slice(&i.wrapping_mul(0x9e37_79b1).to_be_bytes());
        outpoint[32..].copy_from_slice(&(i % 1000).to_le_bytes());
        CoinRecord { outpoint, coin: &COIN[..60 + i as usize % 6] }
    })
}

fn assert_stores(sink: &dyn CoinSink, count: u32) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().join("store");
    sink.flush(&dir, &mut coins(count), TIP).expect("it takes the coins");
    assert_eq!(sink.count(&dir).expect("it opens"), u64::from(count), "{}", sink.name());
    assert_eq!(sink.tip(&dir).expect("it opens"), Some(TIP), "{}", sink.name());
    // What was there is gone.
    sink.flush(&dir, &mut coins(7), [1; 32]).expect("it takes them again");
    assert_eq!(sink.count(&dir).expect("it opens"), 7, "{}", sink.name());
    assert_eq!(sink.tip(&dir).expect("it opens"), Some([1; 32]), "{}", sink.name());
    sink.flush(&dir, &mut coins(0), TIP).expect("no coins are fine too");
    assert_eq!(sink.count(&dir).expect("it opens"), 0, "{}", sink.name());
}

#[test]
fn every_store_keeps_every_coin() {
    for sink in coin_sinks() {
        assert_stores(sink.as_ref(), 50_000);
    }
}

#[test]
fn leveldb_keeps_coins_over_many_batches() {
    let small = LevelDb { batch_bytes: 64 << 10, ..LevelDb::default() };
    assert_stores(&small, 50_000);
}
