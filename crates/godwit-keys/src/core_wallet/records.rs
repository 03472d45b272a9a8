//! The records of a wallet (`wallet/walletdb.cpp`): what each row of the table `main` says. Runs on a
//! secret stack.

use std::collections::BTreeMap;

use bitcoin::PublicKey;
use godwit_secret::{Releasable, SecretArray};
use godwit_stream::{DecodeError, SpanReader};
use sha2::{Digest, Sha256};

use super::CoreWalletError;
use super::decrypt::CIPHERTEXT_SIZE;
use crate::PrivateKey;

/// The hash of a descriptor, by which other records name it.
pub(crate) type DescriptorId = [u8; 32];

/// The kinds of records that are read. A wallet has more: transactions, addresses, caches.
const KINDS: [&[u8]; 7] = [
    b"flags",
    b"mkey",
    b"walletdescriptor",
    b"walletdescriptorkey",
    b"walletdescriptorckey",
    b"activeexternalspk",
    b"activeinternalspk",
];

/// The most bytes of the salt or of other parameters of a master key; Core writes 8 and 0.
const MAX_PARAMETER: usize = 64;

/// The most master keys; Core writes one. Each may ask for many rounds before the next is tried.
const MAX_MASTER_KEYS: usize = 16;

/// The order of fields in a private key's DER form, up to the key: `CPrivKey` of compressed keys and of
/// others.
const DER_HEADS: [&[u8]; 2] = [
    &[0x30, 0x81, 0xd3, 0x02, 0x01, 0x01, 0x04, 0x20],
    &[0x30, 0x82, 0x01, 0x13, 0x02, 0x01, 0x01, 0x04, 0x20],
];

/// A wallet's key for its keys, encrypted by the passphrase.
pub(crate) struct MasterKey {
    pub(crate) ciphertext: [u8; CIPHERTEXT_SIZE],
    pub(crate) salt: Vec<u8>,
    pub(crate) rounds: u32,
}

/// A descriptor as the wallet has it: with public keys, but paths from the root.
#[derive(Debug)]
pub(crate) struct DescriptorRecord {
    pub(crate) id: DescriptorId,
    /// With checksum.
    pub(crate) text: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) next: i32,
    pub(crate) start: i32,
    pub(crate) end: i32,
}

/// What the wallet says of keys.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) flags: Option<u64>,
    pub(crate) master_keys: Vec<MasterKey>,
    pub(crate) descriptors: Vec<DescriptorRecord>,
    /// Whether new addresses come from a descriptor: those of change or those to be paid to.
    pub(crate) active: BTreeMap<DescriptorId, bool>,
    /// Checked: the private keys belong to the public ones.
    pub(crate) plain: BTreeMap<PublicKey, PrivateKey>,
    pub(crate) encrypted: BTreeMap<PublicKey, [u8; CIPHERTEXT_SIZE]>,
    /// Descriptor and public key of each private key.
    pub(crate) owners: Vec<(DescriptorId, PublicKey)>,
}

impl Releasable for Records {}

/// Whether a record is one that [`Records::add`] reads, by the beginning of its key.
pub(crate) fn is_wanted(key: &[u8]) -> bool {
    let kind = key.split_first().and_then(|(size, rest)| rest.get(..usize::from(*size)));
    kind.is_some_and(|kind| KINDS.contains(&kind))
}

impl Records {
    /// Reads a record.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), CoreWalletError> {
        let mut key = SpanReader::new(key);
        let kind = sized(&mut key)?;
        let mut value = SpanReader::new(value);
        match kind {
            b"flags" => self.flags = Some(value.u64()?),
            b"mkey" => {
                key.u32()?;
                if self.master_keys.len() == MAX_MASTER_KEYS {
                    return Err(CoreWalletError::Record);
                }
                self.master_keys.push(master_key(&mut value)?);
            }
            b"walletdescriptor" => {
                self.descriptors.push(DescriptorRecord {
                    id: key.array()?,
                    text: sized(&mut value)?.to_vec(),
                    created: value.u64()?,
                    next: value.i32()?,
                    start: value.i32()?,
                    end: value.i32()?,
                });
            }
            b"walletdescriptorkey" => {
                let (id, public) = (key.array()?, public_key(&mut key)?);
                let private = plain_key(&mut value, &public)?;
                self.owners.push((id, public));
                self.plain.insert(public, private);
            }
            b"walletdescriptorckey" => {
                let (id, public) = (key.array()?, public_key(&mut key)?);
                let ciphertext = sized(&mut value)?.try_into();
                let ciphertext = ciphertext.map_err(|_| CoreWalletError::Record)?;
                self.owners.push((id, public));
                // One key of several descriptors is encrypted alike in each.
                if self.encrypted.insert(public, ciphertext).is_some_and(|old| old != ciphertext) {
                    return Err(CoreWalletError::KeyPair);
                }
            }
            b"activeexternalspk" | b"activeinternalspk" => {
                key.u8()?;
                self.active.insert(value.array()?, kind == b"activeinternalspk");
            }
            _ => return Ok(()),
        }
        let read = key.is_empty() && value.is_empty();
        if read { Ok(()) } else { Err(CoreWalletError::Record) }
    }
}

/// Bytes with their number before them.
fn sized<'a>(reader: &mut SpanReader<'a>) -> Result<&'a [u8], DecodeError> {
    let size = reader.compact_size()?;
    reader.bytes(size as usize)
}

fn public_key(reader: &mut SpanReader<'_>) -> Result<PublicKey, CoreWalletError> {
    PublicKey::from_slice(sized(reader)?).map_err(|_| CoreWalletError::Record)
}

fn master_key(value: &mut SpanReader<'_>) -> Result<MasterKey, CoreWalletError> {
    let ciphertext = sized(value)?.try_into().map_err(|_| CoreWalletError::Record)?;
    let salt = sized(value)?;
    let (method, rounds) = (value.u32()?, value.u32()?);
    let others = sized(value)?;
    if method != 0 || salt.len() > MAX_PARAMETER || others.len() > MAX_PARAMETER {
        return Err(CoreWalletError::Record);
    }
    Ok(MasterKey { ciphertext, salt: salt.to_vec(), rounds })
}

/// A private key in DER with a hash of both keys, which is checked, as is that the keys are a pair.
fn plain_key(
    value: &mut SpanReader<'_>,
    public: &PublicKey,
) -> Result<PrivateKey, CoreWalletError> {
    let der = sized(value)?;
    let hash: [u8; 32] = value.array()?;
    let hasher = Sha256::new().chain_update(public.to_bytes()).chain_update(der);
    if Sha256::digest(hasher.finalize())[..] != hash {
        return Err(CoreWalletError::KeyHash);
    }
    let head = DER_HEADS[usize::from(!public.compressed)];
    let number = der.strip_prefix(head).and_then(<[u8]>::first_chunk::<32>);
    let number = number.ok_or(CoreWalletError::Record)?;
    let number = SecretArray::from_fn_in_place(|secret| *secret = *number)?;
    checked_pair(number, public)
}

/// The private key `number` when it is that of `public`.
pub(crate) fn checked_pair(
    number: SecretArray<32>,
    public: &PublicKey,
) -> Result<PrivateKey, CoreWalletError> {
    let key = PrivateKey::from_secret(number).map_err(CoreWalletError::from_key)?;
    if key.public_key().map_err(CoreWalletError::from_key)? != public.inner {
        return Err(CoreWalletError::KeyPair);
    }
    Ok(key)
}
