//! A thread whose stack is the other one. The thread's own data (thread-local variables) lies on that
//! stack too, and is wiped with it.
//!
//! `unsafe` is here because the standard library's threads choose their stacks themselves.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use super::Entry;
use crate::error::LockError;
use crate::pages::LockedPages;

/// What the new thread is given.
struct Start {
    entry: Entry,
    argument: *mut c_void,
}

/// Calls `entry(argument)` on `stack`, in another thread, and waits for it.
///
/// # Safety
///
/// `entry` accepts `argument` in any thread and does not unwind.
pub(super) unsafe fn call_on(
    stack: &mut LockedPages,
    entry: Entry,
    argument: *mut c_void,
) -> Result<(), LockError> {
    let refused = |errno| match errno {
        0 => Ok(()),
        errno => Err(LockError::Map { bytes: stack.len(), errno }),
    };
    let mut start = Start { entry, argument };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut id = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialised before they are used and destroyed once. The pages are
    // borrowed exclusively, and `start` lives, until the thread has been joined; after that the system
    // has no use for a stack that it did not allocate.
    unsafe {
        refused(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        let base = stack.start().as_ptr().cast();
        let outcome =
            refused(libc::pthread_attr_setstack(attributes.as_mut_ptr(), base, stack.len()))
                .and_then(|()| {
                    let start = ptr::from_mut(&mut start).cast();
                    refused(libc::pthread_create(
                        id.as_mut_ptr(),
                        attributes.as_ptr(),
                        thread,
                        start,
                    ))
                });
        let destroyed = libc::pthread_attr_destroy(attributes.as_mut_ptr());
        debug_assert_eq!(destroyed, 0, "attributes that were initialised can be destroyed");
        outcome?;
        let joined = libc::pthread_join(id.assume_init(), ptr::null_mut());
        assert_eq!(joined, 0, "a thread that was started can be joined");
    }
    Ok(())
}

extern "C" fn thread(start: *mut c_void) -> *mut c_void {
    // SAFETY: `call_on` passes a `Start` that lives until this thread has been joined.
    let start = unsafe { &*start.cast::<Start>() };
    (start.entry)(start.argument);
    ptr::null_mut()
}
