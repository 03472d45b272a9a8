//! The thread beside a control port that says what a test wants.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::thread;

use crossbeam_channel::unbounded;
use rustix::fs::mkfifoat;
use tempfile::TempDir;

use super::key_file::KEY_FILE;
use super::*;
use crate::options::PlainPassword;

const SERVICE: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd";
const KEY: &str = "ED25519-V3:yLSDc8b11PaIHTtNtvi9lNW99IME2mdrO4k381zDkHv+a\
    WRUGrkBALBQ9MbHy2SLA/NmfS7YxmcR/FY8ppRfIA==";
const NEW: &str = "ADD_ONION NEW:ED25519-V3 PoWDefensesEnabled=1 Port=18444,127.0.0.1:18445";

/// How long anything may take before a test gives up. No result depends on it.
const LIMIT: Duration = Duration::from_secs(60);

/// What is sent after each command of a connection, one after the other; the connection ends behind the last.
type Script = Vec<String>;

/// A control port whose connections follow scripts, one after the other.
struct Control {
    address: SocketAddr,
    /// What arrives there; `None` where a connection ends.
    heard: Receiver<Option<String>>,
}

impl Control {
    fn start(scripts: Vec<Script>) -> Self {
        Self::with(scripts, unbounded())
    }

    /// One that answers no command before the test has taken it.
    fn in_step(scripts: Vec<Script>) -> Self {
        Self::with(scripts, bounded(0))
    }

    fn with(
        scripts: Vec<Script>,
        (hears, heard): (Sender<Option<String>>, Receiver<Option<String>>),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for script in scripts {
                let (stream, _) = listener.accept().expect("it listens");
                let mut lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
                for answer in script {
                    let Some(Ok(line)) = lines.next() else { break };
                    // The test may have ended.
                    if hears.send(Some(line)).is_err() {
                        return;
                    }
                    if (&stream).write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
                if hears.send(None).is_err() {
                    return;
                }
            }
        });
        Self { address, heard }
    }

    #[track_caller]
    fn hears(&self) -> Option<String> {
        self.heard.recv_timeout(LIMIT).expect("a line in time")
    }
}

fn options(control: SocketAddr) -> TorOptions {
    TorOptions {
        control,
        password: None,
        target: "127.0.0.1:18445".parse().expect("an address"),
        asks_for_proxy: true,
        reaches: true,
    }
}

fn start(options: &TorOptions, dir: &TempDir) -> TorThread {
    TorThread::start(options, 18444, dir.path()).expect("a thread")
}

#[track_caller]
fn next_news(tor: &TorThread) -> TorNews {
    tor.news.recv_timeout(LIMIT).expect("news in time")
}

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\r\n")).collect()
}

fn info(methods: &str) -> String {
    lines(&["250-PROTOCOLINFO 1", &format!("250-AUTH METHODS={methods}"), "250 OK"])
}

fn socks() -> String {
    lines(&["250-net/listeners/socks=\"127.0.0.1:9150\"", "250 OK"])
}

fn service(key: Option<&str>) -> String {
    let mut answer = lines(&[&format!("250-ServiceID={SERVICE}")]);
    if let Some(key) = key {
        answer += &lines(&[&format!("250-PrivateKey={key}")]);
    }
    answer + &lines(&["250 OK"])
}

fn address() -> NetAddress {
    format!("{SERVICE}.onion:18444").parse().expect("an address")
}

fn proxy() -> TorNews {
    TorNews::Proxy("127.0.0.1:9150".parse().expect("an address"))
}

#[test]
fn a_service_is_made_again_with_its_key_when_the_connection_was_lost() {
    let ok = || lines(&["250 OK"]);
    let with = |key| vec![info("NULL"), ok(), socks(), service(key), String::new()];
    // The first connection ends behind the service.
    let mut first = with(Some(KEY));
    first.pop();
    let control = Control::start(vec![first, with(None)]);
    let dir = tempfile::tempdir().expect("a directory");
    let tor = start(&options(control.address), &dir);
    let asked: Vec<Option<String>> = (0..4).map(|_| control.hears()).collect();
    let expected = ["PROTOCOLINFO 1", "AUTHENTICATE", "GETINFO net/listeners/socks", NEW];
    assert_eq!(asked, expected.map(|line| Some(line.to_owned())));
    assert_eq!(next_news(&tor), proxy());
    assert_eq!(next_news(&tor), TorNews::Serving(address()));
    assert_eq!(fs::read_to_string(dir.path().join(KEY_FILE)).expect("a file"), KEY);

    assert_eq!((control.hears(), next_news(&tor)), (None, TorNews::Lost(address())));
    let again: Vec<Option<String>> = (0..4).map(|_| control.hears()).collect();
    let add = NEW.replace("NEW:ED25519-V3", KEY);
    assert_eq!(again[3].as_deref(), Some(&*add));
    assert_eq!(next_news(&tor), proxy());
    assert_eq!(next_news(&tor), TorNews::Serving(address()));
    // The thread waits for nothing but the end.
    drop(tor);
    assert_eq!(control.hears(), None);
}

#[test]
fn who_does_not_answer_as_tor_does_is_called_again_later() {
    let garbage = String::from_utf8_lossy(&[7; 200]).into_owned() + "\n";
    let long = "250-".to_owned() + &"x".repeat(200_000);
    let ok = || lines(&["250 OK"]);
    let control = Control::in_step(vec![
        vec![garbage],
        vec![long],
        vec![info("NULL"), lines(&["515 Authentication failed"])],
        vec![
            info("NULL"),
            ok(),
            lines(&["510 what?"]),
            lines(&["512 what?"]),
            service(Some(KEY)),
            String::new(),
        ],
    ]);
    let dir = tempfile::tempdir().expect("a directory");
    let tor = start(&options(control.address), &dir);
    let mut heard = Vec::new();
    while heard.iter().filter(|line| **line == Some("PROTOCOLINFO 1".to_owned())).count() < 4 {
        heard.push(control.hears());
    }
    assert_eq!(heard.iter().filter(|line| line.is_none()).count(), 3);
    // The fourth one comes to its key only after commands that are taken below.
    assert!(!dir.path().join(KEY_FILE).exists());
    // It does not tell its proxy, and knows no proof of work.
    let asked: Vec<Option<String>> = (0..4).map(|_| control.hears()).collect();
    assert_eq!(asked[2].as_deref(), Some(NEW));
    assert_eq!(asked[3].as_deref(), Some(&*NEW.replace(" PoWDefensesEnabled=1", "")));
    let usual = TorNews::Proxy("127.0.0.1:9050".parse().expect("an address"));
    assert_eq!(next_news(&tor), usual);
    assert_eq!(next_news(&tor), TorNews::Serving(address()));
    assert!(dir.path().join(KEY_FILE).exists());
}

#[test]
fn the_end_waits_neither_for_a_pause_nor_for_an_answer() {
    let dir = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let tor = start(&options(address), &dir);
    let (mut stream, _) = listener.accept().expect("it calls");
    let mut asked = [0; 16];
    stream.read_exact(&mut asked).expect("a command");
    assert_eq!(&asked, b"PROTOCOLINFO 1\r\n");
    drop(tor);
    assert_eq!(stream.read(&mut asked).expect("its end"), 0);

    drop(listener);
    let tor = start(&options(address), &dir);
    assert_eq!(tor.take_news(), None);
    drop(tor);
}

#[test]
fn a_password_is_sent_and_no_service_is_asked_for_without_the_proxy() {
    let ok = || lines(&["250 OK"]);
    let script = vec![info("HASHEDPASSWORD"), ok(), service(Some(KEY)), String::new()];
    let control = Control::start(vec![script]);
    let dir = tempfile::tempdir().expect("a directory");
    let password = Some(PlainPassword::new("pass\"word"));
    let asks_for_proxy = false;
    let tor = start(&TorOptions { password, asks_for_proxy, ..options(control.address) }, &dir);
    assert_eq!(next_news(&tor), TorNews::Serving(address()));
    let asked: Vec<Option<String>> = (0..3).map(|_| control.hears()).collect();
    let expected = ["PROTOCOLINFO 1", r#"AUTHENTICATE "pass\"word""#, NEW];
    assert_eq!(asked, expected.map(|line| Some(line.to_owned())));
}

#[test]
fn a_file_that_is_no_cookie_is_neither_waited_for_nor_sent() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    for (name, length) in [("empty", 0), ("short", 31), ("long", 33)] {
        fs::write(path(name), vec![b'c'; length]).expect("there is room");
    }
    fs::create_dir(path("directory")).expect("there is room");
    mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::from_raw_mode(0o600))
        .expect("there is room");
    for name in ["empty", "short", "long", "directory", "pipe", "absent"] {
        let methods = format!("SAFECOOKIE COOKIEFILE=\"{}\"", path(name).display());
        let control = Control::start(vec![vec![info(&methods), String::new()]]);
        let tor = start(&options(control.address), &dir);
        assert_eq!(control.hears().as_deref(), Some("PROTOCOLINFO 1"), "{name}");
        assert_eq!(control.hears(), None, "{name}: it hangs up");
        drop(tor);
    }
    assert_eq!(cookie(&path("short")).expect("it is read").len(), 31);
    assert_eq!(cookie(&path("long")).expect("it is read").len(), 33);
    fs::write(path("right"), [b'c'; 32]).expect("there is room");
    assert_eq!(cookie(&path("right")).expect("it is read").len(), 32);
    assert!(matches!(cookie(&path("pipe")), Err(Fault::Cookie(..))));
}

#[test]
fn a_key_file_that_is_none_makes_no_other_service() {
    let control = Control::start(vec![vec![info("NULL"), String::new()]]);
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join(KEY_FILE), "no key").expect("there is room");
    let tor = start(&options(control.address), &dir);
    assert_eq!(control.hears(), None, "it hangs up");
    drop(tor);
    assert_eq!(fs::read_to_string(dir.path().join(KEY_FILE)).expect("a file"), "no key");
}
