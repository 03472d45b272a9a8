//! Transactions that own their parts, for what outlives a buffer or is built.

use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

use crate::sha256::sha256d;
use crate::tx_view::MIN_TX_SIZE;
use crate::{Amount, OutPoint, TxView, Txid, Wtxid};

/// A transaction. [`TxView`] describes the wire form: with witness when any input has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Version; from 2 on, relative lock times apply (BIP68).
    pub version: u32,
    /// What it spends.
    pub inputs: Vec<TxIn>,
    /// What it creates.
    pub outputs: Vec<TxOut>,
    /// A height below 500,000,000, else seconds since 1970.
    pub lock_time: u32,
}

/// A transaction input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxIn {
    /// The coin that it spends.
    pub prevout: OutPoint,
    /// The unlocking script.
    pub script_sig: Vec<u8>,
    /// Relative lock time and replacement signal (BIP68, BIP125).
    pub sequence: u32,
    /// Stack elements from the bottom; empty without witness.
    pub witness: Vec<Vec<u8>>,
}

/// A transaction output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxOut {
    /// Satoshi.
    pub value: Amount,
    /// The locking script.
    pub script_pubkey: Vec<u8>,
}

impl Transaction {
    /// Whether any input has a witness.
    pub fn has_witness(&self) -> bool {
        self.inputs.iter().any(|input| !input.witness.is_empty())
    }

    /// Whether the only input spends nothing: the first transaction of a block.
    pub fn is_coinbase(&self) -> bool {
        matches!(&self.inputs[..], [input] if input.prevout.is_null())
    }

    /// Appends the form without witness.
    pub fn encode_stripped<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.version);
        self.encode_inputs_and_outputs(out);
        out.put(&self.lock_time);
    }

    /// Double SHA-256 without witness.
    pub fn txid(&self) -> Txid {
        let mut bytes = DataStream::new();
        self.encode_stripped(&mut bytes);
        Txid::from_bytes(sha256d(bytes.as_slice()))
    }

    /// Double SHA-256 with witness (BIP141); equals the txid when there is none.
    pub fn wtxid(&self) -> Wtxid {
        let mut bytes = DataStream::new();
        self.encode(&mut bytes);
        Wtxid::from_bytes(sha256d(bytes.as_slice()))
    }

    fn encode_inputs_and_outputs<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.inputs);
        out.put(&self.outputs);
    }
}

impl Encode for Transaction {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        if !self.has_witness() {
            return self.encode_stripped(out);
        }
        out.put(&self.version);
        out.write(&[0, 1]);
        self.encode_inputs_and_outputs(out);
        for input in &self.inputs {
            out.put(&input.witness);
        }
        out.put(&self.lock_time);
    }
}

impl Decode for Transaction {
    const MIN_ENCODED_LEN: usize = MIN_TX_SIZE;

    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let view = TxView::parse(reader.rest())?;
        reader.skip(view.total_size())?;
        Ok(view.to_owned())
    }
}

/// Without witness, which the transaction carries apart from its inputs.
impl Encode for TxIn {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.prevout);
        out.put(&self.script_sig);
        out.put(&self.sequence);
    }
}

impl Encode for TxOut {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.value);
        out.put(&self.script_pubkey);
    }
}

impl Decode for TxOut {
    const MIN_ENCODED_LEN: usize = 9;

    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { value: reader.i64()?, script_pubkey: reader.get()? })
    }
}
