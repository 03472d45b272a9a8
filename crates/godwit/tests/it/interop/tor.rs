//! The onion service: beside bitcoind at a control port of the test's, and with Debian's Tor. That Tor
//! reaches nobody: all that it sends goes to a proxy that is not there.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use bitcoin::hashes::{Hash, HashEngine, Hmac, HmacEngine, sha256};
use serde_json::{Value, json};

use super::api::Answering;
use super::process::{Place, Program, cached};
use super::rpc::Rpc;
use super::{LIMIT, bitcoind, free_port, wait_until};
use crate::node::Node;

const SERVICE: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd";
const KEY: &str = "ED25519-V3:yLSDc8b11PaIHTtNtvi9lNW99IME2mdrO4k381zDkHv+a\
    WRUGrkBALBQ9MbHy2SLA/NmfS7YxmcR/FY8ppRfIA==";
const KEY_FILE: &str = "onion_v3_private_key";
const COOKIE: [u8; 32] = [0xc0; 32];

/// How a control port of the test answers.
#[derive(Clone)]
struct Manner {
    methods: String,
    /// It knows the proof of work.
    has_defences: bool,
    socks: &'static str,
}

/// A control port that answers as Tor does, and tells the test what it was asked.
struct Control {
    port: u16,
    asked: Receiver<String>,
}

fn proof(key: &str, nonce: &[u8]) -> String {
    let mut engine = HmacEngine::<sha256::Hash>::new(key.as_bytes());
    [&COOKIE[..], nonce, &[7; 32]].iter().for_each(|part| engine.input(part));
    Hmac::<sha256::Hash>::from_engine(engine).to_string()
}

impl Control {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it is bound").port();
        let (sender, asked) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("it listens");
                let lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
                let mut nonce = Vec::new();
                for line in lines.map_while(Result::ok) {
                    let (answer, shown) = answer(&manner, &line, &mut nonce);
                    // The test may have ended.
                    if sender.send(shown).is_err() || stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            }
        });
        Self { port, asked }
    }

    /// Commands up to one that asks for a service and is not refused.
    fn dialogue(&self, manner: &Manner) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let line = self.asked.recv_timeout(LIMIT).expect("a command in time");
            let asks = line.starts_with("ADD_ONION");
            let is_refused = line.contains(" PoWDefensesEnabled=1") && !manner.has_defences;
            all.push(line);
            if asks && !is_refused {
                return all;
            }
        }
    }
}

/// The answer to a command, and the command without what is random.
fn answer(manner: &Manner, line: &str, nonce: &mut Vec<u8>) -> (String, String) {
    let ok = "250 OK\r\n".to_owned();
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    let answer = match command {
        "PROTOCOLINFO" => {
            format!(
                "250-PROTOCOLINFO 1\r\n250-AUTH METHODS={}\r\n250-VERSION Tor=\"0.4.8.10\"\r\n{ok}",
                manner.methods
            )
        }
        "AUTHCHALLENGE" => {
            *nonce = hex::decode(&rest["SAFECOOKIE ".len()..]).expect("hexadecimal");
            assert_eq!(nonce.len(), 32);
            let hash = proof("Tor safe cookie authentication server-to-controller hash", nonce);
            let ours = hex::encode([7; 32]);
            let challenge = format!("250 AUTHCHALLENGE SERVERHASH={hash} SERVERNONCE={ours}\r\n");
            return (challenge, "AUTHCHALLENGE SAFECOOKIE".to_owned());
        }
        "AUTHENTICATE" if !nonce.is_empty() => {
            let proof = proof("Tor safe cookie authentication controller-to-server hash", nonce);
            assert_eq!(rest, proof);
            return (ok, "AUTHENTICATE with the proof".to_owned());
        }
        "GETINFO" => format!("250-net/listeners/socks={}\r\n{ok}", manner.socks),
        "ADD_ONION" if rest.contains("PoWDefensesEnabled") && !manner.has_defences => {
            "512 Bad arguments to ADD_ONION\r\n".to_owned()
        }
        "ADD_ONION" if rest.starts_with("NEW:") => {
            format!("250-ServiceID={SERVICE}\r\n250-PrivateKey={KEY}\r\n{ok}")
        }
        "ADD_ONION" => format!("250-ServiceID={SERVICE}\r\n{ok}"),
        _ => ok,
    };
    (answer, line.to_owned())
}

/// What a node shows of onion addresses: its own, and how others are reached.
fn shown(rpc: Rpc) -> Value {
    let info = rpc.call("getnetworkinfo", &json!([]));
    let networks = info["networks"].as_array().expect("networks");
    let onion = networks.iter().find(|network| network["name"] == "onion").expect("it is listed");
    json!({ "own": info["localaddresses"], "network": onion })
}

#[track_caller]
fn wait_for_service(rpc: Rpc) -> Value {
    wait_until("there is a service", || {
        let own = &shown(rpc)["own"];
        own[0]["address"].as_str().is_some_and(|address| address.ends_with(".onion"))
    });
    shown(rpc)
}

#[track_caller]
fn wait_for_proxy(rpc: Rpc, proxy: &str) -> Value {
    wait_until("Tor's proxy is known", || shown(rpc)["network"]["proxy"] == proxy);
    shown(rpc)
}

/// What is said to Tor in one manner, and what becomes of it.
struct Case {
    manner: Manner,
    options: &'static [&'static str],
    /// But for the first command, and those that ask for the service.
    asked: &'static [&'static str],
    reachable: bool,
    proxy: &'static str,
}

const ASKS_FOR_PROXY: &str = "GETINFO net/listeners/socks";

fn cases(cookie: &Path) -> [Case; 5] {
    let usual = Case {
        manner: Manner {
            methods: "NULL".to_owned(),
            has_defences: true,
            socks: "\"127.0.0.1:9150\"",
        },
        options: &[],
        asked: &["AUTHENTICATE", ASKS_FOR_PROXY],
        reachable: true,
        proxy: "127.0.0.1:9150",
    };
    let with = |methods: &str, has_defences, socks| {
        let methods = methods.replace("\"FILE\"", &format!("\"{}\"", cookie.display()));
        Manner { methods, has_defences, socks }
    };
    let manner = || usual.manner.clone();
    let by_cookie = Case {
        manner: with("COOKIE,SAFECOOKIE COOKIEFILE=\"FILE\"", false, "\"unix:/x\" \"[::1]:1\""),
        asked: &["AUTHCHALLENGE SAFECOOKIE", "AUTHENTICATE with the proof", ASKS_FOR_PROXY],
        proxy: "[::1]:1",
        ..usual
    };
    let by_password = Case {
        manner: with("NULL,SAFECOOKIE,HASHEDPASSWORD COOKIEFILE=\"FILE\"", true, ""),
        options: &["-torpassword=pass\"word"],
        asked: &["AUTHENTICATE \"pass\\\"word\"", ASKS_FOR_PROXY],
        proxy: "127.0.0.1:9050",
        ..usual
    };
    let with_proxy = Case {
        manner: manner(),
        options: &["-onion=127.0.0.1:9999"],
        asked: &["AUTHENTICATE"],
        proxy: "127.0.0.1:9999",
        ..usual
    };
    let elsewhere =
        Case { manner: manner(), options: &["-onlynet=ipv4"], reachable: false, ..usual };
    [by_cookie, by_password, with_proxy, elsewhere, usual]
}

#[test]
fn tor_is_asked_what_bitcoind_asks() {
    let directory = tempfile::tempdir().expect("a directory");
    let cookie = directory.path().join("cookie");
    fs::write(&cookie, COOKIE).expect("there is room");
    for Case { manner, options, asked, reachable, proxy } in cases(&cookie) {
        let target = free_port();
        let options = |control: &Control| {
            let mut all = vec!["-listenonion=1".to_owned(), "-discover=0".to_owned()];
            all.push(format!("-bind=127.0.0.1:{target}=onion"));
            all.push(format!("-torcontrol=127.0.0.1:{}", control.port));
            all.extend(options.iter().map(|option| (*option).to_owned()));
            all
        };
        let control = Control::start(manner.clone());
        let node = Node::new("regtest");
        let of_godwit = [vec!["-listen=1".to_owned()], options(&control)].concat();
        let mut godwit = Answering::start(&node, &of_godwit);
        // Peers are told of the service only where peers are chosen among onion addresses.
        let wait = |rpc| if reachable { wait_for_service(rpc) } else { wait_for_proxy(rpc, proxy) };
        let ours = (control.dialogue(&manner), wait(godwit.rpc));
        let add = |key: &str, defences: &str| {
            format!("ADD_ONION {key}{defences} Port=18444,127.0.0.1:{target}")
        };
        let adds = |key| {
            let with = add(key, " PoWDefensesEnabled=1");
            if manner.has_defences { vec![with] } else { vec![with, add(key, "")] }
        };
        let said = |adds: Vec<String>| {
            let mut all = vec!["PROTOCOLINFO 1".to_owned()];
            all.extend(asked.iter().map(|line| (*line).to_owned()));
            all.extend(adds);
            all
        };
        assert_eq!(ours.0, said(adds("NEW:ED25519-V3")));
        let own = json!({ "address": format!("{SERVICE}.onion"), "port": 18444, "score": 4 });
        let own = if reachable { json!([own]) } else { json!([]) };
        assert_eq!(ours.1["own"], own);
        let onion = &ours.1["network"];
        assert_eq!((&onion["reachable"], &onion["proxy"]), (&json!(reachable), &json!(proxy)));
        // The same service again.
        godwit.restart(&node, &of_godwit);
        assert_eq!(control.dialogue(&manner), said(adds(KEY)));
        assert_eq!(wait(godwit.rpc), ours.1);
        drop(godwit);

        let control = Control::start(manner.clone());
        let of_core = options(&control);
        let of_core: Vec<&str> = of_core.iter().map(String::as_str).collect();
        let start = bitcoind::Start { options: &of_core, ..bitcoind::Start::default() };
        let Some(bitcoind) = bitcoind::start(&start) else { continue };
        assert_eq!((control.dialogue(&manner), wait(bitcoind.rpc)), ours);
    }
}

/// Debian's Tor.
struct Tor {
    place: Place,
    socks_port: u16,
    running: Program,
}

impl Tor {
    /// `None` when it is not in the cache.
    #[track_caller]
    fn start(authentication: Authentication) -> Option<Self> {
        let program = cached("Tor", "tor/tor")?;
        let (place, socks_port) = (Place::new(), free_port());
        let data = place.path("data");
        fs::create_dir(&data).expect("a temporary directory");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let torrc = format!(
            "DataDirectory {}\nControlPort 127.0.0.1:{}\nSocksPort 127.0.0.1:{socks_port}\nLog notice stdout\n\
             Socks5Proxy 127.0.0.1:1\n{}\n",
            data.display(),
            place.port,
            authentication(&program, &data),
        );
        fs::write(place.path("torrc"), torrc).expect("there is room");
        let mut command = Command::new(&program);
        // Nothing of what this machine's Tor is told.
        command.arg("--defaults-torrc").arg("/dev/null").arg("-f").arg(place.path("torrc"));
        let running = Program::start_saying(command, place.path("said"));
        Some(Self { place, socks_port, running })
    }
}

/// Lines of `torrc` for a program and its directory.
type Authentication = fn(&Path, &Path) -> String;

const PASSWORD: &str = "pass\"w\\rd";

fn by_cookie(_: &Path, data: &Path) -> String {
    format!("CookieAuthentication 1\nCookieAuthFile \"{}\"", data.join("cookie file").display())
}

fn by_password(program: &Path, _: &Path) -> String {
    let said = Command::new(program).args(["--quiet", "--hash-password", PASSWORD]).output();
    let said = String::from_utf8(said.expect("it starts").stdout).expect("text");
    let hash = said.lines().find(|line| line.starts_with("16:")).expect("a hash");
    format!("HashedControlPassword {hash}")
}

#[test]
fn debians_tor_makes_a_service_whose_address_stays() {
    let ways: [(Authentication, Option<String>); 2] =
        [(by_cookie, None), (by_password, Some(format!("-torpassword={PASSWORD}")))];
    for (way, password) in ways {
        let Some(mut tor) = Tor::start(way) else { return };
        let node = Node::new("regtest");
        let mut options = vec!["-listen=1".to_owned(), "-listenonion=1".to_owned()];
        options.push(format!("-bind=127.0.0.1:{}=onion", free_port()));
        options.push(format!("-torcontrol=127.0.0.1:{}", tor.place.port));
        options.extend(password);
        let mut godwit = Answering::start(&node, &options);
        let first = wait_for_service(godwit.rpc);
        assert_eq!(
            (&first["own"][0]["port"], &first["own"][0]["score"]),
            (&json!(18444), &json!(4))
        );
        let proxy = format!("127.0.0.1:{}", tor.socks_port);
        let onion = &first["network"];
        assert_eq!((&onion["reachable"], &onion["proxy"]), (&json!(true), &json!(proxy)));
        let key = node.network_dir().join(KEY_FILE);
        let kept = fs::read(&key).expect("a key");
        let mode = fs::metadata(&key).expect("it is there").permissions().mode();
        assert_eq!((mode & 0o777, kept.starts_with(b"ED25519-V3:")), (0o600, true));

        godwit.restart(&node, &options);
        assert_eq!(wait_for_service(godwit.rpc), first, "the same address");
        assert_eq!(fs::read(&key).expect("a key"), kept);
        // Without Tor there is no service, and with it there is one again.
        tor.running.kill();
        wait_until("the address is forgotten", || shown(godwit.rpc)["own"] == json!([]));
        tor.running.start_again();
        assert_eq!(wait_for_service(godwit.rpc), first, "the same address");
        assert!(godwit.running.terminate().1.success());
    }
}
