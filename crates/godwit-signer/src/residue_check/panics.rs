//! A panic while keys are unlocked.

use std::backtrace::Backtrace;
use std::panic;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bitcoin::bip32::DerivationPath;
use godwit_keys::KeyStore;
use godwit_secret::run_on_secret_stack;

use super::CheckError;
use super::case::Case;
use super::uses::{PATHS, Stored, root, store_with_root};

/// A thread opens a key file, signs, and panics with everything printable in its message. Message
/// and backtrace stay in memory until the search is over.
pub(super) fn panic_unlocked(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let root = root(case)?;
    let again = root.try_clone()?;
    let Stored { path, passphrase, .. } = store_with_root(case, "panicked", again)?;
    let first: DerivationPath = PATHS[0].parse().map_err(|_| case.unexpected())?;
    let body = move || -> Result<(), CheckError> {
        let store = KeyStore::open(&path, &passphrase)?;
        let entries = store.entries();
        run_on_secret_stack(|| -> Result<(), CheckError> {
            let key = root.derive(first.as_ref())?.private_key()?;
            let signature = key.sign_ecdsa(&[7; 32])?;
            panic!("{store:?} {entries:?} {root:?} {key:?} {passphrase:?} {signature:?}");
        })?
    };
    let (outcome, text) = panicking(body);
    case.unlocked()?;
    let text = text.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Err(_payload) if text.contains("redacted") => Ok(()),
        Err(_) => Err(case.unexpected()),
        Ok(outcome) => outcome.and(Err(case.unexpected())),
    }
}

/// Runs `body` in a thread; returns how it ended and what a program would have printed.
fn panicking<R: Send + 'static>(
    body: impl FnOnce() -> R + Send + 'static,
) -> (thread::Result<R>, Arc<Mutex<String>>) {
    let text = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&text);
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = format!("{info}\n{}", Backtrace::force_capture());
    }));
    let outcome = thread::spawn(body).join();
    panic::set_hook(usual);
    (outcome, text)
}
