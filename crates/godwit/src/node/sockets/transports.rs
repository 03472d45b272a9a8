//! Chooses the protocol with which a connection begins.

use std::io;
use std::time::{Duration, Instant};

use godwit_p2p::{MAX_GARBAGE, Transport, V2Error, V2Secrets};
use godwit_secret::{LockError, SecretArray, run_on_secret_stack};
use godwit_stream::BufferPool;
use rustix::rand::{GetRandomFlags, getrandom};

/// Shortest time between two log lines about connections that are not encrypted.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Checks that memory can be locked for the keys of connections and for the stack of the thread
/// that uses them.
pub(crate) fn check_locked_memory() -> Result<(), LockError> {
    run_on_secret_stack(|| SecretArray::<32>::zeroed().map(drop))?
}

/// Makes the transports of new connections.
pub(super) struct Transports {
    magic: [u8; 4],
    pool: BufferPool,
    encrypted: bool,
    next_warning: Option<Instant>,
}

impl Transports {
    /// `encrypted`: `-v2transport` is on and memory can be locked.
    pub(super) fn new(magic: [u8; 4], pool: BufferPool, encrypted: bool) -> Self {
        Self { magic, pool, encrypted, next_warning: None }
    }

    /// From now on no connection is encrypted.
    pub(super) fn encrypt_nothing(&mut self) {
        self.encrypted = false;
    }

    /// The transport of a connection that we open. Not encrypted if the peer does not want `v2` or
    /// encryption is not possible.
    pub(super) fn outgoing(&mut self, v2: bool) -> Transport {
        self.make(v2, Transport::new_v2_initiator)
    }

    /// The transport of an inbound connection.
    pub(super) fn incoming(&mut self) -> Transport {
        self.make(true, Transport::new_v2_responder)
    }

    fn make(
        &mut self,
        v2: bool,
        new: impl Fn([u8; 4], BufferPool, V2Secrets) -> Result<Transport, V2Error>,
    ) -> Transport {
        if v2 && self.encrypted {
            let transport = secrets()
                .and_then(|secrets| new(self.magic, self.pool.clone(), secrets).map_err(Lack::V2));
            match transport {
                Ok(transport) => return transport,
                Err(lack) => self.warn(&lack),
            }
        }
        Transport::new_v1(self.magic, self.pool.clone())
    }

    fn warn(&mut self, lack: &Lack) {
        let now = Instant::now();
        if self.next_warning.is_none_or(|next| next <= now) {
            self.next_warning = Some(now + WARNING_INTERVAL);
            match lack {
                Lack::Random(error) => log::warn!("A connection is not encrypted: {error}"),
                Lack::V2(error) => log::warn!("A connection is not encrypted: {error}"),
            }
        }
    }
}

/// Why a connection cannot be encrypted.
enum Lack {
    Random(io::Error),
    V2(V2Error),
}

/// Draws the secrets of a connection from the system's random bytes.
fn secrets() -> Result<V2Secrets, Lack> {
    let mut key = SecretArray::zeroed().map_err(|error| Lack::V2(error.into()))?;
    let filled = key.expose_secret_mut(|key| fill(key).map_err(|error| error.kind()));
    filled.map_err(|kind| Lack::Random(kind.into()))?;
    let (mut encoding, mut length) = ([0; 32], [0; 2]);
    fill(&mut encoding).map_err(Lack::Random)?;
    fill(&mut length).map_err(Lack::Random)?;
    // 65,536 is a multiple of 4,096, so that all lengths are equally likely.
    let mut garbage = vec![0; usize::from(u16::from_le_bytes(length)) % (MAX_GARBAGE + 1)];
    fill(&mut garbage).map_err(Lack::Random)?;
    Ok(V2Secrets { key, encoding, garbage })
}

fn fill(mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match getrandom(&mut *bytes, GetRandomFlags::empty()) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use godwit_p2p::Protocol;
    use godwit_stream::PoolLimits;

    use super::*;

    fn transports(encrypted: bool) -> Transports {
        let limits = PoolLimits { buffers: 1, buffer_bytes: 1 << 20, total_bytes: 1 << 20 };
        Transports::new([1; 4], BufferPool::new(limits), encrypted)
    }

    #[test]
    fn connections_are_encrypted_where_that_is_wanted_and_can_be() {
        let mut transports = transports(check_locked_memory().is_ok());
        let encrypted = if transports.encrypted { Protocol::Detecting } else { Protocol::V1 };
        assert_eq!(transports.outgoing(true).protocol(), encrypted);
        assert_eq!(transports.outgoing(false).protocol(), Protocol::V1);
        assert_eq!(transports.incoming().protocol(), encrypted);
        transports.encrypt_nothing();
        let plain = &mut transports;
        assert_eq!(plain.outgoing(true).protocol(), Protocol::V1);
        assert_eq!(plain.incoming().protocol(), Protocol::V1);
    }

    #[test]
    fn no_two_connections_have_the_same_secrets() {
        let (Ok(one), Ok(other)) = (secrets(), secrets()) else { return };
        assert_ne!(one.key, other.key);
        assert_ne!(one.encoding, other.encoding);
        let lengths: Vec<usize> =
            (0..64).filter_map(|_| Some(secrets().ok()?.garbage.len())).collect();
        assert!(lengths.iter().all(|len| *len <= MAX_GARBAGE));
        assert!(lengths.iter().max() > lengths.iter().min(), "lengths are random");
    }
}
