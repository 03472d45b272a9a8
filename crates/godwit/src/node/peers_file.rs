//! `peers.dat`: keeps the address book between runs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use godwit_p2p::AddressBook;

/// Name of the file in the network's data directory.
pub const PEERS_FILE: &str = "peers.dat";

/// Largest file that is read, in bytes: several times that of a full book.
const MAX_PEERS_FILE: u64 = 64 << 20;

/// Where the address book is kept.
pub(crate) struct PeersFile {
    path: PathBuf,
    magic: [u8; 4],
}

impl PeersFile {
    pub(crate) fn new(network_dir: &Path, magic: [u8; 4]) -> Self {
        Self { path: network_dir.join(PEERS_FILE), magic }
    }

    /// Reads the address book; an empty one if there is no file. A damaged file is put aside: the
    /// addresses can be found again.
    pub(crate) fn load(&self, seed: [u8; 32]) -> AddressBook {
        let bytes = match read(&self.path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return AddressBook::new(seed),
            Err(error) => {
                log::warn!("{} can not be read: {error}", self.path.display());
                return AddressBook::new(seed);
            }
        };
        match AddressBook::from_bytes(&bytes, self.magic, seed) {
            Ok(book) => {
                log::info!("Loaded {} addresses from {PEERS_FILE}", book.len());
                book
            }
            Err(error) => {
                let aside = self.path.with_extension("dat.bak");
                log::warn!("{PEERS_FILE} is put aside as {}: {error}", aside.display());
                if let Err(error) = fs::rename(&self.path, &aside) {
                    log::warn!("{} can not be renamed: {error}", self.path.display());
                }
                AddressBook::new(seed)
            }
        }
    }

    /// Replaces the file; after a crash it is the old one or the new one. A failure is only logged:
    /// the node can do without the file.
    pub(crate) fn save(&self, book: &AddressBook) {
        if let Err(error) = self.replace(&book.to_bytes(self.magic)) {
            log::warn!("{} can not be written: {error}", self.path.display());
        }
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.path.with_extension("dat.new");
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&new, &self.path)
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if size > MAX_PEERS_FILE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read(path).map(Some)
}

#[cfg(test)]
mod tests {
    use godwit_p2p::{AddressEntry, NetAddress, Services, Source};

    use super::*;

    const SEED: [u8; 32] = [3; 32];
    const MAGIC: [u8; 4] = [1, 2, 3, 4];

    fn book() -> AddressBook {
        let mut book = AddressBook::new(SEED);
        let entries: Vec<AddressEntry> = (1..20)
            .map(|n| AddressEntry {
                time: 1_700_000_000,
                services: Services::NETWORK,
                address: format!("8.{n}.8.8:8333").parse().expect("an address"),
            })
            .collect();
        let source: NetAddress = "9.9.9.9:8333".parse().expect("an address");
        book.add(1_700_000_000, &entries, Source::Host(source.host), 0);
        assert!(book.len() > 10);
        book
    }

    #[test]
    fn a_book_is_kept() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let file = PeersFile::new(temp.path(), MAGIC);
        assert!(file.load(SEED).is_empty());
        file.save(&book());
        file.save(&book());
        assert_eq!(file.load(SEED).len(), book().len());
        assert!(!temp.path().join("peers.dat.new").exists());
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let path = temp.path().join(PEERS_FILE);
        let file = PeersFile::new(temp.path(), MAGIC);
        file.save(&book());
        let mut bytes = fs::read(&path).expect("the file");
        *bytes.last_mut().expect("bytes") ^= 1;
        fs::write(&path, &bytes).expect("the file");
        assert!(file.load(SEED).is_empty());
        assert_eq!(fs::read(temp.path().join("peers.dat.bak")).expect("it is kept"), bytes);
        assert!(!path.exists());
        // Another network's.
        file.save(&book());
        assert!(PeersFile::new(temp.path(), [0; 4]).load(SEED).is_empty());
    }
}
