//! The stack of a thread that encrypts is searched after each of its operations.

use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use godwit_p2p::{Command, Receive, ReceiveLimits, Transport};
use godwit_secret::residue::Needle;
use godwit_secret::{Declassified, SecretArray, run_on_secret_stack};

use crate::v2_residue::{Keys, carry, found, keys, keystream, needle, random, secret, send};
use crate::v2_residue::{Secret, shown, transport};

type Pair = Option<[Transport; 2]>;
type Job = Box<dyn FnOnce(&mut Pair) + Send>;

/// A thread that rests between its jobs, so that what they leave on its stack stays there.
struct Worker {
    jobs: Sender<Job>,
    done: Receiver<()>,
}

impl Worker {
    fn start() -> Self {
        let (jobs, to_do) = channel::<Job>();
        let (is_done, done) = channel();
        thread::spawn(move || {
            let mut pair = None;
            while let Ok(job) = to_do.recv() {
                below_what_resting_needs(|| job(&mut pair));
                is_done.send(()).expect("the test waits");
            }
        });
        Self { jobs, done }
    }

    fn run(&self, job: impl FnOnce(&mut Pair) + Send + 'static) {
        self.jobs.send(Box::new(job)).expect("the thread runs");
        self.done.recv().expect("the job succeeds");
    }

    fn run_on_pair(&self, job: impl FnOnce(&mut [Transport; 2]) + Send + 'static) {
        self.run(|pair| job(pair.as_mut().expect("there is a connection")));
    }
}

/// Waiting for the next job would else overwrite what is searched for.
#[inline(never)]
fn below_what_resting_needs(job: impl FnOnce()) {
    let mut frame = [0u8; 32 << 10];
    black_box(&mut frame);
    job();
    black_box(&mut frame);
}

/// The half of the key of a packet's tag that is added at the end, as it is and as the vector unit has
/// it: nothing that is computed on the way gives it away.
fn tag_needle(name: &str, key: &Secret, packet: u32) -> Needle {
    let whole = keystream(key, packet, 0, 0);
    let half = whole.expose_secret(|whole| {
        SecretArray::<16>::from_fn_in_place(|half| half.copy_from_slice(&whole[16..]))
    });
    let spread = whole.expose_secret(|whole| {
        secret(|spread| {
            for (to, from) in spread.chunks_exact_mut(8).zip(whole[16..].chunks_exact(4)) {
                to[..4].copy_from_slice(from);
            }
        })
    });
    Needle::new(&format!("tag of {name} {packet}"), &half.expect("locked memory"))
        .and_then(|needle| needle.form("spread", &spread))
        .expect("locked memory")
}

/// All that the connection has before its first change of keys.
fn needles(private: [Secret; 2], [ours, theirs]: [[u8; 64]; 2]) -> Vec<Needle> {
    let make = move || {
        let Keys { passed, present } = keys(&private[0], ours, theirs, 0);
        let tags = present.iter().filter(|(name, _)| name.contains("_P"));
        let tags: Vec<Needle> = tags
            .flat_map(|(name, key)| (0..3).map(move |packet| tag_needle(name, key, packet)))
            .collect();
        assert_eq!(tags.len(), 6);
        let [our_key, their_key] = private;
        let private = [("our key".to_owned(), our_key), ("their key".to_owned(), their_key)];
        private.iter().chain(&passed).chain(&present).map(needle).chain(tags).collect()
    };
    run_on_secret_stack(|| Declassified(make())).expect("locked memory").0
}

#[test]
fn no_operation_leaves_a_key_on_its_stack() {
    let _alone = crate::alone();
    let worker = Worker::start();
    let (our_key, their_key) = (random(), random());
    let (tell, publics) = channel();
    worker.run(move |pair| {
        let ((ours, our_public), (theirs, their_public)) =
            (transport(&our_key, true), transport(&their_key, false));
        *pair = Some([ours, theirs]);
        tell.send((our_key, our_public, their_key, their_public)).expect("the test waits");
    });
    let (our_key, ours, their_key, theirs) = publics.recv().expect("it was sent");
    let needles = needles([our_key, their_key], [ours, theirs]);
    let check = |what: &str| {
        let mut findings = found(&needles);
        findings.retain(|finding| !finding.protected);
        assert_eq!(shown(&findings), [""; 0], "{what}");
    };
    check("both are made");
    worker.run_on_pair(|[ours, theirs]| assert_eq!(carry(ours, theirs), 0));
    check("theirs has the keys");
    worker.run_on_pair(|[ours, theirs]| assert_eq!(carry(theirs, ours), 0));
    check("ours has the keys and a packet");
    worker.run_on_pair(|[ours, theirs]| assert_eq!(carry(ours, theirs), 0));
    check("theirs has a packet");
    worker.run_on_pair(|[ours, _]| send(ours, Command::PING, 900));
    check("ours has sealed");
    let (tell, rest) = channel();
    worker.run_on_pair(move |[ours, theirs]| {
        let mut bytes = Vec::new();
        ours.write(&mut bytes, usize::MAX).expect("a vector takes it");
        let rest = bytes.split_off(20);
        assert_eq!(receive(theirs, &bytes), 0);
        tell.send(rest).expect("the test waits");
    });
    check("theirs has the start of a packet");
    let mut half = rest.recv().expect("it was sent");
    let rest = half.split_off(300);
    worker.run_on_pair(move |[_, theirs]| assert_eq!(receive(theirs, &half), 0));
    check("theirs has half of it");
    worker.run_on_pair(move |[_, theirs]| assert_eq!(receive(theirs, &rest), 1));
    check("theirs has the other half");
    worker.run(|pair| *pair = None);
    check("both are gone");
}

/// Messages that come of it.
fn receive(transport: &mut Transport, mut bytes: &[u8]) -> usize {
    let limits = ReceiveLimits { expects_block: true, expects_compact: true };
    let mut messages = 0;
    while let Receive::Frame(_) =
        transport.receive(&mut bytes, &limits, usize::MAX).expect("it is right")
    {
        messages += 1;
    }
    messages
}
