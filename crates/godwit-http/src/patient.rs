//! A connection whose client may read slowly, but not for ever, because bytes that wait to be sent hold
//! memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::stream::Stream;

/// Bytes that a client has to read per second, at least, while there are more to send.
const LEAST_RATE: u64 = 16_000;

/// See the module's documentation.
pub struct Patient<S> {
    stream: Arc<S>,
    limit: Duration,
    /// The sending in progress: everything written since nothing was left to send.
    sending: Option<Sending>,
}

struct Sending {
    since: Instant,
    bytes: u64,
    /// Ends when the client has read too little.
    stalled: Pin<Box<Sleep>>,
}

impl Sending {
    /// The time by which the socket has to take the next byte.
    fn deadline(&self, limit: Duration) -> Instant {
        self.since + limit + Duration::from_secs(self.bytes / LEAST_RATE)
    }
}

impl<S: Stream> Patient<S> {
    /// Written bytes have to be read within `limit`, plus the time that they take at `LEAST_RATE`.
    pub fn new(stream: Arc<S>, limit: Duration) -> Self {
        Self { stream, limit, sending: None }
    }

    /// Sends as soon as the socket takes bytes.
    fn send(&mut self, cx: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let limit = self.limit;
        let sending = self.sending.get_or_insert_with(|| {
            let since = Instant::now();
            Sending { since, bytes: 0, stalled: Box::pin(sleep_until(since + limit)) }
        });
        loop {
            match self.stream.poll_write_ready(cx) {
                Poll::Ready(ready) => ready?,
                Poll::Pending => {
                    let deadline = sending.deadline(limit);
                    sending.stalled.as_mut().reset(deadline);
                    ready!(sending.stalled.as_mut().poll(cx));
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => {
                    sending.bytes += *sent.as_ref().unwrap_or(&0) as u64;
                    return Poll::Ready(sent);
                }
            }
        }
    }
}

impl<S: Stream> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buf.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|count| buf.advance(count))),
            }
        }
    }
}

impl<S: Stream> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.send(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.send(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The socket buffers nothing here, and the caller has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sending = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.end())
    }
}
