//! Tests that need a process of their own, and look at all of it: one after another.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod v2_cost;
mod v2_residue;
mod v2_stack;

static PROCESS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}
