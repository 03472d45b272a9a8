//! Tells a fault of our own line from faults of peers.
//!
//! A line that is down looks like peers that are silent. What tells the two apart is that *all* of
//! them are. So while peers owe something and nothing arrives, two others are pinged every few
//! seconds: a live line answers. If nothing comes, the time by which peers are judged stands still:
//!
//! ```text
//!               |<- ANSWER ->|
//! ----------x                                       x--------  x: something arrives
//! clock     -------------------------------------------------
//! line time -----------------+                      +--------  stands still: nobody is judged
//!              ping  ping  ping ...  "No network"  "back"
//! ```
//!
//! Deadlines for answers ([`Line::time`]) are measured in line time. Those of twenty minutes are not: by
//! then the connections are dead whatever happened.
//!
//! 1. The silence of one peer is the peer's; that of two is the line's, as is that of one while
//!    connections cannot be opened either.
//! 2. A connection that was not opened for want of an answer counts against the address only if
//!    something else arrives meanwhile.
//! 3. Who says nothing after the line is back although others do was lost with it, which is nobody's
//!    fault.

pub(super) mod watch;

use std::time::Duration;

use log::{info, warn};

use crate::net_address::NetAddress;
use crate::time::Now;

/// After this long without a byte from anybody, while something is owed, others are asked.
const ASK_AFTER: Duration = Duration::from_secs(5);

/// A live line answers a question in less.
const ANSWER: Duration = Duration::from_secs(5);

/// After this long without an answer from anybody the log says that there is no network.
const DECLARE_AFTER: Duration = Duration::from_secs(25);

/// How many have to be silent.
const WITNESSES: usize = 2;

/// When the line is back, peers get this long to be heard, and as long as it was down: so long may
/// their system wait until it sends again what was lost ...
const RETURN_TIME: Duration = Duration::from_secs(30);
/// ... at most.
const MAX_BACKOFF: Duration = Duration::from_secs(2 * 60);

/// Failed connections of which it is not known whose fault they are; further ones count against nobody.
const MAX_UNJUDGED: usize = 32;

/// The line is back.
#[derive(Clone, Copy, Debug)]
struct Return {
    at: Duration,
    /// Who was not heard by then was lost.
    patience_ends: Duration,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Line {
    /// When something last arrived from anybody.
    heard: Duration,
    /// Up to when [`time`](Self::time) is counted.
    counted: Duration,
    time: Duration,
    /// When others were first asked, and last, since something was heard.
    asked: Option<(Duration, Duration)>,
    /// Peers that could have been heard, as of the last look at them.
    peers: usize,
    /// Connections that failed since something was heard, and not because the other side said so.
    failed: usize,
    /// Addresses of such connections that may count.
    unjudged: Vec<NetAddress>,
    /// Since when nothing arrives; the log said so.
    silent_since: Option<Duration>,
    returned: Option<Return>,
}

impl Line {
    pub(super) fn new(now: Now) -> Self {
        Self {
            heard: now.monotonic,
            counted: now.monotonic,
            time: now.monotonic,
            asked: None,
            peers: 0,
            failed: 0,
            unjudged: Vec::new(),
            silent_since: None,
            returned: None,
        }
    }

    /// Time that counts against peers.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    /// Whether new connections are to show if the line is alive: because nothing arrives, or while those
    /// that stood when it was down may be lost.
    pub(super) fn is_probed(&self) -> bool {
        self.silent_since.is_some() || self.returned.is_some()
    }

    /// Since when there is no network, as the log says.
    pub(super) fn silent_since(&self) -> Option<Duration> {
        self.silent_since
    }

    /// Time has passed.
    pub(super) fn advance(&mut self, now: Now) {
        let end = match self.asked {
            Some((first, _)) if self.peers + self.failed >= WITNESSES => {
                now.monotonic.min(first.saturating_add(ANSWER))
            }
            _ => now.monotonic,
        };
        self.time += end.saturating_sub(self.counted);
        self.counted = self.counted.max(now.monotonic);
    }

    /// While the chain takes no blocks, nothing is read of many peers: that is no silence.
    pub(super) fn excuse(&mut self, now: Now) {
        self.heard = self.heard.max(now.monotonic);
        self.asked = None;
    }

    /// Something arrived. Returns the addresses that did not answer although the line was alive.
    fn hear(&mut self, now: Now) -> Vec<NetAddress> {
        let answers = self.asked.take().is_none_or(|(first, _)| now.monotonic <= first + ANSWER);
        self.heard = now.monotonic;
        self.failed = 0;
        if let Some(since) = self.silent_since.take() {
            let down = now.monotonic.saturating_sub(since);
            info!("The network is back after {} s.", down.as_secs());
            let patience_ends = now.monotonic + RETURN_TIME + down.min(MAX_BACKOFF);
            self.returned = Some(Return { at: now.monotonic, patience_ends });
        }
        let unjudged = std::mem::take(&mut self.unjudged);
        if answers { unjudged } else { Vec::new() }
    }

    fn is_asking_due(&self, now: Now) -> bool {
        let due = |since: Duration| now.monotonic >= since.saturating_add(ASK_AFTER);
        due(self.heard) && self.asked.is_none_or(|(_, last)| due(last))
    }

    /// Nothing arrives although peers were asked.
    fn declare(&mut self, now: Now) {
        let unanswered = self.asked.map_or(Duration::ZERO, |(first, _)| now.monotonic - first);
        let silent = unanswered >= DECLARE_AFTER && self.peers + self.failed >= WITNESSES;
        if !silent || self.silent_since.is_some() {
            return;
        }
        self.silent_since = Some(self.heard);
        self.returned = None;
        warn!(
            "No network for {} s: nothing arrives from {} peers, and {} connections could not be opened. \
             It counts against nobody.",
            (now.monotonic - self.heard).as_secs(),
            self.peers,
            self.failed
        );
    }
}
