//! What a client of the RPC server sends, in pieces and with pauses: each request that reaches the methods is
//! one that a naive reader finds where it is, with the login of its own head. Answers are well-formed, in
//! order and of the known statuses; the connection ends, and holds no more than what was sent; and the same
//! bytes have the same answers however they come.

mod answer;
mod seeds;
mod twin;
mod wire;

use std::cell::RefCell;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use godwit_http::{
    AnswerBody, Asked, Bodies, ContentKind, Credentials, FIRST_LOGIN, Job, LogLimit, Reply,
    RpcAuth, Service, serve,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::input::Input;
use crate::memory::within;
use answer::{Answer, Answers};
pub(crate) use seeds::seeds;
use twin::{Body, Fate, LOGINS, Request};
use wire::{End, Wire};

/// Bytes of an input with another meaning than themselves.
const CUT: u8 = 0xff;
/// So many tenths of a second, in the next byte.
const PAUSE: u8 = 0xfe;
/// As many times 256 as the next byte says, the byte behind that.
const FILL: u8 = 0xfd;

/// Pauses at most: the time that they take is not the fuzzer's.
const MAX_PAUSES: usize = 20;

/// Bytes that are sent at most.
const MAX_SENT: usize = 256 << 10;

/// How long the client may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Behind each piece, in which the server does what it has to do with it: the clock goes on only when there
/// is nothing to do.
const SETTLE: Duration = Duration::from_millis(1);

/// Between two looks at the queue of requests.
const LOOK: Duration = Duration::from_millis(20);

/// Memory of bodies.
const BODIES: usize = 128 << 10;

/// Memory of a connection, beside what was sent and answered.
const CONNECTION_BYTES: usize = 512 << 10;

/// What is held of a byte that was sent: itself in the socket and twice in a body that grows, and answers,
/// which are longer than the shortest requests.
const BYTES_PER_BYTE: usize = 32;

/// The hash of an empty password with the salt `s`.
const HASH: &str = "64eca07cce67929c357d63d0a4aec207e774800403298914fc04e88ce02ac49f";

/// Where the client is.
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// How server and client are: bits of the first byte of an input.
#[derive(Clone, Copy)]
struct Terms(u8);

impl Terms {
    /// The client says nothing more at the end, and waits.
    const STAYS: u8 = 1;
    const GONE: u8 = 2;
    const READS_LITTLE: u8 = 4;
    const STOPS: u8 = 8;
    const SERVES_RESOURCES: u8 = 16;
    const OTHERS_WAIT: u8 = 32;
    /// No request finds a place in the queue.
    const FULL: u8 = 64;
    /// Each byte comes by itself.
    const SINGLE: u8 = 128;

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Whether the client sends all, reads all and says when it has sent all, and the server stays: then
    /// nothing is left out.
    fn is_whole(self) -> bool {
        !(self.has(Self::STAYS)
            || self.has(Self::GONE)
            || self.has(Self::READS_LITTLE)
            || self.has(Self::STOPS))
    }

    fn service(self, jobs: crossbeam_channel::Sender<Job>) -> Service {
        let user = |(user, _): &(&str, &[u8])| {
            RpcAuth::parse(&format!("{user}:s${HASH}")).expect("a user with a hash")
        };
        let is_resource: fn(&str) -> bool = twin::is_resource;
        Service {
            credentials: Credentials(LOGINS.iter().map(user).collect()),
            silence: Some(SILENCE),
            is_resource: self.has(Self::SERVES_RESOURCES).then_some(is_resource),
            waiting: AtomicUsize::new(self.has(Self::OTHERS_WAIT).into()),
            bodies: Bodies::new(BODIES),
            jobs,
            wrong_passwords: LogLimit::default(),
            full_queues: LogLimit::default(),
        }
    }
}

enum Step {
    Send(Vec<u8>),
    Pause(Duration),
}

fn steps(mut input: Input<'_>, single: bool) -> Vec<Step> {
    let (mut steps, mut piece) = (Vec::new(), Vec::new());
    let (mut sent, mut pauses) = (0, 0);
    while !input.is_empty() && sent < MAX_SENT {
        let byte = input.u8();
        match byte {
            CUT | PAUSE => steps.push(Step::Send(std::mem::take(&mut piece))),
            FILL => {
                let count = 256 * usize::from(input.u8());
                piece.extend(std::iter::repeat_n(input.u8(), count));
                sent += count;
            }
            byte => {
                piece.push(byte);
                sent += 1;
                if single && steps.len() < 1000 {
                    steps.push(Step::Send(std::mem::take(&mut piece)));
                }
            }
        }
        if byte == PAUSE && pauses < MAX_PAUSES {
            steps.push(Step::Pause(Duration::from_millis(100 * u64::from(input.u8()))));
            pauses += 1;
        }
    }
    steps.push(Step::Send(piece));
    steps
}

/// A request that has reached the methods.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    asked: Asked,
    body: Vec<u8>,
}

impl Taken {
    /// With which status it is answered, and what: nobody else has the same.
    fn reply(&self) -> Option<(u16, String)> {
        match self.body.first() {
            Some(b'd') => None,
            Some(b'n') => Some((204, String::new())),
            _ => {
                let (length, sum) = (self.body.len(), crc32c::crc32c(&self.body));
                Some((200, format!("{:?}: {length} {sum:08x}", self.asked)))
            }
        }
    }
}

/// What came of a connection.
struct Outcome {
    taken: Vec<Taken>,
    answers: Vec<u8>,
    time: Duration,
}

/// Answers what comes into the queue.
async fn work_on(queue: &crossbeam_channel::Receiver<Job>, taken: &RefCell<Vec<Taken>>) {
    loop {
        work(queue, taken);
        sleep(LOOK).await;
    }
}

/// Answers what is in the queue, or drops what asks for that.
fn work(queue: &crossbeam_channel::Receiver<Job>, taken: &RefCell<Vec<Taken>>) {
    while let Ok(Job { asked, body, reply }) = queue.try_recv() {
        let job = Taken { asked, body: body.bytes };
        if let Some((status, text)) = job.reply() {
            let bytes = text.into_bytes().into();
            let body = (status != 204).then_some(AnswerBody { kind: ContentKind::Json, bytes });
            // The client may be gone.
            drop(reply.send(Reply { status, body }));
        }
        taken.borrow_mut().push(job);
    }
}

/// How long a connection may take: what is waited for behind pauses, and for each wrong login.
fn longest(steps: &[Step]) -> Duration {
    let of_step = |step: &Step| match step {
        Step::Send(bytes) => SETTLE + Duration::from_millis(30) * bytes.len() as u32,
        Step::Pause(time) => *time,
    };
    steps.iter().map(of_step).sum::<Duration>() + FIRST_LOGIN + 3 * SILENCE
}

/// The connection, in a time of its own.
fn exchange(terms: Terms, steps: &[Step]) -> Outcome {
    let (jobs, queue) = crossbeam_channel::bounded(if terms.has(Terms::FULL) { 0 } else { 1 });
    let service = Arc::new(terms.service(jobs));
    let room = if terms.has(Terms::READS_LITTLE) { 300 } else { usize::MAX };
    let wire = Arc::new(Wire::new(room));
    let taken = RefCell::default();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let time = runtime.expect("neither threads nor sockets").block_on(async {
        let start = Instant::now();
        let (stop, stopped) = watch::channel(false);
        let client = async {
            for step in steps {
                match step {
                    Step::Send(bytes) => wire.send(bytes),
                    Step::Pause(time) => sleep(*time).await,
                }
                sleep(SETTLE).await;
            }
            if terms.has(Terms::STOPS) {
                stop.send_replace(true);
            }
            if terms.has(Terms::GONE) {
                wire.finish(End::Gone);
            } else if !terms.has(Terms::STAYS) {
                wire.finish(End::HalfClosed);
            }
            pending::<()>().await
        };
        tokio::select! {
            biased;
            () = serve(Arc::clone(&wire), PEER, service, stopped) => {}
            () = client => {}
            () = work_on(&queue, &taken) => {}
            () = sleep(longest(steps)) => panic!("the connection does not end"),
        }
        start.elapsed()
    });
    work(&queue, &taken);
    Outcome { taken: taken.into_inner(), answers: wire.answers(), time }
}

/// See the module's documentation.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let terms = Terms(input.u8());
    let steps = steps(input, terms.has(Terms::SINGLE));
    let mut sent = Vec::new();
    for step in &steps {
        if let Step::Send(bytes) = step {
            sent.extend_from_slice(bytes);
        }
    }
    let bytes = CONNECTION_BYTES + BYTES_PER_BYTE * sent.len();
    let outcome = within(bytes, || exchange(terms, &steps));
    // A client that has not logged in, or one that is silent for long, is left out for the rest.
    let is_whole = |outcome: &Outcome| terms.is_whole() && outcome.time < FIRST_LOGIN - LOOK;
    follow(terms, &sent, &outcome, is_whole(&outcome));
    if is_whole(&outcome) && steps.len() > 1 {
        let at_once = exchange(terms, &[Step::Send(sent.clone())]);
        if is_whole(&at_once) {
            follow(terms, &sent, &at_once, true);
            assert_eq!(outcome.taken, at_once.taken, "the same requests in pieces and at once");
            let heads = heads(&sent);
            assert_eq!(said(&outcome, &heads), said(&at_once, &heads), "and the same answers");
        }
    }
}

/// Which of the requests ask for heads of answers alone, as far as they can be read.
fn heads(mut sent: &[u8]) -> Vec<bool> {
    let mut heads = Vec::new();
    while let Some(request) = twin::read(sent) {
        heads.push(request.is_head());
        match request.body(u64::MAX) {
            Body::Whole { rest, .. } => sent = rest,
            Body::TooLong | Body::Broken => break,
        }
    }
    heads
}

/// The answers, but for the time that they name, and for that to what is no request: whether that is refused
/// before its end depends on how much of it is there.
fn said(outcome: &Outcome, heads: &[bool]) -> Vec<(u16, Vec<u8>)> {
    let mut answers = Answers::new(&outcome.answers, true);
    let mut said = Vec::new();
    for is_head in heads.iter().copied().chain([false]) {
        match answers.next(is_head) {
            Some(answer) if !answer.refuses_bytes() => {
                said.push((answer.status, answer.body.to_vec()));
            }
            _ => break,
        }
    }
    said
}

/// A connection's requests beside what came of them.
struct Follower<'a> {
    terms: Terms,
    taken: std::slice::Iter<'a, Taken>,
    is_whole: bool,
}

/// Goes from request to request, and takes for each what reached the methods and what was answered.
fn follow(terms: Terms, sent: &[u8], outcome: &Outcome, is_whole: bool) {
    let mut follower = Follower { terms, taken: outcome.taken.iter(), is_whole };
    let mut answers = Answers::new(&outcome.answers, is_whole);
    let mut left = Some(sent);
    while let Some(text) = left {
        left = match twin::read(text) {
            Some(request) => follower.follow(&request, answers.next(request.is_head()).as_ref()),
            None => {
                let answer = answers.next(false);
                assert!(answer.is_none_or(|answer| answer.refuses_bytes()), "to no request");
                None
            }
        }
    }
    let taken = follower.taken.as_slice();
    assert!(taken.is_empty(), "requests that nobody has sent: {taken:?}");
    assert!(answers.are_over(), "answers to nothing");
}

impl Follower<'_> {
    /// What comes behind a request, if the connection goes on.
    fn follow<'a>(
        &mut self,
        request: &Request<'a>,
        answer: Option<&Answer<'_>>,
    ) -> Option<&'a [u8]> {
        let Some(answer) = answer else {
            self.follow_unanswered(request);
            return None;
        };
        if answer.refuses_bytes() {
            assert!(request.may_be_refused(), "{answer:?}");
            return None;
        }
        assert!(answer.closes() || !self.terms.has(Terms::OTHERS_WAIT), "{answer:?}");
        let fate = self.fate(request, answer);
        match request.body(fate.most()) {
            Body::Whole { has_trailers: true, .. } | Body::Broken if answer.status == 400 => {
                assert!(answer.closes(), "{answer:?}");
                None
            }
            Body::Broken => panic!("half a body is answered: {answer:?}"),
            Body::TooLong => {
                let status = match fate {
                    Fate::Asks(_) => 413,
                    Fate::Refused(status) => status,
                };
                assert!(answer.status == status && answer.closes(), "{answer:?}");
                None
            }
            Body::Whole { bytes, rest, .. } => {
                self.check_answer(fate, bytes, request.is_head(), answer);
                (!answer.closes() && !request.closes()).then_some(rest)
            }
        }
    }

    /// It may have reached the methods.
    fn follow_unanswered(&mut self, request: &Request<'_>) {
        let fate = request.fate(self.terms.has(Terms::SERVES_RESOURCES));
        let body = request.body(fate.most());
        assert!(!self.is_whole || matches!(body, Body::Broken), "a request without an answer");
        if let Some(job) = self.taken.next() {
            let Body::Whole { bytes, .. } = body else { panic!("half of it is taken: {job:?}") };
            match (fate, request.is_plain()) {
                (Fate::Asks(asked), true) => assert_eq!(*job, Taken { asked, body: bytes }),
                (Fate::Refused(_), true) => panic!("it may not ask: {job:?}"),
                (_, false) => self.check_odd(request, &job.asked),
            }
        }
    }

    /// What becomes of a request. Of a target that is not plain the server says it.
    fn fate(&self, request: &Request<'_>, answer: &Answer<'_>) -> Fate {
        if request.is_plain() {
            return request.fate(self.terms.has(Terms::SERVES_RESOURCES));
        }
        match self.taken.as_slice().first() {
            Some(job) if [200, 204, 503].contains(&answer.status) => {
                self.check_odd(request, &job.asked);
                Fate::Asks(job.asked.clone())
            }
            // The queue is full, which only those who may ask are told.
            _ if answer.status == 503 => {
                let asked = match request.user() {
                    Some(user) => Asked::Calls { user: user.to_owned() },
                    None => Asked::Resource { target: String::new() },
                };
                self.check_odd(request, &asked);
                Fate::Asks(asked)
            }
            _ => Fate::Refused(answer.status),
        }
    }

    /// Who asks is in the head in any case.
    fn check_odd(&self, request: &Request<'_>, asked: &Asked) {
        match asked {
            Asked::Calls { user } => assert_eq!(request.user(), Some(&**user)),
            Asked::Resource { .. } => assert!(self.terms.has(Terms::SERVES_RESOURCES)),
        }
    }

    /// Of a request that is there as a whole.
    fn check_answer(&mut self, fate: Fate, bytes: Vec<u8>, is_head: bool, answer: &Answer<'_>) {
        let (status, text) = match fate {
            Fate::Refused(status @ (401 | 404)) => (status, String::new()),
            Fate::Refused(status) => {
                assert_eq!(answer.status, status, "{answer:?}");
                return;
            }
            Fate::Asks(_) if self.terms.has(Terms::FULL) => {
                (503, "Work queue depth exceeded".to_owned())
            }
            Fate::Asks(asked) => {
                let job = Taken { asked, body: bytes };
                assert_eq!(self.taken.next(), Some(&job), "what reaches the methods");
                let dropped = || (503, "Request rejected during server shutdown".to_owned());
                job.reply().unwrap_or_else(dropped)
            }
        };
        let text = if is_head { String::new() } else { text };
        assert_eq!((answer.status, answer.body), (status, text.as_bytes()), "{answer:?}");
    }
}
