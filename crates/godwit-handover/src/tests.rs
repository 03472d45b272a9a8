//! Core's own library makes a data directory, and what it writes there is what this crate would.

use std::collections::BTreeMap;
use std::path::Path;

use bitcoinkernel::{Block, ChainType, ChainstateManager, ContextBuilder};
use godwit_primitives::{BlockHeader, Coin, Network, OutPoint, Params, Txid};
use godwit_sim::chain::generate;
use godwit_sim::plan::ChainPlan;
use godwit_sim::reference::ReferenceUtxo;
use godwit_store::{BlockPosition, BlockRecord, BlockStatus, UndoPosition};
use godwit_stream::{DataStream, Encode, Obfuscation, SpanReader};

use crate::leveldb::Database;
use crate::record::{
    BEST_BLOCK, COIN, FileInfo, IndexRecord, LAST_FILE, OBFUSCATION_KEY, PRUNED_FLAG, block_key,
    coin_key, file_key, flag_key, obfuscation_of,
};

/// Magic and length before a block or an undo record.
const FRAME: u32 = 8;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut out: DataStream = DataStream::new();
    out.put(value);
    out.as_slice().to_vec()
}

fn records(dir: &Path) -> Records {
    let db = Database::open(dir).unwrap();
    let (mut cursor, mut records) = (db.seek(&[]), Records::new());
    while let Some((key, value)) = cursor.entry().unwrap() {
        records.insert(key.to_vec(), value.to_vec());
        cursor.step();
    }
    records
}

/// The last number of a record before the header: where its undo data are.
fn undo_pos_of(record: &[u8]) -> u64 {
    let mut reader = SpanReader::new(record);
    let numbers: Vec<u64> = (0..7).map(|_| reader.var_int().unwrap()).collect();
    numbers[6]
}

#[test]
fn index_and_coins_are_those_that_core_writes() {
    let (mut blocks, mut utxo) = (Vec::new(), ReferenceUtxo::new());
    generate(&ChainPlan::small(1), |block| {
        utxo.connect(block.bytes, block.height).unwrap();
        blocks.push(block.bytes.to_vec());
        Ok(())
    })
    .unwrap();
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("blocks");
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    {
        let context = ContextBuilder::new().chain_type(ChainType::Regtest).build().unwrap();
        let core = ChainstateManager::new(&context, &path(temp.path()), &path(&dir)).unwrap();
        for block in &blocks {
            assert!(core.process_block(&Block::new(block).unwrap()).is_new_block());
        }
        assert_eq!(core.active_chain().height() as usize, blocks.len());
    }
    check_index(&mut records(&dir.join("index")), &blocks);
    check_coins(&mut records(&temp.path().join("chainstate")), &utxo, blocks.last().unwrap());
}

/// Takes out what is as expected, and nothing is left.
fn check_index(found: &mut Records, blocks: &[Vec<u8>]) {
    let params = Params::new(Network::Regtest);
    let (mut info, mut undo_end) = (FileInfo::default(), 0);
    let genesis = params.genesis_block();
    let record = IndexRecord::genesis(params.genesis, true, 0, FRAME);
    assert_eq!(found.remove(block_key(&params.genesis_hash).as_slice()), Some(encoded(&record)));
    info.add(0, params.genesis.time);
    info.size = FRAME + genesis.len() as u32;
    for (height, block) in (1..).zip(blocks) {
        let header: BlockHeader = SpanReader::new(block).get().unwrap();
        let value = found.remove(block_key(&header.block_hash()).as_slice()).unwrap();
        let (offset, len) = (info.size + FRAME, block.len() as u32);
        let record = BlockRecord {
            header,
            height,
            status: BlockStatus::SCRIPTS,
            tx_count: transactions(&block[80..]),
            sequence: 0,
            position: Some(BlockPosition { file: 0, offset, len }),
            checksum: None,
            undo: Some(UndoPosition { file: 0, offset: undo_pos_of(&value), len: 1 }),
        };
        assert_eq!(value, encoded(&IndexRecord::new(&record, true).unwrap()), "height {height}");
        assert!(undo_pos_of(&value) > undo_end, "in the order of heights");
        undo_end = undo_pos_of(&value);
        info.add(height, header.time);
        info.size += FRAME + len;
    }
    let value = found.remove(file_key(0).as_slice()).unwrap();
    let mut reader = SpanReader::new(&value);
    reader.var_int().unwrap();
    reader.var_int().unwrap();
    info.undo_size = reader.var_int_u32().unwrap();
    assert!(u64::from(info.undo_size) > undo_end);
    assert_eq!(value, encoded(&info));
    assert_eq!(found.remove(LAST_FILE), Some(vec![0; 4]));
    // Core writes the flag when it prunes first, and takes none for no.
    assert_eq!(found.remove(flag_key(PRUNED_FLAG).as_slice()), None);
    assert!(found.is_empty(), "{found:?}");
}

/// The compact size in front of a block's transactions.
fn transactions(bytes: &[u8]) -> u32 {
    let mut reader = SpanReader::new(bytes);
    u32::try_from(reader.compact_size_any().unwrap()).unwrap()
}

fn check_coins(found: &mut Records, utxo: &ReferenceUtxo, tip: &[u8]) {
    let key = found.remove(OBFUSCATION_KEY).unwrap();
    let obfuscation = Obfuscation::new(obfuscation_of(&key).unwrap());
    assert_ne!(obfuscation, Obfuscation::NONE);
    found.values_mut().for_each(|value| obfuscation.apply(value, 0));
    let tip: BlockHeader = SpanReader::new(tip).get().unwrap();
    assert_eq!(found.remove(BEST_BLOCK), Some(tip.block_hash().to_bytes().to_vec()));
    let mut key = DataStream::new();
    for ((txid, vout), coin) in utxo.iter() {
        let outpoint = OutPoint { txid: Txid::from_bytes(*txid), vout: *vout };
        coin_key(&outpoint, &mut key);
        let coin = Coin {
            value: coin.value as i64,
            script_pubkey: coin.script_pubkey.clone().into(),
            height: coin.height,
            coinbase: coin.coinbase,
        };
        assert_eq!(found.remove(key.as_slice()), Some(encoded(&coin)), "{outpoint:?}");
    }
    assert!(found.keys().all(|key| key[0] != COIN), "coins that nobody has: {}", found.len());
    assert!(found.is_empty(), "{found:?}");
}
