//! Proves claims: puts the checks of many inputs into batches, in several rounds for claims whose checks
//! depend on each other.

use std::ops::Sub;

use godwit_verify::{Answer, BackendKind, Check, Verifier};

use crate::claim::Claim;
use crate::forms::MAX_KEYS;
use crate::multisig::{Known, MatchOrder, Multisig};

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It holds: Core's engine would accept the input.
    Proven,
    /// Nothing is known about the input.
    NotProven,
}

/// Collects claims of inputs of any transactions and blocks, each with an identity, and proves them in full
/// batches. Each thread has a queue of its own; claims wait in it only until [`ClaimQueue::flush`].
///
/// A check that the lanes do not prove is not repeated by libsecp256k1: most of several keys do not fit, and
/// what is not proven goes to Core's engine, which makes the same checks.
pub struct ClaimQueue<Id> {
    verifier: Verifier<Ticket>,
    order: MatchOrder,
    effort: Effort,
    /// Waiting checks; fewer than a batch between two calls.
    waiting: Vec<(Ticket, Check)>,
    /// Claims that wait for an answer, found by their tickets.
    open: Vec<Option<Open<Id>>>,
    free: Vec<usize>,
    /// Set while answers are given out: if that panics, some claims are left half answered.
    running: bool,
}

/// Numbers of checks of settled claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Checks of all claims.
    pub(crate) checks: u64,
    /// Checks of claims that were not proven.
    pub(crate) vain: u64,
}

/// The effort since an earlier moment.
impl Sub for Effort {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { checks: self.checks - earlier.checks, vain: self.vain - earlier.vain }
    }
}

/// A check of an open claim.
#[derive(Clone, Copy)]
struct Ticket {
    claim: usize,
    check: u32,
}

struct Open<Id> {
    id: Id,
    /// State for later rounds.
    multisig: Option<Box<Multisig>>,
    /// Checks asked in all rounds.
    asked: u64,
    unanswered: usize,
    /// A bit for each check of the round that was not proven.
    refused: u32,
}

// The answers of a round fit into `refused`.
const _: () = assert!(MAX_KEYS <= u32::BITS as usize);

impl<Id> ClaimQueue<Id> {
    /// Checks that are proven in one batch.
    pub const BATCH: usize = Verifier::<Ticket>::BATCH;

    /// Uses the fastest lanes of this processor, and Core's own order if it has none.
    pub fn new() -> Self {
        Self::with(Verifier::new())
    }

    /// Uses the given backend; `None` if the processor cannot run it.
    pub fn with_backend(kind: BackendKind) -> Option<Self> {
        Verifier::with_backend(kind).map(Self::with)
    }

    fn with(verifier: Verifier<Ticket>) -> Self {
        let order = match verifier.backend() {
            BackendKind::Single => MatchOrder::Core,
            _ => MatchOrder::Ends,
        };
        let (effort, waiting, open, free) = Default::default();
        let verifier = verifier.without_second_opinion();
        Self { verifier, order, effort, waiting, open, free, running: false }
    }

    /// The lanes in use.
    pub fn backend(&self) -> BackendKind {
        self.verifier.backend()
    }

    /// How checks were answered so far.
    pub fn check_counts(&self) -> godwit_verify::Counts {
        self.verifier.counts()
    }

    /// The effort of the claims settled so far.
    pub(crate) fn effort(&self) -> Effort {
        self.effort
    }

    /// Number of claims that are not settled.
    pub fn len(&self) -> usize {
        self.open.len() - self.free.len()
    }

    /// Whether every claim is settled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a claim. While there are full batches, proves them, and settles the claims that this decides.
    pub fn push(&mut self, id: Id, claim: Claim, mut settle: impl FnMut(Id, Proof)) {
        let (multisig, checks) = match claim {
            Claim::Signature(check) => (None, vec![check]),
            Claim::Leaf(checks) => (None, checks.to_vec()),
            Claim::Multisig(multisig) => {
                let checks = multisig.checks(self.order);
                (Some(multisig), checks)
            }
        };
        let open = Open { id, multisig, asked: 0, unanswered: 0, refused: 0 };
        let claim = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.ask(claim, open, checks);
        while self.waiting.len() >= Self::BATCH {
            self.run(Self::BATCH, &mut settle);
        }
    }

    /// Settles every claim.
    pub fn flush(&mut self, mut settle: impl FnMut(Id, Proof)) {
        while !self.waiting.is_empty() {
            self.run(self.waiting.len().min(Self::BATCH), &mut settle);
        }
    }

    /// Appends a claim's next checks to those that wait.
    fn ask(&mut self, claim: usize, open: Open<Id>, checks: Vec<Check>) {
        let asked = open.asked + checks.len() as u64;
        self.open[claim] = Some(Open { asked, unanswered: checks.len(), refused: 0, ..open });
        let tickets = (0..).map(|check| Ticket { claim, check });
        self.waiting.extend(tickets.zip(checks));
    }

    /// Proves the first `count` checks that wait.
    fn run(&mut self, count: usize, settle: &mut impl FnMut(Id, Proof)) {
        assert!(!self.running, "the queue is not used again after a panic");
        self.running = true;
        for (ticket, check) in self.waiting.drain(..count) {
            self.verifier.push(ticket, check);
        }
        let mut answered = Vec::new();
        self.verifier.run(|Ticket { claim, check }, answer| {
            let open = self.open[claim].as_mut().expect("a check belongs to an open claim");
            open.unanswered -= 1;
            open.refused |= u32::from(answer != Answer::Yes) << check;
            if open.unanswered == 0 {
                answered.push(claim);
            }
        });
        for claim in answered {
            self.answer(claim, settle);
        }
        self.running = false;
    }

    /// Called when all checks of the claim's round are answered.
    fn answer(&mut self, claim: usize, settle: &mut impl FnMut(Id, Proof)) {
        let mut open = self.open[claim].take().expect("it was answered once");
        let known = match &mut open.multisig {
            Some(multisig) => multisig.advance(self.order, open.refused),
            None if open.refused == 0 => Known::Proven,
            None => Known::NotProven,
        };
        if let (Known::Open, Some(multisig)) = (known, &open.multisig) {
            let checks = multisig.checks(self.order);
            return self.ask(claim, open, checks);
        }
        self.free.push(claim);
        self.effort.checks += open.asked;
        self.effort.vain += if known == Known::Proven { 0 } else { open.asked };
        settle(open.id, if known == Known::Proven { Proof::Proven } else { Proof::NotProven });
    }
}

impl<Id> Default for ClaimQueue<Id> {
    fn default() -> Self {
        Self::new()
    }
}
