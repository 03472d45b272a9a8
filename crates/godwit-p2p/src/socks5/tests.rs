use proptest::prelude::*;

use super::*;

fn handshake(credentials: bool) -> Socks5 {
    let credentials = credentials.then(|| Credentials::new(b"user", b"pass").expect("short"));
    Socks5::new("example.org", 8333, credentials).expect("a short name")
}

fn send_all(socks: &mut Socks5) -> Vec<u8> {
    let sent = socks.outgoing().to_vec();
    socks.sent(sent.len());
    sent
}

/// A reply with the proxy's own address, as each kind of address.
fn replies() -> Vec<Vec<u8>> {
    let longest = [&[5, 0, 0, 3, 255][..], &[b'x'; 255], &[1, 2]].concat();
    vec![
        vec![5, 0, 0, 1, 127, 0, 0, 1, 0x20, 0x8d],
        [&[5, 0, 0, 4][..], &[7; 18]].concat(),
        [&[5, 0, 0, 3, 3][..], b"abc", &[1, 2]].concat(),
        vec![5, 0, 0, 3, 0, 1, 2],
        longest,
    ]
}

const REQUEST: &[u8] = b"\x05\x01\x00\x03\x0bexample.org\x20\x8d";

#[test]
fn handshake_without_authentication() {
    for reply in replies() {
        let mut socks = handshake(false);
        assert_eq!(send_all(&mut socks), [5, 1, 0]);
        socks.receive(&[5, 0]).expect("accepted");
        assert_eq!(send_all(&mut socks), REQUEST);
        assert!(!socks.is_connected());
        socks.receive(&reply).expect("accepted");
        assert!(socks.is_connected());
        assert_eq!(socks.wanted(), 0, "what follows is the peer's");
        assert!(socks.outgoing().is_empty());
        assert_eq!(socks.receive(&[1]), Err(Socks5Error::TooManyBytes));
    }
}

#[test]
fn handshake_with_username_and_password() {
    let mut socks = handshake(true);
    assert_eq!(send_all(&mut socks), [5, 2, 0, 2]);
    socks.receive(&[5, 2]).expect("accepted");
    assert_eq!(send_all(&mut socks), b"\x01\x04user\x04pass");
    socks.receive(&[1, 0]).expect("accepted");
    assert_eq!(send_all(&mut socks), REQUEST);

    let mut open = handshake(true);
    send_all(&mut open);
    open.receive(&[5, 0]).expect("a proxy need not authenticate");
    assert_eq!(send_all(&mut open), REQUEST);
}

#[test]
fn one_byte_at_a_time_with_partial_writes() {
    for reply in replies() {
        let mut socks = handshake(true);
        let mut proxy = [&[5, 2, 1, 0][..], &reply].concat().into_iter();
        while !socks.is_connected() {
            if !socks.outgoing().is_empty() {
                socks.sent(1);
                continue;
            }
            assert!(socks.wanted() > 0);
            socks.receive(&[proxy.next().expect("the proxy has more to say")]).expect("accepted");
        }
        assert_eq!(proxy.next(), None);
    }
}

#[test]
fn b17_refusals_and_malformed_replies() {
    let before_reply = |reply: &[u8]| {
        let mut socks = handshake(true);
        send_all(&mut socks);
        socks.receive(&[5, 0]).expect("accepted");
        socks.receive(reply).expect_err("refused")
    };
    assert_eq!(before_reply(&[4, 0, 0, 1]), Socks5Error::Version(4));
    assert_eq!(before_reply(&[5, 0, 1, 1]), Socks5Error::MalformedReply);
    assert_eq!(before_reply(&[5, 0, 0, 2]), Socks5Error::MalformedReply);
    for code in 1..=255 {
        assert_eq!(before_reply(&[5, code, 0, 1]), Socks5Error::Refused(code));
    }
    let method = |credentials, answer: &[u8]| {
        let mut socks = handshake(credentials);
        send_all(&mut socks);
        let error = socks.receive(answer).expect_err("refused");
        assert_eq!((socks.wanted(), socks.is_connected()), (0, false));
        assert_eq!(socks.receive(&[5, 0]), Err(Socks5Error::TooManyBytes), "it is over");
        error
    };
    assert_eq!(method(true, &[5, 255]), Socks5Error::Method(255));
    assert_eq!(method(true, &[5, 1]), Socks5Error::Method(1));
    assert_eq!(method(false, &[5, 2]), Socks5Error::Method(2), "it was not offered");
    assert_eq!(method(false, b"HT"), Socks5Error::Version(b'H'));
    let mut socks = handshake(true);
    socks.receive(&[5, 2]).expect("accepted");
    assert_eq!(socks.receive(&[1, 1]), Err(Socks5Error::AuthenticationFailed));
}

#[test]
fn b17_truncated_replies_never_connect() {
    for reply in replies() {
        for length in 0..reply.len() {
            let mut socks = handshake(false);
            socks.receive(&[5, 0]).expect("accepted");
            socks.receive(&reply[..length]).expect("accepted");
            assert!(!socks.is_connected() && socks.wanted() > 0);
        }
    }
}

#[test]
fn lengths_have_one_byte() {
    let host = |length: usize| Socks5::new(&"x".repeat(length), 1, None).map(|_| ());
    assert_eq!(host(0), Err(Socks5Error::HostLength(0)));
    assert_eq!(host(256), Err(Socks5Error::HostLength(256)));
    host(255).expect("the longest");
    let longest = [7; 255];
    let credentials = Credentials::new(&longest, &longest).expect("the longest");
    assert_eq!(Credentials::new(b"", b"x"), Err(Socks5Error::CredentialLength(0)));
    assert_eq!(Credentials::new(b"x", &[0; 256]), Err(Socks5Error::CredentialLength(256)));
    let mut socks = Socks5::new(&"x".repeat(255), 1, Some(credentials)).expect("the longest");
    send_all(&mut socks);
    socks.receive(&[5, 2]).expect("accepted");
    assert_eq!(send_all(&mut socks).len(), 3 + 2 * 255);
    socks.receive(&[1, 0]).expect("accepted");
    assert_eq!(send_all(&mut socks).len(), 4 + 1 + 255 + 2);
}

#[test]
fn isolated_credentials_differ_and_stay_secret() {
    let credentials = |session, counter| Credentials::isolated([session; 8], counter);
    assert_ne!(credentials(1, 1), credentials(1, 2));
    assert_ne!(credentials(1, 1), credentials(2, 1));
    assert_eq!(credentials(0xab, 7).username, b"abababababababab-7");
    assert_eq!(format!("{:?}", credentials(1, 1)), "Credentials { .. }");
}

#[test]
fn a_proxy_that_was_asked_is_waited_for() {
    let mut socks = handshake(false);
    send_all(&mut socks);
    assert!(!socks.awaits_destination(), "it has not heard of the destination");
    socks.receive(&[5, 0]).expect("accepted");
    assert!(!socks.awaits_destination());
    send_all(&mut socks);
    assert!(socks.awaits_destination());
    socks.receive(&[5, 0, 0, 1]).expect("accepted");
    assert!(!socks.awaits_destination(), "it has answered");
}

#[test]
fn only_some_failures_are_the_destinations() {
    assert!(Socks5Error::Refused(4).is_destination());
    assert!(Socks5Error::Refused(5).is_destination());
    assert!(Socks5Error::Refused(0xf0).is_destination());
    // As Tor has it; Core counts them, too.
    assert!(Socks5Error::Refused(1).is_destination() && Socks5Error::Refused(2).is_destination());
    assert!(!Socks5Error::Refused(3).is_destination());
    assert!(!Socks5Error::AuthenticationFailed.is_destination());
    let text = Socks5Error::Refused(5).to_string();
    assert_eq!(text, "proxy could not connect: connection refused");
}

proptest! {
    #[test]
    fn b17_hostile_bytes_never_overflow(
        credentials in any::<bool>(),
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8),
        polite in any::<bool>(),
    ) {
        let mut socks = handshake(credentials);
        if polite {
            socks.receive(&[5, 0]).expect("accepted");
            socks.receive(&[5, 0, 0, 3]).expect("accepted");
        }
        for piece in pieces {
            prop_assert!(socks.wanted() <= MAX_REPLY);
            let result = socks.receive(&piece);
            prop_assert!(result.is_ok() || !socks.is_connected());
            prop_assert!(socks.outgoing().len() <= 600);
        }
    }

    #[test]
    fn pieces_do_not_matter(cuts in prop::collection::vec(1..12usize, 40)) {
        let reply = &replies()[2];
        let mut all = &[&[5, 2, 1, 0][..], reply].concat()[..];
        let mut socks = handshake(true);
        for cut in cuts {
            let (piece, rest) = all.split_at(cut.min(all.len()));
            socks.receive(piece).expect("accepted");
            all = rest;
        }
        prop_assert!(all.is_empty() && socks.is_connected());
    }
}
