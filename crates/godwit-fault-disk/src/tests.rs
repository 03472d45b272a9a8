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
