//! The key file of a command, and the hardened process that opens it.

use std::path::{Path, PathBuf};

use godwit_keys::{Entry, KdfParameters, KeyId, KeyStore, NetworkKind};
use godwit_primitives::Network;
use godwit_secret::{Hardened, SecretString, allow_unlocked_secrets, harden_process};

use super::failure::KeysFailure;
use super::generations::Generations;
use super::input::Input;
use crate::options::{Config, Descriptor, KeyFileOptions};

pub(crate) struct KeyFile<'a> {
    path: PathBuf,
    options: &'a KeyFileOptions,
    /// The network whose keys may be added.
    pub(crate) network: NetworkKind,
    /// The work that a new passphrase costs.
    kdf: KdfParameters,
    generations: Generations,
}

impl<'a> KeyFile<'a> {
    pub(crate) fn of(config: &Config, options: &'a KeyFileOptions) -> Self {
        let network = match config.network {
            Network::Main => NetworkKind::Main,
            _ => NetworkKind::Test,
        };
        let kdf = KdfParameters::RECOMMENDED;
        let generations = Generations::in_directory(&config.datadir);
        Self { path: config.key_file(options), options, network, kdf, generations }
    }

    /// With another price of a new passphrase.
    pub(crate) fn with_kdf(self, kdf: KdfParameters) -> Self {
        Self { kdf, ..self }
    }

    pub(crate) fn kdf(&self) -> KdfParameters {
        self.kdf
    }

    /// Whether the user sits at a terminal: his passphrase is typed there.
    pub(crate) fn is_interactive(&self) -> bool {
        self.options.passphrase.is_none()
    }

    /// Remembers that the file was written.
    pub(crate) fn written(&self, store: &KeyStore) {
        if let Some(mark) = store.mark() {
            self.generations.set(&mark);
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
        let passphrase = self.passphrase()?;
        let store = KeyStore::open(&self.file.path, &passphrase)?;
        if store.kdf_parameters().is_below_recommended() {
            eprintln!(
                "godwit-signer: warning: the passphrase of this key file costs little to guess; keys \
                 change-passphrase makes it dearer"
            );
        }
        if let Some(mark) = store.mark()
            && let Some(newer) = self.file.generations.raise(&mark)
        {
            eprintln!(
                "godwit-signer: warning: this key file is an older copy, number {}: number {newer} was \
                 here before, and may have had more keys or another passphrase",
                mark.generation
            );
        }
        Ok(store)
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
            return self.open().map(Unlocked::Open);
        }
        let what = format!("Passphrase of the new key file {}", self.file.path.display());
        self.input.new_passphrase(self.file.options.passphrase, &what).map(Unlocked::New)
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
        let mut store = match self {
            Self::Open(store) => store,
            Self::New(passphrase) => KeyStore::create(&file.path, &passphrase, file.kdf)?,
        };
        let id = store.insert(entry)?;
        file.written(&store);
        Ok((store, id))
    }
}
