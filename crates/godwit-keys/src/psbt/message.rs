//! The PSBT of a message (BIP322, "PSBT-based signing"): it is known by what it says, and by what it pays.

use bitcoin::psbt::raw;
use bitcoin::{ScriptBuf, Transaction};

use super::Psbt;
use crate::bip322::{MAX_MESSAGE, nothing, to_spend};

/// `PSBT_GLOBAL_GENERIC_SIGNED_MESSAGE`: the message itself.
const FIELD: u8 = 0x09;

/// The key of the field that has the message.
pub(crate) fn message_field() -> raw::Key {
    raw::Key { type_value: FIELD, key: Vec::new() }
}

/// What a PSBT signs if it is one of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRequest {
    pub message: String,
    /// The script that it is signed by.
    pub script: ScriptBuf,
}

/// The message that a PSBT signs; `None` if it is an ordinary one, or spends anything besides, or if the
/// message is not in it, is no text, or longer than [`MAX_MESSAGE`].
pub fn message_of(psbt: &Psbt) -> Option<MessageRequest> {
    let message = psbt.fields.unknown.get(&message_field());
    let message = message.filter(|message| message.len() <= MAX_MESSAGE)?;
    let message = String::from_utf8(message.clone()).ok()?;
    let transaction = psbt.unsigned_transaction();
    let script = psbt.spent_output_of(0)?.script_pubkey.clone();
    // With another input it may move coins, and has to be looked at as a transaction (BIP322 calls it a proof
    // of funds, which is not made here).
    let [input] = &transaction.input[..] else { return None };
    let outpoint = input.previous_output;
    let txid = to_spend(&script, message.as_bytes()).compute_txid();
    let is_of_it = outpoint.txid == txid && outpoint.vout == 0;
    (is_of_it && signs_a_message(transaction)).then_some(MessageRequest { message, script })
}

/// Whether a signature of this transaction may be one of a message: with such outputs it pays nobody.
pub(super) fn signs_a_message(transaction: &Transaction) -> bool {
    transaction.output == [nothing()]
}
