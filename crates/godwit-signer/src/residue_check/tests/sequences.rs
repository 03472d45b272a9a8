//! Random sequences of commands in one process: after every hundred of them no piece of a secret is left.

use std::os::fd::AsFd;

use bitcoin::bip32::DerivationPath;
use godwit_keys::message::MessageFormat;
use godwit_keys::psbt::OwnScript;
use godwit_keys::{Entry, KeyFileError, StoreError, account_keys};
use godwit_sim::rng::Rng;

use super::*;
use crate::options::Bip39Passphrase;
use crate::residue_check::payment;
use crate::residue_check::uses::{NETWORK, PATHS, around, frugal, text_of};

/// Memory is searched after so many.
const HUNDRED: u64 = 100;
/// Commands of one sequence, at most, behind the one that makes its key file.
const LONGEST: u64 = 6;

/// A key file between two commands.
struct Closed {
    path: PathBuf,
    passphrase: SecretString,
}

impl Closed {
    fn open(&self) -> Result<KeyStore, CheckError> {
        Ok(KeyStore::open(&self.path, &self.passphrase)?)
    }

    /// One of its entries, by chance.
    fn any<'a>(&self, store: &'a KeyStore, rng: &mut Rng) -> Option<&'a Entry> {
        let entries = store.entries();
        (!entries.is_empty()).then(|| &entries[rng.below(entries.len() as u64) as usize])
    }

    fn insert(&self, text: &SecretString) -> Result<(), CheckError> {
        let mut store = self.open()?;
        let (input, _) = case::input_with(text)?;
        let entry = entry_of(NETWORK, "invented", text, &input, Bip39Passphrase::None)?;
        store.insert(entry)?;
        Ok(())
    }
}

type Command = fn(&mut Case<'_, '_>, &mut Rng, &mut Closed) -> Result<(), CheckError>;

const COMMANDS: [Command; 13] = [
    import_words,
    import_extended_key,
    import_wif,
    import_descriptor,
    import_what_is_none,
    open_wrongly,
    list,
    show_accounts,
    sign_psbt,
    sign_message,
    export,
    change_passphrase,
    remove,
];

/// A root key, planted with what is signed with below it.
fn invented_root(case: &mut Case<'_, '_>) -> Result<StoredKey, CheckError> {
    let seed = SecretBytes::copy_of(&case.number("seed")?)?;
    let key = ExtendedPrivateKey::from_seed(&seed, NETWORK)?;
    case.plant(key.needle("root key")?);
    case.plant(key.chain_code_needle("chain code of the root")?);
    let path: DerivationPath = PATHS[0].parse().map_err(|_| case.unexpected())?;
    case.plant(key.derive(path.as_ref())?.needle("key that signs")?);
    Ok(StoredKey::Extended { key, origin: None })
}

fn import_words(case: &mut Case<'_, '_>, _: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let invented = Mnemonic::from_32_bytes(&case.number("entropy of the words")?)?;
    let text = case::through_a_pipe(|pipe| Ok(invented.write_secret_to(pipe.as_fd())?))?;
    // Not the words as numbers of eight bytes: small numbers lie everywhere, and of so many mnemonics nearly
    // each would be looked at. One operation after the other is searched for those.
    let [_, entropy] = invented.needles("words")?;
    case.plant(entropy);
    case.plant(Needle::new("words", &text)?);
    file.insert(&text)
}

fn import_extended_key(
    case: &mut Case<'_, '_>,
    _: &mut Rng,
    file: &mut Closed,
) -> Result<(), CheckError> {
    file.insert(&text_of(&invented_root(case)?)?)
}

fn import_wif(case: &mut Case<'_, '_>, _: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let key = PrivateKey::from_secret(case.number("private key")?)?;
    case.plant(key.needle("private key")?);
    file.insert(&text_of(&StoredKey::Single { key, compressed: true })?)
}

fn import_descriptor(
    case: &mut Case<'_, '_>,
    rng: &mut Rng,
    file: &mut Closed,
) -> Result<(), CheckError> {
    let kinds =
        [("wpkh(", "/84h/1h/0h/0/*)"), ("pkh(", "/44h/1h/0h/0/*)"), ("tr(", "/86h/1h/0h/0/*)")];
    let (before, after) = kinds[rng.below(kinds.len() as u64) as usize];
    file.insert(&around(before, &text_of(&invented_root(case)?)?, after)?)
}

/// A key whose text says that it was cut, with a letter of it another one.
fn import_what_is_none(
    case: &mut Case<'_, '_>,
    rng: &mut Rng,
    file: &mut Closed,
) -> Result<(), CheckError> {
    let text = text_of(&invented_root(case)?)?;
    let end = rng.between(20, text.len() as u64 - 1) as usize;
    let mut cut = SecretString::with_capacity(end)?;
    text.expose_secret_into(&mut cut, |text, cut| cut.push_str(&text[..end]))?;
    match file.insert(&cut) {
        Err(CheckError::Command(_)) => Ok(()),
        _ => Err(case.unexpected()),
    }
}

fn open_wrongly(case: &mut Case<'_, '_>, _: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let wrong = case.passphrase("wrong passphrase")?;
    match KeyStore::open(&file.path, &wrong) {
        Err(StoreError::Content(_, KeyFileError::WrongPassphrase)) => Ok(()),
        _ => Err(case.unexpected()),
    }
}

fn list(_: &mut Case<'_, '_>, _: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let store = file.open()?;
    let printed: Vec<String> = store.entries().iter().map(|entry| format!("{entry:?}")).collect();
    black_box(printed);
    Ok(())
}

fn show_accounts(_: &mut Case<'_, '_>, rng: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let store = file.open()?;
    for key in file.any(&store, rng).into_iter().flat_map(|entry| &entry.keys) {
        if let StoredKey::Extended { key, origin } = key {
            account_keys(key, origin.as_ref(), rng.below(3) as u32)?;
        }
    }
    Ok(())
}

fn sign_psbt(case: &mut Case<'_, '_>, rng: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let store = file.open()?;
    for key in file.any(&store, rng).into_iter().flat_map(|entry| &entry.keys) {
        if let StoredKey::Extended { key, .. } = key {
            let unsigned = payment::payment(case, key)?;
            payment::sign_with(&store, &unsigned)?;
        }
    }
    Ok(())
}

fn sign_message(
    case: &mut Case<'_, '_>,
    rng: &mut Rng,
    file: &mut Closed,
) -> Result<(), CheckError> {
    let store = file.open()?;
    let Some(entry) = file.any(&store, rng) else { return Ok(()) };
    for (place, descriptor) in (1..).zip(entry.texts()).filter(|(_, text)| text.starts_with("wpkh"))
    {
        let (descriptor, index) = (descriptor.to_owned(), descriptor.contains('*').then_some(0));
        let own = OwnScript { entry: entry.id(), place, descriptor, shared: false, index };
        let format = MessageFormat::Simple;
        let signed = godwit_keys::message::sign_message(&store, NETWORK, &own, "a message", format);
        signed.map_err(|_| case.unexpected())?;
    }
    Ok(())
}

fn export(_: &mut Case<'_, '_>, rng: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let store = file.open()?;
    let Some(entry) = file.any(&store, rng) else { return Ok(()) };
    case::through_a_pipe(|pipe| Ok(store.write_secrets_to(entry.id(), pipe.as_fd())?))?;
    Ok(())
}

fn change_passphrase(
    case: &mut Case<'_, '_>,
    _: &mut Rng,
    file: &mut Closed,
) -> Result<(), CheckError> {
    let new = case.passphrase("new passphrase")?;
    file.open()?.change_passphrase(&new, frugal())?;
    file.passphrase = new;
    Ok(())
}

fn remove(_: &mut Case<'_, '_>, rng: &mut Rng, file: &mut Closed) -> Result<(), CheckError> {
    let mut store = file.open()?;
    let id = file.any(&store, rng).map(Entry::id);
    id.map_or(Ok(()), |id| Ok(store.remove(id).map(drop)?))
}

/// A key file, and commands on it. Of the last one of a hundred memory is searched while it is open.
fn sequence(case: &mut Case<'_, '_>, rng: &mut Rng, last: bool) -> Result<(), CheckError> {
    let path = case.path("random");
    let mut file = Closed { path, passphrase: case.passphrase("passphrase")? };
    KeyStore::create(&file.path, &file.passphrase, frugal())?;
    for _ in 0..rng.between(1, LONGEST) {
        let command = COMMANDS[rng.below(COMMANDS.len() as u64) as usize];
        command(case, rng, &mut file)?;
    }
    if last {
        let store = file.open()?;
        case.unlocked()?;
        drop(store);
    }
    let folder = file.path.parent().expect("a path in a folder");
    for left in std::fs::read_dir(folder)? {
        std::fs::remove_file(left?.path())?;
    }
    Ok(())
}

/// Looks when it is told to, and not inside of operations: there are too many.
#[derive(Default)]
struct Between(Search);

impl Observer for Between {
    fn unlocked(&mut self, name: &'static str, needles: &[Needle]) -> Result<(), CheckError> {
        self.0.unlocked(name, needles)
    }

    fn locked(&mut self, name: &'static str, needles: Vec<Needle>) -> Result<(), CheckError> {
        self.0.locked(name, needles)
    }
}

/// What a search prints behind a hundred sequences, the last of which ends with `leak`.
fn hundred(
    rng: &mut Rng,
    invention: &mut Invention<'_>,
    directory: &TempDir,
    leak: impl FnOnce(&mut Case<'_, '_>) -> Result<(), CheckError>,
) -> Result<(Exit, String), CheckError> {
    let mut observer = Between::default();
    let body = |case: &mut Case<'_, '_>| {
        (1..=HUNDRED).try_for_each(|number| sequence(case, rng, number == HUNDRED))?;
        leak(case)
    };
    Case::run("a hundred", directory.path(), invention, &mut observer, body)?;
    let mut out = Vec::new();
    let exit = report::print(&mut out, &observer.0)?;
    Ok((exit, String::from_utf8(out).expect("it is text")))
}

/// In memory, where there is such a file system: nothing here is about what a disk keeps.
fn folder() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a temporary directory")
}

fn leave_nothing(sequences: u64) {
    let _alone = alone();
    let (directory, mut rng) = (folder(), Rng::new(18));
    let seed = SecretArray::<32>::random().expect("memory");
    let mut invention = Invention::new(&seed);
    for number in 0..sequences / HUNDRED {
        let (exit, said) = hundred(&mut rng, &mut invention, &directory, |_| Ok(()))
            .unwrap_or_else(|error| panic!("hundred {number}: {error}"));
        assert_eq!(exit, Exit::Success, "hundred {number}: {said}");
        if (number + 1) % 10 == 0 {
            eprintln!("{} sequences, nothing left", (number + 1) * HUNDRED);
        }
    }
}

#[test]
fn a_thousand_random_sequences_of_commands_leave_nothing() {
    leave_nothing(1_000);
}

#[test]
#[ignore = "takes half an hour"]
fn a_hundred_thousand_random_sequences_of_commands_leave_nothing() {
    leave_nothing(100_000);
}

/// That the search behind so many commands still sees what one of them leaves, of each kind.
#[test]
fn what_one_of_a_hundred_sequences_leaves_is_found() {
    let _alone = alone();
    let (directory, mut rng) = (folder(), Rng::new(81));
    let seed = SecretArray::<32>::random().expect("memory");
    let leave = |case: &mut Case<'_, '_>| {
        let secrets = Leak::ALL.map(|leak| (leak, SecretArray::<32>::random().expect("memory")));
        for (leak, secret) in &secrets {
            case.plant(Needle::new(leak.name(), secret)?);
        }
        let copies = secrets.map(|(leak, secret)| (leak, leak.copies(&secret)));
        copies.into_iter().for_each(|(leak, copies)| leak.leave(copies));
        Ok(())
    };
    let (exit, said) = hundred(&mut rng, &mut Invention::new(&seed), &directory, leave)
        .expect("memory is searched");
    assert_eq!(exit, Exit::Bug, "{said}");
    for leak in Leak::ALL {
        assert!(said.contains(&format!("copy: {} (", leak.name())), "{leak:?}: {said}");
    }
}
