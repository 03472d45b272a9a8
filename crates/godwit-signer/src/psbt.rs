//! `godwit-signer psbt`: reads PSBTs from files and writes the result to a file; the work is done
//! in `godwit-keys`.
//!
//! Nothing of a PSBT is logged: it reveals which coins have the same owner.

mod failure;
mod files;
mod node;
mod show;
mod verify;

use bitcoin::bip32::KeySource;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Address, Amount, FeeRate, ScriptBuf};
use godwit_keys::KeyStore;
use godwit_keys::message::{message_of, signature_of};
use godwit_keys::psbt::{
    DEFAULT_MAX_FEE, DEFAULT_MAX_FEE_RATE, DEFAULT_MAX_FEE_SHARE, Fee, FeeLimits, FeeObjection,
    Finished, Found, Ours, OwnScripts, Psbt, Sighash, SignError, SignPolicy, Signed, SigningKey,
    look_up_in,
};
use godwit_program::{Exit, print_text};

pub(crate) use failure::PsbtFailure;
pub(crate) use files::{check_out, write_psbt};

use crate::network::bitcoin_network;
use crate::options::{Config, NamedOutput, PsbtAction, PsbtOptions};
use crate::{agree, keys, signed_message};
use node::Coins;
use show::Known;

/// Runs a command of `psbt`.
pub(crate) fn run(config: &Config, options: &PsbtOptions) -> Result<Exit, PsbtFailure> {
    let psbts = files::read_all(&options.files)?;
    let [first, ..] = &psbts[..] else { unreachable!("the command line has a file at least") };
    let network = bitcoin_network(config.network);
    files::check_out(options.out.as_deref())?;
    match options.action {
        PsbtAction::Inspect
            if options.key_file.file.is_some() || options.key_file.passphrase.is_some() =>
        {
            inspect_with_keys(config, options, first, network)
        }
        PsbtAction::Inspect => {
            let review = first.review(&mut |_, _| Ok(false)).expect("no key is looked up");
            let coins = coins(config, options, first)?;
            let text = match of_message(first, network) {
                Some((which, lines)) => {
                    show::message(&format!("{which}{lines}"), &review, network, None)
                }
                None => show::review(&review, network, None),
            };
            Ok(print_text(&with_coins(text, coins.as_ref()))?)
        }
        PsbtAction::Sign => sign(config, options, first.clone(), network),
        PsbtAction::Combine => {
            let combined = Psbt::combine(&psbts).map_err(PsbtFailure::Combine)?;
            files::write_psbt(&combined, options.out.as_deref())
        }
        PsbtAction::Finalize => finalize(options, first.clone()),
        PsbtAction::Extract => extract(options, first),
    }
}

/// Shows what in the PSBT is ours, and the token that agrees to it.
fn inspect_with_keys(
    config: &Config,
    options: &PsbtOptions,
    psbt: &Psbt,
    network: bitcoin::Network,
) -> Result<Exit, PsbtFailure> {
    let coins = coins(config, options, psbt)?;
    let store = keys::open(config, &options.key_file)?;
    let seen = Seen::of(psbt, &store, coins.as_ref(), network)?;
    drop(store);
    let token = seen.token(psbt);
    Ok(print_text(&format!("{}\nto sign exactly this: psbt sign -yes={token}", seen.text))?)
}

/// The message that a PSBT signs, and the lines that show it, if the PSBT is for a message.
fn of_message(psbt: &Psbt, network: bitcoin::Network) -> Option<(String, String)> {
    let request = message_of(psbt)?;
    let address = Address::from_script(&request.script, network).ok();
    Some(signed_message::of_psbt(&request.message, address.as_ref()))
}

/// What a node says about the coins, if one is to be asked.
fn coins(
    config: &Config,
    options: &PsbtOptions,
    psbt: &Psbt,
) -> Result<Option<Coins>, PsbtFailure> {
    let node = options.node.as_ref();
    let coins = node.map(|node| node::look_up(config, node, psbt)).transpose();
    coins.map_err(PsbtFailure::Node)
}

fn with_coins(mut text: String, coins: Option<&Coins>) -> String {
    for line in coins.into_iter().flat_map(|coins| &coins.lines) {
        text.push('\n');
        text.push_str(line);
    }
    text
}

/// The text that a user sees before a PSBT is signed.
struct Seen {
    text: String,
    question: String,
    ours: Ours,
    fee: Result<Fee, FeeObjection>,
}

impl Seen {
    /// The token that agrees to the PSBT.
    fn token(&self, psbt: &Psbt) -> String {
        agree::token("godwit/psbt sign", &[&psbt.encode(), self.text.as_bytes()])
    }

    fn of(
        psbt: &Psbt,
        store: &KeyStore,
        coins: Option<&Coins>,
        network: bitcoin::Network,
    ) -> Result<Self, PsbtFailure> {
        let mut misplaced = Vec::new();
        let review = psbt.review(&mut |source, key| {
            Ok(match look_up_in(store, network.into(), source, key)? {
                Found::Ours(_) => true,
                Found::OtherKey => {
                    misplaced.push(format!("{} {key}", show::path(source)));
                    false
                }
                Found::NotOurs => false,
            })
        });
        let review = review.map_err(|error| PsbtFailure::Sign(error.into()))?;
        let mut keys =
            |source: &KeySource, key: &SigningKey| look_up_in(store, network.into(), source, key);
        let unfitting = psbt.unfitting_outputs(&mut keys);
        let unfitting = unfitting.map_err(|error| PsbtFailure::Sign(error.into()))?;
        let scripts = OwnScripts::of(store, network.into());
        let mut scripts = scripts.map_err(|error| PsbtFailure::Sign(error.into()))?;
        let ours = Ours::of(&review, &mut scripts);
        let known = Known { ours: &ours, unfitting: &unfitting };
        let (mut text, question) = match of_message(psbt, network) {
            Some((which, lines)) => {
                let message = format!("{which}{lines}");
                let text = show::message(&message, &review, network, Some(&known));
                (text, format!("Sign this {which}?"))
            }
            None => (show::review(&review, network, Some(&known)), "Sign this?".to_owned()),
        };
        for key in misplaced {
            text += &format!(
                "\nwarning: {key} has the fingerprint of a key of ours, but does not come from it"
            );
        }
        Ok(Self { text: with_coins(text, coins), question, ours, fee: review.fee })
    }
}

/// Shows the PSBT where the question is asked, then signs it if the user agrees, or says why not.
fn sign(
    config: &Config,
    options: &PsbtOptions,
    mut psbt: Psbt,
    network: bitcoin::Network,
) -> Result<Exit, PsbtFailure> {
    let any_outputs = named(&options.any_outputs, &psbt, network)?;
    let any_index = named(&options.any_index, &psbt, network)?;
    let coins = coins(config, options, &psbt)?;
    let store = keys::open(config, &options.key_file)?;
    let seen = Seen::of(&psbt, &store, coins.as_ref(), network)?;
    let policy = SignPolicy {
        fee: fee_limits(options),
        any_sighash: options.any_sighash,
        foreign_inputs: options.foreign_inputs,
        any_inputs: options.any_inputs,
        unproven_amounts: options.unproven_amounts,
        any_outputs: &any_outputs,
        any_index: &any_index,
        fee_share: fee_share(options),
    };
    let mut is_ours =
        |source: &KeySource, key: &SigningKey| look_up_in(&store, network.into(), source, key);
    // The user is not asked about a PSBT that cannot be signed anyway.
    let checked = psbt.check(&mut is_ours, &policy).and_then(|()| {
        let fee = seen.fee.as_ref().map_err(|objection| SignError::Fee(*objection))?;
        seen.ours.check(fee, &policy)
    });
    if let Err(error) = checked {
        eprintln!("{}", seen.text);
        return Err(PsbtFailure::Sign(error));
    }
    if let Some(input) = coins.and_then(|coins| coins.contradicted) {
        eprintln!("{}", seen.text);
        return Err(PsbtFailure::OtherCoin(input));
    }
    agree::ask(
        &agree::with_state_of_memory(&seen.text),
        &seen.question,
        options.yes.as_deref(),
        &seen.token(&psbt),
    )
    .map_err(PsbtFailure::Disagreement)?;
    let signed = psbt.sign(&mut is_ours, &policy).map_err(PsbtFailure::Sign)?;
    drop(store);
    for Signed { input, key, sighash } in &signed {
        eprintln!("signed input {input} with {} {}, {sighash}", show::path(&key.source), key.key);
    }
    files::write_psbt(&psbt, options.out.as_deref())
}

/// The scripts of the outputs that an option names. If the PSBT does not pay to one of them, the option was
/// meant for another PSBT, or mistyped.
fn named(
    outputs: &[NamedOutput],
    psbt: &Psbt,
    network: bitcoin::Network,
) -> Result<Vec<ScriptBuf>, PsbtFailure> {
    let script = |output: &NamedOutput| match output {
        NamedOutput::Script(script) => Ok::<_, PsbtFailure>(script.clone()),
        NamedOutput::Address(address) => {
            let address = address.clone().require_network(network);
            Ok(address.map_err(|_| PsbtFailure::OtherNetwork)?.script_pubkey())
        }
    };
    let scripts = outputs.iter().map(script).collect::<Result<Vec<_>, _>>()?;
    let paid = &psbt.unsigned_transaction().output;
    match scripts.iter().all(|script| paid.iter().any(|paid| paid.script_pubkey == *script)) {
        true => Ok(scripts),
        false => Err(PsbtFailure::NoSuchOutput),
    }
}

fn finalize(options: &PsbtOptions, mut psbt: Psbt) -> Result<Exit, PsbtFailure> {
    if let Some(input) = unusual_signature(&psbt).filter(|_| !options.any_sighash) {
        return Err(PsbtFailure::UnusualSignature(input));
    }
    let results = psbt.finalize();
    verify::finished_inputs(&psbt)?;
    files::write_psbt(&psbt, options.out.as_deref())?;
    for (index, result) in results.iter().enumerate() {
        if let Finished::Unfinished(why) = result {
            eprintln!("godwit-signer: input {index} is not finished: {why}");
        }
    }
    Ok(if psbt.is_finished() { Exit::Success } else { Exit::InputRefused })
}

/// The first input with a signature that leaves parts of the transaction open although the PSBT does not ask
/// for that.
fn unusual_signature(psbt: &Psbt) -> Option<usize> {
    let review = psbt.review(&mut |_, _| Ok(false)).expect("no key is looked up");
    review.inputs.iter().position(|input| {
        let is_usual = input.sighash.is_none_or(Sighash::is_usual);
        is_usual && !input.signatures.iter().all(|signature| signature.sighash.is_usual())
    })
}

fn extract(options: &PsbtOptions, psbt: &Psbt) -> Result<Exit, PsbtFailure> {
    let transaction = psbt.extract().map_err(PsbtFailure::Extract)?;
    verify::finished_inputs(psbt)?;
    if let Some(request) = message_of(psbt) {
        let signature = signature_of(&request, &transaction);
        signed_message::verified(&signature, &request.script, &request.message)
            .map_err(PsbtFailure::Message)?;
        return files::write_text(&signature, options.out.as_deref());
    }
    let fee = psbt.fee().map_err(PsbtFailure::Fee)?;
    fee.check(&fee_limits(options)).map_err(PsbtFailure::Fee)?;
    // Nothing tells any more which inputs are ours.
    fee.check_share(fee.inputs, fee_share(options)).map_err(PsbtFailure::Fee)?;
    files::write_text(&serialize_hex(&transaction), options.out.as_deref())
}

fn fee_limits(options: &PsbtOptions) -> FeeLimits {
    FeeLimits {
        fee: options.max_fee.map_or(DEFAULT_MAX_FEE, Amount::from_sat),
        rate: options.max_fee_rate.map_or(DEFAULT_MAX_FEE_RATE, FeeRate::from_sat_per_vb_u32),
    }
}

fn fee_share(options: &PsbtOptions) -> u64 {
    options.max_fee_share.map_or(DEFAULT_MAX_FEE_SHARE, u64::from)
}
