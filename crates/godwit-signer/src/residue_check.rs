//! `godwit-signer residue-check`: uses keys in every way that godwit does, and searches the
//! process's memory for copies of them.
//!
//! The keys are invented, and their files are in a temporary directory. While the keys are in use,
//! copies may be in locked memory and nowhere else; afterwards, nowhere. To show that it works, the
//! search first has to find copies that were leaked on purpose.

mod case;
mod error;
mod leak;
mod panics;
mod payment;
mod proof;
mod report;
mod session;
mod typing;
mod uses;

use std::path::Path;

use godwit_keys::{CoreWalletError, KeyStore, StoredKey, import_core_wallet};
use godwit_program::Exit;
use godwit_secret::{SecretArray, SecretString};
use tempfile::TempDir;

use crate::keys::session::{KeyFile, Session};
use crate::options::{Config, ResidueCheckOptions};
use case::{Case, Invention};
use report::Search;

pub use case::{Inside, Observer};
pub use error::{CheckError, CommandError};

/// A use of keys, with its name in the report.
type Use = (&'static str, fn(&mut Case<'_, '_>) -> Result<(), CheckError>);

const USES: [Use; 17] = [
    ("create a key file", uses::create),
    ("give a wrong passphrase", uses::open_wrongly),
    ("unlock", uses::unlock),
    ("type at a terminal", typing::type_a_passphrase),
    ("import words", uses::import_words),
    ("import an extended key", uses::import_extended_key),
    ("import a WIF", uses::import_wif),
    ("import a descriptor", uses::import_descriptor),
    ("derive and sign", uses::derive_and_sign),
    ("show accounts", uses::show_accounts),
    ("watch a multisig", uses::watch_a_multisig),
    ("sign a PSBT", payment::sign),
    ("sign messages", uses::sign_messages),
    ("export to a pipe", uses::export),
    ("change the passphrase", uses::change_passphrase),
    ("panic while unlocked", panics::panic_unlocked),
    ("encrypted connection", session::connect),
];

/// Secrets of the user's to include in the check.
#[derive(Default)]
struct Own<'a> {
    /// A key file and its passphrase.
    store: Option<(&'a Path, SecretString)>,
    /// A wallet of Bitcoin Core and, if it is encrypted, its passphrase.
    wallet: Option<(&'a Path, Option<SecretString>)>,
}

pub(crate) fn run(config: &Config, options: &ResidueCheckOptions) -> Result<Exit, CheckError> {
    let file = KeyFile::of(config, &options.file);
    let session = Session::begin(&file, [options.wallet_passphrase])?;
    let mut own = Own::default();
    if options.file.file.is_some() {
        own.store = Some((file.path(), session.passphrase()?));
    }
    if let Some(wallet) = &options.wallet {
        let passphrase = match import_core_wallet(wallet, None) {
            Err(CoreWalletError::PassphraseNeeded) => {
                let what = format!("Passphrase of {}", wallet.display());
                Some(session.input.secret(options.wallet_passphrase, &what)?)
            }
            // Any other problem with the wallet is reported when it is used.
            _ => None,
        };
        own.wallet = Some((wallet, passphrase));
    }
    check(own)
}

/// Runs the check and prints a line for each use of keys.
fn check(own: Own<'_>) -> Result<Exit, CheckError> {
    let mut out = std::io::stdout();
    report::print_proof(&mut out, &proof::leak_on_purpose()?)?;
    let seed = SecretArray::<32>::random()?;
    let mut search = Search::default();
    use_invented_keys(&seed, &mut search)?;
    drop(seed);
    use_own(own, &mut search)?;
    report::print(&mut out, &search)
}

/// Uses keys derived from `seed` in every way that needs no secret of the user's.
pub fn use_invented_keys(
    seed: &SecretArray<32>,
    observer: &mut dyn Observer,
) -> Result<(), CheckError> {
    let directory = TempDir::with_prefix("godwit-residue-check-")?;
    let mut invention = Invention::new(seed);
    for (name, body) in USES {
        Case::run(name, directory.path(), &mut invention, observer, body)?;
    }
    Ok(directory.close()?)
}

/// Reads a wallet of Bitcoin Core as `keys import-core-wallet` does.
pub fn use_wallet(
    path: &Path,
    passphrase: Option<SecretString>,
    observer: &mut dyn Observer,
) -> Result<(), CheckError> {
    let body = |case: &mut Case<'_, '_>| uses::import_wallet(case, path, passphrase);
    inventing_nothing("import a wallet of Core", observer, body)
}

fn use_own(own: Own<'_>, observer: &mut dyn Observer) -> Result<(), CheckError> {
    if let Some((path, passphrase)) = own.wallet {
        use_wallet(path, passphrase, observer)?;
    }
    if let Some((path, passphrase)) = own.store {
        let body = |case: &mut Case<'_, '_>| unlock_own(case, path, passphrase);
        inventing_nothing("your own key file", observer, body)?;
    }
    Ok(())
}

/// Runs a use of existing keys, which needs no file of its own.
fn inventing_nothing(
    name: &'static str,
    observer: &mut dyn Observer,
    body: impl FnOnce(&mut Case<'_, '_>) -> Result<(), CheckError>,
) -> Result<(), CheckError> {
    let nothing = SecretArray::<32>::zeroed()?;
    Case::run(name, Path::new(""), &mut Invention::new(&nothing), observer, body)
}

/// Opens the user's key file and signs a worthless digest with each of its keys.
fn unlock_own(
    case: &mut Case<'_, '_>,
    path: &Path,
    passphrase: SecretString,
) -> Result<(), CheckError> {
    case.plant_own_passphrase(&passphrase)?;
    let store = KeyStore::open(path, &passphrase)?;
    case.plant_all(store.needles()?);
    let digest = [0; 32];
    for key in store.entries().iter().flat_map(|entry| &entry.keys) {
        let key = match key {
            StoredKey::Extended { key, .. } => key.private_key()?,
            StoredKey::Single { key, .. } => key.try_clone()?,
        };
        let signature = key.sign_ecdsa(&digest)?;
        case.plant(key.ecdsa_nonce_needle("nonce", &signature, &digest)?);
    }
    case.unlocked()
}

#[cfg(test)]
mod tests;
