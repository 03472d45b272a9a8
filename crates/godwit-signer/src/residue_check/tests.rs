mod sequences;

use std::fmt::Write;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_keys::{ExtendedPrivateKey, Mnemonic, PrivateKey};
use godwit_secret::residue::Needle;
use godwit_secret::{Declassified, SecretBytes, Unprotected};

use super::leak::Leak;
use super::*;
use crate::keys::import::entry_of;

/// A search reads memory into locked memory, where another test's search would find its secret.
static ONE_SEARCH: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_SEARCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the command prints of one use, and how it ends.
fn checked(
    body: fn(&mut Case<'_, '_>) -> Result<(), CheckError>,
) -> Result<(Exit, String), CheckError> {
    let seed = SecretArray::<32>::random()?;
    let mut invention = Invention::new(&seed);
    let mut search = Search::default();
    Case::run("a use", Path::new(""), &mut invention, &mut search, body)?;
    let mut out = Vec::new();
    let exit = report::print(&mut out, &search)?;
    Ok((exit, String::from_utf8(out).expect("it is text")))
}

/// So that it stays, and is not found to be of no use by the compiler.
fn leak(text: String) {
    black_box(Box::leak(text.into_boxed_str()));
}

fn honest(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let _number = case.number("a number")?;
    case.unlocked()
}

fn leaking_text(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let passphrase = case.passphrase("a passphrase")?;
    leak(passphrase.expose_secret(|text| Declassified(text.to_owned())).0);
    case.unlocked()
}

fn leaking_when_done(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let number = case.number("a number")?;
    case.unlocked()?;
    // With room for it, so that it leaves nothing where it was before it grew.
    let mut text = String::with_capacity(256);
    let written = number
        .expose_secret_into(Unprotected(&mut text), |number, text| write!(text.0, "{number:?}"));
    written.expect("there is room");
    leak(text);
    Ok(())
}

fn not_locking(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let number = case.number("a number")?;
    case.unlocked()?;
    // Still in locked memory when it should be nowhere.
    std::mem::forget(number);
    Ok(())
}

fn looking_for_nothing(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    drop(case.number("a number")?);
    case.unlocked()
}

#[test]
fn a_copy_is_told_wherever_it_lies() {
    let _alone = alone();
    let (exit, said) = checked(honest).expect("memory is searched");
    assert_eq!(exit, Exit::Success, "{said}");
    assert!(said.ends_with("\nno copy outside locked memory\n"), "{said}");
    for (body, copies, line) in [
        (leaking_text as fn(&mut Case<'_, '_>) -> _, 2, "copy: a passphrase (raw) in "),
        (leaking_when_done, 1, "copy: a number (decimal) in "),
        (not_locking, 1, "copy: a number (raw) in the memory for secrets at "),
    ] {
        let (exit, said) = checked(body).expect("memory is searched");
        assert_eq!(exit, Exit::Bug, "{said}");
        assert_eq!(said.matches(line).count(), copies, "{said}");
        let verdict = format!("\n{copies} copies outside locked memory or after lock\n");
        assert!(said.ends_with(&verdict), "{said}");
    }
}

#[test]
fn a_search_for_what_is_not_there_proves_nothing() {
    let _alone = alone();
    let outcome = checked(looking_for_nothing);
    assert!(matches!(outcome, Err(CheckError::Unexpected("a use"))), "{outcome:?}");
}

#[test]
fn the_search_proves_itself() {
    let _alone = alone();
    assert_eq!(proof::leak_on_purpose().expect("the leaks are found").len(), 3 + Leak::ALL.len());
}

/// Looks inside alone.
#[derive(Default)]
struct Within(Inside);

impl Observer for Within {
    fn unlocked(&mut self, _: &'static str, _: &[Needle]) -> Result<(), CheckError> {
        Ok(())
    }

    fn locked(&mut self, _: &'static str, _: Vec<Needle>) -> Result<(), CheckError> {
        Ok(())
    }

    fn looks_inside(&self) -> bool {
        true
    }

    fn inside(&mut self, inside: Inside) {
        self.0 = inside;
    }
}

#[test]
fn a_leak_inside_of_any_operation_is_found() {
    let _alone = alone();
    let directory = TempDir::new().expect("a temporary directory");
    let seed = SecretArray::<32>::random().expect("memory");
    let mut invention = Invention::new(&seed);
    for (name, body) in USES {
        // Secrets of the use, of which something stays at its first step: in the middle of the operation and
        // on its stack. Its own search names each.
        let secrets = Leak::ALL.map(|leak| (leak, SecretArray::<32>::random().expect("memory")));
        let needles = secrets.each_ref().map(|(leak, secret)| Needle::new(leak.name(), secret));
        let mut secrets = Some(secrets);
        let leaking = move |_| {
            // All copies first, or one takes the block that another one has freed.
            let copies = secrets.take().map(|all| all.map(|(leak, it)| (leak, leak.copies(&it))));
            for (leak, copies) in copies.into_iter().flatten() {
                leak.leave(copies);
            }
        };
        let planting = |case: &mut Case<'_, '_>| {
            case.plant_all(needles.map(|needle| needle.expect("memory")));
            body(case)
        };
        let mut within = Within::default();
        Case::run_with(name, directory.path(), &mut invention, &mut within, leaking, planting)
            .expect(name);
        let found = &within.0.findings;
        for leak in Leak::ALL {
            assert!(
                found.iter().any(|one| one.needle == leak.name()),
                "{name}: {leak:?} {found:?}"
            );
        }
    }
}

#[test]
fn a_step_is_searched_again_when_there_is_more_to_find() {
    let _alone = alone();
    let mut inside = Inside::default();
    let needle = || {
        let secret = SecretArray::<32>::random().expect("memory");
        Needle::raw("a number", &secret).expect("memory")
    };
    let mut needles = vec![needle()];
    for searches in [1, 1, 1, 2, 2] {
        inside.at("a step", &needles);
        assert_eq!(inside.searches, searches);
    }
    needles.push(needle());
    inside.at("a step", &needles);
    inside.at("a step", &needles);
    assert_eq!(inside.searches, 3);
    inside.at("another step", &needles);
    assert_eq!(inside.searches, 4);
}

#[test]
fn memory_is_searched_inside_of_every_operation() {
    let _alone = alone();
    let seed = SecretArray::<32>::random().expect("memory");
    let mut search = Search::default();
    use_invented_keys(&seed, &mut search).expect("every use succeeds");
    let mut out = Vec::new();
    let exit = report::print(&mut out, &search).expect("it is memory");
    let said = String::from_utf8(out).expect("text");
    assert_eq!(exit, Exit::Success, "{said}");
    for (name, _) in USES {
        let row = said.lines().find(|line| line.starts_with(name)).expect("each has one");
        let searches = row[name.len()..].split_whitespace().nth(1).expect("a number");
        // Beside those of the use itself: of a passphrase alone there are two steps.
        assert!(searches.parse::<u32>().expect("a number") >= 3, "{said}");
    }
}
