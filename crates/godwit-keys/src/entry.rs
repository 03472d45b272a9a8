//! The entries of a key file: keys that belong together, with the public descriptors of the coins that they
//! can spend.

use std::fmt;

use bitcoin::NetworkKind;
use bitcoin::bip32::{ChildNumber, DerivationPath, Fingerprint, KeySource};
use godwit_secret::{LockError, Releasable, SecretArray, SecretBytes, SecretSlice};
use godwit_stream::{DataStream, DecodeError, SpanReader};
use sha2::{Digest, Sha256};

use crate::extended_key::ExtendedPrivateKey;
use crate::guarded::guarded;
use crate::mnemonic::Mnemonic;
use crate::private_key::PrivateKey;
use crate::stored_key::StoredKey;
use crate::{KeyError, KeyFileError};

/// Longest label, in characters.
pub const MAX_LABEL: usize = 100;

/// Names an entry: the first four bytes of the SHA-256 of its descriptors, in hex. The same keys give
/// the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl std::str::FromStr for KeyId {
    type Err = NotAKeyId;

    fn from_str(text: &str) -> Result<Self, NotAKeyId> {
        let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(|number| Self(number.to_be_bytes())).ok_or(NotAKeyId)
    }
}

/// Text that names no entry: not eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAKeyId;

impl fmt::Display for NotAKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry is named by eight hexadecimal digits")
    }
}

impl std::error::Error for NotAKeyId {}

/// Words of which keys come.
pub struct Words {
    pub mnemonic: Mnemonic,
    /// Whether a passphrase went into the keys besides. It is not stored: who restores the words
    /// somewhere else has to know it.
    pub with_passphrase: bool,
}

/// A public descriptor of an entry, and what is known of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDescriptor {
    /// With its checksum.
    pub text: String,
    /// The first index whose address was not given out by the wallet that it comes from; 0 if that is not
    /// known.
    pub next_index: u32,
    /// It received nothing before this time, in seconds since 1970; 0 if that is not known.
    pub since: u64,
}

impl EntryDescriptor {
    /// One of whose use nothing is known.
    pub fn new(text: String) -> Self {
        Self { text, next_index: 0, since: 0 }
    }
}

/// An entry, or what becomes one. The private keys and words show themselves to nobody.
pub struct Entry {
    /// What the user calls it: at most [`MAX_LABEL`] characters, none of them a control character.
    pub label: String,
    /// When it was made or imported, in seconds since 1970.
    pub created: u64,
    /// The network of its keys.
    pub network: NetworkKind,
    pub descriptors: Vec<EntryDescriptor>,
    /// The keys of these descriptors.
    pub keys: Vec<StoredKey>,
    /// Where the keys come from, if it is known.
    pub words: Option<Words>,
}

impl Entry {
    /// The texts of its descriptors.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.descriptors.iter().map(|descriptor| descriptor.text.as_str())
    }

    pub fn id(&self) -> KeyId {
        let mut hash = Sha256::new();
        for text in self.texts() {
            hash.update(text);
            hash.update("\n");
        }
        let hash = hash.finalize();
        KeyId([hash[0], hash[1], hash[2], hash[3]])
    }

    /// Whether everything in two entries is the same, secrets in constant time.
    pub(crate) fn is_same(&self, other: &Self) -> Result<bool, KeyError> {
        let words = match (&self.words, &other.words) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.with_passphrase == other.with_passphrase
                    && one.mnemonic.text() == other.mnemonic.text()
            }
            _ => false,
        };
        let mut keys = self.keys.len() == other.keys.len();
        for (one, other) in self.keys.iter().zip(&other.keys) {
            keys &= one.is_same(other)?;
        }
        Ok(words
            && keys
            && (&self.label, self.created, self.network, &self.descriptors)
                == (&other.label, other.created, other.network, &other.descriptors))
    }
}

/// Whether a label is one: at most [`MAX_LABEL`] characters, none of them a control character.
pub fn is_label(label: &str) -> bool {
    label.chars().count() <= MAX_LABEL && !label.chars().any(char::is_control)
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({}, [redacted])", self.id())
    }
}

/// Which file it is, and how often it was written: a copy from before has a lower number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Random, and the same in all versions of the file.
    pub id: [u8; 16],
    /// From 1, one more with each version.
    pub generation: u64,
}

/// The content of a key file.
pub(crate) fn encode(mark: &Mark, entries: &[Entry]) -> Result<SecretBytes, KeyError> {
    let mut out = SecretBytes::new();
    out.extend_from_slice(&mark.id)?;
    out.extend_from_slice(&mark.generation.to_le_bytes())?;
    put_count(&mut out, entries.len())?;
    for entry in entries {
        out.extend_from_slice(&entry.created.to_le_bytes())?;
        out.push(u8::from(!entry.network.is_mainnet()))?;
        put_text(&mut out, &entry.label)?;
        put_count(&mut out, entry.descriptors.len())?;
        for EntryDescriptor { text, next_index, since } in &entry.descriptors {
            put_text(&mut out, text)?;
            out.extend_from_slice(&next_index.to_le_bytes())?;
            out.extend_from_slice(&since.to_le_bytes())?;
        }
        match &entry.words {
            None => out.push(NO_WORDS)?,
            Some(words) => {
                out.push(if words.with_passphrase { WORDS_AND_PASSPHRASE } else { WORDS })?;
                put_count(&mut out, words.mnemonic.text().len())?;
                out.extend_from_secret(words.mnemonic.text())?;
            }
        }
        put_count(&mut out, entry.keys.len())?;
        for key in &entry.keys {
            put_key(&mut out, key)?;
        }
    }
    Ok(out)
}

/// Beside the network, in the forms without uses.
const MADE_HERE: u8 = 2;

const NO_WORDS: u8 = 0;
const WORDS: u8 = 1;
const WORDS_AND_PASSPHRASE: u8 = 2;

const EXTENDED: u8 = 0;
const EXTENDED_WITH_ORIGIN: u8 = 1;
const COMPRESSED: u8 = 2;
const UNCOMPRESSED: u8 = 3;

fn put_count(out: &mut SecretBytes, count: usize) -> Result<(), LockError> {
    let mut bytes = DataStream::new();
    bytes.write_compact_size(count as u64);
    out.extend_from_slice(bytes.as_slice())
}

fn put_text(out: &mut SecretBytes, text: &str) -> Result<(), LockError> {
    put_count(out, text.len())?;
    out.extend_from_slice(text.as_bytes())
}

fn put_key(out: &mut SecretBytes, key: &StoredKey) -> Result<(), KeyError> {
    match key {
        StoredKey::Extended { key, origin } => {
            out.push(if origin.is_some() { EXTENDED_WITH_ORIGIN } else { EXTENDED })?;
            out.extend_from_secret(&key.to_bytes()?)?;
            if let Some((fingerprint, path)) = origin {
                out.extend_from_slice(fingerprint.as_bytes())?;
                put_count(out, path.len())?;
                for step in path {
                    out.extend_from_slice(&u32::from(*step).to_le_bytes())?;
                }
            }
        }
        StoredKey::Single { key, compressed } => {
            out.push(if *compressed { COMPRESSED } else { UNCOMPRESSED })?;
            out.extend_from_secret(key.secret())?;
        }
    }
    Ok(())
}

/// Why a content is not read.
enum Wrong {
    Form,
    Memory(LockError),
}

impl From<DecodeError> for Wrong {
    fn from(_: DecodeError) -> Self {
        Self::Form
    }
}

impl From<LockError> for Wrong {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

impl From<KeyError> for Wrong {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Memory(error) => Self::Memory(error),
            _ => Self::Form,
        }
    }
}

/// What the content of a key file says. What is secret in its entries lies in locked memory.
struct Content {
    mark: Option<Mark>,
    entries: Vec<Entry>,
}

impl Releasable for Content {}

impl Releasable for Wrong {}

/// What a content has, by the version of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Neither a [`Mark`] nor the use of descriptors, but whether keys were made here.
    WithoutMark,
    /// A mark, and the same.
    WithMark,
    /// A mark, and of each descriptor its use.
    WithUses,
}

/// What [`encode`] put into a content, or what earlier versions did.
pub(crate) fn decode(
    content: SecretSlice<'_>,
    form: Form,
) -> Result<(Option<Mark>, Vec<Entry>), KeyFileError> {
    let read = guarded(|| {
        Ok(content.expose_secret(|content| {
            let mut reader = SpanReader::new(content);
            let has_mark = form != Form::WithoutMark;
            let mark = has_mark.then(|| mark(&mut reader)).transpose()?;
            let entries = list(&mut reader, |reader| entry(reader, form))?;
            if reader.is_empty() { Ok(Content { mark, entries }) } else { Err(Wrong::Form) }
        }))
    });
    match read {
        Ok(Ok(Content { mark, entries })) => Ok((mark, entries)),
        Ok(Err(Wrong::Memory(error))) | Err(KeyError::Memory(error)) => Err(error.into()),
        Ok(Err(Wrong::Form)) | Err(_) => Err(KeyFileError::Content),
    }
}

/// As many as the count before them says; room is made as they come.
fn list<T>(
    reader: &mut SpanReader<'_>,
    one: impl Fn(&mut SpanReader<'_>) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    let count = reader.compact_size()?;
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(one(reader)?);
    }
    Ok(all)
}

fn mark(reader: &mut SpanReader<'_>) -> Result<Mark, Wrong> {
    Ok(Mark { id: reader.array()?, generation: reader.u64()? })
}

fn entry(reader: &mut SpanReader<'_>, form: Form) -> Result<Entry, Wrong> {
    let created = reader.u64()?;
    let network = reader.u8()?;
    let (network, made_here) = match form {
        Form::WithUses => (network, false),
        Form::WithoutMark | Form::WithMark => (network & !MADE_HERE, network & MADE_HERE != 0),
    };
    let since = if made_here { created } else { 0 };
    Ok(Entry {
        created,
        network: match network {
            0 => NetworkKind::Main,
            1 => NetworkKind::Test,
            _ => return Err(Wrong::Form),
        },
        label: text(reader)?,
        descriptors: list(reader, |reader| {
            let text = text(reader)?;
            Ok(match form {
                Form::WithUses => {
                    EntryDescriptor { text, next_index: reader.u32()?, since: reader.u64()? }
                }
                Form::WithoutMark | Form::WithMark => {
                    EntryDescriptor { text, next_index: 0, since }
                }
            })
        })?,
        words: words(reader)?,
        keys: list(reader, key)?,
    })
}

/// Public text.
fn text(reader: &mut SpanReader<'_>) -> Result<String, Wrong> {
    let bytes = span(reader)?;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Wrong::Form)
}

fn span<'a>(reader: &mut SpanReader<'a>) -> Result<&'a [u8], Wrong> {
    let size = usize::try_from(reader.compact_size()?).map_err(|_| Wrong::Form)?;
    Ok(reader.bytes(size)?)
}

fn words(reader: &mut SpanReader<'_>) -> Result<Option<Words>, Wrong> {
    let with_passphrase = match reader.u8()? {
        NO_WORDS => return Ok(None),
        WORDS => false,
        WORDS_AND_PASSPHRASE => true,
        _ => return Err(Wrong::Form),
    };
    let mut text = SecretBytes::new();
    text.extend_from_slice(span(reader)?)?;
    Ok(Some(Words { mnemonic: Mnemonic::parse(SecretSlice::from(&text))?, with_passphrase }))
}

fn key(reader: &mut SpanReader<'_>) -> Result<StoredKey, Wrong> {
    let kind = reader.u8()?;
    if matches!(kind, COMPRESSED | UNCOMPRESSED) {
        let number = reader.bytes(32)?;
        let number = SecretArray::from_fn_in_place(|secret| secret.copy_from_slice(number))?;
        let key = PrivateKey::from_secret(number)?;
        return Ok(StoredKey::Single { key, compressed: kind == COMPRESSED });
    }
    let key = ExtendedPrivateKey::decode(reader.bytes(ExtendedPrivateKey::SIZE)?)?;
    let origin = match kind {
        EXTENDED => None,
        EXTENDED_WITH_ORIGIN => Some(origin(reader)?),
        _ => return Err(Wrong::Form),
    };
    Ok(StoredKey::Extended { key, origin })
}

fn origin(reader: &mut SpanReader<'_>) -> Result<KeySource, Wrong> {
    let fingerprint = Fingerprint::from(reader.array::<4>()?);
    let path = list(reader, |reader| Ok(ChildNumber::from(reader.u32()?)))?;
    Ok((fingerprint, DerivationPath::from(path)))
}

#[cfg(test)]
mod tests;
