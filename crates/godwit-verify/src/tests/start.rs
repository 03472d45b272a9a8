//! What is chosen at the start, and what is said where that is not the fastest.

use std::sync::Mutex;

use crate::backend::Backend;
use crate::known_answers::{hold, hold_for};
use crate::verifier::fastest_of;
use crate::{BackendKind, Verifier, single};

/// Keeps what is logged.
struct Lines(Mutex<Vec<String>>);

static LINES: Lines = Lines(Mutex::new(Vec::new()));

impl log::Log for Lines {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{}: {}", record.level(), record.args());
        self.0.lock().expect("no test panicked in here").push(line);
    }

    fn flush(&self) {}
}

#[test]
fn the_fastest_backend_of_this_machine_is_chosen() {
    let fastest = BackendKind::BY_SPEED.into_iter().find(|kind| Backend::detect(*kind).is_some());
    assert_eq!(Some(Verifier::<()>::new().backend()), fastest);
}

#[cfg(target_arch = "aarch64")]
#[test]
fn neon_runs_only_where_it_was_asked_for() {
    assert_eq!(Verifier::<()>::new().backend(), BackendKind::Single);
    let asked_for =
        Verifier::<()>::with_backend(BackendKind::Neon).expect("it is in every AArch64");
    assert_eq!(asked_for.backend(), BackendKind::Neon);
}

#[test]
fn a_backend_that_fails_its_known_answers_gives_way_to_libsecp256k1_and_is_named_in_the_log() {
    log::set_logger(&LINES).expect("the only logger of these tests");
    log::set_max_level(log::LevelFilter::Info);
    // Both models run everywhere; the second is not asked, because the first was found to be wrong.
    let models = [BackendKind::ModelFused, BackendKind::ModelIfma];
    let right = fastest_of(&models, |_| true);
    assert_eq!(right.kind(), BackendKind::ModelFused);
    assert_eq!(LINES.0.lock().expect("whole").len(), 0);
    let wrong = fastest_of(&models, |backend| backend.kind() != BackendKind::ModelFused);
    assert_eq!(wrong.kind(), BackendKind::Single);
    let lines = LINES.0.lock().expect("whole").clone();
    assert_eq!(lines, ["ERROR: ModelFused fails its known answers: signatures go to libsecp256k1"]);
}

#[test]
fn known_answers_hold_on_every_backend_and_for_libsecp256k1() {
    for backend in super::all() {
        assert!(hold(backend), "{:?}", backend.kind());
    }
    assert!(hold_for(|checks| checks.iter().map(single::verify).collect()));
}

#[test]
fn known_answers_notice_one_wrong_answer_in_any_lane() {
    assert!(!hold_for(|checks| vec![true; checks.len()]));
    assert!(!hold_for(|checks| vec![false; checks.len()]));
    for lane in 0..8 {
        for wrong in [true, false] {
            // The lane is stuck: it gives the same answer whatever is in it.
            let stuck = hold_for(|checks| {
                let mut answers: Vec<bool> = checks.iter().map(single::verify).collect();
                answers[lane] = wrong;
                answers
            });
            assert!(!stuck, "lane {lane} is always {wrong}");
        }
    }
}
