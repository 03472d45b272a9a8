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
