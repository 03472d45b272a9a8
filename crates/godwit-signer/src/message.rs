//! `godwit-signer message`: signs messages with the key of an address, and verifies such signatures.

mod failure;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bitcoin::address::NetworkUnchecked;
use bitcoin::consensus::encode;
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
        let mut text = format!(
            "message of {} bytes by {}, {}\n  ours by entry {}, descriptor {}{branch}{index}: {}",
            message.len(),
            options.address,
            match format {
                MessageFormat::Legacy => "as Core's signmessage".to_owned(),
                MessageFormat::Simple => hash("BIP322, simple", message),
                MessageFormat::Full => hash("BIP322, full", message),
            },
            own.entry,
            own.place,
            own.descriptor,
        );
        for line in message.split('\n') {
            text += "\n  | ";
            text.extend(line.chars().flat_map(shown));
        }
        Ok(Self { text, own, format })
    }

    /// What agrees to it.
    fn token(&self, options: &MessageOptions, message: &str) -> String {
        let parts = [options.address.as_bytes(), message.as_bytes(), self.text.as_bytes()];
        agree::token("godwit/message sign", &parts)
    }
}

fn hash(format: &str, message: &str) -> String {
    let digits: String =
        message_hash(message.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{format}, hash {digits}")
}

/// A character as it is, or its number: what moves the cursor or hides what stands beside it is no text.
fn shown(character: char) -> impl Iterator<Item = char> {
    let plain = !character.is_control() && character.escape_debug().count() == 1
        || matches!(character, '"' | '\'' | '\\');
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
    agree::ask(&shown, "Sign this message?", options.yes.as_deref(), &token)
        .map_err(MessageFailure::Disagreement)?;
    let network = bitcoin_network(config.network);
    let signature = sign_message(&store, network.into(), &seen.own, message, seen.format);
    Ok(print_text(&signature.map_err(MessageFailure::Message)?)?)
}

fn verify(signature: &str, script: &ScriptBuf, message: &str) -> Result<Exit, MessageFailure> {
    let claim = read_signature(signature, script, message).map_err(MessageFailure::Message)?;
    let valid = match claim {
        MessageClaim::Verified => "valid".to_owned(),
        MessageClaim::Transaction(transaction, spent) => {
            check(&transaction, &spent)?;
            let time = transaction.lock_time.to_consensus_u32();
            match (time, transaction.input[0].sequence.0) {
                (0, 0) => "valid".to_owned(),
                (time, age) => format!("valid at time {time} and age {age}"),
            }
        }
    };
    Ok(print_text(&valid)?)
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
