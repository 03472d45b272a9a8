//! The byte strings that a search of memory looks for after the import of a wallet of Bitcoin Core.

use std::path::Path;

use godwit_secret::residue::{Needle, NeedleError};
use godwit_secret::{Declassified, SecretArray, SecretSlice, SecretString, run_on_secret_stack};

use super::decrypt::{decrypt, stretch};
use super::records::MasterKey;
use super::{CoreWalletError, assemble, read};

/// The secrets of the wallet at `path`, as needles: what the passphrase becomes, the master key that it
/// decrypts, and the private keys.
///
/// # Errors
///
/// Those of [`import_core_wallet`](crate::import_core_wallet).
pub fn core_wallet_needles(
    path: &Path,
    passphrase: Option<&SecretString>,
) -> Result<Vec<Needle>, CoreWalletError> {
    let needles = run_on_secret_stack(|| {
        let (_, mut records) = read(path)?;
        assemble::unlock(&mut records, passphrase)?;
        let mut needles = Vec::new();
        for MasterKey { salt, rounds, ciphertext } in &records.master_keys {
            let Some(passphrase) = passphrase else { continue };
            let (key, vector) = stretch(passphrase, salt, *rounds)?;
            needles.push(cipher_key("key of the wallet's passphrase", &key)?);
            if let Some(master) = decrypt(&key, &vector, ciphertext)? {
                needles.push(cipher_key("master key of the wallet", &master)?);
            }
        }
        for (index, key) in records.plain.values().enumerate() {
            let name = format!("key {} of the wallet", index + 1);
            needles.push(key.needle(&name).map_err(CoreWalletError::from_key)?);
        }
        Ok::<_, CoreWalletError>(Declassified(needles))
    })??;
    Ok(needles.0)
}

/// A key of AES. Its schedule starts with one half; that of decryption ends with the other.
fn cipher_key(name: &str, key: &SecretArray<32>) -> Result<Needle, CoreWalletError> {
    let whole = SecretSlice::from(key);
    let halves = [0..16, 16..32].map(|range| whole.get(range).expect("of 32 bytes"));
    let [first, second] = halves;
    Needle::new(name, whole)
        .and_then(|needle| needle.form("round key", first))
        .and_then(|needle| needle.form("round key", second))
        .map_err(|error| match error {
            NeedleError::Memory(error) => CoreWalletError::from_key(error.into()),
            NeedleError::TooShort { .. } => unreachable!("sixteen bytes are enough"),
        })
}
