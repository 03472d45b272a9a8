use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use godwit_bench::bench::{Bench, OURS};
use godwit_bench::harness::rounds::EPOCHS;
use godwit_bench::rotation::balanced_rounds;

/// The block that comes with a crate.
const FALLBACK: &str = "mainnet block 702,861";

const PROGRAM: &str = env!("CARGO_BIN_EXE_godwit-bench");

fn run(words: &[&str], dir: &Path) -> Output {
    Command::new(PROGRAM).args(words).current_dir(dir).output().unwrap()
}

#[test]
fn a_wrong_word_gives_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(&["-fliter=x"], dir.path());
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "godwit-bench: unknown argument -fliter=x; -help says what there is\n");
}

/// A run of one benchmark with the worker, its report, and the report merged with itself.
#[test]
fn a_run_its_report_and_a_merge() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(&["-filter=DataStreamAlloc", "-min-time=20", "-out=report"], dir.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("| ns/byte | byte/s | err% |"));
    assert!(!dir.path().join("godwit-bench-data").exists(), "it cleans up");
    let report = dir.path().join("report");
    let text = fs::read_to_string(report.join("bench.json")).unwrap();
    let bench: Bench = serde_json::from_str(&text).unwrap();
    let group = bench.group("DataStreamAlloc").unwrap();
    assert_eq!(group.line(OURS).unwrap().epochs.len(), balanced_rounds(group.lines.len(), EPOCHS));
    assert!(bench.figures.contains_key("datastreamalloc.cpp-std-allocator-o2.times"));
    assert!(fs::read_to_string(report.join("bench.md")).unwrap().contains("## Targets"));
    assert!(report.join("bench-datastreamalloc.svg").exists());
    let merge = ["merge", "report/bench.json", "report/bench.json", "-out=merged.md"];
    assert!(run(&merge, dir.path()).status.success());
    let merged = fs::read_to_string(dir.path().join("merged.md")).unwrap();
    assert!(merged.contains("| | machine 1 | machine 2 |"), "{merged}");
}

/// The shared data may be absent, or be there without the block.
#[test]
fn without_the_shared_block_another_one_is_used_and_named() {
    let dir = tempfile::tempdir().unwrap();
    for data in [dir.path().to_owned(), dir.path().join("nowhere")] {
        let mut command = Command::new(PROGRAM);
        command.args(["-filter=none", "-output=json", "-out=report"]);
        command.current_dir(dir.path()).env("GODWIT_DATA", data).env_remove("GODWIT_REQUIRE_DATA");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bench: Bench = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&*bench.fixture.name, bench.fixture.bytes), (FALLBACK, 1_381_836));
        let page = fs::read_to_string(dir.path().join("report/bench.md")).unwrap();
        assert!(page.contains(&format!("Block: {FALLBACK}, 1,381,836 bytes, ")), "{page}");
    }
}

#[test]
fn json_and_csv_have_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let printed = |format: &str| {
        let output = run(&["-filter=References", "-min-time=1", format], dir.path());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let bench: Bench = serde_json::from_str(&printed("-output=json")).unwrap();
    assert!(bench.seconds.is_some_and(|seconds| seconds > 0.0));
    let names: Vec<_> = bench.groups[0].lines.iter().map(|line| line.name.as_str()).collect();
    assert!(names.contains(&"memcpy 64 MiB, out of cache"), "{names:?}");
    let csv = printed("-output=csv");
    let (head, rows) = csv.split_once('\n').unwrap();
    assert!(head.starts_with("benchmark,line,kind,unit,"), "{head}");
    assert_eq!(rows.lines().count(), names.len());
    for (row, name) in rows.lines().zip(names) {
        let rest = row.strip_prefix(&format!("\"References\",\"{name}\",")).expect(row);
        assert_eq!(rest.split(',').count() + 2, head.split(',').count(), "{row}");
    }
}

#[test]
fn a_worker_of_another_policy_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for policy in ["plain", "barrier-only", "zero-after-free"] {
        let folder = dir.path().join("workers").join(policy);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_policy-worker"), folder.join("policy-worker")).unwrap();
    }
    let output = run(&["-workers=workers", "-filter=none"], dir.path());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("policy-worker: its streams use "), "{said}");
}
