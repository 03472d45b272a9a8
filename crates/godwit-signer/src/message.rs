//! `godwit-signer message`: signs messages with the key of an address, and verifies such signatures.

mod failure;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bitcoin::address::NetworkUnchecked;
use bitcoin::consensus::encode;
use bitcoin::hashes::Hash;
use bitcoin::sign_message::signed_msg_hash;
use bitcoin::{Address, ScriptBuf, Transaction, TxOut};
use godwit_engine::{PreparedTx, SpentOutput};
use godwit_keys::message::{
    MessageClaim, MessageError, MessageFormat, message_hash, read_signature, sign_message,
};
use godwit_keys::psbt::{Branch, OwnScript, OwnScripts};
use godwit_keys::{KeyStore, StoreError};
use godwit_primitives::ScriptFlags;
use godwit_program::{Exit, print_text};

pub(crate) use failure::MessageFailure;

use crate::network::bitcoin_network;
use crate::options::{Config, MessageAction, MessageOptions};
use crate::{agree, keys};

/// Longest message, in bytes: more than a person reads.
const MAX_MESSAGE: usize = 64 << 10;

/// The operand that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Runs a command of `message`.
pub(crate) fn run(config: &Config, options: &MessageOptions) -> Result<Exit, MessageFailure> {
    let script = script_of(config, &options.address)?;
    let message = read(&options.file)?;
    match &options.action {
        MessageAction::Verify { signature } => verify(signature, &script, &message),
        MessageAction::Inspect => {
            let store = keys::open(config, &options.key_file)?;
            let seen = Seen::of(config, options, &store, script, &message)?;
            let token = seen.token(options, &message);
            Ok(print_text(&format!(
                "{}\nto sign exactly this: message sign -yes={token}",
                seen.text
            ))?)
        }
        MessageAction::Sign => sign(config, options, script, &message),
    }
}

fn script_of(config: &Config, address: &str) -> Result<ScriptBuf, MessageFailure> {
    let address: Address<NetworkUnchecked> =
        address.parse().map_err(|_| MessageFailure::NoAddress)?;
    let address = address.require_network(bitcoin_network(config.network));
    Ok(address.map_err(|_| MessageFailure::OtherNetwork)?.script_pubkey())
}

/// A message is what stands in the file, to the last byte.
fn read(path: &Path) -> Result<String, MessageFailure> {
    let failed = |error| MessageFailure::Read(path.to_owned(), error);
    let mut bytes = Vec::new();
    let limit = MAX_MESSAGE as u64 + 1;
    match path.as_os_str() == STANDARD_INPUT {
        true => io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(failed)?,
        false => {
            let file = File::open(path).map_err(failed)?;
            file.take(limit).read_to_end(&mut bytes).map_err(failed)?
        }
    };
    if bytes.len() > MAX_MESSAGE {
        return Err(MessageFailure::TooLong);
    }
    String::from_utf8(bytes).map_err(|_| MessageFailure::NotText)
}

/// What a user is shown of a message before it is signed.
struct Seen {
    text: String,
    /// Which message it is: what stands below a long one, where its beginning has scrolled away.
    question: String,
    own: OwnScript,
    format: MessageFormat,
}

impl Seen {
    fn of(
        config: &Config,
        options: &MessageOptions,
        store: &KeyStore,
        script: ScriptBuf,
        message: &str,
    ) -> Result<Self, MessageFailure> {
        let network = bitcoin_network(config.network);
        let scripts = OwnScripts::of(store, network.into());
        let own = scripts.map_err(StoreError::from)?.search(&script);
        let own = own.ok_or(MessageFailure::NotOurs)?;
        let format = options.format.unwrap_or(MessageFormat::usual_of(&script));
        let branch = match own.branch() {
            Branch::Receive => ", to receive",
            Branch::Change => ", change",
            Branch::Other => "",
        };
        let index = own.index.map_or(String::new(), |index| format!(", index {index}"));
        let which = format!(
            "message of {} bytes in {} lines by {}, {}",
            message.len(),
            message.split('\n').count(),
            options.address,
            match format {
                MessageFormat::Legacy => {
                    let digest = signed_msg_hash(message);
                    hash("as Core's signmessage", digest.as_byte_array())
                }
                MessageFormat::Simple => hash("BIP322, simple", &message_hash(message.as_bytes())),
                MessageFormat::Full => hash("BIP322, full", &message_hash(message.as_bytes())),
            },
        );
        let text = format!(
            "{which}\n  ours by entry {}, descriptor {}{branch}{index}: {}{}",
            own.entry,
            own.place,
            own.descriptor,
            lines(message),
        );
        Ok(Self { text, question: format!("Sign this {which}?"), own, format })
    }

    /// What agrees to it.
    fn token(&self, options: &MessageOptions, message: &str) -> String {
        let parts = [options.address.as_bytes(), message.as_bytes(), self.text.as_bytes()];
        agree::token("godwit/message sign", &parts)
    }
}

fn hash(format: &str, digest: &[u8; 32]) -> String {
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{format}, hash {digits}")
}

/// Where a line of a message is broken, so that a terminal breaks none by itself: what it would put at the
/// left edge could look like another part of what is shown. In columns, of which other letters than ASCII's
/// may take two.
const WIDTH: usize = 72;

/// The lines of a message behind a bar, and what is too long for one behind a plus. No two messages are shown
/// alike.
fn lines(message: &str) -> String {
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

/// Shows the message where it asks, then signs it if the user agrees.
fn sign(
    config: &Config,
    options: &MessageOptions,
    script: ScriptBuf,
    message: &str,
) -> Result<Exit, MessageFailure> {
    let store = keys::open(config, &options.key_file)?;
    let seen = Seen::of(config, options, &store, script, message)?;
    let token = seen.token(options, message);
    let shown = agree::with_state_of_memory(&seen.text);
    agree::ask(&shown, &seen.question, options.yes.as_deref(), &token)
        .map_err(MessageFailure::Disagreement)?;
    let network = bitcoin_network(config.network);
    let signature = sign_message(&store, network.into(), &seen.own, message, seen.format);
    Ok(print_text(&signature.map_err(MessageFailure::Message)?)?)
}

fn verify(signature: &str, script: &ScriptBuf, message: &str) -> Result<Exit, MessageFailure> {
    let claim = read_signature(signature, script, message).map_err(MessageFailure::Message)?;
    match claim {
        MessageClaim::Verified => {}
        MessageClaim::Transaction(transaction, spent) => {
            check(&transaction, &spent)?;
            let time = transaction.lock_time.to_consensus_u32();
            let age = transaction.input[0].sequence.0;
            if (time, age) != (0, 0) {
                // Who asks for the exit code alone is not told when that is.
                print_text(&format!("valid at time {time} and age {age}"))?;
                return Ok(Exit::Failure);
            }
        }
    }
    Ok(print_text("valid")?)
}

/// Core's engine decides.
fn check(transaction: &Transaction, spent: &TxOut) -> Result<(), MessageFailure> {
    let bytes = encode::serialize(transaction);
    let outputs = [SpentOutput { value: 0, script_pubkey: spent.script_pubkey.as_bytes() }];
    let wrong = |_| MessageFailure::Message(MessageError::Wrong);
    let prepared = PreparedTx::new(&bytes, outputs.into_iter()).map_err(wrong)?;
    prepared.verify_input(0, ScriptFlags::ALL).map_err(wrong)
}

#[cfg(test)]
mod tests;
