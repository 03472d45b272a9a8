//! The combiner: joins what several signers added to copies of one PSBT (BIP174, BIP370).
//!
//! Copies are joined pair by pair, so that fields which nobody here knows are joined too. (`bitcoin`'s
//! combiner drops the previous transaction and the sighash type in some cases, and subtracts lengths
//! of derivation paths in an order that can underflow.)

use std::collections::BTreeSet;

use bitcoin::hashes::Hash;
use bitcoin::{Sequence, Transaction, Txid};

use super::Psbt;
use super::error::{CombineError, FormatError, PsbtMap};
use super::keys_of_input::SigningKey;
use super::limits::MAX_PSBT_BYTES;
use super::pairs::{Maps, Pairs, global};
use super::review::signable;
use super::signatures::{signatures, verify_signature};
use super::uncompressed::drop_other_forms;
use super::version2::combined_modifiable;

/// Input fields in which two copies cannot both be right: spent output, sighash type, scripts,
/// sequence, internal key and Merkle root. Other fields may differ for good reason (two signatures
/// by the same key, two ways to name it); the first copy's is taken.
const INPUT_MUST_AGREE: [u8; 7] = [0x01, 0x03, 0x04, 0x05, 0x10, 0x17, 0x18];
/// The same for outputs: scripts, internal key and tree.
const OUTPUT_MUST_AGREE: [u8; 4] = [0x00, 0x01, 0x05, 0x06];

impl Psbt {
    /// Joins copies of a PSBT. Of two signatures by the same key, one that is not valid gives way to one that
    /// is or cannot be verified. An input that is finished in one of them keeps the signatures that another
    /// one has beside its final scripts: these are not verified here, and may be wrong.
    ///
    /// # Errors
    ///
    /// If they differ in version or transaction, contradict each other, or are too long together.
    pub fn combine(copies: &[Psbt]) -> Result<Psbt, CombineError> {
        let (first, others) = copies.split_first().ok_or(CombineError::Nothing)?;
        let mut maps = first.to_maps();
        let mut bad = first.bad_signatures();
        for (index, copy) in others.iter().enumerate() {
            let index = index + 1;
            if copy.version() != first.version() {
                return Err(CombineError::OtherVersion(index));
            }
            if copy.identity() != first.identity() {
                return Err(CombineError::OtherTransaction(index));
            }
            join(&mut maps, &mut bad, copy.to_maps(), &copy.bad_signatures(), index)?;
        }
        let len = maps.encode().len();
        if len > MAX_PSBT_BYTES {
            return Err(CombineError::Format(FormatError::TooLong(len)));
        }
        let combined = Psbt::from_maps(maps, copies).map_err(CombineError::Format)?;
        // Version 2 lets a copy add sequences, but not under signatures that committed to others.
        let transaction = combined.unsigned_transaction();
        let changed = |copy: &Psbt| copy.unsigned_transaction() != transaction;
        if let Some(index) = copies.iter().position(|copy| changed(copy) && copy.has_signatures()) {
            return Err(CombineError::OtherTransaction(index));
        }
        Ok(combined)
    }

    /// The signatures that are not valid, as far as that can be told.
    fn bad_signatures(&self) -> BadSignatures {
        let mut digests = self.digests();
        let mut bad = BadSignatures::new();
        for (index, input) in self.fields.inputs.iter().enumerate() {
            let Ok(spent) = signable(input, &self.spent[index]) else { continue };
            for (key, sighash, signature) in signatures(input, Some(&spent.output.script_pubkey)) {
                let valid =
                    verify_signature(&mut digests, index, &spent, &key, sighash, &signature);
                if valid == Ok(false) {
                    bad.insert((index, pair_key(&key)));
                }
            }
        }
        bad
    }

    /// BIP370: sequences of version 2 do not count.
    fn identity(&self) -> Txid {
        let mut transaction: Transaction = self.unsigned_transaction().clone();
        if self.version2.is_some() {
            transaction.input.iter_mut().for_each(|input| input.sequence = Sequence::ZERO);
        }
        transaction.compute_txid()
    }

    /// Whether anyone has signed.
    fn has_signatures(&self) -> bool {
        self.fields.inputs.iter().any(|input| {
            !input.partial_sigs.is_empty()
                || !input.tap_script_sigs.is_empty()
                || input.tap_key_sig.is_some()
                || input.final_script_sig.is_some()
                || input.final_script_witness.is_some()
        })
    }
}

/// Input and key of the pair.
type BadSignatures = BTreeSet<(usize, Vec<u8>)>;

/// The key of the pair that holds a signature: `PSBT_IN_PARTIAL_SIG`, `PSBT_IN_TAP_KEY_SIG`,
/// `PSBT_IN_TAP_SCRIPT_SIG`.
fn pair_key(key: &SigningKey) -> Vec<u8> {
    match key {
        SigningKey::Ecdsa(key) => [&[0x02], &key.to_bytes()[..]].concat(),
        SigningKey::Internal(_) => vec![0x13],
        SigningKey::Leaf(key, leaf) => {
            [&[0x14], &key.serialize()[..], leaf.as_byte_array()].concat()
        }
    }
}

/// `bad`: signatures of `into` that are not valid; `also_bad`: those of `other`.
fn join(
    into: &mut Maps,
    bad: &mut BadSignatures,
    other: Maps,
    also_bad: &BadSignatures,
    psbt: usize,
) -> Result<(), CombineError> {
    let modifiable = [global::TX_MODIFIABLE];
    let flags = |pairs: &Pairs| pairs.get(&modifiable[..]).map(|value| value[0]);
    if let (ours, theirs) = (flags(&into.global), flags(&other.global))
        && ours.or(theirs).is_some()
    {
        let flags = combined_modifiable(ours.unwrap_or(0), theirs.unwrap_or(0));
        into.global.insert(modifiable.to_vec(), vec![flags]);
    }
    // The transaction is the same; anything else may differ.
    for (key, value) in other.global {
        into.global.entry(key).or_insert(value);
    }
    for (index, (ours, mut theirs)) in into.inputs.iter_mut().zip(other.inputs).enumerate() {
        drop_other_forms(ours, &mut theirs, true);
        for (key, value) in &theirs {
            let place = (index, key.clone());
            let is_bad = also_bad.contains(&place);
            if bad.contains(&place) && !is_bad {
                ours.insert(key.clone(), value.clone());
                bad.remove(&place);
            } else if is_bad && !ours.contains_key(key) {
                bad.insert(place);
            }
        }
        join_map(ours, theirs, &INPUT_MUST_AGREE).map_err(|key| CombineError::Conflict {
            psbt,
            map: PsbtMap::Input(index),
            key,
        })?;
    }
    for (index, (ours, mut theirs)) in into.outputs.iter_mut().zip(other.outputs).enumerate() {
        drop_other_forms(ours, &mut theirs, false);
        join_map(ours, theirs, &OUTPUT_MUST_AGREE).map_err(|key| CombineError::Conflict {
            psbt,
            map: PsbtMap::Output(index),
            key,
        })?;
    }
    Ok(())
}

/// Adds the pairs that are missing; gives the key of one that must agree and does not.
fn join_map(ours: &mut Pairs, theirs: Pairs, must_agree: &[u8]) -> Result<(), Vec<u8>> {
    for (key, value) in theirs {
        match ours.get(&key) {
            None => {
                ours.insert(key, value);
            }
            Some(present) if *present != value && must_agree.contains(&key[0]) => return Err(key),
            Some(_) => {}
        }
    }
    Ok(())
}
