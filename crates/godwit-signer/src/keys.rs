//! `godwit-signer keys`: the encrypted key file. Everything printed is public. Secrets are read
//! from the terminal without echo or from file descriptors, and are written only to file
//! descriptors, on request.

mod failure;
mod generations;
pub(crate) mod import;
mod import_core_wallet;
pub(crate) mod input;
pub(crate) mod session;
mod show;
mod strength;
pub(crate) mod terminal;
mod watch;

use std::num::NonZeroUsize;
use std::os::fd::AsFd;

use godwit_keys::psbt::{KeyStanding, Standing};
use godwit_keys::{
    Entry, EntryDescriptor, ExtendedPrivateKey, KeyId, KeyStore, Mnemonic, NetworkKind, PolicyText,
    StoreError, StoredKey, Words, account_descriptors, multipath, policy_of,
};
use godwit_program::{Exit, check_that_output_is_open, print_json, seconds_since_1970};
use godwit_secret::{SecretBytes, SecretSlice, SecretString};
use serde_json::{Value, json};

use crate::agree;
use crate::network::bitcoin_network;
use crate::options::{Config, Descriptor, KeyFileOptions, KeysAction, KeysOptions, NewWords};

pub(crate) use failure::{KeysFailure, exit_of_store};
use input::Output;
use session::{KeyFile, Session};
use terminal::Terminal;

/// Number of addresses behind those given out that Core is to watch: its own `-keypool`.
const CORE_KEYPOOL: u32 = 1_000;

/// Most indexes that Core takes in a range (`rpc/util.cpp`, `ParseDescriptorRange`).
const CORE_MAX_RANGE: u32 = 1_000_000;

/// Times that new words are shown and asked for, at most.
const ATTEMPTS: usize = 3;

pub(crate) fn run(config: &Config, options: &KeysOptions) -> Result<Exit, KeysFailure> {
    let file = KeyFile::of(config, &options.file).with_cost(options.cost);
    match &options.action {
        KeysAction::Create { label, words, show } => create(&file, label, *words, *show),
        KeysAction::Import { label, secret, bip39_passphrase } => {
            import::run(&file, label, *secret, *bip39_passphrase)
        }
        KeysAction::ImportCoreWallet { label, wallet, passphrase } => {
            import_core_wallet::run(&file, label, wallet, *passphrase)
        }
        KeysAction::Watch { label, source } => {
            let network = bitcoin_network(config.network);
            watch::run(&file, label, source, network, options.yes.as_deref())
        }
        KeysAction::List => {
            let store = Session::begin(&file, [])?.open()?;
            let entries = store.entries().iter().map(|entry| described_in(&store, entry));
            Ok(print_json(&entries.collect::<Result<Value, _>>()?)?)
        }
        KeysAction::Descriptors => {
            let store = Session::begin(&file, [])?.open()?;
            let entries = store.entries_of(file.network);
            Ok(print_json(&entries.flat_map(for_core).collect())?)
        }
        KeysAction::Xpub { id, account } => {
            let store = Session::begin(&file, [])?.open()?;
            let entry = store.entry(*id).ok_or(StoreError::Unknown(*id))?;
            Ok(print_json(&show::xpubs(entry, *account)?)?)
        }
        KeysAction::Addresses { id, branch, indexes } => {
            let store = Session::begin(&file, [])?.open()?;
            let entry = store.entry(*id).ok_or(StoreError::Unknown(*id))?;
            if entry.network != file.network {
                return Err(KeysFailure::OtherNetwork);
            }
            let network = bitcoin_network(config.network);
            let keys = show::keys_of(Some(&store), entry)?;
            show::none_misplaced(&keys)?;
            Ok(print_json(&show::addresses(entry, &keys, *branch, indexes, network))?)
        }
        KeysAction::Export(id) => export(&file, *id),
        KeysAction::ChangePassphrase { new } => change_passphrase(&file, *new),
        KeysAction::Remove(id) => remove(&file, *id, options.yes.as_deref()),
    }
}

/// Opens the key file for another command.
pub(crate) fn open(config: &Config, options: &KeyFileOptions) -> Result<KeyStore, KeysFailure> {
    Session::begin(&KeyFile::of(config, options), [])?.open()
}

fn create(
    file: &KeyFile<'_>,
    label: &str,
    words: NonZeroUsize,
    show: NewWords,
) -> Result<Exit, KeysFailure> {
    let out = match show {
        NewWords::Descriptor(descriptor) => Some(Output::open(descriptor)?),
        NewWords::Terminal | NewWords::Unseen => None,
    };
    let terminal = match show {
        NewWords::Terminal => Some(Terminal::open().map_err(|_| KeysFailure::NobodySees)?),
        NewWords::Descriptor(_) | NewWords::Unseen => None,
    };
    let session = Session::begin(file, [])?;
    let unlocked = session.unlock()?;
    let mnemonic = Mnemonic::generate(words.get()).map_err(StoreError::from)?;
    let seen = terminal.is_some();
    let kept = || {
        if let Some(terminal) = terminal {
            show_and_ask(terminal, &mnemonic)?;
        }
        let mut entry = entry_of_words(label, mnemonic, &SecretString::new(), file.network)?;
        entry.descriptors.iter_mut().for_each(|descriptor| descriptor.since = entry.created);
        unlocked.insert(file, entry)
    };
    let (store, id) = kept().inspect_err(|failure| {
        if seen && !matches!(failure, KeysFailure::Store(StoreError::NotDurable(..))) {
            eprintln!(
                "godwit-signer: the words that were shown are void: the key file does not have them"
            );
        }
    })?;
    if let Some(out) = out {
        store.write_secrets_to(id, out.as_fd()).inspect_err(|_| {
            eprintln!(
                "godwit-signer: the key file has the new entry all the same; keys export {id} writes its words"
            );
        })?;
    }
    print_entry(&store, id)
}

/// Shows new words at the terminal, and asks for them once they are no longer there: nothing may be received
/// before there is a backup.
fn show_and_ask(mut terminal: Terminal, mnemonic: &Mnemonic) -> Result<(), KeysFailure> {
    for _ in 0..ATTEMPTS {
        terminal.say(
            "Write these words down. Whoever has them has the coins; without them and without the key \
             file nobody has.",
        )?;
        mnemonic.write_secret_to(terminal.as_fd()).map_err(StoreError::from)?;
        let read = terminal.ask("Press Enter when you have, and they disappear");
        terminal.clear()?;
        attempt(read)?;
        let typed = terminal.ask("Type the words that you have written down");
        let typed = attempt(typed)?.map(|typed| Mnemonic::parse(SecretSlice::from(&typed)));
        match typed {
            Some(Ok(typed)) if typed.is_same(mnemonic) => return Ok(()),
            _ => terminal.say("These are other words.")?,
        }
    }
    Err(KeysFailure::OtherWords)
}

/// The text that was typed; `None` if it is not valid text.
fn attempt(typed: Result<SecretBytes, KeysFailure>) -> Result<Option<SecretBytes>, KeysFailure> {
    match typed {
        Ok(typed) => Ok(Some(typed)),
        Err(KeysFailure::NoCharacter | KeysFailure::TooLongForTerminal) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Shows an entry, asks, and removes it.
fn remove(file: &KeyFile<'_>, id: KeyId, yes: Option<&str>) -> Result<Exit, KeysFailure> {
    let mut store = Session::begin(file, [])?.open_to_change()?;
    let entry = described_in(&store, store.entry(id).ok_or(StoreError::Unknown(id))?)?;
    let question = "Remove this entry and its keys?";
    agree::ask(&format!("{entry:#}"), question, yes, &id.to_string())
        .map_err(KeysFailure::NotRemoved)?;
    store.remove(id)?;
    file.written(&store);
    Ok(print_json(&entry)?)
}

fn export(file: &KeyFile<'_>, id: KeyId) -> Result<Exit, KeysFailure> {
    check_that_output_is_open()?;
    let store = Session::begin(file, [])?.open()?;
    // Straight to the file descriptor: the buffer of `Stdout` would keep a copy of the secret.
    store.write_secrets_to(id, std::io::stdout().as_fd())?;
    Ok(Exit::Success)
}

fn change_passphrase(file: &KeyFile<'_>, new: Option<Descriptor>) -> Result<Exit, KeysFailure> {
    let session = Session::begin(file, [new])?;
    let mut store = session.open_to_change()?;
    let new = session.input.file_passphrase(new, "New passphrase")?;
    let usual = store.kdf_parameters().at_least_recommended();
    store.change_passphrase(&new, file.cost().of(usual))?;
    file.written(&store);
    Ok(Exit::Success)
}

fn entry_of_words(
    label: &str,
    mnemonic: Mnemonic,
    passphrase: &SecretString,
    network: NetworkKind,
) -> Result<Entry, KeysFailure> {
    let root = ExtendedPrivateKey::from_mnemonic(&mnemonic, passphrase, network);
    let root = root.map_err(StoreError::from)?;
    let words = Words { mnemonic, with_passphrase: !passphrase.is_empty() };
    let descriptors = account_descriptors(&root).map_err(StoreError::from)?;
    let descriptors = descriptors.into_iter().map(EntryDescriptor::new).collect();
    let keys = vec![StoredKey::Extended { key: root, origin: None }];
    Ok(Entry { words: Some(words), ..new_entry(label, network, descriptors, keys) })
}

/// A new entry for keys that may be old.
fn new_entry(
    label: &str,
    network: NetworkKind,
    descriptors: Vec<EntryDescriptor>,
    keys: Vec<StoredKey>,
) -> Entry {
    let created = seconds_since_1970().unsigned_abs();
    let label = label.to_owned();
    Entry { label, created, network, descriptors, keys, words: None }
}

fn print_entry(store: &KeyStore, id: KeyId) -> Result<Exit, KeysFailure> {
    Ok(print_json(&inserted(store, id)?)?)
}

/// The public part of an entry that was just inserted.
fn inserted(store: &KeyStore, id: KeyId) -> Result<Value, KeysFailure> {
    described_in(store, store.entry(id).expect("it was just inserted"))
}

/// An entry in the form that `importdescriptors` of Bitcoin Core takes, for a wallet without private keys.
/// None of the descriptors is active, because only one wallet may give out addresses.
fn for_core(entry: &Entry) -> Vec<Value> {
    let one = |EntryDescriptor { text, next_index, since }: &EntryDescriptor| {
        let mut one = json!({
            "desc": text,
            "active": false,
            "internal": text.contains("/1/*"),
            // For keys that were made elsewhere, nothing tells when they received their first coin.
            "timestamp": since,
        });
        if text.contains("/*") {
            let (last, next_index) = range_for_core(*next_index);
            one["range"] = json!([0, last]);
            one["next_index"] = json!(next_index);
        } else {
            one["label"] = json!(entry.label);
        }
        one
    };
    entry.descriptors.iter().map(one).collect()
}

/// The last index that Core is to watch, and the next one that it may give out, which Core wants within the
/// range. If a wallet has given out more indexes than a range can hold, Core continues behind the range by
/// itself, as far as its keypool, each time that it finds a coin; and it would give out the last address of
/// the range again.
fn range_for_core(next_index: u32) -> (u32, u32) {
    let last = next_index.saturating_add(CORE_KEYPOOL - 1).min(CORE_MAX_RANGE - 1);
    (last, next_index.min(last))
}

/// The public part of an entry, with the owners of its keys.
fn described_in(store: &KeyStore, entry: &Entry) -> Result<Value, KeysFailure> {
    Ok(described(entry, &show::keys_of(Some(store), entry)?))
}

fn described(entry: &Entry, keys: &[Vec<KeyStanding>]) -> Value {
    let is_ours = |key: &KeyStanding| key.standing == Standing::Ours;
    let multipath = multipath(entry.texts());
    let policies = multipath.iter().filter_map(|text| policy_of(text));
    let policies: Value = policies
        .map(|PolicyText { template, keys }| json!({ "template": template, "keys": keys }))
        .collect();
    json!({
        "id": entry.id().to_string(),
        "label": entry.label,
        "created": entry.created,
        "network": if entry.network.is_mainnet() { "main" } else { "test" },
        "mnemonic": entry.words.is_some(),
        "bip39_passphrase": entry.words.as_ref().is_some_and(|words| words.with_passphrase),
        "descriptors": entry.texts().collect::<Vec<_>>(),
        "multipath": multipath,
        "policies": policies,
        "keys": keys.iter().map(|keys| keys.iter().map(show::whose).collect()).collect::<Vec<Value>>(),
        // A payment back to a descriptor with a key of ours is change, wherever that key is kept.
        "watch_only": entry.keys.is_empty() && !keys.iter().flatten().any(is_ours),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_that_core_takes() {
        assert_eq!(range_for_core(0), (999, 0));
        assert_eq!(range_for_core(5), (1_004, 5));
        assert_eq!(range_for_core(999_000), (999_999, 999_000));
        // Core: "Range is too large" where the last is a million or more above the first.
        assert_eq!(range_for_core(999_001), (999_999, 999_001));
        assert_eq!(range_for_core(999_999), (999_999, 999_999));
        assert_eq!(range_for_core(1_000_000), (999_999, 999_999));
        assert_eq!(range_for_core(u32::MAX), (999_999, 999_999));
    }
}
