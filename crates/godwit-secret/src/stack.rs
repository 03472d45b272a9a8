//! A separate stack for operations on secrets.
//!
//! Libraries leave copies of keys in local variables and spilled registers. On the stack of a thread
//! those stay until something overwrites them; here they lie in locked pages that are wiped when the
//! operation is over, and the registers that it leaves behind are cleared.
//!
//! On x86_64 the calling thread changes over to the other stack (`switch`): nothing is scheduled, so
//! the price is that of wiping, about a microsecond. Elsewhere a thread of its own gets the stack
//! (`thread`); it would work here as well, and is tested here, but a thread costs thirty, and more when
//! all processors are busy.
//!
//! `unsafe` is here to pass the operation through a bare pointer.

#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arena::Stats;
use crate::error::LockError;
use crate::pages::LockedPages;
use crate::releasable::Releasable;

#[cfg(target_arch = "x86_64")]
mod switch;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod thread;

#[cfg(target_arch = "x86_64")]
use switch::call_on;
#[cfg(not(target_arch = "x86_64"))]
use thread::call_on;

/// Bytes of one stack; what lies below it is inaccessible, so that overflow ends the process.
pub const SECRET_STACK_SIZE: usize = 128 * 1024;

/// The stacks of the process: as many as there ever were operations at once. None goes back to the
/// system.
struct Stacks {
    /// Wiped.
    idle: Vec<LockedPages>,
    /// How many operations run.
    running: usize,
    /// Bytes of all stacks that cannot be swapped out.
    locked: usize,
}

static STACKS: Mutex<Stacks> = Mutex::new(Stacks { idle: Vec::new(), running: 0, locked: 0 });

thread_local! {
    /// Whether this thread runs on a secret stack now.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Calls its argument on a stack.
type Entry = extern "C" fn(*mut c_void);
/// Calls an entry with a pointer on the given stack and returns when it has returned.
type CallOn = unsafe fn(&mut LockedPages, Entry, *mut c_void) -> Result<(), LockError>;

/// Runs `operation` on a stack in locked memory that is wiped afterwards, also when it panics; the panic
/// goes on in the caller. Inside of such an operation it is an ordinary call.
///
/// What `operation` captures by value and what it returns lie on the caller's stack: secret types or
/// something that is no secret, which the type of what it returns says. It may run in another thread, and
/// has [`SECRET_STACK_SIZE`] bytes. It must not `fork`: the child would go on on a stack of zeros, and die.
/// Threads that it starts have ordinary stacks.
pub fn run_on_secret_stack<R: Releasable + Send>(
    operation: impl FnOnce() -> R + Send,
) -> Result<R, LockError> {
    if INSIDE.get() {
        return Ok(operation());
    }
    let mut stack = take_stack()?;
    let outcome = run_on(&mut stack, call_on, operation);
    // SAFETY: what ran on the stack has returned.
    unsafe { stack.wipe() };
    let mut stacks = stacks();
    stacks.running -= 1;
    stacks.idle.push(stack);
    drop(stacks);
    outcome?.or_else(|panic| resume_unwind(panic))
}

fn take_stack() -> Result<LockedPages, LockError> {
    let mut all = stacks();
    if let Some(stack) = all.idle.pop() {
        all.running += 1;
        return Ok(stack);
    }
    drop(all);
    let stack = LockedPages::map(SECRET_STACK_SIZE)?;
    let mut all = stacks();
    all.running += 1;
    all.locked += if stack.locked() { stack.len() } else { 0 };
    Ok(stack)
}

/// What the stacks take; each is one chunk.
pub(crate) fn stats() -> Stats {
    let stacks = stacks();
    let (used, free) = (stacks.running, stacks.idle.len());
    Stats {
        used: used * SECRET_STACK_SIZE,
        free: free * SECRET_STACK_SIZE,
        total: (used + free) * SECRET_STACK_SIZE,
        locked: stacks.locked,
        chunks_used: used,
        chunks_free: free,
    }
}

fn stacks() -> MutexGuard<'static, Stacks> {
    // Nothing that is done under the lock panics half-way.
    STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation before and after it ran.
struct Call<F, R> {
    operation: Option<F>,
    outcome: Option<Result<R, Box<dyn Any + Send>>>,
}

/// Runs `operation` on `stack`, which it leaves as it is then.
fn run_on<F: FnOnce() -> R + Send, R: Send>(
    stack: &mut LockedPages,
    call_on: CallOn,
    operation: F,
) -> Result<Result<R, Box<dyn Any + Send>>, LockError> {
    let mut call = Call { operation: Some(operation), outcome: None };
    // SAFETY: `entry` is given the type of call that it expects; `call` outlives it, since it returns
    // first, and nobody else touches it meanwhile. Both its parts may go to another thread and back.
    // `entry` does not unwind.
    unsafe { call_on(stack, entry::<F, R>, ptr::from_mut(&mut call).cast())? };
    Ok(call.outcome.expect("the entry was called"))
}

/// What stands at the bottom of a secret stack.
extern "C" fn entry<F: FnOnce() -> R, R>(call: *mut c_void) {
    // SAFETY: `run_on` passes a call of this type that nobody else touches.
    let call = unsafe { &mut *call.cast::<Call<F, R>>() };
    INSIDE.set(true);
    if let Some(operation) = call.operation.take() {
        call.outcome = Some(catch_unwind(AssertUnwindSafe(operation)));
    }
    INSIDE.set(false);
}

#[cfg(test)]
mod tests;
