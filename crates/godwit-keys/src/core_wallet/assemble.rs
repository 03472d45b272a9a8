//! Puts the private keys of a wallet into its descriptors. Runs on a secret stack.

use std::collections::BTreeMap;

use bitcoin::bip32::Xpub;
use bitcoin::secp256k1::{Parity, XOnlyPublicKey};
use bitcoin::{NetworkKind, PublicKey};
use godwit_secret::{SecretBytes, SecretSlice, SecretString};
use sha2::{Digest, Sha256};

use super::CoreWalletError;
use super::decrypt::{MAX_ROUNDS, decrypt, stretch, vector_of};
use super::records::{DescriptorRecord, MasterKey, Records, checked_pair};
use crate::descriptors::DescriptorError;
use crate::descriptors::checksum;
use crate::descriptors::key_expression::{KeyKind, public_text};
use crate::descriptors::scan::{Scan, scan};
use crate::descriptors::split::{self, Parts, append_checksum};
use crate::extended_key::version_bytes;
use crate::wif::to_wif;
use crate::{ExtendedPrivateKey, KeyError, PrivateKey};

/// Private keys by their public keys.
type Keys = BTreeMap<PublicKey, PrivateKey>;

/// Decrypts the keys of a wallet, when it has encrypted ones.
pub(super) fn unlock(
    records: &mut Records,
    passphrase: Option<&SecretString>,
) -> Result<(), CoreWalletError> {
    if records.encrypted.is_empty() {
        return Ok(());
    }
    if !records.plain.is_empty() || records.master_keys.is_empty() {
        return Err(CoreWalletError::Mixed);
    }
    let passphrase = passphrase.ok_or(CoreWalletError::PassphraseNeeded)?;
    for master in &records.master_keys {
        let MasterKey { salt, rounds, ciphertext } = master;
        if !(1..=MAX_ROUNDS).contains(rounds) {
            return Err(CoreWalletError::Rounds { rounds: *rounds });
        }
        let (key, vector) = stretch(passphrase, salt, *rounds)?;
        let Some(master) = decrypt(&key, &vector, ciphertext)? else { continue };
        for (public, ciphertext) in &records.encrypted {
            let number = decrypt(&master, &vector_of(&public.to_bytes())?, ciphertext)?;
            let number = number.ok_or(CoreWalletError::KeyPair)?;
            records.plain.insert(*public, checked_pair(number, public)?);
        }
        return Ok(());
    }
    Err(CoreWalletError::WrongPassphrase)
}

/// Splits a descriptor of a wallet with the private keys that the wallet has; an error inside is one of
/// this descriptor alone.
pub(super) fn split(
    record: &DescriptorRecord,
    keys: &Keys,
    network: NetworkKind,
    watch_only: bool,
) -> Result<Result<Parts, DescriptorError>, CoreWalletError> {
    let scan = match scan(&record.text) {
        Ok(scan) => scan,
        Err(error) => return Ok(Err(error)),
    };
    if record.id != Sha256::digest(compatible_text(&record.text, &scan))[..] {
        return Err(CoreWalletError::DescriptorId);
    }
    let (text, count) = private_text(&record.text, &scan, keys, network)?;
    if count == 0 && !watch_only {
        return Err(CoreWalletError::Missing);
    }
    Ok(split::split(SecretSlice::from(&text), network))
}

/// The text whose hash names a descriptor: with apostrophes for hardened steps, as the first versions
/// wrote them.
fn compatible_text(text: &[u8], scan: &Scan) -> String {
    let frame = |range: std::ops::Range<usize>| text[range].iter().copied().map(char::from);
    let mut compatible = String::new();
    let mut end = 0;
    for key in &scan.keys {
        compatible.extend(frame(end..key.range.start));
        let name: String = frame(key.key.clone()).collect();
        compatible += &public_text(key.origin.as_ref(), &name, key.path(0), key.wildcard, '\'');
        end = key.range.end;
    }
    compatible.extend(frame(end..scan.body));
    append_checksum(&mut compatible);
    compatible
}

/// A descriptor with its public keys replaced by the private ones that there are, as Core's
/// `listdescriptors` with private keys prints it; and how many there are.
pub(super) fn private_text(
    text: &[u8],
    scan: &Scan,
    keys: &Keys,
    network: NetworkKind,
) -> Result<(SecretBytes, usize), CoreWalletError> {
    let mut private = SecretBytes::new();
    let mut count = 0;
    let mut end = 0;
    for expression in &scan.keys {
        private.extend_from_slice(&text[end..expression.key.start])?;
        end = expression.key.end;
        let public = &text[expression.key.clone()];
        let key = private_key_text(public, expression.kind, keys, network);
        match key.map_err(CoreWalletError::from_key)? {
            Some(key) => {
                private.extend_from_secret(&key)?;
                count += 1;
            }
            None => private.extend_from_slice(public)?,
        }
    }
    private.extend_from_slice(&text[end..scan.body])?;
    let has_checksum = checksum::append_to_secret(&mut private)?;
    assert!(has_checksum, "base58 consists of characters of descriptors");
    Ok((private, count))
}

/// The text of the private key of a public one, when the wallet has it.
fn private_key_text(
    public: &[u8],
    kind: KeyKind,
    keys: &Keys,
    network: NetworkKind,
) -> Result<Option<SecretString>, KeyError> {
    let Ok(public) = str::from_utf8(public) else { return Ok(None) };
    match kind {
        KeyKind::ExtendedPublic => {
            let Ok(xpub) = public.parse::<Xpub>() else { return Ok(None) };
            let Some(key) = keys.get(&PublicKey::new(xpub.public_key)) else { return Ok(None) };
            extended(&xpub, key)?.to_base58().map(Some)
        }
        KeyKind::Hex if public.len() == 64 => {
            let Ok(x_only) = public.parse::<XOnlyPublicKey>() else { return Ok(None) };
            let full = |parity| PublicKey::new(x_only.public_key(parity));
            let key = keys.get(&full(Parity::Even)).or_else(|| keys.get(&full(Parity::Odd)));
            key.map(|key| to_wif(key, network, true)).transpose()
        }
        KeyKind::Hex => {
            let Ok(full) = public.parse::<PublicKey>() else { return Ok(None) };
            keys.get(&full).map(|key| to_wif(key, network, full.compressed)).transpose()
        }
        KeyKind::ExtendedPrivate | KeyKind::Single => Ok(None),
    }
}

/// The extended private key with what an extended public key says.
fn extended(xpub: &Xpub, key: &PrivateKey) -> Result<ExtendedPrivateKey, KeyError> {
    let encoded = xpub.encode();
    let mut bytes = SecretBytes::with_capacity(encoded.len())?;
    bytes.extend_from_slice(version_bytes(xpub.network))?;
    // Depth, parent, number and chain code stand alike in both; a zero is before the private key.
    bytes.extend_from_slice(&encoded[4..45])?;
    bytes.push(0)?;
    bytes.extend_from_secret(key.secret())?;
    bytes.expose_secret(ExtendedPrivateKey::decode)
}
