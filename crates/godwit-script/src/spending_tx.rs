//! A transaction with the outputs that it spends, as signature hashes read it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use godwit_primitives::sha256::{Sha256, sha256};
use godwit_primitives::{InputView, OutputView, TxView, Txid, WitnessView};
use godwit_stream::DataStream;

use crate::{ScriptError, SpentOutput};

/// A transaction, the outputs that it spends, and the hashes that its inputs share.
pub struct SpendingTx<'a> {
    view: TxView<'a>,
    inputs: Vec<InputView<'a>>,
    witnesses: Vec<WitnessView<'a>>,
    /// Read when a signature first commits to a single one.
    outputs: OnceLock<Vec<OutputView<'a>>>,
    spent: Vec<SpentOutput<'a>>,
    midstates: Arc<Midstates>,
    /// What the legacy messages of an input begin with, and of which input. In order each continues where
    /// the one before it was, which saves half of the hashing that makes transactions of many inputs
    /// expensive.
    begun: Mutex<Option<(usize, Sha256)>>,
}

/// The hashes that the inputs of one transaction share, each computed when it is first needed. Threads that
/// verify parts of a large transaction hand them to each other.
#[derive(Debug)]
pub struct Midstates {
    /// Whose they are: those of another transaction would make wrong messages, and wrong ones true.
    txid: Txid,
    parts: OnceLock<PartHashes>,
    doubled: OnceLock<PartHashes>,
    spent: OnceLock<SpentHashes>,
    /// The inputs without scripts, sequences as they are and all zero.
    blank_inputs: [OnceLock<Vec<u8>>; 2],
}

/// SHA-256 of all prevouts, all sequences and all outputs: once for BIP341, twice for BIP143.
#[derive(Debug)]
pub(crate) struct PartHashes {
    pub(crate) prevouts: [u8; 32],
    pub(crate) sequences: [u8; 32],
    pub(crate) outputs: [u8; 32],
}

/// SHA-256 of all values and all scripts that are spent (BIP341).
#[derive(Debug)]
pub(crate) struct SpentHashes {
    pub(crate) values: [u8; 32],
    pub(crate) scripts: [u8; 32],
}

/// Bytes of an input whose script is empty.
pub(crate) const BLANK_INPUT: usize = 41;

impl Midstates {
    /// Of the transaction with that id, none computed yet.
    pub fn of(txid: Txid) -> Self {
        let (parts, doubled, spent, blank_inputs) = Default::default();
        Self { txid, parts, doubled, spent, blank_inputs }
    }
}

impl<'a> SpendingTx<'a> {
    /// `spent` has one output for each input, in input order.
    ///
    /// # Errors
    /// [`ScriptError::SpentOutputCount`].
    pub fn new(
        view: TxView<'a>,
        spent: impl Iterator<Item = SpentOutput<'a>>,
    ) -> Result<Self, ScriptError> {
        Self::with_midstates(view, spent, &Arc::new(Midstates::of(view.txid())))
    }

    /// With hashes that other threads may use at the same time. Those of another transaction are not
    /// used. What is spent belongs to the txid too: an input names its output by the hash of what
    /// contains it.
    ///
    /// # Errors
    /// [`ScriptError::SpentOutputCount`].
    pub fn with_midstates(
        view: TxView<'a>,
        spent: impl Iterator<Item = SpentOutput<'a>>,
        midstates: &Arc<Midstates>,
    ) -> Result<Self, ScriptError> {
        let inputs: Vec<_> = view.inputs().collect();
        let spent: Vec<_> = spent.collect();
        if spent.len() != inputs.len() {
            return Err(ScriptError::SpentOutputCount { inputs: inputs.len(), spent: spent.len() });
        }
        let midstates = match midstates.txid == view.txid() {
            true => Arc::clone(midstates),
            false => Arc::new(Midstates::of(view.txid())),
        };
        let witnesses = view.witnesses().collect();
        let (outputs, begun) = Default::default();
        Ok(Self { view, inputs, witnesses, outputs, spent, midstates, begun })
    }

    /// The transaction.
    pub fn view(&self) -> TxView<'a> {
        self.view
    }

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// The outputs that are spent, in input order.
    pub fn spent(&self) -> &[SpentOutput<'a>] {
        &self.spent
    }

    pub(crate) fn input(&self, input: usize) -> Option<InputView<'a>> {
        self.inputs.get(input).copied()
    }

    pub(crate) fn witness(&self, input: usize) -> Option<WitnessView<'a>> {
        self.witnesses.get(input).copied()
    }

    pub(crate) fn output(&self, output: usize) -> Option<OutputView<'a>> {
        let outputs = self.outputs.get_or_init(|| self.view.outputs().collect());
        outputs.get(output).copied()
    }

    pub(crate) fn part_hashes(&self) -> &PartHashes {
        self.midstates.parts.get_or_init(|| {
            let (mut prevouts, mut sequences) = (Sha256::new(), Sha256::new());
            for input in &self.inputs {
                prevouts.update(&input.prevout.to_bytes());
                sequences.update(&input.sequence.to_le_bytes());
            }
            PartHashes {
                prevouts: prevouts.finalize(),
                sequences: sequences.finalize(),
                outputs: sha256(self.view.output_bytes()),
            }
        })
    }

    pub(crate) fn doubled_part_hashes(&self) -> &PartHashes {
        self.midstates.doubled.get_or_init(|| {
            let PartHashes { prevouts, sequences, outputs } = self.part_hashes();
            PartHashes {
                prevouts: sha256(prevouts),
                sequences: sha256(sequences),
                outputs: sha256(outputs),
            }
        })
    }

    pub(crate) fn spent_hashes(&self) -> &SpentHashes {
        self.midstates.spent.get_or_init(|| {
            let (mut values, mut scripts) = (Sha256::new(), Sha256::new());
            let mut len = DataStream::new();
            for spent in &self.spent {
                values.update(&spent.value.to_le_bytes());
                len.clear();
                len.write_compact_size(spent.script_pubkey.len() as u64);
                scripts.update(len.as_slice());
                scripts.update(spent.script_pubkey);
            }
            SpentHashes { values: values.finalize(), scripts: scripts.finalize() }
        })
    }

    /// Every input with an empty script, [`BLANK_INPUT`] bytes each, less than the transaction has
    /// itself; with sequences of zero where a signature leaves those of others open.
    pub(crate) fn blank_inputs(&self, open_sequences: bool) -> &[u8] {
        self.midstates.blank_inputs[usize::from(open_sequences)].get_or_init(|| {
            let mut bytes = Vec::with_capacity(BLANK_INPUT * self.inputs.len());
            for input in &self.inputs {
                bytes.extend(input.prevout.to_bytes());
                bytes.push(0);
                let sequence = if open_sequences { 0 } else { input.sequence };
                bytes.extend(sequence.to_le_bytes());
            }
            bytes
        })
    }

    /// A hasher that has taken version, number of inputs and the blank inputs before this one.
    pub(crate) fn begun_at(&self, input: usize) -> Option<Sha256> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, mut hasher) = begun.take().filter(|(at, _)| *at <= input).unwrap_or_else(|| {
            let mut head = DataStream::new();
            head.write_u32(self.view.version());
            head.write_compact_size(self.inputs.len() as u64);
            let mut hasher = Sha256::new();
            hasher.update(head.as_slice());
            (0, hasher)
        });
        hasher.update(self.blank_inputs(false).get(BLANK_INPUT * from..BLANK_INPUT * input)?);
        *begun = Some((input, hasher.clone()));
        Some(hasher)
    }
}
