use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;
use crate::disk::StoreDisk;
use crate::error::StoreError;

fn temp() -> (tempfile::TempDir, StoreDisk) {
    let dir = tempfile::tempdir().unwrap();
    (dir, StoreDisk::new(Arc::new(RealDisk)))
}

#[test]
fn written_bytes_are_read_back_at_their_offsets() {
    let (dir, disk) = temp();
    let file = disk.open(&dir.path().join("f"), OpenMode::ReadWrite).unwrap();
    file.write_all_at(0, b"hello").unwrap();
    file.write_all_at(8, b"world").unwrap();
    file.sync().unwrap();
    assert_eq!(file.file_len().unwrap(), 13);

    let mut out = [0xffu8; 5];
    file.read_exact_at(8, &mut out).unwrap();
    assert_eq!(&out, b"world");
    let mut stream = DataStream::from(&b"> "[..]);
    file.read_stream_at(3, 7, &mut stream).unwrap();
    assert_eq!(stream.as_slice(), b"> lo\0\0\0wo");

    file.set_len(5).unwrap();
    assert!(file.read_exact_at(1, &mut out).is_err());
}

/// Whether they are in memory is the system's affair, and not every file system tells.
#[test]
fn bytes_that_are_in_memory_are_read_at_once_and_others_soon() {
    let (dir, disk) = temp();
    let path = dir.path().join("f");
    let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
    file.write_all_at(0, &bytes).unwrap();
    file.sync().unwrap();
    // What is wrong the read that waits says; a place beyond any file is not the place behind the last read.
    for offset in [999_999, 1_000_000, u64::MAX] {
        assert!(!file.read_or_fetch_at(offset, &mut [0; 2]).unwrap());
        assert!(file.read_exact_at(offset, &mut [0; 2]).is_err());
    }
    let plain = File::open(&path).unwrap();
    let mut probe = [0; 1];
    let tells =
        rustix::io::preadv2(&plain, &mut [IoSliceMut::new(&mut probe)], 0, ReadWriteFlags::NOWAIT);
    let tells = matches!(tells, Ok(_) | Err(Errno::AGAIN));
    for release in [false, true] {
        if release {
            file.release_cache(0..u64::MAX);
        }
        // The second time the first pages alone may be in memory.
        for (start, end) in [(500_000, 505_000), (500_000, 700_000)] {
            let (mut out, mut waited) = (vec![0; end - start], vec![0; end - start]);
            let at_once = file.read_or_fetch_at(start as u64, &mut out).unwrap();
            file.read_exact_at(start as u64, &mut waited).unwrap();
            assert!(waited == bytes[start..end]);
            assert!(!at_once || out == waited);
            let mut again = || file.read_or_fetch_at(start as u64, &mut out).unwrap();
            assert!(!tells || (0..1_000).any(|_| again()), "it was read just now");
        }
    }
    disk.check().unwrap();
}

#[test]
fn a_long_read_crosses_the_steps_of_the_stream() {
    let (dir, disk) = temp();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let file = disk.open(&dir.path().join("f"), OpenMode::ReadWrite).unwrap();
    file.write_all_at(0, &bytes).unwrap();
    let mut stream = DataStream::new();
    file.read_stream_at(1, bytes.len() - 1, &mut stream).unwrap();
    assert!(stream.as_slice() == &bytes[1..]);
}

#[test]
fn reading_past_the_end_fails_and_does_not_close_the_store() {
    let (dir, disk) = temp();
    let file = disk.open(&dir.path().join("f"), OpenMode::ReadWrite).unwrap();
    file.write_all_at(0, b"12345").unwrap();
    let mut stream = DataStream::new();
    let error = file.read_stream_at(1, 5, &mut stream).unwrap_err();
    let StoreError::Io(failure) = error else { panic!("{error}") };
    assert_eq!(failure.kind, io::ErrorKind::UnexpectedEof);
    file.read_stream_at(1, 4, &mut stream).unwrap();
    disk.check().unwrap();
}

#[test]
fn files_and_directories_are_for_their_owner_only() {
    let (dir, disk) = temp();
    let nested = dir.path().join("a/b/c");
    disk.create_dir_all(&nested).unwrap();
    disk.create_dir_all(&nested).unwrap();
    let path = nested.join("f");
    disk.open(&path, OpenMode::ReadWrite).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&nested), 0o700);
    assert_eq!(mode(nested.parent().unwrap()), 0o700);
}

/// As a folder for what comes in may be. Its names can be made durable by what is made in it.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_is_made_in_one_that_may_be_written_to_and_not_read() {
    let (dir, disk) = temp();
    let above = dir.path().join("above");
    fs::create_dir(&above).unwrap();
    fs::set_permissions(&above, fs::Permissions::from_mode(0o300)).unwrap();
    if fs::read_dir(&above).is_ok() {
        godwit_testdata::skip("this user may read everywhere");
        return;
    }
    let made = disk.create_dir_all(&above.join("a/b"));
    let is_there = above.join("a/b").is_dir();
    // Or the temporary directory could not be removed.
    fs::set_permissions(&above, fs::Permissions::from_mode(0o700)).unwrap();
    made.unwrap();
    assert!(is_there);
}

#[test]
fn names_can_be_listed_renamed_and_removed() {
    let (dir, disk) = temp();
    let at = |name: &str| -> PathBuf { dir.path().join(name) };
    for name in ["b", "a", "c"] {
        disk.open(&at(name), OpenMode::ReadWrite).unwrap();
    }
    disk.rename(&at("c"), &at("a")).unwrap();
    disk.sync_dir(dir.path()).unwrap();
    assert_eq!(disk.list(dir.path()).unwrap(), [at("a"), at("b")]);
    disk.remove(&at("b")).unwrap();
    disk.remove(&at("b")).unwrap();
    assert_eq!(disk.list(dir.path()).unwrap(), [at("a")]);
    assert!(disk.open(&at("b"), OpenMode::Read).is_err_and(|error| error.is_not_found()));
}

#[test]
fn truncating_open_empties_the_file() {
    let (dir, disk) = temp();
    let path = dir.path().join("f");
    let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_all_at(0, b"old").unwrap();
    assert_eq!(disk.open(&path, OpenMode::ReadWrite).unwrap().file_len().unwrap(), 3);
    assert_eq!(disk.open(&path, OpenMode::Truncate).unwrap().file_len().unwrap(), 0);
}

/// Somebody has both ends of the pipe, so that an open that waits for one would end too.
#[test]
fn what_is_no_file_is_named_and_not_waited_for() {
    let (dir, disk) = temp();
    let at = |name: &str| dir.path().join(name);
    mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let both_ends = File::options().read(true).write(true).open(at("pipe")).unwrap();
    let _listening = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let refused = |name: &str, mode, text: &str| {
        let error = disk.apart().open(&at(name), mode).unwrap_err();
        assert!(error.to_string().ends_with(text), "{error}");
        assert_eq!(error.unusable_path(), Some(&*at(name)));
    };
    for mode in [OpenMode::Read, OpenMode::ReadWrite, OpenMode::Truncate] {
        refused("pipe", mode, "pipe: a pipe is where a file belongs: move it away");
        refused("socket", mode, "socket: a socket or a pipe is where a file belongs: move it away");
        refused("directory", mode, "directory: a directory is where a file belongs: move it away");
    }
    symlink("circle", at("circle")).unwrap();
    let text = "circle: links here lead back to themselves: move them away";
    for mode in [OpenMode::Read, OpenMode::ReadWrite, OpenMode::Truncate] {
        refused("circle", mode, text);
    }
    let listed = disk.apart().list(&at("circle/below")).unwrap_err();
    assert_eq!(listed.unusable_path(), Some(&*at("circle/below")), "{listed}");
    let removed = disk.apart().remove(&at("directory")).unwrap_err();
    assert!(removed.to_string().ends_with("a directory is where a file belongs: move it away"));
    fs::write(at("file"), "").unwrap();
    let listed = disk.apart().list(&at("file")).unwrap_err();
    assert!(
        listed.to_string().ends_with("what is there is no directory: move it away"),
        "{listed}"
    );
    drop(both_ends);
    refused("pipe", OpenMode::Read, "a pipe is where a file belongs: move it away");
    assert!(disk.apart().lock(&at("pipe")).is_err());
}

#[test]
fn a_name_is_taken_by_what_cannot_be_opened() {
    let (dir, disk) = temp();
    let at = |name: &str| dir.path().join(name);
    symlink("nowhere", at("link")).unwrap();
    let _listening = UnixListener::bind(at("socket")).unwrap();
    fs::write(at("file"), "").unwrap();
    fs::set_permissions(at("file"), fs::Permissions::from_mode(0o000)).unwrap();
    for name in ["link", "socket", "file"] {
        assert!(disk.has_name(&at(name)).unwrap(), "{name}");
    }
    for name in ["absent", "absent/too"] {
        assert!(!disk.has_name(&at(name)).unwrap(), "{name}");
    }
    assert!(disk.has_name(&at("file/below")).is_err());
}

#[test]
fn a_link_to_a_disk_that_is_not_mounted_is_no_missing_directory() {
    let (dir, disk) = temp();
    let (link, file) = (dir.path().join("link"), dir.path().join("file"));
    symlink("/not/mounted", &link).unwrap();
    fs::write(&file, "").unwrap();
    for (path, failed, text) in [
        (&link, disk.apart().create_dir_all(&link), "a link to /not/mounted, where there is no"),
        (&link, disk.list_if_there(&link).map(drop), "a link to /not/mounted, where there is no"),
        (&file, disk.apart().create_dir_all(&file), "what is there is no directory"),
    ] {
        let error = failed.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.unusable_path(), Some(&**path));
    }
    assert_eq!(disk.list_if_there(&dir.path().join("absent")).unwrap(), [] as [PathBuf; 0]);
    let error = disk.check_link(&link).unwrap_err();
    let text = "it is a link to /not/mounted, where there is no file: is its disk mounted?";
    assert!(error.to_string().ends_with(text), "{error}");
    assert_eq!(error.unusable_path(), Some(&*link));
    let whole = dir.path().join("whole");
    symlink(&file, &whole).unwrap();
    for path in [&whole, &file, &dir.path().join("absent")] {
        disk.check_link(path).unwrap();
    }
}

#[test]
fn a_directory_that_may_not_be_changed_is_told_before_anything_is() {
    let (dir, disk) = temp();
    disk.check_writable(dir.path()).unwrap();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(closed.join("probe"), "").is_ok() {
        godwit_testdata::skip("this user may write everywhere");
        return;
    }
    let error = disk.check_writable(&closed).unwrap_err();
    assert_eq!(error.unusable_path(), Some(&*closed));
    disk.check().unwrap();
}

#[test]
fn a_lock_is_exclusive_until_dropped() {
    let (dir, disk) = temp();
    let path = dir.path().join(".lock");
    let held = disk.lock(&path).unwrap();
    for _ in 0..2 {
        assert_eq!(disk.lock(&path).err(), Some(StoreError::Locked { path: path.clone() }));
        assert!(excludes_bitcoind(&path), "a second attempt gives up nothing");
    }
    drop(held);
    assert!(!excludes_bitcoind(&path));
    disk.lock(&path).unwrap();
}

/// Whether a process has the kind of lock on a file that Core asks for.
fn excludes_bitcoind(path: &Path) -> bool {
    let file = format!(":{} ", fs::metadata(path).unwrap().ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|lock| lock.contains(" POSIX ") && lock.contains(&file))
}

#[test]
fn a_failed_write_closes_the_store_for_good() {
    let (dir, disk) = temp();
    let full = disk.open(Path::new("/dev/full"), OpenMode::ReadWrite).unwrap();
    let error = full.write_all_at(0, b"x").unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    let StoreError::Io(first) = error else { panic!("{error}") };
    assert_eq!(first.path, Path::new("/dev/full"));

    let later = disk.open(&dir.path().join("f"), OpenMode::ReadWrite).err();
    assert_eq!(later, Some(StoreError::Closed(first.clone())));
    assert_eq!(full.read_exact_at(0, &mut [0]), Err(StoreError::Closed(first.clone())));
    assert_eq!(disk.clone().check(), Err(StoreError::Closed(first)));
}

/// The second one has no size at all.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_has_room_as_far_as_its_file_system_tells() {
    let (dir, _) = temp();
    let free = RealDisk.free_bytes(dir.path()).unwrap();
    assert!(free > 0 && free < u64::MAX, "{free}");
    assert_eq!(RealDisk.free_bytes(Path::new("/proc")).unwrap(), u64::MAX);
    assert!(RealDisk.free_bytes(&dir.path().join("absent")).is_err());
}
