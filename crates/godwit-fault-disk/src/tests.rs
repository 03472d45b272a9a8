use godwit_stream::DataStream;

use super::*;
use crate::file::PAGE;

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

fn anomaly(counted: Counted, anomaly: Anomaly, seen: Seen, seed: u64) -> PlannedAnomaly {
    PlannedAnomaly { counted, nth: 1, anomaly, seen, seed }
}

#[test]
fn changes_of_different_names_are_lost_apart_and_none_survives_without_what_it_builds_on() {
    let names = |seed| {
        let disk = disk_with_file(true);
        let path = |name: &str| Path::new(DIR).join(name);
        disk.open(&path("a"), OpenMode::ReadWrite).unwrap();
        disk.rename(&path("a"), &path("b")).unwrap();
        disk.remove(Path::new(FILE)).unwrap();
        disk.crash(Survival::Part(seed));
        let mut names = disk.list(Path::new(DIR)).unwrap();
        names.sort();
        names.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    };
    let outcomes: BTreeSet<String> = (0..100).map(names).collect();
    assert_eq!(
        outcomes.iter().map(String::as_str).collect::<Vec<_>>(),
        ["", "a", "a f", "b", "b f", "f"]
    );
}

#[test]
fn a_short_read_or_write_has_done_a_part() {
    let disk = disk_with_file(true);
    let file = disk.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    let short =
        |counted| Fault { nth: 1, error: DiskError::Short, ..fault(counted, Lasting::Once) };
    disk.plan(short(Counted::Writes));
    let error = file.write_all_at(0, b"long").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    assert_eq!(disk.contents(Path::new(FILE)).unwrap(), b"low!");
    disk.plan(short(Counted::Reads));
    let mut out = DataStream::new();
    let error = file.read_stream_at(0, 4, &mut out).unwrap_err();
    assert_eq!((error.kind(), out.as_slice().len()), (io::ErrorKind::UnexpectedEof, 2));
}

#[test]
fn a_flipped_bit_is_in_what_is_read_or_in_what_is_written() {
    let flipped = |bytes: &[u8]| -> u32 {
        bytes.iter().zip(b"new!").map(|(found, meant)| (found ^ meant).count_ones()).sum()
    };
    let disk = disk_with_file(true);
    let file = disk.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
    disk.plan_anomaly(anomaly(Counted::Reads, Anomaly::FlippedBit, Seen::AtOnce, 5));
    let read = || {
        let mut bytes = [0; 4];
        file.read_exact_at(0, &mut bytes).unwrap();
        flipped(&bytes)
    };
    assert_eq!([read(), read()], [1, 0]);
    for (seen, now) in [(Seen::AtOnce, 1), (Seen::AfterCrash, 0)] {
        disk.plan_anomaly(anomaly(Counted::Writes, Anomaly::FlippedBit, seen, 5));
        file.write_all_at(0, b"new!").unwrap();
        assert!(!disk.awaits_anomaly());
        file.sync().unwrap();
        assert_eq!(flipped(&disk.contents(Path::new(FILE)).unwrap()), now, "{seen:?}");
        let copy = disk.copy();
        copy.crash(Survival::Nothing);
        assert_eq!(flipped(&copy.contents(Path::new(FILE)).unwrap()), 1, "{seen:?}");
    }
}

/// Two files of three pages each; a page of a write to the first is lost, or goes to the second.
#[test]
fn a_page_that_is_lost_leaves_the_old_one_and_may_overwrite_another() {
    let page_of = |byte: u8| vec![byte; PAGE];
    for kind in [Anomaly::LostWrite, Anomaly::MisdirectedWrite] {
        for (seed, seen) in (0..8).flat_map(|n| [(n, Seen::AtOnce), (n, Seen::AfterCrash)]) {
            let disk = disk_with_file(true);
            let other = Path::new("/d/g");
            disk.overwrite(Path::new(FILE), [1, 1, 1].map(page_of).concat());
            disk.overwrite(other, [2, 2, 2].map(page_of).concat());
            let file = disk.open(Path::new(FILE), OpenMode::ReadWrite).unwrap();
            disk.plan_anomaly(anomaly(Counted::Writes, kind, seen, seed));
            file.write_all_at(0, &[3, 4, 5].map(page_of).concat()).unwrap();
            file.sync().unwrap();
            if seen == Seen::AfterCrash {
                let pages = disk.contents(Path::new(FILE)).unwrap();
                assert_eq!((pages[0], pages[PAGE], pages[2 * PAGE]), (3, 4, 5));
                assert_eq!(disk.contents(other).unwrap(), [2, 2, 2].map(page_of).concat());
                disk.crash(Survival::Nothing);
            }
            let pages = |path| -> Vec<u8> {
                let bytes = disk.contents(path).unwrap();
                assert!(bytes.chunks(PAGE).all(|page| page.iter().all(|byte| *byte == page[0])));
                bytes.chunks(PAGE).map(|page| page[0]).collect()
            };
            let (own, other) = (pages(Path::new(FILE)), pages(other));
            let lost: Vec<u8> =
                (3..).zip(&own).filter(|(_, found)| **found == 1).map(|(meant, _)| meant).collect();
            assert_eq!(lost.len(), 1, "{own:?}");
            let overwritten: Vec<u8> = other.into_iter().filter(|byte| *byte != 2).collect();
            let expected = if kind == Anomaly::LostWrite { Vec::new() } else { lost };
            assert_eq!(overwritten, expected, "{kind:?} {seen:?}, seed {seed}");
        }
    }
}
