//! Decodes received bytes, and checks every rule that needs no other block.
//!
//! Runs on workers, before the block's place in the chain is known. Everything that costs time and
//! depends on the block alone happens here, once: decoding, hashing, the structural rules, and the
//! keyed hashes by which the coins store finds coins.

mod inside;

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use godwit_consensus::{
    PlaceFacts, Reject, SignetSpend, TxFacts, check_and_sum_up_block, check_witnesses,
    is_time_locked,
};
use godwit_primitives::coin::is_unspendable;
use godwit_primitives::network::Params;
use godwit_primitives::{Block, BlockHash, BlockHeader, BlockView};
use godwit_script::ScriptError;
use godwit_store::utxo::{CompressedCoins, HashedOutPoint, OutputEncoder, UtxoHasher};
use godwit_stream::{BufferPool, PooledStream};

use crate::permits::Permit;
use crate::signet::check_solution;
use inside::OwnOutputs;

/// A block that decodes and keeps the structural rules (Core `CheckBlock`), with all that the coins store
/// has to know of it: what is left to do there is to look up keys and to copy bytes.
///
/// Inputs are numbered over all transactions but the coinbase, outputs over all transactions.
pub struct Structured {
    block: Block,
    /// Coins that it spends and does not create, in the order of its inputs.
    spends: Vec<HashedOutPoint>,
    /// Inputs that spend outputs of earlier transactions of the block, in order.
    inside: Vec<Inside>,
    /// For each transaction the number of its first input, and the end after the last one.
    first_inputs: Vec<u32>,
    /// Inputs that are locked until some time after their coins were created (BIP68).
    time_locked: Vec<u32>,
    /// Keys of all outputs, in their order.
    creates: Vec<HashedOutPoint>,
    /// Each output as it is stored; absent, if it cannot be spent.
    outputs: CompressedCoins,
    /// Numbers of the outputs that become coins: they can be spent, and the block itself does not.
    created: Vec<u32>,
    /// Outputs of the coinbase.
    coinbase_outputs: usize,
    tx_facts: OnceLock<Vec<TxFacts>>,
    place_facts: OnceLock<PlaceFacts>,
    /// Holds the reader's byte budget until the block leaves memory.
    permit: Option<Permit>,
}

/// An input that spends an output of an earlier transaction of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) input: u32,
    pub(crate) output: u32,
}

/// How to check the witnesses of a block from godwit's own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WitnessCheck {
    /// Not at all: the block was verified before, and its scripts do not run.
    Skip,
    /// By the rules from before BIP141.
    BeforeSegwit,
    /// By those of BIP141.
    Segwit,
}

impl Structured {
    fn new(block: Block, hasher: &UtxoHasher, permit: Option<Permit>) -> Self {
        let view = block.view();
        let inputs = view.txs().skip(1).map(|tx| tx.input_count()).sum();
        let outputs = view.txs().map(|tx| tx.output_count()).sum();
        let mut keys = Keys {
            spends: Vec::with_capacity(inputs),
            inside: Vec::new(),
            first_inputs: Vec::with_capacity(view.tx_count() + 1),
            time_locked: Vec::new(),
            creates: Vec::with_capacity(outputs),
            outputs: CompressedCoins::with_capacity(outputs),
            own: OwnOutputs::new(outputs),
        };
        let (mut encoder, mut input) = (OutputEncoder::default(), 0);
        for (n, tx) in view.txs().enumerate() {
            keys.first_inputs.push(input);
            if n > 0 {
                let version = tx.version();
                for spent in tx.inputs() {
                    keys.add_input(input, hasher.hash(spent.prevout));
                    if is_time_locked(version, spent.sequence) {
                        keys.time_locked.push(input);
                    }
                    input += 1;
                }
            }
            let hashed = hasher.outputs(tx.txid());
            for (vout, output) in (0..).zip(tx.outputs()) {
                keys.creates.push(hashed(vout));
                if is_unspendable(output.script_pubkey) {
                    keys.outputs.push_absent();
                } else {
                    encoder.push(output.value, output.script_pubkey, &mut keys.outputs);
                }
            }
            keys.own.add_created(&keys.creates, &keys.outputs);
        }
        keys.first_inputs.push(input);
        let Keys { spends, inside, first_inputs, time_locked, creates, outputs, own } = keys;
        let coinbase_outputs = view.tx(0).output_count();
        let (created, tx_facts, place_facts) = (own.left(), OnceLock::new(), OnceLock::new());
        Self {
            block,
            spends,
            inside,
            first_inputs,
            time_locked,
            creates,
            outputs,
            created,
            coinbase_outputs,
            tx_facts,
            place_facts,
            permit,
        }
    }

    /// A block from godwit's own files. `None` if the bytes are not those of `hash` or the
    /// transactions not those of the header: the disk did not keep what was written.
    pub(crate) fn from_own_file(
        bytes: PooledStream,
        hash: BlockHash,
        witnesses: WitnessCheck,
        hasher: &UtxoHasher,
    ) -> Option<Self> {
        let block = Block::decode(bytes).ok()?;
        let (root, mutated) = godwit_primitives::merkle::merkle_root(
            block.view().txids().iter().map(|txid| txid.to_bytes()),
        );
        let header = block.header();
        let intact = block.hash() == hash && !mutated && root == header.merkle_root.to_bytes();
        // Zeros decode as a block too, which has no coinbase whose witness could be looked at.
        let witnesses = || match witnesses {
            WitnessCheck::Skip => true,
            WitnessCheck::BeforeSegwit => check_witnesses(block.view(), false).is_ok(),
            WitnessCheck::Segwit => check_witnesses(block.view(), true).is_ok(),
        };
        (intact && witnesses()).then(|| Self::new(block, hasher, None))
    }

    /// Decodes and checks the bytes of the block once more.
    pub(crate) fn again(
        &self,
        params: &Params,
        hasher: &UtxoHasher,
        buffers: &BufferPool,
    ) -> Received {
        let bytes = self.view().bytes();
        let mut copy = buffers.take_for(bytes.len());
        copy.write(bytes);
        structure(copy, params, hasher, self.permit.clone())
    }

    /// The block's parts.
    pub fn view(&self) -> BlockView<'_> {
        self.block.view()
    }

    pub fn hash(&self) -> BlockHash {
        self.block.hash()
    }

    pub fn header(&self) -> &BlockHeader {
        self.block.header()
    }

    /// What the rules about its place ask of its transactions. The worker that decoded it has found that.
    pub(crate) fn place_facts(&self) -> &PlaceFacts {
        self.place_facts.get_or_init(|| PlaceFacts::of(self.view()))
    }

    /// What the rules over coins ask of each transaction by itself. The worker that checked it has found
    /// that.
    pub(crate) fn tx_facts(&self) -> &[TxFacts] {
        self.tx_facts.get_or_init(|| self.view().txs().map(TxFacts::of).collect())
    }

    /// Coins that it spends and does not create, in the order of its inputs.
    pub(crate) fn spends(&self) -> &[HashedOutPoint] {
        &self.spends
    }

    /// Inputs that spend outputs of earlier transactions of the block, in order.
    pub(crate) fn inside(&self) -> &[Inside] {
        &self.inside
    }

    /// For each transaction the number of its first input, and the end after the last one.
    pub(crate) fn first_inputs(&self) -> &[u32] {
        &self.first_inputs
    }

    /// Number of inputs, those of the coinbase aside.
    pub(crate) fn input_count(&self) -> usize {
        self.spends.len() + self.inside.len()
    }

    /// Number of inputs of each transaction behind the coinbase.
    pub(crate) fn spent_counts(&self) -> impl ExactSizeIterator<Item = usize> {
        self.first_inputs[1..].windows(2).map(|pair| (pair[1] - pair[0]) as usize)
    }

    /// Inputs that are locked until some time after their coins were created.
    pub(crate) fn time_locked(&self) -> &[u32] {
        &self.time_locked
    }

    pub(crate) fn creates(&self) -> &[HashedOutPoint] {
        &self.creates
    }

    /// Output `n` as it is stored, but for height and coinbase bit, if it can be spent; and whether it is one
    /// of the coinbase.
    pub(crate) fn output(&self, n: usize) -> (Option<&[u8]>, bool) {
        (self.outputs.get(n), n < self.coinbase_outputs)
    }

    /// Numbers of the outputs that become coins.
    pub(crate) fn created(&self) -> &[u32] {
        &self.created
    }

    /// Memory that the block takes: the buffer of its bytes, 12, a txid and its facts for each transaction,
    /// what the coins store has to know.
    pub(crate) fn memory(&self) -> usize {
        const TRANSACTION: usize = 12 + 32 + size_of::<TxFacts>();
        let keys = (self.spends.capacity() + self.creates.capacity()) * size_of::<HashedOutPoint>();
        let numbers = self.first_inputs.capacity() + self.time_locked.capacity();
        let numbers = (numbers + self.created.capacity()) * size_of::<u32>();
        self.block.buffer_capacity()
            + self.view().tx_count() * TRANSACTION
            + keys
            + numbers
            + self.inside.capacity() * size_of::<Inside>()
            + self.outputs.memory()
    }

    /// Whether it counts against a reader's byte budget.
    pub(crate) fn holds_permit(&self) -> bool {
        self.permit.is_some()
    }
}

/// What is gathered of a block's inputs and outputs.
struct Keys {
    spends: Vec<HashedOutPoint>,
    inside: Vec<Inside>,
    first_inputs: Vec<u32>,
    time_locked: Vec<u32>,
    creates: Vec<HashedOutPoint>,
    outputs: CompressedCoins,
    own: OwnOutputs,
}

impl Keys {
    #[inline]
    fn add_input(&mut self, input: u32, spent: HashedOutPoint) {
        match self.own.spend(&self.creates, &spent) {
            Some(output) => self.inside.push(Inside { input, output }),
            None => self.spends.push(spent),
        }
    }
}

/// What became of received bytes.
pub enum Received {
    /// They are no block.
    Undecodable,
    /// The script engine failed on a signet solution; nothing is known of the block.
    Unjudged(ScriptError),
    /// They are a block that breaks a structural rule.
    Malformed {
        /// Its header, which may be valid in its place.
        header: BlockHeader,
        hash: BlockHash,
        /// So many bytes are the block.
        len: usize,
        reject: Reject,
    },
    /// They are a block that keeps the structural rules.
    Structured(Arc<Structured>),
}

impl Received {
    /// Length of the block, where the bytes begin with one.
    pub(crate) fn block_len(&self) -> Option<usize> {
        match self {
            Self::Undecodable | Self::Unjudged(_) => None,
            Self::Malformed { len, .. } => Some(*len),
            Self::Structured(block) => Some(block.view().bytes().len()),
        }
    }
}

/// Decodes `bytes` and applies the structural rules. Bytes after the block are ignored, as Core
/// ignores them in its block files and in `submitblock`. `permit` is the share of its budget that an
/// import has taken for them.
pub fn structure(
    bytes: impl Into<PooledStream>,
    params: &Params,
    hasher: &UtxoHasher,
    permit: Option<Permit>,
) -> Received {
    let Ok(block) = Block::decode(bytes) else {
        return Received::Undecodable;
    };
    let checked = match check_alone(block.view(), params) {
        Ok(checked) => checked,
        Err(error) => return Received::Unjudged(error),
    };
    let tx_facts = match checked {
        Ok(tx_facts) => tx_facts,
        Err(reject) => {
            let (header, hash, len) = (*block.header(), block.hash(), block.block_len());
            return Received::Malformed { header, hash, len, reject };
        }
    };
    let mut block = Structured::new(block, hasher, permit);
    block.tx_facts = tx_facts.into();
    // Here, on a worker, and not where the block's place becomes known.
    block.place_facts();
    Received::Structured(Arc::new(block))
}

/// The structural rules (Core `CheckBlock`), and the facts of each transaction.
///
/// # Errors
///
/// The script engine failed on a signet solution.
pub(crate) fn check_alone(
    block: BlockView<'_>,
    params: &Params,
) -> Result<Result<Vec<TxFacts>, Reject>, ScriptError> {
    let engine = Cell::new(None);
    let solution = |spend: &SignetSpend<'_>| {
        check_solution(spend).unwrap_or_else(|error| {
            engine.set(Some(error));
            false
        })
    };
    let checked = check_and_sum_up_block(block, params, solution);
    engine.into_inner().map_or(Ok(checked), Err)
}

#[cfg(test)]
mod tests;
