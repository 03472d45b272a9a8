//! The review before signing: amounts, scripts, fee, keys, signatures, and anything wrong or missing.

use std::collections::BTreeMap;

use bitcoin::bip32::KeySource;
use bitcoin::psbt::{Input, Output};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::taproot::{ControlBlock, LeafVersion, TapTweakHash};
use bitcoin::{
    Amount, OutPoint, Script, ScriptBuf, Sequence, TxOut, WitnessVersion, absolute, transaction,
};

use super::Psbt;
use super::fee::{Fee, FeeObjection};
use super::finalize::Finished;
use super::keys_of_input::{KeyOfInput, SigningKey, keys_of_input};
use super::sighash::{Digests, Sighash};
use super::signatures::{signatures, verify_signature};
use super::spent::{InputObjection, KnownOutput, SpendKind, Spent, classify, has_code_separator};
use crate::error::KeyError;

/// Whether a key is ours.
pub type Owns<'a> = dyn FnMut(&KeySource, &SigningKey) -> Result<bool, KeyError> + 'a;

/// A PSBT as a user is shown it.
#[derive(Debug)]
pub struct Review {
    /// Version of the PSBT.
    pub version: u32,
    pub transaction_version: transaction::Version,
    /// Lock time, computed in version 2.
    pub lock_time: absolute::LockTime,
    pub inputs: Vec<InputReview>,
    pub outputs: Vec<OutputReview>,
    /// Amount and weight, or what is wrong with them.
    pub fee: Result<Fee, FeeObjection>,
    /// What does not keep one from signing, but should be known.
    pub warnings: Vec<Warning>,
}

/// Something to think about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A segwit version 0 signature covers the amount of its own input only: with two signatures under
    /// two lies about amounts, a fee can be made that nobody agreed to (BIP174). The input has no
    /// previous transaction that would prove its amount, and another one's signatures do not cover it.
    UnprovenAmount(usize),
    /// The output can never be spent, and has a value.
    BurnsCoins(usize),
    /// The output has a witness version without rules: whoever mines a block can take it.
    AnyoneCanSpend(usize),
}

/// How far an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputState {
    /// It has its final script or witness.
    Finished,
    /// Its signatures satisfy the script.
    Signed,
    Unfinished,
}

#[derive(Debug)]
pub struct InputReview {
    /// The output that it spends.
    pub outpoint: OutPoint,
    pub sequence: Sequence,
    /// Amount and script of that output.
    pub output: Option<TxOut>,
    /// Its kind and whether the amount is proven, or why it is not signed.
    pub spent: Result<Spent, InputObjection>,
    /// The type that signatures will have.
    pub sighash: Option<Sighash>,
    /// The keys that its script asks for.
    pub keys: Vec<KeyReview>,
    /// The signatures that are there.
    pub signatures: Vec<SignatureReview>,
    /// How far it is.
    pub state: InputState,
}

/// A key that an input or output names.
#[derive(Debug)]
pub struct KeyReview {
    /// The key and its source.
    pub key: KeyOfInput,
    /// Whether it is ours.
    pub ours: bool,
}

#[derive(Debug)]
pub struct SignatureReview {
    /// The key that it is said to be by.
    pub key: SigningKey,
    pub sighash: Sighash,
    /// Whether it is valid; `None` where that cannot be told.
    pub valid: Option<bool>,
}

#[derive(Debug)]
pub struct OutputReview {
    pub amount: Amount,
    pub script_pubkey: ScriptBuf,
    /// Its kind, or why what the PSBT says of it does not belong to it.
    pub kind: Result<SpendKind, InputObjection>,
    /// Whether the PSBT says anything of it, so that it can be wrong.
    pub is_described: bool,
    /// The keys that can spend it, where the PSBT says so and the script agrees.
    pub keys: Vec<KeyReview>,
}

impl InputReview {
    /// None of its keys is ours.
    pub fn is_foreign(&self) -> bool {
        !self.keys.iter().any(|key| key.ours)
    }
}

impl Psbt {
    /// Looks at everything. `owns` tells which keys are ours.
    ///
    /// # Errors
    ///
    /// The first one of `owns`: a key of ours is not shown as somebody else's.
    pub fn review(&self, owns: &mut Owns<'_>) -> Result<Review, KeyError> {
        let transaction = self.unsigned_transaction();
        let mut digests = self.digests();
        let finished = self.finished(&mut digests).0;
        let mut inputs = Vec::with_capacity(transaction.input.len());
        for (index, finished) in finished.iter().enumerate() {
            inputs.push(self.review_input(index, finished, &mut digests, owns)?);
        }
        let outputs = transaction.output.iter().zip(&self.fields.outputs);
        let outputs = outputs.map(|(tx_out, output)| review_output(tx_out, output, owns));
        let outputs = outputs.collect::<Result<_, _>>()?;
        let warnings = self.unproven(&inputs).chain(of_outputs(&transaction.output)).collect();
        Ok(Review {
            version: self.version(),
            transaction_version: transaction.version,
            lock_time: transaction.lock_time,
            inputs,
            outputs,
            fee: self.fee(),
            warnings,
        })
    }

    /// The inputs whose amounts are believed beside others that may be signed whatever these are. What kind
    /// of output an input spends, and whose it is, may be part of the lie; see [`Psbt::sign`].
    fn unproven(&self, inputs: &[InputReview]) -> impl Iterator<Item = Warning> {
        let signed_regardless = |input: &InputReview| {
            !input.spent.as_ref().is_ok_and(|spent| spent.kind == SpendKind::Tr)
                || input.sighash.is_some_and(Sighash::anyone_can_pay)
        };
        let regardless = inputs.iter().map(signed_regardless);
        let regardless: Vec<bool> = regardless.collect();
        let count = regardless.iter().filter(|regardless| **regardless).count();
        let believed = self.spent.iter().zip(regardless).enumerate();
        let believed = believed.filter(move |(_, (known, regardless))| {
            matches!(known, Ok((_, false))) && count > usize::from(*regardless)
        });
        believed.map(|(index, _)| Warning::UnprovenAmount(index))
    }

    /// `finished`: what became of the input when everything was finished that can be.
    fn review_input(
        &self,
        index: usize,
        finished: &Finished,
        digests: &mut Digests<'_>,
        owns: &mut Owns<'_>,
    ) -> Result<InputReview, KeyError> {
        let input = &self.fields.inputs[index];
        let tx_in = &self.fields.unsigned_tx.input[index];
        let spent = signable(input, &self.spent[index]);
        let keys = spent.as_ref().map(|spent| keys_of_input(input, spent));
        let output = self.spent_output_of(index);
        let script = output.map(|output| output.script_pubkey.as_script());
        let signatures = signatures(input, script).map(|(key, sighash, signature)| {
            let valid = spent.as_ref().ok().and_then(|spent| {
                verify_signature(digests, index, spent, &key, sighash, &signature).ok()
            });
            SignatureReview { key, sighash, valid }
        });
        Ok(InputReview {
            outpoint: tx_in.previous_output,
            sequence: tx_in.sequence,
            output: output.cloned(),
            sighash: spent.as_ref().ok().and_then(|s| Sighash::of(input, s.kind).ok()),
            keys: review_keys(keys.unwrap_or_default(), owns)?,
            signatures: signatures.collect(),
            state: match finished {
                Finished::Already => InputState::Finished,
                Finished::Finished => InputState::Signed,
                Finished::Unfinished(_) => InputState::Unfinished,
            },
            spent,
        })
    }

    /// What signatures sign, as far as the spent outputs are known.
    pub(super) fn digests(&self) -> Digests<'_> {
        let known = (0..self.spent.len()).map(|index| self.spent_output_of(index).cloned());
        Digests::new(&self.fields.unsigned_tx, known.collect())
    }
}

/// The output that an input spends, where it can be signed.
pub(super) fn signable(input: &Input, known: &KnownOutput) -> Result<Spent, InputObjection> {
    let spent = Spent::of(input, known)?;
    check_signable(&spent, input)?;
    Ok(spent)
}

/// What concerns signatures beyond the spent output itself.
pub(super) fn check_signable(spent: &Spent, input: &Input) -> Result<(), InputObjection> {
    Sighash::of(input, spent.kind)?;
    let leaves = input.tap_scripts.values().map(|(leaf, _)| leaf);
    let separated = match spent.kind {
        SpendKind::Tr => leaves.into_iter().any(|leaf| has_code_separator(leaf)),
        _ => has_code_separator(&spent.script),
    };
    if separated { Err(InputObjection::CodeSeparator) } else { Ok(()) }
}

fn review_keys(keys: Vec<KeyOfInput>, owns: &mut Owns<'_>) -> Result<Vec<KeyReview>, KeyError> {
    let reviewed = keys.into_iter().map(|key| {
        let ours = owns(&key.source, &key.key)?;
        Ok(KeyReview { key, ours })
    });
    reviewed.collect()
}

fn review_output(
    tx_out: &TxOut,
    output: &Output,
    owns: &mut Owns<'_>,
) -> Result<OutputReview, KeyError> {
    let fields = as_input(output);
    let classified = classify(&tx_out.script_pubkey, &fields);
    let kind = classified.as_ref().map(|(kind, _)| *kind).map_err(|objection| *objection);
    let keys = classified.map(|(kind, script)| {
        let spent = Spent { output: tx_out.clone(), proven: true, kind, script };
        keys_of_input(&fields, &spent)
    });
    Ok(OutputReview {
        amount: tx_out.value,
        script_pubkey: tx_out.script_pubkey.clone(),
        kind,
        is_described: *output != Output::default(),
        keys: review_keys(keys.unwrap_or_default(), owns)?,
    })
}

/// An output's fields under the names that they will have when it is spent.
pub(super) fn as_input(output: &Output) -> Input {
    Input {
        tap_scripts: leaves(output).unwrap_or_default(),
        redeem_script: output.redeem_script.clone(),
        witness_script: output.witness_script.clone(),
        bip32_derivation: output.bip32_derivation.clone(),
        tap_internal_key: output.tap_internal_key,
        tap_merkle_root: output.tap_tree.as_ref().map(|tree| tree.root_hash()),
        tap_key_origins: output.tap_key_origins.clone(),
        ..Input::default()
    }
}

/// The leaves of an output's tree, with their ways to its key.
fn leaves(output: &Output) -> Option<BTreeMap<ControlBlock, (ScriptBuf, LeafVersion)>> {
    let (tree, internal_key) = (output.tap_tree.as_ref()?, output.tap_internal_key?);
    let tweak = TapTweakHash::from_key_and_tweak(internal_key, Some(tree.root_hash()));
    let secp = Secp256k1::verification_only();
    let (_, output_key_parity) = internal_key.add_tweak(&secp, &tweak.to_scalar()).ok()?;
    let leaves = tree.script_leaves().map(|leaf| {
        let leaf_version = leaf.version();
        let merkle_branch = leaf.merkle_branch().clone();
        let block = ControlBlock { leaf_version, output_key_parity, internal_key, merkle_branch };
        (block, (leaf.script().to_owned(), leaf_version))
    });
    Some(leaves.collect())
}

fn of_outputs(outputs: &[TxOut]) -> impl Iterator<Item = Warning> {
    outputs.iter().enumerate().flat_map(|(index, output)| {
        let burns = is_unspendable(&output.script_pubkey) && output.value > Amount::ZERO;
        let burns = burns.then_some(Warning::BurnsCoins(index));
        let anyone = is_without_rules(&output.script_pubkey);
        burns.into_iter().chain(anyone.then_some(Warning::AnyoneCanSpend(index)))
    })
}

/// Nothing can ever spend it: data, a program of version 0 that is no hash, a taproot key that is no point.
fn is_unspendable(script: &Script) -> bool {
    let is_program = script.is_p2wpkh() || script.is_p2wsh();
    script.is_op_return()
        || script.witness_version() == Some(WitnessVersion::V0) && !is_program
        || script.is_p2tr() && super::spent::output_key(script).is_none()
}

/// A witness program that no rule says anything of: it is spent without a signature. (One of version 0 with
/// another length cannot be spent at all.)
fn is_without_rules(script: &Script) -> bool {
    match script.witness_version() {
        None | Some(WitnessVersion::V0) => false,
        Some(WitnessVersion::V1) => !script.is_p2tr(),
        Some(_) => true,
    }
}
