//! Bodies of requests: limits on their size, their speed, and their memory in all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::job::RequestBody;

/// Bytes of a request's body (Core `MAX_BODY_SIZE`).
pub const MAX_BODY_BYTES: u64 = 32 << 20;

/// Bytes of the body of a request for a resource: as many as every request may have uncounted. A kilobyte
/// names fifteen coins.
pub const MAX_RESOURCE_BODY_BYTES: u64 = OWN_BODY_BYTES;

/// Bytes of all requests' bodies together, at most: those that are being received or wait for their turn. A
/// single larger one is received only while there is no other.
pub const BODY_BYTES: usize = 32 << 20;

/// Bytes of a body that every request may have uncounted, so that small ones never wait.
const OWN_BODY_BYTES: u64 = 64 << 10;

/// Bytes of the body of a request that is refused by its head. Up to this many are read, to keep the
/// connection.
pub const MAX_DISCARDED_BODY_BYTES: u64 = OWN_BODY_BYTES;

/// Bytes of a body that a client has to send per second, at least.
const LEAST_BODY_RATE: u64 = 256 << 10;

/// The memory of bodies, in KiB.
pub struct Bodies {
    left: Arc<Semaphore>,
    all: u32,
}

impl Bodies {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        let all = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).max(1);
        Self { left: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// The KiB that count for a body of this many bytes.
    fn counted(&self, bytes: u64) -> u32 {
        match bytes {
            0..=OWN_BODY_BYTES => 0,
            _ => u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.all),
        }
    }

    /// Waits for room for a body; `None` if there is none within `limit`.
    async fn room(&self, bytes: u64, limit: Duration) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.left).acquire_many_owned(self.counted(bytes));
        timeout(limit, room).await.ok()?.ok()
    }
}

/// The connection is to be closed without an answer.
#[derive(Debug)]
pub(crate) struct Hopeless(pub(crate) &'static str);

impl fmt::Display for Hopeless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Hopeless {}

/// How receiving a body ended.
pub(crate) enum Received {
    Whole(RequestBody),
    TooLong,
    /// The body is cut off, or is not in the chunked form that its head promises.
    Broken,
    /// Other bodies have held all memory for too long.
    NoRoom,
}

/// Receives a body of at most `most` bytes, and counts it. A body whose length is not given counts as the
/// longest one until all of it has arrived.
pub(crate) async fn receive(
    mut body: Incoming,
    most: u64,
    bodies: &Bodies,
    limit: Duration,
) -> Result<Received, Hopeless> {
    let told = body.size_hint().upper();
    if told.is_some_and(|length| length > most) {
        return Ok(Received::TooLong);
    }
    let mut room = None;
    let mut bytes = Vec::new();
    let mut expected = told.unwrap_or(0);
    let mut started = Instant::now();
    loop {
        if room.is_none() && expected > OWN_BODY_BYTES {
            // While this waits for room, nothing is read from the client.
            room = bodies.room(told.unwrap_or(most), limit).await;
            if room.is_none() {
                return Ok(Received::NoRoom);
            }
            started = Instant::now();
        }
        let rate = Duration::from_millis(bytes.len() as u64 * 1000 / LEAST_BODY_RATE);
        let frame = timeout_at(started + limit + rate, body.frame())
            .await
            .map_err(|_| Hopeless("its body comes too slowly"))?;
        let Some(frame) = frame else { break };
        let Ok(frame) = frame else { return Ok(Received::Broken) };
        let Ok(data) = frame.into_data() else { continue };
        bytes.extend_from_slice(&data);
        expected = expected.max(bytes.len() as u64);
        if expected > most {
            return Ok(Received::TooLong);
        }
    }
    let counts = bodies.counted(bytes.len() as u64) as usize;
    let room = match counts {
        0 => None,
        counts => room.and_then(|mut room| room.split(counts)),
    };
    Ok(Received::Whole(RequestBody { bytes, permit: room }))
}

/// How reading a body that is not used ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discarded {
    Whole,
    /// The rest of it is not read.
    TooLong,
    /// The body is cut off, or is not in the chunked form that its head promises.
    Broken,
}

/// Reads a body of at most `most` bytes to its end, and keeps nothing of it.
pub(crate) async fn discard(
    mut body: Incoming,
    most: u64,
    limit: Duration,
) -> Result<Discarded, Hopeless> {
    if body.size_hint().upper().is_some_and(|length| length > most) {
        return Ok(Discarded::TooLong);
    }
    // The deadline does not move as the body arrives: the body is short.
    let deadline = Instant::now() + limit;
    let mut bytes = 0;
    loop {
        let frame = timeout_at(deadline, body.frame())
            .await
            .map_err(|_| Hopeless("its body comes too slowly"))?;
        match frame {
            None => return Ok(Discarded::Whole),
            Some(Err(_)) => return Ok(Discarded::Broken),
            Some(Ok(frame)) => bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
        }
        if bytes > most {
            return Ok(Discarded::TooLong);
        }
    }
}
