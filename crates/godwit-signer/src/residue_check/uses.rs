//! Every way in which godwit uses keys, with invented ones.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use bitcoin::NetworkKind;
use bitcoin::bip32::DerivationPath;
use godwit_keys::message::{MessageFormat, sign_message};
use godwit_keys::psbt::OwnScript;
use godwit_keys::psbt::{Standing, standings};
use godwit_keys::{
    Entry, ExtendedPrivateKey, KdfParameters, KeyFileError, KeyId, KeyStore, Mnemonic, PrivateKey,
    StoreError, StoredKey, account_keys, core_wallet_needles, import_core_wallet,
};
use godwit_secret::residue::Needle;
use godwit_secret::{SecretBytes, SecretString};

use super::CheckError;
use super::case::{Case, input_with, through_a_pipe};
use crate::keys::import::entry_of;
use crate::options::Bip39Passphrase;

pub(super) const NETWORK: NetworkKind = NetworkKind::Test;
/// Derivation paths of invented keys: one of a P2WPKH account, one of a taproot account.
pub(super) const PATHS: [&str; 2] = ["84h/1h/0h/0/0", "86h/1h/0h/0/0"];
/// The accounts of every purpose, which `keys create` derives, and those paths.
const TREE: [&str; 4] = ["44h/1h/0h", "49h/1h/0h", PATHS[0], PATHS[1]];
/// The keys of cosigners, which `keys xpub` derives besides.
const COSIGNERS: [&str; 2] = ["48h/1h/0h/2h", "48h/1h/0h/1h"];
/// Steps to an account. Above it nobody is shown a chain code.
const TO_ACCOUNT: usize = 3;
/// A digest to sign where it does not matter which.
const DIGEST: [u8; 32] = [0x5a; 32];

/// Parameters for all files but one, so that the check does not take minutes.
pub(super) fn frugal() -> KdfParameters {
    KdfParameters::new(64, 1, 1).expect("64 KiB are enough for one lane")
}

/// A file with keys, closed.
pub(super) struct Stored {
    pub(super) path: PathBuf,
    pub(super) passphrase: SecretString,
    pub(super) id: KeyId,
    /// What the entry was imported from.
    pub(super) descriptor: SecretString,
}

pub(super) fn create(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let passphrase = case.passphrase("passphrase")?;
    for (file, parameters) in [("usual", KdfParameters::RECOMMENDED), ("frugal", frugal())] {
        let store = KeyStore::create(&case.path(file), &passphrase, parameters)?;
        plant_store(case, &store, &passphrase)?;
        case.unlocked()?;
    }
    Ok(())
}

pub(super) fn open_wrongly(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let path = store_with_keys(case, "closed")?.path;
    let wrong = case.passphrase("wrong passphrase")?;
    let outcome = KeyStore::open(&path, &wrong);
    case.unlocked()?;
    match outcome {
        Err(StoreError::Content(_, KeyFileError::WrongPassphrase)) => Ok(()),
        _ => Err(case.unexpected()),
    }
}

pub(super) fn unlock(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let stored = store_with_keys(case, "unlocked")?;
    let store = KeyStore::open(&stored.path, &stored.passphrase)?;
    plant_store(case, &store, &stored.passphrase)?;
    case.unlocked()
}

/// Everything that an open file holds, and what its passphrase becomes on the way to the file's key.
fn plant_store(
    case: &mut Case<'_, '_>,
    store: &KeyStore,
    passphrase: &SecretString,
) -> Result<(), CheckError> {
    case.plant_all(store.needles()?);
    case.plant(store.passphrase_hash_needle("hash of the passphrase", passphrase)?);
    Ok(())
}

pub(super) fn import_words(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let invented = Mnemonic::from_32_bytes(&case.number("entropy of the words")?)?;
    case.plant_all(invented.needles("words")?);
    let text = through_a_pipe(|pipe| Ok(invented.write_secret_to(pipe.as_fd())?))?;
    let passphrase = case.passphrase("passphrase of the words")?;
    case.plant(invented.seed_needle("seed", &passphrase)?);
    let root = ExtendedPrivateKey::from_mnemonic(&invented, &passphrase, NETWORK)?;
    plant_tree(case, &root)?;
    let (input, descriptor) = input_with(&passphrase)?;
    let passphrase = Bip39Passphrase::Descriptor(descriptor);
    let entry = entry_of(NETWORK, "words", &text, &input, passphrase)?;
    insert(case, "words", entry).map(|_| ())
}

pub(super) fn import_extended_key(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let root = StoredKey::Extended { key: root(case)?, origin: None };
    import(case, "extended", &text_of(&root)?)
}

pub(super) fn import_wif(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let key = PrivateKey::from_secret(case.number("private key")?)?;
    case.plant(key.needle("private key")?);
    import(case, "single", &text_of(&StoredKey::Single { key, compressed: true })?)
}

pub(super) fn import_descriptor(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let internal = text_of(&StoredKey::Extended { key: root(case)?, origin: None })?;
    let leaf = text_of(&StoredKey::Extended { key: root(case)?, origin: None })?;
    let mut descriptor = around("tr(", &internal, "/86h/1h/0h/<0;1>/*,pk(")?;
    leaf.expose_secret_into(&mut descriptor, |leaf, descriptor| descriptor.push_str(leaf))?;
    descriptor.push_str("/86h/1h/0h/<0;1>/*))")?;
    // Between the keys, which have needles of their own, it says nothing that its public form does not.
    case.plant(Needle::whole("private descriptor", &descriptor)?);
    import(case, "descriptor", &descriptor)
}

/// Imports a wallet that the user named.
pub(super) fn import_wallet(
    case: &mut Case<'_, '_>,
    path: &Path,
    passphrase: Option<SecretString>,
) -> Result<(), CheckError> {
    if let Some(passphrase) = &passphrase {
        case.plant_own_passphrase(passphrase)?;
    }
    case.plant_all(core_wallet_needles(path, passphrase.as_ref())?);
    let wallet = import_core_wallet(path, passphrase.as_ref())?;
    case.unlocked()?;
    match wallet.keys.is_empty() {
        true => Err(case.unexpected()),
        false => Ok(()),
    }
}

pub(super) fn derive_and_sign(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let root = root(case)?;
    for path in PATHS {
        let path: DerivationPath = path.parse().map_err(|_| case.unexpected())?;
        let key = root.derive(path.as_ref())?.private_key()?;
        // Each signature twice: when it is made again, the nonce is known and is looked for inside.
        let signature = key.sign_ecdsa(&DIGEST)?;
        case.plant(key.ecdsa_nonce_needle("nonce of ECDSA", &signature, &DIGEST)?);
        key.sign_ecdsa(&DIGEST)?;
        let signature = key.sign_recoverable(&DIGEST)?;
        let nonce =
            key.ecdsa_nonce_needle("nonce of a message", &signature.to_standard(), &DIGEST)?;
        case.plant(nonce);
        key.sign_recoverable(&DIGEST)?;
        for tweak in [None, Some(&DIGEST)] {
            let signature = key.sign_schnorr(&DIGEST, tweak)?;
            let nonce = key.schnorr_nonce_needle("nonce of BIP340", &signature, &DIGEST, tweak)?;
            case.plant(nonce);
            key.sign_schnorr(&DIGEST, tweak)?;
        }
        case.unlocked()?;
    }
    Ok(())
}

pub(super) fn show_accounts(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let root = root(case)?;
    for path in COSIGNERS {
        let path: DerivationPath = path.parse().map_err(|_| case.unexpected())?;
        for end in 1..=path.len() {
            let place = DerivationPath::from(&path.as_ref()[..end]);
            let key = root.derive(place.as_ref())?;
            case.plant(key.needle(&format!("key at {place}"))?);
        }
    }
    let stored = store_with_root(case, "accounts", root)?;
    let store = KeyStore::open(&stored.path, &stored.passphrase)?;
    let mut shown = 0;
    for key in store.entries().iter().flat_map(|entry| &entry.keys) {
        if let StoredKey::Extended { key, origin } = key {
            shown += account_keys(key, origin.as_ref(), 0)?.len();
        }
    }
    case.unlocked()?;
    if shown == TREE.len() + COSIGNERS.len() { Ok(()) } else { Err(case.unexpected()) }
}

/// Signs a message in each format.
pub(super) fn sign_messages(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let root = StoredKey::Extended { key: root(case)?, origin: None };
    let entry = imported(&text_of(&root)?)?;
    drop(root);
    let (path, passphrase, id) = insert(case, "messages", entry)?;
    let store = KeyStore::open(&path, &passphrase)?;
    let entry = store.entry(id).ok_or_else(|| case.unexpected())?;
    for (place, descriptor) in (1..).zip(entry.texts()) {
        let descriptor = descriptor.to_owned();
        let format = match descriptor.split('(').next() {
            Some("pkh") => MessageFormat::Legacy,
            Some("sh") => MessageFormat::Full,
            _ => MessageFormat::Simple,
        };
        let own = OwnScript { entry: id, place, descriptor, shared: false, index: Some(0) };
        let signed = sign_message(&store, NETWORK, &own, "a message", format);
        signed.map_err(|_| case.unexpected())?;
    }
    case.unlocked()
}

/// Tells which key of a multisig is ours.
pub(super) fn watch_a_multisig(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let root = root(case)?;
    let ours = account_keys(&root, None, 0)?.swap_remove(2).key;
    let stored = store_with_root(case, "multisig", root)?;
    let store = KeyStore::open(&stored.path, &stored.passphrase)?;
    let descriptor = format!("wsh(sortedmulti(1,{ours}/0/*,{COSIGNER}/0/*))");
    let keys = standings(&store, NETWORK, &descriptor)?;
    case.unlocked()?;
    match &keys.iter().map(|key| key.standing).collect::<Vec<_>>()[..] {
        [Standing::Ours, Standing::Cosigner] => Ok(()),
        _ => Err(case.unexpected()),
    }
}

/// Somebody's public key.
const COSIGNER: &str = "tpubDDqLGzS9Tnc6E5QTGDFgDJnUqbRUhkT6fajttjAUtDoNpCZf4FAUNfyAdM7ocFeWhKP5cBV6BvxD2B4U9oj9YP13e\
                        gUWCPb4Lv9LkejiA85";

pub(super) fn export(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let stored = store_with_keys(case, "exported")?;
    let store = KeyStore::open(&stored.path, &stored.passphrase)?;
    let text = through_a_pipe(|pipe| Ok(store.write_secrets_to(stored.id, pipe.as_fd())?))?;
    case.unlocked()?;
    // The export is the imported descriptor with a checksum appended.
    let same = text.expose_secret(|exported| {
        let exported = exported.split('#').next();
        stored.descriptor.expose_secret(|descriptor| exported == Some(descriptor))
    });
    if same { Ok(()) } else { Err(case.unexpected()) }
}

pub(super) fn change_passphrase(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let stored = store_with_keys(case, "changed")?;
    let mut store = KeyStore::open(&stored.path, &stored.passphrase)?;
    case.plant_all(store.needles()?);
    let new = case.passphrase("new passphrase")?;
    store.change_passphrase(&new, frugal())?;
    case.plant_all(store.needles()?);
    case.unlocked()?;
    drop(store);
    let mut store = KeyStore::open(&stored.path, &new)?;
    store.remove(stored.id)?;
    case.unlocked()
}

/// Creates a key file with an invented extended key.
fn store_with_keys(case: &mut Case<'_, '_>, file: &str) -> Result<Stored, CheckError> {
    let root = root(case)?;
    store_with_root(case, file, root)
}

pub(super) fn store_with_root(
    case: &mut Case<'_, '_>,
    file: &str,
    root: ExtendedPrivateKey,
) -> Result<Stored, CheckError> {
    let descriptor = account(&StoredKey::Extended { key: root, origin: None })?;
    let (path, passphrase, id) = insert(case, file, imported(&descriptor)?)?;
    Ok(Stored { path, passphrase, id, descriptor })
}

/// Creates a key file with this entry, and closes it.
fn insert(
    case: &mut Case<'_, '_>,
    file: &str,
    entry: Entry,
) -> Result<(PathBuf, SecretString, KeyId), CheckError> {
    let passphrase = case.passphrase("passphrase")?;
    let path = case.path(file);
    let mut store = KeyStore::create(&path, &passphrase, frugal())?;
    let id = store.insert(entry)?;
    plant_store(case, &store, &passphrase)?;
    case.unlocked()?;
    Ok((path, passphrase, id))
}

/// Invents a root key and plants every key on the way to its addresses.
pub(super) fn root(case: &mut Case<'_, '_>) -> Result<ExtendedPrivateKey, CheckError> {
    let seed = SecretBytes::copy_of(&case.number("seed")?)?;
    case.plant(ExtendedPrivateKey::seed_hash_needle("hash of the seed", &seed)?);
    let root = ExtendedPrivateKey::from_seed(&seed, NETWORK)?;
    plant_tree(case, &root)?;
    Ok(root)
}

fn plant_tree(case: &mut Case<'_, '_>, root: &ExtendedPrivateKey) -> Result<(), CheckError> {
    let mut needles =
        vec![root.needle("root key")?, root.chain_code_needle("chain code of the root")?];
    for path in TREE {
        let path: DerivationPath = path.parse().map_err(|_| case.unexpected())?;
        let steps: &[_] = path.as_ref();
        for end in 1..=steps.len() {
            let key = root.derive(&steps[..end])?;
            let place = DerivationPath::from(&steps[..end]);
            needles.push(key.needle(&format!("key at {place}"))?);
            if end < TO_ACCOUNT {
                needles.push(key.chain_code_needle(&format!("chain code at {place}"))?);
            }
        }
    }
    // At once: each new one asks for searches at all steps.
    case.plant_all(needles);
    Ok(())
}

/// The text of a key, as an export writes it.
pub(super) fn text_of(key: &StoredKey) -> Result<SecretString, CheckError> {
    through_a_pipe(|pipe| Ok(key.write_secret_to(NETWORK, pipe.as_fd())?))
}

/// A descriptor of the first account of a root.
fn account(root: &StoredKey) -> Result<SecretString, CheckError> {
    around("wpkh(", &text_of(root)?, "/84h/1h/0h/0/*)")
}

pub(super) fn around(
    before: &str,
    key: &SecretString,
    after: &str,
) -> Result<SecretString, CheckError> {
    let mut text = SecretString::with_capacity(before.len() + key.len() + after.len())?;
    text.push_str(before)?;
    key.expose_secret_into(&mut text, |key, text| text.push_str(key))?;
    text.push_str(after)?;
    Ok(text)
}

/// An entry from a text, as `keys import` would make it.
fn imported(text: &SecretString) -> Result<Entry, CheckError> {
    let (input, _) = input_with(text)?;
    Ok(entry_of(NETWORK, "invented", text, &input, Bip39Passphrase::None)?)
}

fn import(case: &mut Case<'_, '_>, file: &str, text: &SecretString) -> Result<(), CheckError> {
    let entry = imported(text)?;
    insert(case, file, entry).map(|_| ())
}
