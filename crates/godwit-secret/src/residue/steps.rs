//! Searches inside of operations, between their steps.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The function that is told of steps.
type Observer = Arc<Mutex<dyn FnMut(&'static str) + Send>>;

/// One observer for the whole process, because operations run on stacks and threads of their own.
static OBSERVER: Mutex<Option<Observer>> = Mutex::new(None);

thread_local! {
    /// Whether the observer is running on this thread.
    static OBSERVES: Cell<bool> = const { Cell::new(false) };
}

fn observer() -> MutexGuard<'static, Option<Observer>> {
    OBSERVER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the observer of a step, unless the observer itself takes it. A step of another thread waits until
/// the observer has seen the one before.
pub(crate) fn tell(step: &'static str) {
    if OBSERVES.get() {
        return;
    }
    let Some(observer) = observer().clone() else { return };
    let mut observe = observer.lock().unwrap_or_else(PoisonError::into_inner);
    OBSERVES.set(true);
    let _own = Own;
    observe(step);
}

/// Marks the observer's turn until it is dropped, even if the observer panics.
struct Own;

impl Drop for Own {
    fn drop(&mut self) {
        OBSERVES.set(false);
    }
}

/// Steps are observed until this is dropped.
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
