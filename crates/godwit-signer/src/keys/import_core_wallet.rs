//! `keys import-core-wallet`: the keys and descriptors of a wallet of Bitcoin Core become one entry.

use std::path::Path;

use godwit_keys::{
    CoreDescriptor, CoreWallet, CoreWalletError, EntryDescriptor, NetworkKind, import_core_wallet,
};
use godwit_program::{Exit, print_json};
use serde_json::json;

use super::failure::KeysFailure;
use super::session::{KeyFile, Session};
use super::{inserted, new_entry};
use crate::options::Descriptor;

pub(super) fn run(
    file: &KeyFile<'_>,
    label: &str,
    path: &Path,
    passphrase: Option<Descriptor>,
) -> Result<Exit, KeysFailure> {
    let session = Session::begin(file, [passphrase])?;
    // First, so that an unreadable wallet is reported before the user is asked for a passphrase.
    let readable = match import_core_wallet(path, None) {
        Ok(wallet) => Some(wallet),
        Err(CoreWalletError::PassphraseNeeded) => None,
        Err(error) => return Err(KeysFailure::of_wallet(path, error)),
    };
    let unlocked = session.unlock()?;
    let wallet = match readable {
        Some(wallet) => wallet,
        None => {
            let what = format!("Passphrase of {}", path.display());
            let passphrase = session.input.secret(passphrase, &what)?;
            let wallet = import_core_wallet(path, Some(&passphrase));
            wallet.map_err(|error| KeysFailure::of_wallet(path, error))?
        }
    };
    let CoreWallet { network, descriptors, left_out, keys } = wallet;
    let network = NetworkKind::from(network);
    if network != file.network {
        return Err(KeysFailure::OtherNetwork);
    }
    if keys.is_empty() {
        return Err(KeysFailure::WalletWithoutKeys);
    }
    let used =
        descriptors.into_iter().map(|CoreDescriptor { descriptor, next, created, .. }| {
            EntryDescriptor { text: descriptor.text, next_index: next, since: created }
        });
    let entry = new_entry(label, network, used.collect(), keys);
    let (store, id) = unlocked.insert(file, entry)?;

    let mut printed = inserted(&store, id)?;
    let complete = left_out.is_empty();
    printed["left_out"] = left_out
        .into_iter()
        .map(|left| json!({ "descriptor": left.text, "reason": left.error.to_string() }))
        .collect();
    print_json(&printed)?;
    Ok(if complete { Exit::Success } else { Exit::InputRefused })
}
