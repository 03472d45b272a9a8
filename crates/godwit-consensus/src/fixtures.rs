//! Transactions and blocks that unit tests build.

use godwit_primitives::merkle::{merkle_root, witness_merkle_root};
use godwit_primitives::network::{Network, Params};
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{
    Amount, Block, BlockHash, BlockHeader, COIN, Coin, CoinView, MerkleRoot, OutPoint, Transaction,
    TxIn, TxOut, TxView, Txid,
};
use godwit_stream::DataStream;

use crate::pow::check_proof_of_work;
use crate::script::HeightPush;

pub(crate) fn regtest() -> Params {
    Params::new(Network::Regtest)
}

pub(crate) fn outpoint(n: u32) -> OutPoint {
    let mut bytes = [0x11; 32];
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    OutPoint { txid: Txid::from_bytes(bytes), vout: n % 3 }
}

pub(crate) fn input(n: u32) -> TxIn {
    TxIn { prevout: outpoint(n), script_sig: vec![], sequence: 0xffff_ffff, witness: vec![] }
}

pub(crate) fn output(value: Amount) -> TxOut {
    TxOut { value, script_pubkey: vec![0x51] }
}

/// One input that spends `outpoint(1)`, one output of one bitcoin.
pub(crate) fn spend() -> Transaction {
    Transaction { version: 2, inputs: vec![input(1)], outputs: vec![output(COIN)], lock_time: 0 }
}

pub(crate) fn coinbase(height: u32) -> Transaction {
    let mut script_sig = HeightPush::new(height).as_slice().to_vec();
    script_sig.extend([0x51, 0x51]);
    let input =
        TxIn { prevout: OutPoint::NULL, script_sig, sequence: 0xffff_ffff, witness: vec![] };
    Transaction { version: 1, inputs: vec![input], outputs: vec![output(50 * COIN)], lock_time: 0 }
}

pub(crate) fn coin(value: Amount, height: u32) -> Coin {
    coin_of(value, height, &[0x51])
}

pub(crate) fn coin_of(value: Amount, height: u32, script: &[u8]) -> Coin {
    Coin { value, script_pubkey: script.iter().copied().collect(), height, coinbase: false }
}

pub(crate) fn views(coins: &[Coin]) -> Vec<CoinView<'_>> {
    coins.iter().map(CoinView::from).collect()
}

pub(crate) fn bytes(tx: &Transaction) -> Vec<u8> {
    let mut stream: DataStream = DataStream::new();
    stream.put(tx);
    stream.as_slice().to_vec()
}

/// Passes the view of `tx` to `f`.
pub(crate) fn with_view<R>(tx: &Transaction, f: impl FnOnce(TxView<'_>) -> R) -> R {
    f(TxView::parse(&bytes(tx)).expect("an encoded transaction parses"))
}

/// A commitment output over `txs` as they are, for a reserved value of zeros (BIP141).
pub(crate) fn commitment(txs: &[Transaction]) -> TxOut {
    let root = witness_merkle_root(txs[1..].iter().map(|tx| tx.wtxid().to_bytes()));
    let mut preimage = root.to_vec();
    preimage.extend([0; 32]);
    let mut script_pubkey = vec![0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
    script_pubkey.extend(sha256d(&preimage));
    TxOut { value: 0, script_pubkey }
}

/// Raises the nonce until the hash meets the header's target. Only for regtest.
pub(crate) fn mine(header: &mut BlockHeader, params: &Params) {
    while !check_proof_of_work(&header.block_hash(), header.bits, params) {
        header.nonce += 1;
    }
}

pub(crate) fn block_bytes(header: &BlockHeader, txs: &[Transaction]) -> Vec<u8> {
    let mut stream: DataStream = DataStream::new();
    stream.put(header);
    stream.write_compact_size(txs.len() as u64);
    txs.iter().for_each(|tx| stream.put(tx));
    stream.as_slice().to_vec()
}

pub(crate) fn block_of(header: &BlockHeader, txs: &[Transaction]) -> Block {
    Block::from_bytes(&block_bytes(header, txs)).expect("an encoded block decodes")
}

/// A mined regtest block of `txs`, whose merkle root is right.
pub(crate) fn mined(txs: &[Transaction]) -> Block {
    let (root, _) = merkle_root(txs.iter().map(|tx| tx.txid().to_bytes()));
    mined_with_root(MerkleRoot::from_bytes(root), txs)
}

pub(crate) fn mined_with_root(merkle_root: MerkleRoot, txs: &[Transaction]) -> Block {
    let params = regtest();
    let mut header = BlockHeader {
        version: 0x2000_0000,
        prev_blockhash: BlockHash::ZERO,
        merkle_root,
        time: 1_300_000_000,
        bits: 0x207f_ffff,
        nonce: 0,
    };
    mine(&mut header, &params);
    block_of(&header, txs)
}
