use std::fs;
use std::hint::black_box;

use super::*;

fn secret(len: usize) -> SecretBytes {
    SecretBytes::random(len).expect("memory")
}

fn places(report: &Report) -> Vec<(&str, bool)> {
    let of = |finding: &Finding| (finding.address, finding.form.clone());
    let mut last = None;
    for finding in &report.findings {
        assert!(last < Some(of(finding)), "{report:?} is in order and says nothing twice");
        last = Some(of(finding));
    }
    report.findings.iter().map(|finding| (finding.form.as_str(), finding.protected)).collect()
}

#[test]
fn a_secret_that_was_not_leaked_is_in_the_arena_alone() {
    let secret = secret(32);
    let needle = Needle::new("key", &secret).expect("memory");
    let report = scan(&[needle]).expect("a scan");
    assert_eq!(places(&report), [("raw", true)]);
    assert!(report.searched > 1_000_000, "{report:?}");
}

#[test]
fn one_that_is_gone_is_nowhere() {
    let needle = Needle::new("key", &secret(32)).expect("memory");
    assert_eq!(scan(&[needle]).expect("a scan").findings, []);
}

#[test]
fn leaks_are_found_in_every_form() {
    let secret = secret(32);
    let needle = Needle::new("key", &secret).expect("memory");
    let leaks = secret.expose_secret(|bytes| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        (bytes.to_vec(), hex)
    });
    let report = scan(&[needle]).expect("a scan");
    black_box(&leaks);
    let mut places = places(&report);
    places.sort_unstable();
    places.dedup();
    assert_eq!(places, [("hex", false), ("raw", false), ("raw", true)]);
    let address = leaks.0.as_ptr().addr() as u64;
    let found = report.findings.iter().find(|finding| finding.address == address);
    assert!(found.is_some(), "{report:?}");
}

#[test]
fn what_libraries_make_of_a_key_is_found() {
    let secret = secret(32);
    let needle = [Needle::new("key", &secret).expect("memory")];
    let found = |leak: &[u8]| {
        let report = scan(&needle).expect("a scan");
        let range = leak.as_ptr_range();
        let range = range.start.addr() as u64..range.end.addr() as u64;
        let inside = report.findings.iter().filter(|finding| range.contains(&finding.address));
        inside.map(|finding| finding.form.clone()).collect::<Vec<_>>()
    };
    let reversed: Vec<u8> = secret.expose_secret(|bytes| bytes.iter().rev().copied().collect());
    assert_eq!(found(&reversed), ["reversed"]);
    // The schedules of HMAC-SHA512 and of SHA-256 with the key at an odd place.
    for (width, form) in [(8, "words of 8"), (4, "words of 4")] {
        let mut schedule =
            [vec![0x36; 5], secret.expose_secret(<[u8]>::to_vec), vec![0; 27]].concat();
        schedule.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        assert_eq!(found(&schedule), [form]);
    }
    let debug = secret.expose_secret(|bytes| format!("{bytes:?}"));
    assert_eq!(found(debug.as_bytes()), ["decimal"]);
}

#[test]
fn a_form_that_the_caller_adds_is_found() {
    let (secret, words) = (secret(32), secret(100));
    let needle = Needle::raw("seed", &secret).and_then(|needle| needle.form("words", &words));
    let leak = words.expose_secret(<[u8]>::to_vec);
    drop(words);
    let report = scan(&[needle.expect("memory")]).expect("a scan");
    black_box(&leak);
    assert!(places(&report).contains(&("words", false)), "{report:?}");
}

#[test]
fn what_lies_across_two_reads_is_found_once() {
    let secret = secret(40);
    let needle = [Needle::raw("key", &secret).expect("memory")];
    let folder = std::env::temp_dir();
    let path = folder.join(format!("godwit-residue-{}", std::process::id()));
    let mut places = Vec::new();
    for place in [0, 1, STEP - 40, STEP - 39, STEP - 1, STEP, 3 * STEP - 20] {
        let mut content = vec![0xeeu8; 3 * STEP + 20];
        secret.expose_secret(|bytes| content[place..place + 40].copy_from_slice(bytes));
        fs::write(&path, &content).expect("a temporary file");
        let report = scan_file(&path, &needle).expect("a scan");
        assert_eq!(report.searched, content.len() as u64);
        let found: Vec<u64> = report.findings.iter().map(|finding| finding.offset).collect();
        places.push((place as u64, found));
    }
    fs::remove_file(&path).expect("it was written");
    for (place, found) in places {
        assert_eq!(found, [place]);
    }
}

#[test]
fn neighbouring_mappings_are_one() {
    let secret = secret(40);
    let needle = [Needle::raw("key", &secret).expect("memory")];
    let patterns = Patterns::new(&needle).expect("memory");
    let leak = secret.expose_secret(<[u8]>::to_vec);
    let start = leak.as_ptr().addr() as u64;
    let mapping = |from, to, name: &str| Mapping {
        start: start + from,
        end: start + to,
        name: name.to_owned(),
        protected: false,
    };
    let found = |mappings: &[Mapping]| {
        let report = Search::run(&Source::Own, mappings, &patterns).expect("a scan");
        report.findings.iter().map(|finding| finding.address - start).collect::<Vec<_>>()
    };
    assert_eq!(found(&[mapping(0, 7, "a"), mapping(7, 30, "b"), mapping(30, 40, "c")]), [0]);
    assert_eq!(found(&[mapping(0, 7, "a"), mapping(8, 40, "b")]), [0; 0]);
    assert_eq!(found(&[mapping(0, 39, "a")]), [0; 0]);
}
