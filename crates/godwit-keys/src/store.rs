//! The opened key file, which `godwit-signer keys` changes and `psbt sign` signs with.

pub(crate) mod error;

use std::fmt;
use std::fs;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use bitcoin::NetworkKind;
use godwit_secret::{SecretSlice, SecretString};

use crate::entry::{self, Entry, KeyId, Mark, is_label};
use crate::export;
use crate::kdf::KdfParameters;
use crate::key_file::disk::{self, WriteLock};
use crate::key_file::{FileKey, Header, KeyFileError, random};
use crate::stored_key::StoredKey;

pub use error::{FileAction, StoreError};

/// An open key file. Its keys are in locked memory until it is dropped.
///
/// A change is written before the call returns, or has not happened, as the error says. Several
/// processes may change the same file: each change is applied to what the file holds at that
/// moment.
pub struct KeyStore {
    path: PathBuf,
    key: FileKey,
    /// Header of the file that `entries` were read from or written to.
    header: Header,
    /// Of that file; one of the first version has none.
    mark: Option<Mark>,
    entries: Vec<Entry>,
}

impl KeyStore {
    /// Creates a file without entries, readable by its owner alone.
    pub fn create(
        path: &Path,
        passphrase: &SecretString,
        parameters: KdfParameters,
    ) -> Result<Self, StoreError> {
        Self::create_of(path, passphrase, parameters, Vec::new())
    }

    /// Creates a file with its first entry, or no file.
    pub fn create_with(
        path: &Path,
        passphrase: &SecretString,
        parameters: KdfParameters,
        entry: Entry,
    ) -> Result<(Self, KeyId), StoreError> {
        check(&entry)?;
        let id = entry.id();
        Ok((Self::create_of(path, passphrase, parameters, vec![entry])?, id))
    }

    fn create_of(
        path: &Path,
        passphrase: &SecretString,
        parameters: KdfParameters,
        entries: Vec<Entry>,
    ) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).map_err(|error| StoreError::File {
            action: FileAction::Write,
            path: path.into(),
            error,
        })?;
        let content = |error| StoreError::Content(path.clone(), error);
        let key =
            new_key(passphrase, parameters).map_err(content)?.ok_or(StoreError::EmptyPassphrase)?;
        let lock = WriteLock::take(&path)?;
        if fs::symlink_metadata(&path).is_ok() {
            return Err(StoreError::Exists(path));
        }
        let mark = next_mark(None).map_err(content)?;
        let (header, durable) = replace(&path, &key, &mark, &entries, &lock)?;
        durable?;
        Ok(Self { path, key, header, mark: Some(mark), entries })
    }

    /// Opens a file.
    pub fn open(path: &Path, passphrase: &SecretString) -> Result<Self, StoreError> {
        // A change replaces the file, not a link to it.
        let path = fs::canonicalize(path).map_err(|error| StoreError::File {
            action: FileAction::Read,
            path: path.to_owned(),
            error,
        })?;
        let file = disk::read(&path)?;
        let content = |error| StoreError::Content(path.clone(), error);
        let header = Header::read(&file).map_err(content)?;
        let key = FileKey::of(passphrase, &header).map_err(content)?;
        let (mark, entries) = open_entries(&key, &header, &file).map_err(content)?;
        Ok(Self { path, key, header, mark, entries })
    }

    /// Which file it is and how often it was written, unless it is of the first version and was not written
    /// since.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// The work that its passphrase costs whoever guesses it.
    pub fn kdf_parameters(&self) -> KdfParameters {
        self.key.parameters()
    }

    /// All entries, in the order in which they were added.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries of a network, in that order.
    pub fn entries_of(&self, network: NetworkKind) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.network == network)
    }

    /// The entry with this id.
    pub fn entry(&self, id: KeyId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id() == id)
    }

    /// Adds an entry. If there is one with the same descriptors, that one keeps its label and gets
    /// the private keys and words that it lacks: those of another signer, or the words of a root
    /// that was imported as xprv; and the later one of its next indexes, and the
    /// earlier one of the times before which nothing was received.
    ///
    /// # Errors
    ///
    /// [`StoreError::Duplicate`] when it lacks nothing.
    pub fn insert(&mut self, entry: Entry) -> Result<KeyId, StoreError> {
        check(&entry)?;
        let lock = self.lock_newest()?;
        let id = entry.id();
        if let Some(place) = self.entries.iter().position(|entry| entry.id() == id) {
            return self.complete(place, entry, &lock).map(|()| id);
        }
        self.entries.push(entry);
        match self.write(&lock) {
            Ok(durable) => durable.map(|()| id),
            Err(error) => {
                self.entries.pop();
                Err(error)
            }
        }
    }

    /// Adds to the entry at `place` what it lacks of `more`.
    fn complete(&mut self, place: usize, more: Entry, lock: &WriteLock) -> Result<(), StoreError> {
        let entry = &mut self.entries[place];
        // Ids are short: other descriptors may have the same.
        if !entry.texts().eq(more.texts()) {
            return Err(StoreError::NameTaken(entry.id()));
        }
        let uses = entry.descriptors.clone();
        for (known, more) in entry.descriptors.iter_mut().zip(more.descriptors) {
            known.next_index = known.next_index.max(more.next_index);
            // Nothing that was received is passed over: who says the earlier time may know of more.
            known.since = known.since.min(more.since);
        }
        let mut known =
            entry.keys.iter().map(StoredKey::identity).collect::<Result<Vec<_>, _>>()?;
        let before = entry.keys.len();
        let mut missing = Vec::new();
        for key in more.keys {
            let identity = key.identity()?;
            if !known.contains(&identity) {
                known.push(identity);
                missing.push(key);
            }
        }
        let new_words = entry.words.is_none() && more.words.is_some();
        if missing.is_empty() && !new_words && entry.descriptors == uses {
            return Err(StoreError::Duplicate(entry.id()));
        }
        entry.keys.extend(missing);
        if new_words {
            entry.words = more.words;
        }
        self.write(lock).unwrap_or_else(|error| {
            let entry = &mut self.entries[place];
            entry.descriptors = uses;
            entry.keys.truncate(before);
            entry.words = entry.words.take().filter(|_| !new_words);
            Err(error)
        })
    }

    /// Removes an entry and its keys, and returns it, if it still is what it was when this store was opened
    /// or last written. The file's former disk blocks may hold them, encrypted, until they are overwritten.
    pub fn remove(&mut self, id: KeyId) -> Result<Entry, StoreError> {
        let (place, header) = (self.place(id)?, self.header);
        let seen = self.entries.remove(place);
        let lock = self.lock_newest();
        if self.header == header {
            self.entries.insert(place, seen);
            return self.remove_at(place, &lock?);
        }
        let (place, lock) = (self.place(id)?, lock?);
        match self.entries[place].is_same(&seen)? {
            true => self.remove_at(place, &lock),
            false => Err(StoreError::Changed(id)),
        }
    }

    fn place(&self, id: KeyId) -> Result<usize, StoreError> {
        let place = self.entries.iter().position(|entry| entry.id() == id);
        place.ok_or(StoreError::Unknown(id))
    }

    fn remove_at(&mut self, place: usize, lock: &WriteLock) -> Result<Entry, StoreError> {
        let entry = self.entries.remove(place);
        match self.write(lock) {
            Ok(durable) => durable.map(|()| entry),
            Err(error) => {
                self.entries.insert(place, entry);
                Err(error)
            }
        }
    }

    /// Encrypts the file with another passphrase. A copy of the old file still opens with the old
    /// one.
    pub fn change_passphrase(
        &mut self,
        new: &SecretString,
        parameters: KdfParameters,
    ) -> Result<(), StoreError> {
        let content = |error| StoreError::Content(self.path.clone(), error);
        let new = new_key(new, parameters).map_err(content)?.ok_or(StoreError::EmptyPassphrase)?;
        let lock = self.lock_newest()?;
        let old = std::mem::replace(&mut self.key, new);
        self.write(&lock).unwrap_or_else(|error| {
            self.key = old;
            Err(error)
        })
    }

    /// Writes the secrets of an entry to `out`, one a line, so that importing them gives the same
    /// descriptors: the words, if there are any; if these do not suffice, the key whose usual
    /// descriptors they are, or private descriptors as Bitcoin Core prints them; last, keys that
    /// are in none of these. Beyond `out` they are no longer protected.
    pub fn write_secrets_to(&self, id: KeyId, out: BorrowedFd<'_>) -> Result<(), StoreError> {
        let entry = self.entry(id).ok_or(StoreError::Unknown(id))?;
        if entry.keys.is_empty() && entry.words.is_none() {
            return Err(StoreError::NoSecrets(id));
        }
        Ok(export::write_entry(entry, out)?)
    }

    /// The key that the file is encrypted with.
    #[cfg(any(test, feature = "residue"))]
    pub(crate) fn file_key(&self) -> &godwit_secret::SecretArray<32> {
        self.key.secret()
    }

    #[cfg(any(test, feature = "residue"))]
    pub(crate) fn kdf(&self) -> (KdfParameters, &[u8; 16]) {
        self.key.kdf()
    }

    /// Locks the file against other writers, and makes sure that `entries` are those of the file.
    fn lock_newest(&mut self) -> Result<WriteLock, StoreError> {
        let lock = WriteLock::take(&self.path)?;
        let file = disk::read(&self.path)?;
        let content = |error| StoreError::Content(self.path.clone(), error);
        let header = Header::read(&file).map_err(content)?;
        if header != self.header {
            if !self.key.fits(&header) {
                return Err(StoreError::PassphraseChanged(self.path.clone()));
            }
            (self.mark, self.entries) = open_entries(&self.key, &header, &file).map_err(content)?;
            self.header = header;
        }
        Ok(lock)
    }

    /// Replaces the file by one with these entries. The inner error is one after the file was
    /// replaced.
    fn write(&mut self, lock: &WriteLock) -> Result<Result<(), StoreError>, StoreError> {
        let content = |error| StoreError::Content(self.path.clone(), error);
        let mark = next_mark(self.mark).map_err(content)?;
        let (header, durable) = replace(&self.path, &self.key, &mark, &self.entries, lock)?;
        (self.header, self.mark) = (header, Some(mark));
        Ok(durable)
    }
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyStore({}, [redacted])", self.path.display())
    }
}

fn check(entry: &Entry) -> Result<(), StoreError> {
    if !is_label(&entry.label) {
        return Err(StoreError::Label);
    }
    match entry.descriptors.is_empty() {
        true => Err(StoreError::NoDescriptors),
        false => Ok(()),
    }
}

/// `None` for an empty passphrase.
fn new_key(
    passphrase: &SecretString,
    parameters: KdfParameters,
) -> Result<Option<FileKey>, KeyFileError> {
    match passphrase.is_empty() {
        true => Ok(None),
        false => FileKey::new(passphrase, parameters).map(Some),
    }
}

/// The mark of the version after that of `mark`.
fn next_mark(mark: Option<Mark>) -> Result<Mark, KeyFileError> {
    Ok(match mark {
        Some(Mark { id, generation }) => Mark { id, generation: generation.saturating_add(1) },
        None => Mark { id: random()?, generation: 1 },
    })
}

fn open_entries(
    key: &FileKey,
    header: &Header,
    file: &[u8],
) -> Result<(Option<Mark>, Vec<Entry>), KeyFileError> {
    entry::decode(SecretSlice::from(&key.open(header, file)?), header.form)
}

/// Puts a file with these entries in the place of the old one, once what was written opens to them again. The
/// inner error is one after the file was replaced.
fn replace(
    path: &Path,
    key: &FileKey,
    mark: &Mark,
    entries: &[Entry],
    lock: &WriteLock,
) -> Result<(Header, Result<(), StoreError>), StoreError> {
    let content = entry::encode(mark, entries)?;
    let sealed = key.seal(SecretSlice::from(&content));
    // Locked memory has no room for it beside what is opened again.
    drop(content);
    let (header, file) = sealed.map_err(|error| StoreError::Content(path.to_owned(), error))?;
    let opens = |written: &[u8]| match Header::read(written) {
        Ok(header) => holds(key, &header, written, mark, entries),
        Err(_) => Ok(false),
    };
    let durable = disk::replace(path, &file, lock, opens)?;
    Ok((header, durable))
}

/// Whether a file opens to these entries.
fn holds(
    key: &FileKey,
    header: &Header,
    file: &[u8],
    mark: &Mark,
    entries: &[Entry],
) -> Result<bool, StoreError> {
    let Ok((read_mark, read)) = open_entries(key, header, file) else { return Ok(false) };
    if read_mark != Some(*mark) || read.len() != entries.len() {
        return Ok(false);
    }
    for (one, other) in read.iter().zip(entries) {
        if !one.is_same(other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
