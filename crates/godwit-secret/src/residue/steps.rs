//! Searches inside of operations, between their steps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who is told of steps.
type Observer = Arc<Mutex<dyn FnMut(&'static str) + Send>>;

/// Operations run on stacks and threads of their own, so this is of the process.
static OBSERVER: Mutex<Option<Observer>> = Mutex::new(None);

fn observer() -> MutexGuard<'static, Option<Observer>> {
    OBSERVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells of a step, unless the observer itself takes it.
pub(crate) fn tell(step: &'static str) {
    let observer = observer().clone();
    if let Some(mut observe) = observer.as_ref().and_then(|observer| observer.try_lock().ok()) {
        observe(step);
    }
}

/// Steps are observed while it lives.
#[derive(Debug)]
pub struct Observed(());

/// Has `observe` called between the steps of operations until what is returned is dropped. There is one
/// observer at a time: the last one.
pub fn observe_steps(observe: impl FnMut(&'static str) + Send + 'static) -> Observed {
    *observer() = Some(Arc::new(Mutex::new(observe)));
    Observed(())
}

impl Drop for Observed {
    fn drop(&mut self) {
        *observer() = None;
    }
}
