//! Partially signed transactions: BIP174 (version 0), BIP370 (version 2), BIP371 (taproot).
//!
//! A PSBT passes through these steps, each in a module of its own: bytes or base64 ([`text`]) are cut
//! into maps of key-value pairs (`pairs`), become fields (`version2`, and `bitcoin`'s own decoder),
//! are looked at (`review`), signed (`sign`), joined with other signers' (`combine`), given their
//! final scripts (`finalize`) and become a network transaction.
//!
//! Why not a library alone: `bitcoin` 0.32 reads version 0 only; `psbt-v2` 0.3 has version 2, but with
//! field types of its own on both versions and a second, older `miniscript` as its finalizer. The two
//! versions differ only in how they write the unsigned transaction. So version 2 is rewritten pair by
//! pair into version 0 and back; every other field is read and written by `bitcoin`, and
//! `miniscript`'s finalizer works on both.
//!
//! A PSBT is private (it tells whose coins belong together) but not secret: it lies in plain memory.

mod combine;
mod cosigners;
mod error;
mod fee;
mod fields;
mod finalize;
mod keys_of_input;
mod limits;
mod lookup;
mod message;
mod ours;
mod outputs;
mod own_scripts;
mod pairs;
mod review;
mod satisfaction;
mod sighash;
mod sign;
mod signatures;
mod spent;
pub mod text;
mod uncompressed;
mod version2;
#[cfg(test)]
mod work;

use std::collections::HashSet;

use bitcoin::psbt::Input;
use bitcoin::{OutPoint, Transaction, TxOut};

pub(crate) use cosigners::source_of;
pub use cosigners::{KeyStanding, Standing, standings};
pub use error::{CombineError, FinalizeError, FormatError, PsbtMap};
pub use fee::{Fee, FeeLimits, FeeObjection};
pub use finalize::{Finished, Unfinished};
pub use keys_of_input::{KeyOfInput, SigningKey};
pub use limits::{
    DEFAULT_MAX_FEE, DEFAULT_MAX_FEE_RATE, DEFAULT_MAX_FEE_SHARE, GAP_LIMIT, MAX_DERIVATIONS,
    MAX_INPUTS, MAX_OUTPUTS, MAX_PAIRS, MAX_PSBT_BYTES, MAX_SIGNATURES,
};
pub use lookup::{Found, KeyLookup, look_up_in};
pub(crate) use message::message_field;
pub use message::{MessageRequest, message_of};
pub use ours::Ours;
pub use outputs::OutputObjection;
pub use own_scripts::{Branch, MAX_OWN_INDEX, OwnScript, OwnScripts, SEARCHED};
pub use review::{
    InputReview, InputState, KeyReview, OutputReview, Owns, Review, SignatureReview, Warning,
};
pub use sighash::Sighash;
pub use sign::{SignError, SignPolicy, Signed};
pub use spent::{InputObjection, SpendKind, Spent};

use pairs::{Maps, Pairs};
use spent::{KnownOutput, spent_output};
use uncompressed::Uncompressed;
use version2::Version2;

/// A partially signed transaction of version 0 or 2. Unknown and proprietary fields are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Psbt {
    /// Every field that both versions have; a version 2's transaction is computed from its fields.
    fields: bitcoin::Psbt,
    /// What only version 2 says.
    version2: Option<Version2>,
    /// `PSBT_OUT_TAP_TREE` of each output as it was written: `bitcoin` writes the leaves of the same
    /// tree in another order.
    tap_trees: Vec<Option<Vec<u8>>>,
    /// The derivations whose keys are written in 65 bytes, of which `bitcoin` keeps 33.
    uncompressed: Uncompressed,
    /// What each input spends. Nothing changes the fields that say so.
    spent: Vec<KnownOutput>,
}

/// `PSBT_OUT_TAP_TREE` (BIP371).
const OUTPUT_TAP_TREE: u8 = 0x06;

impl Psbt {
    /// Reads the binary form.
    ///
    /// # Errors
    ///
    /// The first thing that the BIPs forbid, that exceeds a limit, or that could not be written back
    /// as it was.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let maps = Maps::decode(bytes)?;
        Self::from_maps(maps, &[])
    }

    /// What is the same in one of `copies` is not hashed again.
    fn from_maps(maps: Maps, copies: &[Psbt]) -> Result<Self, FormatError> {
        fields::check(&maps)?;
        let mut short = maps.clone();
        let uncompressed = Uncompressed::take(&mut short)?;
        let (version0, version2) = version2::split(short)?;
        let fields = bitcoin::Psbt::deserialize(&version0.encode())?;
        let spent = spent_outputs(&fields, copies)?;
        let tap_tree = |pairs: &Pairs| pairs.get(&[OUTPUT_TAP_TREE][..]).cloned();
        let tap_trees = maps.outputs.iter().map(tap_tree).collect();
        let psbt = Psbt { fields, version2, tap_trees, uncompressed, spent };
        match psbt.to_maps().first_difference(&maps) {
            Some((map, key)) => Err(FormatError::NotPreserved { map, key }),
            None => Ok(psbt),
        }
    }

    /// The same PSBT as version 2.
    #[cfg(test)]
    fn into_version2(self) -> Self {
        let version2 = Some(Version2::of(&self.fields.unsigned_tx));
        Psbt { version2, ..self }
    }

    /// The binary form, in the version that was read. New signatures may make it longer than
    /// [`MAX_PSBT_BYTES`], which nobody reads.
    pub fn encode(&self) -> Vec<u8> {
        self.to_maps().encode()
    }

    fn to_maps(&self) -> Maps {
        let bytes = self.fields.serialize();
        let mut version0 = Maps::decode_own(&bytes);
        for (pairs, tree) in version0.outputs.iter_mut().zip(&self.tap_trees) {
            if let Some(tree) = tree {
                pairs.insert(vec![OUTPUT_TAP_TREE], tree.clone());
            }
        }
        self.uncompressed.restore(&mut version0);
        match &self.version2 {
            Some(version2) => version2.join(version0, &self.fields.unsigned_tx),
            None => version0,
        }
    }

    /// 0 or 2.
    pub fn version(&self) -> u32 {
        match self.version2 {
            Some(_) => 2,
            None => 0,
        }
    }

    /// The transaction without scripts and witnesses, its lock time computed (BIP370).
    pub fn unsigned_transaction(&self) -> &Transaction {
        &self.fields.unsigned_tx
    }

    /// What another PSBT's input spends, if the same one of this one says the same of it.
    fn known_of(&self, index: usize, input: &Input, outpoint: OutPoint) -> Option<KnownOutput> {
        let ours = self.fields.inputs.get(index)?;
        let same = self.fields.unsigned_tx.input[index].previous_output == outpoint
            && ours.witness_utxo == input.witness_utxo
            && ours.non_witness_utxo == input.non_witness_utxo;
        same.then(|| self.spent[index].clone())
    }

    /// The output that an input spends, where it is known and nothing contradicts it.
    pub fn spent_output_of(&self, input: usize) -> Option<&TxOut> {
        self.spent.get(input)?.as_ref().ok().map(|(output, _)| output)
    }

    /// The fields of each input.
    pub fn inputs(&self) -> &[Input] {
        &self.fields.inputs
    }
}

/// What each input spends. No output is spent twice, and previous transactions are those that the inputs
/// name.
fn spent_outputs(fields: &bitcoin::Psbt, copies: &[Psbt]) -> Result<Vec<KnownOutput>, FormatError> {
    let mut outpoints = HashSet::new();
    let mut outputs = Vec::with_capacity(fields.inputs.len());
    for (index, (input, tx_in)) in fields.inputs.iter().zip(&fields.unsigned_tx.input).enumerate() {
        let outpoint = tx_in.previous_output;
        if !outpoints.insert(outpoint) {
            return Err(FormatError::DuplicateInput(index));
        }
        let known = copies.iter().find_map(|copy| copy.known_of(index, input, outpoint));
        let known = known.unwrap_or_else(|| spent_output(input, outpoint));
        if let Err(objection) = known
            && objection.is_about_previous_transaction()
        {
            return Err(FormatError::Contradiction(index, objection));
        }
        outputs.push(known);
    }
    Ok(outputs)
}

#[cfg(test)]
mod tests;
