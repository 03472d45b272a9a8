//! Looks up host names.
//!
//! The system's resolver may block for any time and cannot be interrupted. So each name gets a
//! thread of its own, which is never joined; after [`LOOKUP_TIMEOUT`] the name counts as unknown,
//! and a later answer is dropped.

use std::collections::{HashMap, VecDeque};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use godwit_p2p::{NetAddress, NetEvent};

/// How long a lookup may take. The system's own limit is usually 10 to 30 seconds.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Most lookups that run at once; further names wait.
const MAX_LOOKUPS: usize = 8;

/// Most addresses that are used of one answer (Core: 32 of a seed, 256 of any other name).
const MAX_ADDRESSES: usize = 256;

struct Answer {
    host: String,
    addresses: Vec<NetAddress>,
}

/// Names that are being looked up or wait for it.
pub(crate) struct Resolver {
    answers: Receiver<Answer>,
    sender: Sender<Answer>,
    /// Different names: those that the options and the network's seeds give.
    waiting: VecDeque<String>,
    /// When each lookup times out.
    running: HashMap<String, Instant>,
    lookup: fn(&str) -> Vec<NetAddress>,
}

impl Resolver {
    pub(crate) fn new() -> Self {
        Self::with_lookup(system_lookup)
    }

    fn with_lookup(lookup: fn(&str) -> Vec<NetAddress>) -> Self {
        // Holds one answer of each thread, of which MAX_LOOKUPS are waited for; one that was given up
        // ends some time.
        let (sender, answers) = unbounded();
        let (waiting, running) = (VecDeque::new(), HashMap::new());
        Self { answers, sender, waiting, running, lookup }
    }

    /// Looks a name up, unless that is under way; the result comes from [`Self::poll`].
    pub(crate) fn resolve(&mut self, host: String) {
        if !self.running.contains_key(&host) && !self.waiting.contains(&host) {
            self.waiting.push_back(host);
        }
    }

    /// Lookups that were answered or timed out since the last call.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<NetEvent> {
        let mut events = Vec::new();
        for Answer { host, addresses } in self.answers.try_iter() {
            // An answer after the timeout is dropped.
            if self.running.remove(&host).is_some() {
                events.push(NetEvent::Resolved { host, addresses });
            }
        }
        self.running.retain(|host, deadline| {
            let late = *deadline <= now;
            if late {
                log::info!("Looking up {host} takes too long; given up.");
                events.push(NetEvent::Resolved { host: host.clone(), addresses: Vec::new() });
            }
            !late
        });
        while self.running.len() < MAX_LOOKUPS
            && let Some(host) = self.waiting.pop_front()
        {
            match self.start(host.clone()) {
                Ok(()) => drop(self.running.insert(host, now + LOOKUP_TIMEOUT)),
                Err(error) => {
                    log::warn!("No thread to look up {host}: {error}");
                    events.push(NetEvent::Resolved { host, addresses: Vec::new() });
                }
            }
        }
        events
    }

    fn start(&self, host: String) -> std::io::Result<()> {
        let (sender, lookup) = (self.sender.clone(), self.lookup);
        let run = move || {
            let addresses = lookup(&host);
            if sender.send(Answer { host, addresses }).is_err() {
                log::debug!("a name was found after the end");
            }
        };
        std::thread::Builder::new().name("godwit-dns".into()).spawn(run).map(drop)
    }
}

fn system_lookup(host: &str) -> Vec<NetAddress> {
    match (host, 0).to_socket_addrs() {
        Ok(found) => found.map(NetAddress::from).take(MAX_ADDRESSES).collect(),
        Err(error) => {
            log::info!("{host} was not found: {error}");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_answered(resolver: &mut Resolver) -> Vec<(String, usize)> {
        for _ in 0..6_000 {
            let events = resolver.poll(Instant::now());
            if !events.is_empty() {
                return named(events);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no answer in a minute");
    }

    fn named(events: Vec<NetEvent>) -> Vec<(String, usize)> {
        let answers = events.into_iter().map(|event| match event {
            NetEvent::Resolved { host, addresses } => (host, addresses.len()),
            other => panic!("{other:?}"),
        });
        answers.collect()
    }

    #[test]
    fn an_address_is_its_own_name() {
        let mut resolver = Resolver::new();
        resolver.resolve("127.0.0.1".into());
        assert_eq!(until_answered(&mut resolver), [("127.0.0.1".to_owned(), 1)]);
    }

    #[test]
    fn a_name_that_takes_too_long_is_given_up_once() {
        let mut resolver = Resolver::with_lookup(|_| {
            std::thread::sleep(Duration::from_millis(20));
            Vec::new()
        });
        resolver.resolve("slow.example".into());
        resolver.resolve("slow.example".into());
        let start = Instant::now();
        assert!(resolver.poll(start).is_empty());
        let late = named(resolver.poll(start + LOOKUP_TIMEOUT));
        assert_eq!(late, [("slow.example".to_owned(), 0)]);
        resolver.answers.recv_timeout(Duration::from_secs(60)).expect("the thread ends");
        assert!(resolver.poll(Instant::now()).is_empty());
    }

    #[test]
    fn names_beyond_the_limit_wait() {
        let mut resolver = Resolver::with_lookup(|_| Vec::new());
        for n in 0..3 * MAX_LOOKUPS {
            resolver.resolve(format!("{n}.example"));
        }
        let mut answered = 0;
        while answered < 3 * MAX_LOOKUPS {
            answered += until_answered(&mut resolver).len();
            assert!(resolver.running.len() <= MAX_LOOKUPS);
        }
    }
}
