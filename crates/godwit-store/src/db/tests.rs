use godwit_fault_disk::{Anomaly, Counted, FaultDisk, PlannedAnomaly, Seen, Survival};

use super::*;

const PATH: &str = "/d/test.redb";
const NUMBERS: Table<u32, u64> = Table::new("numbers");
const OTHER: Table<u32, u64> = Table::new("other");

fn created() -> (FaultDisk, StoreDisk, Db) {
    let fault = FaultDisk::new();
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    disk.create_dir_all(Path::new("/d")).unwrap();
    let db = Db::create(&disk, Path::new(PATH), put_ten).unwrap();
    (fault, disk, db)
}

fn put_ten(db: &Db) -> Result<(), StoreError> {
    let mut batch = db.batch()?;
    batch.put(&NUMBERS, 1, &10)?;
    batch.commit()
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
    Db::create(&disk, Path::new(PATH), put_ten).unwrap();
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

/// An overlay reads as a file that was written, and leaves the one below alone.
#[test]
fn what_is_written_over_a_file_is_read_back_and_the_file_stays() {
    let (fault, path) = (FaultDisk::new(), Path::new("/d/file"));
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk.open(path, OpenMode::ReadWrite).unwrap();
    let mut random = 7u64;
    let mut below = move |end: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    for round in 0..40u8 {
        let mut naive: Vec<u8> = (0..below(30_000)).map(|n| n as u8 ^ round).collect();
        fault.overwrite(path, naive.clone());
        let original = naive.clone();
        let file = disk.open(path, OpenMode::Read).unwrap();
        let mut overlay = Overlay::new(naive.len() as u64);
        for step in 0..60 {
            let at = below(40_000) as usize;
            let len = below(9000) as usize;
            match below(4) {
                0 => {
                    naive.resize(at, 0);
                    overlay.set_len(at as u64);
                }
                1 => {
                    naive.resize(naive.len().max(at + len), 0);
                    naive[at..at + len].fill(step);
                    overlay.write(&file, at as u64, &vec![step; len]).unwrap();
                }
                _ => {
                    let mut out = vec![0; len];
                    let read = overlay.read(&file, at as u64, &mut out);
                    assert_eq!(read.is_ok(), at + len <= naive.len(), "{at} + {len}");
                    assert!(read.is_err() || out == naive[at..at + len], "{at} + {len}");
                }
            }
            assert_eq!(overlay.len, naive.len() as u64);
        }
        assert!(fault.contents(path).unwrap() == original);
    }
}

/// What somebody does with a database of many pages.
fn use_it(db: Db, seed: u64, expected: &[(u32, u64)]) -> Result<(), StoreError> {
    match seed % 3 {
        0 => assert!(entries(&db)? == expected, "seed {seed}"),
        1 => assert_eq!(db.get(&NUMBERS, &700)?, Some(700), "seed {seed}"),
        _ => {
            let mut batch = db.batch()?;
            batch.put(&NUMBERS, 700, &1)?;
            batch.commit()?;
        }
    }
    Ok(())
}

/// A page that was right when all were verified may be read wrong a moment later, or be overwritten.
#[test]
fn a_page_that_is_read_wrong_is_read_again_and_one_that_is_wrong_is_damage() {
    const ENTRIES: u32 = 2_000;
    let (fault, disk, db) = created();
    let mut batch = db.batch().unwrap();
    let values: Vec<u64> = (0..u64::from(ENTRIES)).collect();
    batch.put_all(&NUMBERS, (0..ENTRIES).zip(&values)).unwrap();
    batch.commit().unwrap();
    let expected = entries(&db).unwrap();
    drop((db, disk));
    let (mut met, mut told) = (0, 0);
    for seed in 0..300 {
        let (once, fault) = (fault.copy(), fault.copy());
        let db = Db::open(&StoreDisk::new(Arc::new(once.clone())), Path::new(PATH)).unwrap();
        let (counted, anomaly, seen) = (Counted::Reads, Anomaly::FlippedBit, Seen::AtOnce);
        once.plan_anomaly(PlannedAnomaly { counted, nth: 1 + seed % 9, anomaly, seen, seed });
        assert_eq!(use_it(db, seed, &expected), Ok(()), "seed {seed}");
        met += u32::from(!once.awaits_anomaly());

        let db = Db::open(&StoreDisk::new(Arc::new(fault.clone())), Path::new(PATH)).unwrap();
        let mut bytes = fault.contents(Path::new(PATH)).unwrap();
        let page = (1 + seed as usize % (bytes.len() / PAGE as usize - 1)) * PAGE as usize;
        bytes[page + seed as usize % PAGE as usize] ^= 1;
        fault.overwrite(Path::new(PATH), bytes);
        match use_it(db, seed, &expected) {
            Ok(()) => {}
            Err(StoreError::Damaged { damage: Damage::Checksum, .. }) => told += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    eprintln!("{met} read wrong, {told} wrong and told");
    assert!(met > 100 && told > 5, "{met}, {told}");
}

#[test]
fn a_bit_that_flips_in_a_read_of_the_open_costs_another_open_at_most() {
    let (fault, disk, db) = created();
    let mut batch = db.batch().unwrap();
    batch.put_all(&NUMBERS, (0..500).zip(&vec![7; 500])).unwrap();
    batch.commit().unwrap();
    let expected = entries(&db).unwrap();
    drop((db, disk));
    let mut met = 0;
    for seed in 0..200 {
        let fault = fault.copy();
        let (counted, anomaly, seen) = (Counted::Reads, Anomaly::FlippedBit, Seen::AtOnce);
        fault.plan_anomaly(PlannedAnomaly { counted, nth: 1 + seed % 40, anomaly, seen, seed });
        let open = || Db::open(&StoreDisk::new(Arc::new(fault.clone())), Path::new(PATH)).unwrap();
        // What was read wrong first is taken for the page, until the database is opened again.
        let found = entries(&open()).or_else(|_| entries(&open()));
        assert_eq!(found.unwrap(), expected, "seed {seed}");
        met += u32::from(!fault.awaits_anomaly());
    }
    assert!(met > 50, "{met}");
}

#[test]
fn sums_are_of_whole_pages() {
    let page = |byte: u8| [byte; PAGE as usize];
    let mut sums = PageSums::default();
    assert!(
        sums.agree(PAGE, &page(1)) && sums.agree(PAGE, &page(1)) && !sums.agree(PAGE, &page(2))
    );
    sums.write(0, &[page(3), page(4)].concat());
    assert!(!sums.agree(PAGE, &page(1)) && sums.agree(0, &[page(3), page(4)].concat()));
    // A part of a page is not compared, and makes the page unknown.
    assert!(sums.agree(100, &page(9)[..50]));
    sums.write(PAGE + 100, &[0; 50]);
    assert!(sums.agree(PAGE, &page(7)) && !sums.agree(0, &page(1)));
    sums.set_len(PAGE);
    assert!(sums.agree(PAGE, &page(8)) && !sums.agree(0, &page(1)));
    assert!(sums.agree(10, &[page(3), page(8)].concat()[..5_000]));
}
