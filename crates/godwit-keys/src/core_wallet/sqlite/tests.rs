//! SQLite itself is the twin: it writes the files, and says what is in them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::{env, fs};

use godwit_secret::Unprotected;
use proptest::prelude::*;
use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::*;

/// Keys and values.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A database with the table of a wallet.
fn write(folder: &TempDir, page_size: u32, rows: &Rows) -> PathBuf {
    let path = folder.path().join("test.sqlite");
    let mut connection = Connection::open(&path).expect("a database");
    connection.pragma_update(None, "page_size", page_size).expect("a page size");
    connection
        .execute("CREATE TABLE main(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)", ())
        .expect("a table");
    let transaction = connection.transaction().expect("a transaction");
    for (key, value) in rows {
        let insert = "INSERT OR REPLACE INTO main VALUES (?, ?)";
        transaction.execute(insert, params![key, value]).expect("a row");
    }
    transaction.commit().expect("rows");
    path
}

/// All rows, or those of which `wanted` wants the key.
fn read(path: &Path, wanted: &dyn Fn(&[u8]) -> bool) -> Result<Rows, DatabaseError> {
    let mut database = Database::open(path)?;
    let roots = database.roots("main")?;
    let mut rows = Unprotected(Rows::new());
    database.rows(
        roots,
        wanted,
        &mut rows,
        &|row, Unprotected(rows): &mut Unprotected<Rows>| {
            match columns(row).as_deref() {
                Some([Column::Bytes(key), Column::Bytes(value)]) => {
                    rows.push((key.to_vec(), value.to_vec()));
                }
                _ => return Err(DatabaseError::Damaged { page: 0, what: "row" }),
            }
            Ok(())
        },
    )?;
    Ok(rows.0)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Rows of many sizes: around those that fit a page, and over several.
fn assorted(page_size: usize) -> Rows {
    let sizes = (0..8).flat_map(|n| {
        let around = n * page_size;
        (0..60).map(move |i| (around + i).saturating_sub(50))
    });
    let rows = sizes
        .enumerate()
        .map(|(n, size)| (format!("key {n:05}").into_bytes(), vec![n as u8; size]));
    rows.collect()
}

#[test]
fn rows_of_all_sizes_in_pages_of_all_sizes() {
    for page_size in [512, 1024, 4096, 65_536] {
        let folder = folder();
        let mut rows = assorted(page_size);
        rows.retain(|(_, value)| value.len() < MAX_ROW_SIZE - 100);
        let path = write(&folder, page_size as u32, &rows);
        assert!(read(&path, &|_| true).expect("rows") == rows, "pages of {page_size}");
        let wanted = |key: &[u8]| key.starts_with(b"key 0000");
        assert_eq!(read(&path, &wanted).expect("rows"), rows[..10], "pages of {page_size}");
    }
}

#[test]
fn the_size_of_a_row_is_bounded_where_it_is_wanted() {
    let folder = folder();
    // Two types of three bytes, the size of the header and the key.
    let frame = 1 + 1 + 3 + 1;
    let rows: Rows = vec![
        (b"a".to_vec(), vec![1; MAX_ROW_SIZE - frame]),
        (b"b".to_vec(), vec![2; MAX_ROW_SIZE - frame + 1]),
    ];
    let path = write(&folder, 4096, &rows);
    assert_eq!(read(&path, &|key| key == b"a").expect("rows"), rows[..1]);
    match read(&path, &|_| true) {
        Err(DatabaseError::RowSize { size }) => assert_eq!(size, MAX_ROW_SIZE as u64 + 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_rows_and_no_table() {
    let folder = folder();
    assert!(read(&write(&folder, 512, &Rows::new()), &|_| true).expect("no rows").is_empty());
    let path = folder.path().join("other.sqlite");
    Connection::open(&path)
        .and_then(|connection| connection.execute("CREATE TABLE other(key BLOB)", ()))
        .expect("a database");
    assert!(matches!(read(&path, &|_| true), Err(DatabaseError::NoTable)));
}

#[test]
fn databases_in_the_middle_of_something_are_refused() {
    let folder = folder();
    let path = write(&folder, 512, &assorted(512));
    let beside = |suffix| folder.path().join(format!("test.sqlite{suffix}"));
    fs::write(beside("-journal"), [0; 600]).expect("a journal that was finished");
    fs::write(beside("-wal"), []).expect("an empty log");
    assert!(read(&path, &|_| true).is_ok());
    fs::write(beside("-journal"), [0xd9; 600]).expect("a journal");
    assert!(matches!(read(&path, &|_| true), Err(DatabaseError::Journal)));
    fs::remove_file(beside("-journal")).expect("removed");
    fs::write(beside("-wal"), [1]).expect("a log");
    assert!(matches!(read(&path, &|_| true), Err(DatabaseError::WriteAheadLog)));

    let path = folder.path().join("wal.sqlite");
    let connection = Connection::open(&path).expect("a database");
    connection.pragma_update(None, "journal_mode", "wal").expect("a log");
    connection.execute("CREATE TABLE main(key BLOB PRIMARY KEY)", ()).expect("a table");
    drop(connection);
    assert!(matches!(read(&path, &|_| true), Err(DatabaseError::WriteAheadLog)));
}

/// Where the process that the test starts finds the database.
const HELD: &str = "GODWIT_TEST_HELD_DATABASE";

#[test]
fn a_database_that_another_process_holds_is_refused() {
    if let Some(path) = env::var_os(HELD) {
        let connection = Connection::open(path).expect("the database");
        connection.execute_batch("BEGIN EXCLUSIVE").expect("the database to itself");
        println!("held");
        io::stdin().read_to_end(&mut Vec::new()).expect("the end of the input");
        return;
    }
    let folder = folder();
    let path = write(&folder, 512, &assorted(512)[..9].to_vec());
    let name = "core_wallet::sqlite::tests::a_database_that_another_process_holds_is_refused";
    let mut child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", name, "--nocapture"])
        .env(HELD, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with("held"))), "it holds it");
    assert!(matches!(Database::open(&path), Err(DatabaseError::InUse)));
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().expect("its end").success());
    assert!(read(&path, &|_| true).is_ok());
}

#[test]
fn other_files_are_told_apart() {
    let folder = folder();
    let path = folder.path().join("file");
    let mut berkeley = vec![0; 4096];
    for magic in [0x0005_3162_u32.to_le_bytes(), 0x0005_3162_u32.to_be_bytes()] {
        berkeley[12..16].copy_from_slice(&magic);
        fs::write(&path, &berkeley).expect("a file");
        assert!(matches!(Database::open(&path), Err(DatabaseError::BerkeleyDb)));
    }
    for content in [&b""[..], b"SQLite format ", b"SQLite format 4\0 and more", &[0; 5000]] {
        fs::write(&path, content).expect("a file");
        assert!(matches!(Database::open(&path), Err(DatabaseError::NotSqlite)));
    }
    fs::write(&path, MAGIC).expect("a file");
    assert!(matches!(Database::open(&path), Err(DatabaseError::Truncated)));
    assert!(matches!(Database::open(folder.path()), Err(DatabaseError::Read(_))));
    assert!(matches!(Database::open(&folder.path().join("no")), Err(DatabaseError::Read(_))));
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let folder = folder();
    let path = write(&folder, 512, &assorted(512)[..40].to_vec());
    let file = fs::OpenOptions::new().write(true).open(&path).expect("the file");
    let size = file.metadata().expect("its size").len();
    for length in (0..size).rev() {
        file.set_len(length).expect("cut");
        assert!(read(&path, &|_| true).is_err(), "cut at {length} of {size}");
    }
}

#[test]
fn trees_with_loops_end() {
    let folder = folder();
    let path = write(&folder, 512, &assorted(512));
    let good = fs::read(&path).expect("the file");
    let root = 512;
    assert_eq!(good[root], 5, "the root of the table is an interior page");
    let cells = good[root + 3..root + 5].to_vec();
    assert!(u16::from_be_bytes([cells[0], cells[1]]) > 2);
    // The last child of the root is the root; the first one; the index.
    for child in [2_u32, 3, 4] {
        let mut bad = good.clone();
        bad[root + 8..root + 12].copy_from_slice(&child.to_be_bytes());
        fs::write(&path, &bad).expect("the file");
        assert!(matches!(read(&path, &|_| true), Err(DatabaseError::Damaged { .. })), "{child}");
    }
    // Every page that a row goes on in is followed by itself.
    let mut bad = good.clone();
    for (number, page) in bad.chunks_mut(512).enumerate().skip(1) {
        if page[..2] == [0, 0] {
            page[..4].copy_from_slice(&(number as u32 + 1).to_be_bytes());
        }
    }
    fs::write(&path, &bad).expect("the file");
    assert!(matches!(read(&path, &|_| true), Err(DatabaseError::Damaged { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_reads_what_sqlite_wrote(
        shapes in prop::collection::vec((0..300_usize, 0..3000_usize, any::<u8>()), 0..200),
        deleted in prop::collection::vec(0..200_i64, 0..50),
        page_size in prop::sample::select(vec![512_u32, 4096]),
    ) {
        let folder = folder();
        let rows: Rows = shapes
            .into_iter()
            .enumerate()
            .map(|(n, (key, value, byte))| {
                let mut key = vec![byte; key];
                key.extend(n.to_be_bytes());
                (key, vec![byte ^ 0x55; value])
            })
            .collect();
        let path = write(&folder, page_size, &rows);
        let connection = Connection::open(&path).expect("the database");
        for row in deleted {
            connection.execute("DELETE FROM main WHERE rowid = ?", [row]).expect("deleted");
        }
        let mut query = connection.prepare("SELECT key, value FROM main ORDER BY rowid").expect("rows");
        let theirs: Rows = query
            .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
            .and_then(Iterator::collect)
            .expect("rows");
        drop(query);
        drop(connection);
        prop_assert_eq!(read(&path, &|_| true).expect("rows"), theirs);
    }

    #[test]
    fn damaged_files_neither_panic_nor_lose_rows(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let folder = folder();
        let rows = assorted(512)[..60].to_vec();
        let path = write(&folder, 512, &rows);
        let mut bytes = fs::read(&path).expect("the file");
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        fs::write(&path, bytes).expect("the file");
        if let Ok(read) = read(&path, &|_| true) {
            prop_assert_eq!(read.len(), rows.len());
        }
    }
}
