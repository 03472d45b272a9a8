//! `peers.dat` and `anchors.dat`: keep the address book, and the addresses to call first, between runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_p2p::{AddressBook, Anchors, NetGroups};
use godwit_store::disk::{Disk, OpenMode};
use godwit_store::exec::{Executor, Priority, Workers};

/// Name of the file in the network's data directory.
pub const PEERS_FILE: &str = "peers.dat";

/// Name of the file of anchors.
const ANCHORS_FILE: &str = "anchors.dat";

/// Largest file that is read, in bytes: several times that of a full book.
const MAX_PEERS_FILE: u64 = 64 << 20;

/// The files of the address book and of the anchors. A worker of its own writes it, so that the node's
/// thread never waits for the disk.
pub struct PeersFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    anchors_path: PathBuf,
    magic: [u8; 4],
    writer: Workers,
    /// The writer has not finished the last book that it was given.
    saving: Arc<AtomicBool>,
}

impl PeersFile {
    /// The file in `network_dir` on `disk`, of the network with this message start.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread.
    pub fn new(
        disk: Arc<dyn Disk>,
        executor: &dyn Executor,
        network_dir: &Path,
        magic: [u8; 4],
    ) -> io::Result<Self> {
        // One book, and the last one queued behind it.
        let writer = Workers::start(executor, "godwit-peers", 1, [2, 0])?;
        let path = network_dir.join(PEERS_FILE);
        let anchors_path = network_dir.join(ANCHORS_FILE);
        Ok(Self { disk, path, anchors_path, magic, writer, saving: Arc::default() })
    }

    /// Reads the address book, of hosts that are grouped so; an empty one if there is no file. What is
    /// damaged or cannot be read is put aside, since the next save takes its name: the addresses can be found
    /// again. Blocks the calling thread, so it is for the start.
    pub fn load(&self, seed: [u8; 32], groups: &NetGroups) -> AddressBook {
        let book = match read(&*self.disk, &self.path, MAX_PEERS_FILE) {
            Ok(Some(bytes)) => AddressBook::from_bytes(&bytes, self.magic, seed, groups.clone())
                .map_err(|error| error.to_string()),
            Ok(None) => return AddressBook::with_groups(seed, groups.clone()),
            Err(error) => Err(format!("it cannot be read: {error}")),
        };
        match book {
            Ok(book) => {
                log::info!("Loaded {} addresses from {PEERS_FILE}", book.len());
                book
            }
            Err(error) => {
                let aside = self.path.with_extension("dat.bak");
                log::warn!("{PEERS_FILE} is put aside as {}: {error}", aside.display());
                if let Err(error) = self.disk.rename(&self.path, &aside) {
                    log::warn!("{} cannot be renamed: {error}", self.path.display());
                }
                AddressBook::with_groups(seed, groups.clone())
            }
        }
    }

    /// Reads the anchors; none if there is no file or it is damaged. The file stays until a save
    /// replaces it: a power cut a moment later must not lose them. Blocks the calling thread, so it is
    /// for the start.
    pub fn load_anchors(&self) -> Anchors {
        let bytes = match read(&*self.disk, &self.anchors_path, MAX_PEERS_FILE) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Anchors::default(),
            Err(error) => {
                log::warn!("{} cannot be read: {error}", self.anchors_path.display());
                return Anchors::default();
            }
        };
        match Anchors::from_bytes(&bytes, self.magic) {
            Ok(anchors) => {
                let count = anchors.entries().len();
                log::info!("{count} block-relay-only anchors will be tried for connections.");
                anchors
            }
            Err(error) => {
                log::warn!("{ANCHORS_FILE} is not used: {error}");
                Anchors::default()
            }
        }
    }

    /// Whether the last book is still being written.
    pub fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// Starts to replace the files; after a crash each is the old one or the new one. Without anchors
    /// the old ones stay. A failure is only logged: the node can do without the files.
    ///
    /// # Panics
    ///
    /// While the last book [is being written](Self::is_saving).
    pub fn save(&self, book: &AddressBook, anchors: &Anchors) {
        assert!(!self.is_saving(), "one book at a time");
        self.start(book, anchors);
    }

    /// Replaces the files for the last time, and waits until they are written.
    pub fn end(self, book: &AddressBook, anchors: &Anchors) {
        // Dropping the worker waits for what it has to do.
        self.start(book, anchors);
    }

    fn start(&self, book: &AddressBook, anchors: &Anchors) {
        self.saving.store(true, Ordering::Release);
        let disk = Arc::clone(&self.disk);
        let mut files = vec![(self.path.clone(), book.to_bytes(self.magic))];
        if !anchors.is_empty() {
            files.push((self.anchors_path.clone(), anchors.to_bytes(self.magic)));
        }
        let replace = move || {
            for (path, bytes) in files {
                if let Err(error) = replace(&*disk, &path, &bytes) {
                    log::warn!("{} cannot be written: {error}", path.display());
                }
            }
        };
        let saving = Arc::clone(&self.saving);
        self.writer.run(Priority::Urgent, "save peers", replace, move |_| {
            saving.store(false, Ordering::Release);
        });
    }
}

/// Replaces a file: after a crash meanwhile it is the old one or the new one, and then the new one.
pub(super) fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("dat.new");
    let file = disk.open(&new, OpenMode::Truncate)?;
    file.write_all_at(0, bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&new, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new("/")))
}

/// A file of at most this many bytes; `None` where there is none. A reading that fails is repeated once: the
/// caller gives up what it cannot read, and a device that fails for a moment has lost nothing of it.
pub(super) fn read(disk: &dyn Disk, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    read_once(disk, path, most).or_else(|_| read_once(disk, path, most))
}

fn read_once(disk: &dyn Disk, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let size = file.file_len()?;
    if size > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;
    use std::thread::JoinHandle;
    use std::time::Duration;

    use godwit_fault_disk::{Counted, DiskError, Fault, FaultDisk, Lasting};
    use godwit_p2p::{AddressEntry, NetAddress, Services, Source};
    use godwit_store::disk::RealDisk;
    use godwit_store::exec::{Job, Threads, WorkerPool};

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

    fn file_in(dir: &Path, magic: [u8; 4]) -> PeersFile {
        let executor = Threads::default();
        PeersFile::new(Arc::new(RealDisk), &executor, dir, magic).expect("a thread")
    }

    /// Has the book saved and waits for it.
    fn save(dir: &Path) {
        file_in(dir, MAGIC).end(&book(), &Anchors::default());
    }

    #[test]
    fn a_book_is_kept() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let file = file_in(temp.path(), MAGIC);
        assert!(file.load(SEED, &NetGroups::default()).is_empty());
        save(temp.path());
        save(temp.path());
        assert_eq!(file.load(SEED, &NetGroups::default()).len(), book().len());
        assert!(!temp.path().join("peers.dat.new").exists());
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let path = temp.path().join(PEERS_FILE);
        let file = file_in(temp.path(), MAGIC);
        save(temp.path());
        let mut bytes = fs::read(&path).expect("the file");
        *bytes.last_mut().expect("bytes") ^= 1;
        fs::write(&path, &bytes).expect("the file");
        assert!(file.load(SEED, &NetGroups::default()).is_empty());
        assert_eq!(fs::read(temp.path().join("peers.dat.bak")).expect("it is kept"), bytes);
        assert!(!path.exists());
        // Another network's.
        save(temp.path());
        assert!(file_in(temp.path(), [0; 4]).load(SEED, &NetGroups::default()).is_empty());
    }

    fn anchors(n: u8) -> Anchors {
        let address = format!("8.{n}.8.8:8333").parse().expect("an address");
        Anchors::new([AddressEntry { time: 1, services: Services::NETWORK, address }])
    }

    #[test]
    fn a_file_that_cannot_be_read_is_put_aside_and_not_replaced() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let [path, aside] = [PEERS_FILE, "peers.dat.bak"].map(|name| temp.path().join(name));
        save(temp.path());
        let bytes = fs::read(&path).expect("the file");
        // As one that this process may not read.
        let mine = temp.path().join("mine");
        fs::rename(&path, &mine).expect("it is there");
        std::os::unix::fs::symlink(PEERS_FILE, &path).expect("a link that leads to itself");
        assert!(file_in(temp.path(), MAGIC).load(SEED, &NetGroups::default()).is_empty());
        assert!(path.symlink_metadata().is_err() && aside.is_symlink());
        fs::create_dir(&path).expect("a directory");
        fs::remove_file(&aside).expect("a link");
        fs::write(path.join("inside"), &bytes).expect("a file");
        assert!(file_in(temp.path(), MAGIC).load(SEED, &NetGroups::default()).is_empty());
        assert_eq!(fs::read(aside.join("inside")).expect("it is kept"), bytes);
        save(temp.path());
        assert!(path.is_file());
    }

    #[test]
    fn anchors_are_kept_until_there_are_others() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let path = temp.path().join(ANCHORS_FILE);
        assert!(file_in(temp.path(), MAGIC).load_anchors().is_empty());
        file_in(temp.path(), MAGIC).end(&book(), &anchors(1));
        assert_eq!(file_in(temp.path(), MAGIC).load_anchors(), anchors(1));
        assert_eq!(
            file_in(temp.path(), MAGIC).load_anchors(),
            anchors(1),
            "a start may be cut short"
        );
        file_in(temp.path(), MAGIC).end(&book(), &Anchors::default());
        assert_eq!(file_in(temp.path(), MAGIC).load_anchors(), anchors(1), "nobody was connected");
        file_in(temp.path(), MAGIC).end(&book(), &anchors(2));
        assert_eq!(file_in(temp.path(), MAGIC).load_anchors(), anchors(2));
        assert!(file_in(temp.path(), [0; 4]).load_anchors().is_empty(), "another network's");
        let mut bytes = fs::read(&path).expect("the file");
        bytes[9] ^= 1;
        fs::write(&path, &bytes).expect("the file");
        assert!(file_in(temp.path(), MAGIC).load_anchors().is_empty());
        assert_eq!(
            file_in(temp.path(), MAGIC).load(SEED, &NetGroups::default()).len(),
            book().len(),
            "the book is another"
        );
        file_in(temp.path(), MAGIC).end(&book(), &anchors(3));
        assert_eq!(file_in(temp.path(), MAGIC).load_anchors(), anchors(3));
    }

    #[test]
    fn c4_a_read_that_fails_once_costs_neither_addresses_nor_anchors() {
        let (disk, dir) = (FaultDisk::new(), Path::new("/node"));
        disk.create_dir_all(dir).expect("no fault");
        let shared = Arc::new(disk.clone());
        let file = PeersFile::new(shared, &Threads::default(), dir, MAGIC).expect("a thread");
        file.start(&book(), &anchors(2));
        while file.is_saving() {
            std::thread::yield_now();
        }
        for counted in [Counted::Opens, Counted::Reads] {
            let error = DiskError::Device;
            let fault = Fault { counted, nth: 1, error, lasting: Lasting::Once, forgets: false };
            disk.plan(fault);
            assert_eq!(file.load(SEED, &NetGroups::default()).len(), book().len());
            disk.plan(fault);
            assert_eq!(file.load_anchors(), anchors(2));
            assert!(disk.has_failed());
        }
    }

    /// Runs its jobs when it is told to.
    #[derive(Clone, Default)]
    struct Later(Arc<Mutex<Vec<Job>>>);

    impl WorkerPool for Later {
        fn push(&self, _: Priority, _: &'static str, job: Job) {
            self.0.lock().expect("no panic").push(job);
        }
    }

    impl Executor for Later {
        fn start(
            &self,
            _: &'static str,
            _: usize,
            _: [usize; Priority::COUNT],
        ) -> io::Result<Box<dyn WorkerPool>> {
            Ok(Box::new(self.clone()))
        }

        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn run_one(&self) -> bool {
            let job = self.0.lock().expect("no panic").pop();
            job.map(|job| job()()).is_some()
        }

        fn spawn_beside(
            &self,
            _: &'static str,
            _: Box<dyn FnOnce() + Send>,
        ) -> io::Result<Option<JoinHandle<()>>> {
            unreachable!("one job writes the file")
        }
    }

    #[test]
    fn saving_touches_the_disk_on_the_worker_alone() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let later = Later::default();
        let file = PeersFile::new(Arc::new(RealDisk), &later, temp.path(), MAGIC).expect("a pool");
        file.save(&book(), &Anchors::default());
        assert!(file.is_saving());
        assert_eq!(fs::read_dir(temp.path()).expect("a directory").count(), 0);
        assert!(later.run_one() && !later.run_one());
        assert!(!file.is_saving());
        assert_eq!(file.load(SEED, &NetGroups::default()).len(), book().len());
        // The next one may come, and the last one while it is being written.
        file.save(&book(), &Anchors::default());
        file.end(&book(), &Anchors::default());
        assert!(later.run_one() && later.run_one() && !later.run_one());
    }
}
