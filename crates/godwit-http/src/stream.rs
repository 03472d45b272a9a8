//! The transport of a connection: a socket, or a stand-in where there is no network.

use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Interval of the checks whether a client that has already sent its next request is gone.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A connection's two directions.
pub trait Stream: Send + Sync + 'static {
    /// Whether there may be something to read, such as the end of the stream.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether something may be written.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads the bytes that have arrived; `WouldBlock` if there are none yet.
    fn try_read(&self, target: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as the stream takes now; `WouldBlock` if that is nothing.
    fn try_write(&self, bytes: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Tells the client that nothing more will be sent.
    fn end(&self) -> io::Result<()>;

    /// Whether bytes from the client have arrived and not been read.
    fn has_unread(&self) -> bool;

    /// Completes when the client is gone, while its answer is being made. A client that has closed its
    /// sending side may only be waiting for the answer and cannot be told from one that is gone: it is given
    /// `limit`.
    fn hung_up(&self, limit: Duration) -> impl Future<Output = ()> + Send;
}

impl Stream for TcpStream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_ready(cx)
    }

    fn try_read(&self, target: &mut [u8]) -> io::Result<usize> {
        self.try_read(target)
    }

    fn try_write(&self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_write_vectored(bytes)
    }

    fn end(&self) -> io::Result<()> {
        SockRef::from(self).shutdown(Shutdown::Write)
    }

    fn has_unread(&self) -> bool {
        let first = &mut [MaybeUninit::uninit()];
        SockRef::from(self).peek(first).is_ok_and(|count| count > 0)
    }

    async fn hung_up(&self, limit: Duration) {
        match self.peek(&mut [0]).await {
            Ok(0) => sleep(limit).await,
            // The next request has arrived before the answer to this one, and the end of the stream may be
            // behind it.
            Ok(_) => {
                while self
                    .ready(Interest::READABLE)
                    .await
                    .is_ok_and(|ready| !ready.is_read_closed())
                {
                    sleep(LOOK_INTERVAL).await;
                }
                sleep(limit).await;
            }
            Err(_) => {}
        }
    }
}
