//! The send queue of one subscriber, bounded in messages and in bytes. What exceeds it is dropped, so that a
//! subscriber who does not read costs no more than that (ZeroMQ RFC 29, PUB).

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;

/// Messages that are handed to the system at once.
const AT_ONCE: usize = 64;

/// Bytes of what the protocol has to say to a subscriber: a greeting, and an answer to a ping.
const MAX_CONTROL_BYTES: usize = 2048;

/// Bytes of all messages that wait, each counted once however many wait for it.
#[derive(Debug, Default)]
pub(super) struct Kept(Cell<usize>);

impl Kept {
    pub(super) fn bytes(&self) -> usize {
        self.0.get()
    }
}

/// A message with all its frames. It counts until nobody waits for it.
#[derive(Debug)]
pub(super) struct Message {
    bytes: Vec<u8>,
    kept: Rc<Kept>,
}

impl Message {
    pub(super) fn new(bytes: Vec<u8>, kept: &Rc<Kept>) -> Self {
        kept.0.set(kept.0.get() + bytes.capacity());
        Self { bytes, kept: Rc::clone(kept) }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.kept.0.set(self.kept.0.get() - self.bytes.capacity());
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// What the protocol itself has to say, before the next message.
    control: Vec<u8>,
    /// Bytes of it that are sent.
    control_sent: usize,
    queue: VecDeque<Rc<Message>>,
    /// Bytes of the first message that are sent.
    sent: usize,
    bytes: usize,
    limits: Limits,
}

/// What may wait for one subscriber.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Messages; zero for no limit but that of bytes.
    pub(super) high_water_mark: usize,
    /// Bytes of them, unless it is a single one.
    pub(super) bytes: usize,
}

impl Outgoing {
    pub(super) fn new(limits: Limits) -> Self {
        let (control, queue) = (Vec::new(), VecDeque::new());
        Self { control, control_sent: 0, queue, sent: 0, bytes: 0, limits }
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Messages that wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.control.is_empty()
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        (self.sent, self.bytes) = (0, 0);
    }

    /// Whether a message of so many bytes would be dropped.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        let mark = self.limits.high_water_mark;
        let many = mark > 0 && self.queue.len() >= mark;
        let large = !self.queue.is_empty() && self.bytes + bytes > self.limits.bytes;
        many || large
    }

    /// Lets a message wait, or drops it; whether it waits.
    pub(super) fn push(&mut self, message: &Rc<Message>) -> bool {
        if self.is_full(message.len()) {
            return false;
        }
        self.bytes += message.len();
        self.queue.push_back(Rc::clone(message));
        true
    }

    /// To be said before the next message; but not to who asks again and again and reads no answers.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        if self.control.len() + bytes.len() <= MAX_CONTROL_BYTES {
            self.control.extend_from_slice(bytes);
        }
    }

    /// Hands over what there is, as long as it is taken; whether all was.
    ///
    /// # Errors
    ///
    /// The connection has failed.
    pub(super) fn flush(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        while !self.is_empty() {
            // A message that is begun goes before what is to be said.
            let says = !self.control.is_empty();
            let is_begun = self.sent > 0;
            let taken = match write(&self.next_slices()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            if says && !is_begun { self.said(taken) } else { self.took(taken) }
        }
        Ok(true)
    }

    fn next_slices(&self) -> Vec<IoSlice<'_>> {
        let count = match (self.control.is_empty(), self.sent) {
            (true, _) => AT_ONCE,
            (false, 0) => return vec![IoSlice::new(&self.control[self.control_sent..])],
            (false, _) => 1,
        };
        let starts = std::iter::once(self.sent).chain(std::iter::repeat(0));
        let waiting = self.queue.iter().zip(starts).take(count);
        waiting.map(|(message, start)| IoSlice::new(&message.bytes[start..])).collect()
    }

    fn said(&mut self, taken: usize) {
        self.control_sent += taken;
        if self.control_sent == self.control.len() {
            (self.control, self.control_sent) = (Vec::new(), 0);
        }
    }

    fn took(&mut self, taken: usize) {
        self.sent += taken;
        while let Some(first) = self.queue.front()
            && self.sent >= first.bytes.len()
        {
            self.sent -= first.bytes.len();
            self.bytes -= first.len();
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
