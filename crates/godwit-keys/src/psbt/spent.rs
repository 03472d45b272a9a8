//! The output that an input spends: where its amount is known from, what kind of script it has, and
//! whether the scripts in the PSBT belong to it.

use std::error::Error;
use std::fmt;

use bitcoin::opcodes::all::OP_CODESEPARATOR;
use bitcoin::psbt::Input;
use bitcoin::script::{Instruction, Script};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::taproot::{ControlBlock, TapNodeHash, TapTweakHash};
use bitcoin::{Amount, OutPoint, ScriptBuf, TxOut, WitnessVersion, XOnlyPublicKey};

use super::limits::{MAX_REDEEM_SCRIPT_BYTES, MAX_WITNESS_SCRIPT_BYTES};

/// Why an input is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputObjection {
    /// Nothing says which output is spent.
    MissingOutput,
    /// The previous transaction has another txid than the input names.
    PreviousTxidMismatch,
    /// The previous transaction has no output with the input's index.
    NoSuchOutput,
    /// The output in the PSBT is not the one in the previous transaction.
    OutputMismatch,
    /// The whole previous transaction is missing: a legacy signature does not cover the amount.
    MissingPreviousTransaction,
    /// The amount is above 21 million bitcoin.
    AmountOutOfRange,
    /// The redeem script is missing.
    MissingRedeemScript,
    /// The redeem script does not have the hash that the output demands, or the output demands none.
    RedeemScriptMismatch,
    /// The redeem script is longer than consensus lets it be (520 bytes, a push).
    RedeemScriptTooLong,
    /// The witness script is longer than consensus lets it be (10,000 bytes).
    WitnessScriptTooLong,
    /// The witness script is missing.
    MissingWitnessScript,
    /// The witness script does not have the hash that is demanded, or none is demanded.
    WitnessScriptMismatch,
    /// Internal key and Merkle root do not give the output's key.
    TaprootKeyMismatch,
    /// A leaf script with its control block does not lead to the output's key.
    TaprootLeafMismatch,
    /// A witness program of a version that nobody can sign for yet.
    UnknownScript,
    /// `OP_CODESEPARATOR`: what is signed depends on the way through the script.
    CodeSeparator,
    /// The sighash type is none that consensus or policy knows.
    UnknownSighash(u32),
    /// `SIGHASH_SINGLE` without an output at the input's index signs nothing at all.
    SingleWithoutOutput,
    /// A taproot signature commits to the outputs that all inputs spend; one of them is unknown.
    MissingOtherOutput,
    /// Each legacy signature signs the whole transaction, and there would be more to hash than any
    /// transaction that is relayed has.
    TooMuchToHash,
}

impl fmt::Display for InputObjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingOutput => "the output that it spends is missing",
            Self::PreviousTxidMismatch => "the previous transaction has another txid",
            Self::NoSuchOutput => "the previous transaction has no such output",
            Self::OutputMismatch => "amount or script disagree with the previous transaction",
            Self::MissingPreviousTransaction => {
                "the previous transaction is missing, without which the amount is not sure"
            }
            Self::AmountOutOfRange => "the amount is out of range",
            Self::MissingRedeemScript => "the redeem script is missing",
            Self::RedeemScriptMismatch => "the redeem script does not belong to the output",
            Self::RedeemScriptTooLong => "the redeem script is too long",
            Self::WitnessScriptTooLong => "the witness script is too long",
            Self::MissingWitnessScript => "the witness script is missing",
            Self::WitnessScriptMismatch => "the witness script does not belong to the output",
            Self::TaprootKeyMismatch => "the internal key does not give the output's key",
            Self::TaprootLeafMismatch => "a leaf script does not belong to the output",
            Self::UnknownScript => "the script is of an unknown kind",
            Self::CodeSeparator => "scripts with OP_CODESEPARATOR are not signed",
            Self::UnknownSighash(kind) => return write!(f, "unknown sighash type {kind:#x}"),
            Self::SingleWithoutOutput => "SIGHASH_SINGLE without an output beside it",
            Self::MissingOtherOutput => "the output that another input spends is missing",
            Self::TooMuchToHash => "the legacy inputs are too many for a transaction of this size",
        })
    }
}

impl Error for InputObjection {}

impl InputObjection {
    /// The previous transaction is not the one that the input names.
    pub(super) fn is_about_previous_transaction(self) -> bool {
        matches!(self, Self::PreviousTxidMismatch | Self::NoSuchOutput)
    }

    /// Two fields contradict each other: nobody should sign beside that, whoever's input it is.
    pub(super) fn is_lie(self) -> bool {
        self.is_about_previous_transaction()
            || matches!(self, Self::OutputMismatch | Self::AmountOutOfRange)
    }
}

/// How an output is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendKind {
    /// A script of its own in the output: P2PK, bare multisig and others.
    Bare,
    /// P2PKH.
    Pkh,
    /// P2SH with a legacy script.
    Sh,
    /// P2WPKH inside P2SH.
    ShWpkh,
    /// P2WSH inside P2SH.
    ShWsh,
    /// P2WPKH.
    Wpkh,
    /// P2WSH.
    Wsh,
    /// P2TR.
    Tr,
}

impl SpendKind {
    /// Signatures do not cover the amount.
    pub fn is_legacy(self) -> bool {
        matches!(self, Self::Bare | Self::Pkh | Self::Sh)
    }
}

impl fmt::Display for SpendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bare => "bare script",
            Self::Pkh => "P2PKH",
            Self::Sh => "P2SH",
            Self::ShWpkh => "P2SH-P2WPKH",
            Self::ShWsh => "P2SH-P2WSH",
            Self::Wpkh => "P2WPKH",
            Self::Wsh => "P2WSH",
            Self::Tr => "P2TR",
        })
    }
}

/// A spent output whose scripts are known and belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    pub output: TxOut,
    /// Whether it comes from a previous transaction with the right txid.
    pub proven: bool,
    /// How it is spent.
    pub kind: SpendKind,
    /// The script that names the keys; for taproot the output's own.
    pub script: ScriptBuf,
}

/// The output that an input spends and whether its previous transaction proves it, or why it is not known.
/// Found out once for a PSBT, when it is read: that takes a hash of the whole previous transaction.
pub(super) type KnownOutput = Result<(TxOut, bool), InputObjection>;

impl Spent {
    /// The output of an input with everything that belongs to it.
    pub(super) fn of(input: &Input, known: &KnownOutput) -> Result<Self, InputObjection> {
        let (output, proven) = known.clone()?;
        let (kind, script) = classify(&output.script_pubkey, input)?;
        if kind.is_legacy() && !proven {
            return Err(InputObjection::MissingPreviousTransaction);
        }
        Ok(Spent { output, proven, kind, script })
    }
}

/// The output alone, and whether the previous transaction proves it.
pub(super) fn spent_output(input: &Input, outpoint: OutPoint) -> KnownOutput {
    let (output, proven) = match (&input.non_witness_utxo, &input.witness_utxo) {
        (Some(previous), claimed) => {
            #[cfg(test)]
            super::work::note_txid();
            if previous.compute_txid() != outpoint.txid {
                return Err(InputObjection::PreviousTxidMismatch);
            }
            let output = previous.output.get(outpoint.vout as usize);
            let output = output.ok_or(InputObjection::NoSuchOutput)?;
            if claimed.as_ref().is_some_and(|claimed| claimed != output) {
                return Err(InputObjection::OutputMismatch);
            }
            (output, true)
        }
        (None, Some(claimed)) => (claimed, false),
        (None, None) => return Err(InputObjection::MissingOutput),
    };
    if output.value > Amount::MAX_MONEY {
        return Err(InputObjection::AmountOutOfRange);
    }
    Ok((output.clone(), proven))
}

/// The kind of an output's script, and the script that names its keys. An output of this transaction
/// is classified by the same fields as one that it spends.
pub(super) fn classify(
    script: &Script,
    fields: &Input,
) -> Result<(SpendKind, ScriptBuf), InputObjection> {
    let (kind, key_script) = if script.is_p2sh() {
        classify_redeem_script(script, fields)?
    } else if script.is_p2wsh() {
        (SpendKind::Wsh, witness_script(script, fields)?)
    } else if script.is_p2wpkh() {
        (SpendKind::Wpkh, script.to_owned())
    } else if script.is_p2tr() {
        check_taproot(script, fields)?;
        (SpendKind::Tr, script.to_owned())
    } else if script.is_witness_program() {
        return Err(InputObjection::UnknownScript);
    } else if script.is_p2pkh() {
        (SpendKind::Pkh, script.to_owned())
    } else {
        (SpendKind::Bare, script.to_owned())
    };
    let nested = matches!(kind, SpendKind::Sh | SpendKind::ShWpkh | SpendKind::ShWsh);
    if fields.redeem_script.is_some() && !nested {
        return Err(InputObjection::RedeemScriptMismatch);
    }
    let has_witness_script = matches!(kind, SpendKind::Wsh | SpendKind::ShWsh);
    if fields.witness_script.is_some() && !has_witness_script {
        return Err(InputObjection::WitnessScriptMismatch);
    }
    Ok((kind, key_script))
}

fn classify_redeem_script(
    script: &Script,
    fields: &Input,
) -> Result<(SpendKind, ScriptBuf), InputObjection> {
    let redeem = fields.redeem_script.as_ref().ok_or(InputObjection::MissingRedeemScript)?;
    if redeem.to_p2sh() != *script {
        return Err(InputObjection::RedeemScriptMismatch);
    }
    if redeem.len() > MAX_REDEEM_SCRIPT_BYTES {
        return Err(InputObjection::RedeemScriptTooLong);
    }
    if redeem.is_p2wpkh() {
        Ok((SpendKind::ShWpkh, redeem.clone()))
    } else if redeem.is_p2wsh() {
        Ok((SpendKind::ShWsh, witness_script(redeem, fields)?))
    } else if redeem.is_witness_program() {
        Err(InputObjection::UnknownScript)
    } else {
        Ok((SpendKind::Sh, redeem.clone()))
    }
}

fn witness_script(program: &Script, fields: &Input) -> Result<ScriptBuf, InputObjection> {
    let script = fields.witness_script.as_ref().ok_or(InputObjection::MissingWitnessScript)?;
    if script.len() > MAX_WITNESS_SCRIPT_BYTES {
        return Err(InputObjection::WitnessScriptTooLong);
    }
    match script.to_p2wsh() == *program {
        true => Ok(script.clone()),
        false => Err(InputObjection::WitnessScriptMismatch),
    }
}

/// The key of a P2TR output.
pub(super) fn output_key(script: &Script) -> Option<XOnlyPublicKey> {
    let is_taproot = script.witness_version() == Some(WitnessVersion::V1) && script.is_p2tr();
    is_taproot.then(|| XOnlyPublicKey::from_slice(&script.as_bytes()[2..]).ok()).flatten()
}

/// The root of the tree of a taproot output. Where the field is missing, the first leaf and its control block
/// tell it: whether they belong to the output, [`classify`] says.
pub(super) fn merkle_root(fields: &Input) -> Option<TapNodeHash> {
    let from_leaf = || {
        let (block, (leaf, version)) = fields.tap_scripts.first_key_value()?;
        let leaf = TapNodeHash::from_script(leaf, *version);
        Some(
            block
                .merkle_branch
                .iter()
                .fold(leaf, |node, sibling| TapNodeHash::from_node_hashes(node, *sibling)),
        )
    };
    fields.tap_merkle_root.or_else(from_leaf)
}

fn check_taproot(script: &Script, fields: &Input) -> Result<(), InputObjection> {
    let key = output_key(script).ok_or(InputObjection::UnknownScript)?;
    let secp = Secp256k1::verification_only();
    if let Some(internal) = fields.tap_internal_key {
        let tweak = TapTweakHash::from_key_and_tweak(internal, merkle_root(fields));
        let tweaked = internal.add_tweak(&secp, &tweak.to_scalar());
        if !tweaked.is_ok_and(|(tweaked, _)| tweaked == key) {
            return Err(InputObjection::TaprootKeyMismatch);
        }
    }
    let leads_to_key = |block: &ControlBlock, leaf: &Script| {
        fields.tap_internal_key.is_none_or(|internal| internal == block.internal_key)
            && block.verify_taproot_commitment(&secp, key, leaf)
    };
    let scripts = || fields.tap_scripts.iter();
    match scripts()
        .all(|(block, (leaf, version))| *version == block.leaf_version && leads_to_key(block, leaf))
    {
        true => Ok(()),
        false => Err(InputObjection::TaprootLeafMismatch),
    }
}

/// Whether a script has an `OP_CODESEPARATOR`, or cannot be read to its end.
pub(super) fn has_code_separator(script: &Script) -> bool {
    script.instructions().any(|instruction| match instruction {
        Ok(Instruction::Op(opcode)) => opcode == OP_CODESEPARATOR,
        Ok(Instruction::PushBytes(_)) => false,
        Err(_) => true,
    })
}
