use std::fs;

use super::*;

fn input(datadir: &std::path::Path) -> Input {
    Input { block: godwit_rivals::fallback_block().to_vec(), datadir: datadir.join("store") }
}

#[test]
fn names_lead_back() {
    for workload in Workload::ALL {
        assert_eq!(Workload::named(workload.name()), Some(workload));
    }
    assert_eq!(Workload::named("DataStream"), None);
}

#[test]
fn every_short_workload_runs() {
    let dir = tempfile::tempdir().unwrap();
    let input = input(dir.path());
    for workload in Workload::ALL.into_iter().filter(|workload| !workload.is_long()) {
        let mut subject = workload.subject(&input);
        assert!(subject.units_per_iteration >= 1.0, "{workload:?}");
        (0..3).for_each(|_| (subject.body)());
    }
}

/// Both versions leave every coin behind, durable and found again.
#[test]
fn a_flush_leaves_the_coins() {
    let dir = tempfile::tempdir().unwrap();
    let input = input(dir.path());
    for subject in
        [flush::generating(&input.datadir, 5_000), flush::prepared(&input.datadir, 5_000)]
    {
        let mut subject = subject;
        (subject.body)();
        (subject.body)();
        assert_eq!(flush::coins_in(&input.datadir).unwrap(), 5_000);
    }
    assert!(fs::exists(&input.datadir).unwrap());
}
