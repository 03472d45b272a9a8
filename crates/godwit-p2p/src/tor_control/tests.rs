use godwit_secret::Declassified;

use super::*;

const SERVICE: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd";
const KEY: &str = "ED25519-V3:yLSDc8b11PaIHTtNtvi9lNW99IME2mdrO4k381zDkHv+a\
    WRUGrkBALBQ9MbHy2SLA/NmfS7YxmcR/FY8ppRfIA==";
const NONCE: [u8; 32] = {
    let mut nonce = [0; 32];
    let mut n = 0;
    while n < 32 {
        nonce[n] = 32 + n as u8;
        n += 1;
    }
    nonce
};

fn request(password: Option<&str>, asks_for_proxy: bool) -> OnionRequest {
    OnionRequest {
        target: "127.0.0.1:18445".parse().expect("an address"),
        port: 18444,
        password: password.map(|password| {
            SecretString::from_plain_and_wipe(&mut password.to_owned()).expect("memory")
        }),
        asks_for_proxy,
    }
}

fn secret(bytes: &[u8]) -> SecretBytes {
    SecretBytes::from_plain_and_wipe(&mut bytes.to_vec()).expect("memory")
}

fn plain(secret: &SecretBytes) -> String {
    let bytes = secret.expose_secret(|bytes| Declassified(bytes.to_vec())).0;
    String::from_utf8(bytes).expect("text")
}

/// What a session wants done, as text.
fn done(session: &mut TorSession<'_>) -> Vec<String> {
    let shown = |action| match action {
        TorAction::Send(command) => {
            let command = plain(&command);
            format!("> {}", command.strip_suffix("\r\n").expect("an end of the line"))
        }
        TorAction::ReadCookie { path } => format!("cookie {}", String::from_utf8_lossy(&path)),
        TorAction::UseProxy(proxy) => format!("proxy {proxy}"),
        TorAction::KeepKey(key) => format!("keep {}", plain(key.secret())),
        TorAction::Serve(host) => format!("serve {host}"),
    };
    session.take_actions().into_iter().map(shown).collect()
}

/// Tor says these lines; what follows from that, or why it is given up.
fn says(session: &mut TorSession<'_>, lines: &[&str]) -> Result<Vec<String>, TorError> {
    let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    session.receive(&secret(text.as_bytes())).map(|()| done(session))
}

fn begun(request: &OnionRequest) -> TorSession<'_> {
    let mut session = TorSession::new(request, None, NONCE).expect("memory");
    assert_eq!(done(&mut session), ["> PROTOCOLINFO 1"]);
    session
}

fn protocol_info(methods: &str) -> Vec<String> {
    let auth = format!("250-AUTH METHODS={methods}");
    ["250-PROTOCOLINFO 1", &auth, "250-VERSION Tor=\"0.4.9.1\"", "250 OK"]
        .map(str::to_owned)
        .to_vec()
}

/// After `PROTOCOLINFO` was answered so.
fn informed<'a>(request: &'a OnionRequest, methods: &str) -> Result<TorSession<'a>, TorError> {
    let mut session = begun(request);
    let lines = protocol_info(methods);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    session.receive(&secret(text.as_bytes()))?;
    Ok(session)
}

/// Up to the request for a service.
fn authenticated(request: &OnionRequest) -> TorSession<'_> {
    let mut session = informed(request, "NULL").expect("a way");
    assert_eq!(done(&mut session), ["> AUTHENTICATE"]);
    session
}

const ADD: &str = "> ADD_ONION NEW:ED25519-V3 PoWDefensesEnabled=1 Port=18444,127.0.0.1:18445";
const ADD_SIMPLY: &str = "> ADD_ONION NEW:ED25519-V3 Port=18444,127.0.0.1:18445";

#[test]
fn a_new_service_is_asked_for_and_its_key_kept() {
    let request = request(None, true);
    let mut session = authenticated(&request);
    assert!(session.awaits_answer());
    let asked = says(&mut session, &["250 OK"]);
    assert_eq!(asked, Ok(vec!["> GETINFO net/listeners/socks".to_owned(), ADD.to_owned()]));
    let proxy = says(&mut session, &["250-net/listeners/socks=\"127.0.0.1:9150\"", "250 OK"]);
    assert_eq!(proxy, Ok(vec!["proxy 127.0.0.1:9150".to_owned()]));
    let (id, key) = (format!("250-ServiceID={SERVICE}"), format!("250-PrivateKey={KEY}"));
    let serves = says(&mut session, &[&id, &key, "250 OK"]).expect("a service");
    assert_eq!(serves, [format!("keep {KEY}"), format!("serve {SERVICE}.onion")]);
    assert!(!session.awaits_answer());
    assert_eq!(says(&mut session, &["650 NEWS", "250 nobody asked"]), Ok(vec![]));
}

#[test]
fn a_service_that_there_was_before_is_asked_for_by_its_key() {
    let request = request(None, false);
    let key = OnionKey::parse(secret(KEY.as_bytes())).expect("a key");
    let mut session = TorSession::new(&request, Some(key), NONCE).expect("memory");
    done(&mut session);
    says(&mut session, &["250-AUTH METHODS=NULL", "250 OK"]).expect("a way");
    let asked = says(&mut session, &["250 OK"]).expect("authenticated");
    let add = format!("> ADD_ONION {KEY} PoWDefensesEnabled=1 Port=18444,127.0.0.1:18445");
    assert_eq!(asked, [add]);
    // Of an older Tor.
    let again = says(&mut session, &["512 Unrecognized argument"]).expect("another way");
    assert_eq!(again, [format!("> ADD_ONION {KEY} Port=18444,127.0.0.1:18445")]);
    let id = format!("250-ServiceID={SERVICE}");
    let serves = says(&mut session, &[&id, "250 OK"]).expect("a service");
    assert_eq!(serves, [format!("serve {SERVICE}.onion")]);
}

#[test]
fn bytes_may_come_one_by_one_and_lines_end_with_or_without_a_carriage_return() {
    let request = request(None, true);
    let mut session = authenticated(&request);
    let (id, key) = (format!("250-ServiceID={SERVICE}"), format!("250-PrivateKey={KEY}"));
    let text = format!("250 OK\n250 OK\r\n{id}\n{key}\r\n250 OK\n");
    let mut all = Vec::new();
    for byte in text.bytes() {
        session.receive(&secret(&[byte])).expect("Tor's words");
        all.extend(done(&mut session));
    }
    let serve = format!("serve {SERVICE}.onion");
    let expected = ["> GETINFO net/listeners/socks", ADD, "proxy 127.0.0.1:9050"];
    assert_eq!(all[..3], expected);
    assert_eq!(all[3..], [format!("keep {KEY}"), serve]);
}

#[test]
fn a_password_goes_between_quotes() {
    for (password, sent) in [
        ("hunter2", r#"> AUTHENTICATE "hunter2""#),
        (r#"a"b\c"#, r#"> AUTHENTICATE "a\"b\\c""#),
        ("a\r\nSIGNAL HALT", r#"> AUTHENTICATE "a\r\nSIGNAL HALT""#),
        ("größe", r#"> AUTHENTICATE "größe""#),
    ] {
        let request = request(Some(password), false);
        let methods = "COOKIE,SAFECOOKIE,HASHEDPASSWORD COOKIEFILE=\"/c\"";
        let mut session = informed(&request, methods).expect("a way");
        assert_eq!(done(&mut session), [sent]);
        assert_eq!(says(&mut session, &["250 OK"]), Ok(vec![ADD.to_owned()]));
    }
}

/// Bytes from 0 to 31 are the cookie, up to 63 our nonce, up to 95 Tor's; hashes by Python's `hmac`.
#[test]
fn both_sides_prove_that_they_know_the_cookie() {
    const HASH: &str = "3c8780ab52365c0d080750447e5f64dabc00428c6c434579c2043e18c1f85389";
    const NONCE_OF_TOR: &str = "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f";
    const OURS: &str = "b47642df2d5abb84f69e6d02d41bed6b44aee33e69562528a82166fc98bc0b1e";
    let cookie = || secret(&std::array::from_fn::<u8, 32, _>(|n| n as u8));
    let request = request(None, false);
    let challenged = || {
        let methods = "COOKIE,SAFECOOKIE,HASHEDPASSWORD COOKIEFILE=\"/run/tor/a\\\"b\"";
        let mut session = informed(&request, methods).expect("a way");
        assert_eq!(done(&mut session), ["cookie /run/tor/a\"b"]);
        assert!(!session.awaits_answer());
        session.take_cookie(cookie()).expect("of the right length");
        let nonce = hex::encode(NONCE);
        assert_eq!(done(&mut session), [format!("> AUTHCHALLENGE SAFECOOKIE {nonce}")]);
        session
    };
    let answer = |hash: &str, nonce: &str| {
        format!("250 AUTHCHALLENGE SERVERHASH={hash} SERVERNONCE={nonce}")
    };
    let mut session = challenged();
    let command = says(&mut session, &[&answer(&HASH.to_uppercase(), NONCE_OF_TOR)]);
    assert_eq!(command, Ok(vec![format!("> AUTHENTICATE {OURS}")]));
    assert_eq!(says(&mut session, &["250 OK"]), Ok(vec![ADD.to_owned()]));

    let other = HASH.replacen('3', "4", 1);
    for (line, why) in [
        (answer(&other, NONCE_OF_TOR), TorError::WrongCookie),
        (answer(HASH, &NONCE_OF_TOR[2..]), TorError::Malformed),
        (answer(HASH, "x"), TorError::Malformed),
        (answer(&HASH[2..], NONCE_OF_TOR), TorError::Malformed),
        ("250 OK".to_owned(), TorError::Malformed),
        ("513 no".to_owned(), TorError::NoChallenge(513)),
    ] {
        assert_eq!(says(&mut challenged(), &[&line]), Err(why), "{line}");
    }
    for length in [0, 31, 33] {
        let mut session = informed(&request, "SAFECOOKIE COOKIEFILE=\"/c\"").expect("a way");
        let cookie = secret(&vec![7; length]);
        assert_eq!(session.take_cookie(cookie), Err(TorError::CookieLength), "{length}");
    }
}

#[test]
fn what_tor_refuses_ends_the_session_with_its_code() {
    let (without, with) = (request(None, true), request(Some("p"), true));
    let refused = |request, methods: &str| informed(request, methods).map(drop);
    assert_eq!(refused(&without, "HASHEDPASSWORD"), Err(TorError::PasswordWanted));
    assert_eq!(refused(&without, "COOKIE"), Err(TorError::NoMethod));
    assert_eq!(refused(&without, ""), Err(TorError::NoMethod));
    assert_eq!(refused(&with, "NULL"), Err(TorError::PasswordNotTaken));
    assert_eq!(refused(&with, "SAFECOOKIE COOKIEFILE=\"/c\""), Err(TorError::PasswordNotTaken));

    let said = says(&mut begun(&without), &["510 Unrecognized command"]);
    assert_eq!(said, Err(TorError::NoProtocolInfo(510)));
    let said = says(&mut authenticated(&without), &["515 Authentication failed"]);
    assert_eq!(said, Err(TorError::NotAuthenticated(515)));
    // Of its proxy Tor may tell what it likes: the usual one is taken.
    let mut session = authenticated(&without);
    says(&mut session, &["250 OK"]).expect("authenticated");
    let said = says(&mut session, &["510 Unrecognized command"]);
    assert_eq!(said, Ok(vec!["proxy 127.0.0.1:9050".to_owned()]));
    assert_eq!(says(&mut session, &["512 Unrecognized argument"]), Ok(vec![ADD_SIMPLY.to_owned()]));
    assert_eq!(says(&mut session, &["512 no"]), Err(TorError::NoService(512)));
}

#[test]
fn a_service_has_an_address_and_a_new_one_a_key() {
    let request = request(None, false);
    let (id, key) = (format!("250-ServiceID={SERVICE}"), format!("250-PrivateKey={KEY}"));
    let (id, key) = (id.as_str(), key.as_str());
    for lines in [
        &["250 OK"][..],
        &[key, "250 OK"],
        &[id, "250 OK"],
        &[id, "250-PrivateKey=RSA1024:abc", "250 OK"],
        &["250-ServiceID=short", key, "250 OK"],
        &["250-ServiceID=127.0.0.1", key, "250 OK"],
    ] {
        let mut session = authenticated(&request);
        says(&mut session, &["250 OK"]).expect("authenticated");
        assert_eq!(says(&mut session, lines), Err(TorError::Malformed), "{lines:?}");
    }
}

#[test]
fn a_line_has_so_many_bytes_and_no_more() {
    let request = request(None, false);
    let line = |length: usize| secret(format!("250-{}\n", "x".repeat(length - 4)).as_bytes());
    assert_eq!(begun(&request).receive(&line(MAX_TOR_LINE)), Ok(()));
    assert_eq!(begun(&request).receive(&line(MAX_TOR_LINE + 1)), Err(TorError::LongLine));
    // Without an end too, in pieces.
    let mut session = begun(&request);
    let piece = secret(&[b'x'; 1_000]);
    for _ in 0..MAX_TOR_LINE / 1_000 {
        assert_eq!(session.receive(&piece), Ok(()));
    }
    assert_eq!(session.receive(&secret(b"x")), Err(TorError::LongLine));
}

#[test]
fn an_actions_debug_form_tells_no_secret() {
    let request = request(Some("hunter2"), false);
    let mut session = informed(&request, "HASHEDPASSWORD").expect("a way");
    let key = OnionKey::parse(secret(KEY.as_bytes())).expect("a key");
    let actions = [session.take_actions(), VecDeque::from([TorAction::KeepKey(key)])];
    let shown = format!("{actions:?} {request:?}");
    assert!(!shown.contains("hunter2") && !shown.contains(&KEY[11..]), "{shown}");
}

mod any {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = Vec<u8>> {
        let known = prop::sample::select(vec![
            "250 OK",
            "250-AUTH METHODS=NULL",
            "250-AUTH METHODS=SAFECOOKIE COOKIEFILE=\"\\\\\"",
            "250+data=",
            ".",
            "250-net/listeners/socks=\"::\" ''",
            "512 no",
            "650 NEWS",
            "250-ServiceID=\"",
            "250-PrivateKey=",
            "250 AUTHCHALLENGE SERVERHASH= SERVERNONCE=\"\"",
        ]);
        prop_oneof![
            known.prop_map(|text| text.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    proptest! {
        /// Cut anywhere, the same bytes have the same effect; and none has a panic.
        #[test]
        fn how_bytes_are_cut_does_not_matter(
            lines in prop::collection::vec(line(), 0..30),
            piece in 1..50usize,
        ) {
            let bytes = lines.join(&b"\r\n"[..]);
            let request = request(None, true);
            let outcome = |pieces: Vec<&[u8]>| {
                let mut session = begun(&request);
                let ended = pieces.into_iter().try_for_each(|piece| session.receive(&secret(piece)));
                (ended, done(&mut session))
            };
            let whole = outcome(vec![&bytes]);
            let cut = outcome(bytes.chunks(piece).collect());
            prop_assert_eq!(whole, cut);
        }
    }
}
