//! The key file of a command, and the hardened process that opens it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use godwit_keys::{Entry, KdfParameters, KeyId, KeyStore, NetworkKind};
use godwit_primitives::Network;
use godwit_secret::{
    Hardened, SecretString, allow_unlocked_secrets, had_unlocked_work_area, harden_process,
};

use super::failure::KeysFailure;
use super::generations::{Age, Generations};
use super::input::Input;
use crate::options::{Config, Descriptor, KdfCost, KeyFileOptions};

pub(crate) struct KeyFile<'a> {
    path: PathBuf,
    options: &'a KeyFileOptions,
    /// The network whose keys may be added.
    pub(crate) network: NetworkKind,
    /// The work that a new passphrase costs.
    cost: KdfCost,
    generations: Generations,
}

impl<'a> KeyFile<'a> {
    pub(crate) fn of(config: &Config, options: &'a KeyFileOptions) -> Self {
        let network = match config.network {
            Network::Main => NetworkKind::Main,
            _ => NetworkKind::Test,
        };
        let cost = KdfCost::default();
        let generations = Generations::in_directory(&config.datadir);
        Self { path: config.key_file(options), options, network, cost, generations }
    }

    /// The same file, with another cost of a new passphrase.
    pub(crate) fn with_cost(self, cost: KdfCost) -> Self {
        Self { cost, ..self }
    }

    pub(crate) fn cost(&self) -> KdfCost {
        self.cost
    }

    /// Remembers that the file was written.
    pub(crate) fn written(&self, store: &KeyStore) {
        if let Some(mark) = store.mark() {
            self.generations.written(&mark, self.options.older_copy);
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A hardened process, which may hold keys, and the input that its secrets come from.
pub(crate) struct Session<'a> {
    file: &'a KeyFile<'a>,
    pub(crate) input: Input,
}

/// The opened key file, or the passphrase of the one that will be created.
pub(crate) enum Unlocked {
    Open(KeyStore),
    New(SecretString),
}

impl<'a> Session<'a> {
    /// Opens the descriptors, then hardens the process. `more` are descriptors that are read beside
    /// the passphrase's.
    pub(crate) fn begin(
        file: &'a KeyFile<'a>,
        more: impl IntoIterator<Item = Option<Descriptor>>,
    ) -> Result<Self, KeysFailure> {
        let descriptors = file.options.passphrase.into_iter().chain(more.into_iter().flatten());
        let input = Input::open(descriptors)?;
        if file.options.allow_unlocked_secrets {
            eprintln!(
                "godwit-signer: warning: -allowunlockedsecrets: keys may reach a swap file or a core dump"
            );
            allow_unlocked_secrets();
        }
        match harden_process()? {
            Hardened::Fully => {}
            partly => eprintln!("godwit-signer: warning: {partly}"),
        }
        Ok(Self { file, input })
    }

    /// Asks for the passphrase and opens the key file, which must exist.
    pub(crate) fn open(&self) -> Result<KeyStore, KeysFailure> {
        let (store, age) = self.open_any()?;
        match age {
            Some((_, Age::Last)) | None => {}
            Some((number, Age::Older(newer))) => eprintln!(
                "godwit-signer: warning: this key file is an older copy, number {number}: number {newer} \
                 was here before, and may have had more keys or another passphrase"
            ),
            Some((_, Age::Unknown(error))) => eprintln!(
                "godwit-signer: warning: {} cannot be read ({error}): nothing tells whether this key file \
                 is an older copy",
                self.file.generations.path().display()
            ),
        }
        Ok(store)
    }

    /// Opens the key file for a change. Refuses a file that is or may be an older copy, unless the user
    /// allows it: after the change it would pass for the last version.
    pub(crate) fn open_to_change(&self) -> Result<KeyStore, KeysFailure> {
        let (store, age) = self.open_any()?;
        match age {
            _ if self.file.options.older_copy => Ok(store),
            Some((_, Age::Last)) | None => Ok(store),
            Some((number, Age::Older(newer))) => Err(KeysFailure::OlderCopy(number, newer)),
            Some((_, Age::Unknown(error))) => {
                Err(KeysFailure::UnknownAge(self.file.generations.path(), error))
            }
        }
    }

    /// The key file, and, if it has a number, that number and what the record says about it.
    fn open_any(&self) -> Result<(KeyStore, Option<(u64, Age)>), KeysFailure> {
        let passphrase = self.passphrase()?;
        let generations = &self.file.generations;
        let before = generations.remembered();
        let store = KeyStore::open(&self.file.path, &passphrase)?;
        if store.kdf_parameters().is_below_recommended() {
            eprintln!(
                "godwit-signer: warning: the passphrase of this key file costs little to guess; keys \
                 change-passphrase makes it dearer"
            );
        }
        warn_of_unlocked_work();
        if others_may_replace(&self.file.path) {
            eprintln!(
                "godwit-signer: warning: others may write to the folder of {}, and so put another file in \
                 its place",
                self.file.path.display()
            );
        }
        let age = store.mark().map(|mark| (mark.generation, generations.opened(&mark, before)));
        Ok((store, age))
    }

    /// The passphrase of the key file, which must exist.
    pub(crate) fn passphrase(&self) -> Result<SecretString, KeysFailure> {
        if !self.exists() {
            return Err(KeysFailure::NoKeyFile(self.file.path.clone()));
        }
        let what = format!("Passphrase of {}", self.file.path.display());
        self.input.secret(self.file.options.passphrase, &what)
    }

    /// Opens the key file; where there is none, asks for the passphrase of a new one.
    pub(crate) fn unlock(&self) -> Result<Unlocked, KeysFailure> {
        if self.exists() {
            if self.file.cost.is_given() {
                return Err(KeysFailure::CostOfOldFile);
            }
            return self.open_to_change().map(Unlocked::Open);
        }
        let what = format!("Passphrase of the new key file {}", self.file.path.display());
        self.input.file_passphrase(self.file.options.passphrase, &what).map(Unlocked::New)
    }

    fn exists(&self) -> bool {
        self.file.path.symlink_metadata().is_ok()
    }
}

impl Unlocked {
    /// Adds an entry, to a new file if there was none.
    pub(crate) fn insert(
        self,
        file: &KeyFile<'_>,
        entry: Entry,
    ) -> Result<(KeyStore, KeyId), KeysFailure> {
        let (store, id) = match self {
            Self::Open(mut store) => {
                let id = store.insert(entry)?;
                (store, id)
            }
            Self::New(passphrase) => {
                let cost = file.cost.of(KdfParameters::RECOMMENDED);
                let made = KeyStore::create_with(&file.path, &passphrase, cost, entry)?;
                warn_of_unlocked_work();
                made
            }
        };
        file.written(&store);
        Ok((store, id))
    }
}

/// Whether group or others may rename and remove files in the file's folder. With the sticky bit, they may do
/// so only with their own files.
fn others_may_replace(file: &Path) -> bool {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(folder) = folder.unwrap_or(Path::new(".")).metadata() else { return false };
    folder.mode() & 0o022 != 0 && folder.mode() & 0o1000 == 0
}

/// Warns if nothing of the memory in which a passphrase was stretched could be locked. If at least the
/// beginnings of its parts are locked, there is no warning: they reveal the most about the passphrase.
fn warn_of_unlocked_work() {
    if had_unlocked_work_area() {
        eprintln!(
            "godwit-signer: warning: nothing of the memory that the passphrase was stretched in could be \
             locked: what helps to guess it may reach a swap file; raise RLIMIT_MEMLOCK (`ulimit -l`)"
        );
    }
}
