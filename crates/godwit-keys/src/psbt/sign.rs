//! The signer (BIP174), and what it refuses.
//!
//! Everything is checked before the first signature, and a PSBT that is refused stays as it was. Keys
//! come from a closure, so that this module sees no more of a private key than its signatures.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;

use bitcoin::taproot::TapTweakHash;
use bitcoin::{ScriptBuf, ecdsa, taproot};

use super::Psbt;
use super::fee::{FeeLimits, FeeObjection};
use super::finalize::is_finished;
use super::keys_of_input::{KeyOfInput, SigningKey, keys_of_input};
use super::limits::{DEFAULT_MAX_FEE_SHARE, GAP_LIMIT};
use super::lookup::{Found, KeyLookup};
use super::message::{message_of, signs_a_message};
use super::outputs::OutputObjection;
use super::own_scripts::MAX_OWN_INDEX;
use super::review::signable;
use super::sighash::Sighash;
use super::signatures::signatures;
use super::spent::{InputObjection, SpendKind, Spent, merkle_root};
use crate::error::KeyError;
use crate::private_key::PrivateKey;

/// What the user allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignPolicy<'a> {
    /// Highest fee.
    pub fee: FeeLimits,
    /// Sign with sighash types that do not commit to all inputs and outputs.
    pub any_sighash: bool,
    /// Sign our inputs beside others'.
    pub foreign_inputs: bool,
    /// Sign an input with a key of ours that no descriptor derives, beside others'.
    pub any_inputs: bool,
    /// Sign beside an input whose amount nothing proves.
    pub unproven_amounts: bool,
    /// Scripts of outputs of which the PSBT may say what does not fit, or name a key of ours though no
    /// descriptor derives it. What is said of any other output is held against it all the same.
    pub any_outputs: &'a [ScriptBuf],
    /// Scripts of outputs of ours that may lie behind the gap; no other one may.
    pub any_index: &'a [ScriptBuf],
    /// Highest fee as a part of what is paid, in hundredths.
    pub fee_share: u64,
}

impl Default for SignPolicy<'_> {
    fn default() -> Self {
        SignPolicy {
            fee: FeeLimits::default(),
            any_sighash: false,
            foreign_inputs: false,
            any_inputs: false,
            unproven_amounts: false,
            any_outputs: &[],
            any_index: &[],
            fee_share: DEFAULT_MAX_FEE_SHARE,
        }
    }
}

/// A new signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// Index of the input.
    pub input: usize,
    /// The key that signed.
    pub key: KeyOfInput,
    /// What the signature commits to.
    pub sighash: Sighash,
}

/// Why nothing was signed.
#[derive(Debug, PartialEq, Eq)]
pub enum SignError {
    /// The private keys cannot be used.
    Key(KeyError),
    /// An input is wrong or incomplete.
    Input(usize, InputObjection),
    /// An input asks for a sighash type that leaves parts of the transaction open.
    UnusualSighash(usize, Sighash),
    /// An input has a signature of another type than it asks for (Core's `SIGHASH_MISMATCH`).
    SighashMismatch(usize),
    /// None of an input's keys is ours.
    Foreign(usize),
    /// An input is finished, so that nothing tells any more whose it is.
    Finished(usize),
    /// A key is not the one that our key has at the path that is given for it, and no other key of the
    /// input is ours.
    WrongDerivation(usize),
    /// No previous transaction proves the amount of this input, and a signature of ours for another one
    /// would be valid though it is a lie (CVE-2020-14199).
    UnprovenAmount(usize),
    /// What is said of an output does not fit it.
    Output(usize, OutputObjection),
    /// An input is ours, and the PSBT does not let us sign it beside the others.
    Hidden(usize),
    /// An input has a key of ours, no descriptor derives it, and there are others' inputs.
    UnderivedInput(usize),
    /// An output names a key of ours, and no descriptor derives it.
    Underived(usize),
    /// An output of ours lies where a restored wallet would not look.
    Far(usize),
    Fee(FeeObjection),
    /// The transaction pays nobody: its signatures are those of a message (BIP322), which is not in the PSBT.
    UnshownMessage,
    /// None of the inputs is ours.
    NothingToSign,
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Input(index, objection) => write!(f, "input {index}: {objection}"),
            Self::UnusualSighash(index, kind) => {
                write!(f, "input {index}: {kind} leaves parts of the transaction open")
            }
            Self::SighashMismatch(index) => {
                write!(f, "input {index}: a signature is of another sighash type than is asked for")
            }
            Self::Foreign(index) => write!(f, "input {index}: none of its keys is ours"),
            Self::Finished(index) => {
                write!(f, "input {index}: it is finished, and nothing tells any more whose it is")
            }
            Self::WrongDerivation(index) => {
                write!(f, "input {index}: a public key is not the one at its derivation path")
            }
            Self::UnprovenAmount(index) => write!(
                f,
                "input {index}: no previous transaction proves its amount, and another input would \
                 be signed for good if it is a lie"
            ),
            Self::Output(index, objection) => write!(f, "output {index}: {objection}"),
            Self::Hidden(index) => write!(
                f,
                "input {index}: it is ours, and the PSBT hides that, or says that it is finished: the \
                 same transaction could be shown again with another one hidden"
            ),
            Self::UnderivedInput(index) => write!(
                f,
                "input {index}: it has a key of ours, but no descriptor of the key file derives it, so that \
                 nothing tells whether inputs of others are ours too"
            ),
            Self::Underived(index) => write!(
                f,
                "output {index}: it names a key of ours, but no descriptor of the key file derives it \
                 at an index up to {MAX_OWN_INDEX}"
            ),
            Self::Far(index) => write!(
                f,
                "output {index}: its index is more than {GAP_LIMIT} above those that are spent or were \
                 given out of its account, and no wallet that is restored looks there"
            ),
            Self::Fee(objection) => objection.fmt(f),
            Self::UnshownMessage => f.write_str(
                "it pays nobody: what is signed is a message (BIP322), and which one the PSBT does not say",
            ),
            Self::NothingToSign => f.write_str("none of the keys is ours"),
        }
    }
}

impl Error for SignError {}

impl From<KeyError> for SignError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// A signature to make.
struct Task {
    input: usize,
    spent: Spent,
    key: KeyOfInput,
    private: PrivateKey,
    sighash: Sighash,
}

impl Psbt {
    /// Signs every input with every key of ours that its script asks for.
    ///
    /// # Errors
    ///
    /// If a careful signer would not sign; see [`SignError`]. Nothing is signed then.
    pub fn sign(
        &mut self,
        keys: &mut KeyLookup<'_>,
        policy: &SignPolicy<'_>,
    ) -> Result<Vec<Signed>, SignError> {
        let tasks = self.tasks(keys, policy)?;
        let mut digests = self.digests();
        let mut made = Vec::with_capacity(tasks.len());
        for task in &tasks {
            let digest = match (task.key.key, task.sighash) {
                (_, Sighash::Ecdsa(kind)) => digests.ecdsa(task.input, &task.spent, kind),
                (SigningKey::Leaf(_, leaf), Sighash::Taproot(kind)) => {
                    digests.taproot(task.input, Some(leaf), kind)
                }
                (_, Sighash::Taproot(kind)) => digests.taproot(task.input, None, kind),
            };
            made.push(digest.map_err(|objection| SignError::Input(task.input, objection))?);
        }
        // All digests exist before the first signature is made, all signatures before one is added.
        let mut signatures = Vec::with_capacity(tasks.len());
        for (task, digest) in tasks.iter().zip(&made) {
            signatures.push(self.signature(task, digest)?);
        }
        let signed = tasks.into_iter().zip(signatures);
        Ok(signed.map(|(task, signature)| self.add(task, signature)).collect())
    }

    /// Whether [`sign`](Self::sign) would sign.
    ///
    /// # Errors
    ///
    /// If it would not.
    pub fn check(
        &self,
        keys: &mut KeyLookup<'_>,
        policy: &SignPolicy<'_>,
    ) -> Result<(), SignError> {
        self.tasks(keys, policy).map(|_| ())
    }

    /// Everything that is to be signed, after everything was checked.
    fn tasks(
        &self,
        keys: &mut KeyLookup<'_>,
        policy: &SignPolicy<'_>,
    ) -> Result<Vec<Task>, SignError> {
        if signs_a_message(&self.fields.unsigned_tx) && message_of(self).is_none() {
            return Err(SignError::UnshownMessage);
        }
        let mut tasks = Vec::new();
        for index in 0..self.fields.inputs.len() {
            let of_input = self.tasks_of_input(index, keys, policy)?;
            if of_input.is_empty() && !policy.foreign_inputs {
                return Err(match is_finished(&self.fields.inputs[index]) {
                    true => SignError::Finished(index),
                    false => SignError::Foreign(index),
                });
            }
            tasks.extend(of_input);
        }
        if tasks.is_empty() {
            return Err(SignError::NothingToSign);
        }
        if let (Some(index), false) = (self.believed(&tasks), policy.unproven_amounts) {
            return Err(SignError::UnprovenAmount(index));
        }
        let outputs = &self.fields.unsigned_tx.output;
        let permitted = |index: usize| policy.any_outputs.contains(&outputs[index].script_pubkey);
        let mut unfitting = self.unfitting_outputs(keys)?.into_iter();
        if let Some((index, objection)) = unfitting.find(|(index, _)| !permitted(*index)) {
            return Err(SignError::Output(index, objection));
        }
        let signed: HashSet<usize> = tasks.iter().map(|task| task.input).collect();
        let fee = self.fee_counting(|index| signed.contains(&index)).map_err(SignError::Fee)?;
        fee.check(&policy.fee).map_err(SignError::Fee)?;
        Ok(tasks)
    }

    /// An input whose amount is believed, beside another one that we sign without its amount.
    ///
    /// Somebody may show the same transaction twice, with a lie about one input and then about another,
    /// and keep of each time the signature that is valid: the fee seemed low both times. A signature of
    /// segwit version 0 covers the amount of its own input, a legacy one none, a taproot one all unless
    /// anyone can pay. What kind of output the other input spends, and whose it is, may be part of the
    /// lie, so it makes no difference.
    /// Bitcoin Core leaves previous transactions away under the same condition
    /// (`RemoveUnnecessaryTransactions`).
    fn believed(&self, tasks: &[Task]) -> Option<usize> {
        let signed_regardless = |index: usize| {
            let mut others = tasks.iter().filter(|task| task.input != index);
            others.any(|task| task.spent.kind != SpendKind::Tr || task.sighash.anyone_can_pay())
        };
        let inputs = &self.fields.inputs;
        (0..inputs.len()).find(|index| {
            let believed = &inputs[*index];
            believed.witness_utxo.is_some()
                && believed.non_witness_utxo.is_none()
                && signed_regardless(*index)
        })
    }

    /// What we sign of an input; nothing if it is not ours or finished by somebody.
    fn tasks_of_input(
        &self,
        index: usize,
        keys: &mut KeyLookup<'_>,
        policy: &SignPolicy<'_>,
    ) -> Result<Vec<Task>, SignError> {
        let input = &self.fields.inputs[index];
        let spent = match signable(input, &self.spent[index]) {
            Ok(spent) => spent,
            Err(objection) if objection.is_lie() || self.names_ours(index, keys)? => {
                return Err(SignError::Input(index, objection));
            }
            Err(_) => return Ok(Vec::new()),
        };
        if is_finished(input) {
            return Ok(Vec::new());
        }
        let kind = Sighash::of(input, spent.kind);
        let sighash = kind.map_err(|objection| SignError::Input(index, objection))?;
        let mut tasks = Vec::new();
        let mut misplaced = false;
        for key in keys_of_input(input, &spent) {
            let private = match keys(&key.source, &key.key)? {
                Found::NotOurs => continue,
                // A cosigner may stand there with a fingerprint that was made up.
                Found::OtherKey => {
                    misplaced = true;
                    continue;
                }
                Found::Ours(private) => private,
            };
            tasks.push(Task { input: index, spent: spent.clone(), key, private, sighash });
        }
        if tasks.is_empty() && misplaced {
            return Err(SignError::WrongDerivation(index));
        }
        if !tasks.is_empty()
            && signatures(input, Some(&spent.output.script_pubkey))
                .any(|(_, kind, _)| kind != sighash)
        {
            return Err(SignError::SighashMismatch(index));
        }
        if !tasks.is_empty() && !sighash.is_usual() && !policy.any_sighash {
            return Err(SignError::UnusualSighash(index, sighash));
        }
        // The key path is the smaller and more private way to spend; one signature is enough for it.
        if tasks.iter().any(|task| matches!(task.key.key, SigningKey::Internal(_))) {
            tasks.retain(|task| matches!(task.key.key, SigningKey::Internal(_)));
        }
        Ok(tasks)
    }

    /// Whether an input that cannot be signed names a key of ours.
    fn names_ours(&self, index: usize, keys: &mut KeyLookup<'_>) -> Result<bool, SignError> {
        let input = &self.fields.inputs[index];
        let ecdsa = input.bip32_derivation.iter();
        let ecdsa = ecdsa.map(|(key, source)| (SigningKey::Ecdsa((*key).into()), source));
        let taproot = input.tap_key_origins.iter();
        let taproot = taproot.map(|(key, (_, source))| (SigningKey::Internal(*key), source));
        for (key, source) in ecdsa.chain(taproot) {
            if !matches!(keys(source, &key)?, Found::NotOurs) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn signature(&self, task: &Task, digest: &[u8; 32]) -> Result<Signature, KeyError> {
        let merkle_root = merkle_root(&self.fields.inputs[task.input]);
        Ok(match (task.key.key, task.sighash) {
            (SigningKey::Internal(key), Sighash::Taproot(sighash_type)) => {
                let tweak = TapTweakHash::from_key_and_tweak(key, merkle_root).to_scalar();
                let signature = task.private.sign_schnorr(digest, Some(&tweak.to_be_bytes()))?;
                Signature::Taproot(taproot::Signature { signature, sighash_type })
            }
            (_, Sighash::Taproot(sighash_type)) => {
                let signature = task.private.sign_schnorr(digest, None)?;
                Signature::Taproot(taproot::Signature { signature, sighash_type })
            }
            (_, Sighash::Ecdsa(sighash_type)) => {
                let signature = task.private.sign_ecdsa(digest)?;
                Signature::Ecdsa(ecdsa::Signature { signature, sighash_type })
            }
        })
    }

    fn add(&mut self, task: Task, signature: Signature) -> Signed {
        let input = &mut self.fields.inputs[task.input];
        match (task.key.key, signature) {
            (SigningKey::Ecdsa(key), Signature::Ecdsa(signature)) => {
                input.partial_sigs.insert(key, signature);
            }
            (SigningKey::Leaf(key, leaf), Signature::Taproot(signature)) => {
                input.tap_script_sigs.insert((key, leaf), signature);
            }
            (SigningKey::Internal(_), Signature::Taproot(signature)) => {
                input.tap_key_sig = Some(signature);
            }
            _ => unreachable!("a taproot key signs by the scheme of taproot, and no other does"),
        }
        let sighash = task.sighash;
        if let Some(version2) = &mut self.version2 {
            version2.note_signature(sighash);
        }
        Signed { input: task.input, key: task.key, sighash }
    }
}

enum Signature {
    Ecdsa(ecdsa::Signature),
    Taproot(taproot::Signature),
}
