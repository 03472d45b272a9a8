//! Reads signatures of messages. Of those of BIP322 a transaction is left to verify, which takes Core's
//! engine.

use bitcoin::consensus::encode;
use bitcoin::hashes::Hash;
use bitcoin::opcodes::all::{
    OP_CHECKSIG, OP_CHECKSIGADD, OP_CHECKSIGVERIFY, OP_CODESEPARATOR, OP_ELSE, OP_ENDIF, OP_IF,
    OP_NOTIF,
};
use bitcoin::script::{Builder, Instruction, PushBytesBuf};
use bitcoin::secp256k1::{Message, Secp256k1, ecdsa};
use bitcoin::sign_message::{MessageSignature, signed_msg_hash};
use bitcoin::taproot::LeafVersion;
use bitcoin::{
    EcdsaSighashType, Script, ScriptBuf, Transaction, TxOut, WPubkeyHash, WScriptHash, Witness,
    WitnessVersion,
};
use data_encoding::BASE64;

use super::{FULL, MessageError, PROOF_OF_FUNDS, SIMPLE};
use crate::bip322::{nothing, to_sign, to_spend};

/// Longest signature, in characters: base64 of a transaction with the largest witness that is relayed.
pub const MAX_SIGNATURE: usize = 600_000;

/// What a signature claims.
#[derive(Debug)]
pub enum MessageClaim {
    /// One of the older form, which was verified.
    Verified,
    /// The input of this transaction satisfies the script of this output, if Core's engine says so.
    Transaction(Box<Transaction>, TxOut),
}

/// Bytes of a signature of the older form.
const LEGACY: usize = 65;

/// Reads a signature of a message by the address with this script.
///
/// # Errors
///
/// What is wrong with it.
pub fn read_signature(
    text: &str,
    script: &Script,
    message: &str,
) -> Result<MessageClaim, MessageError> {
    let text = text.trim();
    if text.len() > MAX_SIGNATURE {
        return Err(MessageError::TooLong);
    }
    let decode = |text: &str| BASE64.decode(text.as_bytes()).map_err(|_| MessageError::Encoding);
    if let Some(text) = text.strip_prefix(SIMPLE) {
        return simple(&decode(text)?, script, message, Nested::Refused);
    }
    if let Some(text) = text.strip_prefix(FULL) {
        return full(&decode(text)?, script, message);
    }
    if text.starts_with(PROOF_OF_FUNDS) {
        return Err(MessageError::Inconclusive("it is a proof of funds, which takes a node"));
    }
    let bytes = decode(text)?;
    if script.is_p2pkh() && bytes.len() == LEGACY {
        return legacy(&bytes, script, message);
    }
    match simple(&bytes, script, message, Nested::Read) {
        Err(MessageError::Encoding) => full(&bytes, script, message),
        claim => claim,
    }
}

fn legacy(bytes: &[u8], script: &Script, message: &str) -> Result<MessageClaim, MessageError> {
    let signature = MessageSignature::from_slice(bytes).map_err(|_| MessageError::Encoding)?;
    let digest = Message::from_digest(signed_msg_hash(message).to_byte_array());
    let curve = Secp256k1::verification_only();
    let public = curve.recover_ecdsa(&digest, &signature.signature);
    let public = public.map_err(|_| MessageError::Wrong)?;
    let public = match signature.compressed {
        true => bitcoin::PublicKey::new(public),
        false => bitcoin::PublicKey::new_uncompressed(public),
    };
    match ScriptBuf::new_p2pkh(&public.pubkey_hash()) == *script {
        true => Ok(MessageClaim::Verified),
        false => Err(MessageError::Wrong),
    }
}

/// What becomes of simple signatures by nested addresses. BIP322 has none of them since it has prefixes;
/// before, whoever verified one had to guess the script in the address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nested {
    Read,
    Refused,
}

fn simple(
    bytes: &[u8],
    script: &Script,
    message: &str,
    nested: Nested,
) -> Result<MessageClaim, MessageError> {
    let witness: Witness = encode::deserialize(bytes).map_err(|_| MessageError::Encoding)?;
    let mut transaction = to_sign(&to_spend(script, message.as_bytes()));
    if script.is_p2sh() && nested == Nested::Read {
        let redeem = nested_program(&witness, script).ok_or(MessageError::Wrong)?;
        transaction.input[0].script_sig = Builder::new().push_slice(redeem).into_script();
    } else if !script.is_witness_program() {
        return Err(MessageError::Format);
    }
    transaction.input[0].witness = witness;
    claim(transaction, script)
}

/// The witness program whose P2SH address has this script, of the last part of its witness: a key, or a
/// script.
fn nested_program(witness: &Witness, script: &Script) -> Option<PushBytesBuf> {
    let last = witness.last()?;
    let programs = [
        ScriptBuf::new_p2wpkh(&WPubkeyHash::hash(last)),
        ScriptBuf::new_p2wsh(&WScriptHash::hash(last)),
    ];
    let program = programs.into_iter().find(|program| program.to_p2sh() == *script)?;
    PushBytesBuf::try_from(program.into_bytes()).ok()
}

fn full(bytes: &[u8], script: &Script, message: &str) -> Result<MessageClaim, MessageError> {
    let transaction: Transaction =
        encode::deserialize(bytes).map_err(|_| MessageError::Encoding)?;
    let expected = to_sign(&to_spend(script, message.as_bytes()));
    let outpoint =
        |transaction: &Transaction| transaction.input.first().map(|input| input.previous_output);
    if outpoint(&transaction) != outpoint(&expected) || transaction.output != [nothing()] {
        return Err(MessageError::OtherTransaction);
    }
    if transaction.input.len() > 1 {
        return Err(MessageError::Inconclusive("it is a proof of funds, which takes a node"));
    }
    if !matches!(transaction.version.0, 0 | 2) {
        return Err(MessageError::Inconclusive("the transaction has an unknown version"));
    }
    claim(transaction, script)
}

fn claim(transaction: Transaction, script: &Script) -> Result<MessageClaim, MessageError> {
    let witness = &transaction.input[0].witness;
    if is_nested_upgrade(script, &transaction.input[0].script_sig) {
        return Err(MessageError::Inconclusive("no rule says anything of the script in it"));
    }
    match script.witness_version() {
        None | Some(WitnessVersion::V0) => {
            let pushed = transaction.input[0].script_sig.instructions().map_while(Result::ok);
            let pushed = pushed.filter_map(|part| match part {
                Instruction::PushBytes(bytes) => Some(bytes.as_bytes()),
                Instruction::Op(_) => None,
            });
            let mut all = witness.iter().chain(pushed);
            if !all.all(is_no_signature_or_one_of_all) {
                return Err(MessageError::Signature);
            }
            let redeem = redeem_script(script, &transaction.input[0].script_sig);
            if redeem.unwrap_or(script).is_p2wsh() {
                witness.last().map_or(Ok(()), |last| check_separators(Script::from_bytes(last)))?;
            }
        }
        Some(WitnessVersion::V1) if script.is_p2tr() => check_taproot(witness)?,
        Some(_) => {
            return Err(MessageError::Inconclusive("no rule says anything of such an address"));
        }
    }
    let spent = TxOut { value: bitcoin::Amount::ZERO, script_pubkey: script.to_owned() };
    Ok(MessageClaim::Transaction(Box::new(transaction), spent))
}

/// Whether a P2SH script is spent by a witness program that consensus lets everybody spend: any but one of
/// version 0.
fn is_nested_upgrade(script: &Script, script_sig: &Script) -> bool {
    let redeem = redeem_script(script, script_sig);
    let version = redeem.and_then(Script::witness_version);
    version.is_some_and(|version| version != WitnessVersion::V0)
}

/// The script of a P2SH output: what its input pushes last.
fn redeem_script<'a>(script: &Script, script_sig: &'a Script) -> Option<&'a Script> {
    match script_sig.instructions().last() {
        Some(Ok(Instruction::PushBytes(bytes))) if script.is_p2sh() => {
            Some(Script::from_bytes(bytes.as_bytes()))
        }
        _ => None,
    }
}

/// Refuses `OP_CODESEPARATOR` in a script of a witness; in legacy scripts Core's engine does
/// (`CONST_SCRIPTCODE`).
fn check_separators(script: &Script) -> Result<(), MessageError> {
    let mut parts = script.instructions().map_while(Result::ok);
    match parts.any(|part| part.opcode() == Some(OP_CODESEPARATOR)) {
        true => Err(MessageError::Rule("OP_CODESEPARATOR in the script of a witness".to_owned())),
        false => Ok(()),
    }
}

/// Whether a part of a witness is no ECDSA signature, or one of everything. What is no DER is no signature by
/// consensus; for the only form of one Core's engine is asked.
fn is_no_signature_or_one_of_all(part: &[u8]) -> bool {
    let Some((kind, der)) = part.split_last() else { return true };
    *kind == EcdsaSighashType::All as u8 || ecdsa::Signature::from_der(der).is_err()
}

fn check_taproot(witness: &Witness) -> Result<(), MessageError> {
    /// First byte of an annex (BIP341).
    const ANNEX: u8 = 0x50;
    if witness.len() > 1 && witness.last().is_some_and(|last| last.first() == Some(&ANNEX)) {
        return Err(MessageError::Inconclusive("it has an annex, of which no rule says anything"));
    }
    let signatures = match witness.len() {
        0 => return Err(MessageError::Wrong),
        1 => 1,
        several => {
            let block = witness.last().and_then(|block| block.first()).copied().unwrap_or(0);
            if LeafVersion::from_consensus(block & 0xfe) != Ok(LeafVersion::TapScript) {
                return Err(MessageError::Inconclusive("no rule says anything of such a leaf"));
            }
            let signatures = several - 2;
            let leaf = Script::from_bytes(witness.nth(signatures).unwrap_or_default());
            check_separators(leaf)?;
            check_leaf(leaf)?;
            signatures
        }
    };
    let is_usual = |part: &[u8]| part.len() != 65 || part[64] == EcdsaSighashType::All as u8;
    match witness.iter().take(signatures).all(is_usual) {
        true => Ok(()),
        false => Err(MessageError::Signature),
    }
}

/// Refuses what consensus lets pass for later rules (BIP342): opcodes that succeed, and keys of an unknown
/// kind, which no signature is asked of. A key that the script does not push itself has an unknown one.
fn check_leaf(leaf: &Script) -> Result<(), MessageError> {
    /// Bytes of a key of the known kind.
    const KEY: usize = 32;
    let mut is_key = false;
    // Of each open condition, whether all branches before this one end with a key; `None` before there is
    // another.
    let mut branches: Vec<Option<bool>> = Vec::new();
    for part in leaf.instructions() {
        is_key = match part {
            // Core's engine refuses it.
            Err(_) => return Ok(()),
            Ok(Instruction::PushBytes(bytes)) => bytes.len() == KEY,
            Ok(Instruction::Op(code)) if succeeds(code.to_u8()) => {
                return Err(MessageError::Inconclusive("an opcode in it has no meaning yet"));
            }
            Ok(Instruction::Op(OP_CHECKSIG | OP_CHECKSIGVERIFY | OP_CHECKSIGADD)) if !is_key => {
                return Err(MessageError::Inconclusive("a key in it may be of an unknown kind"));
            }
            Ok(Instruction::Op(OP_IF | OP_NOTIF)) => {
                branches.push(None);
                false
            }
            Ok(Instruction::Op(OP_ELSE)) => {
                if let Some(before) = branches.last_mut() {
                    *before = Some(before.unwrap_or(true) && is_key);
                }
                false
            }
            Ok(Instruction::Op(OP_ENDIF)) => branches.pop().flatten().unwrap_or(false) && is_key,
            Ok(Instruction::Op(_)) => false,
        };
    }
    Ok(())
}

/// BIP342's `OP_SUCCESSx`.
pub(super) fn succeeds(code: u8) -> bool {
    matches!(
        code,
        80 | 98 | 126..=129 | 131..=134 | 137 | 138 | 141 | 142 | 149..=153 | 187..=254
    )
}
