//! One transaction with its spent outputs, ready for the engine.

use std::ops::Range;

use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, ScriptVerifyError, Transaction, TxOut,
};
use godwit_primitives::{Amount, ScriptFlags};

use crate::ScriptError;

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
/// and `m_spent_outputs` matter to native version 1 witness programs of 32 bytes alone. Those inputs
/// get the full data; every other input gets data without spent outputs and loses the TAPROOT flag,
/// which the engine refuses without them and which could not change its result.
pub struct PreparedTx {
    tx: Transaction,
    spent: Vec<Spent>,
    /// Has the spent outputs where at least one input is a taproot spend.
    data: PrecomputedTransactionData,
    /// Without the spent outputs, for the other inputs of a transaction that has both kinds.
    lean_data: Option<PrecomputedTransactionData>,
}

struct Spent {
    script_pubkey: ScriptPubkey,
    value: Amount,
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
        let taproot_spends = spent.iter().filter(|spent| spent.taproot).count();
        let outputs = match taproot_spends {
            0 => Vec::new(),
            _ => spent.iter().map(Spent::to_output).collect(),
        };
        let data = precompute(&tx, &outputs)?;
        let is_mixed = taproot_spends != 0 && taproot_spends != inputs;
        let lean_data = if is_mixed { Some(precompute(&tx, &[])?) } else { None };
        Ok(Self { tx, spent, data, lean_data })
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
        let (data, flags) = if spent.taproot {
            (&self.data, flags)
        } else {
            let data = self.lean_data.as_ref().unwrap_or(&self.data);
            (data, flags.without(ScriptFlags::TAPROOT))
        };
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

impl Spent {
    fn new(output: SpentOutput<'_>) -> Result<Self, ScriptError> {
        Ok(Self {
            script_pubkey: ScriptPubkey::new(output.script_pubkey)
                .map_err(|_| ScriptError::Engine)?,
            value: output.value,
            taproot: is_taproot(output.script_pubkey),
        })
    }

    fn to_output(&self) -> TxOut {
        TxOut::new(&self.script_pubkey, self.value)
    }
}

/// Verifies every input of a transaction; arguments and errors as [`PreparedTx::new`] and
/// [`PreparedTx::verify`].
///
/// # Errors
/// See there.
pub fn verify_transaction<'a>(
    tx_bytes: &[u8],
    spent: impl ExactSizeIterator<Item = SpentOutput<'a>>,
    flags: ScriptFlags,
) -> Result<(), ScriptError> {
    PreparedTx::new(tx_bytes, spent)?.verify(flags)
}

/// BIP341: OP_1 and a push of 32 bytes, nothing else.
fn is_taproot(script_pubkey: &[u8]) -> bool {
    script_pubkey.len() == 34 && script_pubkey.starts_with(&[0x51, 0x20])
}

fn precompute(
    tx: &Transaction,
    outputs: &[TxOut],
) -> Result<PrecomputedTransactionData, ScriptError> {
    PrecomputedTransactionData::new(tx, outputs).map_err(|_| ScriptError::Engine)
}
