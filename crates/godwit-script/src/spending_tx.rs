//! A transaction with the outputs that it spends, as needed for signature hashes.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use godwit_engine::{EngineMemory, EnginePermit};
use godwit_primitives::sha256::{Sha256, sha256};
use godwit_primitives::{InputView, OutputView, TxView, Txid, WitnessView};
use godwit_stream::DataStream;

use crate::{PreparedTx, ScriptError, SpentOutput};

/// A transaction, the outputs that it spends, and the hashes that its inputs share.
pub struct SpendingTx<'a> {
    view: TxView<'a>,
    inputs: Vec<InputView<'a>>,
    witnesses: Vec<WitnessView<'a>>,
    /// Read when a signature first commits to a single output.
    outputs: OnceLock<Vec<OutputView<'a>>>,
    spent: Vec<SpentOutput<'a>>,
    precomputed: Arc<Precomputed>,
    /// Whether other threads may verify parts of the transaction.
    is_shared: bool,
    /// The beginning of an input's legacy messages, with the index of the input. When inputs come in order,
    /// each continues from the one before, which saves half of the hashing that makes transactions of many
    /// inputs expensive.
    begun: Mutex<Option<(usize, Sha256)>>,
}

/// What the inputs of one transaction share, each part computed when it is first needed: hashes, and the
/// transaction as Core's engine reads it. Threads that verify parts of a large transaction share it.
pub struct Precomputed {
    /// The transaction that the hashes belong to: with those of another one, messages would be wrong, and a
    /// wrong signature could pass.
    txid: Txid,
    parts: OnceLock<PartHashes>,
    doubled: OnceLock<PartHashes>,
    spent: OnceLock<SpentHashes>,
    /// The inputs without scripts: with their sequences as they are, and with all sequences zero.
    blank_inputs: [OnceLock<Vec<u8>>; 2],
    /// Locked while the engine reads the transaction, and while a thread waits for memory to read it.
    made: Mutex<Made>,
}

/// What the engine has read of a transaction.
#[derive(Default)]
enum Made {
    #[default]
    Nothing,
    /// Dropped with the last thread that asks about it.
    InUse(Weak<ForEngine>),
    /// Kept for threads that verify other parts.
    Kept(Arc<ForEngine>),
}

/// A transaction as Core's engine reads it.
struct ForEngine {
    /// The transaction's bytes, which the txid does not determine.
    bytes: Box<[u8]>,
    prepared: Result<PreparedTx, ScriptError>,
    #[expect(dead_code, reason = "held for its drop, behind that of what it is for")]
    permit: Option<EnginePermit<'static>>,
}

/// The transaction that a thread asks the engine about. A thread has only one at a time: it may have to wait
/// for the memory of the next one, and must hold none while it waits.
pub(crate) struct Asked {
    of: Arc<Precomputed>,
    engine: Arc<ForEngine>,
    /// How long the thread has waited, for this transaction and those that it asked about before.
    waited: Duration,
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

impl Precomputed {
    /// For the transaction with this id, with nothing computed yet.
    pub fn of(txid: Txid) -> Self {
        let (parts, doubled, spent, blank_inputs, made) = Default::default();
        Self { txid, parts, doubled, spent, blank_inputs, made }
    }
}

impl Made {
    fn get(&self) -> Option<Arc<ForEngine>> {
        match self {
            Self::Nothing => None,
            Self::InUse(engine) => engine.upgrade(),
            Self::Kept(engine) => Some(Arc::clone(engine)),
        }
    }
}

impl Asked {
    /// The transaction as the engine reads it.
    pub(crate) fn prepared(&self) -> Result<&PreparedTx, ScriptError> {
        self.engine.prepared.as_ref().map_err(|error| *error)
    }

    /// How long the thread has waited, since it first asked, for memory and for threads that had the engine
    /// read the same transaction.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
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
        let alone = Arc::new(Precomputed::of(view.txid()));
        Ok(Self { is_shared: false, ..Self::with_precomputed(view, spent, &alone)? })
    }

    /// Like `new`, with parts that other threads may use at the same time. Parts that belong to another
    /// transaction are not used. The spent outputs follow from the txid too, because an input names its
    /// output by the hash of the transaction that contains it: other outputs would make wrong messages.
    ///
    /// # Errors
    /// [`ScriptError::SpentOutputCount`].
    pub fn with_precomputed(
        view: TxView<'a>,
        spent: impl Iterator<Item = SpentOutput<'a>>,
        precomputed: &Arc<Precomputed>,
    ) -> Result<Self, ScriptError> {
        let inputs: Vec<_> = view.inputs().collect();
        let spent: Vec<_> = spent.collect();
        if spent.len() != inputs.len() {
            return Err(ScriptError::SpentOutputCount { inputs: inputs.len(), spent: spent.len() });
        }
        let is_shared = precomputed.txid == view.txid();
        let precomputed = match is_shared {
            true => Arc::clone(precomputed),
            false => Arc::new(Precomputed::of(view.txid())),
        };
        let witnesses = view.witnesses().collect();
        let (outputs, begun) = Default::default();
        Ok(Self { view, inputs, witnesses, outputs, spent, precomputed, is_shared, begun })
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

    /// Asks the engine about this transaction, and drops the one of `last` if it is another. Compares the
    /// bytes, so it is called once for all inputs. Waits for memory.
    pub(crate) fn ask(&self, last: Option<Asked>, memory: &'static EngineMemory) -> Asked {
        let is_this = |last: &Asked| {
            Arc::ptr_eq(&last.of, &self.precomputed) && *last.engine.bytes == *self.view.bytes()
        };
        let before = last.as_ref().map_or(Duration::ZERO, Asked::waited);
        // Another transaction is dropped before this thread waits.
        last.filter(is_this).unwrap_or_else(|| {
            let (engine, waited) = self.engine(memory);
            Asked { of: Arc::clone(&self.precomputed), engine, waited: before + waited }
        })
    }

    /// The transaction as the engine reads it, read by this thread or by another one that asks about it; and
    /// how long this thread waited.
    fn engine(&self, memory: &'static EngineMemory) -> (Arc<ForEngine>, Duration) {
        let bytes = self.view.bytes();
        let start = Instant::now();
        let mut made = self.precomputed.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = made.get().filter(|engine| *engine.bytes == *bytes) {
            return (engine, start.elapsed());
        }
        let scripts = self.spent.iter().map(|spent| spent.script_pubkey.len()).sum();
        let mut permit = memory.take(bytes, scripts);
        let waited = start.elapsed();
        let prepared = PreparedTx::new(bytes, self.spent.iter().copied());
        // A kept permit that no thread uses would be held until a worker comes for it, while all workers may
        // wait for permits.
        let is_kept = self.is_shared && permit.as_mut().is_none_or(EnginePermit::keep);
        let engine = Arc::new(ForEngine { bytes: bytes.into(), prepared, permit });
        *made = match is_kept {
            true => Made::Kept(Arc::clone(&engine)),
            false => Made::InUse(Arc::downgrade(&engine)),
        };
        (engine, waited)
    }

    pub(crate) fn part_hashes(&self) -> &PartHashes {
        self.precomputed.parts.get_or_init(|| {
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
        self.precomputed.doubled.get_or_init(|| {
            let PartHashes { prevouts, sequences, outputs } = self.part_hashes();
            PartHashes {
                prevouts: sha256(prevouts),
                sequences: sha256(sequences),
                outputs: sha256(outputs),
            }
        })
    }

    pub(crate) fn spent_hashes(&self) -> &SpentHashes {
        self.precomputed.spent.get_or_init(|| {
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

    /// Every input with an empty script, in [`BLANK_INPUT`] bytes each, no more than it takes in the
    /// transaction; with sequences of zero if `open_sequences`, where a signature leaves the other inputs'
    /// sequences open.
    pub(crate) fn blank_inputs(&self, open_sequences: bool) -> &[u8] {
        self.precomputed.blank_inputs[usize::from(open_sequences)].get_or_init(|| {
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

    /// A hasher that has taken the version, the number of inputs, and the blank inputs before this one.
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
