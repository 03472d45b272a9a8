//! Notices that a client is gone while its answer is made.

use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Between two looks at one that has sent its next request already.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Ends when the client is gone. One that has said all may only be waiting for its answer, and cannot be told
/// from one that is gone: it gets so much time.
pub(super) async fn hung_up(stream: &TcpStream, limit: Duration) {
    match stream.peek(&mut [0]).await {
        Ok(0) => sleep(limit).await,
        // The next request is there before the answer to this one, and the end may be behind it.
        Ok(_) => {
            while stream.ready(Interest::READABLE).await.is_ok_and(|ready| !ready.is_read_closed())
            {
                sleep(LOOK_INTERVAL).await;
            }
            sleep(limit).await;
        }
        Err(_) => {}
    }
}
