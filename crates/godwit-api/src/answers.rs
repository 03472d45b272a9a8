//! Memory of answers that are being made or sent.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use godwit_rpc::{RpcError, code};

/// Bytes of answers at once at most, of all requests together, however much memory there is. One that alone
/// is larger than what there is goes when no other does.
pub const ANSWER_BYTES: usize = 64 << 20;

/// How long a method waits for memory before its caller is told to come again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The memory of all answers.
#[derive(Clone)]
pub(crate) struct Answers(Arc<Budget>);

struct Budget {
    limit: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

/// The part of one request. It goes with the answer until that is sent.
pub(crate) struct Room {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Answers {
    /// Of at most so many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Budget { limit, used: Mutex::new(0), freed: Condvar::new() }))
    }

    /// An empty part.
    pub(crate) fn room(&self) -> Room {
        Room { budget: Arc::clone(&self.0), bytes: 0 }
    }
}

impl Room {
    /// Takes so much more.
    ///
    /// # Errors
    ///
    /// Others need it, for long.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), RpcError> {
        let used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, limit) = (self.bytes, self.budget.limit);
        let is_full = |used: &mut usize| *used > own && *used + bytes > limit;
        let waited = self.budget.freed.wait_timeout_while(used, LONGEST_WAIT, is_full);
        let (mut used, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if result.timed_out() {
            return Err(RpcError::new(
                code::LIMIT_EXCEEDED,
                "Too many large answers are under way",
            ));
        }
        *used += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives back what is more than so much.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let back = self.bytes.saturating_sub(bytes);
        if back > 0 {
            *self.budget.used.lock().unwrap_or_else(PoisonError::into_inner) -= back;
            self.bytes -= back;
            self.budget.freed.notify_all();
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_keep_within_the_budget() {
        let answers = Answers::new(ANSWER_BYTES);
        let (mut one, mut two) = (answers.room(), answers.room());
        one.grow(ANSWER_BYTES / 2).expect("there is room");
        two.grow(ANSWER_BYTES / 2).expect("there is room");
        let mut third = answers.room();
        let waits = std::thread::spawn(move || third.grow(1).map(|()| third));
        one.shrink_to(ANSWER_BYTES / 2 - 1);
        let third = waits.join().expect("it ends").expect("there is room");
        drop((one, two));
        assert_eq!(*answers.0.used.lock().unwrap(), third.bytes);
        drop(third);
        assert_eq!(*answers.0.used.lock().unwrap(), 0);
    }

    #[test]
    fn an_answer_that_is_larger_than_all_goes_alone() {
        let answers = Answers::new(ANSWER_BYTES);
        let mut room = answers.room();
        room.grow(2 * ANSWER_BYTES).expect("nobody else is there");
        room.grow(1).expect("still nobody else");
    }
}
