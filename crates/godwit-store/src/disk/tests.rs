use godwit_fault_disk::{FaultDisk, Survival};

use super::*;

#[test]
fn a_planned_failure_tears_the_write_and_latches_the_store() {
    let disk = FaultDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let path = Path::new("/d/f");
    let store = StoreDisk::new(Arc::new(disk.clone()));
    let file = store.open(path, OpenMode::ReadWrite).unwrap();
    disk.fail_change(2);
    file.write_all_at(0, b"AAAA").unwrap();
    assert!(!disk.has_failed());
    assert!(file.write_all_at(0, b"BBBB").unwrap_err().is_disk_full());
    assert!(disk.has_failed());
    assert!(matches!(file.sync(), Err(StoreError::Closed(_))));
    disk.crash(Survival::All);
    assert_eq!(disk.contents(path).unwrap(), b"BBAA");
    assert!(matches!(store.check(), Err(StoreError::Closed(_))), "only a restart reopens");
}

#[test]
fn a_file_that_lost_its_name_is_read_on_until_another_one_has_it() {
    let fault = FaultDisk::new();
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    disk.create_dir_all(Path::new("/d")).unwrap();
    let path = Path::new("/d/kept");
    let first = || {
        let mut byte = [0];
        disk.open_cached(path).and_then(|file| file.read_exact_at(0, &mut byte)).map(|()| byte[0])
    };
    fault.overwrite(path, vec![1]);
    assert_eq!(first(), Ok(1));
    fault.remove(path).unwrap();
    assert!(disk.reopen(path).is_err_and(|error| error.is_not_found()));
    assert_eq!(first(), Ok(1), "it is still open");
    disk.open(path, OpenMode::Truncate).unwrap().write_all_at(0, &[2]).unwrap();
    assert_eq!(first(), Ok(1));
    disk.reopen(path).unwrap();
    assert_eq!(first(), Ok(2));
}
