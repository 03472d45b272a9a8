//! A connection in memory: what the client sends is there when the target says so, and what it does not read
//! stays with the server.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use godwit_http::Stream;
use tokio::time::sleep;

/// How a client ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It has said all, and reads on.
    HalfClosed,
    /// It is gone.
    Gone,
}

pub(super) struct Wire(Mutex<State>);

struct State {
    incoming: VecDeque<u8>,
    end: Option<End>,
    outgoing: Vec<u8>,
    /// Bytes that the client still reads.
    room: usize,
    is_closed: bool,
    waiting: Vec<Waker>,
}

impl State {
    /// `ready`, or a wake-up when anything has changed.
    fn poll(&mut self, cx: &Context<'_>, ready: bool) -> Poll<()> {
        if ready || self.end == Some(End::Gone) {
            return Poll::Ready(());
        }
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Wire {
    /// A client that reads so many bytes.
    pub(super) fn new(room: usize) -> Self {
        Self(Mutex::new(State {
            incoming: VecDeque::new(),
            end: None,
            outgoing: Vec::new(),
            room,
            is_closed: false,
            waiting: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(super) fn send(&self, bytes: &[u8]) {
        self.change(|state| state.incoming.extend(bytes));
    }

    pub(super) fn finish(&self, end: End) {
        self.change(|state| state.end = Some(end));
    }

    /// What the client has read.
    pub(super) fn answers(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().outgoing)
    }
}

impl Stream for Wire {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        let ready = !state.incoming.is_empty() || state.end.is_some();
        state.poll(cx, ready).map(Ok)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        let ready = state.room > 0;
        state.poll(cx, ready).map(Ok)
    }

    fn try_read(&self, target: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        match state.end {
            Some(End::Gone) => return Err(ErrorKind::ConnectionReset.into()),
            None if state.incoming.is_empty() => return Err(ErrorKind::WouldBlock.into()),
            Some(End::HalfClosed) | None => {}
        }
        let count = target.len().min(state.incoming.len());
        for (to, from) in target.iter_mut().zip(state.incoming.drain(..count)) {
            *to = from;
        }
        Ok(count)
    }

    fn try_write(&self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.lock();
        assert!(!state.is_closed, "nothing is written behind the end");
        if state.end == Some(End::Gone) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if state.room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut count = 0;
        for slice in bytes {
            let taken = &slice[..slice.len().min(state.room)];
            state.outgoing.extend_from_slice(taken);
            state.room -= taken.len();
            count += taken.len();
        }
        Ok(count)
    }

    fn end(&self) -> io::Result<()> {
        self.lock().is_closed = true;
        Ok(())
    }

    fn has_unread(&self) -> bool {
        !self.lock().incoming.is_empty()
    }

    async fn hung_up(&self, limit: Duration) {
        let ended = poll_fn(|cx| {
            let mut state = self.lock();
            let has_ended = state.end.is_some();
            state.poll(cx, has_ended)
        });
        ended.await;
        if self.lock().end == Some(End::HalfClosed) {
            sleep(limit).await;
        }
    }
}
