//! Whether what a PSBT says of its outputs is true. What it says wrongly is there to be believed: that change
//! comes back to us.

use std::error::Error;
use std::fmt;

use bitcoin::TxOut;
use bitcoin::psbt::Output;

use super::Psbt;
use super::keys_of_input::{SigningKey, keys_of_input};
use super::lookup::{Found, KeyLookup};
use super::review::as_input;
use super::spent::{InputObjection, Spent, classify};
use crate::error::KeyError;

/// What is wrong with an output's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputObjection {
    /// A script or internal key does not belong to the output.
    Fields(InputObjection),
    /// A key of ours that is named is not in the output's script.
    KeyNotInScript,
    /// A public key is not the one that ours has at its path.
    OtherKey,
}

impl fmt::Display for OutputObjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fields(objection) => objection.fmt(f),
            Self::KeyNotInScript => {
                f.write_str("it names a key of ours that its script does not have")
            }
            Self::OtherKey => {
                f.write_str("it names a key that is not the one of ours at that path")
            }
        }
    }
}

impl Error for OutputObjection {}

impl Psbt {
    /// The outputs whose fields do not fit them, and why.
    ///
    /// # Errors
    ///
    /// The first one of `keys`.
    pub fn unfitting_outputs(
        &self,
        keys: &mut KeyLookup<'_>,
    ) -> Result<Vec<(usize, OutputObjection)>, KeyError> {
        let outputs = self.fields.unsigned_tx.output.iter().zip(&self.fields.outputs);
        let mut unfitting = Vec::new();
        for (index, (tx_out, output)) in outputs.enumerate() {
            unfitting.extend(objection(tx_out, output, keys)?.map(|objection| (index, objection)));
        }
        Ok(unfitting)
    }
}

fn objection(
    tx_out: &TxOut,
    output: &Output,
    keys: &mut KeyLookup<'_>,
) -> Result<Option<OutputObjection>, KeyError> {
    let fields = as_input(output);
    let in_script = match classify(&tx_out.script_pubkey, &fields) {
        Ok((kind, script)) => {
            let spent = Spent { output: tx_out.clone(), proven: true, kind, script };
            keys_of_input(&fields, &spent)
        }
        // Of somebody else's output nothing need be known.
        Err(
            InputObjection::MissingRedeemScript
            | InputObjection::MissingWitnessScript
            | InputObjection::UnknownScript,
        ) if output.redeem_script.is_none() && output.witness_script.is_none() => Vec::new(),
        Err(InputObjection::MissingWitnessScript) if output.witness_script.is_none() => Vec::new(),
        Err(objection) => return Ok(Some(OutputObjection::Fields(objection))),
    };
    let ecdsa = output.bip32_derivation.iter();
    let ecdsa = ecdsa.map(|(key, source)| (SigningKey::Ecdsa((*key).into()), source));
    let taproot = output.tap_key_origins.iter();
    let taproot = taproot.map(|(key, (_, source))| (SigningKey::Internal(*key), source));
    for (key, source) in ecdsa.chain(taproot) {
        match keys(source, &key)? {
            Found::NotOurs => {}
            Found::OtherKey => return Ok(Some(OutputObjection::OtherKey)),
            Found::Ours(_) if in_script.iter().any(|named| same_point(&named.key, &key)) => {}
            Found::Ours(_) => return Ok(Some(OutputObjection::KeyNotInScript)),
        }
    }
    Ok(None)
}

/// Whether two keys are one, whatever they sign and however they are written.
fn same_point(one: &SigningKey, other: &SigningKey) -> bool {
    let x = |key: &SigningKey| match key {
        SigningKey::Ecdsa(key) => key.inner.x_only_public_key().0,
        SigningKey::Internal(key) | SigningKey::Leaf(key, _) => *key,
    };
    x(one) == x(other)
}
