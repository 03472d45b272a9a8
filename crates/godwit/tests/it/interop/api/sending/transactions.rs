//! Transactions that spend outputs which anybody can spend.

use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut, Txid};
use godwit_stream::{DataStream, Encode};
use serde_json::{Value, json};

/// OP_TRUE, and the output that pays to its hash.
pub(super) const TRUE: [u8; 1] = [0x51];
pub(super) fn to_true() -> Vec<u8> {
    [&[0, 32][..], &godwit_primitives::sha256::sha256(&TRUE)].concat()
}

/// Satoshi of a block's reward, but for its fees: those of the first 150 blocks of regtest.
const REWARD: i64 = 5_000_000_000;

/// An output that can be spent, and its value.
#[derive(Clone, Copy)]
pub(super) struct CoinHere {
    pub(super) outpoint: OutPoint,
    pub(super) value: i64,
}

/// Coins of the chain that were not used.
pub(super) struct Coins {
    pub(super) address: String,
    /// The oldest first; those of the last hundred blocks cannot be spent.
    all: Vec<CoinHere>,
    used: usize,
}

impl Coins {
    pub(super) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), all: Vec::new(), used: 0 }
    }

    pub(super) fn add(&mut self, coinbase: &str) {
        let txid: Txid = coinbase.parse().expect("a txid");
        let outpoint = OutPoint { txid, vout: 0 };
        self.all.push(CoinHere { outpoint, value: REWARD });
    }

    pub(super) fn take(&mut self) -> CoinHere {
        let coin = self.all[self.used];
        self.used += 1;
        assert!(self.used + 99 <= self.all.len(), "a hundred blocks above it");
        coin
    }

    /// One that is not spendable yet.
    pub(super) fn young(&self) -> CoinHere {
        *self.all.last().expect("coins")
    }
}

/// A transaction that is put together.
#[derive(Clone)]
pub(super) struct Tx(pub(super) Transaction);

impl Tx {
    /// With an input for the coin, and an output for all of it.
    pub(super) fn spending(coin: CoinHere) -> Self {
        let output = TxOut { value: coin.value, script_pubkey: to_true() };
        let tx =
            Transaction { version: 2, inputs: Vec::new(), outputs: vec![output], lock_time: 0 };
        Self(tx).with_input(coin)
    }

    pub(super) fn with_input(mut self, coin: CoinHere) -> Self {
        self.0.inputs.push(TxIn {
            prevout: coin.outpoint,
            script_sig: Vec::new(),
            sequence: 0xffff_fffd,
            witness: vec![TRUE.to_vec()],
        });
        self
    }

    /// The first output leaves so much to the miner.
    pub(super) fn paying(mut self, fee: i64) -> Self {
        self.0.outputs[0].value -= fee;
        self
    }

    /// Another output, which takes its value from the first.
    pub(super) fn with_output(mut self, value: i64, script: &[u8]) -> Self {
        self.0.outputs[0].value -= value;
        self.0.outputs.push(TxOut { value, script_pubkey: script.to_vec() });
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Transaction)) -> Self {
        change(&mut self.0);
        self
    }

    pub(super) fn output(&self, n: usize) -> CoinHere {
        let outpoint = OutPoint { txid: self.0.txid(), vout: n as u32 };
        CoinHere { outpoint, value: self.0.outputs[n].value }
    }

    pub(super) fn hex(&self) -> String {
        let mut out: DataStream = DataStream::new();
        self.0.encode(&mut out);
        out.as_slice().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn txid(&self) -> Value {
        json!(self.0.txid().to_string())
    }
}
