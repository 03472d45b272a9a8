//! `keys xpub` and `keys addresses`: what others need to watch an entry or to sign beside it. All of it is
//! public.

use std::ops::RangeInclusive;

use bitcoin::Address;
use godwit_keys::psbt::Branch;
use godwit_keys::{AccountKey, Entry, StoreError, StoredKey, account_keys, scripts_of};
use serde_json::{Value, json};

use super::failure::KeysFailure;

/// The public keys of accounts of an entry, behind their origins.
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

/// The addresses of an entry at these indexes, of one branch or of all.
pub(super) fn addresses(
    entry: &Entry,
    branch: Option<Branch>,
    indexes: &RangeInclusive<u32>,
    network: bitcoin::Network,
) -> Value {
    let wanted = |text: &&str| branch.is_none_or(|branch| branch == Branch::of(text));
    let of_descriptor = |text: &str| {
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
            "addresses": addresses.collect::<Value>(),
        })
    };
    entry.texts().filter(wanted).map(of_descriptor).collect()
}
