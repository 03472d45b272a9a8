//! Every subject runs, and does what its name says.

mod control;
mod decode;
mod flush;

use std::collections::HashSet;

use godwit_rivals::Subject;

fn assert_runs(subjects: Vec<Subject>) {
    let mut names = HashSet::new();
    for mut subject in subjects {
        assert!(subject.units_per_iteration >= 1.0, "{}", subject.name);
        assert!(["byte", "block", "coin", "op"].contains(&subject.unit), "{}", subject.name);
        (subject.body)();
        (subject.body)();
        assert!(names.insert(subject.name.clone()), "{} twice", subject.name);
    }
}

#[test]
fn the_limits_run() {
    assert_runs(godwit_rivals::limits::limit_subjects());
}
