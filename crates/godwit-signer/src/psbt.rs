//! `godwit-signer psbt`: reads PSBTs from files and writes the result to a file; the work is done
//! in `godwit-keys`.
//!
//! Nothing of a PSBT is logged: it reveals which coins have the same owner.

mod failure;
mod files;
mod show;
mod verify;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, FeeRate};
use godwit_keys::psbt::{
    DEFAULT_MAX_FEE, DEFAULT_MAX_FEE_RATE, FeeLimits, Finished, Found, OwnScripts, Psbt,
    SignPolicy, Signed, look_up_in,
};
use godwit_primitives::Network;
use godwit_program::{Exit, print_text};

pub(crate) use failure::PsbtFailure;

use crate::keys;
use crate::options::{Config, PsbtAction, PsbtOptions};

/// Runs a command of `psbt`.
pub(crate) fn run(config: &Config, options: &PsbtOptions) -> Result<Exit, PsbtFailure> {
    let psbts = files::read_all(&options.files)?;
    let [first, ..] = &psbts[..] else { unreachable!("the command line has a file at least") };
    let network = bitcoin_network(config.network);
    match options.action {
        PsbtAction::Inspect => {
            let review = first.review(&mut |_, _| Ok(false)).expect("no key is looked up");
            Ok(print_text(&show::review(&review, network, None))?)
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

/// Shows the PSBT on standard error, then signs it or says why not.
fn sign(
    config: &Config,
    options: &PsbtOptions,
    mut psbt: Psbt,
    network: bitcoin::Network,
) -> Result<Exit, PsbtFailure> {
    let store = keys::open(config, &options.key_file)?;
    let is_ours = |source: &_, key: &_| look_up_in(&store, network.into(), source, key);
    let mut misplaced = Vec::new();
    let review = psbt.review(&mut |source, key| match is_ours(source, key)? {
        Found::Ours(_) => Ok(true),
        Found::OtherKey => {
            misplaced.push(format!("{} {key}", show::path(source)));
            Ok(false)
        }
        Found::NotOurs => Ok(false),
    });
    let review = review.map_err(|error| PsbtFailure::Sign(error.into()))?;
    let mut own_scripts = OwnScripts::of(&store, network.into());
    eprintln!("{}", show::review(&review, network, Some(&mut own_scripts)));
    for key in misplaced {
        eprintln!("warning: {key} has the fingerprint of a key of ours, but does not come from it");
    }
    let policy = SignPolicy {
        fee: fee_limits(options),
        any_sighash: options.any_sighash,
        foreign_inputs: options.foreign_inputs,
        unproven_amounts: options.unproven_amounts,
    };
    let signed = psbt.sign(&mut |s, k| is_ours(s, k), &policy).map_err(PsbtFailure::Sign)?;
    drop(store);
    for Signed { input, key, sighash } in &signed {
        eprintln!("signed input {input} with {} {}, {sighash}", show::path(&key.source), key.key);
    }
    files::write_psbt(&psbt, options.out.as_deref())
}

fn finalize(options: &PsbtOptions, mut psbt: Psbt) -> Result<Exit, PsbtFailure> {
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

fn extract(options: &PsbtOptions, psbt: &Psbt) -> Result<Exit, PsbtFailure> {
    let transaction = psbt.extract().map_err(PsbtFailure::Extract)?;
    verify::finished_inputs(psbt)?;
    let fee = psbt.fee().map_err(PsbtFailure::Fee)?;
    fee.check(&fee_limits(options)).map_err(PsbtFailure::Fee)?;
    files::write_text(&serialize_hex(&transaction), options.out.as_deref())
}

fn fee_limits(options: &PsbtOptions) -> FeeLimits {
    FeeLimits {
        fee: options.max_fee.map_or(DEFAULT_MAX_FEE, Amount::from_sat),
        rate: options.max_fee_rate.map_or(DEFAULT_MAX_FEE_RATE, FeeRate::from_sat_per_vb_u32),
    }
}

fn bitcoin_network(network: Network) -> bitcoin::Network {
    match network {
        Network::Main => bitcoin::Network::Bitcoin,
        Network::Testnet3 => bitcoin::Network::Testnet,
        Network::Testnet4 => bitcoin::Network::Testnet4,
        Network::Signet => bitcoin::Network::Signet,
        Network::Regtest => bitcoin::Network::Regtest,
    }
}
