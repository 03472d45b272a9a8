//! The wire protocol of a publisher: ZMTP 3.1 without security (ZeroMQ RFC 37, and RFC 23 for 3.0).
//!
//! It works on bytes alone, so that tests can try any. A subscriber says little: a greeting, that it is
//! ready, and to which topics it subscribes. Anything longer ends the connection.

use std::fmt;

/// Bytes of a greeting.
pub(super) const GREETING_BYTES: usize = 64;

/// Bytes of a frame of a subscriber at most: the longest that one needs names itself and its kind.
const MAX_FRAME_BYTES: usize = 1024;

/// Subscriptions of a connection. Five topics have few beginnings.
pub(super) const MAX_SUBSCRIPTIONS: usize = 64;

/// Bits of a frame's first byte.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Bytes of a body of which a frame tells the length in one byte.
const SHORT: usize = 255;

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireError {
    /// It does not begin as ZMTP does.
    NotZmtp,
    /// A version before 3.0, which greets in another way.
    OldVersion,
    /// It wants to be encrypted.
    OtherMechanism,
    LongFrame,
    /// Bits of a frame that have no meaning.
    OddFrame,
    /// What follows the greeting does not say that it is ready.
    NotReady,
    /// It is no subscriber.
    NotSubscriber,
    ManySubscriptions,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotZmtp => "it does not speak ZMTP",
            Self::OldVersion => "it speaks a version of ZMTP before 3.0",
            Self::OtherMechanism => "it wants a mechanism other than NULL",
            Self::LongFrame => "it sends a long frame",
            Self::OddFrame => "it sends a frame of no kind",
            Self::NotReady => "it does not say that it is ready",
            Self::NotSubscriber => "it is no subscriber",
            Self::ManySubscriptions => "it subscribes too often",
        })
    }
}

/// What both sides send first.
pub(super) fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    (greeting[0], greeting[9]) = (0xff, 0x7f);
    (greeting[10], greeting[11]) = (3, 1);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Looks at the beginning of the other side's greeting, of which not all has to be there.
fn check_greeting(bytes: &[u8]) -> Result<(), WireError> {
    let is =
        |place: usize, fits: &dyn Fn(u8) -> bool| bytes.get(place).is_none_or(|byte| fits(*byte));
    if !is(0, &|byte| byte == 0xff) || !is(9, &|byte| byte & 1 == 1) {
        return Err(WireError::NotZmtp);
    }
    if !is(10, &|major| major >= 3) {
        return Err(WireError::OldVersion);
    }
    let name = b"NULL".iter().chain(std::iter::repeat_n(&0, 16));
    if bytes.iter().skip(12).zip(name).any(|(found, expected)| found != expected) {
        return Err(WireError::OtherMechanism);
    }
    Ok(())
}

/// That this side is ready, and what it is.
pub(super) fn ready() -> Vec<u8> {
    command(b"READY", b"\x0bSocket-Type\x00\x00\x00\x03PUB")
}

fn command(name: &[u8], data: &[u8]) -> Vec<u8> {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name);
    body.extend_from_slice(data);
    let mut frame = Vec::with_capacity(body.len() + 2);
    write_frame(&mut frame, COMMAND, &body);
    frame
}

fn write_frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend_from_slice(&[flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(body);
}

/// A message: its parts, one frame each.
pub(super) fn message(parts: &[&[u8]]) -> Vec<u8> {
    let header = |part: &&[u8]| if part.len() > SHORT { 9 } else { 2 };
    let bytes = parts.iter().map(|part| header(part) + part.len()).sum();
    let mut out = Vec::with_capacity(bytes);
    for (n, part) in parts.iter().enumerate() {
        let more = if n + 1 < parts.len() { MORE } else { 0 };
        write_frame(&mut out, more, part);
    }
    out
}

/// What a subscriber says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Subscribe(Vec<u8>),
    Cancel(Vec<u8>),
    /// It wants these bytes back.
    Ping(Vec<u8>),
    /// Something that a publisher does not mind.
    Other,
}

/// The answer to a ping.
pub(super) fn pong(context: &[u8]) -> Vec<u8> {
    command(b"PONG", context)
}

/// What a subscriber has sent and was not read yet.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    bytes: Vec<u8>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Greeting,
    Handshake,
    Ready,
}

impl Incoming {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether all of its greeting was read.
    pub(super) fn has_greeted(&self) -> bool {
        self.stage != Stage::Greeting
    }

    /// Whether it has also said that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// The next thing that it says; `None` if that is not there yet.
    ///
    /// # Errors
    ///
    /// The connection is to be closed.
    pub(super) fn next(&mut self) -> Result<Option<Said>, WireError> {
        if self.stage == Stage::Greeting {
            check_greeting(&self.bytes[..self.bytes.len().min(GREETING_BYTES)])?;
            if self.bytes.len() < GREETING_BYTES {
                return Ok(None);
            }
            self.bytes.drain(..GREETING_BYTES);
            self.stage = Stage::Handshake;
        }
        let Some((flags, body)) = self.frame()? else { return Ok(None) };
        if self.stage == Stage::Handshake {
            check_ready(flags, &body)?;
            self.stage = Stage::Ready;
            return Ok(Some(Said::Other));
        }
        Ok(Some(said(flags, &body)))
    }

    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, WireError> {
        let Some(flags) = self.bytes.first().copied() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(WireError::OddFrame);
        }
        let (start, length) = match flags & LONG {
            0 => (2, self.bytes.get(1).map(|length| u64::from(*length))),
            _ => {
                let length = self.bytes.get(1..9).and_then(|bytes| bytes.first_chunk());
                (9, length.map(|length| u64::from_be_bytes(*length)))
            }
        };
        let Some(length) = length else { return Ok(None) };
        if length > MAX_FRAME_BYTES as u64 {
            return Err(WireError::LongFrame);
        }
        let end = start + length as usize;
        let Some(body) = self.bytes.get(start..end).map(<[u8]>::to_vec) else { return Ok(None) };
        self.bytes.drain(..end);
        Ok(Some((flags, body)))
    }
}

fn check_ready(flags: u8, body: &[u8]) -> Result<(), WireError> {
    let properties = body.strip_prefix(b"\x05READY").filter(|_| flags & COMMAND != 0);
    let kind = socket_type(properties.ok_or(WireError::NotReady)?).ok_or(WireError::NotReady)?;
    if [&b"SUB"[..], b"XSUB"].contains(&kind) { Ok(()) } else { Err(WireError::NotSubscriber) }
}

/// The value of the property of this name: names have a byte of length, values four.
fn socket_type(mut properties: &[u8]) -> Option<&[u8]> {
    loop {
        let (length, rest) = properties.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Some(value);
        }
        properties = rest;
    }
}

/// Since 3.1 subscriptions are commands, before they are messages.
fn said(flags: u8, body: &[u8]) -> Said {
    if flags & COMMAND == 0 {
        return match body.split_first() {
            Some((1, topic)) if flags & MORE == 0 => Said::Subscribe(topic.to_vec()),
            Some((0, topic)) if flags & MORE == 0 => Said::Cancel(topic.to_vec()),
            _ => Said::Other,
        };
    }
    let command = |name: &[u8]| body.split_first().and_then(|(_, rest)| rest.strip_prefix(name));
    // Two bytes of a ping say how soon another one follows.
    let ping = command(b"PING").filter(|_| body[0] == 4).and_then(|rest| rest.get(2..));
    match (command(b"SUBSCRIBE"), command(b"CANCEL"), ping) {
        (Some(topic), ..) if body[0] == 9 => Said::Subscribe(topic.to_vec()),
        (_, Some(topic), _) if body[0] == 6 => Said::Cancel(topic.to_vec()),
        (.., Some(context)) => Said::Ping(context.to_vec()),
        _ => Said::Other,
    }
}

/// What a subscriber subscribed to: beginnings of topics.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<Vec<u8>>);

impl Subscriptions {
    /// # Errors
    ///
    /// There are as many as may be.
    pub(super) fn add(&mut self, topic: Vec<u8>) -> Result<(), WireError> {
        if self.0.len() >= MAX_SUBSCRIPTIONS {
            return Err(WireError::ManySubscriptions);
        }
        self.0.push(topic);
        Ok(())
    }

    /// Takes one of these back.
    pub(super) fn cancel(&mut self, topic: &[u8]) {
        if let Some(place) = self.0.iter().position(|known| known == topic) {
            self.0.swap_remove(place);
        }
    }

    pub(super) fn want(&self, topic: &[u8]) -> bool {
        self.0.iter().any(|beginning| topic.starts_with(beginning))
    }
}

#[cfg(test)]
mod tests;
