//! A message as a PSBT, for keys that are not all in one place, and the signature that comes of it.

use bitcoin::Transaction;
use bitcoin::consensus::encode;
use data_encoding::BASE64;

use super::{FULL, MAX_MESSAGE, MessageError, MessageRequest, SIMPLE, of_descriptor};
use crate::psbt::{OwnScript, Psbt};

/// A PSBT of a message by a script of ours, for all of its keys, ours or not.
///
/// # Errors
///
/// If the message is longer than [`MAX_MESSAGE`], or the descriptor derives nothing.
pub fn message_psbt(own: &OwnScript, message: &str) -> Result<Psbt, MessageError> {
    if message.len() > MAX_MESSAGE {
        return Err(MessageError::MessageTooLong);
    }
    of_descriptor(&super::definite(own)?, message)
}

/// The signature of a message that a finished transaction is, in base64: in the simple form where its address
/// has one.
pub fn signature_of(request: &MessageRequest, signed: &Transaction) -> String {
    let input = &signed.input[0];
    let plain =
        signed.version.0 == 0 && signed.lock_time.to_consensus_u32() == 0 && input.sequence.0 == 0;
    match plain && request.script.is_witness_program() {
        true => format!("{SIMPLE}{}", BASE64.encode(&encode::serialize(&input.witness))),
        false => format!("{FULL}{}", BASE64.encode(&encode::serialize(signed))),
    }
}
