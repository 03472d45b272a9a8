//! What the bytes of a connection come from: a socket, or what stands for one where there is none.

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

/// Between two looks at a client that has sent its next request already.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A connection's two directions.
pub trait Stream: Send + Sync + 'static {
    /// Whether there may be something to read, the end included.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether something may be written.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Reads what there is; `WouldBlock` if that is nothing yet.
    fn try_read(&self, target: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as is taken now; `WouldBlock` if that is nothing.
    fn try_write(&self, bytes: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Tells the client that nothing more comes.
    fn end(&self) -> io::Result<()>;

    /// Whether the client has sent what nobody has read.
    fn has_unread(&self) -> bool;

    /// Notices that a client is gone while its answer is made: ends when it is. One that has said all may
    /// only be waiting for its answer, and cannot be told from one that is gone: it gets so much time.
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
            // The next request is there before the answer to this one, and the end may be behind it.
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
