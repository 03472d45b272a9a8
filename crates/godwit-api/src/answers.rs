//! Accounts for the memory of requests that were read, and of answers being made or sent.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_engine::release_free_memory;
use godwit_rpc::{RpcError, code};
use hyper::body::Bytes;

/// Bytes of all requests' answers together, at most, however much memory there is. A single answer that is
/// larger proceeds only while there is no other.
pub const ANSWER_BYTES: usize = 64 << 20;

/// Bytes of one call's answer, at most: JSON about the largest block takes 192 MB (`methods/cost.rs`). Only a
/// block that spends scripts of more than two megabytes takes more.
pub(crate) const CALL_BYTES: usize = 192 << 20;

/// Bytes that are given back before the allocator is told to return free memory to the system.
const FREED_BYTES: usize = 16 << 20;

/// Bytes that every request has without asking, so that small calls never wait.
const OWN_BYTES: usize = 64 << 10;

/// How long a request waits for memory, all in all, before its caller is told to come again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The memory of all answers.
#[derive(Clone)]
pub(crate) struct Answers(Arc<Budget>);

struct Budget {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    used: usize,
    /// Bytes given back since the allocator last returned free memory to the system.
    freed: usize,
    /// Those that wait and hold nothing, by their numbers: the first is served first.
    waiting: BTreeSet<u64>,
    next: u64,
    ended: bool,
}

impl Budget {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back so much, which is free by now.
    fn take_back(&self, bytes: usize) {
        let mut state = self.lock();
        state.freed = state.freed.saturating_add(bytes);
        state.used -= bytes;
        drop(state);
        self.changed.notify_all();
    }

    /// Returns freed memory to the system, if there is much of it: it stays with the thread that freed it,
    /// and the next thread would take as much anew. Only for threads that may wait, unlike the one that sends
    /// answers. The budget is not locked meanwhile.
    fn release_freed(&self) {
        let freed = {
            let mut state = self.lock();
            match state.freed >= FREED_BYTES {
                true => std::mem::take(&mut state.freed),
                false => 0,
            }
        };
        if freed > 0 {
            release_free_memory();
        }
    }
}

/// The part of one request. It goes with the answer until that is sent.
pub(crate) struct Room {
    budget: Arc<Budget>,
    bytes: usize,
    /// Of these, what is not for what is being made now.
    held: usize,
    /// What of it is the request's, once there is part of an answer: that is to stay within the limit.
    of_request: Option<usize>,
    patience: Duration,
}

/// What counts of so many bytes.
fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(OWN_BYTES)
}

impl Answers {
    /// A budget of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Budget { limit, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// An empty part.
    pub(crate) fn room(&self) -> Room {
        Room {
            budget: Arc::clone(&self.0),
            bytes: 0,
            held: 0,
            of_request: None,
            patience: LONGEST_WAIT,
        }
    }

    /// Bytes in use, excluding those that every request has without asking.
    pub(crate) fn used(&self) -> usize {
        self.0.lock().used
    }

    /// Ends all waiting.
    pub(crate) fn end(&self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Room {
    /// Takes so much more. A call that needs much takes it at once, and holds nothing while it waits: two
    /// that wait for each other's part would wait in vain.
    ///
    /// # Errors
    ///
    /// Others need it, for long; or it is more than one call may take.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), RpcError> {
        let started = Instant::now();
        let grown = self.grow_within(bytes, self.patience);
        self.patience = self.patience.saturating_sub(started.elapsed());
        grown
    }

    /// Takes so much more if that is there now; whether it was.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        self.grow_within(bytes, Duration::ZERO).is_ok()
    }

    fn grow_within(&mut self, bytes: usize, longest: Duration) -> Result<(), RpcError> {
        if self.bytes.saturating_add(bytes).saturating_sub(self.held) > CALL_BYTES {
            return Err(RpcError::new(code::LIMIT_EXCEEDED, "The answer is too large"));
        }
        let (own, wanted) = (counted(self.bytes), counted(self.bytes.saturating_add(bytes)));
        if wanted > own {
            self.wait(own, wanted, longest)?;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    fn wait(&self, own: usize, wanted: usize, longest: Duration) -> Result<(), RpcError> {
        let limit = self.budget.limit;
        if self.of_request.is_some_and(|request| wanted > limit.saturating_add(request)) {
            return Err(RpcError::new(
                code::LIMIT_EXCEEDED,
                "The answers of one batch are too large",
            ));
        }
        let mut state = self.budget.lock();
        // A call that holds a part goes before those that may wait for that part.
        let turn = (own == 0).then(|| {
            state.next += 1;
            let turn = state.next;
            state.waiting.insert(turn);
            turn
        });
        let is_full = |state: &mut State| {
            let others_first = turn.is_some() && state.waiting.first().copied() != turn;
            !state.ended
                && (others_first || (state.used > own && state.used - own + wanted > limit))
        };
        let waited = self.budget.changed.wait_timeout_while(state, longest, is_full);
        let (mut state, result) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turn {
            state.waiting.remove(&turn);
            self.budget.changed.notify_all();
        }
        if state.ended {
            return Err(RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down"));
        }
        if result.timed_out() {
            let text = "Too many large answers are under way";
            return Err(RpcError::new(code::LIMIT_EXCEEDED, text));
        }
        state.used += wanted - own;
        drop(state);
        self.budget.release_freed();
        Ok(())
    }

    /// Reserves this many bytes in addition to those that are held.
    ///
    /// # Errors
    ///
    /// As [`grow`](Self::grow).
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<(), RpcError> {
        self.grow((self.held + bytes).saturating_sub(self.bytes))
    }

    /// Bytes of all answers together.
    pub(crate) fn limit(&self) -> usize {
        self.budget.limit
    }

    /// Bytes that are reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds what is reserved now, in addition to later reservations.
    pub(crate) fn hold(&mut self) {
        self.held = self.bytes;
    }

    /// Keeps so much, whether it had that or not: it is in use, for a request and part of its answer. From
    /// now on the limit holds, even if nobody else needs anything.
    pub(crate) fn hold_answer(&mut self, of_request: usize, of_answer: usize) {
        let bytes = of_request + of_answer;
        let (had, has) = (counted(self.bytes), counted(bytes));
        (self.bytes, self.held, self.of_request) = (bytes, bytes, Some(of_request));
        if has > had {
            self.budget.lock().used += has - had;
        } else {
            self.budget.take_back(had - has);
            self.budget.release_freed();
        }
    }

    /// These bytes, which count as this part until they are sent.
    pub(crate) fn until_sent(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Sent { bytes, _room: self })
    }

    /// Gives back the bytes above this many.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if bytes >= self.bytes {
            return;
        }
        let back = counted(self.bytes) - counted(bytes);
        self.bytes = bytes;
        if back > 0 {
            self.budget.take_back(back);
            self.budget.release_freed();
        }
    }
}

/// Bytes and the part of the memory that they count in.
struct Sent {
    bytes: Vec<u8>,
    _room: Room,
}

impl AsRef<[u8]> for Sent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// On the thread that sends answers, as a rule.
impl Drop for Room {
    fn drop(&mut self) {
        let back = counted(self.bytes);
        if back > 0 {
            self.budget.take_back(back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_keep_within_the_budget() {
        let answers = Answers::new(ANSWER_BYTES);
        let (mut one, mut two) = (answers.room(), answers.room());
        one.grow(OWN_BYTES + ANSWER_BYTES / 2).expect("there is room");
        two.grow(OWN_BYTES + ANSWER_BYTES / 2).expect("there is room");
        let mut third = answers.room();
        assert!(!third.try_grow(OWN_BYTES + 1) && third.bytes == 0);
        let waits = std::thread::spawn(move || third.grow(OWN_BYTES + 1).map(|()| third));
        one.shrink_to(OWN_BYTES + ANSWER_BYTES / 2 - 1);
        let third = waits.join().expect("it ends").expect("there is room");
        drop((one, two));
        assert_eq!(answers.used(), 1);
        drop(third);
        assert_eq!(answers.used(), 0);
    }

    #[test]
    fn small_calls_wait_for_nobody() {
        let answers = Answers::new(100);
        let (mut large, mut small) = (answers.room(), answers.room());
        large.grow(OWN_BYTES + 100).expect("there is room");
        assert!(small.try_grow(OWN_BYTES) && !small.try_grow(1));
        assert_eq!(answers.used(), 100);
    }

    #[test]
    fn an_answer_that_is_larger_than_all_goes_alone() {
        let answers = Answers::new(ANSWER_BYTES);
        let mut room = answers.room();
        room.grow(2 * ANSWER_BYTES).expect("nobody else is there");
        room.grow(1).expect("still nobody else");
    }

    #[test]
    fn who_has_part_of_an_answer_stays_within_the_limit() {
        let answers = Answers::new(1000);
        let mut room = answers.room();
        room.grow(OWN_BYTES + 5000).expect("the first may be larger");
        room.hold_answer(300, OWN_BYTES + 400);
        assert!(room.try_grow(600) && !room.try_grow(1));
        room.hold_answer(300, OWN_BYTES + 1000);
        let error = room.grow(1).expect_err("it is over the limit");
        assert_eq!(error.code, code::LIMIT_EXCEEDED);
        drop(room);
        assert_eq!(answers.used(), 0);
    }

    #[test]
    fn one_call_takes_so_much_beside_its_request_and_no_more() {
        let answers = Answers::new(ANSWER_BYTES);
        let mut room = answers.room();
        room.grow(1000).expect("nobody else is there");
        room.hold();
        room.grow(CALL_BYTES).expect("as much as there may be");
        let error = room.grow(1).expect_err("it is too much");
        assert_eq!((error.code, room.bytes()), (code::LIMIT_EXCEEDED, CALL_BYTES + 1000));
        drop(room);
        assert!(!answers.room().try_grow(usize::MAX));
        assert_eq!(answers.used(), 0);
    }

    #[test]
    fn they_are_served_in_the_order_in_which_they_came() {
        let answers = Answers::new(100);
        let mut first = answers.room();
        first.grow(OWN_BYTES + 60).expect("there is room");
        let mut large = answers.room();
        let waits = std::thread::spawn(move || large.grow(OWN_BYTES + 100).map(|()| large));
        while answers.0.lock().waiting.is_empty() {
            std::thread::yield_now();
        }
        let mut later = answers.room();
        assert!(!later.try_grow(OWN_BYTES + 1), "it would fit, but another one waits");
        drop(first);
        drop(waits.join().expect("it ends").expect("there is room"));
        assert!(later.try_grow(OWN_BYTES + 1));
    }

    #[test]
    fn the_end_wakes_who_waits() {
        let answers = Answers::new(100);
        let mut holder = answers.room();
        holder.grow(OWN_BYTES + 100).expect("there is room");
        let mut other = answers.room();
        let waits = std::thread::spawn(move || other.grow(OWN_BYTES + 100));
        answers.end();
        let error = waits.join().expect("it ends").expect_err("it gets nothing");
        assert_eq!(error.code, code::CLIENT_NOT_CONNECTED);
    }
}
