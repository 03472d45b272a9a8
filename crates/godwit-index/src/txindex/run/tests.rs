use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use godwit_fault_disk::FaultDisk;

use super::*;

const DIR: &str = "/index";
const SECRET: [u8; 16] = [5; 16];

fn written(entries: &BTreeSet<Entry>) -> (FaultDisk, Run) {
    let disk = FaultDisk::new();
    let store = StoreDisk::new(Arc::new(disk.clone()));
    store.create_dir_all(Path::new(DIR)).expect("a directory");
    let mut writer = RunWriter::create(&store, Path::new(DIR), SECRET, 7).expect("a file");
    entries.iter().for_each(|entry| writer.add(*entry).expect("a write"));
    let facts = writer.finish().expect("a run");
    (disk, Run::open(&store, Path::new(DIR), SECRET, facts).expect("a run"))
}

/// Numbers that look random.
fn scrambled(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

fn entry(key: u64, n: u64) -> Entry {
    Entry { key: Key(key & ((1 << KEY_BITS) - 1)), height: n as u32, offset: 81 }
}

fn naive(entries: &BTreeSet<Entry>, key: Key) -> Vec<Entry> {
    entries.iter().filter(|entry| entry.key == key).copied().collect()
}

/// Spread keys, keys that are all alike, keys at both ends, and so many of one key that it fills pages.
#[test]
fn a_run_finds_what_a_search_from_end_to_end_finds() {
    let full = PER_PAGE;
    let sets: Vec<BTreeSet<Entry>> = vec![
        BTreeSet::new(),
        (0..1).map(|n| entry(5, n)).collect(),
        (0..full).map(|n| entry(scrambled(n), n)).collect(),
        (0..=full).map(|n| entry(scrambled(n), n)).collect(),
        (0..20 * full).map(|n| entry(scrambled(n), n)).collect(),
        (0..5 * full).map(|n| entry(n, n)).collect(),
        (0..5 * full).map(|n| entry(u64::MAX - n, n)).collect(),
        (0..5 * full).map(|n| entry(n / (2 * full + 7), n)).collect(),
        (0..6 * full)
            .map(|n| entry(if n < 3 * full { 1 << 30 } else { scrambled(n) }, n))
            .collect(),
        (0..6 * full).map(|n| entry(1 << (n % 48), n)).collect(),
    ];
    for (n, entries) in sets.iter().enumerate() {
        let (_, run) = written(entries);
        let keys = entries.iter().map(|entry| entry.key.0).collect::<BTreeSet<_>>();
        let every = (keys.len() / 60).max(1);
        let near = keys.iter().step_by(every).flat_map(|key| {
            [key.wrapping_sub(1), *key, key + 1].map(|key| Key(key & ((1 << KEY_BITS) - 1)))
        });
        let ends = [Key(0), Key((1 << KEY_BITS) - 1), Key(1 << 30)];
        for key in near.chain(ends) {
            let mut found = Vec::new();
            run.find(key, &mut found).expect("it can be read");
            assert_eq!(found, naive(entries, key), "set {n}, {key:?}");
        }
        let mut reader = RunReader::new(Arc::new(run));
        for expected in entries {
            assert_eq!(reader.peek().expect("it can be read"), Some(*expected));
            reader.advance();
        }
        assert_eq!(reader.peek().expect("it can be read"), None);
    }
}

#[test]
fn any_damaged_byte_is_found() {
    let entries: BTreeSet<Entry> = (0..3 * PER_PAGE).map(|n| entry(scrambled(n), n)).collect();
    let (disk, run) = written(&entries);
    let path = run.facts.path(Path::new(DIR));
    let bytes = disk.contents(&path).expect("the run");
    for at in (0..bytes.len()).step_by(97) {
        let mut harmed = bytes.clone();
        harmed[at] ^= 0x10;
        disk.overwrite(&path, harmed);
        let error = run.read(at as u64 / PAGE as u64, 1).expect_err("it is damaged");
        assert!(error.is_damage(), "{error}");
    }
    // A page of another place is damage too.
    let mut moved = bytes.clone();
    moved.copy_within(..PAGE, PAGE);
    disk.overwrite(&path, moved);
    assert!(run.read(1, 1).is_err() && run.read(0, 1).is_ok());
    disk.overwrite(&path, bytes[..2 * PAGE].to_vec());
    assert!(run.read(2, 1).expect_err("it is gone").is_damage());
    let store = StoreDisk::new(Arc::new(disk));
    let cut_off = Run::open(&store, Path::new(DIR), SECRET, run.facts);
    assert!(cut_off.expect_err("cut off").is_damage());
}

/// The same number, length and places, and nothing of it would be found.
#[test]
fn a_run_of_an_index_with_another_key_is_damage() {
    let entries: BTreeSet<Entry> = (0..3 * PER_PAGE).map(|n| entry(scrambled(n), n)).collect();
    let (disk, run) = written(&entries);
    let store = StoreDisk::new(Arc::new(disk));
    let other = Run::open(&store, Path::new(DIR), [6; 16], run.facts).expect("it has its length");
    for page in 0..3 {
        assert!(other.read(page, 1).expect_err("it is another index's").is_damage());
    }
    let wanted = entries.first().expect("there are some").key;
    assert!(other.find(wanted, &mut Vec::new()).expect_err("not for absent").is_damage());
    assert!(other.check(&mut |_| Ok(())).expect_err("nor here").is_damage());
    let mut bytes = 0;
    run.check(&mut |part| {
        bytes += part;
        Ok(())
    })
    .expect("it is its own");
    assert_eq!(bytes, run.facts.bytes());
}

/// A search in a run of many pages reads few of them, however many there are.
#[test]
fn a_key_is_found_by_few_reads() {
    let entries: BTreeSet<Entry> = (0..300 * PER_PAGE).map(|n| entry(scrambled(n), n)).collect();
    let (disk, run) = written(&entries);
    let before = disk.count(godwit_fault_disk::Counted::Reads);
    let searches = 500;
    for entry in entries.iter().step_by(entries.len() / searches).take(searches) {
        run.find(entry.key, &mut Vec::new()).expect("it can be read");
    }
    let reads = disk.count(godwit_fault_disk::Counted::Reads) - before;
    assert!(reads <= 4 * searches as u64, "{reads} reads");
}
