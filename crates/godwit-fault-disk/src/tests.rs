use super::*;

const DIR: &str = "/d";
const FILE: &str = "/d/f";

fn disk_with_file(sync_name: bool) -> FaultDisk {
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let file = disk.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    file.write_all_at(0, b"old").unwrap();
    file.sync().unwrap();
    if sync_name {
        disk.sync_dir(Path::new(DIR)).unwrap();
    }
    file.write_all_at(0, b"new!").unwrap();
    disk
}

#[test]
fn a_crash_forgets_what_was_not_synced() {
    for (synced, survival, expected) in [
        (true, Survival::Nothing, Some(&b"old"[..])),
        (true, Survival::All, Some(b"new!")),
        (false, Survival::Nothing, None),
        (false, Survival::All, Some(b"new!")),
    ] {
        let disk = disk_with_file(synced);
        disk.crash(survival);
        assert_eq!(disk.contents(Path::new(FILE)).as_deref(), expected, "{survival:?}");
    }
}

#[test]
fn partial_survival_gives_old_torn_and_new_contents() {
    let outcomes: BTreeSet<_> = (0..64)
        .map(|seed| {
            let disk = disk_with_file(true);
            disk.crash(Survival::Part(seed));
            disk.contents(Path::new(FILE)).unwrap()
        })
        .collect();
    let expected: BTreeSet<_> =
        [&b"old"[..], b"old\0", b"new!"].iter().map(|bytes| bytes.to_vec()).collect();
    assert_eq!(outcomes, expected);
}

#[test]
fn renames_and_removals_wait_for_the_directory() {
    let disk = disk_with_file(true);
    let (from, to) = (Path::new(FILE), Path::new("/d/g"));
    disk.rename(from, to).unwrap();
    disk.crash(Survival::Nothing);
    assert!(disk.contents(from).is_some() && disk.contents(to).is_none());
    disk.rename(from, to).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk.crash(Survival::Nothing);
    assert!(disk.contents(from).is_none() && disk.contents(to).is_some());
    disk.remove(to).unwrap();
    assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
    disk.crash(Survival::Nothing);
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["g"]);
    disk.overwrite(to, b"x".to_vec());
    assert_eq!(disk.contents(to).unwrap(), b"x");
}

#[test]
fn lost_sectors_cannot_be_read_until_they_are_written() {
    let disk = disk_with_file(true);
    let path = Path::new(FILE);
    disk.overwrite(path, vec![1; 2048]);
    disk.lose_sectors(path, 512..1024);
    let file = disk.open(path, OpenMode::ReadWrite).unwrap();
    let reads = |at: u64, len: usize| match file.read_exact_at(at, &mut vec![0; len]) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(DiskError::Device as i32));
            false
        }
    };
    let found =
        [(0, 512), (0, 513), (600, 1), (1023, 1), (1024, 1024)].map(|(at, len)| reads(at, len));
    assert_eq!(found, [true, false, false, false, true]);
    assert!(file.read_stream_at(0, 2048, &mut DataStream::new()).is_err());
    // A part of it alone does not have the drive give it another sector.
    file.write_all_at(600, &[2; 100]).unwrap();
    assert!(!reads(512, 512) && !disk.is_readable());
    file.write_all_at(512, &[2; 512]).unwrap();
    assert!(reads(0, 2048) && disk.is_readable());
}

fn fault(counted: Counted, lasting: Lasting) -> Fault {
    Fault { counted, nth: 2, error: DiskError::Device, lasting, forgets: false }
}

/// Which of four reads, with a write before each, fail.
fn failing_reads(fault: Fault) -> Vec<bool> {
    let disk = disk_with_file(true);
    let file = disk.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    disk.plan(fault);
    let mut fails = Vec::new();
    for _ in 0..4 {
        fails.push(file.write_all_at(0, b"more").is_err());
        fails.push(file.read_exact_at(0, &mut [0]).is_err());
    }
    fails
}

#[test]
fn the_nth_of_its_kind_fails_once_or_from_then_on() {
    let [no, yes] = [false, true];
    let reads = |lasting| failing_reads(fault(Counted::Reads, lasting));
    assert_eq!(reads(Lasting::Once), [no, no, no, yes, no, no, no, no]);
    assert_eq!(reads(Lasting::ItsKind), [no, no, no, yes, no, yes, no, yes]);
    assert_eq!(reads(Lasting::Everything), [no, no, no, yes, yes, yes, yes, yes]);
    let writes = failing_reads(fault(Counted::Writes, Lasting::ItsKind));
    assert_eq!(writes, [no, no, yes, no, yes, no, yes, no]);
    for counted in [Counted::Opens, Counted::Syncs, Counted::Names] {
        assert_eq!(failing_reads(fault(counted, Lasting::Everything)), [no; 8]);
    }
}

/// What was written before the sync that failed is gone, although a later one says that all is durable.
#[test]
fn a_failed_sync_forgets_its_pages() {
    for forgets in [false, true] {
        let disk = disk_with_file(true);
        let file = disk.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
        disk.plan(Fault { nth: 1, forgets, ..fault(Counted::Syncs, Lasting::Once) });
        assert!(file.sync().is_err());
        file.write_all_at(4, b"er").unwrap();
        assert_eq!(disk.contents(Path::new(FILE)).unwrap(), b"new!er");
        file.sync().unwrap();
        disk.crash(Survival::All);
        let expected = if forgets { b"old\0er" } else { b"new!er" };
        assert_eq!(disk.contents(Path::new(FILE)).unwrap(), expected);
    }
}
