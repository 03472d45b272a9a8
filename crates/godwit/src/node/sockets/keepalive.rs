//! Has the system notice within a minute that a link is silent.
//!
//! The system probes an idle link. It does not probe while sent data is unacknowledged, so that has a time
//! limit of its own. Both have to be the system's: a peer that is busy flushing its coins for minutes answers
//! no ping, but its system still acknowledges.

use std::io;
use std::time::Duration;

use mio::net::TcpStream;
use socket2::{SockRef, TcpKeepalive};

/// Silence after which a link is probed.
const IDLE: Duration = Duration::from_secs(30);
/// Time between probes.
const INTERVAL: Duration = Duration::from_secs(10);
/// So many without an answer end the connection, a minute after the last sign of life.
const PROBES: u32 = 3;
/// Longest that something may stay unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(60);

/// The largest message that a peer takes at any time, in bytes, even one that reads nothing: less than
/// the least receive buffer. From the first larger one on, a connection waits for its reader.
pub(super) const TAKEN_AT_ONCE: usize = 16 << 10;

/// Switches the probes and the limit on.
pub(super) fn watch(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let probes = TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL).with_retries(PROBES);
    let set = socket.set_tcp_keepalive(&probes).and_then(|()| limit(&socket, true));
    if let Err(error) = set {
        log::debug!("a connection cannot be kept alive: {error}");
    }
}

/// Switches the limit off: a reader that is busy may leave a large message unread, and the system counts
/// that like one that is not acknowledged. Twenty minutes are allowed then.
pub(super) fn wait_for_reader(stream: &TcpStream) {
    if let Err(error) = limit(&SockRef::from(stream), false) {
        log::debug!("a connection's limit cannot be lifted: {error}");
    }
}

#[cfg(target_os = "linux")]
fn limit(socket: &SockRef<'_>, on: bool) -> io::Result<()> {
    socket.set_tcp_user_timeout(on.then_some(UNACKNOWLEDGED))
}

/// Other systems have their own, of some minutes.
#[cfg(not(target_os = "linux"))]
fn limit(_: &SockRef<'_>, _: bool) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_link_is_probed_and_waits_for_readers_of_large_messages() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let to = listener.local_addr().expect("it is bound");
        let stream = TcpStream::connect(to).expect("it listens");
        let _other = listener.accept().expect("it connects");
        let socket = SockRef::from(&stream);
        assert!(!socket.keepalive().expect("it is known"));
        watch(&stream);
        assert!(socket.keepalive().expect("it is known"));
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_keepalive_time().expect("it is known"), IDLE);
            assert_eq!(socket.tcp_keepalive_interval().expect("it is known"), INTERVAL);
            assert_eq!(socket.tcp_keepalive_retries().expect("it is known"), PROBES);
            let limit = || socket.tcp_user_timeout().expect("it is known");
            assert_eq!(limit(), Some(UNACKNOWLEDGED));
            wait_for_reader(&stream);
            assert_eq!(limit(), None);
        }
    }
}
