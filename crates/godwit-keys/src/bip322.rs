//! The transactions that stand for a message (BIP322): one that pays to an address and has the message, and
//! one that spends it, whose input has the signature.

use bitcoin::absolute::LockTime;
use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, Script, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};

/// Longest message that is signed, in bytes: more than a person reads.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Tag of the hash of a message (BIP340's way to tag).
const TAG: &[u8] = b"BIP0322-signed-message";

/// What BIP322 signs of a message.
pub fn message_hash(message: &[u8]) -> [u8; 32] {
    let tag = sha256::Hash::hash(TAG).to_byte_array();
    let mut engine = sha256::Hash::engine();
    [&tag[..], &tag, message].iter().for_each(|part| engine.input(part));
    sha256::Hash::from_engine(engine).to_byte_array()
}

/// The transaction that is said to pay to `script`, and has the message.
pub(crate) fn to_spend(script: &Script, message: &[u8]) -> Transaction {
    let hash = PushBytesBuf::from(message_hash(message));
    let input = TxIn {
        previous_output: OutPoint::null(),
        script_sig: Builder::new().push_int(0).push_slice(hash).into_script(),
        sequence: Sequence::ZERO,
        witness: Witness::new(),
    };
    let output = TxOut { value: Amount::ZERO, script_pubkey: script.to_owned() };
    Transaction {
        version: Version(0),
        lock_time: LockTime::ZERO,
        input: vec![input],
        output: vec![output],
    }
}

/// The transaction that is signed.
pub(crate) fn to_sign(to_spend: &Transaction) -> Transaction {
    let input = TxIn {
        previous_output: OutPoint { txid: to_spend.compute_txid(), vout: 0 },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::ZERO,
        witness: Witness::new(),
    };
    Transaction {
        version: Version(0),
        lock_time: LockTime::ZERO,
        input: vec![input],
        output: vec![nothing()],
    }
}

/// The only output of what is signed.
pub(crate) fn nothing() -> TxOut {
    let script_pubkey = Builder::new().push_opcode(OP_RETURN).into_script();
    TxOut { value: Amount::ZERO, script_pubkey }
}
