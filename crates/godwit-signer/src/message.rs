//! `godwit-signer message`: signs messages with the key of an address, and verifies such signatures.

mod failure;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bitcoin::address::NetworkUnchecked;
use bitcoin::hashes::Hash;
use bitcoin::sign_message::signed_msg_hash;
use bitcoin::{Address, ScriptBuf};
use godwit_keys::message::{MAX_MESSAGE, MessageFormat, message_hash, message_psbt, sign_message};
use godwit_keys::psbt::{OwnScript, OwnScripts};
use godwit_keys::{KeyStore, StoreError};
use godwit_program::{Exit, print_text};

pub(crate) use failure::MessageFailure;

use crate::network::bitcoin_network;
use crate::options::{Config, MessageAction, MessageOptions};
use crate::signed_message::{self, hash, which};
use crate::{agree, keys, psbt};

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
        MessageAction::Psbt { out } => {
            psbt::check_out(out.as_deref()).map_err(MessageFailure::Psbt)?;
            let store = keys::open(config, &options.key_file)?;
            let own = own(config, &store, &script)?;
            drop(store);
            let made = message_psbt(&own, &message).map_err(MessageFailure::Message)?;
            psbt::write_psbt(&made, out.as_deref()).map_err(MessageFailure::Psbt)
        }
    }
}

fn script_of(config: &Config, address: &str) -> Result<ScriptBuf, MessageFailure> {
    let address: Address<NetworkUnchecked> =
        address.parse().map_err(|_| MessageFailure::NoAddress)?;
    let address = address.require_network(bitcoin_network(config.network));
    Ok(address.map_err(|_| MessageFailure::OtherNetwork)?.script_pubkey())
}

/// Reads a message: the whole file, to the last byte.
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

/// What makes the script of an address ours.
fn own(config: &Config, store: &KeyStore, script: &ScriptBuf) -> Result<OwnScript, MessageFailure> {
    let scripts = OwnScripts::of(store, bitcoin_network(config.network).into());
    let own = scripts.map_err(StoreError::from)?.search(script);
    own.ok_or(MessageFailure::NotOurs)
}

/// The text that a user sees before a message is signed.
struct Seen {
    text: String,
    /// Names the message. It is shown below the text, because the beginning of a long message has scrolled
    /// away.
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
        let own = own(config, store, &script)?;
        let format = options.format.unwrap_or(MessageFormat::usual_of(&script));
        let hash_of = match format {
            MessageFormat::Legacy => {
                hash("as Core's signmessage", signed_msg_hash(message).as_byte_array())
            }
            MessageFormat::Simple => hash("BIP322, simple", &message_hash(message.as_bytes())),
            MessageFormat::Full => hash("BIP322, full", &message_hash(message.as_bytes())),
        };
        let which = which(message, &options.address, &hash_of);
        let (place, lines) = (signed_message::place(&own), signed_message::lines(message));
        let text = format!("{which}\n{place}{lines}");
        Ok(Self { text, question: format!("Sign this {which}?"), own, format })
    }

    /// The token that agrees to the message.
    fn token(&self, options: &MessageOptions, message: &str) -> String {
        let parts = [options.address.as_bytes(), message.as_bytes(), self.text.as_bytes()];
        agree::token("godwit/message sign", &parts)
    }
}

/// Shows the message where the question is asked, then signs it if the user agrees.
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
    let verified = signed_message::verified(signature, script, message);
    if let Some(transaction) = verified.map_err(MessageFailure::Message)? {
        let time = transaction.lock_time.to_consensus_u32();
        let age = transaction.input[0].sequence.0;
        if (time, age) != (0, 0) {
            // A script that checks only the exit code does not learn when the signature becomes valid.
            print_text(&format!("valid at time {time} and age {age}"))?;
            return Ok(Exit::Failure);
        }
    }
    Ok(print_text("valid")?)
}
