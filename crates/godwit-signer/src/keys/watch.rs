//! `keys watch`: public descriptors or a wallet policy become an entry, once somebody has looked at them:
//! whose keys they have decides where change may go.

use std::path::Path;

use godwit_keys::psbt::{KeyStanding, Standing, standings};
use godwit_keys::{
    DescriptorError, EntryDescriptor, KeyStore, NetworkKind, StoreError, watched_descriptors,
};
use godwit_program::Exit;
use godwit_secret::{SecretBytes, run_on_secret_stack};
use serde_json::{Value, json};

use super::failure::KeysFailure;
use super::input::read_file;
use super::session::{KeyFile, Session, Unlocked};
use super::show::addresses;
use super::{described, new_entry, print_entry};
use crate::agree;

pub(super) fn run(
    file: &KeyFile<'_>,
    label: &str,
    source: &Path,
    network: bitcoin::Network,
    yes: Option<&str>,
) -> Result<Exit, KeysFailure> {
    let session = Session::begin(file, [])?;
    let text: SecretBytes = run_on_secret_stack(|| read_file(source))??;
    let descriptors = watched_descriptors((&text).into(), file.network)?;
    drop(text);
    let unlocked = session.unlock()?;
    let texts = descriptors.into_iter().map(|public| EntryDescriptor::new(public.text)).collect();
    let entry = new_entry(label, file.network, texts, Vec::new());
    let mut shown = described(&entry);
    shown["keys"] = match &unlocked {
        Unlocked::Open(store) => entry
            .texts()
            .map(|text| keys_of(store, file.network, text))
            .collect::<Result<Value, _>>()?,
        Unlocked::New(_) => Value::Null,
    };
    shown["addresses"] = addresses(&entry, None, &(0..=0), network);
    let question =
        "Watch these descriptors, and take what comes back to those with keys of yours for change?";
    agree::ask(&format!("{shown:#}"), question, yes, &entry.id().to_string())
        .map_err(KeysFailure::NotWatched)?;
    let (store, id) = unlocked.insert(file, entry)?;
    print_entry(&store, id)
}

/// Whose the keys of a descriptor are.
fn keys_of(store: &KeyStore, network: NetworkKind, text: &str) -> Result<Value, KeysFailure> {
    let keys = standings(store, network, text).map_err(StoreError::from)?;
    let one = |KeyStanding { key, standing }: KeyStanding| {
        let whose = match standing {
            Standing::Ours => "ours",
            Standing::Cosigner => "a cosigner's",
            Standing::Misplaced => {
                return Err(KeysFailure::Descriptors(DescriptorError::NotOurs(key)));
            }
        };
        Ok(json!({ "key": key, "whose": whose }))
    };
    keys.into_iter().map(one).collect()
}
