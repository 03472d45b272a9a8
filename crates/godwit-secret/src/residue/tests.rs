use std::fs;
use std::hint::black_box;

use super::*;
use crate::cleanse::cleanse;
use crate::slice::SecretSlice;

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
    let leaks = secret
        .expose_secret(|bytes| {
            Declassified({
                let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
                (bytes.to_vec(), hex)
            })
        })
        .0;
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
    let reversed: Vec<u8> =
        secret.expose_secret(|bytes| Declassified(bytes.iter().rev().copied().collect())).0;
    assert_eq!(found(&reversed), ["reversed"]);
    // The schedules of HMAC-SHA512 and of SHA-256 with the key at an odd place.
    for (width, form) in [(8, "words of 8"), (4, "words of 4")] {
        let mut schedule = [
            vec![0x36; 5],
            secret.expose_secret(|bytes| Declassified(bytes.to_vec())).0,
            vec![0; 27],
        ]
        .concat();
        schedule.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        assert_eq!(found(&schedule), [form]);
    }
    let debug = secret.expose_secret(|bytes| Declassified(format!("{bytes:?}"))).0;
    assert_eq!(found(debug.as_bytes()), ["decimal"]);
}

#[test]
fn a_form_that_the_caller_adds_is_found() {
    let (secret, words) = (secret(32), secret(100));
    let needle = Needle::raw("seed", &secret).and_then(|needle| needle.form("words", &words));
    let leak = words.expose_secret(|bytes| Declassified(bytes.to_vec())).0;
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
        secret.expose_secret_into(Unprotected(&mut content), |bytes, content| {
            content.0[place..place + 40].copy_from_slice(bytes);
        });
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
    let leak = secret.expose_secret(|bytes| Declassified(bytes.to_vec())).0;
    let start = leak.as_ptr().addr() as u64;
    let mapping = |from, to, name| Mapping {
        start: start + from,
        end: start + to,
        name,
        protected: false,
        locked: false,
        file: None,
        written: true,
    };
    let found = |mappings: &[Mapping<'_>]| {
        let search = Search::run(&Source::Own, mappings, &patterns, None);
        let (report, _) = search.expect("a scan");
        let whole = report.findings.iter().filter(|finding| finding.part.is_none());
        whole.map(|finding| finding.address - start).collect::<Vec<_>>()
    };
    assert_eq!(found(&[mapping(0, 7, "a"), mapping(7, 30, "b"), mapping(30, 40, "c")]), [0]);
    assert_eq!(found(&[mapping(0, 7, "a"), mapping(8, 40, "b")]), [0; 0]);
    assert_eq!(found(&[mapping(0, 39, "a")]), [0; 0]);
}

/// What a search says of the bytes that a leak left behind, by its own needle.
fn left_by(leak: impl FnOnce(&SecretBytes)) -> Vec<Finding> {
    let secret = secret(32);
    let needle = [Needle::new("key", &secret).expect("memory")];
    leak(&secret);
    let findings = scan(&needle).expect("a scan").findings;
    findings.into_iter().filter(|finding| !finding.protected).collect()
}

#[test]
fn a_leak_is_found_when_it_was_freed_cut_padded_or_moved() {
    // The allocator writes over the first sixteen bytes. A single block, which the search does not take.
    for _ in 0..8 {
        let freed = left_by(|secret| {
            drop(black_box(secret.expose_secret(|bytes| Declassified(bytes.to_vec())).0))
        });
        assert_eq!(freed.len(), 1, "{freed:?}");
        let part = freed[0].part.clone().expect("it is none whole");
        assert!(part.end == 32 && part.start > 0, "{freed:?}");
    }
    let cut = left_by(|secret| {
        let part = secret.expose_secret(|bytes| Declassified(cut_out(bytes, 7..23))).0;
        black_box(Box::leak(part.into_boxed_slice()));
    });
    assert_eq!(cut.len(), 1, "{cut:?}");
    assert_eq!((cut[0].form.as_str(), cut[0].part.clone()), ("raw", Some(7..23)));
    assert!(cut[0].to_string().starts_with("key (raw, bytes 7 to 23) in "), "{}", cut[0]);
    for pad in [0x36, 0x5c] {
        let padded = left_by(|secret| {
            let mut block = vec![pad; 128];
            secret.expose_secret_into(Unprotected(&mut block), |bytes, block| {
                block.0.iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= byte);
            });
            black_box(Box::leak(block.into_boxed_slice()));
        });
        assert_eq!(padded.len(), 1, "{padded:?}");
        assert_eq!(padded[0].form, "pad of HMAC");
    }
    let moved = left_by(|secret| {
        let mut text = String::new();
        secret.expose_secret_into(Unprotected(&mut text), |bytes, text| {
            bytes.iter().for_each(|byte| *text.0 += &format!("{byte:02x}"));
        });
        // Grown out of its place, and gone from the new one.
        let neighbour = black_box(vec![0u8; 64]);
        text.reserve(5000);
        let mut bytes = text.into_bytes();
        cleanse(&mut bytes);
        drop(neighbour);
    });
    assert!(moved.iter().any(|found| found.form == "hex"), "{moved:?}");
}

/// A part of `bytes` between two bytes that are others than those around it, which memory may have by chance:
/// once in 256 times the part was a byte longer.
fn cut_out(bytes: &[u8], range: Range<usize>) -> Vec<u8> {
    let other = |at: Option<usize>| at.and_then(|at| bytes.get(at)).map_or(0, |byte| !byte);
    let (before, behind) = (other(range.start.checked_sub(1)), other(Some(range.end)));
    [&[before][..], &bytes[range], &[behind]].concat()
}

#[test]
fn what_everybody_knows_of_a_form_is_no_find() {
    let known = secret(48);
    let needle = || Needle::raw("key", &secret(8)).expect("memory");
    let found = |needle: Needle, range: Range<usize>| {
        let mut leak = known.expose_secret(|bytes| Declassified(cut_out(bytes, range.clone()))).0;
        let report = scan(&[needle]).expect("a scan");
        // Or the next search finds it where it was freed.
        cleanse(black_box(&mut leak));
        report.findings.into_iter().filter(|finding| !finding.protected).count()
    };
    let behind = || needle().form_behind("text", &known, 20).expect("memory");
    assert_eq!(found(behind(), 0..35), 0);
    assert_eq!(found(behind(), 0..36), 1);
    assert_eq!(found(behind(), 0..48), 1);
    let without_parts = || Needle::new("text", &known).expect("memory").without_parts();
    assert_eq!(found(without_parts(), 0..40), 0);
    let whole = || Needle::whole("text", &known).expect("memory");
    assert_eq!(found(whole(), 0..40), 0);
    assert_eq!(found(whole(), 0..48), 1);
}

#[test]
fn zeros_and_separators_are_no_find() {
    let numbers: Vec<u8> = (1u8..25).flat_map(|n| [n, 0, 0, 0, 0, 0, 0, 0]).collect();
    let needle = [Needle::raw("words", SecretSlice::new(&numbers)).expect("memory")];
    let patterns = Patterns::new(&needle).expect("memory");
    let parts = |text: &[u8]| {
        let mut parts = Vec::new();
        patterns.search(text, |_, _, run| parts.push(run));
        parts
    };
    assert!(parts(&numbers[8 * 4..8 * 15]).is_empty(), "eleven numbers");
    assert_eq!(parts(&numbers[8 * 4..8 * 16]).first(), Some(&(8 * 4..8 * 16)), "twelve");
}

#[test]
fn steps_are_told_until_the_observer_is_gone() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = std::sync::Arc::clone(&seen);
    crate::between_steps("before");
    let observed = observe_steps(move |step| {
        crate::between_steps("of the observer itself");
        kept.lock().expect("nobody panics").push(step);
    });
    crate::run_on_secret_stack(|| crate::between_steps("inside")).expect("memory");
    drop(observed);
    crate::between_steps("behind");
    assert_eq!(*seen.lock().expect("nobody panics"), ["inside"]);
    // A step of another thread waits for its turn, and is not passed over.
    let kept = std::sync::Arc::clone(&seen);
    let (busy, is_busy) = std::sync::mpsc::channel();
    let observed = observe_steps(move |step| {
        if step == "long" {
            busy.send(()).expect("it is waited for");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        kept.lock().expect("nobody panics").push(step);
    });
    std::thread::scope(|scope| {
        scope.spawn(|| crate::between_steps("long"));
        is_busy.recv().expect("it comes");
        crate::between_steps("meanwhile");
    });
    drop(observed);
    assert_eq!(*seen.lock().expect("nobody panics"), ["inside", "long", "meanwhile"]);
}
