//! The thread beside a router of the test's, at a port of the loopback interface.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc;

use super::*;

/// Short enough for a test, and long enough for an answer.
const BRIEF: Patience = Patience { tries: 3, timeout: Duration::from_millis(300) };
/// Answers come however busy the machine is: no test waits for this to pass.
const ENOUGH: Patience = Patience { tries: 1, timeout: Duration::from_secs(600) };

/// How long a request may take before a test gives up. No result depends on it.
const LIMIT: Duration = Duration::from_secs(60);

const PORT: u16 = 8333;
const NONCE: [u8; MAPPING_NONCE_SIZE] = *b"abcdefghijkl";

/// What the router says to its n-th request, one packet after another.
type Script = Box<dyn FnMut(usize, &[u8]) -> Vec<Vec<u8>> + Send>;

/// A router that remembers what it was asked.
struct Router {
    route: Route,
    asked: mpsc::Receiver<Vec<u8>>,
}

impl Router {
    fn start(mut script: Script) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let gateway = socket.local_addr().expect("it is bound");
        let (sender, asked) = mpsc::channel();
        std::thread::spawn(move || {
            let mut packet = [0; MAX_MAPPING_PACKET];
            for n in 0.. {
                let (len, from) = socket.recv_from(&mut packet).expect("a request");
                let answers = script(n, &packet[..len]);
                // The test may have ended.
                if sender.send(packet[..len].to_vec()).is_err() {
                    return;
                }
                for answer in answers {
                    socket.send_to(&answer, from).expect("it can be sent");
                }
            }
        });
        Self { route: Route { gateway, own: Ipv4Addr::UNSPECIFIED.into() }, asked }
    }

    /// What is mapped, and the requests for it.
    fn map(&self, patience: Patience) -> (Result<Mapping, Fault>, Vec<Vec<u8>>) {
        let (ending, mapper, _news) = mapper(patience, Vec::new());
        let mapping = mapper.map(&self.route, &NONCE);
        drop(ending);
        (mapping, self.asked.try_iter().collect())
    }
}

fn mapper(patience: Patience, routes: Vec<Route>) -> (Sender<()>, Mapper, Receiver<NetAddress>) {
    let (ending, ends) = bounded(0);
    let (sender, news) = bounded(MAX_NEWS);
    let routes = Box::new(move || routes.clone());
    (ending, Mapper { port: PORT, patience, routes, news: sender, ends }, news)
}

/// An answer of PCP to this request: the external port, the lifetime, and a code.
fn granted(request: &[u8], port: u16, lifetime: u32, code: u8) -> Vec<u8> {
    let mut answer = request.to_vec();
    (answer[1], answer[3]) = (0x81, code);
    answer[4..8].copy_from_slice(&lifetime.to_be_bytes());
    answer[8..24].fill(0);
    answer[42..44].copy_from_slice(&port.to_be_bytes());
    answer[56..60].copy_from_slice(&[9, 8, 7, 6]);
    answer
}

fn is_pcp(request: &[u8]) -> bool {
    request.len() == 60 && request[..2] == [2, 1]
}

fn external(mapping: Result<Mapping, Fault>) -> String {
    let Mapping { protocol, external, lifetime } = mapping.expect("a mapping");
    format!("{protocol} {external} {lifetime}")
}

fn refused(mapping: Result<Mapping, Fault>) -> String {
    match mapping {
        Err(Fault::Refused(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_port_is_mapped_by_pcp_from_the_address_towards_the_router() {
    let router = Router::start(Box::new(|_, request| vec![granted(request, 9333, 1_800, 0)]));
    let (mapping, asked) = router.map(ENOUGH);
    assert_eq!(external(mapping), "pcp 9.8.7.6:9333 1800");
    let client = Ipv4Addr::LOCALHOST.into();
    let wanted = Ipv4Addr::UNSPECIFIED.into();
    let request = MappingRequest { nonce: NONCE, client, wanted, port: PORT, lifetime: 2_400 };
    assert_eq!(asked, [request.pcp().to_vec()]);
}

#[test]
fn what_is_no_answer_is_passed_over() {
    let router = Router::start(Box::new(|_, request| {
        let good = granted(request, 9333, 1_800, 0);
        let (mut nonce, mut port) = (granted(request, 1, 1, 0), granted(request, 2, 2, 0));
        nonce[30] ^= 1;
        port[41] ^= 1;
        let short = good[..59].to_vec();
        vec![Vec::new(), vec![0xff; 1_100], b"garbage".to_vec(), nonce, port, short, good]
    }));
    let (mapping, asked) = router.map(ENOUGH);
    assert_eq!((external(mapping), asked.len()), ("pcp 9.8.7.6:9333 1800".to_owned(), 1));
}

#[test]
fn a_silent_router_is_asked_three_times() {
    let silent = Router::start(Box::new(|_, _| Vec::new()));
    let (mapping, mut asked) = silent.map(BRIEF);
    assert!(matches!(mapping, Err(Fault::Silent)), "{mapping:?}");
    // The last one may still be on its way.
    while asked.len() < 3 {
        asked.push(silent.asked.recv_timeout(LIMIT).expect("a request"));
    }
    assert_eq!(silent.asked.try_iter().count(), 0);
    assert!(asked.iter().all(|request| *request == asked[0]));
    // Its answer to the last request counts.
    let slow = Router::start(Box::new(|n, request| match n {
        2 => vec![granted(request, 9333, 1_800, 0)],
        _ => Vec::new(),
    }));
    assert_eq!(
        external(slow.map(Patience { timeout: Duration::from_secs(1), ..BRIEF }).0),
        "pcp 9.8.7.6:9333 1800"
    );
}

#[test]
fn an_older_router_is_asked_by_natpmp() {
    let script = |code: u8| -> Script {
        Box::new(move |_, request| match request {
            request if is_pcp(request) => vec![vec![0, 0x81, 0, 1, 0, 0, 0, 5]],
            [0, 0] => {
                vec![b"\0\x82\0\0".to_vec(), b"\0\x80\0\0\0\0\0\x05\x09\x08\x07\x06".to_vec()]
            }
            [0, 2, ..] => {
                let lifetime = 600_u32.to_be_bytes();
                let head = [0, 0x82, 0, code, 0, 0, 0, 5, request[4], request[5], 0x24, 0x75];
                vec![[&head[..], &lifetime].concat()]
            }
            other => panic!("{other:?}"),
        })
    };
    let router = Router::start(script(0));
    let (mapping, asked) = router.map(ENOUGH);
    assert_eq!(external(mapping), "natpmp 9.8.7.6:9333 600");
    assert_eq!(asked[1..], [vec![0, 0], b"\0\x02\0\0\x20\x8d\x20\x8d\0\0\x09\x60".to_vec()]);
    let (mapping, _) = Router::start(script(4)).map(ENOUGH);
    assert_eq!(refused(mapping), "natpmp NO_RESOURCES (code 4)");
    let no_address = Router::start(Box::new(|_, request| match is_pcp(request) {
        true => vec![vec![0, 0x81, 0, 1, 0, 0, 0, 5]],
        false => vec![b"\0\x80\0\x03\0\0\0\x05\0\0\0\0".to_vec()],
    }));
    assert_eq!(refused(no_address.map(ENOUGH).0), "natpmp NETWORK_FAILURE (code 3)");
}

#[test]
fn a_refusal_ends_the_attempt() {
    for (code, told) in [(2, "pcp NOT_AUTHORIZED (code 2)"), (8, "pcp NO_RESOURCES (code 8)")] {
        let script = move |_: usize, request: &[u8]| vec![granted(request, 0, 0, code)];
        let (mapping, asked) = Router::start(Box::new(script)).map(ENOUGH);
        assert_eq!((refused(mapping), asked.len()), (told.to_owned(), 1));
    }
}

#[test]
fn a_round_asks_every_router_and_tells_what_is_mapped() {
    let first = Router::start(Box::new(|_, request| vec![granted(request, 9333, 1_800, 0)]));
    let second = Router::start(Box::new(|_, request| vec![granted(request, 9334, 600, 0)]));
    let third = Router::start(Box::new(|_, request| vec![granted(request, 0, 0, 2)]));
    let routes = vec![third.route, first.route, second.route];
    let (_ending, mapper, news) = mapper(ENOUGH, routes);
    let round = mapper.round(&NONCE);
    assert_eq!(round.lifetime, Some(600), "the shortest");
    assert_eq!(round.faults.len(), 1);
    let told: Vec<String> = news.try_iter().map(|address| address.to_string()).collect();
    assert_eq!(told, ["9.8.7.6:9333", "9.8.7.6:9334"]);
}

/// It has forgotten everything, and gives another port to the same number.
#[test]
fn a_router_that_was_restarted_gives_another_mapping() {
    let router = Router::start(Box::new(|n, request| {
        let mut answer = granted(request, 9333 + n as u16, 1_800, 0);
        // Its clock begins anew.
        answer[8..12].copy_from_slice(&(1_000 - 999 * n as u32).to_be_bytes());
        vec![answer]
    }));
    let (_ending, mapper, news) = mapper(ENOUGH, vec![router.route]);
    for _ in 0..2 {
        mapper.round(&NONCE);
    }
    let told: Vec<String> = news.try_iter().map(|address| address.to_string()).collect();
    assert_eq!(told, ["9.8.7.6:9333", "9.8.7.6:9334"]);
    let asked: Vec<Vec<u8>> = router.asked.try_iter().collect();
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn an_address_that_is_not_ours_is_asked_for_by_nobody() {
    let router = Router::start(Box::new(|_, request| vec![granted(request, 9333, 1_800, 0)]));
    let (_ending, mapper, _news) = mapper(ENOUGH, Vec::new());
    for own in [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv6Addr::LOCALHOST.into()] {
        let mapping = mapper.map(&Route { own, ..router.route }, &NONCE);
        assert!(matches!(mapping, Err(Fault::Io(_))), "{own}: {mapping:?}");
    }
    assert_eq!(router.asked.try_iter().count(), 0);
}

#[test]
fn the_node_hears_of_a_mapping_and_its_end_waits_for_no_router() {
    let router = Router::start(Box::new(|_, request| vec![granted(request, 9333, 1_800, 0)]));
    let route = router.route;
    let thread =
        PortMapThread::start(PORT, ENOUGH, Box::new(move || vec![route])).expect("a thread");
    let told = thread.news.recv_timeout(LIMIT).expect("a mapping");
    assert_eq!(told.to_string(), "9.8.7.6:9333");
    // It sleeps for a quarter of an hour.
    drop(thread);

    let silent = Router::start(Box::new(|_, _| Vec::new()));
    let route = silent.route;
    let thread =
        PortMapThread::start(PORT, ENOUGH, Box::new(move || vec![route])).expect("a thread");
    silent.asked.recv_timeout(LIMIT).expect("a request");
    assert_eq!(thread.take_news(), None);
    drop(thread);
}

#[test]
fn a_mapping_is_renewed_at_half_of_its_lifetime() {
    let seconds = |lifetime, random| pause_of(lifetime, random).as_secs();
    assert_eq!([seconds(None, 0), seconds(None, 255)], [300; 2]);
    assert_eq!(seconds(Some(2_400), 0), 1_200);
    assert_eq!(seconds(Some(2_400), 128), 1_350);
    assert_eq!(seconds(Some(2_400), 255), 1_498, "less than five eighths");
    assert_eq!(seconds(Some(30), 0), 15);
    assert_eq!(seconds(Some(u32::MAX), 0), u64::from(u32::MAX / 2));
}
