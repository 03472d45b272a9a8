use godwit_rivals::control::{Allocator, Workload, control_subjects, inspect};

use crate::assert_runs;

#[test]
fn all_twenty_four_run() {
    assert_eq!(control_subjects().len(), 24);
    assert_runs(control_subjects());
}

#[test]
fn only_the_wiping_allocator_wipes() {
    for workload in Workload::ALL {
        for allocator in Allocator::ALL {
            let returned = inspect(workload, allocator, 10);
            match allocator {
                Allocator::ZeroAfterFree => assert_eq!(returned.not_zero, 0, "{workload:?}"),
                // Random bytes: some 1 in 256 is zero.
                _ => assert!(returned.not_zero > returned.bytes * 9 / 10, "{allocator:?}"),
            }
        }
    }
}

/// The sizes of all blocks are the ones the workloads are meant to allocate.
#[test]
fn streams_grow_as_cores_do() {
    for allocator in Allocator::ALL {
        assert_eq!(inspect(Workload::Alloc, allocator, 10).bytes, 10 * 8192);
        let script = inspect(Workload::SerializeScript, allocator, 10).bytes;
        assert_eq!(script, 10 * (1 + 3 + 1005), "{allocator:?}");
    }
}
