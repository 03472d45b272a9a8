//! `keys xpub` and `keys addresses`: the data that others need to watch an entry, or to sign with it. All of
//! it is public.

use std::ops::RangeInclusive;

use bitcoin::Address;
use godwit_keys::psbt::{Branch, KeyStanding, Standing, standings};
use godwit_keys::{
    AccountKey, DescriptorError, Entry, KeyStore, StoreError, StoredKey, account_keys, scripts_of,
};
use serde_json::{Value, json};

use super::failure::KeysFailure;

/// The public keys of an entry's accounts, with their origins.
pub(super) fn xpubs(entry: &Entry, account: u32) -> Result<Value, KeysFailure> {
    let mut all = Vec::new();
    for key in &entry.keys {
        if let StoredKey::Extended { key, origin } = key {
            let keys = account_keys(key, origin.as_ref(), account).map_err(StoreError::from)?;
            all.extend(keys.into_iter().map(one));
        }
    }
    Ok(Value::Array(all))
}

fn one(AccountKey { purpose, script, key, descriptor }: AccountKey) -> Value {
    json!({ "purpose": purpose, "script": script, "key": key, "descriptor": descriptor })
}

/// The owner of each key in the descriptors of an entry, according to the key file, if there is one.
pub(super) fn keys_of(
    store: Option<&KeyStore>,
    entry: &Entry,
) -> Result<Vec<Vec<KeyStanding>>, KeysFailure> {
    let Some(store) = store else { return Ok(vec![Vec::new(); entry.descriptors.len()]) };
    let keys = entry.texts().map(|text| standings(store, entry.network, text));
    Ok(keys.collect::<Result<_, _>>().map_err(StoreError::from)?)
}

/// Refuses keys that claim to come from one of ours and do not.
pub(super) fn none_misplaced(keys: &[Vec<KeyStanding>]) -> Result<(), KeysFailure> {
    let misplaced = keys.iter().flatten().find(|key| key.standing == Standing::Misplaced);
    match misplaced {
        Some(key) => Err(DescriptorError::NotOurs(key.key.clone()).into()),
        None => Ok(()),
    }
}

pub(super) fn whose(KeyStanding { key, standing }: &KeyStanding) -> Value {
    let whose = match standing {
        Standing::Ours => "ours",
        Standing::Cosigner => "a cosigner's",
        Standing::Misplaced => "not ours, though its origin says so",
    };
    json!({ "key": key, "whose": whose })
}

/// The addresses of an entry at these indexes, of one branch or of all.
pub(super) fn addresses(
    entry: &Entry,
    keys: &[Vec<KeyStanding>],
    branch: Option<Branch>,
    indexes: &RangeInclusive<u32>,
    network: bitcoin::Network,
) -> Value {
    let wanted = |text: &str| branch.is_none_or(|branch| branch == Branch::of(text));
    let of_descriptor = |(text, keys): (&str, &Vec<KeyStanding>)| {
        let scripts = scripts_of(text, indexes.clone());
        let addresses = scripts.map(|(index, script)| {
            let address = Address::from_script(&script, network).ok();
            json!({
                "index": index,
                "address": address.map(|address| address.to_string()),
                "script": script.to_hex_string(),
            })
        });
        json!({
            "descriptor": text,
            "branch": match Branch::of(text) {
                Branch::Receive => Some("receive"),
                Branch::Change => Some("change"),
                Branch::Other => None,
            },
            "keys": keys.iter().map(whose).collect::<Value>(),
            "addresses": addresses.collect::<Value>(),
        })
    };
    entry.texts().zip(keys).filter(|(text, _)| wanted(text)).map(of_descriptor).collect()
}
