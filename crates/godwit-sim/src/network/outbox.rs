//! Output that a peer has still to write: messages, raw bytes, and the pace at which they go out.

use std::io::{self, Write};
use std::time::Duration;

use godwit_p2p::{Command, Protocol, Transport};
use godwit_primitives::sha256::sha256d;
use godwit_stream::{BufferPool, DataStream, PoolLimits, PooledStream};

use super::out::Prepared;

/// A limit on the bytes of a session, on top of its link's.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Bytes a second.
    rate: u64,
    /// When the count began.
    from: Duration,
    written: u64,
}

/// Bytes to be written, in order.
#[derive(Debug)]
pub(super) struct Outbox {
    magic: [u8; 4],
    bytes: Vec<u8>,
    at: usize,
    pace: Option<Pace>,
}

/// The result of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    All,
    /// The sink takes nothing more for now.
    Blocked,
    /// The pace allows nothing more before that time.
    Paced(Duration),
    /// The sink takes nothing any more.
    Broken,
}

impl Outbox {
    pub(super) fn new(magic: [u8; 4]) -> Self {
        Self { magic, bytes: Vec::new(), at: 0, pace: None }
    }

    /// Queues a message in the connection's encoding.
    pub(super) fn message(
        &mut self,
        spoken: &mut Transport,
        command: Command,
        payload: DataStream,
    ) {
        spoken.send(command, PooledStream::from(payload));
        self.take(spoken);
    }

    /// Queues a message that is already encoded and hashed, in the connection's encoding.
    pub(super) fn prepared(&mut self, spoken: &mut Transport, message: &Prepared) {
        let Prepared { command, payload, checksum } = message;
        if spoken.protocol() != Protocol::V1 {
            return self.message(spoken, *command, DataStream::from(&payload[..]));
        }
        self.take(spoken);
        self.raw(&self.magic.clone());
        self.raw(&command.to_bytes());
        self.raw(&(payload.len() as u32).to_le_bytes());
        self.raw(checksum);
        self.raw(payload);
    }

    /// Queues the bytes that the transport has ready.
    pub(super) fn take(&mut self, spoken: &mut Transport) {
        let everything = usize::MAX;
        spoken.write(&mut self.bytes, everything).expect("a vector takes every write");
    }

    /// Queues bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Queues a frame whose header may be false.
    pub(super) fn forged_frame(&mut self, command: Command, announced: u32, payload: &[u8]) {
        self.raw(&self.magic.clone());
        self.raw(&command.to_bytes());
        self.raw(&announced.to_le_bytes());
        self.raw(&sha256d(payload)[..4]);
        self.raw(payload);
    }

    /// From now on no more than `rate` bytes a second.
    pub(super) fn slow_down(&mut self, now: Duration, rate: u64) {
        if self.pace.is_none() {
            self.pace = Some(Pace { rate, from: now, written: 0 });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(super) fn queued(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Writes what the sink and the pace take.
    pub(super) fn write(&mut self, now: Duration, sink: &mut impl Write) -> Written {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            let allowed = self.pace.map_or(rest.len() as u64, |pace| pace.allowed(now));
            if allowed == 0 {
                let pace = self.pace.expect("only a pace forbids");
                return Written::Paced(pace.next(now));
            }
            match sink.write(&rest[..rest.len().min(allowed as usize)]) {
                Ok(0) => return Written::Broken,
                Ok(len) => {
                    self.at += len;
                    if let Some(pace) = &mut self.pace {
                        pace.written += len as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Written::Blocked,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Written::Broken,
            }
        }
        self.bytes.clear();
        self.at = 0;
        Written::All
    }
}

impl Pace {
    fn allowed(&self, now: Duration) -> u64 {
        let elapsed = now.saturating_sub(self.from).as_micros();
        let total = elapsed * u128::from(self.rate) / 1_000_000;
        (total as u64).saturating_sub(self.written)
    }

    /// When at least one more byte may go; at most every tenth of a second.
    fn next(&self, now: Duration) -> Duration {
        let micros = u128::from(self.written + 1) * 1_000_000 / u128::from(self.rate.max(1)) + 1;
        let due = self.from + Duration::from_micros(micros as u64);
        due.max(now + Duration::from_millis(100))
    }
}

/// Scripted peers exchange little.
pub(super) fn small_pool() -> BufferPool {
    BufferPool::new(PoolLimits { buffers: 1, buffer_bytes: 64 << 10, total_bytes: 64 << 10 })
}
