//! One transaction with its spent outputs, ready for the engine.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, ScriptVerifyError, Transaction, TxOut,
};
use godwit_primitives::sha256::Sha256;
use godwit_primitives::{Amount, ScriptFlags};
use godwit_stream::DataStream;

use crate::blanked::{BlankedData, ScriptHashes};
use crate::{ENGINE_MEMORY, ScriptError};

/// An output that an input spends.
#[derive(Clone, Copy, Debug)]
pub struct SpentOutput<'a> {
    /// Value in satoshi.
    pub value: Amount,
    /// The locking script.
    pub script_pubkey: &'a [u8],
}

/// A transaction parsed by the engine, its spent outputs, and the hashes that its inputs share.
///
/// `Send` and `Sync`: workers may verify ranges of one transaction at the same time.
///
/// `btck_script_pubkey_verify` copies the precomputed data on every call (its conditional expression
/// yields a temporary), spent outputs included: handing them to every input makes a transaction's
/// cost quadratic in its inputs. Only BIP341 reads them: in Core's interpreter.cpp the TAPROOT flag
/// and `m_spent_outputs` matter to native version 1 witness programs of 32 bytes alone. Every other
/// input gets data without spent outputs and loses the TAPROOT flag, which the engine refuses without
/// them and which could not change its result. Taproot inputs get data in which scripts that are costly to
/// copy are blank ([`BlankedData`]); they are not those of taproot outputs.
pub struct PreparedTx {
    tx: Transaction,
    spent: Vec<Spent>,
    /// For taproot inputs, if there are any.
    taproot: Option<TaprootData>,
    /// For other inputs, if there are any.
    other: Option<PrecomputedTransactionData>,
    /// Held by the worker that verifies an input again with a full copy of the spent scripts. If many workers
    /// verify a transaction and all its inputs are invalid, only one such copy exists at a time.
    refusing: Mutex<()>,
    #[cfg(test)]
    copies: tests::Copies,
}

/// Precomputed data with the spent outputs.
enum TaprootData {
    /// All outputs as they are.
    Full(PrecomputedTransactionData),
    Blanked(BlankedData),
}

/// Scripts up to this length lie in Core's vector of outputs itself (`CScriptBase`, a `prevector`), so that
/// copying them needs no allocation.
const INLINE_SCRIPT: usize = 36;

struct Spent {
    script_pubkey: ScriptPubkey,
    value: Amount,
    /// Bytes of the script.
    len: usize,
    taproot: bool,
}

impl PreparedTx {
    /// Parses `tx_bytes` (network serialisation, with or without witness; bytes after the
    /// transaction are ignored) and takes the outputs that it spends, one for each input, in input
    /// order.
    ///
    /// # Errors
    /// [`ScriptError::MalformedTransaction`], [`ScriptError::SpentOutputCount`],
    /// [`ScriptError::Engine`].
    pub fn new<'a>(
        tx_bytes: &[u8],
        spent: impl ExactSizeIterator<Item = SpentOutput<'a>>,
    ) -> Result<Self, ScriptError> {
        let tx = Transaction::new(tx_bytes).map_err(|_| ScriptError::MalformedTransaction)?;
        let inputs = tx.input_count();
        if spent.len() != inputs {
            return Err(ScriptError::SpentOutputCount { inputs, spent: spent.len() });
        }
        let spent = spent.map(Spent::new).collect::<Result<Vec<_>, _>>()?;
        // An iterator may lie about its length, and the engine asserts that the lengths agree.
        if spent.len() != inputs {
            return Err(ScriptError::SpentOutputCount { inputs, spent: spent.len() });
        }
        let is_taproot = |spent: &Spent| spent.taproot;
        let taproot = spent.iter().any(is_taproot).then(|| TaprootData::new(&tx, &spent));
        let other = (!spent.iter().all(is_taproot)).then(|| precompute(&tx, &[]));
        let (taproot, other) = (taproot.transpose()?, other.transpose()?);
        Ok(Self {
            tx,
            spent,
            taproot,
            other,
            refusing: Mutex::new(()),
            #[cfg(test)]
            copies: tests::Copies::default(),
        })
    }

    /// Number of inputs.
    pub fn input_count(&self) -> usize {
        self.spent.len()
    }

    /// Verifies one input.
    ///
    /// # Errors
    /// As [`PreparedTx::verify_range`].
    pub fn verify_input(&self, input: usize, flags: ScriptFlags) -> Result<(), ScriptError> {
        self.verify_range(input..input.saturating_add(1), flags)
    }

    /// Verifies the inputs of `range` in order, up to the first that fails.
    ///
    /// # Errors
    /// [`ScriptError::Rejected`] names the first input that fails. [`ScriptError::BadRange`] and
    /// [`ScriptError::WitnessWithoutP2sh`] come before any script runs.
    pub fn verify_range(&self, range: Range<usize>, flags: ScriptFlags) -> Result<(), ScriptError> {
        if flags.contains(ScriptFlags::WITNESS) && !flags.contains(ScriptFlags::P2SH) {
            return Err(ScriptError::WitnessWithoutP2sh);
        }
        let inputs = self.spent.len();
        let Some(spent) = self.spent.get(range.clone()) else {
            return Err(ScriptError::BadRange { start: range.start, end: range.end, inputs });
        };
        for (input, spent) in range.zip(spent) {
            self.verify_spent(input, spent, flags)?;
        }
        Ok(())
    }

    /// Verifies every input.
    ///
    /// # Errors
    /// As [`PreparedTx::verify_range`].
    pub fn verify(&self, flags: ScriptFlags) -> Result<(), ScriptError> {
        self.verify_range(0..self.spent.len(), flags)
    }

    fn verify_spent(
        &self,
        input: usize,
        spent: &Spent,
        flags: ScriptFlags,
    ) -> Result<(), ScriptError> {
        let (data, flags) = match (spent.taproot, &self.taproot, &self.other) {
            (true, Some(TaprootData::Blanked(data)), _) => {
                let (script, amount) = (&spent.script_pubkey, spent.value);
                if data.verify(script, amount, &self.tx, input, flags.bits()) == Some(true) {
                    return Ok(());
                }
                return self.verify_fully(input, spent, flags);
            }
            (true, Some(TaprootData::Full(data)), _) => (data, flags),
            (false, _, Some(data)) => (data, flags.without(ScriptFlags::TAPROOT)),
            (true, None, _) | (false, _, None) => return Err(ScriptError::Engine),
        };
        self.verify_with(data, input, spent, flags)
    }

    /// Verifies an input again with data made wholly by Core, which alone may refuse it. This makes one more
    /// copy of the scripts, and the engine makes its own. An input that is refused ends the block, so this
    /// happens once.
    fn verify_fully(
        &self,
        input: usize,
        spent: &Spent,
        flags: ScriptFlags,
    ) -> Result<(), ScriptError> {
        // Declared before the copy, and so released after it.
        let _one_at_a_time = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(test)]
        let _copy = self.copies.begin();
        let full = full_data(&self.tx, &self.spent)?;
        self.verify_with(&full, input, spent, flags)
    }

    fn verify_with(
        &self,
        data: &PrecomputedTransactionData,
        input: usize,
        spent: &Spent,
        flags: ScriptFlags,
    ) -> Result<(), ScriptError> {
        bitcoinkernel::verify(
            &spent.script_pubkey,
            Some(spent.value),
            &self.tx,
            input,
            Some(flags.bits()),
            data,
        )
        .map_err(|error| match error {
            KernelError::ScriptVerify(ScriptVerifyError::Invalid) => {
                ScriptError::Rejected { input }
            }
            _ => ScriptError::Engine,
        })
    }
}

impl TaprootData {
    fn new(tx: &Transaction, spent: &[Spent]) -> Result<Self, ScriptError> {
        if spent.iter().any(|spent| spent.len > INLINE_SCRIPT) {
            let blank = ScriptPubkey::new(&[]).map_err(|_| ScriptError::Engine)?;
            let outputs: Vec<TxOut> =
                spent.iter().map(|spent| spent.inline_output(&blank)).collect();
            if let Some(data) = BlankedData::new(tx, &outputs, &script_hashes(spent)) {
                return Ok(Self::Blanked(data));
            }
        }
        full_data(tx, spent).map(Self::Full)
    }
}

impl Spent {
    fn new(output: SpentOutput<'_>) -> Result<Self, ScriptError> {
        Ok(Self {
            script_pubkey: ScriptPubkey::new(output.script_pubkey)
                .map_err(|_| ScriptError::Engine)?,
            value: output.value,
            len: output.script_pubkey.len(),
            taproot: is_taproot(output.script_pubkey),
        })
    }

    fn to_output(&self) -> TxOut {
        TxOut::new(&self.script_pubkey, self.value)
    }

    /// The output, with the blank script in place of its own if that is too long to lie in the vector.
    fn inline_output(&self, blank: &ScriptPubkey) -> TxOut {
        match self.len > INLINE_SCRIPT {
            true => TxOut::new(blank, self.value),
            false => self.to_output(),
        }
    }
}

/// Verifies every input of a transaction; arguments and errors as [`PreparedTx::new`] and
/// [`PreparedTx::verify`]. Waits for [`ENGINE_MEMORY`].
///
/// # Errors
/// See there.
pub fn verify_transaction<'a>(
    tx_bytes: &[u8],
    spent: impl ExactSizeIterator<Item = SpentOutput<'a>>,
    flags: ScriptFlags,
) -> Result<(), ScriptError> {
    let spent: Vec<_> = spent.collect();
    let scripts = spent.iter().map(|spent| spent.script_pubkey.len()).sum();
    let _permit = ENGINE_MEMORY.take(tx_bytes, scripts);
    PreparedTx::new(tx_bytes, spent.into_iter())?.verify(flags)
}

/// BIP341: OP_1 and a push of 32 bytes, nothing else.
fn is_taproot(script_pubkey: &[u8]) -> bool {
    script_pubkey.len() == 34 && script_pubkey.starts_with(&[0x51, 0x20])
}

fn full_data(tx: &Transaction, spent: &[Spent]) -> Result<PrecomputedTransactionData, ScriptError> {
    let outputs: Vec<TxOut> = spent.iter().map(Spent::to_output).collect();
    precompute(tx, &outputs)
}

/// BIP341's hash of the scripts with their lengths, once for the real scripts and once for those that
/// [`Spent::inline_output`] puts in their place.
fn script_hashes(spent: &[Spent]) -> ScriptHashes {
    let (mut given, mut real) = (Sha256::new(), Sha256::new());
    let mut len = DataStream::new();
    for spent in spent {
        let script = spent.script_pubkey.to_bytes();
        len.clear();
        len.write_compact_size(script.len() as u64);
        real.update(len.as_slice());
        real.update(&script);
        if script.len() > INLINE_SCRIPT {
            given.update(&[0]);
        } else {
            given.update(len.as_slice());
            given.update(&script);
        }
    }
    ScriptHashes { given: given.finalize(), real: real.finalize() }
}

fn precompute(
    tx: &Transaction,
    outputs: &[TxOut],
) -> Result<PrecomputedTransactionData, ScriptError> {
    PrecomputedTransactionData::new(tx, outputs).map_err(|_| ScriptError::Engine)
}

#[cfg(test)]
mod tests;
