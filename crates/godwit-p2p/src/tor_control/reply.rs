//! Replies from Tor: lines with a code, the last of which is marked as such (`control-spec` 2.3).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use data_encoding::HEXLOWER_PERMISSIVE;
use godwit_secret::{Releasable, SecretBytes};

use super::pairs::value_of;
use super::safe_cookie::Challenge;
use super::{OK, TorError};
use crate::net_address::Host;

/// Most bytes of a line (Core `MAX_LINE_LENGTH`).
pub(super) const MAX_TOR_LINE: usize = 100_000;
/// Most lines of a reply (Core `MAX_LINE_COUNT`).
pub(super) const MAX_TOR_LINES: usize = 1_000;
/// Codes from here on are of news for which nobody asked.
const FIRST_NEWS: u16 = 600;

/// Ways to authenticate that Tor takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Methods {
    pub(super) none: bool,
    pub(super) safe_cookie: bool,
    pub(super) password: bool,
}

/// What is read of a reply to a command.
#[derive(Debug)]
pub(super) enum Answer {
    ProtocolInfo {
        methods: Methods,
        cookie_file: Vec<u8>,
    },
    Challenge {
        cookie: SecretBytes,
        challenge: Option<Challenge>,
    },
    Authentication,
    /// Where Tor listens for SOCKS.
    Socks(Option<SocketAddr>),
    Onion {
        /// A proof of work was asked for too.
        with_defences: bool,
        service: Option<Host>,
        /// Of a new service.
        key: SecretBytes,
    },
    /// There was no command.
    Unasked,
}

impl Releasable for Answer {}

impl Answer {
    pub(super) fn protocol_info() -> Self {
        Self::ProtocolInfo { methods: Methods::default(), cookie_file: Vec::new() }
    }

    /// Takes the text of a line.
    fn take(&mut self, text: &[u8]) -> Result<(), TorError> {
        match self {
            Self::ProtocolInfo { methods, cookie_file } => {
                let Some(text) = text.strip_prefix(b"AUTH ") else { return Ok(()) };
                if let Some(names) = value_of(text, b"METHODS") {
                    *methods = methods_named(&names.bytes());
                }
                if let Some(path) = value_of(text, b"COOKIEFILE") {
                    *cookie_file = path.bytes();
                }
            }
            Self::Challenge { challenge, .. } => {
                let Some(text) = text.strip_prefix(b"AUTHCHALLENGE ") else { return Ok(()) };
                let bytes = |key: &[u8]| value_of(text, key).and_then(|value| hex(&value.bytes()));
                if let (Some(hash), Some(nonce)) = (bytes(b"SERVERHASH"), bytes(b"SERVERNONCE")) {
                    *challenge = Some(Challenge { hash, nonce });
                }
            }
            Self::Socks(proxy) => {
                if let Some(text) = text.strip_prefix(b"net/listeners/socks=") {
                    *proxy = listener(text);
                }
            }
            Self::Onion { service, key, .. } => {
                if let Some(id) = value_of(text, b"ServiceID") {
                    *service = onion(&id.bytes());
                }
                if let Some(line) = text.strip_prefix(b"PrivateKey=") {
                    key.clear();
                    key.extend_from_slice(line)?;
                }
            }
            Self::Authentication | Self::Unasked => {}
        }
        Ok(())
    }
}

fn methods_named(names: &[u8]) -> Methods {
    let has = |name: &[u8]| names.split(|byte| *byte == b',').any(|one| one == name);
    Methods {
        none: has(b"NULL"),
        safe_cookie: has(b"SAFECOOKIE"),
        password: has(b"HASHEDPASSWORD"),
    }
}

fn hex(digits: &[u8]) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(digits).ok()?.try_into().ok()
}

fn onion(id: &[u8]) -> Option<Host> {
    let id = std::str::from_utf8(id).ok()?;
    let host: Host = format!("{id}.onion").parse().ok()?;
    matches!(host, Host::OnionV3(_)).then_some(host)
}

/// Of Tor's listeners the first on this machine's usual address, otherwise the last; those that are files are
/// left out.
fn listener(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let address = |word: &str| word.trim_matches(['"', '\'']).parse::<SocketAddr>().ok();
    let is_usual = |address: &SocketAddr| address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut all = text.split(' ').filter_map(address);
    let last = all.clone().next_back();
    all.find(is_usual).or(last)
}

/// Where in a reply the next line is.
#[derive(Debug, Default)]
pub(super) struct Reply {
    lines: usize,
    /// Lines of data up to a dot.
    in_data: bool,
    /// Of the last line, once that is there.
    code: Option<u16>,
}

impl Releasable for Reply {}

impl Reply {
    /// Takes a line without its end, and tells `answer` what is in it.
    pub(super) fn take_line(&mut self, line: &[u8], answer: &mut Answer) -> Result<(), TorError> {
        self.lines += 1;
        if self.lines > MAX_TOR_LINES {
            return Err(TorError::LongReply);
        }
        if self.in_data {
            self.in_data = line != b".";
            return Ok(());
        }
        let (code, separator, text) = parts(line).ok_or(TorError::Malformed)?;
        if code == OK {
            answer.take(text)?;
        }
        self.in_data = separator == b'+';
        if separator == b' ' {
            self.lines = 0;
            self.code = (code < FIRST_NEWS).then_some(code);
        }
        Ok(())
    }

    /// The code of the reply that is complete, once.
    pub(super) fn take_code(&mut self) -> Option<u16> {
        self.code.take()
    }
}

/// Code, separator and text of a line.
fn parts(line: &[u8]) -> Option<(u16, u8, &[u8])> {
    let (digits, rest) = line.split_at_checked(3)?;
    let (separator, text) = rest.split_first()?;
    let is_code = digits.iter().all(u8::is_ascii_digit);
    let code = digits.iter().fold(0, |code, digit| code * 10 + u16::from(digit.wrapping_sub(b'0')));
    (is_code && matches!(separator, b'-' | b'+' | b' ')).then_some((code, *separator, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_code_a_separator_and_text() {
        assert_eq!(parts(b"250 OK"), Some((250, b' ', &b"OK"[..])));
        assert_eq!(parts(b"650-"), Some((650, b'-', &b""[..])));
        assert_eq!(parts(b"000+a b"), Some((0, b'+', &b"a b"[..])));
        for line in [&b""[..], b"250", b"25 OK", b"2500K", b"+50 OK", b"250\tOK", b"\xff50 OK"] {
            assert_eq!(parts(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_reply_ends_with_its_last_line_and_data_are_skipped() {
        let mut reply = Reply::default();
        let mut answer = Answer::Socks(None);
        let mut take = |line: &[u8]| reply.take_line(line, &mut answer).map(|()| reply.take_code());
        for line in [&b"250+other="[..], b"250 no end", b"", b"..", b".", b"650 NEWS", b"650-NEWS"]
        {
            assert_eq!(take(line), Ok(None), "{line:?}");
        }
        assert_eq!(take(b"250-net/listeners/socks=\"127.0.0.1:5\""), Ok(None));
        assert_eq!(take(b"250 OK"), Ok(Some(250)));
        assert_eq!(take(b"no"), Err(TorError::Malformed));
        let Answer::Socks(proxy) = answer else { panic!("the same answer") };
        assert_eq!(proxy.map(|proxy| proxy.port()), Some(5));
    }

    #[test]
    fn replies_have_so_many_lines_and_no_more() {
        for (lines, expected) in
            [(MAX_TOR_LINES - 1, Ok(())), (MAX_TOR_LINES, Err(TorError::LongReply))]
        {
            let (mut reply, mut answer) = (Reply::default(), Answer::Unasked);
            for _ in 0..lines {
                assert_eq!(reply.take_line(b"250-x", &mut answer), Ok(()));
            }
            assert_eq!(reply.take_line(b"250 x", &mut answer), expected);
        }
    }

    #[test]
    fn of_several_listeners_the_one_on_this_machine_is_taken() {
        let found = |text: &str| listener(text.as_bytes()).map(|address| address.to_string());
        for (text, expected) in [
            ("\"127.0.0.1:9050\"", Some("127.0.0.1:9050")),
            ("\"10.0.0.1:1\" \"127.0.0.1:2\" \"127.0.0.1:3\"", Some("127.0.0.1:2")),
            ("\"10.0.0.1:1\" \"[::1]:2\"", Some("[::1]:2")),
            ("'10.0.0.1:1' \"unix:/run/tor/socks\"", Some("10.0.0.1:1")),
            ("\"unix:/run/tor/socks\"", None),
            ("127.0.0.1", None),
            ("", None),
        ] {
            assert_eq!(found(text).as_deref(), expected, "{text}");
        }
    }
}
