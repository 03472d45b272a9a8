//! HTTP as a naive reader of the whole text takes it (RFC 9112): where a request ends, who asks, and what
//! for. It is as lenient as `httparse` is: lines may end without a carriage return, and empty ones may come
//! before a request.

use godwit_http::{
    Asked, MAX_BODY_BYTES, MAX_DISCARDED_BODY_BYTES, MAX_HEADER_BYTES, MAX_RESOURCE_BODY_BYTES,
};

/// Bytes of chunk extensions, and of trailers, from which on `hyper` refuses them.
const MAX_EXTENSION_BYTES: usize = 16 << 10;
const MAX_TRAILER_BYTES: usize = MAX_HEADER_BYTES;

/// Users without passwords, as their clients name them.
pub(super) const LOGINS: [(&str, &[u8]); 2] = [("a", b"YTo="), ("b", b"Yjo=")];

/// A request whose head is whole and well-formed.
pub(super) struct Request<'a> {
    method: &'a str,
    target: &'a str,
    headers: Vec<(String, &'a [u8])>,
    is_old: bool,
    framing: Framing,
    /// What comes behind the head.
    rest: &'a [u8],
}

#[derive(Clone, Copy)]
enum Framing {
    Length(u64),
    Chunked,
}

pub(super) enum Body<'a> {
    Whole {
        bytes: Vec<u8>,
        /// Fields behind the last chunk, whose form may be refused.
        has_trailers: bool,
        /// What comes behind it.
        rest: &'a [u8],
    },
    TooLong,
    /// Cut off, or not in the chunks that it promises.
    Broken,
}

/// What becomes of a request, as far as its head says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Asks(Asked),
    /// Refused with this status.
    Refused(u16),
}

impl Fate {
    /// Bytes that its body may have.
    pub(super) fn most(&self) -> u64 {
        match self {
            Self::Asks(Asked::Calls { .. }) => MAX_BODY_BYTES,
            Self::Asks(Asked::Resource { .. }) => MAX_RESOURCE_BODY_BYTES,
            Self::Refused(_) => MAX_DISCARDED_BODY_BYTES,
        }
    }
}

fn is_token(text: &[u8]) -> bool {
    let is_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_char)
}

/// Without spaces and tabs at both ends.
fn trim(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| *byte != b' ' && *byte != b'\t';
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    &text[start..end]
}

/// A line without its end, and what comes behind it.
fn line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let line = &text[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &text[end + 1..]))
}

/// The next request, unless its head is cut off, malformed or too long.
pub(super) fn read(text: &[u8]) -> Option<Request<'_>> {
    let (mut first, mut rest) = line(text)?;
    while first.is_empty() {
        (first, rest) = line(rest)?;
    }
    let parts: Vec<&[u8]> = first.split(|byte| *byte == b' ').collect();
    let [method, target, version] = parts[..] else { return None };
    let is_old = match version {
        b"HTTP/1.1" => false,
        b"HTTP/1.0" => true,
        _ => return None,
    };
    let is_visible = |byte: &u8| !byte.is_ascii() || byte.is_ascii_graphic();
    if !is_token(method) || target.is_empty() || !target.iter().all(is_visible) {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let (header, behind) = line(rest)?;
        rest = behind;
        if header.is_empty() {
            break;
        }
        let colon = header.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&header[..colon], &header[colon + 1..]);
        if !is_token(name) || value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return None;
        }
        headers.push((String::from_utf8_lossy(name).to_ascii_lowercase(), trim(value)));
    }
    if text.len() - rest.len() > MAX_HEADER_BYTES {
        return None;
    }
    let framing = framing(&headers, is_old)?;
    let (method, target) = (str::from_utf8(method).ok()?, str::from_utf8(target).ok()?);
    Some(Request { method, target, headers, is_old, framing, rest })
}

/// How long the body is; `None` if that is not said, or said in two ways. Chunks go before a length.
fn framing(headers: &[(String, &[u8])], is_old: bool) -> Option<Framing> {
    let all = |name: &'static str| headers.iter().filter(move |header| header.0 == name);
    let mut codings = all("transfer-encoding").peekable();
    if codings.peek().is_some() {
        let is_chunked = |value: &[u8]| {
            let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
            value.is_ascii() && trim(last).eq_ignore_ascii_case(b"chunked")
        };
        let (_, last) = codings.last()?;
        return (!is_old && is_chunked(last)).then_some(Framing::Chunked);
    }
    let lengths: Option<Vec<u64>> = all("content-length").map(|(_, value)| number(value)).collect();
    match lengths?[..] {
        [] => Some(Framing::Length(0)),
        [first, ref others @ ..] => {
            others.iter().all(|other| *other == first).then_some(Framing::Length(first))
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    // What `hyper` has for other things are the two largest numbers.
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(digits).ok()?.parse().ok()?;
    (is_number && number < u64::MAX - 1).then_some(number)
}

impl<'a> Request<'a> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers.iter().filter(move |header| header.0 == name).map(|header| header.1)
    }

    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether the target is one that all readers take for the same, and none refuses.
    pub(super) fn is_plain(&self) -> bool {
        let is_char = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%?=&".contains(&byte);
        self.target.starts_with('/') && self.target.bytes().all(is_char)
    }

    fn is_framed_twice(&self) -> bool {
        ["transfer-encoding", "content-length"].iter().all(|name| self.all(name).next().is_some())
    }

    /// Whether some readers take it for no request: its target may be none, and of two framings one may be
    /// wrong.
    pub(super) fn may_be_refused(&self) -> bool {
        !self.is_plain() || self.is_framed_twice()
    }

    /// Whether the connection ends behind the answer.
    pub(super) fn closes(&self) -> bool {
        let says = |value: &[u8], word: &str| {
            let is_word = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(word.as_bytes());
            value.is_ascii() && value.split(|byte| *byte == b',').any(is_word)
        };
        let stays = match self.is_old {
            false => true,
            true => self.all("connection").any(|value| says(value, "keep-alive")),
        };
        !stays || self.is_framed_twice() || self.all("connection").any(|value| says(value, "close"))
    }

    /// The user whose login is in the head.
    pub(super) fn user(&self) -> Option<&'static str> {
        let login = self.all("authorization").next()?.strip_prefix(b"Basic ")?.trim_ascii();
        LOGINS.iter().find(|(_, text)| *text == login).map(|(user, _)| *user)
    }

    pub(super) fn fate(&self, serves_resources: bool) -> Fate {
        let path = self.target.split('?').next().unwrap_or_default();
        if !["GET", "POST", "HEAD", "PUT"].contains(&self.method) {
            Fate::Refused(405)
        } else if serves_resources && is_resource(path) {
            Fate::Asks(Asked::Resource { target: self.target.to_owned() })
        } else if self.target != "/" && !path.starts_with("/wallet/") {
            Fate::Refused(404)
        } else if self.method != "POST" {
            Fate::Refused(405)
        } else {
            match self.user() {
                Some(user) => Fate::Asks(Asked::Calls { user: user.to_owned() }),
                None => Fate::Refused(401),
            }
        }
    }

    pub(super) fn body(&self, most: u64) -> Body<'a> {
        match self.framing {
            Framing::Length(length) if length > most => Body::TooLong,
            Framing::Length(length) => match self.rest.split_at_checked(length as usize) {
                Some((bytes, rest)) => {
                    Body::Whole { bytes: bytes.to_vec(), has_trailers: false, rest }
                }
                None => Body::Broken,
            },
            Framing::Chunked => chunks(self.rest, most),
        }
    }
}

/// What stands for a path of REST.
pub(super) fn is_resource(path: &str) -> bool {
    path.starts_with("/rest/")
}

fn chunks(mut text: &[u8], most: u64) -> Body<'_> {
    let (mut bytes, mut extensions) = (Vec::new(), 0);
    loop {
        let Some((size, behind)) = chunk_size(text, &mut extensions) else { return Body::Broken };
        if size == 0 {
            return trailers(behind, bytes);
        }
        let there = size.min(behind.len() as u64) as usize;
        bytes.extend_from_slice(&behind[..there]);
        if bytes.len() as u64 > most {
            return Body::TooLong;
        }
        match behind[there..].strip_prefix(b"\r\n") {
            Some(rest) if there as u64 == size => text = rest,
            _ => return Body::Broken,
        }
    }
}

/// The size of a chunk, and what comes behind its line; it counts the bytes of extensions.
fn chunk_size<'a>(text: &'a [u8], extensions: &mut usize) -> Option<(u64, &'a [u8])> {
    let end = text.iter().position(|byte| *byte == b'\r')?;
    let (line, rest) = (&text[..end], text[end..].strip_prefix(b"\r\n")?);
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = u64::from_str_radix(str::from_utf8(&line[..digits]).ok()?, 16).ok()?;
    let extension = match line.iter().position(|byte| *byte == b';') {
        Some(at) => &line[at + 1..],
        None => &[],
    };
    let between = &line[digits..line.len() - extension.len()];
    let between = between.strip_suffix(b";").unwrap_or(between);
    *extensions += extension.len();
    let is_allowed = trim(between).is_empty() && !extension.contains(&b'\n');
    (is_allowed && *extensions < MAX_EXTENSION_BYTES).then_some((size, rest))
}

fn trailers(text: &[u8], bytes: Vec<u8>) -> Body<'_> {
    let mut rest = text;
    loop {
        if let Some(rest) = rest.strip_prefix(b"\r\n") {
            let length = text.len() - rest.len();
            let has_trailers = length > 2;
            return match length < MAX_TRAILER_BYTES {
                true => Body::Whole { bytes, has_trailers, rest },
                false => Body::Broken,
            };
        }
        // A carriage return that begins a line ends it, or is wrong.
        let Some(end) = rest.iter().position(|byte| *byte == b'\r').filter(|at| *at > 0) else {
            return Body::Broken;
        };
        match rest[end..].strip_prefix(b"\r\n") {
            Some(behind) => rest = behind,
            None => return Body::Broken,
        }
    }
}
