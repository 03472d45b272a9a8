//! PSBTs of the BIPs, of Bitcoin Core and of its wallets.

mod believed;
mod coins;
mod effort;
mod hostile;
mod kinds;
mod lies;
mod ours;
mod ownership;
mod refusals;
mod rivals;
mod signatures;
mod uncompressed;
mod vectors;
mod wallets;

use bitcoin::consensus::encode;
use bitcoin::{Amount, FeeRate};
use godwit_engine::{SpentOutput, verify_transaction};
use godwit_primitives::ScriptFlags;
use godwit_secret::SecretString;
use serde_json::Value;

use super::lookup::look_up;
use super::{
    FeeLimits, Finished, FormatError, Found, InputState, Psbt, Review, SignError, SignPolicy,
    Signed, Unfinished, text,
};
use crate::stored_key::StoredKey;
use crate::{ExtendedPrivateKey, parse_wif};

/// A JSON file of the shared data.
fn shared_json(path: &str) -> Option<Value> {
    let bytes = godwit_testdata::shared_file(path)?;
    Some(serde_json::from_slice(&bytes).expect("the file is JSON"))
}

/// What a vector says, read.
fn read(value: &Value) -> Result<Psbt, FormatError> {
    text::read(value.as_str().expect("a PSBT is a string").as_bytes())
}

fn secret(text: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut text.to_owned()).expect("locked memory")
}

fn wif(text: &str) -> StoredKey {
    let (key, _, compressed) = parse_wif((&secret(text)).into()).expect("a valid key");
    StoredKey::Single { key, compressed }
}

/// The extended private keys in a descriptor.
fn descriptor(text: &str) -> Vec<StoredKey> {
    let starts = text.match_indices("tprv").map(|(start, _)| &text[start..]);
    let keys = starts.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next());
    keys.map(|key| {
        let key = ExtendedPrivateKey::parse((&secret(key.expect("it begins"))).into());
        StoredKey::Extended { key: key.expect("a valid key"), origin: None }
    })
    .collect()
}

/// No limit that a fee can reach.
fn generous() -> SignPolicy<'static> {
    let fee = FeeLimits { fee: Amount::MAX_MONEY, rate: FeeRate::MAX };
    SignPolicy { fee, fee_share: 100, ..SignPolicy::default() }
}

/// Everything that a user can allow of inputs and fees.
fn permissive() -> SignPolicy<'static> {
    SignPolicy {
        any_sighash: true,
        foreign_inputs: true,
        any_inputs: true,
        unproven_amounts: true,
        ..generous()
    }
}

/// As somebody without keys sees it.
fn review(psbt: &Psbt) -> Review {
    psbt.review(&mut |_, _| Ok(false)).expect("no key is looked up")
}

/// Core's engine accepts every input of a finished PSBT.
#[track_caller]
fn verify(psbt: &Psbt) {
    let transaction = encode::serialize(&psbt.extract().expect("it is finished"));
    let spent = psbt.spent_outputs().expect("all are known");
    let spent = spent.iter().map(|output| SpentOutput {
        value: output.value.to_sat() as i64,
        script_pubkey: output.script_pubkey.as_bytes(),
    });
    let flags = ScriptFlags::P2SH
        | ScriptFlags::DERSIG
        | ScriptFlags::NULLDUMMY
        | ScriptFlags::CHECKLOCKTIMEVERIFY
        | ScriptFlags::CHECKSEQUENCEVERIFY
        | ScriptFlags::WITNESS
        | ScriptFlags::TAPROOT;
    verify_transaction(&transaction, spent, flags).expect("Core's engine accepts it");
}
