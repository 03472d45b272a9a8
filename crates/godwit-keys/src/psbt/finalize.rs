//! The finalizer and the extractor: from signatures to scripts and witnesses, by `miniscript`.

use std::error::Error;
use std::fmt;

use bitcoin::psbt::Input;
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{Amount, ScriptBuf, Transaction, TxOut};
use miniscript::psbt::PsbtExt;

use super::Psbt;
use super::error::FinalizeError;
use super::sighash::Digests;
use super::signatures::{key_path, wrong_signature};
use super::spent::{InputObjection, Spent};

/// What became of an input.
#[derive(Debug)]
pub enum Finished {
    /// It has its final script or witness.
    Finished,
    /// It had it before.
    Already,
    /// It lacks something, or what it has is wrong.
    Unfinished(Unfinished),
}

/// Why an input cannot be finished.
#[derive(Debug)]
pub enum Unfinished {
    /// It would not be signed either.
    Objection(InputObjection),
    /// A signature that is not valid, or of another type than the input asks for.
    WrongSignature,
    /// Signatures, preimages or locks do not satisfy the script.
    Unsatisfied(Box<miniscript::psbt::Error>),
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objection(objection) => objection.fmt(f),
            Self::WrongSignature => f.write_str("a signature is wrong or of another sighash type"),
            // The library prints whole scripts.
            Self::Unsatisfied(_) => {
                f.write_str("what is there does not satisfy the script (more signatures?)")
            }
        }
    }
}

impl Error for Unfinished {}

impl Psbt {
    /// Finishes every input that can be finished, and says of each what became of it. Signatures are
    /// verified on the way.
    pub fn finalize(&mut self) -> Vec<Finished> {
        let (results, mut scratch) = self.finished(&mut self.digests());
        for (index, result) in results.iter().enumerate() {
            if matches!(result, Finished::Finished) {
                let finished = std::mem::take(&mut scratch.inputs[index]);
                let input = &mut self.fields.inputs[index];
                input.final_script_sig = finished.final_script_sig;
                input.final_script_witness = finished.final_script_witness;
                clear_finished(input);
                self.uncompressed.forget_input(index);
            }
        }
        results
    }

    /// What becomes of each input, and a copy in which it has.
    pub(super) fn finished(&self, digests: &mut Digests<'_>) -> (Vec<Finished>, bitcoin::Psbt) {
        let mut scratch = self.resolved();
        let indexes = 0..self.fields.inputs.len();
        let results = indexes.map(|index| self.finish(index, digests, &mut scratch)).collect();
        (results, scratch)
    }

    /// A copy for `miniscript`, which takes an output without asking whether the previous transaction
    /// has it, wants one for every input even where signatures do not cover it, and a sighash type
    /// that ECDSA knows. For each input it hashes the keys that all inputs name, so that it is shown
    /// no keys but those of the input that is being finished.
    fn resolved(&self) -> bitcoin::Psbt {
        let mut copy = self.fields.clone();
        for (index, input) in copy.inputs.iter_mut().enumerate() {
            let unknown = TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::new() };
            input.witness_utxo = Some(self.spent_output_of(index).cloned().unwrap_or(unknown));
            input.non_witness_utxo = None;
            input.sighash_type = None;
            input.bip32_derivation.clear();
            input.tap_key_origins.clear();
        }
        copy
    }

    fn finish(
        &self,
        index: usize,
        digests: &mut Digests<'_>,
        scratch: &mut bitcoin::Psbt,
    ) -> Finished {
        let input = &self.fields.inputs[index];
        if is_finished(input) {
            return Finished::Already;
        }
        let spent = match Spent::of(input, &self.spent[index]) {
            Ok(spent) => spent,
            Err(objection) => return Finished::Unfinished(Unfinished::Objection(objection)),
        };
        match wrong_signature(digests, index, input, &spent) {
            Ok(false) => {}
            Ok(true) => return Finished::Unfinished(Unfinished::WrongSignature),
            Err(objection) => return Finished::Unfinished(Unfinished::Objection(objection)),
        }
        match satisfy(index, input, scratch) {
            Ok(()) => Finished::Finished,
            Err(error) => Finished::Unfinished(Unfinished::Unsatisfied(Box::new(error))),
        }
    }

    /// Whether every input has its final script or witness.
    pub fn is_finished(&self) -> bool {
        self.fields.inputs.iter().all(is_finished)
    }

    /// The network transaction.
    ///
    /// # Errors
    ///
    /// If an input is not finished.
    pub fn extract(&self) -> Result<Transaction, FinalizeError> {
        if self.fields.inputs.is_empty() {
            return Err(FinalizeError::NoInputs);
        }
        match self.fields.inputs.iter().position(|input| !is_finished(input)) {
            Some(index) => Err(FinalizeError::NotFinished(index)),
            None => Ok(self.so_far().0),
        }
    }

    /// The transaction with the scripts that are final, and the inputs that have them.
    pub fn so_far(&self) -> (Transaction, Vec<usize>) {
        let mut transaction = self.fields.unsigned_tx.clone();
        for (input, tx_in) in self.fields.inputs.iter().zip(&mut transaction.input) {
            tx_in.script_sig = input.final_script_sig.clone().unwrap_or_default();
            tx_in.witness = input.final_script_witness.clone().unwrap_or_default();
        }
        let inputs = self.fields.inputs.iter().enumerate();
        let finished = inputs.filter(|(_, input)| is_finished(input)).map(|(index, _)| index);
        (transaction, finished.collect())
    }

    /// The outputs that the inputs spend, to verify the scripts with.
    ///
    /// # Errors
    ///
    /// The first input whose output is unknown or contradicted, and why.
    pub fn spent_outputs(&self) -> Result<Vec<TxOut>, (usize, InputObjection)> {
        let known = self.spent.iter().cloned().enumerate();
        known
            .map(|(index, known)| {
                known.map(|(output, _)| output).map_err(|objection| (index, objection))
            })
            .collect()
    }
}

/// Has `miniscript` finish an input of `scratch`, which is `input` without the keys that it names. It takes a
/// signature by the key path from beside an internal key alone, and asks no more of that.
fn satisfy(
    index: usize,
    input: &Input,
    scratch: &mut bitcoin::Psbt,
) -> Result<(), miniscript::psbt::Error> {
    scratch.inputs[index].bip32_derivation.clone_from(&input.bip32_derivation);
    // A hash of a key is resolved by a signature of it as well: a combiner may have left the path out.
    for key in input.partial_sigs.keys().filter(|key| key.compressed) {
        scratch.inputs[index].bip32_derivation.entry(key.inner).or_default();
    }
    scratch.inputs[index].tap_key_origins.clone_from(&input.tap_key_origins);
    if input.tap_key_sig.is_some() {
        let output = scratch.inputs[index].witness_utxo.as_ref();
        let key = output.and_then(|output| key_path(input, &output.script_pubkey));
        scratch.inputs[index].tap_internal_key = key;
    }
    #[cfg(test)]
    super::work::note_keys(&scratch.inputs);
    let result = scratch.finalize_inp_mut(&Secp256k1::verification_only(), index);
    scratch.inputs[index].bip32_derivation.clear();
    scratch.inputs[index].tap_key_origins.clear();
    scratch.inputs[index].tap_internal_key = None;
    result
}

pub(super) fn is_finished(input: &Input) -> bool {
    input.final_script_sig.is_some() || input.final_script_witness.is_some()
}

/// Beside the final scripts an input keeps what it spends and what nobody knows (BIP174).
fn clear_finished(input: &mut Input) {
    if !is_finished(input) {
        return;
    }
    let all = std::mem::take(input);
    *input = Input {
        non_witness_utxo: all.non_witness_utxo,
        witness_utxo: all.witness_utxo,
        final_script_sig: all.final_script_sig,
        final_script_witness: all.final_script_witness,
        proprietary: all.proprietary,
        unknown: all.unknown,
        ..Input::default()
    };
}
