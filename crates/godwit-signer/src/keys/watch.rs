//! `keys watch`: makes an entry of public descriptors or a wallet policy, once somebody has checked whose
//! keys they hold: that decides where change may go.

use std::path::Path;

use godwit_keys::{EntryDescriptor, watched_descriptors};
use godwit_program::Exit;
use godwit_secret::{SecretBytes, run_on_secret_stack};

use super::failure::KeysFailure;
use super::input::read_file;
use super::session::{KeyFile, Session, Unlocked};
use super::{described, new_entry, print_entry, show};
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
    // A new file has no keys that descriptors could contain, or claim to come from.
    let store = match &unlocked {
        Unlocked::Open(store) => Some(store),
        Unlocked::New(_) => None,
    };
    let keys = show::keys_of(store, &entry)?;
    show::none_misplaced(&keys)?;
    let mut shown = described(&entry, &keys);
    // The next run has another creation time.
    shown.as_object_mut().expect("it is one").remove("created");
    shown["addresses"] = show::addresses(&entry, &keys, None, &(0..=0), network);
    shown["file"] = file.path().display().to_string().into();
    let shown = format!("{shown:#}");
    let mark = store.and_then(|store| store.mark()).map_or([0; 16], |mark| mark.id);
    let token = agree::token("godwit/keys watch", &[label.as_bytes(), &mark, shown.as_bytes()]);
    let shown = format!("{shown}\nto watch exactly this: keys watch -yes={token}");
    let question =
        "Watch these descriptors, and take what comes back to those with keys of yours for change?";
    agree::ask(&shown, question, yes, &token).map_err(KeysFailure::NotWatched)?;
    let (store, id) = unlocked.insert(file, entry)?;
    print_entry(&store, id)
}
