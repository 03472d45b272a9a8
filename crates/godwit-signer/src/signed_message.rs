//! A signed message, whether it comes by itself or in a PSBT: how it is shown, so that what is read is what
//! is signed, and what is a signature of it.

use bitcoin::consensus::encode;
use bitcoin::{Address, Script, Transaction, TxOut};
use godwit_engine::{PolicyStage, PreparedTx, SpentOutput, check_policy};
use godwit_keys::message::{MessageClaim, MessageError, message_hash, read_signature};
use godwit_keys::psbt::{Branch, OwnScript};
use godwit_primitives::ScriptFlags;

/// Which message it is: what stands below a long one, where its beginning has scrolled away.
pub(crate) fn which(message: &str, address: &str, hash: &str) -> String {
    format!(
        "message of {} bytes in {} lines by {address}, {hash}",
        message.len(),
        message.split('\n').count(),
    )
}

/// Where the key file has the script that it is signed by, or what else is ours.
pub(crate) fn place(own: &OwnScript) -> String {
    let OwnScript { entry, place, descriptor, index, .. } = own;
    let branch = match own.branch() {
        Branch::Receive => ", to receive",
        Branch::Change => ", change",
        Branch::Other => "",
    };
    let index = index.map_or(String::new(), |index| format!(", index {index}"));
    format!("  ours by entry {entry}, descriptor {place}{branch}{index}: {descriptor}")
}

/// A message that a PSBT signs: which one it is, and its lines.
pub(crate) fn of_psbt(message: &str, address: Option<&Address>) -> (String, String) {
    let address = address.map_or("a script without an address".to_owned(), Address::to_string);
    let hash = hash("BIP322", &message_hash(message.as_bytes()));
    (which(message, &address, &hash), lines(message))
}

pub(crate) fn hash(format: &str, digest: &[u8; 32]) -> String {
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{format}, hash {digits}")
}

/// Where a line of a message is broken, so that a terminal breaks none by itself: what it would put at the
/// left edge could look like another part of what is shown. In columns, of which other letters than ASCII's
/// may take two.
const WIDTH: usize = 72;

/// The lines of a message behind a bar, and what is too long for one behind a plus. No two messages are shown
/// alike.
pub(crate) fn lines(message: &str) -> String {
    let mut text = String::new();
    for line in message.split('\n') {
        text += "\n  | ";
        let mut width = 0;
        for character in line.chars() {
            let part: String = shown(character).collect();
            let columns: usize = part.chars().map(|part| if part.is_ascii() { 1 } else { 2 }).sum();
            width += columns;
            if width > WIDTH {
                text += "\n  + ";
                width = columns;
            }
            text += &part;
        }
    }
    text
}

/// A character as it is, or its number: what moves the cursor or hides what stands beside it is no text. A
/// backslash has its number too, so that no text looks like a number.
fn shown(character: char) -> impl Iterator<Item = char> {
    let plain = !character.is_control() && character.escape_debug().count() == 1
        || matches!(character, '"' | '\'');
    let (plain, number) = match plain {
        true => (Some(character), None),
        false => (None, Some(character.escape_unicode())),
    };
    plain.into_iter().chain(number.into_iter().flatten())
}

/// Whether `signature` is one of `message` by `script`. Its transaction, where it is one that was checked
/// here: that may be valid only at a time.
pub(crate) fn verified(
    signature: &str,
    script: &Script,
    message: &str,
) -> Result<Option<Transaction>, MessageError> {
    match read_signature(signature, script, message)? {
        MessageClaim::Verified => Ok(None),
        MessageClaim::Transaction(transaction, spent) => {
            check(&transaction, &spent)?;
            Ok(Some(*transaction))
        }
    }
}

/// Core's engine decides: by consensus first, then by the flags of BIP322's rules.
fn check(transaction: &Transaction, spent: &TxOut) -> Result<(), MessageError> {
    let bytes = encode::serialize(transaction);
    let outputs = [SpentOutput { value: 0, script_pubkey: spent.script_pubkey.as_bytes() }];
    let prepared = PreparedTx::new(&bytes, outputs.into_iter()).map_err(|_| MessageError::Wrong)?;
    prepared.verify_input(0, ScriptFlags::ALL).map_err(|_| MessageError::Wrong)?;
    let held = |stage| check_policy(stage, &bytes, &outputs).map_err(|_| MessageError::Wrong);
    held(PolicyStage::MessageRequired)?.map_err(|broken| MessageError::Rule(broken.reason))?;
    held(PolicyStage::MessageUpgradable)?.map_err(|broken| MessageError::LaterRule(broken.reason))
}

#[cfg(test)]
mod tests;
