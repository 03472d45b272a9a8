//! Answers of the RPC server, as a strict client reads them.

/// All that the server says.
const STATUSES: [u16; 10] = [200, 204, 400, 401, 404, 405, 413, 414, 431, 503];

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    headers: Vec<(&'a str, &'a str)>,
    pub(super) body: &'a [u8],
}

impl<'a> Answer<'a> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |header| header.0 == name).map(|header| header.1)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Whether it says that the connection ends behind it. To a client of HTTP/1.0 that would stay, `hyper`
    /// adds that it may, which a client has to overlook then.
    pub(super) fn closes(&self) -> bool {
        self.all("Connection").any(|value| value.split(", ").any(|word| word == "close"))
    }

    /// Whether `hyper` says that this is no request; what the server says for itself has a type.
    pub(super) fn refuses_bytes(&self) -> bool {
        [400, 414, 431].contains(&self.status) && !self.has("Content-Type")
    }

    /// # Panics
    ///
    /// It is none.
    fn head(text: &'a str, is_head: bool) -> Self {
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
        let (status, reason) = status.and_then(|rest| rest.split_once(' ')).expect(first);
        let headers = lines.map(|line| line.split_once(": ").expect(line)).collect();
        let answer = Self { status: status.parse().expect(first), headers, body: &[] };
        assert!(STATUSES.contains(&answer.status), "{text}");
        assert!(
            !reason.is_empty()
                && !text.contains(|c: char| c.is_ascii_control() && c != '\r' && c != '\n')
        );
        for (name, _) in &answer.headers {
            let is_title = |part: &str| part.starts_with(|c: char| c.is_ascii_uppercase());
            assert!(name.split('-').all(is_title), "{name:?} is not as Core writes it");
        }
        let count = |name| answer.all(name).count();
        assert_eq!((count("Date"), count("Transfer-Encoding")), (1, 0), "{text}");
        // An empty answer to a request for a head may be without one.
        let has_length = answer.status != 204 && !(is_head && count("Content-Length") == 0);
        assert_eq!(count("Content-Length"), usize::from(has_length), "{text}");
        assert_eq!(answer.has("Www-Authenticate"), answer.status == 401, "{text}");
        answer
    }
}

/// Answers one after the other. If they are not `whole`, the last one may be cut off.
pub(super) struct Answers<'a> {
    rest: &'a [u8],
    is_whole: bool,
}

impl<'a> Answers<'a> {
    pub(super) fn new(text: &'a [u8], is_whole: bool) -> Self {
        Self { rest: text, is_whole }
    }

    /// The next one, if there is one. The one to a request for a head has no body.
    pub(super) fn next(&mut self, is_head: bool) -> Option<Answer<'a>> {
        while let Some(rest) = self.rest.strip_prefix(CONTINUE) {
            self.rest = rest;
        }
        let next = self.split(is_head);
        assert!(next.is_some() || self.rest.is_empty() || !self.is_whole, "half an answer");
        let (answer, rest) = next.unzip();
        self.rest = rest.unwrap_or_default();
        answer
    }

    fn split(&self, is_head: bool) -> Option<(Answer<'a>, &'a [u8])> {
        let end = self.rest.windows(4).position(|four| four == b"\r\n\r\n")?;
        let text = str::from_utf8(&self.rest[..end]).expect("heads are ASCII");
        let mut answer = Answer::head(text, is_head);
        let length = match answer.all("Content-Length").next() {
            Some(length) if !is_head => length.parse().expect("a number"),
            _ => 0,
        };
        let (body, rest) = self.rest[end + 4..].split_at_checked(length)?;
        answer.body = body;
        Some((answer, rest))
    }

    /// Whether there is no further one.
    pub(super) fn are_over(mut self) -> bool {
        self.next(true).is_none()
    }
}
