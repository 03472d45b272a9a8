//! `keys import`: one secret of any kind.

use godwit_keys::{
    Entry, EntryDescriptor, ExtendedPrivateKey, Mnemonic, NetworkKind, StoreError, StoredKey,
    account_descriptors, account_descriptors_of, normalizes_for_good, parse_wif,
    single_descriptors, split_private_descriptor,
};
use godwit_program::Exit;
use godwit_secret::{Declassified, SecretSlice, SecretString, run_on_secret_stack};

use super::failure::KeysFailure;
use super::input::Input;
use super::session::{KeyFile, Session};
use super::{entry_of_words, new_entry, print_entry};
use crate::options::{Bip39Passphrase, Descriptor};

/// What a secret looks like. Its parser decides whether it is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mnemonic,
    Descriptor,
    Extended,
    Single,
}

/// Longest text taken for a single key: more than the 52 characters of a WIF, less than the 111 of
/// an xprv.
const LONGEST_SINGLE: usize = 80;

pub(super) fn run(
    file: &KeyFile<'_>,
    label: &str,
    secret: Option<Descriptor>,
    bip39_passphrase: Bip39Passphrase,
) -> Result<Exit, KeysFailure> {
    let bip39_descriptor = match bip39_passphrase {
        Bip39Passphrase::Descriptor(descriptor) => Some(descriptor),
        Bip39Passphrase::None | Bip39Passphrase::Terminal => None,
    };
    let session = Session::begin(file, [secret, bip39_descriptor])?;
    let unlocked = session.unlock()?;
    let what = "Mnemonic, extended private key, WIF or descriptor";
    let text = session.input.secret(secret, what)?;
    let entry = entry_of(file.network, label, &text, &session.input, bip39_passphrase)?;
    let (store, id) = unlocked.insert(file, entry)?;
    print_entry(&store, id)
}

/// Parses `text`, whatever kind of secret it is, into an entry.
pub(crate) fn entry_of(
    network: NetworkKind,
    label: &str,
    text: &SecretString,
    input: &Input,
    bip39_passphrase: Bip39Passphrase,
) -> Result<Entry, KeysFailure> {
    let look = |text: &str| Declassified(kind_of(text));
    let (kind, from, to) = run_on_secret_stack(|| text.expose_secret(look))?.0;
    let text = text.get(from..to).expect("a part of itself");
    if kind == Kind::Mnemonic {
        let mnemonic = Mnemonic::parse(text).map_err(StoreError::from)?;
        let what = "Passphrase of the mnemonic";
        let passphrase = match bip39_passphrase {
            Bip39Passphrase::None => SecretString::new(),
            Bip39Passphrase::Terminal => input.new_passphrase(None, what)?,
            Bip39Passphrase::Descriptor(from) => input.secret(Some(from), what)?,
        };
        if !normalizes_for_good(&passphrase)? {
            // There may be coins of these keys, so that it is taken.
            eprintln!(
                "godwit-signer: warning: the passphrase of the mnemonic has a character that no version of \
                 Unicode here assigns: another program, or a later one, may make other keys of it"
            );
        }
        return entry_of_words(label, mnemonic, &passphrase, network);
    }
    if bip39_passphrase != Bip39Passphrase::None {
        return Err(KeysFailure::NoMnemonic);
    }
    entry_of_keys(network, label, kind, text)
}

fn entry_of_keys(
    wanted: NetworkKind,
    label: &str,
    kind: Kind,
    text: SecretSlice<'_>,
) -> Result<Entry, KeysFailure> {
    let (network, descriptors, keys) = match kind {
        Kind::Single => {
            let (key, network, compressed) = parse_wif(text).map_err(StoreError::from)?;
            let descriptors = single_descriptors(&key, compressed).map_err(StoreError::from)?;
            (network, descriptors, vec![StoredKey::Single { key, compressed }])
        }
        Kind::Descriptor => {
            let split = split_private_descriptor(text, wanted)?;
            let descriptors: Vec<_> =
                split.descriptors.into_iter().map(|public| public.text).collect();
            (wanted, descriptors, split.keys)
        }
        Kind::Extended | Kind::Mnemonic => {
            let parsed = ExtendedPrivateKey::parse_with_origin(text);
            let (key, origin) = parsed.map_err(StoreError::from)?;
            let descriptors = match &origin {
                Some(origin) => account_descriptors_of(&key, origin),
                None => account_descriptors(&key),
            };
            let descriptors = descriptors.map_err(StoreError::from)?;
            (key.network(), descriptors, vec![StoredKey::Extended { key, origin }])
        }
    };
    if network != wanted {
        return Err(KeysFailure::OtherNetwork);
    }
    if keys.is_empty() {
        return Err(KeysFailure::NoPrivateKey);
    }
    let descriptors = descriptors.into_iter().map(EntryDescriptor::new).collect();
    Ok(new_entry(label, network, descriptors, keys))
}

/// The kind of a secret, and the range of `text` without the white space around it.
fn kind_of(text: &str) -> (Kind, usize, usize) {
    let trimmed = text.trim_ascii();
    let from = text.len() - text.trim_ascii_start().len();
    let kind = if trimmed.contains('(') {
        Kind::Descriptor
    } else if trimmed.contains(|c: char| c.is_ascii_whitespace()) {
        Kind::Mnemonic
    } else if trimmed.len() > LONGEST_SINGLE {
        Kind::Extended
    } else {
        Kind::Single
    };
    (kind, from, from + trimmed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_apart() {
        for (text, kind, from, to) in [
            (" abandon about\n", Kind::Mnemonic, 1, 14),
            ("wpkh(tprv/0/*)#abc ", Kind::Descriptor, 0, 18),
            ("combo( L1 )", Kind::Descriptor, 0, 11),
            ("L1aW4aubDFB7yfras2S1mN3bqg9nwySY8nkoLmJebSLD5BWv3ENZ", Kind::Single, 0, 52),
            ("\t", Kind::Single, 1, 1),
        ] {
            assert_eq!(kind_of(text), (kind, from, to), "{text:?}");
        }
        assert_eq!(kind_of(&"x".repeat(111)), (Kind::Extended, 0, 111));
    }
}
