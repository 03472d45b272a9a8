//! `banlist.json`: keeps the operator's bans between runs, in Core's format.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_p2p::{Ban, Bans, HostRange, MAX_BANS};
use godwit_rpc::Json;

/// Its name in the network's part of the data directory.
const NAME: &str = "banlist.json";

/// Bytes that are read at most: those of as many bans as there may be.
const MAX_BYTES: u64 = 4 << 20;

/// Of the form of an entry.
const VERSION: i64 = 1;

/// The file, which is written by the call that changes the bans.
pub struct BanFile(Mutex<State>);

struct State {
    path: PathBuf,
    /// The last write failed.
    is_behind: bool,
    /// The file could not be read, and is kept aside when it is replaced.
    is_unread: bool,
}

/// Held from before a change of the bans until it is in the file.
pub(crate) struct Writing<'a>(MutexGuard<'a, State>);

fn entry((range, ban): (HostRange, Ban)) -> Json {
    Json::object([
        ("version", VERSION.into()),
        ("ban_created", ban.created.into()),
        ("banned_until", ban.until.into()),
        ("address", range.to_string().into()),
    ])
}

/// A ban of the file; `None` for what is none.
fn ban_of(entry: &Json) -> Option<(HostRange, Ban)> {
    let number = |name| entry.get(name)?.as_integer::<i64>().ok();
    let range = entry.get("address")?.as_text().ok()?.parse().ok()?;
    (number("version")? == VERSION).then_some(())?;
    Some((range, Ban { created: number("ban_created")?, until: number("banned_until")? }))
}

/// The content; `None` where there is no file. A reading that fails is repeated once: a device that fails for
/// a moment has lost nothing of it.
fn read_twice(
    mut read: impl FnMut() -> io::Result<Option<Vec<u8>>>,
) -> io::Result<Option<Vec<u8>>> {
    read().or_else(|_| read())
}

fn read_once(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(path) {
        Ok(found) if found.len() > MAX_BYTES => Err(io::ErrorKind::FileTooLarge.into()),
        // A pipe would have to be waited for.
        Ok(found) if !found.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"))
        }
        Ok(_) => fs::read(path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("json.new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Keeps a file of which not all is understood, because the next change of the bans replaces it. With
/// `stays`, it is left too.
fn put_aside(path: &Path, stays: bool) {
    let aside = path.with_extension("json.bak");
    let result = if stays { fs::copy(path, &aside).map(drop) } else { fs::rename(path, &aside) };
    match result {
        Ok(()) => log::warn!("{} is kept as {}", path.display(), aside.display()),
        Err(error) => {
            log::warn!("{} cannot be kept as {}: {error}", path.display(), aside.display());
        }
    }
}

impl BanFile {
    /// That of a network's directory.
    pub fn new(dir: &Path) -> Self {
        Self(Mutex::new(State { path: dir.join(NAME), is_behind: false, is_unread: false }))
    }

    pub(crate) fn begin(&self) -> Writing<'_> {
        Writing(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The bans that it has; none where there is no file. What is damaged, or is too much, is left out and
    /// said, and the file is kept aside. One that the system does not read stays where it is, for the next
    /// start, and is kept aside when the bans are changed before. Blocks the calling thread: for the start.
    pub fn read(&self) -> Vec<(HostRange, Ban)> {
        let path = self.begin().0.path.clone();
        let name = path.display();
        let found = read_twice(|| read_once(&path));
        self.begin().0.is_unread = false;
        let text = match found {
            Ok(Some(text)) => text,
            Ok(None) => return Vec::new(),
            Err(error) => {
                log::warn!("{name} cannot be read, so nobody is banned: {error}");
                match error.kind() {
                    io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
                        put_aside(&path, false);
                    }
                    _ => self.begin().0.is_unread = true,
                }
                return Vec::new();
            }
        };
        let json = Json::parse(&text);
        let Some(Json::List(entries)) = json.as_ref().and_then(|json| json.get("banned_nets"))
        else {
            log::warn!("{name} is not a list of bans, so nobody is banned.");
            put_aside(&path, false);
            return Vec::new();
        };
        let bans: Vec<_> = entries.iter().filter_map(ban_of).take(MAX_BANS).collect();
        if bans.len() < entries.len() {
            log::warn!("{name}: {} entries are left out.", entries.len() - bans.len());
            put_aside(&path, true);
        }
        bans
    }

    /// Writes the bans at the end, if the last write failed.
    pub fn end(&self, bans: &Bans) {
        let writing = self.begin();
        if writing.0.is_behind {
            writing.write(bans);
        }
    }
}

impl Writing<'_> {
    /// Writes these bans. A failure is said, and no more: the bans are in force until the end, and then
    /// written once more.
    pub(crate) fn write(mut self, bans: &Bans) {
        let entries = bans.iter().map(entry).collect();
        let json = Json::object([("banned_nets", Json::List(entries))]);
        if std::mem::take(&mut self.0.is_unread) {
            put_aside(&self.0.path, false);
        }
        let written = replace(&self.0.path, &json.write_indented(4));
        if let Err(error) = &written {
            log::warn!("{} cannot be written: {error}", self.0.path.display());
        }
        self.0.is_behind = written.is_err();
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_left_out() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = BanFile::new(dir.path());
        assert!(file.read().is_empty());
        let mut bans = Bans::default();
        for (n, range) in (0..).zip(["1.2.3.0/24", "2a02::/16", "9.9.9.9"]) {
            let ban = Ban { created: n, until: 1_900_000_000 + n };
            assert!(bans.add(range.parse().expect("a range"), ban));
        }
        file.begin().write(&bans);
        assert_eq!(file.read(), bans.iter().collect::<Vec<_>>());
        let path = dir.path().join(NAME);
        let text = fs::read_to_string(&path).expect("it is there");
        for (from, to, left) in [
            ("2a02::/16", "2a02::/160", 2),
            ("\"version\": 1", "\"version\": 2", 2),
            ("\"banned_until\"", "\"banned\"", 2),
            ("banned_nets", "banned_net", 0),
            ("}", "", 0),
        ] {
            let damaged = text.replacen(from, to, 1);
            assert_ne!(damaged, text);
            fs::write(&path, &damaged).expect("it is ours");
            assert_eq!(file.read().len(), left, "{from}");
            let aside = fs::read_to_string(dir.path().join("banlist.json.bak"));
            assert_eq!(aside.expect("it is kept"), damaged);
            assert_eq!(path.exists(), left > 0);
        }
    }

    /// It would wait for ever where somebody has to write into the pipe first.
    #[test]
    fn a_pipe_is_kept_aside_and_not_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(NAME);
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        assert!(BanFile::new(dir.path()).read().is_empty());
        assert!(!path.exists() && path.with_extension("json.bak").exists());
    }

    /// What the system does not read at this start may have all bans, and be read at the next one.
    #[test]
    fn a_file_that_cannot_be_read_stays_until_the_bans_are_changed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join(NAME);
        // The first page of a process is not there: that is an I/O error.
        std::os::unix::fs::symlink("/proc/self/mem", &path).expect("a link");
        let file = BanFile::new(dir.path());
        assert!(file.read().is_empty());
        file.end(&Bans::default());
        assert!(path.is_symlink(), "it stays");
        let mut bans = Bans::default();
        let ban = Ban { created: 0, until: 1_900_000_000 };
        assert!(bans.add("9.9.9.9".parse().expect("a host"), ban));
        file.begin().write(&bans);
        assert!(path.with_extension("json.bak").is_symlink(), "it is kept");
        assert_eq!(BanFile::new(dir.path()).read(), bans.iter().collect::<Vec<_>>());
        let aside = path.with_extension("json.bak");
        fs::remove_file(&aside).expect("it is ours");
        file.begin().write(&bans);
        assert!(!aside.is_symlink() && !aside.exists(), "once");
    }

    #[test]
    fn one_failed_read_costs_no_bans() {
        for fails in 0..3 {
            let mut reads = 0..;
            let read = read_twice(|| match reads.next() {
                Some(read) if read < fails => Err(io::ErrorKind::Other.into()),
                _ => Ok(Some(vec![7])),
            });
            assert_eq!(read.ok(), (fails < 2).then_some(Some(vec![7])), "{fails}");
        }
    }

    #[test]
    fn more_bans_than_there_may_be_are_left_out_and_kept_aside() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = BanFile::new(dir.path());
        let ban = |n: u32| {
            let range = HostRange::of_host(godwit_p2p::Host::Ipv4(n.to_be_bytes()));
            entry((range, Ban { created: 0, until: 1_900_000_000 }))
        };
        for (count, is_kept) in [(MAX_BANS, false), (MAX_BANS + 1, true)] {
            let entries = (0..count as u32).map(ban).collect();
            let json = Json::object([("banned_nets", Json::List(entries))]);
            fs::write(dir.path().join(NAME), json.write()).expect("a temporary file");
            assert_eq!(file.read().len(), MAX_BANS);
            assert_eq!(dir.path().join("banlist.json.bak").exists(), is_kept);
        }
    }

    #[test]
    fn what_could_not_be_written_is_written_at_the_end() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = BanFile::new(dir.path());
        let mut bans = Bans::default();
        let ban = Ban { created: 0, until: 1_900_000_000 };
        assert!(bans.add("9.9.9.9".parse().expect("a host"), ban));
        file.end(&bans);
        assert!(file.read().is_empty(), "nothing has changed");
        let in_the_way = dir.path().join("banlist.json.new");
        fs::create_dir(&in_the_way).expect("a temporary directory");
        file.begin().write(&bans);
        assert!(file.read().is_empty());
        fs::remove_dir(&in_the_way).expect("it is ours");
        file.end(&bans);
        assert_eq!(file.read(), bans.iter().collect::<Vec<_>>());
    }

    /// As Core 31 writes it.
    #[test]
    fn core_s_file_is_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let text = r#"{
  "banned_nets": [
    {
      "version": 1,
      "ban_created": 1700000000,
      "banned_until": 1900000000,
      "address": "10.0.0.0/8"
    }
  ]
}
"#;
        fs::write(dir.path().join(NAME), text).expect("a temporary file");
        let ban = Ban { created: 1_700_000_000, until: 1_900_000_000 };
        let range = "10.0.0.0/8".parse().expect("a range");
        assert_eq!(BanFile::new(dir.path()).read(), [(range, ban)]);
    }
}
