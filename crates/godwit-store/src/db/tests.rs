use godwit_fault_disk::{FaultDisk, Survival};

use super::*;

const PATH: &str = "/d/test.redb";
const NUMBERS: Table<u32, u64> = Table::new("numbers");
const OTHER: Table<u32, u64> = Table::new("other");

fn created() -> (FaultDisk, StoreDisk, Db) {
    let fault = FaultDisk::new();
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    disk.create_dir_all(Path::new("/d")).unwrap();
    let db = Db::create(&disk, Path::new(PATH), |batch| batch.put(&NUMBERS, 1, &10)).unwrap();
    (fault, disk, db)
}

fn entries(db: &Db) -> Result<Vec<(u32, u64)>, StoreError> {
    let mut found = Vec::new();
    db.for_each(&NUMBERS, |key, value| {
        found.push((key, value));
        Ok(())
    })?;
    Ok(found)
}

fn damaged(damage: Damage) -> StoreError {
    StoreError::damaged(Path::new(PATH), 0, damage)
}

/// Writes bytes past the typed wrapper.
fn put_raw(db: &Db, key: &[u8], value: &[u8]) {
    let transaction = db.redb.begin_write().unwrap();
    transaction.open_table(NUMBERS.definition()).unwrap().insert(key, value).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_batch_is_there_after_its_commit_and_not_before() {
    let (fault, disk, db) = created();
    let mut batch = db.batch().unwrap();
    batch.put_all(&NUMBERS, [(2, &20), (1, &11)]).unwrap();
    assert_eq!(entries(&db).unwrap(), [(1, 10)]);
    batch.commit().unwrap();
    let mut forgotten = db.batch().unwrap();
    forgotten.put(&NUMBERS, 3, &30).unwrap();
    drop(forgotten);
    assert_eq!(entries(&db).unwrap(), [(1, 11), (2, 20)]);
    assert_eq!((db.get(&NUMBERS, &2), db.get(&NUMBERS, &3)), (Ok(Some(20)), Ok(None)));
    drop((db, disk));
    fault.crash(Survival::Nothing);
    let db = Db::open(&StoreDisk::new(Arc::new(fault)), Path::new(PATH)).unwrap();
    assert_eq!(entries(&db).unwrap(), [(1, 11), (2, 20)]);
}

#[test]
fn creation_leaves_nothing_under_the_name_when_it_fails() {
    let (fault, disk, db) = created();
    drop(db);
    disk.remove(Path::new(PATH)).unwrap();
    let refused = Db::create(&disk, Path::new(PATH), |_| Err(damaged(Damage::Format))).err();
    assert_eq!(refused, Some(damaged(Damage::Format)));
    assert!(fault.contents(Path::new(PATH)).is_none());
    // The unfinished file of the first attempt is in nobody's way.
    Db::create(&disk, Path::new(PATH), |batch| batch.create(&NUMBERS)).unwrap();
}

#[test]
fn entries_that_were_not_written_so_are_damage() {
    let value = 7u64.to_le_bytes();
    let checksum = |key: &[u8], value: &[u8]| entry_checksum(key, value).to_le_bytes();
    let key = 5u32.to_le_bytes();
    let other_key = 6u32.to_le_bytes();
    let long_key = [5, 0, 0, 0, 0];
    let cases: [(&[u8], Vec<u8>, Damage); 5] = [
        (&key, [&value[..], &checksum(&other_key, &value)].concat(), Damage::Checksum),
        (&key, [&value[..], &[0; 4]].concat(), Damage::Checksum),
        (&key, vec![1, 2, 3], Damage::Checksum),
        (&key, [&[1][..], &checksum(&key, &[1])].concat(), {
            Damage::Decode(godwit_stream::DecodeError::UnexpectedEnd)
        }),
        (&long_key, [&value[..], &checksum(&long_key, &value)].concat(), Damage::TrailingBytes),
    ];
    for (key, bytes, damage) in cases {
        let (_, _, db) = created();
        put_raw(&db, key, &bytes);
        assert_eq!(entries(&db), Err(damaged(damage)));
    }
}

#[test]
fn an_absent_table_is_damage() {
    let (_, _, db) = created();
    assert_eq!(db.get(&OTHER, &1), Err(damaged(Damage::MissingEntry)));
}

#[test]
fn a_failed_read_is_told_as_what_it_is() {
    let (fault, disk, db) = created();
    drop(db);
    let intact = fault.contents(Path::new(PATH)).unwrap();
    fault.overwrite(Path::new(PATH), intact[..intact.len() - 1].to_vec());
    let error = Db::open(&disk, Path::new(PATH)).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    disk.check().unwrap();
}
